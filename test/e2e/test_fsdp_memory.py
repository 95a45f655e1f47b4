"""FSDP's collectives once per step: gathered parameters are there through the step, and are planned and budgeted for."""

import json
import re
import subprocess

import cleave_run  # noqa: F401
import pytest
from combinations_cover import part_of_today
from pipelines import text, write_batch  # noqa: F401

PLAN = {"mesh": [["fsdp", 2]], "rules": [{"style": "fsdp", "axis": "fsdp"}]}
PLANNED = re.compile(r"^rank \d+: peak of a step .* \((\d+) bytes\), of it state ", re.M)
MODELS = ["llama", "gpt_dropout"]
# Stages, ranks of the pipeline and microbatches.
SCHEDULES = {"1f1b": (2, 2, 3), "interleaved-1f1b": (4, 2, 4), "zbv": (4, 2, 4), "interleaved-zero-bubble": (4, 2, 4)}


@pytest.fixture(scope="module")
def local(program, build_dir, tmp_path_factory):
    """A model on ranks that shard its parameters, whose microbatches gather them: its spec, its program and that, in a
    file with these passes after it."""
    folder = tmp_path_factory.mktemp("local")
    (folder / "plan.json").write_text(json.dumps(PLAN))

    def make(name, *passes, to, may_fail=False):
        spec, path = program(name)
        result = subprocess.run(
            [build_dir / "bin" / "cleave-opt", path, f"--annotate-placements=plan={folder}/plan.json", "--propagate-placements",
             "--partition", "--cse", "--canonicalize", *passes, "-o", to], text=True, capture_output=True)  # fmt: skip
        assert result.returncode == 0 or may_fail, result.stderr
        to.with_suffix(".safetensors").unlink(missing_ok=True)
        to.with_suffix(".safetensors").symlink_to(path.with_suffix(".safetensors"))
        return spec, path, result.stderr

    return make


def read_table(text, line):
    """Of each rank along the pipeline."""
    return [int(bytes) for bytes in re.findall(rf"^  {line} .* (\d+)$", text, re.M)]


def measure(cleave_run, program, data, ranks, folder, *options):
    metrics = folder / "metrics.jsonl"
    metrics.unlink(missing_ok=True)
    cleave_run.succeed(program, "--ranks", ranks, "--steps", 2, "--data", data, "--quiet", "--metrics", metrics, *options)
    return max(row["memory_bytes"] for row in map(json.loads, metrics.read_text().splitlines()) if "memory_bytes" in row)


@pytest.mark.parametrize("microbatches", [1, 3])
@pytest.mark.parametrize("name", MODELS)
def test_what_a_dry_run_says_is_used(name, microbatches, local, text, cleave_run, tmp_path):  # noqa: F811
    path = tmp_path / "step.mlir"
    local(name, "--split-fsdp-collectives", "--partition-joint", "--lower-to-exec", to=path)
    said = cleave_run.succeed(path, "--dry-run", "--ranks", 2, "--microbatches", microbatches)
    (gathered,), (parameters,), (peak,) = (
        read_table(said, line) for line in ("gathered parameters", "parameters", "peak of a step"))  # fmt: skip
    # All of them, on two ranks that have half of each.
    assert gathered == pytest.approx(2 * parameters, rel=0.02)
    assert measure(cleave_run, path, text, 2, tmp_path, "--microbatches", microbatches) == pytest.approx(peak, rel=0.02)


@pytest.mark.parametrize("name,schedule", part_of_today([(name, schedule) for name in MODELS for schedule in SCHEDULES]))
def test_stages_use_what_is_planned(name, schedule, local, text, cleave_run, tmp_path):  # noqa: F811
    count, ranks, microbatches = SCHEDULES[schedule]
    of = f"schedule={schedule} ranks={ranks} microbatches={microbatches}"
    then = (f"--build-schedule={of}", "--insert-p2p", "--verify-schedule")
    if schedule.startswith(("z", "interleaved-z")):
        then = ("--split-backward", *then)

    def make(policy, may_fail=False):
        path = tmp_path / f"{policy.replace(' ', '.')}.mlir"
        spec, _, said = local(
            name, f"--outline-stages=count={count} balance=cost explain=true split-fsdp-collectives=true {policy}", *then, to=path,
            may_fail=may_fail)  # fmt: skip
        return spec, path, said

    spec, everything, _ = make("policy=save-all")
    said = cleave_run.succeed(everything, "--dry-run")
    gathered, most = read_table(said, "gathered parameters"), read_table(said, "peak of a step")
    assert len(gathered) == ranks and min(gathered) > 0
    batch = write_batch(spec, tmp_path / "batch.safetensors", microbatches=microbatches)
    # The least, rank by rank.
    least, said = 0, "needs 1 (1 bytes)"
    while found := re.search(r"needs .* \((\d+) bytes\).*", said):
        assert least == 0 or " are gathered parameters, " in found[0]
        least = int(found[1])
        _, _, said = make(f"policy=budget {of} memory={least}", may_fail=True)
    for memory in (max(most), least):
        _, staged, said = make(f"policy=budget {of} memory={memory}")
        planned = [int(peak) for peak in PLANNED.findall(said)]
        # To the byte, with what is gathered.
        said = cleave_run.succeed(staged, "--dry-run")
        assert read_table(said, "peak of a step") == planned and max(planned) <= memory
        assert read_table(said, "gathered parameters") == gathered
        # A process, too, whose kernels take something for themselves, and whose sends are gone earlier than planned.
        assert measure(cleave_run, staged, text, 2 * ranks, tmp_path) == pytest.approx(planned[0], rel=0.2)
        # The tolerance is 0: loss and gradients, bitwise.
        cleave_run.succeed(everything, "--against", staged, "--inputs", batch, "--seed", 3, "--ranks", 2 * ranks)
    assert max(planned) < max(most)


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("schedule", ["interleaved-1f1b", "zbv"])
def test_before_and_after_stages_are_divided(name, schedule, local, cleave_run, build_dir, tmp_path):
    """What --outline-stages does itself is what --split-fsdp-collectives does of its stages."""
    count, ranks, microbatches = SCHEDULES[schedule]
    of = f"schedule={schedule} ranks={ranks} microbatches={microbatches}"
    halves = ["--split-backward"] if schedule == "zbv" else []
    first, later = tmp_path / "first.mlir", tmp_path / "later.mlir"
    then = (f"--build-schedule={of}", "--insert-p2p", "--verify-schedule")
    spec, whole, _ = local(name, f"--outline-stages=count={count} split-fsdp-collectives=true", *halves, "--bucket-gradients", *then,
                           to=first)  # fmt: skip
    local(name, f"--outline-stages=count={count}", *halves, "--split-fsdp-collectives", "--bucket-gradients", *then, to=later)
    said = [cleave_run.succeed(path, "--dry-run") for path in (first, later)]
    for line in ("gathered parameters", "gradients"):
        assert read_table(said[0], line) == read_table(said[1], line)
    batch = write_batch(spec, tmp_path / "batch.safetensors", microbatches=microbatches)
    cleave_run.succeed(later, "--against", first, "--inputs", batch, "--seed", 3, "--ranks", 2 * ranks)
    proof = subprocess.run([build_dir / "bin" / "cleave-prove", whole, first], capture_output=True, text=True)
    assert proof.returncode == 0, proof.stdout + proof.stderr
