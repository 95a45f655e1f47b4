"""cleave-sim --cluster predicts the step of exported programs, and says of them what formulas of layers say.

One layer is the difference between a program with two and one with one: what embedding, head and loss do is in both.
"""

import csv
import io
import json
import pathlib
import re
import subprocess

import gpt
import llama
import pytest
import torch
from cleave import ColwiseParallel, Plan, RowwiseParallel, SequenceParallel
from pipelines import schedule_passes

import cleave

CLUSTER = pathlib.Path(__file__).resolve().parents[2] / "examples/devices/cluster-dgx-h100.json"
BATCH, TOKENS, WIDTH, VOCABULARY, HEADS = 2, 64, 64, 128, 4
HIDDEN = {"gpt": 4 * WIDTH, "llama": 96}
KEY_VALUE_HEADS = {"gpt": 4, "llama": 4}
LAYER = "layers.*."
TENSOR = {
    LAYER + "self_attn.{q,k,v}_proj": ColwiseParallel(),
    LAYER + "self_attn.o_proj": RowwiseParallel(),
    LAYER + "mlp.{gate,up}_proj": ColwiseParallel(),
    LAYER + "mlp.down_proj": RowwiseParallel(),
}
SEQUENCE = {LAYER + "{input,post_attention}_layernorm": SequenceParallel(), "norm": SequenceParallel(),
            "embed_tokens": RowwiseParallel()}  # fmt: skip
COLUMNS = """source model arch layers hidden ffn heads kv_heads vocab seq global_batch micro_batch microbatches gpus gpu_type
             gpus_per_node dp tp sp pp vpp cp ep fsdp_zero schedule recompute precision attention""".split()


def run(tool, *arguments):
    done = subprocess.run([str(part) for part in (tool, *arguments)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def tools(build_dir):
    return build_dir / "bin"


@pytest.fixture(scope="module")
def exported(tools, tmp_path_factory):
    """The path of a model's program after passes; each is exported once."""
    folder = tmp_path_factory.mktemp("predicted")

    def get(model, layers, tensor=1, sequence=False, checkpoint=False, passes=()):
        name = f"{model}-{layers}" + ("-checkpoint" if checkpoint else "")
        path = folder / f"{name}.mlir"
        if not path.exists():
            if model == "gpt":
                config = gpt.GPTConfig(vocabulary=VOCABULARY, context=TOKENS, layers=layers, heads=HEADS, width=WIDTH,
                                       tied=False, checkpoint=checkpoint)  # fmt: skip
                spec = gpt._spec(name, config, batch=BATCH)
                spec.module.to(torch.bfloat16)
            else:
                config = llama.LlamaConfig(vocabulary=VOCABULARY, context=TOKENS, layers=layers, heads=HEADS,
                                           key_value_heads=HEADS, width=WIDTH, hidden=HIDDEN["llama"])  # fmt: skip
                spec = llama.make_spec(config, name, batch=BATCH, dtype=torch.bfloat16)
            cleave.export_spec(spec, folder)
        options = list(passes)
        if tensor > 1:
            plan = folder / f"{name}-{tensor}-{sequence}.json"
            Plan({"tp": tensor}, {**TENSOR, **(SEQUENCE if sequence else {})}).write(plan)
            options = [f"--annotate-placements=plan={plan}", "--propagate-placements", "--partition", "--cse",
                       "--canonicalize", *options]  # fmt: skip
        if not options:
            return path
        target = folder / f"{name}-{tensor}-{sequence}-{abs(hash(tuple(passes)))}.mlir"
        if not target.exists():
            run(tools / "cleave-opt", path, *options, "-o", target)
        return target

    return get


@pytest.fixture(scope="module")
def predict(tools):
    def get(path, *options, cluster="H100"):
        return json.loads(run(tools / "cleave-sim", path, f"--cluster={cluster}", "--json", *options))["step"]

    return get


@pytest.fixture(scope="module")
def formula(tools, tmp_path_factory):
    """What --rows --details says of a layout, as numbers by column."""
    folder = tmp_path_factory.mktemp("rows")
    defaults = {
        "software": {"plain": {"reason": "test", "gradient_bytes": 2, "drops_attention": 0}},
        "sources": {"test": {"software": "plain", "reason": "test"}},
        "models": {"gpt": {}, "llama": {"gated": 1}},
    }
    (folder / "defaults.json").write_text(json.dumps(defaults))

    def get(model, layers, tensor=1, sequence=False, recompute="none"):
        values = {
            "source": "test", "model": model, "arch": "dense", "layers": layers, "hidden": WIDTH, "ffn": HIDDEN[model],
            "heads": HEADS, "kv_heads": HEADS, "vocab": VOCABULARY, "seq": TOKENS, "global_batch": BATCH,
            "micro_batch": BATCH, "microbatches": 1, "gpus": tensor, "gpu_type": "H100", "gpus_per_node": 8, "dp": 1,
            "tp": tensor, "sp": int(sequence), "pp": 1, "vpp": 1, "cp": 1, "ep": 1, "fsdp_zero": "0",
            "schedule": "1f1b", "recompute": recompute, "precision": "bf16", "attention": "flash",
        }  # fmt: skip
        lines = [",".join(COLUMNS), ",".join(str(values[column]) for column in COLUMNS)]
        (folder / "rows.csv").write_text("\n".join(lines) + "\n")
        out = run(tools / "cleave-sim", f"--rows={folder / 'rows.csv'}", f"--defaults={folder / 'defaults.json'}",
                  "--details")  # fmt: skip
        (row,) = csv.DictReader(io.StringIO(out))
        return {name: float(value) for name, value in row.items() if name.startswith("predicted") and value}

    return get




@pytest.mark.parametrize("model", ["gpt", "llama"])
def test_formulas_count_the_operations_and_parameters_of_programs(exported, predict, formula, model):
    programs = [predict(exported(model, layers)) for layers in (1, 2)]
    formulas = [formula(model, layers) for layers in (1, 2)]
    assert programs[1]["rank_flops"] - programs[0]["rank_flops"] == \
        pytest.approx(formulas[1]["predicted_flops"] - formulas[0]["predicted_flops"], rel=1e-9)  # fmt: skip
    parameters = (programs[1]["memory"][0]["parameters"] - programs[0]["memory"][0]["parameters"]) / 2
    # Formulas leave out the biases of products.
    biases = 3 * WIDTH + WIDTH + HIDDEN[model] + WIDTH if model == "gpt" else 0
    assert parameters - biases == formulas[1]["predicted_parameters"] - formulas[0]["predicted_parameters"]


@pytest.mark.parametrize("tensor", [2, 4])
@pytest.mark.parametrize("sequence", [False, True])
def test_formulas_count_what_tensor_parallel_ranks_do_and_send(exported, predict, formula, tensor, sequence):
    programs = [predict(exported("llama", layers, tensor, sequence)) for layers in (1, 2)]
    formulas = [formula("llama", layers, tensor, sequence) for layers in (1, 2)]
    assert programs[1]["rank_flops"] - programs[0]["rank_flops"] == \
        pytest.approx(formulas[1]["predicted_flops"] - formulas[0]["predicted_flops"], rel=1e-9)  # fmt: skip
    sent = programs[1]["sent_bytes"]["tp"] - programs[0]["sent_bytes"]["tp"]
    expected = formulas[1]["predicted_sent_tp_bytes"] - formulas[0]["predicted_sent_tp_bytes"]
    # Formulas leave out the gradients of the two normalizations, which ranks with parts of a sequence add up.
    norms = 2 * WIDTH * 2 if sequence else 0
    assert sent == pytest.approx(expected + 2 * (tensor - 1) / tensor * norms, rel=1e-9)


def test_formulas_repeat_the_forward_that_is_recomputed(exported, predict, formula):
    split = ("--partition-joint",)
    programs = [predict(exported("gpt", layers, checkpoint=True, passes=split)) for layers in (1, 2)]
    formulas = [formula("gpt", layers, recompute="full") for layers in (1, 2)]
    found = programs[1]["rank_flops"] - programs[0]["rank_flops"]
    expected = formulas[1]["predicted_flops"] - formulas[0]["predicted_flops"]
    # The backward does not need the result of the layer's last product, which formulas repeat too.
    last = 2 * BATCH * TOKENS * HIDDEN["gpt"] * WIDTH
    assert found == pytest.approx(expected - last, rel=1e-9)
    # What is kept: the input of the layer.
    assert programs[1]["saved_bytes"] - programs[0]["saved_bytes"] == \
        formulas[1]["predicted_saved_bytes"] - formulas[0]["predicted_saved_bytes"]  # fmt: skip


SCHEDULES = ["gpipe", "1f1b", "zb-h1", "zb-h2", "interleaved-1f1b", "looped-bfs", "interleaved-zero-bubble", "zbv", "dualpipev", "v-half"]


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("model", ["gpt", "llama"])
def test_memory_is_that_of_a_dry_run(tools, exported, predict, model, schedule):
    """By place in the pipeline, against what cleave-run computes from the same program, messages and what a rank's stages pass on to
    each other included."""
    path = exported(model, 4, passes=schedule_passes(schedule, 2))
    report = run(tools / "cleave-run", path, "--dry-run")
    peaks = [int(count) for count in re.findall(r"^  peak of a step\s+[\d.]+ \w+\s+(\d+)$", report, re.M)]
    assert len(peaks) == 2
    for memory, peak in zip(predict(path)["memory"], peaks):
        # A buffer that several stages of a rank have is counted in each.
        assert peak <= memory["peak"] <= 1.01 * peak


def test_what_a_step_hangs_on(exported, predict):
    step = predict(exported("llama", 2, 2), "--microbatches=4")
    parts = step["compute"] + step["bubble"] + step["other"] + sum(step["exposed_communication"].values())
    assert parts == pytest.approx(step["seconds"], rel=1e-6)
    assert step["devices"] == 2
    assert step["tokens_per_second"] == pytest.approx(4 * BATCH * TOKENS / step["seconds"])
    low, high = step["interval"]
    assert low < step["seconds"] < high and step["error"] > 0
    # Kernels this small wait for the host, and no longer where a graph launches them.
    assert step["sensitivities"][0]["of"].endswith(("host_seconds", "step_seconds", "kernel_seconds"))
    assert step["ops"][0]["seconds"] == max(op["seconds"] for op in step["ops"])
    assert predict(exported("llama", 2, 2), "--microbatches=4", "--graphs")["seconds"] < step["seconds"]


@pytest.mark.parametrize("model", ["gpt", "llama"])
def test_stages_are_cut_by_the_seconds_that_are_predicted(exported, predict, model):
    """On the cluster that the cut is told of, the step takes less than with stages of even cost on a nominal device."""
    schedule = ("--schedule=1f1b", "--ranks=3", "--microbatches=12", "--graphs")
    seconds = [predict(exported(model, 4, passes=[f"--outline-stages=count=3 slack=0 {cluster}"]), *schedule)["seconds"]
               for cluster in ("", f"cluster={CLUSTER}")]  # fmt: skip
    assert seconds[1] < seconds[0]


def test_placements_by_the_seconds_of_a_cluster_are_no_slower_there(tools, exported, predict, tmp_path):
    """Shapes are small: on this cluster it does not pay to divide all that the plan lets divide."""
    plan = tmp_path / "plan.json"
    Plan({"tp": 8}, {**TENSOR, **SEQUENCE}).write(plan)
    passes = ("--partition", "--cse", "--canonicalize")
    seconds = []
    for options in ("", f"=cluster={CLUSTER}"):
        target = tmp_path / f"{len(seconds)}.mlir"
        run(tools / "cleave-opt", exported("llama", 2), f"--annotate-placements=plan={plan}",
            f"--propagate-placements{options}", *passes, "-o", target)  # fmt: skip
        seconds.append(predict(target, "--graphs")["seconds"])
    assert seconds[1] <= seconds[0]


def test_a_program_that_is_not_partitioned_is_refused(tools, exported, tmp_path):
    plan = tmp_path / "plan.json"
    Plan({"tp": 2}, TENSOR).write(plan)
    placed = tmp_path / "placed.mlir"
    run(tools / "cleave-opt", exported("llama", 1), f"--annotate-placements=plan={plan}", "-o", placed)
    done = subprocess.run([tools / "cleave-sim", placed, "--cluster=H100"], capture_output=True, text=True)
    assert done.returncode == 1 and not done.stdout
    assert "expected what one rank runs, found a program with placements to be: run cleave-opt" in done.stderr


def test_an_unknown_device_names_the_files_to_write(tools, exported):
    done = subprocess.run([tools / "cleave-sim", exported("gpt", 1), "--cluster=Z9"], capture_output=True, text=True)
    assert done.returncode == 1 and not done.stdout
    assert re.search(r"--cluster: no cluster of this device is described, found 'Z9': write files .*/z9.json .*; others are .*dgx-h100", done.stderr)
