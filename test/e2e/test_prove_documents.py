"""Every pipeline of cleave-opt that the documents print is proved on an exported GPT that is placed first, where the document
places none: what it leaves, of one function or of stages by their schedule, is the step of one device."""

import dataclasses
import json
import pathlib
import subprocess

import documented
import placement_cases as cases
import pytest
from matrix_runs import placed
from training import ENVIRONMENT, MODELS

import cleave
from cleave import ContextParallel, DataParallel, Plan

SOURCE = pathlib.Path(__file__).resolve().parents[2]
# Without types, gradients are reduced by roles: the statement is about a step of as many batches as ranks.
RECIPES = {recipe.where: recipe for recipe in documented.recipes(SOURCE) if not recipe.asks_for("sync-gradients")}
# The executable forms are checked against what they were lowered from.
LOWERS = ("--fuse-kernels", "--compile-kernels", "--lower-to-exec")
# What changes the step on purpose is in the program for one device, too.
CHANGES = ("--clip-gradients", "--autodiff")
MODEL = "gpt_untied"


def named(options, names):
    return [option for option in options if option.split("=")[0] in names]


def plan_for(options):
    if "--sequence-major=batch-shards=2" in options:
        return Plan({"dp": 2, "cp": 2}, [("", DataParallel()), ("", ContextParallel())])
    return cases.plan(MODEL, "cp2" if "--sequence-major" in options else "fsdp2")


@pytest.fixture(scope="module")
def forward_only(tmp_path_factory):
    spec = dataclasses.replace(MODELS[MODEL](), gradients=False)
    return cleave.export_spec(spec, tmp_path_factory.mktemp("forward"))


def test_recipes_are_found():
    """Stages with schedules, halves of backwards and rings are among them."""
    options = " ".join(option for recipe in RECIPES.values() for option in recipe.options)
    for name in ("build-schedule", "split-backward", "split-fsdp-collectives", "sequence-major", "autodiff"):
        assert f"--{name}" in options


@pytest.mark.parametrize("where", RECIPES)
def test_documented_pipeline(build_dir, model, forward_only, tmp_path, where):
    options = [option for option in RECIPES[where].options if option not in named(RECIPES[where].options, LOWERS)]
    program = forward_only if "--autodiff" in options else model(MODEL).program
    whole, part = tmp_path / "whole.mlir", tmp_path / "part.mlir"

    def opt(output, passes):
        made = subprocess.run(
            [build_dir / "bin" / "cleave-opt", program, *passes, "-o", output],
            capture_output=True, text=True, env=ENVIRONMENT, timeout=120, cwd=tmp_path,
        )  # fmt: skip
        assert made.returncode == 0, made.stderr

    opt(whole, named(options, CHANGES))
    passes = placed(options, plan_for(options).write(tmp_path / "plan.json"))
    # Documents name files from the root.
    opt(part, [option.replace("=examples/", f"={SOURCE}/examples/") for option in passes])
    answer = subprocess.run(
        [build_dir / "bin" / "cleave-prove", whole, part, "--json", "--execute=false"],
        capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert answer.returncode == 0, (answer.stderr, answer.stdout[:2000])
    assert json.loads(answer.stdout)["results"] > 80
