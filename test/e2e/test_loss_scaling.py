"""--scale-loss against torch.amp.GradScaler: bit for bit on one rank with autocast(float16), in float64 on several, where
what is not finite appears on one rank, or in one stage, alone."""

import cleave
import pytest
import torch
import training
from cleave import testing
from formed_runs import FSDP2, PLACED, TP2, Form, FormedRun
from torch import nn, optim

STEPS, TOLERANCE = 12, 1e-10
pytestmark = pytest.mark.usefixtures("one_thread")


class Half(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.norm, self.second = nn.Linear(6, 16), nn.LayerNorm(16), nn.Linear(16, 5)

    def forward(self, x):
        with torch.autocast("cpu", torch.float16):
            return self.second(torch.relu(self.norm(self.first(x))))


class Spare(nn.Module):
    """`extra` makes the gradient of `spare` what it is, and no other one."""

    def __init__(self):
        super().__init__()
        self.first, self.up, self.down, self.last = nn.Linear(6, 8), nn.Linear(8, 16), nn.Linear(16, 8), nn.Linear(8, 5)
        self.spare = nn.Parameter(torch.ones(3))

    def forward(self, x, extra):
        x = torch.tanh(self.first(x))
        return self.last(x + self.down(torch.relu(self.up(x)))), (extra * self.spare).sum()


def make_spec(module, args, loss, make=lambda p: optim.AdamW(p, lr=0.02), name="scaled"):
    return cleave.ExportSpec(
        module, args, targets=(torch.randint(5, (4,)),), loss=loss, optimizer=make(list(module.parameters())),
        lr_schedule=cleave.WarmupCosine(3, 10), ema=cleave.EMA(0.8), name=name,
    )  # fmt: skip


def scaler_of(options):
    return torch.amp.GradScaler("cpu", **{name.replace("-", "_"): value for name, value in options.items()})


def scale_pass(options):
    return "--scale-loss=" + " ".join(f"{name}={value}" for name, value in options.items())


def expect_scales(rows, expected):
    assert [(row["loss_scale"], row["skipped_steps"]) for row in rows] == expected.scales


# One rank ------------------------------------------------------------------------------------------

# Overflows at first, and grows beyond what is possible later.
OPTIONS = {"init-scale": 2.0**19, "growth-interval": 3}
CASES = {
    "adamw": (lambda p: optim.AdamW(p, lr=0.02), [], None),
    "radam": (lambda p: optim.RAdam(p, lr=0.02), [], None),
    "clipped": (lambda p: optim.AdamW(p, lr=0.02), ["--clip-gradients=max-norm=0.1"], 0.1),
    "buckets": (lambda p: optim.AdamW(p, lr=0.02), ["--bucket-gradients"], None),
    "lowered": (lambda p: optim.AdamW(p, lr=0.02), ["--clip-gradients=max-norm=0.1", "--lower-to-exec"], 0.1),
    "other factors": (lambda p: optim.AdamW(p, lr=0.02), [], None),
}


@pytest.mark.parametrize("case", CASES)
def test_one_rank_is_grad_scaler_bit_for_bit(build_dir, tmp_path, case):
    make, after, max_norm = CASES[case]
    options = OPTIONS if case != "other factors" else {"init-scale": 3e6, "growth-factor": 3.0, "backoff-factor": 0.1,
                                                      "growth-interval": 2}  # fmt: skip
    torch.manual_seed(0)
    spec = make_spec(Half(), (torch.randn(4, 6),), nn.functional.cross_entropy, make)
    before, after = after[: case == "buckets"], after[case == "buckets" :]
    run = FormedRun(build_dir, tmp_path, spec, Form(passes=[*before, scale_pass(options), *after]), STEPS)
    run.train(steps=5)
    rows = run.train("--resume")
    expected = run.expect(scaler=scaler_of(options), max_norm=max_norm)
    assert 0 < expected.scales[-1][1] < STEPS - 3
    assert [row["loss"] for row in rows] == expected.losses
    expect_scales(rows, expected)
    assert run.differing(expected) == []


class Gated(nn.Module):
    """Numbers among its parameters, as CLIP has them."""

    def __init__(self):
        super().__init__()
        self.inner = nn.Sequential(nn.Linear(6, 16), nn.LayerNorm(16), nn.ReLU(), nn.Linear(16, 5))
        self.scale, self.gate = nn.Parameter(torch.tensor(1.5)), nn.Parameter(torch.tensor(0.5))

    def forward(self, x):
        return self.inner(x) * self.scale + self.gate.tanh()


def test_compiled_kernels_of_bfloat16(build_dir, tmp_path):
    """Gradients that are numbers of bfloat16 are unscaled by a number of float32, in kernels with vectors beside them."""
    torch.manual_seed(0)
    spec = make_spec(Gated().bfloat16(), (torch.randn(4, 6).bfloat16(),), nn.functional.cross_entropy,
                     lambda p: optim.SGD(p, lr=0.02))  # fmt: skip
    after = ["--clip-gradients=max-norm=1", "--fuse-kernels", "--compile-kernels=cpu=x86-64-v2,x86-64-v3"]
    run = FormedRun(build_dir, tmp_path, spec, Form(passes=["--scale-loss", *after]), steps=6)
    losses = [row["loss"] for row in run.train()]
    (tmp_path / "unscaled").mkdir()
    unscaled = FormedRun(build_dir, tmp_path / "unscaled", spec, Form(passes=after), steps=6)
    # The scale is a power of two, and bfloat16 has float32's exponents: no rounding differs.
    assert losses == [row["loss"] for row in unscaled.train()]
    # Of eager mode's ops each rounds its result to eight bits, of a kernel's the last one.
    expected = run.expect(scaler=scaler_of({}), max_norm=1)
    assert losses == pytest.approx(expected.losses, rel=2 * 2**-8)
    assert run.far(expected, 2 * 2**-8) == []


# Ranks ---------------------------------------------------------------------------------------------

SCALE = {"init-scale": 1024.0, "growth-interval": 2}
CLIP = "--clip-gradients=max-norm=0.05"
STAGES = ["--outline-stages=count=2 balance=cost"]
# A form, and passes after scaling.
FORMS = {
    "data": (Form(2, 1, None, ["--sync-gradients=axis=dp"]), []),
    "buckets": (Form(2, 1, None, ["--sync-gradients=axis=dp", "--bucket-gradients"]), []),
    "fsdp": (Form(2, 2, FSDP2, PLACED), []),
    "fsdp-buckets": (Form(2, 2, FSDP2, [*PLACED, "--split-fsdp-collectives", "--bucket-gradients"]), []),
    "tp": (Form(2, 2, TP2, PLACED), []),
    "tp-lowered": (Form(2, 2, TP2, PLACED), ["--lower-to-exec"]),
    "pipeline": (Form(2, 2, None, STAGES), ["--build-schedule=schedule=1f1b ranks=2 microbatches=2", "--insert-p2p"]),
    "stages": (Form(1, 2, None, STAGES), []),
}


def make_spare_spec(*make):
    torch.manual_seed(0)
    args = torch.randn(4, 6, dtype=torch.float64), torch.randn(4, 3, dtype=torch.float64)
    return make_spec(Spare().double(), args, lambda out, target: nn.functional.cross_entropy(out[0], target) + out[1], *make)


def expect_losses(rows, expected):
    for row, loss in zip(rows, expected.losses):
        is_finite = loss == loss and abs(loss) != float("inf")
        assert row["loss"] == pytest.approx(loss, rel=TOLERANCE) if is_finite else row["loss"] is None


def spoil(batches, first=2):
    """What is infinite is in one example, so on one rank; and a NaN."""
    batches[first]["extra"][-1, 0] = float("inf")
    batches[3]["extra"][0, 1] = float("nan")
    batches[7]["extra"][-1, 2] = -float("inf")


CLIPPED = ["buckets", "fsdp-buckets", "tp", "pipeline"]


@pytest.mark.parametrize("form, clip", [(form, form in CLIPPED) for form in FORMS])
def test_all_ranks_skip_the_same_steps(build_dir, tmp_path, form, clip):
    before, after = FORMS[form]
    passes = [*before.passes, scale_pass(SCALE), *([CLIP] if clip else []), *after]
    run = FormedRun(build_dir, tmp_path, make_spare_spec(), before._replace(passes=passes), STEPS, spoil=spoil)
    rows, expected = run.train(), run.expect(scaler=scaler_of(SCALE), max_norm=0.05 if clip else None)
    assert expected.scales[-1][1] == 3
    expect_scales(rows, expected)
    expect_losses(rows, expected)
    assert run.far(expected, TOLERANCE) == []


# Several optimizers --------------------------------------------------------------------------------


def two_optimizers(parameters):
    """Of which the first has finite gradients in all steps."""
    return [
        optim.Muon([p for p in parameters if p.dim() == 2], lr=0.02),
        optim.SGD([p for p in parameters if p.dim() != 2], lr=0.1, momentum=0.9),
    ]


@pytest.mark.parametrize("clip", [False, True])
def test_several_optimizers_skip_together(build_dir, tmp_path, clip):
    passes = [scale_pass(SCALE), *([CLIP] if clip else [])]
    # The first step, too, which must leave no momentum.
    run = FormedRun(build_dir, tmp_path, make_spare_spec(two_optimizers), Form(passes=passes), STEPS,
                    spoil=lambda batches: spoil(batches, first=0))  # fmt: skip
    rows, expected = run.train(), run.expect(scaler=scaler_of(SCALE), max_norm=0.05 if clip else None)
    assert expected.scales[-1][1] == 3
    expect_scales(rows, expected)
    expect_losses(rows, expected)
    assert run.differing(expected) == []


def test_what_docs_say_of_scalers_that_decide_by_optimizer():
    first, second = nn.Parameter(torch.ones(3)), nn.Parameter(torch.ones(3))
    optimizers = [optim.SGD([first], lr=0.1), optim.SGD([second], lr=0.1)]
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0)
    scaler.scale((2 * first).sum() + (float("nan") * second).sum()).backward()
    for optimizer in optimizers:
        scaler.unscale_(optimizer)
    nn.utils.clip_grad_norm_([first, second], 1.0)
    for optimizer in optimizers:
        scaler.step(optimizer)
    assert first.isnan().all() and torch.equal(second, torch.ones(3))


# Back to PyTorch -----------------------------------------------------------------------------------


@pytest.mark.parametrize("half", [1, 6])
def test_eager_mode_continues_bit_for_bit(build_dir, tmp_path, half):
    """With the optimizer's count of steps that were taken, the scale, and without the averages, which are no state of
    its own. After one step that was skipped there is no state."""
    torch.manual_seed(0)
    spec = make_spec(Half(), (torch.randn(4, 6),), nn.functional.cross_entropy,
                     lambda p: optim.SGD(p, lr=0.1, momentum=0.9, dampening=0.5))  # fmt: skip
    run = FormedRun(build_dir, tmp_path, spec, Form(passes=[scale_pass(OPTIONS)]), STEPS)
    run.train(steps=half)
    expected = run.expect(scaler=scaler_of(OPTIONS))
    going, scaler = testing._Run(spec), scaler_of(OPTIONS)
    (optimizer,) = going.make_optimizers()
    assert cleave.load_checkpoint(going.module, tmp_path / "run", optimizer=optimizer, scaler=scaler) == half
    taken = half - expected.scales[half - 1][1]
    assert (half == 1) == (taken == 0) == (not optimizer.state)
    for number in range(half, STEPS):
        assert scaler.get_scale() == expected.scales[number][0]
        optimizer.zero_grad()
        optimizer.param_groups[0]["lr"] = 0.1 * spec.lr_schedule.factor(taken + 1)
        parts = testing.split_batch(spec, run.batches[number], 2)
        assert sum(float(going.microbatch(part, 0.5, scaler)["loss"]) for part in parts) / 2 == expected.losses[number]
        taken += going.step([optimizer], scaler)
    for name, parameter in going.module.named_parameters():
        assert torch.equal(parameter, expected.tensors[f"param.{name}"]), name


def test_a_scale_that_is_not_there(build_dir, tmp_path):
    run = FormedRun(build_dir, tmp_path, make_spare_spec(), steps=1)
    run.train()
    module = run.spec.module
    with pytest.raises(ValueError, match="expected a run with a scale of the loss"):
        cleave.load_checkpoint(module, tmp_path / "run", scaler=scaler_of({}))
    state = training.newest_checkpoint(tmp_path / "run") / "state.json"
    text = state.read_text()
    state.write_text(text.replace("{", '{"loss_scale": {"scale": 2.0, "steps": 0, "skipped": 0},', 1))
    with pytest.raises(ValueError, match="expected an enabled GradScaler"):
        cleave.load_checkpoint(module, tmp_path / "run", scaler=torch.amp.GradScaler("cpu", enabled=False))
    state.write_text(text.replace("{", '{"loss_scale": 3,', 1))
    with pytest.raises(ValueError, match="expected the state of a run"):
        cleave.load_checkpoint(module, tmp_path / "run", scaler=scaler_of({}))
