"""Gradients of bfloat16 parameters added up in float32, against PyTorch doing the same by hand: bit for bit on one rank."""

import copy
import dataclasses
import re
import subprocess

import cleave
import pytest
import torch
import training
from cleave import ColwiseParallel, DataParallel, Plan, RowwiseParallel, testing
from cleave.export import ExportError
from formed_runs import FSDP2, FSDP2_TP2, PLACED, TP2, Form, FormedRun, pipeline
from torch import nn, optim

STEPS, MICROBATCHES = 4, 16
pytestmark = pytest.mark.usefixtures("one_thread")


def make_spec(make=lambda p: optim.AdamW(p, lr=0.02), accumulate_in=torch.float32, norm=nn.LayerNorm, **options):
    torch.manual_seed(0)
    # One part stays in float32.
    module = nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 8)).bfloat16()
    module.append(norm(8, dtype=torch.bfloat16))
    args, targets = (torch.randn(4, 6, dtype=torch.bfloat16),), (torch.randint(8, (4,)),)
    return cleave.ExportSpec(
        module, args, targets=targets, loss=lambda out, target: nn.functional.cross_entropy(out.float(), target),
        optimizer=make(list(module.parameters())), name="narrow", accumulate_in=accumulate_in, **options,
    )  # fmt: skip


def run(build_dir, folder, spec, form=Form(microbatches=MICROBATCHES), steps=STEPS):
    return FormedRun(build_dir, folder, spec, form, steps, MICROBATCHES)


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
    case = run(build_dir, tmp_path, make_spec(), Form(microbatches=MICROBATCHES, passes=FORMS[form]))
    rows, expected = case.train(), case.expect()
    assert [row["loss"] for row in rows] == expected.losses
    assert case.differing(expected) == []
    if "--bucket-gradients" in FORMS[form]:
        text = case.program.read_text()
        assert "of f32" in text and "of bf16" not in text


@pytest.mark.parametrize("make", [lambda p: optim.RAdam(p, lr=0.02), lambda p: optim.SGD(p, lr=0.1)])
def test_other_optimizers_bit_for_bit(build_dir, tmp_path, make):
    case = run(build_dir, tmp_path, make_spec(make))
    case.train()
    assert case.differing(case.expect()) == []


def test_derived_gradients(build_dir, tmp_path):
    """Those that --autodiff makes are added up as the update takes them."""
    case = run(build_dir, tmp_path, make_spec(gradients=False), Form(microbatches=MICROBATCHES, passes=["--autodiff"]))
    case.train()
    assert case.differing(case.expect()) == []


def some_traced(parameters):
    return [optim.AdamW(parameters[:2], lr=0.02), optim.RAdam(parameters[2:], lr=0.02)]


CLIPPED = {
    "fused": (lambda p: optim.AdamW(p, lr=0.02), [], []),
    "traced": (lambda p: optim.RAdam(p, lr=0.02), [], []),
    "both": (some_traced, [], []),
    "buckets": (some_traced, ["--bucket-gradients"], []),
    "lowered": (some_traced, [], ["--lower-to-exec"]),
}


class Mixed(nn.Module):
    """Parameters of two types, one of them a scalar of the narrow one."""

    def __init__(self):
        super().__init__()
        self.narrow, self.wide = nn.Linear(6, 16, dtype=torch.bfloat16), nn.Linear(16, 8)
        self.gain = nn.Parameter(torch.tensor(0.7, dtype=torch.bfloat16))

    def forward(self, x):
        return self.wide(self.narrow(x).float() * self.gain)


CLIP = "--clip-gradients=max-norm=0.05"


@pytest.mark.parametrize("passes", [[CLIP], ["--scale-loss=init-scale=3e7", CLIP]])
def test_factors_are_wider_than_gradients(build_dir, tmp_path, passes):
    """Of the norm, and of a scale that is no power of two: PyTorch multiplies by them before it rounds."""
    torch.manual_seed(0)
    module = Mixed()
    spec = cleave.ExportSpec(
        module, (torch.randn(4, 6, dtype=torch.bfloat16),), targets=(torch.randint(8, (4,)),), name="mixed",
        loss=nn.functional.cross_entropy, optimizer=optim.AdamW(module.parameters(), lr=0.02),
        accumulate_in=torch.float32,
    )  # fmt: skip
    case = FormedRun(build_dir, tmp_path, spec, Form(passes=passes), STEPS)
    case.train()
    scaler = torch.amp.GradScaler("cpu", init_scale=3e7) if len(passes) > 1 else None
    assert case.differing(case.expect(max_norm=0.05, scaler=scaler)) == []


@pytest.mark.parametrize("case", CLIPPED)
def test_gradients_are_clipped_as_optimizers_take_them(build_dir, tmp_path, case):
    """Their norm is of what was rounded, whatever optimizer takes it: bit for bit clip_grad_norm_ of `parameter.grad`."""
    make, before, after = CLIPPED[case]
    passes = [*before, CLIP, *after]
    case = run(build_dir, tmp_path, make_spec(make), Form(microbatches=MICROBATCHES, passes=passes))
    rows, expected = case.train(), case.expect(max_norm=0.05)
    assert [row["loss"] for row in rows] == expected.losses and min(row["gradient_norm"] for row in rows) > 0.05
    assert case.differing(expected) == []


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


DP2 = Plan({"dp": 2}, {"": DataParallel("dp")})
SPLIT = [*PLACED, "--split-fsdp-collectives"]
RANKS = {
    "data": Form(2, 8, None, ["--sync-gradients=axis=dp"]),
    "buckets": Form(2, 8, None, ["--sync-gradients=axis=dp", "--bucket-gradients"]),
    "data-placed": Form(2, MICROBATCHES, DP2, PLACED),
    "buckets-placed": Form(2, MICROBATCHES, DP2, [*PLACED, "--bucket-gradients"]),
    "fsdp": Form(2, MICROBATCHES, FSDP2, SPLIT),
    "fsdp-buckets": Form(2, MICROBATCHES, FSDP2, [*SPLIT, "--bucket-gradients"]),
}


@pytest.mark.parametrize("form", RANKS)
def test_ranks_add_up_in_f32(build_dir, tmp_path, form):
    case = run(build_dir, tmp_path, make_spec(), RANKS[form])
    for line in case.program.read_text().splitlines():
        if "dist.reduce_scatter" in line or "dist.all_reduce" in line:
            assert "bf16" not in line
        assert "train.bucket @" not in line or "of f32" in line
    rows, expected = case.train(), case.expect()
    assert [row["loss"] for row in rows] == pytest.approx(expected.losses, rel=1e-2)
    found, wanted = case.tensors(), training.expected_tensors(expected, case.spec)
    for name in wanted:
        if name.startswith("state."):
            assert (found[name] - wanted[name]).float().norm() < 0.02 * wanted[name].float().norm(), name
    if RANKS[form].plan is None:
        # Sums of f32 in another order, rounded to bfloat16: few are rounded the other way. Where ranks share a microbatch,
        # each rounds its part of the gradient.
        same = sum(int((found[n] == wanted[n]).sum()) for n in wanted)
        assert same > 0.9 * sum(wanted[n].numel() for n in wanted)


@pytest.mark.parametrize("accumulate_in", [None, torch.float32])
def test_norms_whose_gradients_are_cast_before_they_are_reduced(build_dir, tmp_path, accumulate_in):
    """The gradient of an RMSNorm's weight is a sum in float32, rounded to bfloat16 and then scattered."""
    case = run(build_dir, tmp_path, make_spec(accumulate_in=accumulate_in, norm=nn.RMSNorm), RANKS["fsdp-buckets"])
    text = case.program.read_text()
    assert "func.func @reduce" not in text
    buckets = [line for line in text.splitlines() if "train.bucket @" in line]
    # With the rest, and in the type in which sums are kept.
    assert len(buckets) == 1 and '"3.weight"' in buckets[0] and '"0.weight"' in buckets[0]
    assert f" of {'f32' if accumulate_in else 'bf16'} [" in buckets[0]
    case.train()
    found, wanted = case.tensors(), training.expected_tensors(case.expect(), case.spec)
    for name in wanted:
        if name.startswith("state."):
            assert (found[name] - wanted[name]).float().norm() < 0.02 * wanted[name].float().norm(), name


# Whole numbers, which bfloat16 holds as far as 256: each microbatch's gradients are exact in whatever order they are added,
# their sum over microbatches only in float32.


class Whole(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down = nn.Linear(6, 8), nn.Linear(8, 4)
        for parameter in self.parameters():
            parameter.data = torch.randint(-1, 2, parameter.shape).bfloat16()

    def forward(self, x):
        return self.down(torch.relu(self.up(x)))


def make_whole_spec(accumulate_in=torch.float32):
    torch.manual_seed(0)
    module = Whole()
    args, targets = (torch.ones(4, 6, dtype=torch.bfloat16),), (torch.ones(4, 4, dtype=torch.bfloat16),)
    return cleave.ExportSpec(
        module, args, targets=targets, loss=lambda out, weights: (out.float() * weights.float()).sum(), name="whole",
        optimizer=optim.SGD(module.parameters(), lr=0.25, momentum=0.5), accumulate_in=accumulate_in,
    )  # fmt: skip


def whole_numbers(batches):
    generator = torch.Generator().manual_seed(3)
    for batch in batches:
        for name, value in batch.items():
            batch[name] = torch.randint(1, 5, value.shape, generator=generator).to(value.dtype)


EXACT = RANKS | {
    "tp": Form(2, MICROBATCHES, TP2, PLACED),
    "tp-buckets": Form(2, MICROBATCHES, TP2, [*PLACED, "--bucket-gradients"]),
    "tp-lowered": Form(2, MICROBATCHES, TP2, [*PLACED, "--lower-to-exec"]),
    "fsdp-tp": Form(4, MICROBATCHES, FSDP2_TP2, SPLIT),
    "fsdp-tp-buckets": Form(4, MICROBATCHES, FSDP2_TP2, [*SPLIT, "--bucket-gradients"]),
    "1f1b": Form(2, MICROBATCHES, None, pipeline("1f1b", MICROBATCHES)),
    "1f1b-lowered": Form(2, MICROBATCHES, None, [*pipeline("1f1b", MICROBATCHES), "--lower-to-exec"]),
    "zero-bubble": Form(2, MICROBATCHES, None, pipeline("zb-h1", MICROBATCHES)),
    "tp-1f1b": Form(4, MICROBATCHES, TP2, [*PLACED, *pipeline("1f1b", MICROBATCHES)]),
    "fsdp-zero-bubble": Form(
        4, MICROBATCHES, FSDP2, [*PLACED, *pipeline("zb-h1", MICROBATCHES, ["--split-fsdp-collectives"])]
    ),
}


@pytest.mark.parametrize("form", EXACT)
def test_sums_of_whole_numbers_are_exact(build_dir, tmp_path, form):
    case = FormedRun(build_dir, tmp_path, make_whole_spec(), EXACT[form], 1, MICROBATCHES, whole_numbers)
    rows, expected = case.train(), case.expect()
    assert [row["loss"] for row in rows] == expected.losses
    # The momentum of the first step is the gradient. (How PyTorch's kernel rounds parameters differs with their sizes.)
    assert [name for name in case.differing(expected) if name.startswith("optim.")] == []
    narrow = testing.train(make_whole_spec(None), case.batches, MICROBATCHES).tensors
    for name in ("optim.up.weight.momentum_buffer", "optim.down.weight.momentum_buffer"):
        assert not torch.equal(narrow[name], expected.tensors[name])


@pytest.mark.parametrize("first, then", [("one", "1f1b"), ("zb-h1", "one")])
def test_resumed_runs_bit_for_bit(build_dir, tmp_path, first, then):
    """From one rank to a pipeline, which adds in the same order, and back."""
    forms = {
        form: Form(1 if form == "one" else 2, MICROBATCHES, None, [] if form == "one" else pipeline(form, MICROBATCHES))
        for form in (first, then)
    }
    case = run(build_dir, tmp_path, make_spec(), forms[first])
    case.train(steps=2)
    case.form, case.program = forms[then], case.give_form(forms[then])
    rows, expected = case.train("--resume"), case.expect()
    assert [row["loss"] for row in rows] == expected.losses
    assert case.differing(expected) == []


def make_wide_spec(accumulate_in=torch.float32):
    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear(256, 700), nn.Tanh(), nn.Linear(700, 256)).bfloat16()
    args, targets = (torch.randn(4, 256, dtype=torch.bfloat16),), (torch.randint(256, (4,)),)
    return cleave.ExportSpec(
        module, args, targets=targets, loss=lambda out, target: nn.functional.cross_entropy(out.float(), target),
        optimizer=optim.AdamW(module.parameters()), name="wide", accumulate_in=accumulate_in,
    )  # fmt: skip


LOWERED = {
    "one": Form(passes=["--lower-to-exec"]),
    "tp": Form(
        2, 2, Plan({"tp": 2}, {"0": ColwiseParallel("tp"), "2": RowwiseParallel("tp")}), [*PLACED, "--lower-to-exec"]
    ),
    "fsdp": Form(2, 2, FSDP2, [*SPLIT, "--lower-to-exec"]),
}


@pytest.mark.parametrize("form", LOWERED)
def test_memory_is_that_of_the_plan(build_dir, tmp_path, form):
    """--dry-run, the plan and the run agree. On one rank sums take twice the memory of gradients, and are added up
    without a copy of a whole one."""
    case = FormedRun(build_dir, tmp_path, make_wide_spec(), LOWERED[form], 3)
    said = training.train(build_dir, case.program, "--dry-run", "--microbatches", 2)
    bytes_of = {name.strip(): int(size) for name, size in re.findall(r"^  ([a-z, ]+?)  .* (\d+)$", said, re.MULTILINE)}
    rows = case.train()
    assert max(row["memory_bytes"] for row in rows) == pytest.approx(bytes_of["peak of a step"], rel=0.05)
    if form == "one":
        assert bytes_of["gradients"] == 2 * bytes_of["parameters"]


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
