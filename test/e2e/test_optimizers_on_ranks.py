"""Traced optimizers on several ranks and in other forms of the program, against PyTorch's own on one: float64."""

import json
import subprocess

import cleave
import pytest
import torch
from cleave import FSDP, ColwiseParallel, DataParallel, Plan, RowwiseParallel, Shard, testing
from cleave.export import ExportSpec, export_spec
from combinations_cover import part_of_today
from own_optimizers import Lookahead, NormalizedSGD, Orthogonal
from torch import nn, optim
from training import (
    checkpoint_tensors, expected_tensors, losses, newest_checkpoint, optimize, random_batches, save_batches, train,
)  # fmt: skip

STEPS, TOLERANCE = 12, 1e-10


def orthogonal(parameters):
    """Two optimizers, of which one needs whole matrices."""
    return [
        Orthogonal([p for p in parameters if p.dim() == 2]),
        optim.AdamW([p for p in parameters if p.dim() != 2], lr=0.01),
    ]


# All of them are past the branches of their step by then.
OPTIMIZERS = {
    "adafactor": lambda p: optim.Adafactor(p, lr=0.3, weight_decay=0.01),
    "asgd": lambda p: optim.ASGD(p, lr=0.05, lambd=0.01, t0=4),
    "lookahead": Lookahead,
    "nadam": lambda p: optim.NAdam(p, lr=0.01),
    "norm": NormalizedSGD,
    "orthogonal": orthogonal,
    "radam": lambda p: optim.RAdam(p, lr=0.01, weight_decay=0.01),
    "rmsprop": lambda p: optim.RMSprop(p, lr=0.01, momentum=0.9, centered=True),
    "rprop": lambda p: optim.Rprop(p, lr=0.01),
}
TP = {"0": ColwiseParallel("tp"), "3": RowwiseParallel("tp")}
PLACED = ["--propagate-placements", "--partition"]
# Ranks, microbatches on each, a plan and passes.
FORMS = {
    "one": (1, 2, None, []),
    "data": (2, 1, None, ["--sync-gradients=axis=dp"]),
    "buckets": (2, 1, None, ["--sync-gradients=axis=dp", "--bucket-gradients"]),
    "fsdp": (2, 2, Plan({"dp": 2}, {"": FSDP("dp")}), PLACED),
    "fsdp-buckets": (
        2, 2, Plan({"dp": 2}, {"": FSDP("dp")}), [*PLACED, "--split-fsdp-collectives", "--bucket-gradients"]
    ),
    "fsdp-lowered": (2, 2, Plan({"dp": 2}, {"": FSDP("dp")}), [*PLACED, "--lower-to-exec"]),
    "zero1": (2, 2, Plan({"dp": 2}, {"": DataParallel("dp"), "optimizer_states:**": {"dp": Shard(0)}}), PLACED),
    "tp": (2, 2, Plan({"tp": 2}, TP), PLACED),
    "fsdp-tp": (4, 2, Plan({"dp": 2, "tp": 2}, {"": FSDP("dp"), **TP}), PLACED),
    "pipeline": (
        2, 2, None,
        ["--outline-stages=count=2 balance=cost", "--build-schedule=schedule=1f1b ranks=2 microbatches=2", "--insert-p2p"],
    ),
    "lowered": (1, 2, None, ["--canonicalize", "--cse", "--lower-to-exec"]),
}  # fmt: skip
CASES = [
    ("data", "nadam"), ("buckets", "asgd"), ("fsdp", "radam"), ("fsdp", "orthogonal"), ("fsdp-buckets", "rprop"),
    ("fsdp-lowered", "rmsprop"), ("zero1", "radam"), ("tp", "adafactor"), ("fsdp-tp", "adafactor"), ("fsdp-tp", "orthogonal"),
    ("tp", "norm"), ("pipeline", "lookahead"), ("pipeline", "orthogonal"), ("lowered", "asgd"),
]  # fmt: skip


@pytest.fixture(autouse=True)
def double():
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


def make_spec(name):
    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.LayerNorm(8), nn.Linear(8, 4))
    return ExportSpec(
        module, (torch.randn(4, 6),), loss=nn.functional.cross_entropy, targets=(torch.randint(4, (4,)),), name=name,
        optimizer=OPTIMIZERS[name](list(module.parameters())), lr_schedule=cleave.WarmupCosine(4, 20, 0.1),
    )  # fmt: skip


class Case:
    """An exported program in a form, and data for it."""

    def __init__(self, build_dir, folder, form, name, clip=None):
        self.build_dir, self.folder = build_dir, folder
        self.spec = make_spec(name)
        program = export_spec(self.spec, folder)
        self.weights = program.with_suffix(".safetensors")
        self.batches = random_batches(self.spec, STEPS, 2, seed=1)
        self.data = save_batches(self.spec, self.batches, folder / "data.safetensors")
        self.ranks, self.microbatches, plan, passes = FORMS[form]
        if plan is not None:
            plan.write(folder / "plan.json")
            passes = [f"--annotate-placements=plan={folder / 'plan.json'}", *passes]
        if clip:
            place = 1 if form == "pipeline" else len(passes)
            passes = [*passes[:place], clip, *passes[place:]]
        self.program = folder / f"{form}.form.mlir"
        optimize(build_dir, program, *passes, "-o", self.program)

    def options(self, steps=STEPS):
        return ["--weights", self.weights, "--ranks", self.ranks, "--steps", steps, "--batch", 8, "--threads", 1,
                "--microbatches", self.microbatches, "--data", f"safetensors:{self.data}",
                "--metrics", self.folder / "m.jsonl"]  # fmt: skip


def assert_close(found, expected):
    assert found.keys() == expected.keys()
    far = [n for n in expected if not torch.allclose(found[n], expected[n], rtol=TOLERANCE, atol=TOLERANCE)]
    assert far == []


@pytest.mark.parametrize("form, name", part_of_today(CASES))
def test_steps_are_those_of_one_rank(build_dir, tmp_path, form, name):
    case = Case(build_dir, tmp_path, form, name)
    train(build_dir, case.program, *case.options(), "--checkpoint", tmp_path / "run")
    expected = testing.train(case.spec, case.batches, 2)
    assert losses(tmp_path / "m.jsonl") == pytest.approx(expected.losses, rel=TOLERANCE)
    assert_close(checkpoint_tensors(newest_checkpoint(tmp_path / "run")), expected_tensors(expected, case.spec))


@pytest.mark.parametrize(
    "form, name",
    [("one", "radam"), ("data", "lookahead"), ("buckets", "asgd"), ("fsdp", "adafactor"), ("fsdp-buckets", "rmsprop"),
     ("fsdp-tp", "nadam"), ("pipeline", "orthogonal")],
)  # fmt: skip
def test_clipped_gradients_are_what_the_step_takes(build_dir, tmp_path, form, name):
    case = Case(build_dir, tmp_path, form, name, "--clip-gradients=max-norm=0.01")
    train(build_dir, case.program, *case.options(), "--checkpoint", tmp_path / "run")
    unclipped = testing.train(case.spec, case.batches, 2)
    expected = testing.train(case.spec, case.batches, 2, max_norm=0.01)
    assert_close(checkpoint_tensors(newest_checkpoint(tmp_path / "run")), expected_tensors(expected, case.spec))
    assert any(not torch.allclose(unclipped.tensors[n], expected.tensors[n]) for n in unclipped.tensors)


@pytest.mark.parametrize("name", ["asgd", "lookahead"])
def test_resume_under_another_layout(build_dir, tmp_path, name):
    """Counts, averages and slow weights go on: from 2 ranks of FSDP to one."""
    case = Case(build_dir, tmp_path, "fsdp", name)
    train(build_dir, case.program, *case.options(steps=7), "--checkpoint", tmp_path / "run")
    case.ranks = 1
    train(build_dir, tmp_path / f"{name}.mlir", *case.options(), "--checkpoint", tmp_path / "run", "--resume")
    expected = testing.train(case.spec, case.batches, 2)
    assert_close(checkpoint_tensors(newest_checkpoint(tmp_path / "run")), expected_tensors(expected, case.spec))


def test_states_are_sharded_where_parameters_are_not(build_dir, tmp_path):
    """ZeRO-1: a rank's checkpoint has half of each state, and all of each parameter."""
    case = Case(build_dir, tmp_path, "zero1", "radam")
    train(build_dir, case.program, *case.options(steps=1), "--checkpoint", tmp_path / "run")
    index = json.loads((newest_checkpoint(tmp_path / "run") / "parts.json").read_text())
    assert [part["shape"] for part in index["optimizer"]["0.weight.exp_avg"]["parts"]] == [[4, 6], [4, 6]]
    assert [part["shape"] for part in index["model"]["0.weight"]["parts"]] == [[8, 6]]


def test_a_step_over_all_parameters_is_no_step_of_stages(build_dir, tmp_path):
    program = export_spec(make_spec("norm"), tmp_path)
    result = subprocess.run(
        [build_dir / "bin" / "cleave-opt", program, "--outline-stages=count=2 balance=cost"], capture_output=True, text=True
    )
    assert result.returncode == 1
    assert "a stage's update can only use values of its stage" in result.stderr


GPT_PLAN = {
    "h.*.attn.c_attn": ColwiseParallel("tp"),
    "h.*.attn.c_proj": RowwiseParallel("tp"),
    "h.*.mlp.c_fc": ColwiseParallel("tp"),
    "h.*.mlp.c_proj": RowwiseParallel("tp"),
}


@pytest.mark.parametrize("form, kind", [("fsdp-tp", optim.Muon), ("fsdp-tp", Orthogonal), ("pipeline", optim.Muon)])
def test_muon_and_adamw_train_a_gpt(build_dir, tmp_path, form, kind):
    """Muon rounds to bfloat16: where sums are in another order, its results may differ by a step of that type."""
    import gpt

    spec = gpt.untied()
    spec.module.double()
    blocks = [p for n, p in spec.module.named_parameters() if p.dim() == 2 and n.startswith("h.")]
    others = [p for p in spec.module.parameters() if not any(p is each for each in blocks)]
    spec.optimizer = [kind(blocks, lr=0.01), optim.AdamW(others, lr=0.003)]
    program = export_spec(spec, tmp_path)
    batches = random_batches(spec, 4, 2, seed=1)
    data = save_batches(spec, batches, tmp_path / "data.safetensors")
    ranks, microbatches, _, passes = FORMS[form]
    if form == "fsdp-tp":
        Plan({"dp": 2, "tp": 2}, {"": FSDP("dp"), **GPT_PLAN}).write(tmp_path / "plan.json")
        passes = [f"--annotate-placements=plan={tmp_path / 'plan.json'}", *passes]
    optimize(build_dir, program, *passes, "-o", tmp_path / "form.mlir")
    train(build_dir, tmp_path / "form.mlir", "--weights", program.with_suffix(".safetensors"), "--ranks", ranks,
          "--steps", 4, "--microbatches", microbatches, "--threads", 1, "--data", f"safetensors:{data}",
          "--metrics", tmp_path / "m.jsonl", "--checkpoint", tmp_path / "run")  # fmt: skip
    expected = testing.train(spec, batches, 2)
    is_exact = form == "pipeline" or kind is Orthogonal
    assert losses(tmp_path / "m.jsonl") == pytest.approx(expected.losses, rel=TOLERANCE if is_exact else 1e-3)
    found = checkpoint_tensors(newest_checkpoint(tmp_path / "run"))
    if is_exact:
        assert_close(found, expected_tensors(expected, spec))
    before = spec.module.get_parameter("h.0.mlp.c_fc.weight")
    assert not torch.allclose(found["state.h.0.mlp.c_fc.weight"], before, atol=1e-3)
