"""--partition-joint="policy=budget offload=true": saved values wait on the host where memory is short, as planned."""

import json
import pathlib
import re
import subprocess

import cleave_run  # noqa: F401
import pytest
from budgets import spread_frontier
from combinations_cover import covered, part_of_today, run_all
from pipelines import write_batch


# Kernels this small take longer to be launched there than what they make takes to be copied: offloading pays.
CLUSTER = pathlib.Path(__file__).resolve().parents[2] / "examples/devices/cluster-gb200-nvl72.json"


class Budgets:
    """Programs within a budget, beside their weights, and the explanations of these budgets."""

    def __init__(self, build, folder):
        self.opt, self.folder, self.made = build / "bin" / "cleave-opt", folder, {}

    def try_partition(self, path, memory, *then, offload="true", **options):
        text = " ".join(f"{name}={value}" for name, value in {"offload": offload, "cluster": CLUSTER, **options}.items())
        key = (path, memory, text, then)
        if key not in self.made:
            output = self.folder / f"{path.stem}.{len(self.made)}.mlir"
            report = output.with_suffix(".json")
            result = subprocess.run(
                [self.opt, path, f"--partition-joint=policy=budget memory={memory} {text} json={report}", *then, "-o", output],
                capture_output=True, text=True)  # fmt: skip
            explained = json.loads(report.read_text()) if result.returncode == 0 else None
            if explained:
                output.with_suffix(".safetensors").symlink_to(path.with_suffix(".safetensors"))
            self.made[key] = output, explained, result.stderr
        return self.made[key]

    def __call__(self, *arguments, **options):
        output, explained, errors = self.try_partition(*arguments, **options)
        assert explained, errors
        return output, explained["budget"]


@pytest.fixture(scope="module")
def budgets(build_dir, tmp_path_factory):
    return Budgets(build_dir, tmp_path_factory.mktemp("budgets"))


@pytest.mark.parametrize("name", part_of_today(["gpt_dropout", "llama", "moe", "resnet18"]))
def test_gradients_are_those_of_the_joint_graph(name, program, budgets, example, cleave_run):
    spec, path = program(name)
    _, whole = budgets(path, "1TiB")
    assert whole["recompute_bytes"] == whole["offload_bytes"] == 0, "with memory for all, all is kept"
    offloads = 0
    for memory in spread_frontier(whole["frontier"], 4)[1:]:
        parted, chosen = budgets(path, memory)
        offloads += chosen["offload_bytes"] > 0
        lowered, _ = budgets(path, memory, "--lower-to-exec")
        for each in (parted, lowered):
            # The tolerance is 0: loss, outputs, gradients and buffers, bitwise.
            cleave_run.succeed(each, "--against", path, "--weights", path.with_suffix(".safetensors"),
                               "--inputs", example(spec), "--seed", 3)  # fmt: skip
    assert offloads


@pytest.mark.parametrize("name,microbatches", [("llama", 1), ("gpt_untied", 3), ("resnet18", 2)])
def test_planned_is_what_a_dry_run_says(name, microbatches, program, budgets, cleave_run):
    """On both sides, at all budgets."""
    _, path = program(name)
    _, whole = budgets(path, "1TiB", microbatches=microbatches)
    offloads = 0
    for memory in spread_frontier(whole["frontier"], 6):
        parted, chosen = budgets(path, memory, microbatches=microbatches)
        device, host = cleave_run.plan(parted, "--microbatches", microbatches)[0]
        assert device == chosen["step_peak_bytes"] <= memory
        assert host == chosen["offload_bytes"]
        assert chosen["frontier"] == whole["frontier"], "what can be chosen depends on no budget"
        offloads += host > 0
    assert offloads > 1


def test_a_smaller_budget_never_has_a_higher_peak(program, budgets):
    """As pytorch#197838 reports of PyTorch's; nor is it faster."""
    _, path = program("llama")
    _, whole = budgets(path, "1TiB")
    previous = whole
    for memory in spread_frontier(whole["frontier"], 50 if run_all() else 20):
        _, chosen = budgets(path, memory)
        assert chosen["step_peak_bytes"] <= min(memory, previous["step_peak_bytes"])
        assert chosen["recompute_bytes"] >= previous["recompute_bytes"]
        previous = chosen


@covered({"name": ["gpt_dropout", "llama"], "lowered": ["false", "true"]}, strength=1)
def test_offloading_needs_less(name, lowered, program, budgets):
    """No point of the frontier is lost, and there are budgets that fit with offloading alone."""
    _, path = program(name)
    _, without = budgets(path, "1TiB", offload="false", lowered=lowered)
    _, whole = budgets(path, "1TiB", lowered=lowered)
    assert all(point["offload_bytes"] == 0 for point in without["frontier"])
    for point in without["frontier"][:: len(without["frontier"]) // 6]:
        _, chosen = budgets(path, point["step_peak_bytes"], lowered=lowered)
        assert chosen["recompute_bytes"] <= point["recompute_bytes"]
    least = whole["frontier"][0]["step_peak_bytes"]
    assert least < without["frontier"][0]["step_peak_bytes"]
    _, nothing, errors = budgets.try_partition(path, least, offload="false", lowered=lowered)
    assert nothing is None and "the least that a step needs, whatever is recomputed, is" in errors
    _, chosen = budgets(path, least, lowered=lowered)
    assert chosen["step_peak_bytes"] == least and chosen["offload_bytes"] > 0
    _, nothing, errors = budgets.try_partition(path, least - 1, lowered=lowered)
    assert nothing is None and "whatever is recomputed or offloaded, is" in errors and f"({least} bytes)" in errors


def test_lowered_programs_use_what_is_planned(program, budgets, cleave_run, tmp_path):
    _, path = program("llama")
    data = tmp_path / "text"
    data.write_bytes(bytes(range(32, 127)) * 40)
    _, whole = budgets(path, "1TiB", lowered="true")
    for memory in spread_frontier(whole["frontier"], 4)[1:]:
        lowered, chosen = budgets(path, memory, "--lower-to-exec", lowered="true")
        device, host = cleave_run.plan(lowered)[0]
        assert device == pytest.approx(chosen["step_peak_bytes"], rel=0.01)
        metrics = tmp_path / "metrics.jsonl"
        cleave_run.succeed(lowered, "--steps", 2, "--data", f"text:{data}", "--metrics", metrics)
        rows = [json.loads(line) for line in metrics.read_text().splitlines()]
        assert max(row["memory_bytes"] for row in rows) == pytest.approx(chosen["step_peak_bytes"], rel=0.01)
        assert all(row["host_bytes"] == host > 0 for row in rows)


def test_explained(program, budgets):
    """What waits on the host is marked, and its bytes are not the device's."""
    _, path = program("llama")
    _, whole = budgets(path, "1TiB")
    memory = whole["frontier"][0]["step_peak_bytes"]
    output, explained, text = budgets.try_partition(path, memory, explain="true")
    on_host = [value for value in explained["saved"] if value["offloaded"]]
    assert sum(value["bytes"] for value in on_host) == explained["budget"]["offload_bytes"] > 0
    assert sum(value["bytes"] for value in explained["saved"]) - explained["budget"]["offload_bytes"] \
        == explained["functions"][0]["held_bytes"]
    assert explained["functions"][0]["host_bytes"] == explained["budget"]["offload_bytes"]
    assert re.search(r"^each microbatch offloads [\d.]+ KiB$", text, re.M)
    assert all(value["type"].startswith("!dist.host<") == value["offloaded"] for value in explained["saved"])
    assert len(re.findall(r"= dist\.offload ", output.read_text())) == len(on_host)


STAGES = re.compile(r"^rank \d+: peak of a step .* \((\d+) bytes\), of it state .* of traffic(, offloaded .*)?$", re.M)
SCHEDULE = "schedule=1f1b ranks=2 microbatches=4"


@pytest.mark.parametrize("lowered", ["false", "true"])
def test_by_rank_of_a_pipeline(lowered, program, build_dir, cleave_run, tmp_path):
    """A rank has its microbatches in flight on the host, too; a budget that fits with offloading alone."""
    spec, path = program("llama")

    def outline(memory, offload):
        staged = tmp_path / f"{memory}.{offload}.mlir"
        result = subprocess.run(
            [build_dir / "bin" / "cleave-opt", path,
             f"--outline-stages=count=2 balance=cost policy=budget memory={memory} lowered={lowered} offload={offload} "
             f"explain=true {SCHEDULE}", f"--build-schedule={SCHEDULE}", "--insert-p2p", "--verify-schedule",
             *["--lower-to-exec"] * (lowered == "true"), "-o", staged], capture_output=True, text=True)  # fmt: skip
        if result.returncode == 0 and not staged.with_suffix(".safetensors").exists():
            staged.with_suffix(".safetensors").symlink_to(path.with_suffix(".safetensors"))
        return staged, STAGES.findall(result.stderr), result.stderr

    def least(offload):
        memory = 1
        while "cannot do" in (errors := outline(memory, offload)[2]):
            memory = int(re.search(r"needs .* \((\d+) bytes\)", errors)[1])
        return memory

    everything, most, _ = outline("1TiB", "true")
    assert not any(offloaded for _, offloaded in most)
    with_offloading = least("true")
    assert with_offloading < least("false")
    staged, planned, _ = outline(with_offloading, "true")
    assert any(offloaded for _, offloaded in planned) and "dist.reload" in staged.read_text()
    dry = [device for device, _ in cleave_run.plan(staged)]
    assert dry == pytest.approx([int(peak) for peak, _ in planned], rel=0.02 if lowered == "true" else 0)
    batch = write_batch(spec, tmp_path / "batch.safetensors")
    # The tolerance is 0.
    cleave_run.succeed(everything, "--against", staged, "--inputs", batch, "--seed", 3)
    data, metrics = tmp_path / "text", tmp_path / "metrics.jsonl"
    data.write_bytes(bytes(range(32, 127)) * 40)
    cleave_run.succeed(staged, "--ranks", 2, "--ranks-as", "processes", "--steps", 2, "--data", f"text:{data}", "--metrics", metrics)
    for row in map(json.loads, metrics.read_text().splitlines()):
        assert row["host_bytes"] == cleave_run.plan(staged)[0][1]
