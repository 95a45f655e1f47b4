"""The pipelines of cleave-opt that the documents print, each made into two programs that cleave-prove compares: GPT for one device,
and what the pipeline leaves of it. Where it neither places values nor divides inputs by roles, it is placed first."""

import dataclasses
import pathlib
import subprocess

import documented
import placement_cases as cases
from matrix_runs import placed
from training import ENVIRONMENT, MODELS

import cleave
from cleave import ContextParallel, DataParallel, Plan

SOURCE = pathlib.Path(__file__).resolve().parents[2]
RECIPES = {recipe.where: recipe for recipe in documented.recipes(SOURCE)}
MODEL = "gpt_untied"
# The executable forms are checked against what they were lowered from.
_LOWERS = ("--fuse-kernels", "--compile-kernels", "--lower-to-exec")
# What changes the step on purpose is in the program for one device, too.
_CHANGES = ("--clip-gradients", "--scale-loss", "--autodiff")


def _named(options, names):
    return [option for option in options if option.split("=")[0] in names]


def _plan_for(options):
    if "--sequence-major=batch-shards=2" in options:
        return Plan({"dp": 2, "cp": 2}, [("", DataParallel()), ("", ContextParallel())])
    return cases.plan(MODEL, "cp2" if "--sequence-major" in options else "fsdp2")


def options_of(where):
    """What of the pipeline can be proved."""
    options = RECIPES[where].options
    return [option for option in options if option not in _named(options, _LOWERS)]


def starts_forward(where):
    """Whether the pipeline makes the backward itself."""
    return RECIPES[where].asks_for("autodiff")


def divides_by_roles(where):
    """Whether the pipeline gives each rank microbatches of its own: types place nothing."""
    return RECIPES[where].asks_for("sync-gradients")


def export_forward(folder):
    return cleave.export_spec(dataclasses.replace(MODELS[MODEL](), gradients=False), folder)


def make_programs(build, where, program, folder):
    """The program for one device, and what the pipeline leaves of it."""
    options = options_of(where)

    def opt(output, passes):
        made = subprocess.run(
            [pathlib.Path(build) / "bin" / "cleave-opt", program, *passes, "-o", output],
            capture_output=True, text=True, env=ENVIRONMENT, timeout=120, cwd=folder,
        )  # fmt: skip
        assert made.returncode == 0, made.stderr
        return output

    passes = options if divides_by_roles(where) else placed(options, _plan_for(options).write(folder / "plan.json"))
    return (
        opt(folder / "whole.mlir", _named(options, _CHANGES)),
        # Documents name files from the root.
        opt(folder / "part.mlir", [option.replace("=examples/", f"={SOURCE}/examples/") for option in passes]),
    )
