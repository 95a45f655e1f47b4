"""The fastest plan for a program and a cluster: what `cleave-plan` finds, as an object (docs/planner.md)."""

from __future__ import annotations

import dataclasses
import json
import os
import pathlib
import subprocess
from collections.abc import Mapping

from cleave.errors import Error
from cleave.programs import Program


@dataclasses.dataclass(frozen=True)
class FoundPlan:
    """The fastest plan that was found, and how far from the fastest there is it may be.

    plan: a value by word of docs/planner.md, such as {"dp": "2", "schedule": "zbv", ...}.
    seconds: of a step, as cleave-sim predicts it. No plan of the space takes less than `lower_bound`; one with a memory budget
      may, but none less than `report["budgets"]["lower_bound"]`, where there is one.
    commands: what makes the plan's program and predicts its step.
    training: the command that trains it, for N steps on data SOURCE, on the weights beside the export.
    report: all that `cleave-plan --json` says: memory, exposed communication, alternatives, ...
    """

    plan: dict[str, str]
    seconds: float
    lower_bound: float
    commands: list[str]
    training: str
    report: dict = dataclasses.field(repr=False)

    @property
    def gap(self) -> float:
        """What of `seconds` the bound leaves open: 0 for the fastest plan of the space."""
        return self.report["gap"]


def find_plan(
    *programs: str | os.PathLike | Program,
    cluster: str | os.PathLike,
    ranks: int,
    folder: str | os.PathLike | None = None,
    fix: Mapping[str, str | int] | None = None,
    **options,
) -> FoundPlan:
    """Finds the fastest plan for exports of one model (files, or programs, which are written to `folder`).

    folder: where placements, the report and the commands are written.
    fix: what is not to be chosen: {"tp": 2, "schedule": "1f1b"}.
    options: cleave-plan's others: microbatches=16 or global_batch=256, memory="60GiB", time_limit=60, ...
    """
    from cleave.tools import find_tool

    files = []
    for program in programs:
        if isinstance(program, Program):
            if folder is None:
                raise ValueError("find_plan: expected folder=, where the program is written, found none")
            program = program.save(pathlib.Path(folder, f"{program.name}.mlir"))
        files.append(os.fspath(program))
    given = [f"--{name.replace('_', '-')}={value}" for name, value in options.items()]
    if fix:
        given.append("--fix=" + ",".join(f"{word}={value}" for word, value in fix.items()))
    if folder is not None:
        given += ["-o", os.fspath(folder)]
    command = [find_tool("cleave-plan"), *files, f"--cluster={os.fspath(cluster)}", f"--ranks={ranks}", *given, "--json"]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    if ran.returncode:
        raise Error(ran.stderr.strip().removeprefix("cleave-plan: error: "))
    report = json.loads(ran.stdout)
    best = report["best"]
    return FoundPlan(
        best["plan"], best["seconds"], report["lower_bound"], report["commands"], report["training"], report
    )
