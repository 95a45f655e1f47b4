"""cleave-sim knows the link between a device and its host: the time of copies, what of it is exposed, and host memory."""

import json
import pathlib
import re
import shutil
import subprocess

import pytest
from budgets import spread_frontier
from combinations_cover import covered
from pipelines import MICROBATCHES, schedule_passes

DEVICES = pathlib.Path(__file__).resolve().parents[2] / "examples/devices"
LOWER = ["--lower-to-exec"]
OFFLOAD = ["--offload-saved=min-bytes=1"]
SAVE_ALL = ["--partition-joint=policy=save-all"]
FAST = 1e30
EFFICIENCY = 0.87  # of examples/devices/h100-sxm.json


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("host-link")


@pytest.fixture(scope="module")
def opt(build_dir, folder):
    """The program after passes, and what they say; each is made once."""
    made = {}

    def get(path, *passes, then=()):
        key = (path, passes, tuple(then))
        if key not in made:
            output = folder / f"{path.stem}.{len(made)}.mlir"
            command = [build_dir / "bin" / "cleave-opt", path, *passes, *then, "-o", output]
            result = subprocess.run(command, capture_output=True, text=True)
            assert result.returncode == 0, result.stderr
            made[key] = output
        return made[key]

    return get


@pytest.fixture(scope="module")
def cluster(folder):
    """A cluster of H100s with another link to the host, or none, or another host."""

    def write(bandwidth=None, host_memory=None):
        target = folder / f"devices.{bandwidth}.{host_memory}"
        if not target.exists():
            shutil.copytree(DEVICES, target)
            device, nodes = target / "h100-sxm.json", target / "cluster-dgx-h100.json"
            fields = json.loads(device.read_text())
            del fields["facts"]["host_bandwidth"]
            if bandwidth:
                fields["facts"]["host_bandwidth"] = bandwidth
            device.write_text(json.dumps(fields))
            if host_memory:
                nodes.write_text(json.dumps(json.loads(nodes.read_text()) | {"host_memory_bytes": host_memory}))
        return target / "cluster-dgx-h100.json"

    return write


@pytest.fixture(scope="module")
def simulate(build_dir):
    def run(path, cluster, *options):
        command = [build_dir / "bin" / "cleave-sim", path, f"--cluster={cluster}", "--json", *options]
        return subprocess.run([str(part) for part in command], capture_output=True, text=True)

    return run


@pytest.fixture(scope="module")
def predict(simulate, cluster):
    """The step on H100s whose link to the host has that bandwidth. Graphs launch: time is the device's."""

    def get(path, bandwidth, *options):
        result = simulate(path, cluster(bandwidth), "--graphs", *options)
        assert result.returncode == 0, result.stderr
        step = json.loads(result.stdout)["step"]
        parts = step["compute"] + step["bubble"] + step["other"] + sum(step["exposed_communication"].values())
        assert parts + step["exposed_copies"] == pytest.approx(step["seconds"], rel=1e-9)
        assert step["copy_seconds"] == pytest.approx(step["copied_bytes"] / (bandwidth * EFFICIENCY))
        assert 0 <= step["exposed_copies"] <= step["copy_seconds"] * (1 + 1e-9)
        return step

    return get


def list_copies(text):
    """Bytes of what each function copies to the host, and back."""
    return {function.split("(", 1)[0]: [
        sum(count_bytes(shape) for shape in re.findall(rf"= dist\.{kind} %\S+ .*: tensor<([^>,]*)", function))
        for kind in ("offload", "reload")] for function in text.split("func.func @")[1:]}  # fmt: skip


def count_bytes(shape):
    *sizes, element = shape.split("x")
    count = {"f32": 4, "i64": 8, "bf16": 2, "i1": 1}[element]
    for size in sizes:
        count *= int(size)
    return count


@covered(
    {
        "name": ["gpt_tied", "llama"],
        "split": {"whole": [], "split": ["--split-backward"]},
        "lowered": {"plain": [], "lowered": LOWER},
    }
)  # fmt: skip
def test_time_by_bandwidth(name, split, lowered, program, opt, predict):
    _, path = program(name)
    kept = opt(path, *SAVE_ALL, *split, *lowered)
    offloaded = opt(path, *SAVE_ALL, *split, *OFFLOAD, *lowered)
    options = ["--microbatches=2"]
    plain = predict(kept, 64e9, *options)
    assert plain["copied_bytes"] == plain["copy_seconds"] == plain["exposed_copies"] == 0
    # On a link that takes no time, copies change nothing.
    fast = predict(offloaded, FAST, *options)
    assert fast["seconds"] == pytest.approx(plain["seconds"], rel=1e-6)
    copied = sum(map(sum, list_copies(offloaded.read_text()).values()))
    assert fast["copied_bytes"] == 2 * copied > 0
    previous = fast
    for bandwidth in (1e12, 450e9, 64e9, 16e9, 1e9, 1e6):
        step = predict(offloaded, bandwidth, *options)
        assert step["seconds"] >= previous["seconds"] * (1 - 1e-9), "a slower link is never faster"
        # A rank by itself waits for nothing else.
        assert step["seconds"] - plain["seconds"] == pytest.approx(step["exposed_copies"], rel=1e-6, abs=1e-9)
        previous = step
    # Where the link decides, it is never idle: kernels are what little is hidden.
    assert previous["copy_seconds"] <= previous["seconds"] <= previous["copy_seconds"] + plain["seconds"]
    assert previous["sensitivities"][0]["of"].startswith("h100-sxm.host_")


def test_some_copies_are_hidden(program, opt, predict):
    """Beside kernels: an exported program waits for less than it copies."""
    _, path = program("llama")
    step = predict(opt(path, *SAVE_ALL, *OFFLOAD), 64e9)
    assert 0 < step["exposed_copies"] < 0.9 * step["copy_seconds"]


@covered(
    {
        "name": ["gpt_tied", "llama"],
        "schedule": ["1f1b", "interleaved-1f1b", "zb-h1", "zbv"],
        "lowered": {"plain": [], "lowered": LOWER},
    }
)  # fmt: skip
def test_stages(name, schedule, lowered, program, opt, predict, cleave_run):
    _, path = program(name)
    kept = opt(path, *schedule_passes(schedule, 2), *lowered)
    offloaded = opt(path, *schedule_passes(schedule, 2, more=OFFLOAD), *lowered)
    plain, fast = predict(kept, 64e9), predict(offloaded, FAST)
    assert fast["seconds"] == pytest.approx(plain["seconds"], rel=1e-6)
    previous = fast
    for bandwidth in (64e9, 16e9, 1e6):
        step = predict(offloaded, bandwidth)
        assert step["seconds"] >= previous["seconds"] * (1 - 1e-9)
        previous = step
    # The busiest rank's copies follow each other; it is idle only while it waits for others' copies.
    assert previous["copy_seconds"] <= previous["seconds"]
    assert previous["seconds"] <= 2 * previous["copy_seconds"] + plain["seconds"]
    assert all(memory["host"] == 0 for memory in plain["memory"])
    for memory, before, (device, host), (kept_device, _) in zip(
            fast["memory"], plain["memory"], cleave_run.plan(offloaded), cleave_run.plan(kept), strict=True):  # fmt: skip
        assert memory["host"] == host > 0
        # What is sent until it has arrived is not in the simulator's figures; copies put them no further off.
        assert memory["peak"] < before["peak"]
        assert abs(memory["peak"] - device) < abs(before["peak"] - kept_device) + 0.1 * kept_device


@pytest.mark.parametrize("lowered", ["false", "true"])
def test_within_a_budget(lowered, program, opt, predict, cleave_run, folder):
    """--partition-joint="policy=budget offload=true": bytes as its report says, and as a dry run plans."""
    _, path = program("llama")
    report = folder / f"budget.{lowered}.json"

    def within(memory):
        passes = [f"--partition-joint=policy=budget memory={memory} offload=true lowered={lowered} microbatches=2 json={report} "
                  f"cluster={DEVICES / 'cluster-gb200-nvl72.json'}"]
        return opt(path, *passes, then=LOWER * (lowered == "true")), json.loads(report.read_text())["budget"]

    _, whole = within("1TiB")
    offloads = 0
    for memory in spread_frontier(whole["frontier"], 4)[1:]:
        parted, chosen = within(memory)
        step = predict(parted, 64e9, "--microbatches=2")
        device, host = cleave_run.plan(parted, "--microbatches", 2)[0]
        # The report rounds what a lowered program has up to aligned addresses.
        copies = parted.read_text().count("= dist.offload ")
        assert step["memory"][0]["host"] == host <= chosen["offload_bytes"] <= host + 63 * copies * (lowered == "true")
        assert step["memory"][0]["peak"] == pytest.approx(device, rel=0.15)
        assert step["copied_bytes"] >= 2 * 2 * host, "there and back, twice"
        offloads += host > 0
    assert offloads


@pytest.mark.parametrize("stages", [0, 2])
def test_a_budget_compares_the_times_of_a_cluster(stages, program, build_dir, predict, cluster, folder):
    """On a link that takes no time copies win, on one that takes forever recomputation does, each by the simulator's seconds."""
    _, path = program("llama")

    def within(memory, bandwidth=None, offload="true"):
        target = folder / f"{stages}.{memory}.{bandwidth}.{offload}.mlir"
        options = f"policy=budget memory={memory} offload={offload}" + (f" cluster={cluster(bandwidth)}" if bandwidth else "")
        passes = [f"--partition-joint={options}"]
        if stages:
            schedule = f"schedule=1f1b ranks={stages} microbatches={MICROBATCHES}"
            passes = [f"--outline-stages=count={stages} slack=0 {options} {schedule}", f"--build-schedule={schedule}", "--insert-p2p"]
        result = subprocess.run([build_dir / "bin" / "cleave-opt", path, *passes, "-o", target], capture_output=True, text=True)
        found = re.search(r"\((\d+) bytes\)", result.stderr)
        return target, int(found[1]) if found else None

    # What fits without offloading, so that either can be chosen.
    memory, least = 1, 1
    while least:
        memory = max(memory, least)
        _, least = within(memory, 1e6, offload="false")
    slow, fast = within(memory, 1e6)[0], within(memory, 1e15)[0]
    copied = [sum(map(sum, list_copies(each.read_text()).values())) for each in (slow, fast)]
    # Of a few bytes a product hides any copy.
    assert copied[0] < copied[1] / 1000 or (stages and copied[0] < copied[1])
    assert predict(slow, 1e6)["seconds"] < predict(fast, 1e6)["seconds"]
    assert predict(fast, 1e15)["seconds"] < predict(slow, 1e15)["seconds"]


def test_copies_back_begin_before_they_are_waited_for(program, build_dir, predict, cluster, folder):
    """On a link on which a copy takes as long as several products, a budget begins copies back that much ahead."""
    _, path = program("llama")
    bandwidth = 2e8
    report, parted = folder / "ahead.json", folder / "ahead.mlir"

    def within(memory):
        options = f"policy=budget memory={memory} offload=true cluster={cluster(bandwidth)} json={report}"
        subprocess.run([build_dir / "bin" / "cleave-opt", path, f"--partition-joint={options}", "-o", parted], check=True)
        return json.loads(report.read_text())["budget"]

    products = []
    for memory in spread_frontier(within("1TiB")["frontier"], 4)[:-1]:
        within(memory)
        lines = parted.read_text().split("func.func @backward")[1].splitlines()
        for number, line in enumerate(lines):
            if reload := re.match(r"\s*(%\S+) = dist\.reload", line):
                use = next(later for later in range(number + 1, len(lines)) if re.search(rf"{reload[1]}\b", lines[later]))
                products.append(sum(bool(re.search(r" = aten\.(mm|bmm|addmm)\b", each)) for each in lines[number:use]))
        step = predict(parted, bandwidth)
        assert step["exposed_copies"] <= 0.01 * step["copy_seconds"]
    assert max(products) > 2


@pytest.mark.parametrize("schedule", ["1f1b", "interleaved-1f1b"])
def test_stages_within_a_budget(schedule, program, build_dir, predict, cleave_run, folder):
    _, path = program("llama")
    count = 4 if schedule == "interleaved-1f1b" else 2
    options = f"schedule={schedule} ranks=2 microbatches={MICROBATCHES}"

    def outline(memory):
        staged = folder / f"{schedule}.{memory}.mlir"
        result = subprocess.run(
            [build_dir / "bin" / "cleave-opt", path,
             f"--outline-stages=count={count} balance=cost policy=budget memory={memory} offload=true {options}",
             f"--build-schedule={options}", "--insert-p2p", "--verify-schedule", "-o", staged], capture_output=True, text=True)  # fmt: skip
        return staged, result.stderr

    memory = 1
    while "cannot do" in (errors := outline(memory)[1]):
        memory = int(re.search(r"needs .* \((\d+) bytes\)", errors)[1])
    staged, _ = outline(memory)
    step, slow = predict(staged, 64e9), predict(staged, 1e9)
    assert slow["seconds"] > step["seconds"]
    plan = cleave_run.plan(staged)
    assert [memory["host"] for memory in step["memory"]] == [host for _, host in plan]
    assert any(host for _, host in plan)


@covered({"schedule": ["1f1b", "interleaved-1f1b", "zb-h1"], "lowered": {"plain": [], "lowered": LOWER}}, strength=1)
def test_the_timeline_has_a_row_of_copies(schedule, lowered, program, opt, simulate, cluster, folder):
    _, path = program("llama")
    offloaded = opt(path, *schedule_passes(schedule, 2, more=OFFLOAD), *lowered)
    trace, page = folder / "trace.json", folder / "page.html"
    result = simulate(offloaded, cluster(16e9), f"--trace={trace}", f"--html={page}")
    assert result.returncode == 0, result.stderr
    step = json.loads(result.stdout)["step"]
    events = json.loads(trace.read_text())["traceEvents"]
    names = {(e["pid"], e["tid"]) for e in events if e["name"] == "thread_name" and "host" in e["args"]["name"]}
    assert names == {(0, 2), (1, 2)}
    copies = [[e for e in events if e["ph"] == "X" and (e["pid"], e["tid"]) == (rank, 2)] for rank in (0, 1)]
    actions = [[e for e in events if e["ph"] == "X" and (e["pid"], e["tid"]) == (rank, 0)] for rank in (0, 1)]
    per_microbatch = list_copies(offloaded.read_text())
    assert sum(map(len, copies)) == MICROBATCHES * len(re.findall(r"= dist\.(?:offload|reload) ", offloaded.read_text()))
    assert any(sum(each) for each in per_microbatch.values())
    for mine, others in zip(copies, actions):
        assert {e["name"] for e in mine} == {"offload", "reload"}
        mine.sort(key=lambda e: e["ts"])
        # One after another, while the action that they belong to runs.
        assert all(a["ts"] + a["dur"] <= b["ts"] + 1e-3 for a, b in zip(mine, mine[1:]))
        for copy in mine:
            assert any(a["ts"] <= copy["ts"] + 1e-3 and copy["ts"] + copy["dur"] <= a["ts"] + a["dur"] + 1e-3 for a in others)
    longest = max(sum(e["dur"] for e in mine) for mine in copies)
    assert step["copy_seconds"] <= longest * 1e-6 * (1 + 1e-6)
    data = json.loads(re.search(r"^const page = (.*);$", page.read_text(), re.M)[1])
    drawn = [rank["copies"] for rank in data["runs"][0]["ranks"]]
    assert [len(each) for each in drawn] == [len(each) for each in copies]
    kept = opt(path, *schedule_passes(schedule, 2), *lowered)
    simulate(kept, cluster(16e9), f"--trace={trace}", f"--html={page}")
    assert "host" not in trace.read_text() and '"copies"' not in page.read_text()


def test_a_device_without_a_link_is_refused(program, opt, simulate, cluster, build_dir):
    """By the file and the field that lack, where copies are to be timed."""
    _, path = program("llama")
    nodes = cluster()
    message = f"{nodes.with_name('h100-sxm.json')}: facts: expected \"host_bandwidth\""
    staged = schedule_passes("1f1b", 2, more=OFFLOAD)
    for offloaded in (opt(path, *SAVE_ALL, *OFFLOAD), opt(path, *staged)):
        result = simulate(offloaded, nodes)
        assert result.returncode == 1 and not result.stdout
        assert message in result.stderr and result.stderr.count("error:") == 1
    assert simulate(opt(path, *SAVE_ALL), nodes).returncode == 0, "without copies nothing is asked"
    outlined = opt(path, "--outline-stages=count=2 balance=cost", *OFFLOAD)
    command = [build_dir / "bin" / "cleave-opt", outlined, f"--build-schedule=schedule=auto ranks=2 microbatches=4 cluster={nodes}"]
    result = subprocess.run(command, capture_output=True, text=True)
    assert result.returncode == 1 and message in result.stderr


def test_more_than_the_host_has_is_refused(program, opt, simulate, cluster, cleave_run):
    _, path = program("llama")
    offloaded = opt(path, *SAVE_ALL, *OFFLOAD)
    ((_, host),) = cleave_run.plan(offloaded)
    # A node has 8 devices.
    assert simulate(offloaded, cluster(64e9, 8 * host)).returncode == 0
    result = simulate(offloaded, cluster(64e9, 8 * host - 8))
    assert result.returncode == 1 and not result.stdout
    assert "the program copies more to host memory than a node has for each of its devices: expected at most" in result.stderr
    assert simulate(opt(path, *SAVE_ALL), cluster(64e9, 8)).returncode == 0
