"""--outline-stages=policy=budget: every rank of a pipeline stays within its memory, and computes what it did."""

import json
import re
import subprocess

import cleave_run  # noqa: F401
import pytest
from budgets import spread
from combinations_cover import covered
from pipelines import text, write_batch  # noqa: F401

PLANNED = re.compile(r"^rank \d+: peak of a step .* \((\d+) bytes\), of it state .*; recomputed of a microbatch (.*) of traffic$", re.M)
# Stages, ranks and microbatches.
SCHEDULES = {"1f1b": (4, 4, 6), "gpipe": (2, 2, 3), "interleaved-1f1b": (4, 2, 4)}
HALVES = {"zb-h1": (4, 4, 6), "zbv": (4, 2, 4), "interleaved-zero-bubble": (4, 2, 4)}


class Stages:
    """Programs in stages, each beside its weights, with what was planned for each rank: its peak, and what is
    recomputed."""

    def __init__(self, build, folder):
        self.build, self.folder = build, folder

    def run(self, source, schedule, policy, *then, to):
        count, ranks, microbatches = {**SCHEDULES, **HALVES}[schedule]
        of = f"schedule={schedule} ranks={ranks} microbatches={microbatches}"
        budget = f" {of}" if policy.startswith("policy=budget") else ""
        halves = ["--split-backward"] if schedule in HALVES else []
        return subprocess.run(
            [self.build / "bin" / "cleave-opt", source, f"--outline-stages=count={count} balance=cost explain=true {policy}{budget}",
             *halves, f"--build-schedule={of}", "--insert-p2p", "--verify-schedule", *then, "-o", to],
            text=True, capture_output=True)  # fmt: skip

    def make(self, source, schedule, policy, *then):
        path = self.folder / f"{source.stem}.{schedule}.{policy.replace(' ', '.')}.mlir"
        result = self.run(source, schedule, policy, *then, to=path)
        assert result.returncode == 0, result.stderr
        weights = path.with_suffix(".safetensors")
        if not weights.exists():
            weights.symlink_to(source.with_suffix(".safetensors"))
        planned = PLANNED.findall(result.stderr)
        return path, [int(peak) for peak, _ in planned], [again for _, again in planned]

    def least(self, source, schedule, options=""):
        """The least budget: what the errors of those that are too small say, rank by rank."""
        memory = 1
        while True:
            result = self.run(source, schedule, f"policy=budget memory={memory} {options}", to="/dev/null")
            if result.returncode == 0:
                return memory
            memory = int(re.search(r"needs .* \((\d+) bytes\)", result.stderr)[1])


@pytest.fixture(scope="module")
def stages(build_dir, tmp_path_factory):
    return Stages(build_dir, tmp_path_factory.mktemp("stages"))


def peaks(cleave_run, path):
    """By rank, as a dry run plans them."""
    return [device for device, _ in cleave_run.plan(path)]


@covered({"name": ["llama", "gpt_dropout"], "schedule": [*SCHEDULES, *HALVES]}, strength=1)
def test_planned_is_what_a_dry_run_says(name, schedule, program, stages, cleave_run):
    _, path = program(name)
    least = stages.least(path, schedule)
    _, most, again = stages.make(path, schedule, "policy=budget memory=1TiB")
    assert set(again) == {"0 B"}
    previous = most
    for memory in spread(max(most), least, 4):
        staged, planned, again = stages.make(path, schedule, f"policy=budget memory={memory}")
        assert peaks(cleave_run, staged) == planned
        assert all(peak <= memory for peak in planned)
        assert all(peak <= before for peak, before in zip(planned, previous, strict=True))
        previous = planned
    assert max(previous) < max(most)


@pytest.mark.parametrize("schedule,count", [("1f1b", 50), ("zb-h1", 20)])
def test_a_smaller_budget_never_gives_a_rank_more(schedule, count, program, stages):
    _, path = program("llama")
    least = stages.least(path, schedule)
    _, previous, _ = stages.make(path, schedule, "policy=budget memory=1TiB")
    seen = {tuple(previous)}
    for memory in spread(max(previous), least, count):
        _, planned, _ = stages.make(path, schedule, f"policy=budget memory={memory}")
        assert all(peak <= min(before, memory) for peak, before in zip(planned, previous, strict=True))
        seen.add(tuple(planned))
        previous = planned
    assert len(seen) > count // 5


def test_only_ranks_that_do_not_fit_recompute(program, stages):
    """Each has its own stages and its own number of microbatches in flight."""
    _, path = program("llama")
    whole, most, _ = stages.make(path, "1f1b", "policy=budget memory=1TiB")

    def count_recomputed(staged):
        backward = dict(re.findall(r"func\.func @backward_(\d)\((.*?)\n  }", staged.read_text(), re.S))
        return [backward[str(rank)].count("train.recomputed") for rank in range(4)]

    views = count_recomputed(whole)
    for memory in (sum(sorted(most)[-2:]) // 2, sum(sorted(most)[-3:-1]) // 2):
        staged, _, again = stages.make(path, "1f1b", f"policy=budget memory={memory}")
        assert [each == "0 B" for each in again] == [peak <= memory for peak in most]
        more = [now > before for now, before in zip(count_recomputed(staged), views, strict=True)]
        assert more == [peak > memory for peak in most]


@covered({"name": ["llama", "gpt_dropout", "moe"], "schedule": [*SCHEDULES, *HALVES]}, strength=1)
def test_gradients_are_those_of_saving_everything(name, schedule, program, stages, cleave_run, tmp_path):
    spec, path = program(name)
    everything, _, _ = stages.make(path, schedule, "policy=save-all")
    staged, _, again = stages.make(path, schedule, f"policy=budget memory={stages.least(path, schedule)}")
    assert set(again) != {"0 B"}
    batch = write_batch(spec, tmp_path / "batch.safetensors", microbatches={**SCHEDULES, **HALVES}[schedule][2])
    if name == "llama":
        proof = subprocess.run([stages.build / "bin" / "cleave-prove", path, staged], capture_output=True, text=True)
        assert proof.returncode == 0, proof.stdout + proof.stderr
    # The tolerance is 0: loss, gradients and buffers, bitwise.
    cleave_run.succeed(everything, "--against", staged, "--inputs", batch, "--seed", 3)


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_lowered_ranks_use_what_is_planned(schedule, program, stages, text, cleave_run, tmp_path):  # noqa: F811
    _, path = program("llama")
    least = stages.least(path, schedule, "lowered=true")
    _, most, _ = stages.make(path, schedule, "policy=budget memory=1TiB lowered=true", "--lower-to-exec")
    for memory in spread(max(most), least, 3):
        staged, planned, _ = stages.make(path, schedule, f"policy=budget memory={memory} lowered=true", "--lower-to-exec")
        dry = peaks(cleave_run, staged)
        assert dry == pytest.approx(planned, rel=0.02)
        assert all(peak <= most for peak, most in zip(dry, planned, strict=True))
        metrics = tmp_path / "metrics.jsonl"
        cleave_run.succeed(staged, "--ranks", SCHEDULES[schedule][1], "--steps", 2, "--data", text, "--quiet", "--metrics", metrics)
        rows = [json.loads(line) for line in metrics.read_text().splitlines()]
        # Of the first rank. What it sends is gone earlier than its list can prove.
        measured = max(row["memory_bytes"] for row in rows if "memory_bytes" in row)
        assert 0.9 * planned[0] <= measured <= planned[0]
    assert max(planned) < max(most)


def test_a_budget_that_is_too_small_says_which_rank_needs_what(program, stages, tmp_path):
    _, path = program("llama")
    result = stages.run(path, "1f1b", "policy=budget memory=100KiB", to=tmp_path / "none.mlir")
    assert result.returncode == 1 and not (tmp_path / "none.mlir").exists()
    assert re.search(
        r"error: cannot do with 100.0 KiB of memory: rank 0 of schedule '1f1b' needs [\d.]+ [KM]iB \(\d+ bytes\) "
        r"even if all that helps is recomputed; of these [\d.]+ KiB are parameters, .*[\d.]+ KiB are optimizer state, .* are inputs, "
        r"[\d.]+ KiB are gradients, and [\d.]+ KiB are values of microbatches\n", result.stderr), result.stderr  # fmt: skip
    assert result.stderr.count("cannot do") == 1
