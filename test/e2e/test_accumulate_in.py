"""Gradients of bfloat16 parameters added up in float32, against PyTorch doing the same by hand: bit for bit on one rank."""

import copy
import dataclasses
import subprocess

import cleave
import pytest
import torch
import training
from cleave import FSDP, DataParallel, Plan, testing
from cleave.export import ExportError
from torch import nn, optim

STEPS, MICROBATCHES = 4, 16


@pytest.fixture(autouse=True, scope="module")
def one_thread():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def make_spec(make=lambda p: optim.AdamW(p, lr=0.02), accumulate_in=torch.float32, **options):
    torch.manual_seed(0)
    # One part stays in float32.
    module = nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 8)).bfloat16()
    module.append(nn.LayerNorm(8, dtype=torch.bfloat16))
    args, targets = (torch.randn(4, 6, dtype=torch.bfloat16),), (torch.randint(8, (4,)),)
    return cleave.ExportSpec(
        module, args, targets=targets, loss=lambda out, target: nn.functional.cross_entropy(out.float(), target),
        optimizer=make(list(module.parameters())), name="narrow", accumulate_in=accumulate_in, **options,
    )  # fmt: skip


def run(build_dir, folder, spec, passes, ranks=1, plan=None):
    """The program's text, the checkpoint's tensors and PyTorch's."""
    program, formed = cleave.export_spec(spec, folder), folder / "program.form.mlir"
    if plan is not None:
        plan.write(folder / "plan.json")
        passes = [f"--annotate-placements=plan={folder / 'plan.json'}", *passes]
    training.optimize(build_dir, program, *passes, "-o", formed)
    batches = training.random_batches(spec, STEPS, MICROBATCHES, seed=1)
    data = training.save_batches(spec, batches, folder / "data.safetensors")
    training.train(build_dir, formed, "--weights", program.with_suffix(".safetensors"), "--ranks", ranks, "--batch",
                   4 * MICROBATCHES, "--threads", 1, "--data", f"safetensors:{data}", "--metrics", folder / "m.jsonl",
                   "--checkpoint", folder / "run", "--steps", STEPS)  # fmt: skip
    expected = testing.train(spec, batches, MICROBATCHES)
    found = training.checkpoint_tensors(training.newest_checkpoint(folder / "run"))
    return formed.read_text(), found, training.expected_tensors(expected, spec), expected


FORMS = {
    "joint": [],
    "parts": ["--partition-joint", "--split-backward"],
    "buckets": ["--bucket-gradients"],
    "lowered": ["--canonicalize", "--cse", "--lower-to-exec"],
    "buckets-lowered": ["--bucket-gradients", "--lower-to-exec"],
    "stages": ["--outline-stages=count=2 balance=cost"],
}


@pytest.mark.parametrize("form", FORMS)
def test_one_rank_bit_for_bit(build_dir, tmp_path, form):
    text, found, wanted, expected = run(build_dir, tmp_path, make_spec(), FORMS[form])
    assert training.losses(tmp_path / "m.jsonl") == expected.losses
    assert [name for name in wanted if not torch.equal(found[name], wanted[name])] == []
    if "--bucket-gradients" in FORMS[form]:
        assert "of f32" in text and "of bf16" not in text


@pytest.mark.parametrize("make", [lambda p: optim.RAdam(p, lr=0.02), lambda p: optim.SGD(p, lr=0.1)])
def test_other_optimizers_bit_for_bit(build_dir, tmp_path, make):
    _, found, wanted, _ = run(build_dir, tmp_path, make_spec(make), [])
    assert [name for name in wanted if not torch.equal(found[name], wanted[name])] == []


def test_derived_gradients(build_dir, tmp_path):
    """Those that --autodiff makes are added up as the update takes them."""
    _, found, wanted, _ = run(build_dir, tmp_path, make_spec(gradients=False), ["--autodiff"])
    assert [name for name in wanted if not torch.equal(found[name], wanted[name])] == []


def test_sums_are_within_the_bound_of_f32():
    """And sums in bfloat16 are not: what the option is for. The runs above have the sums of testing.train, bit for bit."""
    spec = make_spec()
    batch = training.random_batches(spec, 1, 64, seed=1)[0]
    module = copy.deepcopy(spec.module)
    parameter = module[0].weight
    terms = []
    for part in testing.split_batch(spec, batch, 64):
        parameter.grad = None
        spec.loss(module(part["input"]), part["target"]).backward()
        terms.append(parameter.grad.clone())
    exact, size = sum(term.double() for term in terms), sum(term.double().abs() for term in terms)
    bound = 64 * torch.finfo(torch.float32).eps * size
    wide, narrow = terms[0].float(), terms[0].clone()
    for term in terms[1:]:
        wide += term
        narrow += term
    assert ((wide.double() - exact).abs() <= bound).all()
    assert ((narrow.double() - exact).abs() > bound).any()


RANKS = {
    "data": (2, None, ["--sync-gradients=axis=dp"]),
    "buckets": (2, None, ["--sync-gradients=axis=dp", "--bucket-gradients"]),
    "data-placed": (2, Plan({"dp": 2}, {"": DataParallel("dp")}), ["--propagate-placements", "--partition"]),
    "buckets-placed": (
        2, Plan({"dp": 2}, {"": DataParallel("dp")}), ["--propagate-placements", "--partition", "--bucket-gradients"]
    ),
    "fsdp": (
        2, Plan({"dp": 2}, {"": FSDP("dp")}),
        ["--propagate-placements", "--partition", "--split-fsdp-collectives"],
    ),
    "fsdp-buckets": (
        2, Plan({"dp": 2}, {"": FSDP("dp")}),
        ["--propagate-placements", "--partition", "--split-fsdp-collectives", "--bucket-gradients"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("form", RANKS)
def test_ranks_add_up_in_f32(build_dir, tmp_path, form):
    ranks, plan, passes = RANKS[form]
    text, found, wanted, expected = run(build_dir, tmp_path, make_spec(), passes, ranks, plan)
    for line in text.splitlines():
        if "dist.reduce_scatter" in line or "dist.all_reduce" in line:
            assert "bf16" not in line
        assert "train.bucket @" not in line or "of f32" in line
    assert training.losses(tmp_path / "m.jsonl") == pytest.approx(expected.losses, rel=1e-2)
    for name in wanted:
        if name.startswith("state."):
            assert (found[name] - wanted[name]).float().norm() < 0.02 * wanted[name].float().norm(), name
    if plan is None:
        # Sums of f32 in another order, rounded to bfloat16: few are rounded the other way. Where ranks share a microbatch,
        # each rounds its part of the gradient.
        same = sum(int((found[n] == wanted[n]).sum()) for n in wanted)
        assert same > 0.9 * sum(wanted[n].numel() for n in wanted)


def test_errors(build_dir, tmp_path):
    with pytest.raises(ExportError, match="expected torch.float32 as accumulate_in, found torch.float64"):
        make_spec(accumulate_in=torch.float64)
    with pytest.raises(ExportError, match="found accumulate_in without an optimizer"):
        dataclasses.replace(make_spec(), optimizer=None)
    # What is wide already stays as it is.
    wide = make_spec()
    wide.module.float()
    wide = dataclasses.replace(wide, args=(wide.args[0].float(),), optimizer=optim.AdamW(wide.module.parameters()))
    text = cleave.export_spec(wide, tmp_path).read_text()
    assert "_to_copy" not in text.split("func.func @update")[1] and " into tensor" not in text
    # A sum that something else takes, too, is in no bucket.
    program = cleave.export_spec(make_spec(), tmp_path)
    text = program.read_text()
    name = text.split("%narrow.")[1].split(" ")[0]
    broken = tmp_path / "broken.mlir"
    broken.write_text(text.replace(f"%narrow.{name} = ", f"%unused = aten.neg(%grad.{name}) : (tensor<16x6xf32>) -> tensor<16x6xf32>\n    %narrow.{name} = ", 1))  # fmt: skip
    result = subprocess.run([build_dir / "bin" / "cleave-opt", broken, "--bucket-gradients"], capture_output=True, text=True)
    assert result.returncode == 1 and "its sum of 'f32' is not only converted to that" in result.stderr
