"""Exported models, fully sharded: the command lines of docs/pipeline.md, docs/gradients.md and
docs/split-backward.md make programs that train as one device does, in float64 to 1e-9.

Models (with dropout, too), layouts, forms of the program and examples a rank are covered pairwise, half of the cover in each run.
"""

import dataclasses
import json
import re
import subprocess

import combinations_cover
import float64
import pytest
import torch
from cleave import FSDP, HSDP, ColwiseParallel, Plan, RowwiseParallel
from combinations_cover import covered
from exported_models import ALL_MODELS
from matrix_runs import Tools, difference, on_ranks, placed
from safetensors.torch import save_file
from training import checkpoint_group

import cleave

STEPS, MICROBATCHES, TOLERANCE = 2, 2, 1e-9

GPT_PLAN = {
    "h.*.attn.c_attn": ColwiseParallel(),
    "h.*.attn.c_proj": RowwiseParallel(),
    "h.*.mlp.c_fc": ColwiseParallel(),
    "h.*.mlp.c_proj": RowwiseParallel(),
}
LLAMA_PLAN = {
    "layers.*.self_attn.{q,k,v}_proj": ColwiseParallel(),
    "layers.*.self_attn.o_proj": RowwiseParallel(),
    "layers.*.mlp.{gate,up}_proj": ColwiseParallel(),
    "layers.*.mlp.down_proj": RowwiseParallel(),
}


def inside(module, plan):
    return {f"{module}.{pattern}": style for pattern, style in plan.items()}


# Tensor-parallel styles of each model.
MODELS = {
    "gpt_tied": GPT_PLAN,
    "llama_small": LLAMA_PLAN,
    "moe": {name: style for name, style in GPT_PLAN.items() if ".attn." in name},
    "llama": inside("model.model", LLAMA_PLAN),
    "gpt2": inside("model.transformer", GPT_PLAN),
    "resnet18": None,
}

# The mesh and how parameters lie on it.
LAYOUTS = {
    "fsdp": ({"dp": 2}, FSDP("dp")),
    "hsdp": ({"dp": 2, "fsdp": 2}, HSDP("dp", "fsdp")),
    "fsdp-tp": ({"dp": 2, "tp": 2}, FSDP("dp")),
    # Along the last dimension of matrices, which no buffer has in one piece.
    "columns": ({"dp": 2}, FSDP("dp", dim=-1)),
}

ONCE_A_STEP = ["--split-fsdp-collectives", "--bucket-gradients=bucket-size-mb=0.05 first-bucket-mb=0.01"]
FORMS = {
    "joint": [*ONCE_A_STEP, "--clip-gradients"],
    # Communication is split into start and wait before gradients are put into buckets.
    "overlapped": [
        "--split-fsdp-collectives", "--overlap-communication", *ONCE_A_STEP[1:], "--clip-gradients"],
    "overlapped-first": ["--partition-joint", "--overlap-communication", *ONCE_A_STEP, "--clip-gradients"],
    "halves": ["--partition-joint", "--split-backward", *ONCE_A_STEP, "--clip-gradients", "--overlap-communication"],
    "zbv": [
        "--outline-stages=count=4 balance=cost", "--split-backward", *ONCE_A_STEP, "--clip-gradients",
        "--overlap-communication",
        f"--build-schedule=schedule=zbv ranks=2 microbatches={MICROBATCHES} max-unsharded=1", "--insert-p2p",
        "--verify-schedule"],
}  # fmt: skip


def make_spec(name, batch):
    """A model in float64 with that many examples in a microbatch."""
    if name == "llama_small":
        import llama

        spec = llama.small()
    else:
        spec = ALL_MODELS[name]()
    spec.module.double()

    def resize(tensor):
        tensor = torch.cat([tensor] * -(-batch // tensor.shape[0]))[:batch]
        return tensor.double() if tensor.is_floating_point() else tensor

    return dataclasses.replace(
        spec, args=tuple(map(resize, spec.args)), targets=tuple(map(resize, spec.targets)), name=name)  # fmt: skip


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    """A program's path, and a file with the data of all steps; by model and batch."""
    return float64.exporter_with_data(make_spec, STEPS * MICROBATCHES, tmp_path_factory)


@pytest.fixture(scope="module")
def lay_out(build_dir, exported):
    """Runs passes on a model's program: the path of what comes out."""

    def run(path, name, *passes, plan=None):
        output = path.with_name(f"{name}.mlir")
        layout = []
        if plan:
            plan.write(path.with_name(f"{name}.json"))
            layout = [f"--annotate-placements=plan={path.with_name(name)}.json", "--propagate-placements",
                      "--partition"]  # fmt: skip
        command = [build_dir / "bin" / "cleave-opt", path, *layout, *passes, "-o", output]
        result = subprocess.run(command, capture_output=True, text=True)
        assert result.returncode == 0, result.stderr
        if not output.with_suffix(".safetensors").exists():
            output.with_suffix(".safetensors").symlink_to(path.with_suffix(".safetensors"))
        return output

    return run


@pytest.fixture(scope="module")
def train(cleave_run):
    """The losses of a program's steps, and its parameters after them."""

    def run(program, data, *options):
        checkpoint, metrics = program.with_suffix(".checkpoint"), program.with_suffix(".jsonl")
        cleave_run.succeed(
            program, "--data", f"safetensors:{data}", "--steps", STEPS, "--checkpoint", checkpoint,
            "--metrics", metrics, "--ranks-as", "threads", "--threads", 1, *options)  # fmt: skip
        losses = [json.loads(line)["loss"] for line in metrics.read_text().splitlines()]
        return losses, checkpoint_group(max(checkpoint.glob("step-*")))

    return run


@pytest.fixture(scope="module")
def one_device(exported, lay_out, train):
    """What one device trains a model to."""
    cache = {}

    def get(name, batch):
        if (name, batch) not in cache:
            path, data = exported(name, batch)
            cache[name, batch] = train(
                lay_out(path, "alone", "--clip-gradients"), data, "--microbatches", MICROBATCHES)  # fmt: skip
        return cache[name, batch]

    return get


def expect_equal(found, expected):
    assert found[0] == pytest.approx(expected[0], rel=TOLERANCE)
    for name, tensor in expected[1].items():
        if tensor.is_floating_point():
            error = (found[1][name] - tensor).abs().max() / tensor.abs().max().clamp(min=1e-3)
            assert error <= TOLERANCE, (name, float(error))


def is_possible(case):
    if case["model"] == "resnet18":
        # Its kernels are three wide: no two ranks share their columns.
        return case["layout"] in ("fsdp", "hsdp") and case["form"] != "zbv"
    return True


COVER = combinations_cover.cover(
    {"model": list(MODELS), "layout": list(LAYOUTS), "form": list(FORMS), "examples": [1, 2]}, is_possible, order=1)  # fmt: skip
CASES = combinations_cover.part_of_today(COVER)


@pytest.mark.parametrize("case", CASES, ids=combinations_cover.name)
def test_sharded_ranks_train_as_one_device(case, exported, lay_out, train, one_device):
    model, examples = case["model"], case["examples"]
    mesh, style = LAYOUTS[case["layout"]]
    shares = 4 if case["layout"] == "hsdp" else 2
    batch = shares * examples
    path, data = exported(model, batch)
    styles = (MODELS[model] or {}) if "tp" in mesh else {}
    local = lay_out(
        path, combinations_cover.name(case), *FORMS[case["form"]], "--check-spmd-types",
        plan=Plan(mesh, {**styles, "": style}))  # fmt: skip
    text = local.read_text()
    # Gradients lie in buckets, and those of shards are scattered by them.
    assert re.search(r"train\.bucket @\w+ of f64 .* scatter \[", text) and "train.accumulate" not in text

    ranks = 2 if case["form"] == "zbv" else 1
    for size in mesh.values():
        ranks *= size
    pipeline = case["form"] == "zbv"
    options = ["--ranks", ranks] + ([] if pipeline else ["--microbatches", MICROBATCHES])
    expect_equal(train(local, data, *options), one_device(model, batch))


# As the page has them: with and without buckets' passes having anything to do.
STAGES = ["--outline-stages=count=4 balance=cost", "--split-backward"]
PIPELINE = [f"--build-schedule=schedule=zbv ranks=2 microbatches={MICROBATCHES} max-unsharded=1", "--insert-p2p",
            "--verify-schedule"]  # fmt: skip
LINES = {
    "pipeline.md": [*STAGES, "--split-fsdp-collectives", "--bucket-gradients", "--clip-gradients",
                    "--overlap-communication", *PIPELINE],
    "gradients.md": [*STAGES, "--sync-gradients=axis=dp", "--bucket-gradients", "--clip-gradients", *PIPELINE],
}  # fmt: skip


@covered({"page": list(LINES), "model": [name for name in MODELS if name != "resnet18"]}, strength=1)
def test_pages_pipelines_run_without_a_plan(page, model, exported, lay_out, train, one_device):
    path, data = exported(model, 2)
    local = lay_out(path, page, *LINES[page])
    expect_equal(train(local, data, "--ranks", 2), one_device(model, 2))


class Widened(torch.nn.Module):
    """As MobileBERT's head: what a layer lacks in width comes from another, which here has no elements."""

    def __init__(self):
        super().__init__()
        self.dense, self.rest = torch.nn.Linear(4, 6), torch.nn.Parameter(torch.empty(0, 4))

    def forward(self, x):
        return torch.nn.functional.linear(x, torch.cat([self.dense.weight, self.rest]), self.dense.bias)


@pytest.mark.parametrize("more", [[], ONCE_A_STEP], ids=["each-use", "buckets"])
def test_a_parameter_without_elements_stays_whole(more, build_dir, tmp_path):
    torch.manual_seed(0)
    model = Widened().double()
    spec = cleave.ExportSpec(
        model, (torch.randn(2, 4, dtype=torch.float64),), loss=lambda y: y.square().mean(), name="widened",
        optimizer=torch.optim.AdamW(model.parameters(), lr=0.1),
    )  # fmt: skip
    tools, program = Tools(build_dir), cleave.export_spec(spec, tmp_path)
    save_file({"x": torch.randn(8, 4, dtype=torch.float64)}, tmp_path / "data.safetensors")
    plan = Plan({"dp": 2}, {"": FSDP()}).write(tmp_path / "plan.json")
    sharded = tools.opt(program, tmp_path / "sharded.mlir", [*placed([], plan), *more])
    losses, tensors = tools.train(program, tmp_path / "data.safetensors", "--microbatches", 2)
    found_losses, found = tools.train(sharded, tmp_path / "data.safetensors", "--microbatches", 2, *on_ranks(2))
    assert found_losses == pytest.approx(losses, rel=TOLERANCE)
    assert found["model.rest"].shape == (0, 4)
    assert difference(found, tensors)[0] <= TOLERANCE
