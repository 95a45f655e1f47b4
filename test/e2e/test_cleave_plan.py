"""cleave-plan: what it finds is carried out by the passes it names, computes what one rank computes, and takes the time
that it predicts; no plan of its space simulates below its bound."""

import json
import math
import pathlib
import shlex
import signal
import subprocess

import float64
import gpt
import llama
import pytest
import torch
from combinations_cover import part_of_today
from matrix_runs import STEPS, Tools, difference

import cleave

BATCH, MICROBATCHES, TOLERANCE = 8, 4, 1e-9
CLUSTER = "A100"
# Two devices a node: on more ranks parameters may be sharded within nodes and replicated over them.
SMALL_NODES = pathlib.Path(__file__).resolve().parents[2] / "examples" / "devices" / "cluster-l4-nodes-of-2.json"


def make_spec(model, batch=BATCH):
    layers = 8 if model.endswith("8") else 4
    if model.startswith("gpt"):
        return float64.doubled(gpt._spec("gpt", gpt.GPTConfig(layers=layers), batch=batch))
    config = llama.LlamaConfig(vocabulary=128, layers=layers, width=32, hidden=64)
    return float64.doubled(llama.make_spec(config, "llama", batch=batch))


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    """A model's program and the data of all steps; by model and batch."""
    get = float64.exporter_with_data(make_spec, STEPS * MICROBATCHES, tmp_path_factory)
    return lambda model, batch=BATCH: get(model, batch)


@pytest.fixture(scope="module")
def tool(build_dir):
    def run(*arguments):
        command = [build_dir / "bin" / "cleave-plan", *arguments]
        return subprocess.run([str(part) for part in command], capture_output=True, text=True, timeout=600)

    return run


@pytest.fixture(scope="module")
def find(tool):
    def run(program, ranks, *options, microbatches=MICROBATCHES, cluster=CLUSTER):
        done = tool(
            program, f"--cluster={cluster}", f"--ranks={ranks}", f"--microbatches={microbatches}", "--json",
            "--time-limit=500", *options,  # a busy machine may take a while
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    return run


@pytest.fixture(scope="module")
def one_rank(exported, build_dir):
    known = {}

    def get(model):
        if model not in known:
            program, data = exported(model)
            known[model] = Tools(build_dir).train(program, data, "--microbatches", MICROBATCHES)
        return known[model]

    return get


# Ranks and what is fixed: plans that the search chooses by itself, and others of each kind.
CASES = [
    (2, ""),
    (4, ""),
    (2, "tp=2"),
    (4, "dp=2,tp=2,sequence=yes,parameters=fsdp"),
    (4, "dp=2,pp=2,parameters=fsdp-once,schedule=zbv"),
    (4, "tp=2,pp=2,schedule=interleaved-1f1b,recompute=full"),
    (4, "dp=4,parameters=replicated"),
    (4, "dp=2,tp=2,parameters=zero1"),
    (4, "dp=2,cp=2,parameters=fsdp"),
    (4, "cp=2,pp=2,parameters=zero1"),
    (4, "dp=4,replicas=2,parameters=fsdp"),
    (8, "dp=4,pp=2,replicas=2,parameters=fsdp-once,schedule=zb-h1"),
    (4, "dp=2,cp=2,replicas=2,parameters=fsdp"),  # sharded over the ring alone
]


# Unequal cuts of eight layers, and the first of each later stage.
UNEQUAL = {
    ("gpt8", 4, "pp=4,ends=2,schedule=1f1b"): [1, 4, 7],
    ("llama8", 4, "pp=4,ends=1,schedule=zb-h1"): [2, 5, 7],
    ("llama8", 2, "pp=2,chunks=2,ends=2,schedule=zbv"): [1, 4, 7],
}
# One after the other of both models, and a third of them in a run.
EXECUTED = part_of_today([(model, *case) for case in CASES for model in ("gpt", "llama")], 3) + list(UNEQUAL)


@pytest.mark.parametrize("model,ranks,fixed", EXECUTED, ids=[f"{m}-{ranks}-{fixed or 'free'}" for m, ranks, fixed in EXECUTED])
def test_plans_are_carried_out(exported, find, one_rank, build_dir, tmp_path, model, ranks, fixed):
    program, data = exported(model)
    found = find(program, ranks, f"--fix={fixed}", "-o", tmp_path)
    assert found["complete"] and found["gap"] == 0
    plan = found["best"]["plan"]
    assert math.prod(int(plan[axis]) for axis in ("dp", "tp", "pp", "cp")) == ranks
    for entry in filter(None, fixed.split(",")):
        name, value = entry.split("=")
        assert plan[name] == value
    assert json.loads((tmp_path / "plan.json").read_text())["best"] == found["best"]
    if (model, ranks, fixed) in UNEQUAL:
        firsts = found["commands"][0].split("at=")[1].split()[0].split(",")
        assert [int(name.rsplit(".", 1)[1]) for name in firsts] == UNEQUAL[model, ranks, fixed]
    check_commands(found, build_dir, tmp_path)
    check_training(found, program, data, build_dir, tmp_path, one_rank(model))


def check_commands(found, build_dir, folder):
    """What a plan's commands, as a user would run them, make takes and needs what was predicted."""
    optimize, simulate = found["commands"]
    assert f"{optimize}\n{simulate}\n" in (folder / "commands.sh").read_text()
    for command in (optimize, f"{simulate} --json"):
        name, *arguments = shlex.split(command)
        done = subprocess.run([build_dir / "bin" / name, *arguments], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
    step = json.loads(done.stdout)["step"]
    assert step["seconds"] == pytest.approx(found["best"]["seconds"], rel=1e-9)
    assert step["mfu"] == pytest.approx(found["best"]["mfu"], rel=1e-9)
    assert step["exposed_copies"] == pytest.approx(found["best"]["exposed_copies"], rel=1e-9)
    for kind in ("peak", "host"):
        bytes_of = [place[kind] for place in found["best"]["memory"]]
        assert [place[kind] for place in step["memory"]] == pytest.approx(bytes_of, rel=1e-9)


def check_training(found, program, data, build_dir, folder, of_one_rank):
    """That program trains as one rank does, by the command that the plan says."""
    local = folder / "program.mlir"
    assert (folder / "commands.sh").read_text().endswith(f"\n# {found['training']}\n")
    name, trained, *options, steps, n, data_option, source = shlex.split(found["training"])
    assert (name, trained) == ("cleave-run", str(local)) and [steps, n, data_option, source] == ["--steps", "N", "--data", "SOURCE"]
    as_threads = ["--ranks-as", "threads", "--timeout", 60] if found["ranks"] > 1 else []
    losses, tensors = Tools(build_dir).train(local, data, *options, *as_threads)
    expected_losses, expected = of_one_rank
    assert losses == pytest.approx(expected_losses, rel=TOLERANCE)
    distance, name = difference(tensors, expected)
    assert distance <= TOLERANCE, name


# Where a budget by rank helps: ranks of 1F1B have different numbers of microbatches in flight, one stage has all layers.
BUDGETS = part_of_today([("gpt8", "pp=4,schedule=1f1b"), ("llama8", "pp=2,dp=2,chunks=2,schedule=interleaved-1f1b,parameters=fsdp-once"),
           ("llama8", "pp=1,dp=4,parameters=fsdp"), ("gpt8", "pp=2,tp=2,schedule=gpipe"), ("llama8", "pp=4,chunks=2,schedule=zbv"),
           ("gpt8", "pp=1,dp=4,parameters=fsdp-once"), ("llama8", "pp=1,dp=4,replicas=2,parameters=fsdp")])  # fmt: skip


@pytest.mark.parametrize("model,fixed", BUDGETS, ids=[f"{model}-{fixed}" for model, fixed in BUDGETS])
def test_budgets_by_rank(exported, find, one_rank, build_dir, tmp_path, model, fixed):
    """Where not all that is computed fits, ranks that recompute what their memory asks for are faster than those that
    recompute alike."""
    program, data = exported(model)
    ways = [find(program, 4, f"--fix={fixed},recompute={way}")["best"] for way in ("cheap", "none")]
    cheap, none = (max(place["peak"] for place in way["memory"]) for way in ways)
    memory = int(0.1 * cheap + 0.9 * none)
    assert cheap < memory < none
    alike = find(program, 4, f"--fix={fixed}", f"--memory={memory}", "--budgets=0")
    found = find(program, 4, f"--fix={fixed}", f"--memory={memory}", "-o", tmp_path)
    assert "budgets" not in alike and alike["best"]["plan"]["recompute"] != "none"
    best, budgets = found["best"], found["budgets"]
    assert best["plan"]["recompute"] == "budget" and best["seconds"] < alike["best"]["seconds"]
    assert all(place["peak"] <= memory for place in best["memory"])
    # The space's bound is that of plans whose ranks recompute alike.
    assert found["lower_bound"] == alike["lower_bound"] and found["gap"] == 0
    assert 1 <= budgets["tried"] <= 8 and budgets["seconds"] == best["seconds"]
    # Of whatever backwards recompute: nothing is known of what communication it repeats, or of FSDP's in a microbatch.
    assert 0.8 * best["seconds"] < budgets["lower_bound"] <= best["seconds"]
    assert budgets["gap"] == pytest.approx(1 - budgets["lower_bound"] / best["seconds"])
    assert f"memory={best['plan']['budget']}" in found["commands"][0]
    check_commands(found, build_dir, tmp_path)
    check_training(found, program, data, build_dir, tmp_path, one_rank(model))
    # Nothing is to be gained where all fits, or where the way is fixed.
    assert "budgets" not in find(program, 4, f"--fix={fixed}")
    assert "budgets" not in find(program, 4, f"--fix={fixed},recompute=cheap", f"--memory={memory}")


def test_budgets_that_are_refused_are_listed(exported, tool, find):
    """With less memory than a schedule needs whatever its ranks recompute."""
    program, _ = exported("gpt8")
    full = find(program, 4, "--fix=pp=4,schedule=1f1b,recompute=full")["best"]
    memory = int(0.94 * max(place["peak"] for place in full["memory"]))
    budgets = find(program, 4, "--fix=pp=4", f"--memory={memory}")["budgets"]
    assert 1 <= len(budgets["refused"]) <= budgets["tried"]
    for each in budgets["refused"]:
        assert each["plan"]["recompute"] == "budget" and int(each["plan"]["budget"]) <= memory
        assert each["reason"].startswith("cannot do with ") and each["plan"]["schedule"] in each["reason"]
    text = tool(program, f"--cluster={CLUSTER}", "--ranks=4", f"--microbatches={MICROBATCHES}", "--fix=pp=4", f"--memory={memory}").stdout
    assert text.count("\n  refused: ") == len(budgets["refused"]) and "needs" in text.split("  refused: ")[1]


def describe_cluster(folder, host_bandwidth, host_memory):
    """Nodes of slow devices, so that small models keep them busy, with a host as near as `host_bandwidth` (bytes per second)
    that has `host_memory` bytes for each."""
    devices = pathlib.Path(__file__).resolve().parents[2] / "examples" / "devices"
    for name in ("a100", "nvlink3", "infiniband-hdr", "cluster-selene"):
        described = json.loads((devices / f"{name}.json").read_text())
        if name == "a100":
            described["facts"] |= {"memory_bandwidth": 1e9, "flops_32bit": 1e9, "host_bandwidth": host_bandwidth}
            described["constants"]["host_seconds"] = 0
        if name == "cluster-selene":
            described["host_memory_bytes"] = host_memory * described["devices_per_node"]
        (folder / f"{name}.json").write_text(json.dumps(described))
    return folder / "cluster-selene.json"


# Where recomputing takes longer than copies do beside kernels.
OFFLOADED = part_of_today([("gpt8", "pp=4,schedule=1f1b"), ("llama8", "pp=2,dp=2,chunks=2,schedule=interleaved-1f1b,parameters=fsdp-once"),
             ("llama8", "pp=4,chunks=2,schedule=zbv")])  # fmt: skip


def check_offload(found):
    """A plan offloads if it says so."""
    for each in (found["best"], *found["alternatives"]):
        assert (max(place["host"] for place in each["memory"]) > 0) == (each["plan"]["offload"] == "yes")


@pytest.mark.parametrize("model,fixed", OFFLOADED, ids=[f"{model}-{fixed}" for model, fixed in OFFLOADED])
def test_budgets_that_offload(exported, tool, find, one_rank, build_dir, tmp_path, model, fixed):
    """Where the host is near, what does not fit waits there, if it has room."""
    program, data = exported(model)
    near = describe_cluster(tmp_path, 1e10, 1e9)
    ways = [find(program, 4, f"--fix={fixed},recompute={way}", cluster=near)["best"] for way in ("cheap", "none")]
    cheap, none = (max(place["peak"] for place in way["memory"]) for way in ways)
    usual = (program, 4, f"--fix={fixed}", f"--memory={0.5 * cheap + 0.5 * none:.0f}")
    alike = find(*usual, cluster=near)
    found = find(*usual, "--offload", "-o", tmp_path / "found", cluster=near)
    best, budgets = found["best"], found["budgets"]
    assert alike["best"]["plan"]["offload"] == "no" and all(place["host"] == 0 for place in alike["best"]["memory"])
    assert best["plan"]["offload"] == "yes" and best["seconds"] < alike["best"]["seconds"]
    check_offload(found)
    # Plans that offload are bounded, too, so that the bound is no higher than that of plans that do not.
    assert 0.8 * best["seconds"] < budgets["lower_bound"] <= min(best["seconds"], alike["budgets"]["lower_bound"])
    assert f"cluster={near}" in found["commands"][0] and " offload=true" in found["commands"][0]
    check_commands(found, build_dir, tmp_path / "found")
    check_training(found, program, data, build_dir, tmp_path / "found", one_rank(model))
    # Where it is far away (no element is copied in a step), or has no room, they are slower, or do not fit.
    for bandwidth, room in ((1e-3, 1e9), (1e10, 1)):
        other = tmp_path / f"{bandwidth:.0e}-{room:.0e}"
        other.mkdir()
        found = find(*usual, "--offload", cluster=describe_cluster(other, bandwidth, room))
        assert found["best"]["seconds"] == alike["best"]["seconds"] and found["best"]["plan"]["offload"] == "no"
        check_offload(found)
    # It may be fixed. Budgets offload where that is worth it.
    memory = usual[-1]
    assert find(program, 4, f"--fix={fixed},offload=no", memory, cluster=near)["best"] == alike["best"]
    forced = find(program, 4, f"--fix={fixed},offload=yes", memory, cluster=describe_cluster(tmp_path, 1e10, 1e9))
    check_offload(forced)
    assert forced["best"] == best and forced["lower_bound"] == forced["budgets"]["lower_bound"]
    assert all(each["plan"]["offload"] == "yes" for each in forced["alternatives"] if each["fits"])
    far = describe_cluster(tmp_path, 1e-3, 1e9)  # in which a product hides not a single element
    done = tool(program, "--ranks=4", f"--microbatches={MICROBATCHES}", f"--cluster={far}", f"--fix={fixed},offload=yes", memory)
    assert done.returncode == 1
    assert "none keeps anything in the host's memory and fits; others fit" in done.stderr


@pytest.mark.parametrize("model", ["gpt8", "llama8"])
def test_equal_layers_tell_all(exported, tool, model):
    """Of stages with equal layers one is carried out; with all of their layers random plans take and need the same. Stages take
    what follows from those with few layers."""
    program, _ = exported(model)
    usual = (program, f"--cluster={CLUSTER}", "--ranks=8", "--microbatches=4", "--time-limit=10", "--confirm", "--seed=3")
    # Pipelines have equal stages; the other plans are whole programs anyway. Plans of one layout are cut from one program.
    fixes = (("pp=4", 12), ("pp=4,ends=1", 4), ("pp=8", 4), ("pp=2,cp=2,chunks=4", 4), ("pp=2,dp=2,cp=1,parameters=fsdp", 8),
             ("pp=2,dp=2,cp=2,parameters=fsdp", 8), ("pp=4,cp=2,parameters=fsdp", 4),
             ("pp=4,dp=2,parameters=fsdp-once", 8), ("pp=1", 8))  # fmt: skip
    for fixed, count in part_of_today(fixes):
        done = tool(*usual, f"--fix={fixed}", f"--sample={count}")
        assert done.returncode == 0, done.stderr
        assert f"sample: {count} random plans take at least " in done.stderr


@pytest.mark.parametrize("model,ranks", [("gpt", 2), ("llama", 2), ("gpt", 4), *part_of_today([("gpt8", 2), ("llama8", 2)])])
def test_search_equals_brute_force(exported, find, model, ranks):
    program, _ = exported(model)
    found, brute = find(program, ranks), find(program, ranks, "--exhaustive")
    assert found["best"]["seconds"] == found["lower_bound"] == brute["best"]["seconds"]
    assert brute["closed"] == 0 and brute["refused"] == 0 < found["closed"]
    assert found["simulated"] + found["closed"] == brute["simulated"]
    assert all(other["seconds"] >= brute["best"]["seconds"] for other in brute["alternatives"])


@pytest.mark.parametrize("model,fixed", part_of_today([("gpt", "pp=1"), ("llama", "chunks=1,ends=0")]))
def test_hybrid_sharding_is_chosen_where_it_is_best(exported, find, model, fixed):
    """Copies of sharded parameters, one a node, are among the plans; each group of ranks fills a node."""
    program, _ = exported(model)
    usual = (f"--fix={fixed}", "--alternatives=5000")
    found, brute = (find(program, 4, *usual, *more, cluster=SMALL_NODES) for more in ((), ("--exhaustive",)))
    assert found["best"]["seconds"] == found["lower_bound"] == brute["best"]["seconds"]
    plans = [each["plan"] for each in (brute["best"], *brute["alternatives"])]
    hybrid = [plan for plan in plans if plan["replicas"] != "1"]
    assert hybrid and all(plan["parameters"].startswith("fsdp") for plan in hybrid)
    for plan in hybrid:
        assert int(plan["dp"]) // int(plan["replicas"]) * int(plan["tp"]) * int(plan["cp"]) == 2
    one = find(program, 4, f"--fix={fixed},replicas=2", cluster=SMALL_NODES)["best"]
    assert one["seconds"] == min(each["seconds"] for each in (brute["best"], *brute["alternatives"]) if each["plan"] in hybrid)
    # Within one node all shards are as near: there are none.
    near = find(program, 4, *usual, "--exhaustive")
    assert all(each["plan"]["replicas"] == "1" for each in (near["best"], *near["alternatives"]))


@pytest.mark.parametrize("model,ranks,cluster", part_of_today([("gpt", 8, CLUSTER), ("llama8", 4, CLUSTER), ("llama", 4, SMALL_NODES),
                                                               ("gpt8", 8, SMALL_NODES)]))  # fmt: skip
def test_no_random_plan_is_below_the_bound(exported, tool, model, ranks, cluster):
    program, _ = exported(model)
    # The clock stops the search early: a bound of what it has not seen has to hold as well.
    for limit in ("500", "0.4"):
        done = tool(program, f"--cluster={cluster}", f"--ranks={ranks}", "--microbatches=4", "--sample=200",
                    f"--time-limit={limit}", "--seed=7")  # fmt: skip
        if limit == "0.4" and "no plan was simulated within the time limit" in done.stderr:
            continue
        assert done.returncode == 0, done.stderr
        assert "200 random plans take at least " in done.stderr
        assert float(done.stderr.split("at least ")[1].split()[0]) >= 1


def test_batches_are_chosen_among_exports(exported, tool):
    """Exports with batches of their own are sizes of a microbatch."""
    programs = [exported("gpt", batch)[0] for batch in (4, 8)]
    done = tool(*programs, f"--cluster={CLUSTER}", "--ranks=2", "--global-batch=32", "--json", "--exhaustive")
    assert done.returncode == 0, done.stderr
    both = json.loads(done.stdout)
    alone = []
    for program, microbatches in zip(programs, ("8", "4")):
        done = tool(program, f"--cluster={CLUSTER}", "--ranks=2", f"--microbatches={microbatches}", "--json")
        alone.append(json.loads(done.stdout)["best"]["seconds"])
    assert both["best"]["seconds"] == min(alone)
    done = tool(*programs, f"--cluster={CLUSTER}", "--ranks=2", "--global-batch=32", "--json", "--fix=microbatches=8")
    assert json.loads(done.stdout)["best"]["seconds"] == alone[0]


@pytest.mark.parametrize("model", part_of_today(["gpt8", "llama8"]))
def test_larger_batches_bound_smaller_ones(exported, tool, model):
    """What is known of layouts of all exports comes from the one with the largest batch: no plan of the others takes or
    needs less, and the search finds the fastest of all."""
    programs = [exported(model, batch)[0] for batch in (2, 8)]
    usual = [f"--cluster={CLUSTER}", "--ranks=4", "--global-batch=16", "--json", "--time-limit=500", "--fix=chunks=1,ends=0,cp=1"]
    runs = [(*programs, "--exhaustive"), programs, programs[:1], programs[1:]]
    done = [tool(*program, *usual) for program in runs]
    assert not any(each.returncode for each in done), [each.stderr for each in done]
    brute, found, *alone = (json.loads(each.stdout) for each in done)
    assert found["best"]["seconds"] == found["lower_bound"] == brute["best"]["seconds"]
    assert found["best"]["seconds"] == min(each["best"]["seconds"] for each in alone)
    # A program for each way to divide layers serves both.
    assert found["partitioned"] < sum(each["partitioned"] for each in alone)


def test_least_memory(exported, find, tool):
    """Below the least memory of any plan, the error says what it is; with that much there is one."""
    program, _ = exported("gpt")
    everything = find(program, 4, "--exhaustive", "--alternatives=1000")
    least = min(max(place["peak"] for place in plan["memory"]) for plan in [everything["best"], *everything["alternatives"]])
    command = (program, f"--cluster={CLUSTER}", "--ranks=4", "--microbatches=4")
    done = tool(*command, f"--memory={least - 1:.0f}", "--json", "--time-limit=500")
    assert done.returncode == 1 and not done.stdout
    assert f"no plan fits in {(least - 1) / 2**30:.3f} GiB: " in done.stderr
    assert f"the least that would do is {least / 2**30:.3f} GiB" in done.stderr and "at place " in done.stderr
    assert len(done.stderr.splitlines()) == 1
    tight = find(program, 4, f"--memory={least:.0f}")
    assert max(place["peak"] for place in tight["best"]["memory"]) == least
    assert tight["best"]["seconds"] >= everything["best"]["seconds"]


def test_least_memory_is_looked_for_at_once(exported, find, build_dir):
    """Where nothing fits, plans that need less memory are reported as they are found; the search may be stopped at any of them."""
    program, _ = exported("llama8")
    command = [str(part) for part in (build_dir / "bin" / "cleave-plan", program, f"--cluster={CLUSTER}", "--ranks=4",
               "--microbatches=4", "--memory=4KiB", "--fix=cp=1", "--progress", "--time-limit=500")]  # fmt: skip

    def read(line):
        return float(line.split("needs ")[1].split()[0])

    done = subprocess.run(command, capture_output=True, text=True)
    *lines, error = done.stderr.splitlines()
    needed = [read(line) for line in lines]
    assert done.returncode == 1 and needed == sorted(needed, reverse=True)  # some differ by less than is printed
    least = float(error.split("the least that would do is ")[1].split()[0])
    assert least == round(needed[-1], 3)
    # Of one stage with all layers samples say little; of what is carried out next they say the least.
    assert min(needed[:3]) < 1.1 * needed[-1]

    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as tool:
        first = read(tool.stderr.readline())
        tool.send_signal(signal.SIGINT)
        _, errors = tool.communicate(timeout=300)
    assert tool.returncode == 1
    found = float(errors.splitlines()[-1].split("the least that ")[1].split(" is ")[1].split()[0])
    assert least <= found <= round(first, 3)


def test_stopped_searches_have_a_bound(exported, find, build_dir):
    program, _ = exported("gpt")
    whole = find(program, 8)
    command = [build_dir / "bin" / "cleave-plan", program, f"--cluster={CLUSTER}", "--ranks=8", "--microbatches=4",
               "--exhaustive", "--progress", "--json", "--time-limit=500"]  # fmt: skip
    with subprocess.Popen([str(part) for part in command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as tool:
        assert "step " in tool.stderr.readline()
        tool.send_signal(signal.SIGINT)
        output, errors = tool.communicate(timeout=300)
    assert tool.returncode == 0, errors
    found = json.loads(output)
    assert not found["complete"] and 0 < found["gap"] < 1
    assert found["lower_bound"] <= whole["best"]["seconds"] <= found["best"]["seconds"]
    # What makes the gap.
    left = found["best"]["seconds"] - found["lower_bound"]
    assert sum(found["gap_parts"].values()) == pytest.approx(left, rel=1e-9)
    assert {"bubbles", "kernels"} <= found["gap_parts"].keys()


def test_python_finds_the_same(exported, find, tmp_path):
    program, _ = exported("gpt")
    said = find(program, 4, "--fix=tp=2,pp=2")
    found = cleave.find_plan(program, cluster=CLUSTER, ranks=4, microbatches=MICROBATCHES, fix={"tp": 2, "pp": 2})
    assert found.plan == said["best"]["plan"] and found.seconds == said["best"]["seconds"]
    assert found.lower_bound == said["lower_bound"] and found.gap == said["gap"] == 0
    assert found.report["simulated"] == said["simulated"] and found.commands[1] == said["commands"][1]
    loaded = cleave.find_plan(cleave.load(program), cluster=CLUSTER, ranks=4, microbatches=MICROBATCHES, folder=tmp_path,
                              fix={"tp": 2, "pp": 2})  # fmt: skip
    assert loaded.seconds == found.seconds and (tmp_path / "commands.sh").exists()
    with pytest.raises(cleave.Error, match="^--fix: no plan for 4 ranks has tp=4 and pp=2"):
        cleave.find_plan(program, cluster=CLUSTER, ranks=4, microbatches=MICROBATCHES, fix={"tp": 4, "pp": 2})
    with pytest.raises(ValueError, match="expected folder="):
        cleave.find_plan(cleave.load(program), cluster=CLUSTER, ranks=4, microbatches=MICROBATCHES)


def test_explanations(exported, tool):
    program, _ = exported("gpt")
    done = tool(program, f"--cluster={CLUSTER}", "--ranks=4", "--microbatches=4", "--explain")
    assert done.returncode == 0, done.stderr
    for part in ("best of 4 ranks of ", "no plan of the space takes less than ", "dp=2 tp=2 pp=1 parameters=fsdp: ",
                 "slower by its bound", "searched, best ", "cleave-opt ", "cleave-sim "):  # fmt: skip
        assert part in done.stdout


def test_misuse(exported, tool, build_dir, tmp_path):
    program, _ = exported("gpt")
    usual = (program, f"--cluster={CLUSTER}", "--ranks=4")

    def message(*arguments):
        done = tool(*arguments)
        assert done.returncode == 1 and not done.stdout, done.stdout
        assert done.stderr.startswith("cleave-plan: error: ") and len(done.stderr.splitlines()) == 1, done.stderr
        return done.stderr.removeprefix("cleave-plan: error: ").strip()

    assert message(*usual) == "expected either --microbatches=N or --global-batch=N, found none of them"
    assert message(*usual, "--microbatches=0") == "--microbatches: expected 1 or more, found 0"
    assert "expected a multiple of the 8 examples" in message(*usual, "--global-batch=12")
    assert message(*usual, "--microbatches=4", "--global-batch=32").endswith("found both")
    assert "has tp=4 and pp=2 (" in message(*usual, "--microbatches=4", "--fix=recompute=none,tp=4,pp=2")
    # The smallest set, not only one of which nothing can be left out.
    assert "has tp=3 (" in message(*usual, "--microbatches=4", "--fix=dp=4,pp=2,tp=3")
    assert "expected dp, tp, pp, cp, " in message(*usual, "--microbatches=4", "--fix=up=2")
    assert "expected bytes above 0" in message(*usual, "--microbatches=4", "--memory=much")
    assert "expected at most the 80.00 GiB of device a100" in message(*usual, "--microbatches=4", "--memory=81GiB")
    assert "absent.mlir" in message(tmp_path / "absent.mlir", *usual[1:], "--microbatches=4")
    assert "is a directory" in message(tmp_path, *usual[1:], "--microbatches=4")
    other = exported("llama")[0]
    assert "expected an export of the same model" in message(program, other, *usual[1:], "--global-batch=32")

    cut = tmp_path / "cut.mlir"
    subprocess.run([build_dir / "bin" / "cleave-opt", program, "--partition-joint", "-o", cut], check=True)
    assert "expected a program with one function of phase microbatch, found one in parts" in message(
        cut, *usual[1:], "--microbatches=4"
    )
    meshed = tmp_path / "meshed.mlir"
    subprocess.run([build_dir / "bin" / "cleave-opt", program, "--sync-gradients=axis=dp", "-o", meshed], check=True)
    assert "expected a program for one device, found one with a mesh" in message(meshed, *usual[1:], "--microbatches=4")
    # A device without a rate for the program's products.
    devices = pathlib.Path(__file__).resolve().parents[2] / "examples" / "devices"
    for name in ("a100", "nvlink3", "infiniband-hdr", "cluster-selene"):
        described = json.loads((devices / f"{name}.json").read_text())
        described.get("facts", {}).pop("flops_32bit", None)
        (tmp_path / f"{name}.json").write_text(json.dumps(described))
    slow = tmp_path / "cluster-selene.json"
    assert 'has no fact "flops_32bit"' in message(program, f"--cluster={slow}", "--ranks=4", "--microbatches=4")
    # Nothing is half-written, nor searched for in vain.
    (tmp_path / "file").write_text("")
    folder = tmp_path / "file" / "folder"
    refused = message(*usual, "--microbatches=4", "--progress", "-o", folder)
    assert refused == f"-o: cannot write to {folder}: Not a directory"
