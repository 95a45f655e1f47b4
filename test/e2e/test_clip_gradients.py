"""--clip-gradients against torch.nn.utils.clip_grad_norm_."""

import re
import subprocess

import pytest
import torch
from cleave import FSDP, Plan
from combinations_cover import seed
from safetensors.torch import load_file, save_file
from training import Model, checkpoint_tensors, newest_checkpoint, random_batches, read_metrics, save_batches, train


def clipped(build, program, passes, path):
    subprocess.run(
        [build / "bin" / "cleave-opt", program, *passes, "--mlir-print-debuginfo", "-o", path],
        check=True,
    )
    return path


def norm_file(out):
    return out.with_suffix(".jsonl")


def reported_norm(out):
    (row,) = read_metrics(norm_file(out))
    return row["gradient_norm"]


def step(build, program, subject, data, out, *options):
    train(build, program, "--weights", subject.weights, "--steps", 1, "--seed", 3, "--threads", 1,
          "--data", f"safetensors:{data}", "--checkpoint", out, "--metrics", norm_file(out), *options)  # fmt: skip
    return checkpoint_tensors(newest_checkpoint(out))


def test_clipping_is_torch_s(build_dir, tmp_path):
    subject = Model("gpt_tied", tmp_path / "model")
    batch = random_batches(subject.spec, 1, 1, seed())
    data = save_batches(subject.spec, batch, tmp_path / "data.safetensors")
    inputs = {name: value.contiguous() for name, value in batch[0].items()}
    save_file(inputs, tmp_path / "inputs.safetensors")
    subprocess.run(
        [build_dir / "bin" / "cleave-run", subject.program, "--threads", "1", "--inputs",
         tmp_path / "inputs.safetensors", "--dump", tmp_path / "dump.safetensors"],
        check=True, capture_output=True,
    )  # fmt: skip
    dump = load_file(tmp_path / "dump.safetensors")
    parameters = []
    for name, gradient in dump.items():
        if name.startswith("grad."):
            parameters.append(torch.nn.Parameter(torch.zeros_like(gradient)))
            parameters[-1].grad = gradient.clone()
    norm = float(torch.nn.utils.clip_grad_norm_(parameters, 1e9))
    limit = norm / 3
    torch.nn.utils.clip_grad_norm_(parameters, limit)

    beta1 = float(re.search(r"beta1 = ([0-9.e+-]+)", subject.program.read_text())[1])
    for bound, factor in ((limit, None), (2 * norm, 1.0)):
        program = clipped(build_dir, subject.program, [f"--clip-gradients=max-norm={bound!r}"],
                          tmp_path / "clipped.mlir")  # fmt: skip
        state = step(build_dir, program, subject, data, tmp_path / f"step{factor}")
        assert abs(reported_norm(tmp_path / f"step{factor}") / norm - 1) < 1e-6
        names = [name[5:] for name in dump if name.startswith("grad.")]
        for name, parameter in zip(names, parameters, strict=True):
            gradient = parameter.grad if factor is None else dump[f"grad.{name}"]
            # Adam's first moment of a first step; one rounding more than the gradient.
            torch.testing.assert_close(
                state[f"optim.{name}.exp_avg"], (1 - beta1) * gradient, rtol=1e-6, atol=0
            )


def test_clipping_comes_after_the_reduction(build_dir, tmp_path):
    """On two ranks all passes together clip the sum's norm, in buckets as without."""
    subject = Model("gpt_tied", tmp_path / "model")
    batches = random_batches(subject.spec, 1, 2, seed())
    data = save_batches(subject.spec, batches, tmp_path / "data.safetensors")
    clip = "--clip-gradients=max-norm=0.01"
    single = clipped(build_dir, subject.for_ranks(build_dir), [clip], tmp_path / "a.mlir")
    buckets = clipped(
        build_dir, subject.for_ranks(build_dir), ["--bucket-gradients", clip], tmp_path / "b.mlir"
    )
    wanted = step(build_dir, single, subject, data, tmp_path / "a", "--ranks", 2)
    found = step(build_dir, buckets, subject, data, tmp_path / "b", "--ranks", 2)
    assert all(found[name].equal(tensor) for name, tensor in wanted.items())
    # The same batch as two microbatches on one rank has the same norm.
    one = clipped(build_dir, subject.program, [clip], tmp_path / "c.mlir")
    alone = step(build_dir, one, subject, data, tmp_path / "c", "--microbatches", 2)
    moments = [name for name in wanted if name.endswith(".exp_avg")]
    total = torch.stack([wanted[name].norm() for name in moments]).norm()
    expected = torch.stack([alone[name].norm() for name in moments]).norm()
    torch.testing.assert_close(total, expected, rtol=1e-5, atol=0)
    # All of them report the norm before it was bounded.
    norms = [reported_norm(tmp_path / name) for name in "abc"]
    assert norms[0] == norms[1] > 0.01 and abs(norms[2] / norms[0] - 1) < 1e-5


FORMS = {
    "lowered": (["--lower-to-exec"], []),
    "stages": (["--outline-stages=count=2 balance=cost"], []),
    "pipeline": (["--outline-stages=count=2 balance=cost"], ["--ranks", 2]),
    "lowered pipeline": (["--outline-stages=count=2 balance=cost"], ["--ranks", 2]),
}


@pytest.mark.parametrize("form", FORMS)
def test_norm_is_reported_in_every_form(build_dir, tmp_path, form):
    subject = Model("gpt_tied", tmp_path / "model")
    batches = random_batches(subject.spec, 2, 2, seed())
    data = save_batches(subject.spec, batches, tmp_path / "data.safetensors")
    before, options = FORMS[form]
    clip = "--clip-gradients=max-norm=0.01"
    schedule = ["--build-schedule=schedule=1f1b ranks=2 microbatches=2", "--insert-p2p"] if "pipeline" in form else []
    after = ["--lower-to-exec"] if "lowered" in form else []
    passes = [*(p for p in before if p not in after), clip, *schedule, *after]
    program = clipped(build_dir, subject.program, passes, tmp_path / "program.mlir")
    plain = clipped(build_dir, subject.program, [clip], tmp_path / "plain.mlir")
    norms = []
    for path, more in ((program, options), (plain, [])):
        train(build_dir, path, "--weights", subject.weights, "--steps", 2, "--threads", 1, "--microbatches", 2,
              "--data", f"safetensors:{data}", "--metrics", tmp_path / "m", *more)  # fmt: skip
        norms.append([row["gradient_norm"] for row in read_metrics(tmp_path / "m")])
    assert norms[0] == pytest.approx(norms[1], rel=1e-6) and norms[0][0] != norms[0][1]


PLACED = ["--annotate-placements=plan={plan}", "--propagate-placements", "--partition"]
MEASURED = {
    "one": ([], [], ["--microbatches", 2]),
    "lowered": ([], ["--lower-to-exec"], ["--microbatches", 2]),
    "buckets": (["--sync-gradients=axis=dp", "--bucket-gradients"], [], ["--ranks", 2]),
    "fsdp": (PLACED, [], ["--ranks", 2, "--microbatches", 2]),
    "pipeline": (
        ["--outline-stages=count=2 balance=cost"],
        ["--build-schedule=schedule=1f1b ranks=2 microbatches=2", "--insert-p2p"],
        ["--ranks", 2],
    ),
}


@pytest.mark.parametrize("form", MEASURED)
def test_the_norm_alone(build_dir, tmp_path, form):
    """Gradients stay as they are: losses and state are those of the program without it, bit for bit."""
    subject = Model("gpt_tied", tmp_path / "model")
    Plan({"dp": 2}, {"": FSDP("dp")}).write(tmp_path / "plan.json")
    batches = random_batches(subject.spec, 2, 2, seed())
    data = save_batches(subject.spec, batches, tmp_path / "data.safetensors")
    before, after, options = MEASURED[form]
    before = [each.format(plan=tmp_path / "plan.json") for each in before]
    rows, states = {}, {}
    for name, passes in (("plain", []), ("measured", ["--measure-gradient-norm"]), ("clipped", ["--clip-gradients=max-norm=1e9"])):
        program = clipped(build_dir, subject.program, [*before, *passes, *after], tmp_path / f"{name}.mlir")
        train(build_dir, program, "--weights", subject.weights, "--steps", 2, "--threads", 1, "--data", f"safetensors:{data}",
              "--metrics", tmp_path / "m", "--checkpoint", tmp_path / name, *options)  # fmt: skip
        rows[name] = read_metrics(tmp_path / "m")
        states[name] = checkpoint_tensors(newest_checkpoint(tmp_path / name))
    assert [row["loss"] for row in rows["measured"]] == [row["loss"] for row in rows["plain"]]
    assert states["measured"].keys() == states["plain"].keys()
    assert all(value.equal(states["plain"][name]) for name, value in states["measured"].items())
    norms = [row["gradient_norm"] for row in rows["measured"]]
    assert norms == pytest.approx([row["gradient_norm"] for row in rows["clipped"]], rel=1e-6) and norms[0] > 0
    assert "gradient_norm" not in rows["plain"][0]
    assert all(row["memory_bytes"] > 0 and ("workspace_bytes" in row) == (form == "lowered") for row in rows["plain"])
