"""Forward and backward of a partitioned program compute, bit for bit, what the joint program does."""

import itertools
import json
import subprocess

import cleave_run  # noqa: F401
import combinations_cover
import pytest
from exported_models import MODELS

POLICIES = ["save-all", "min-cut", "min-cut recompute=views", "min-cut recompute=all"]


def cases():
    """Every model under two policies at least, pairwise; all pairs with CLEAVE_TEST_ALL."""
    if combinations_cover.run_all():
        return list(itertools.product(MODELS, POLICIES))
    chosen = [(name, "min-cut") for name in MODELS]
    return chosen + [
        (name, [p for p in POLICIES if p != "min-cut"][i % 3]) for i, name in enumerate(MODELS)
    ]


@pytest.fixture(scope="module")
def partition(build_dir, tmp_path_factory):
    """Partitions a program: the new program's path, beside its weights, and the explanation."""
    folder = tmp_path_factory.mktemp("partitioned")

    def run(path, policy):
        parted = folder / f"{path.stem}.{policy.replace(' ', '.')}.mlir"
        report = parted.with_suffix(".json")
        option = f"--partition-joint=policy={policy} json={report}"
        subprocess.run([build_dir / "bin" / "cleave-opt", path, option, "-o", parted], check=True)
        weights = parted.with_suffix(".safetensors")
        if not weights.exists():
            weights.symlink_to(path.with_suffix(".safetensors"))
        return parted, json.loads(report.read_text())

    return run


def saved_bytes(explanation):
    return sum(value["bytes"] for value in explanation["saved"])


@pytest.mark.parametrize("name,policy", cases())
def test_parts_compute_what_the_whole_does(name, policy, program, partition, example, cleave_run):
    spec, path = program(name)
    parted, explanation = partition(path, policy)
    # The default tolerance is 0: loss, outputs, gradients and buffers, bitwise.
    cleave_run.succeed(path, "--against", parted, "--inputs", example(spec), "--seed", 3)
    forward, backward = explanation["functions"]
    assert (forward["phase"], backward["phase"]) == ("forward", "backward")
    assert forward["held_bytes"] == saved_bytes(explanation)


@pytest.mark.parametrize("name", MODELS)
def test_min_cut_saves_no_more(name, program, partition):
    _, path = program(name)
    _, everything = partition(path, "save-all")
    _, least = partition(path, "min-cut")
    _, views = partition(path, "min-cut recompute=views")
    _, nothing = partition(path, "min-cut recompute=all")
    assert saved_bytes(least) <= saved_bytes(views) <= saved_bytes(everything)
    assert saved_bytes(nothing) <= saved_bytes(least)
    peaks = {e["functions"][1]["peak_bytes"] for e in (everything, views)}
    assert max(peaks) <= everything["joint_peak_bytes"], "parting a microbatch costs no memory"


def test_checkpointing_saves_memory(program, partition):
    """The tagged model holds less than the same model without tags, and computes its blocks again."""
    _, plain = program("gpt_tied")
    _, tagged = program("gpt_checkpointed")
    for policy in ("save-all", "min-cut"):
        _, whole = partition(plain, policy)
        _, less = partition(tagged, policy)
        assert saved_bytes(less) < saved_bytes(whole) / 3
        assert less["functions"][1]["peak_bytes"] < whole["functions"][1]["peak_bytes"]
        recomputed = less["functions"][1]["recomputed"]
        assert recomputed["aten.addmm" if "aten.addmm" in recomputed else "aten.mm"] > 0


def test_dropout_is_computed_again_with_the_same_numbers(program, partition, example, cleave_run):
    spec, path = program("gpt_dropout")
    parted, explanation = partition(path, "min-cut recompute=all")
    recomputed = explanation["functions"][1]["recomputed"]
    assert any("rng" in name for name in recomputed), recomputed
    for seed in (0, 1):
        cleave_run.succeed(path, "--against", parted, "--inputs", example(spec), "--seed", seed)


def test_training_in_parts_is_training(program, partition, cleave_run, tmp_path):
    """Steps, microbatches, accumulation, dropout and the optimizer, bitwise after three steps."""
    _, path = program("gpt_untied_dropout")
    data = tmp_path / "text"
    data.write_bytes(bytes(range(32, 127)) * 40)
    parted, _ = partition(path, "min-cut recompute=all")
    cleave_run.succeed(
        path, "--against", parted, "--steps", 3, "--microbatches", 3, "--data", f"text:{data}",
        "--seed", 5)


def test_planned_memory_includes_saved_values(program, partition, cleave_run):
    _, path = program("gpt_untied")
    parted, explanation = partition(path, "save-all")
    text = cleave_run.succeed(parted, "--dry-run")
    row = next(line for line in text.splitlines() if "saved for the backward" in line)
    assert int(row.split()[-1]) == saved_bytes(explanation)
    peaks = [int(next(line for line in cleave_run.succeed(p, "--dry-run").splitlines()
                      if "peak of a step" in line).split()[-1]) for p in (path, parted)]
    assert peaks[0] == peaks[1], "a backward right after its forward needs what both did together"


def test_weight_gradients_cannot_wait_without_a_function(program, partition, example, cleave_run):
    spec, path = program("gpt_untied")
    parted, _ = partition(path, "save-all")
    for arguments in (["--inputs", example(spec)], ["--dry-run"]):
        message = cleave_run.fail(parted, *arguments, "--weight-gradients=deferred")
        assert "has no function of phase backward_weight" in message
        assert "--split-backward" in message
