"""Where a pipeline's stages begin, kept from the first program of a step for those of other batches."""

from __future__ import annotations

import pathlib
import tempfile
from collections.abc import Iterator

from cleave.ops import Op
from cleave.programs import Program

_MARK = "train.stage"
# Schedules of --build-schedule whose second half of stages goes back up the ranks; those that run gradients of weights
# apart from those of inputs do so too.
_V_SCHEDULES = {"zbv", "dualpipev", "vhalf", "vmin"}
_SPLIT_SCHEDULES = _V_SCHEDULES | {"interleavedzerobubble", "zb1p", "zbh1", "zbh2"}


class StageCuts:
    """Cuts programs of one model into stages at the same ops.

    By cost alone another batch size, or evaluation, could be cut elsewhere, and ranks would hold other parameters. Ops
    are found again by name, line of the model, and number among those that have both alike.
    """

    def __init__(self, stages: int, balance: str):
        self._stages, self._balance = stages, balance
        self._known: dict[tuple[str, str, int], int] | None = None

    def mark(self, program: Program) -> None:
        """Marks the forward's ops with their stages, by which `--outline-stages` cuts; the first time as by cost."""
        if self._known is None:
            program.run_passes(f"outline-stages{{count={self._stages} balance={self._balance} mark-only=true}}")
            marks = ((key, op.attributes.get(_MARK)) for key, op in _keyed(program))
            self._known = {key: int(mark.split()[0]) for key, mark in marks if mark is not None}
        else:
            program.rewrite(self._mark_as_before)

    def _mark_as_before(self, program: Program) -> None:
        stage = 0
        for key, op in _keyed(program):
            # What is not in the first program belongs to what is before it.
            stage = max(stage, self._known.get(key, stage))
            op.attributes[_MARK] = f"{stage} : i64"


def run_forward_schedule(program: Program, schedule: str, stages: int, ranks: int, microbatches: int) -> None:
    """Gives the program a schedule without backward, with stages on the ranks that have them in `schedule`."""
    is_v = _plain(schedule) in _V_SCHEDULES
    lines = ['schedule "evaluation"', "forward_only", f"ranks {ranks}", f"stages {stages}", f"microbatches {microbatches}",
             f"topology {'v' if is_v else 'loop'}"]  # fmt: skip
    for rank in range(ranks):
        own = [rank, 2 * ranks - 1 - rank] if is_v else range(rank, stages, ranks)
        actions = [f"F{stage}.{microbatch}" for stage in own for microbatch in range(microbatches)]
        lines.append(f"rank {rank}: {' '.join(actions)}")
    with tempfile.TemporaryDirectory(prefix="cleave-") as folder:
        path = pathlib.Path(folder, "evaluation.txt")
        path.write_text("\n".join(lines) + "\n")
        program.run_passes(f"build-schedule{{file={path}}}")


def splits_backward(schedule: str) -> bool:
    return _plain(schedule) in _SPLIT_SCHEDULES


def _plain(schedule: str) -> str:
    """Its name as --build-schedule compares it."""
    return schedule.lower().replace("-", "").replace("_", "")


def _keyed(program: Program) -> Iterator[tuple[tuple[str, str, int], Op]]:
    counts: dict[tuple[str, str], int] = {}
    for op in program.ops():
        if op.function != "microbatch" or op.name in ("func.func", "func.return"):
            continue
        found = op.name, op.location
        counts[found] = counts.get(found, 0) + 1
        yield (*found, counts[found]), op
