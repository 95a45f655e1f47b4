"""--scale-loss against torch.amp.GradScaler: bit for bit on one rank with autocast(float16), in float64 on several, where
what is not finite appears on one rank, or in one stage, alone."""

import cleave
import pytest
import torch
import training
from cleave import FSDP, ColwiseParallel, Plan, RowwiseParallel, testing
from torch import nn, optim

STEPS, TOLERANCE = 12, 1e-10


@pytest.fixture(autouse=True, scope="module")
def one_thread():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


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
    program, scaled = cleave.export_spec(spec, tmp_path), tmp_path / "scaled.form.mlir"
    before, after = after[: case == "buckets"], after[case == "buckets" :]
    training.optimize(build_dir, program, *before, scale_pass(options), *after, "-o", scaled)
    batches = training.random_batches(spec, STEPS, 2, seed=1)
    data = training.save_batches(spec, batches, tmp_path / "data.safetensors")
    run = [scaled, "--weights", program.with_suffix(".safetensors"), "--microbatches", 2, "--threads", 1, "--data",
           f"safetensors:{data}", "--metrics", tmp_path / "m.jsonl", "--checkpoint", tmp_path / "run"]  # fmt: skip
    training.train(build_dir, *run, "--steps", 5)
    training.train(build_dir, *run, "--steps", STEPS, "--resume")
    expected = testing.train(spec, batches, 2, scaler=scaler_of(options), max_norm=max_norm)
    assert 0 < expected.scales[-1][1] < STEPS - 3
    rows = training.read_metrics(tmp_path / "m.jsonl")
    assert [row["loss"] for row in rows] == expected.losses
    expect_scales(rows, expected)
    found = training.checkpoint_tensors(training.newest_checkpoint(tmp_path / "run"))
    wanted = training.expected_tensors(expected, spec)
    assert [name for name in wanted if not torch.equal(found[name], wanted[name])] == []


# Ranks ---------------------------------------------------------------------------------------------

PLACED = ["--propagate-placements", "--partition"]
TP = {"up": ColwiseParallel("tp"), "down": RowwiseParallel("tp")}
SCALE = {"init-scale": 1024.0, "growth-interval": 2}
CLIP = "--clip-gradients=max-norm=0.05"
# Ranks, microbatches on each, a plan, passes before scaling, and after.
FORMS = {
    "data": (2, 1, None, ["--sync-gradients=axis=dp"], []),
    "buckets": (2, 1, None, ["--sync-gradients=axis=dp", "--bucket-gradients"], []),
    "fsdp": (2, 2, Plan({"dp": 2}, {"": FSDP("dp")}), PLACED, []),
    "fsdp-buckets": (2, 2, Plan({"dp": 2}, {"": FSDP("dp")}), [*PLACED, "--split-fsdp-collectives", "--bucket-gradients"], []),
    "tp": (2, 2, Plan({"tp": 2}, TP), PLACED, []),
    "tp-lowered": (2, 2, Plan({"tp": 2}, TP), PLACED, ["--lower-to-exec"]),
    "pipeline": (
        2, 2, None, ["--outline-stages=count=2 balance=cost"],
        ["--build-schedule=schedule=1f1b ranks=2 microbatches=2", "--insert-p2p"],
    ),
    "stages": (1, 2, None, ["--outline-stages=count=2 balance=cost"], []),
}  # fmt: skip


def spoil(batches):
    """What is infinite is in one example, so on one rank; and a NaN."""
    batches[2]["extra"][-1, 0] = float("inf")
    batches[3]["extra"][0, 1] = float("nan")
    batches[7]["extra"][-1, 2] = -float("inf")


CLIPPED = ["buckets", "fsdp-buckets", "tp", "pipeline"]


@pytest.mark.parametrize("form, clip", [(form, form in CLIPPED) for form in FORMS])
def test_all_ranks_skip_the_same_steps(build_dir, tmp_path, form, clip):
    torch.manual_seed(0)
    module = Spare().double()
    args = torch.randn(4, 6, dtype=torch.float64), torch.randn(4, 3, dtype=torch.float64)
    spec = make_spec(module, args, lambda out, target: nn.functional.cross_entropy(out[0], target) + out[1])
    program, formed = cleave.export_spec(spec, tmp_path), tmp_path / "program.form.mlir"
    ranks, microbatches, plan, before, after = FORMS[form]
    if plan is not None:
        plan.write(tmp_path / "plan.json")
        before = [f"--annotate-placements=plan={tmp_path / 'plan.json'}", *before]
    passes = [*before, scale_pass(SCALE), *([CLIP] if clip else []), *after]
    training.optimize(build_dir, program, *passes, "-o", formed)
    batches = training.random_batches(spec, STEPS, 2, seed=1)
    spoil(batches)
    data = training.save_batches(spec, batches, tmp_path / "data.safetensors")
    training.train(build_dir, formed, "--weights", program.with_suffix(".safetensors"), "--ranks", ranks, "--microbatches",
                   microbatches, "--threads", 1, "--data", f"safetensors:{data}", "--metrics", tmp_path / "m.jsonl",
                   "--checkpoint", tmp_path / "run", "--steps", STEPS)  # fmt: skip
    expected = testing.train(spec, batches, 2, scaler=scaler_of(SCALE), max_norm=0.05 if clip else None)
    assert expected.scales[-1][1] == 3
    rows = training.read_metrics(tmp_path / "m.jsonl")
    expect_scales(rows, expected)
    for row, loss in zip(rows, expected.losses):
        assert row["loss"] is None if loss != loss or abs(loss) == float("inf") else row["loss"] == pytest.approx(loss, rel=TOLERANCE)
    found = training.checkpoint_tensors(training.newest_checkpoint(tmp_path / "run"))
    wanted = training.expected_tensors(expected, spec)
    far = [n for n in wanted if not torch.allclose(found[n], wanted[n], rtol=TOLERANCE, atol=TOLERANCE)]
    assert far == []
