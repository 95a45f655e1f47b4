"""--partition-joint=policy=budget: a step stays within its memory, and computes what it did, bit for bit."""

import json
import pathlib
import re
import subprocess
import sys

import cleave_path
import cleave_run  # noqa: F401
import pytest
from budgets import spread_frontier

from cleave.export import export_spec

sys.path.append(str(cleave_path.SOURCE / "bench"))
import budget_models  # noqa: E402


@pytest.fixture(scope="module")
def opt(build_dir, tmp_path_factory):
    """Runs passes over a program: the new one's path, with weights beside it, and the explanation of its budget."""
    folder = tmp_path_factory.mktemp("budgets")

    def run(path, name, *passes):
        changed, report = folder / f"{path.stem}.{name}.mlir", folder / "report.json"
        passes = [text.replace("REPORT", f"json={report}") for text in passes]
        subprocess.run([build_dir / "bin" / "cleave-opt", path, *passes, "-o", changed], check=True)
        weights = changed.with_suffix(".safetensors")
        if not weights.exists():
            weights.symlink_to(path.with_suffix(".safetensors"))
        explained = json.loads(report.read_text()).get("budget") if report.exists() else None
        return changed, explained

    return run


@pytest.fixture(scope="module")
def budget(opt):
    def run(path, memory, *, then=(), **options):
        text = " ".join(f"{name}={value}" for name, value in options.items())
        name = f"{memory}.{text.replace(' ', '.')}"
        return opt(path, name, f"--partition-joint=policy=budget memory={memory} {text} REPORT", *then)

    return run


@pytest.mark.parametrize("name", ["gpt_dropout", "llama", "resnet18"])
def test_gradients_are_those_of_saving_everything(name, program, opt, budget, example, cleave_run):
    spec, path = program(name)
    everything, _ = opt(path, "save-all", "--partition-joint=policy=save-all")
    _, whole = budget(path, "1TiB")
    assert whole["recompute_bytes"] == 0
    for memory in spread_frontier(whole["frontier"], 3)[1:]:
        parted, chosen = budget(path, memory)
        assert chosen["recompute_bytes"] > 0
        # The tolerance is 0: loss, outputs, gradients and buffers, bitwise.
        cleave_run.succeed(everything, "--against", parted, "--inputs", example(spec), "--seed", 3)


@pytest.mark.parametrize("name,microbatches", [("llama", 1), ("gpt_untied", 3), ("resnet18", 2)])
def test_planned_is_what_a_dry_run_says(name, microbatches, program, budget, cleave_run):
    """At all budgets; a smaller one never gives a higher peak, as pytorch#197838 reports of PyTorch's."""
    _, path = program(name)
    _, whole = budget(path, "1TiB", microbatches=microbatches)
    previous = None
    for memory in spread_frontier(whole["frontier"], 4):
        parted, chosen = budget(path, memory, microbatches=microbatches)
        peak = cleave_run.plan(parted, "--microbatches", microbatches)[0][0]
        assert peak == chosen["step_peak_bytes"] <= memory
        assert previous is None or peak <= previous
        assert chosen["frontier"] == whole["frontier"], "what can be chosen depends on no budget"
        previous = peak
    assert previous < whole["step_peak_bytes"]


def test_peaks_fall_with_the_budget_on_pytorchs_example(tmp_path, budget, cleave_run):
    """The model of pytorch#197838: PyTorch's peak at a budget of 0.05 is several times that at 0.15."""
    path = pathlib.Path(export_spec(budget_models.llama(), tmp_path))
    _, whole = budget(path, "1TiB")
    peaks, times = [], []
    for memory in spread_frontier(whole["frontier"], 6):
        parted, chosen = budget(path, memory)
        assert cleave_run.plan(parted)[0][0] == chosen["step_peak_bytes"] <= memory
        peaks.append(chosen["step_peak_bytes"])
        times.append(chosen["recompute_bytes"])
    assert peaks == sorted(peaks, reverse=True) and times == sorted(times)
    assert len(set(peaks)) == 6


def test_min_cut_needs_no_less(program, opt, budget, cleave_run):
    """The frontier has a point at least as good as min-cut's, whatever that may recompute."""
    _, path = program("llama")
    for level in ("views", "cheap", "all"):
        cut, _ = opt(path, level, f"--partition-joint=recompute={level}")
        peak = cleave_run.plan(cut)[0][0]
        parted, chosen = budget(path, peak)
        assert cleave_run.plan(parted)[0][0] <= peak
        recomputed = [text.count("train.recomputed") for text in (cut.read_text(), parted.read_text())]
        if level == "all":
            assert recomputed[1] < recomputed[0]


def test_lowered_programs_use_what_is_planned(program, budget, cleave_run, tmp_path):
    _, path = program("llama")
    data = tmp_path / "text"
    data.write_bytes(bytes(range(32, 127)) * 40)
    _, whole = budget(path, "1TiB", lowered="true")
    for memory in spread_frontier(whole["frontier"], 3):
        lowered, chosen = budget(path, memory, lowered="true", then=["--lower-to-exec"])
        assert cleave_run.plan(lowered)[0][0] == pytest.approx(chosen["step_peak_bytes"], rel=0.01)
        metrics = tmp_path / "metrics.jsonl"
        cleave_run.succeed(lowered, "--steps", 2, "--data", f"text:{data}", "--metrics", metrics)
        rows = [json.loads(line) for line in metrics.read_text().splitlines()]
        measured = max(row["memory_bytes"] for row in rows if "memory_bytes" in row)
        assert measured == pytest.approx(chosen["step_peak_bytes"], rel=0.01)


def test_a_budget_that_is_too_small_says_what_would_do(program, build_dir, budget, cleave_run):
    _, path = program("llama")

    def fail(options):
        result = subprocess.run(
            [build_dir / "bin" / "cleave-opt", path, f"--partition-joint={options}", "-o", "/dev/null"],
            capture_output=True, text=True)
        assert result.returncode == 1 and result.stderr.count(": error: ") == 1 + result.stderr.count("cleave-opt: error: "), result.stderr
        return result.stderr

    message = fail("policy=budget memory=100KiB")
    least = int(re.search(r"the least that a step needs, .*\((\d+) bytes\)", message)[1])
    assert "are parameters" in message and "are optimizer state" in message
    assert re.search(r"note: the peak is at '[a-z.]+\w+' of the (forward|backward|update)", message)
    parted, _ = budget(path, least)
    assert cleave_run.plan(parted)[0][0] == least
    fail(f"policy=budget memory={least - 1}")
