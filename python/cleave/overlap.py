"""`python -m cleave.overlap trace.json`: how much of the time of bucket reductions overlaps computation.

Reads a trace written by `cleave-run --trace FILE`. A reduction is overlapped while its rank runs an op that
does not itself wait for communication.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import pathlib
import sys

_COMPUTES = ("aten.", "train.", "exec.")
_WAITS = ("train.wait_bucket", "train.reduce_bucket")

Interval = tuple[float, float]


@dataclasses.dataclass
class Overlap:
    """Times of one rank's reductions in milliseconds; `covered` is part of `total`."""

    total: float = 0.0
    covered: float = 0.0

    @property
    def share(self) -> float:
        return self.covered / self.total if self.total else 0.0


def join(intervals: list[Interval]) -> list[Interval]:
    """Sorted and disjoint intervals that cover what the given ones do."""
    joined: list[Interval] = []
    for begin, end in sorted(intervals):
        if joined and begin <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(joined[-1][1], end))
        else:
            joined.append((begin, end))
    return joined


def common(first: list[Interval], second: list[Interval]) -> float:
    """The length of what two lists of disjoint, sorted intervals both cover."""
    length, i, j = 0.0, 0, 0
    while i < len(first) and j < len(second):
        length += max(0.0, min(first[i][1], second[j][1]) - max(first[i][0], second[j][0]))
        if first[i][1] < second[j][1]:
            i += 1
        else:
            j += 1
    return length


def measure(events: list[dict]) -> dict[int, Overlap]:
    """By rank, from the events of a trace. Reductions that run at the same time count once."""
    reductions: dict[int, list[Interval]] = {}
    computation: dict[int, list[Interval]] = {}
    for event in events:
        if event.get("ph") != "X":
            continue
        interval = (event["ts"], event["ts"] + event["dur"])
        if event.get("cat") == "reduction":
            reductions.setdefault(event["pid"], []).append(interval)
        elif event["name"].startswith(_COMPUTES) and event["name"] not in _WAITS:
            computation.setdefault(event["pid"], []).append(interval)
    found = {}
    for rank, intervals in sorted(reductions.items()):
        under_way = join(intervals)
        total = sum(end - begin for begin, end in under_way)
        covered = common(under_way, join(computation.get(rank, [])))
        found[rank] = Overlap(total / 1000, covered / 1000)
    return found


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m cleave.overlap", description=__doc__)
    parser.add_argument("trace", type=pathlib.Path, help="trace written by cleave-run --trace")
    options = parser.parse_args(arguments)
    try:
        events = json.loads(options.trace.read_text())
        if isinstance(events, dict):
            events = events["traceEvents"]
        found = measure(events)
    except (OSError, ValueError, KeyError, TypeError) as error:
        print(f"error: {options.trace}: expected a trace of cleave-run, found {error!r}", file=sys.stderr)
        return 1
    if not found:
        print(f"error: {options.trace}: expected reductions of buckets, found none; run a program "
              "with --bucket-gradients on several ranks", file=sys.stderr)  # fmt: skip
        return 1
    for rank, overlap in found.items():
        print(f"rank {rank}: reductions take {overlap.total:.2f} ms, computation covers "
              f"{overlap.covered:.2f} ms of them ({100 * overlap.share:.0f} %)")  # fmt: skip
    return 0


if __name__ == "__main__":
    sys.exit(main())
