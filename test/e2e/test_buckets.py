"""--bucket-gradients changes how gradients are summed, not what they are.

On one and two ranks buckets give the same bits as one reduction a gradient; on four the backend adds
in an order that depends on where in its buffer a number lies, so gradients agree as docs/design.md
says.
"""

import pathlib
import re
import statistics
import subprocess
import sys

import cleave
import pytest
from combinations_cover import cover, name, seed
from safetensors.torch import load_file
from training import (
    MODELS, Model, checkpoint_tensors, losses, newest_checkpoint, random_batches, run, save_batches, train,
)  # fmt: skip

GRADIENTS = 1e-5
LOSSES = 1e-5


def bucketed(build, program, options, path):
    """The program with its gradients in buckets; the weights stay where they are."""
    result = subprocess.run(
        [build / "bin" / "cleave-opt", program, f"--bucket-gradients={options}",
         "--mlir-print-debuginfo", "-o", path],
        capture_output=True, text=True,
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    return path


def run_steps(build, program, weights, case, data, steps, out):
    train(build, program, "--weights", weights, "--ranks", case["ranks"], "--ranks-as",
          case["ranks_as"], "--microbatches", case["microbatches"], "--steps", steps, "--seed", 3,
          "--threads", 1, "--data", f"safetensors:{data}", "--metrics", f"{out}.jsonl",
          "--checkpoint", out)  # fmt: skip
    return losses(out.with_suffix(".jsonl")), checkpoint_tensors(newest_checkpoint(out))


def bucket_sizes(text):
    """Members and bytes of each bucket of a program."""
    buckets = re.findall(r"train\.bucket @\w+ of f32 \[(.*?)\]( over)?", text)
    assert buckets
    return [
        (len(re.findall(r'"[^"]+" : ', members)),
         sum(elements(shape) for shape in re.findall(r"tensor<([0-9x]*)f32>", members)) * 4)
        for members, _ in buckets
    ]  # fmt: skip


def elements(shape):
    count = 1
    for size in shape.rstrip("x").split("x"):
        count *= int(size or 1)
    return count


@pytest.mark.parametrize(
    "case",
    cover({
        "model": ["gpt_tied", "gpt_dropout", "moe", "llama", "resnet18"],
        "ranks": [1, 2, 4],
        "microbatches": [1, 2, 8],
        "size": ["0.000001", "0.05", "1000"],
        "ranks_as": ["processes", "threads"],
    }),
    ids=name,
)  # fmt: skip
def test_buckets_change_nothing(build_dir, tmp_path, model, case):
    subject = model(case["model"])
    program = subject.for_ranks(build_dir)
    # On four ranks the second step sees parameters that differ by rounding.
    steps = 1 if case["ranks"] == 4 else 2
    batches = random_batches(subject.spec, steps, case["ranks"] * case["microbatches"], seed())
    data = save_batches(subject.spec, batches, tmp_path / "data.safetensors")
    options = f"bucket-size-mb={case['size']} first-bucket-mb={case['size']} " \
              f"require-accumulations={case['microbatches']}"  # fmt: skip
    other = bucketed(build_dir, program, options, tmp_path / "bucketed.mlir")

    expected, wanted = run_steps(
        build_dir, program, subject.weights, case, data, steps, tmp_path / "single"
    )
    found, tensors = run_steps(
        build_dir, other, subject.weights, case, data, steps, tmp_path / "bucketed"
    )
    assert tensors.keys() == wanted.keys()
    if case["ranks"] < 4:
        assert found == expected
        for key, tensor in wanted.items():
            assert tensors[key].equal(tensor), key
        return
    assert all(abs(a - b) <= LOSSES * abs(b) for a, b in zip(found, expected, strict=True))
    moments = [key for key in wanted if key.endswith((".exp_avg", ".momentum_buffer"))]
    assert moments
    floor = 1e-3 * statistics.median(float(wanted[key].abs().max()) for key in moments)
    for key in moments:
        scale = max(float(wanted[key].abs().max()), floor)
        assert float((tensors[key] - wanted[key]).abs().max()) / scale <= GRADIENTS, key


@pytest.mark.parametrize("size", ["0.000001", "0.05", "1000"])
def test_one_reduction_for_each_bucket_and_no_second_copy(build_dir, tmp_path, model, size):
    subject = model("gpt_tied")
    program = subject.for_ranks(build_dir)
    other = bucketed(
        build_dir, program, f"bucket-size-mb={size} first-bucket-mb={size}", tmp_path / "b.mlir"
    )
    buckets = bucket_sizes(other.read_text())
    gradients = len(re.findall(r"dist\.all_reduce", program.read_text()))
    assert sum(members for members, _ in buckets) == gradients
    limit = float(size) * 1024 * 1024
    assert all(members == 1 or size_in_bytes <= limit for members, size_in_bytes in buckets)
    assert len(buckets) == {"0.000001": gradients, "1000": 1}.get(size, len(buckets))

    costs = run(build_dir, other, "--dry-run", "--microbatches", 4).stdout
    parameters = sum(t.numel() * 4 for t in load_file(subject.weights).values())
    assert re.search(r"(\d+) communications", costs)[1] == str(len(buckets))
    assert int(re.search(r"of these in buckets .* (\d+)\n", costs)[1]) == parameters
    plain = run(build_dir, program, "--dry-run", "--microbatches", 4).stdout

    def peak(text):
        return int(re.search(r"peak of a step .* (\d+)\n", text)[1])

    # Gradients are in memory once: in the buckets, as before in the accumulators.
    assert peak(costs) <= peak(plain) + parameters / 100


def test_products_that_write_into_buckets_agree(build_dir, tmp_path, model):
    subject = model("gpt_tied")
    program = subject.for_ranks(build_dir)
    fused = bucketed(build_dir, program, "fuse-accumulate", tmp_path / "fused.mlir")
    assert fused.read_text().count("train.contribute_mm") >= 4
    case = {"ranks": 2, "ranks_as": "threads", "microbatches": 4}
    batches = random_batches(subject.spec, 1, 8, seed())
    data = save_batches(subject.spec, batches, tmp_path / "data.safetensors")
    _, wanted = run_steps(build_dir, program, subject.weights, case, data, 1, tmp_path / "plain")
    _, found = run_steps(build_dir, fused, subject.weights, case, data, 1, tmp_path / "fused")
    moments = [key for key in wanted if key.endswith(".exp_avg")]
    floor = 1e-3 * statistics.median(float(wanted[key].abs().max()) for key in moments)
    for key in moments:
        scale = max(float(wanted[key].abs().max()), floor)
        assert float((found[key] - wanted[key]).abs().max()) / scale <= GRADIENTS, key


def test_another_number_of_microbatches_is_refused(build_dir, tmp_path, model):
    subject = model("gpt_tied")
    program = bucketed(
        build_dir, subject.for_ranks(build_dir), "require-accumulations=4", tmp_path / "b.mlir"
    )
    batches = random_batches(subject.spec, 1, 2, seed())
    data = save_batches(subject.spec, batches, tmp_path / "data.safetensors")
    result = run(build_dir, program, "--weights", subject.weights, "--steps", 1, "--microbatches",
                 2, "--data", f"safetensors:{data}")  # fmt: skip
    assert result.returncode == 1
    assert (
        "bucket 'bucket0' requires 4 accumulations, but a step has 2 microbatches" in result.stderr
    )


def test_memory_above_the_limit_is_refused_with_what_takes_it(build_dir, tmp_path, model):
    subject = model("gpt_tied")
    program = bucketed(build_dir, subject.for_ranks(build_dir), "", tmp_path / "b.mlir")
    batches = random_batches(subject.spec, 1, 2, seed())
    data = save_batches(subject.spec, batches, tmp_path / "data.safetensors")
    arguments = [program, "--weights", subject.weights, "--steps", 1, "--microbatches", 2,
                 "--data", f"safetensors:{data}", "--memory-limit"]  # fmt: skip
    result = run(build_dir, *arguments, "0.1MiB")
    assert result.returncode == 1
    for text in (
        "of memory on a rank with 2 microbatches per step, more than --memory-limit 102.4 KiB",
        "optimizer state", "of these in buckets", "activations, peak",
    ):  # fmt: skip
        assert text in result.stderr
    assert run(build_dir, *arguments, "1GiB").returncode == 0
    result = run(build_dir, *arguments, "much")
    assert result.returncode == 1 and "found 'much'" in result.stderr


def test_ranks_that_accumulate_differently_are_refused(build_dir, tmp_path, model):
    subject = model("gpt_tied")
    program = bucketed(build_dir, subject.for_ranks(build_dir), "", tmp_path / "b.mlir")
    batches = random_batches(subject.spec, 1, 8, seed())
    data = save_batches(subject.spec, batches, tmp_path / "data.safetensors")
    script = tmp_path / "rank.sh"
    script.write_text(
        "#!/bin/sh\n"
        f'exec {build_dir / "bin" / "cleave-run"} {program} --weights {subject.weights} --steps 1 '
        f"--data safetensors:{data} --microbatches $((RANK + 1))\n"
    )
    script.chmod(0o755)
    result = subprocess.run(
        [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "--no-python",
         "--rdzv-backend", "c10d", "--rdzv-endpoint", "localhost:0", script],
        capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert result.returncode != 0
    assert "--microbatches" in result.stderr and "Step 1" not in result.stdout


@pytest.mark.parametrize("weight_gradients", ["immediate", "deferred"])
def test_a_parted_backward_fills_buckets(build_dir, tmp_path, model, weight_gradients):
    """forward, dI and dW of their own, dW later: the bits of the joint program's reductions."""
    subject = model("gpt_tied")
    program = subject.for_ranks(build_dir)
    parts = ["--partition-joint", "--split-backward"]
    buckets = ["--bucket-gradients=bucket-size-mb=0.05 first-bucket-mb=0.05"]
    other = tmp_path / "parted.mlir"
    result = subprocess.run(
        [build_dir / "bin" / "cleave-opt", program, *parts, *buckets, "-o", other],
        capture_output=True, text=True,
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    batches = random_batches(subject.spec, 2, 4, seed())
    data = save_batches(subject.spec, batches, tmp_path / "data.safetensors")
    options = ["--weights", subject.weights, "--ranks", 2, "--ranks-as", "threads", "--microbatches",
               2, "--steps", 2, "--seed", 3, "--threads", 1, "--data", f"safetensors:{data}"]  # fmt: skip
    train(build_dir, program, *options, "--checkpoint", tmp_path / "joint")
    train(build_dir, other, *options, "--checkpoint", tmp_path / "parted", "--weight-gradients",
          weight_gradients)  # fmt: skip
    wanted = checkpoint_tensors(newest_checkpoint(tmp_path / "joint"))
    found = checkpoint_tensors(newest_checkpoint(tmp_path / "parted"))
    assert all(found[key].equal(tensor) for key, tensor in wanted.items())


def test_a_parameter_is_frozen_between_steps(build_dir, tmp_path):
    """A run goes on with a program in which a parameter is frozen: it stays, the others move on."""
    subject = Model("gpt_tied", tmp_path / "whole")
    spec = MODELS["gpt_tied"]()
    spec.module.ln_f.weight.requires_grad_(False)
    frozen = pathlib.Path(cleave.export_spec(spec, tmp_path / "frozen"))
    passes = "bucket-size-mb=0.05 first-bucket-mb=0.05"
    synced = tmp_path / "frozen.dp.mlir"
    subprocess.run([build_dir / "bin" / "cleave-opt", frozen, "--sync-gradients", "-o", synced],
                   check=True)  # fmt: skip
    before = bucketed(build_dir, subject.for_ranks(build_dir), passes, tmp_path / "before.mlir")
    after = bucketed(build_dir, synced, passes, tmp_path / "after.mlir")
    batches = random_batches(subject.spec, 4, 2, seed())
    data = save_batches(subject.spec, batches, tmp_path / "data.safetensors")

    def go(program, steps, folder, *options):
        train(build_dir, program, "--weights", subject.weights, "--ranks", 2, "--ranks-as", "threads",
              "--seed", 3, "--threads", 1, "--data", f"safetensors:{data}", "--steps", steps,
              "--checkpoint", folder, *options)  # fmt: skip
        return checkpoint_tensors(newest_checkpoint(folder))

    two = go(before, 2, tmp_path / "run")
    four = go(after, 4, tmp_path / "run", "--resume")
    # The same without buckets, bit for bit.
    go(subject.for_ranks(build_dir), 2, tmp_path / "plain")
    expected = go(synced, 4, tmp_path / "plain", "--resume")
    assert four["state.ln_f.weight"].equal(two["state.ln_f.weight"])
    assert not four["state.ln_f.bias"].equal(two["state.ln_f.bias"])
    assert four.keys() == expected.keys() and "optim.ln_f.weight.exp_avg" not in four
    assert all(four[key].equal(tensor) for key, tensor in expected.items())
