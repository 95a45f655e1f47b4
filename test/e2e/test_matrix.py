"""The standing matrix: exported models x documented commands x layouts x batch sizes, in float64; a quarter of a cover in each run.

Each combination is exported, goes through the command as a document prints it, trains for two steps on all
its ranks, and has the losses, parameters, buffers and optimizer states of the program on one rank to 1e-9.
"""

import functools
import math
import pathlib
import re
import shutil

import combinations_cover
import documented
import float64
import matrix_models
import placement_cases
import pytest
from matrix_runs import STEPS, TOLERANCE, Tools, difference, on_ranks, placed, without_running_statistics
from safetensors.torch import save_file

from cleave import FSDP, HSDP, ContextParallel, DataParallel, Plan

SOURCE = pathlib.Path(__file__).resolve().parents[2]
RECIPES = {recipe.where: recipe for recipe in documented.recipes(SOURCE)}
TENSOR_PARALLEL = placement_cases.TENSOR_PARALLEL

# By name: the mesh, how many of its ranks share a batch, and the rules for a model.
LAYOUTS = {
    "none": ({}, 1, None),
    "dp2": ({"dp": 2}, 2, lambda model: {"": DataParallel()}),
    "fsdp2": ({"dp": 2}, 2, lambda model: {"": FSDP()}),
    "hsdp2x2": ({"replicas": 2, "shards": 2}, 4, lambda model: {"": HSDP("replicas", "shards")}),
    "cp2": ({"cp": 2}, 1, lambda model: {"": ContextParallel()}),
    "dp2cp2": ({"dp": 2, "cp": 2}, 2, lambda model: [("", DataParallel()), ("", ContextParallel())]),
    "fsdp2tp2": ({"dp": 2, "tp": 2}, 2, lambda model: [*placement_cases.tensor_parallel(model), ("", FSDP())]),
}


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
    if recipe.asks_for("sequence-major") != (layout in ("cp2", "dp2cp2")):
        return False
    return layout not in ("cp2", "dp2cp2", "fsdp2tp2") or model in TENSOR_PARALLEL and model != "resnet18"


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
        self.tools, self.folder = Tools(build), folder

    @functools.cache
    def export(self, model, size, gradients):
        folder = self.folder / f"{model}-{size}-{gradients}"
        spec = matrix_models.spec(model, size)
        spec.gradients = gradients
        return spec, float64.export(spec, folder)

    @functools.cache
    def reference(self, model, size, microbatches, options):
        """What one rank trains, after those options only that change what is computed."""
        spec, program = self.export(model, size, "--autodiff" not in options)
        name = re.sub(r"\W+", "-", f"reference-{microbatches}{''.join(options)}")
        program = self.tools.opt(program, program.with_name(f"{name}.mlir"), options)
        data = program.with_suffix(".data.safetensors")
        save_file(matrix_models.batches(spec, microbatches, STEPS), data)
        return data, self.tools.train(program, data, "--microbatches", microbatches)


@pytest.fixture(scope="module")
def matrix(build_dir, tmp_path_factory):
    return Matrix(build_dir, tmp_path_factory.mktemp("matrix"))


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
    program = matrix.tools.opt(source, folder / "program.mlir", options)
    found_losses, found = matrix.tools.train(program, data, "--microbatches", microbatches, *on_ranks(ranks))
    assert found_losses == pytest.approx(losses, rel=TOLERANCE)
    if data_ranks > 1:
        found, tensors = without_running_statistics(found), without_running_statistics(tensors)
    worst, name = difference(found, tensors)
    assert worst <= TOLERANCE, (name, worst)
    shutil.rmtree(folder)  # the whole matrix would fill a disk


SOME = combinations_cover.part_of_today(combinations_cover.cover(AXES, allowed, order=1), 4)


@pytest.mark.parametrize("combination", SOME, ids=combinations_cover.name)
def test_combination(combination, matrix):
    check(matrix, **combination)
