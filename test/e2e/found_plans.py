"""What cleave-plan finds for a model, carried out and trained by the commands that it says."""

import json
import math
import pathlib
import re
import shlex
import shutil
import subprocess

from matrix_runs import ToolFailed, on_ranks

MICROBATCHES = 4
# What is fixed of a plan for so many ranks: nothing, and each kind of parallelism by itself.
FIXED = ("", "dp={0},parameters=fsdp", "dp={0},parameters=zero1,recompute=cheap", "tp={0}", "cp={0}", "pp={0}")


def train(tools, training, folder, ranks, fixed, *options):
    """How far the fastest plan is from one rank's `training`, and in what; none if the space has no plan with what is
    fixed. The program that it names takes the step that it predicts."""
    found = find(tools, training.program, folder, ranks, fixed, *options)
    if found is None:
        return None
    run(tools, found["commands"][0])
    step = json.loads(run(tools, f"{found['commands'][1]} --json"))["step"]
    assert math.isclose(step["seconds"], found["best"]["seconds"], rel_tol=1e-9), (fixed, step["seconds"], found["best"])
    _, program, *run_options = shlex.split(found["training"])[:-4]  # --steps N --data SOURCE
    losses, tensors = tools.train(pathlib.Path(program), training.data, *run_options, *on_ranks(ranks))
    shutil.rmtree(folder)
    return training.compare(losses, tensors)


def find(tools, program, folder, ranks, fixed, *options):
    """What cleave-plan says of this program, and writes into the folder; none if there is no such plan, or passes refuse
    all of them."""
    command = [
        tools.build / "bin" / "cleave-plan", program, "--cluster=A100", f"--ranks={ranks}", f"--microbatches={MICROBATCHES}",
        *([f"--fix={fixed}"] if fixed else []), "--time-limit=60", "--json", "-o", folder, *options,
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, timeout=tools.timeout)
    if fixed and re.match(r"cleave-plan: error: (--fix: no plan for|passes and schedules refuse all plans)", done.stderr):
        return None
    if done.returncode:
        raise ToolFailed(done)
    return json.loads(done.stdout)


def run(tools, command):
    name, *arguments = shlex.split(command)
    done = subprocess.run([tools.build / "bin" / name, *arguments], capture_output=True, text=True, timeout=tools.timeout)
    if done.returncode:
        raise ToolFailed(done)
    return done.stdout
