"""The standing matrix: exported models x documented commands x layouts x batch sizes, in float64.

Each combination is exported, goes through the command as a document prints it, trains for two steps on all
its ranks, and has the losses, parameters, buffers and optimizer states of the program on one rank to 1e-9.
"""

import functools
import json
import math
import pathlib
import re
import shutil
import subprocess

import combinations_cover
import documented
import float64
import matrix_models
import placement_cases
import pytest
from cleave_run import CleaveRun
from safetensors.torch import load_file, save_file

from cleave import FSDP, HSDP, ContextParallel, DataParallel, Plan

SOURCE = pathlib.Path(__file__).resolve().parents[2]
STEPS, TOLERANCE = 2, 1e-9
RECIPES = {recipe.where: recipe for recipe in documented.recipes(SOURCE)}
TENSOR_PARALLEL = placement_cases.TENSOR_PARALLEL
PLACING = ("--annotate-placements", "--propagate-placements", "--partition")

# By name: the mesh, how many of its ranks share a batch, and the rules for a model.
LAYOUTS = {
    "none": ({}, 1, None),
    "dp2": ({"dp": 2}, 2, lambda model: {"": DataParallel()}),
    "fsdp2": ({"dp": 2}, 2, lambda model: {"": FSDP()}),
    "hsdp2x2": ({"replicas": 2, "shards": 2}, 4, lambda model: {"": HSDP("replicas", "shards")}),
    "cp2": ({"cp": 2}, 1, lambda model: {"": ContextParallel()}),
    "fsdp2tp2": ({"dp": 2, "tp": 2}, 2, lambda model: [*placement_cases.tensor_parallel(model), ("", FSDP())]),
}


def placed(options, plan):
    """The options with the placing ones naming this plan, and in front where the command has none."""
    named = {option.split("=")[0]: option for option in options if option.split("=")[0] in PLACING}
    steps = [f"{PLACING[0]}=plan={plan}", *(named.get(pass_, pass_) for pass_ in PLACING[1:])]
    at = next((i for i, option in enumerate(options) if option in named.values()), options.count("--autodiff"))
    others = [option for option in options if option not in named.values()]
    return [*others[:at], *steps, *others[at:]]


def is_first_of_its_kind(recipe, layout):
    """Commands that differ in the plan's name are one where all models have the layout's plan."""
    if layout == "none":
        return True
    same = (other for other in RECIPES.values() if placed(other.options, "plan") == placed(recipe.options, "plan"))
    return next(same) is recipe


def allowed(combination):
    model, recipe, layout = combination["model"], RECIPES[combination["recipe"]], combination["layout"]
    if not is_first_of_its_kind(recipe, layout):
        return False
    if recipe.asks_for("sync-gradients") and layout != "none":
        return False  # types have reduced them
    if recipe.asks_for("propagate-placements") and layout == "none":
        return False
    if recipe.asks_for("sequence-major") != (layout == "cp2"):
        return False
    return layout not in ("cp2", "fsdp2tp2") or model in TENSOR_PARALLEL and model != "resnet18"


# Each model with each command is some 400 runs: those of all models are for `./dev test --all`.
COVERED = ["gpt_dropout", "moe", "llama", "t5"]
AXES = {
    "model": matrix_models.MODELS if combinations_cover.run_all() else COVERED,
    "recipe": list(RECIPES),
    "layout": list(LAYOUTS),
    "batch": [1, 2, 4],
}


class Matrix:
    """Exports, references and runs, each made once in a process."""

    def __init__(self, build, folder):
        self.build, self.folder = build, folder
        self.run = CleaveRun(build)

    @functools.cache
    def export(self, model, size, gradients):
        folder = self.folder / f"{model}-{size}-{gradients}"
        spec = matrix_models.spec(model, size)
        spec.gradients = gradients
        return spec, float64.export(spec, folder)

    def opt(self, source, output, options):
        command = [self.build / "bin" / "cleave-opt", source, "--mlir-print-debuginfo", *options, "-o", output]
        result = subprocess.run(command, capture_output=True, text=True, cwd=output.parent)
        assert result.returncode == 0, f"{' '.join(map(str, command))}\n{result.stderr[:4000]}"
        weights = output.with_suffix(".safetensors")
        if not weights.exists():
            weights.symlink_to(source.with_suffix(".safetensors"))
        return output

    def train(self, program, data, *options):
        """Losses, and the tensors of the checkpoint."""
        metrics, checkpoint = program.with_suffix(".jsonl"), program.with_suffix(".checkpoint")
        self.run.succeed(
            program, "--steps", STEPS, "--seed", 3, "--threads", 1, "--quiet", "--metrics", metrics,
            "--checkpoint", checkpoint, "--data", f"safetensors:{data}", *options,
        )  # fmt: skip
        tensors = {}
        for file in sorted(max(checkpoint.glob("step-*")).glob("*.safetensors")):
            tensors |= {f"{file.stem}.{name}": tensor for name, tensor in load_file(file).items()}
        shutil.rmtree(checkpoint)
        return [json.loads(line)["loss"] for line in metrics.read_text().splitlines()], tensors

    @functools.cache
    def reference(self, model, size, microbatches, options):
        """What one rank trains, after those options only that change what is computed."""
        spec, program = self.export(model, size, "--autodiff" not in options)
        name = re.sub(r"\W+", "-", f"reference-{microbatches}{''.join(options)}")
        program = self.opt(program, program.with_name(f"{name}.mlir"), options)
        data = program.with_suffix(".data.safetensors")
        save_file(matrix_models.batches(spec, microbatches, STEPS), data)
        return data, self.train(program, data, "--microbatches", microbatches)


@pytest.fixture(scope="module")
def matrix(build_dir, tmp_path_factory):
    return Matrix(build_dir, tmp_path_factory.mktemp("matrix"))


def difference(found, expected):
    """The largest relative difference of two dicts of tensors, and its name; as `--against` measures it."""
    assert found.keys() == expected.keys()
    floats = {name: t.double() for name, t in expected.items() if t.is_floating_point() and t.numel()}
    sizes = sorted(t.abs().max().item() for t in floats.values())
    floor = 1e-3 * sizes[len(sizes) // 2]
    worst = max(
        ((found[n].double() - t).abs().max().item() / max(t.abs().max().item(), floor), n)
        for n, t in floats.items()
    )  # fmt: skip
    for name in expected.keys() - floats.keys():
        assert found[name].equal(expected[name]), name
    return worst


def check(matrix, model, recipe, layout, batch):
    recipe = RECIPES[recipe]
    mesh, sharers, rules = LAYOUTS[layout]
    folder = matrix.folder / re.sub(r"\W+", "-", f"{model}-{recipe.where}-{layout}-{batch}")
    folder.mkdir()
    options = recipe.options
    if rules:
        options = placed(options, Plan(mesh, rules(model)).write(folder / "plan.json"))
    # What one rank's program needs, too: these change what a step computes.
    alike = tuple(o for o in options if o.split("=")[0] in ("--clip-gradients", "--autodiff"))
    data_ranks = 2 if recipe.asks_for("sync-gradients") else 1
    pipeline_ranks = recipe.number(r"build-schedule=.*?\branks=(\d+)", 1)
    microbatches = recipe.number(r"build-schedule=.*?\bmicrobatches=(\d+)", 2)
    ranks = data_ranks * pipeline_ranks * math.prod(mesh.values())
    size = batch * sharers
    _, source = matrix.export(model, size, "--autodiff" not in alike)
    data, (losses, tensors) = matrix.reference(model, size, microbatches * data_ranks, alike)
    program = matrix.opt(source, folder / "program.mlir", options)
    several = ["--ranks", ranks, "--ranks-as", "threads", "--timeout", 60] if ranks > 1 else []
    found_losses, found = matrix.train(program, data, "--microbatches", microbatches, *several)
    assert found_losses == pytest.approx(losses, rel=TOLERANCE)
    if data_ranks > 1:
        # Without types running statistics are each rank's own.
        found, tensors = ({n: t for n, t in of.items() if not re.search(r"\.(running_|num_batches)", n)} for of in (found, tensors))
    worst, name = difference(found, tensors)
    assert worst <= TOLERANCE, (name, worst)
    shutil.rmtree(folder)  # the whole matrix would fill a disk


@pytest.mark.parametrize("combination", combinations_cover.cover(AXES, allowed, order=1), ids=combinations_cover.name)
def test_combination(combination, matrix):
    check(matrix, **combination)
