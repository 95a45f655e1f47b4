"""Time to build a schedule, insert its sends and receives and verify it, beside torch's builder.

Both sides run in turn in one go; the ratio is what counts. torch's side is what the constructor of the
schedule does: its order, then `_add_unshard_reshard` and `_add_send_recv` (and no proof).
Ours is measured in the program `schedule-dump`, and in `cleave-opt` ("passes"); verifying means under
Gloo's and NCCL's matching.

    .venv/bin/python bench/schedule_build.py [--build build] [--scale]
"""

import argparse
import pathlib
import re
import statistics
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "test" / "schedule"))

import test_torch_order as torch_side  # noqa: E402

schedules = torch_side.schedules


def ours(build, name, ranks, chunks, microbatches):
    """Seconds to build, insert and verify, and the number of actions."""
    done = subprocess.run([build / "unit" / "schedule-dump", "--time"], text=True, check=True,
                          input=f"{name} {ranks} {chunks} {microbatches}\n", capture_output=True)
    line = done.stdout.splitlines()[0]
    if line.startswith("error:"):
        sys.exit(line)
    *seconds, actions = line.split(",")
    return [float(s) for s in seconds], int(actions)


def as_passes(build, name, ranks, chunks, microbatches):
    """Seconds that --build-schedule, --insert-p2p and --verify-schedule take on an empty module."""
    done = subprocess.run(
        [build / "bin" / "cleave-opt", "-", "--mlir-timing", "-o", "/dev/null", "--emit-bytecode",
         f"--build-schedule=schedule={name} ranks={ranks} chunks={chunks} microbatches={microbatches}",
         "--insert-p2p", "--verify-schedule"],
        text=True, check=True, input="module {}", capture_output=True)
    rows = re.findall(r"([\d.]+) \(\s*[\d.]+%\)\s+(?:BuildSchedule|InsertP2P|VerifySchedule)", done.stderr)
    if len(rows) != 3:
        sys.exit(f"expected the times of three passes, found: {done.stderr}")
    return sum(map(float, rows))


def theirs(name, ranks, chunks, microbatches):
    """Seconds that torch needs for the order and its transfers."""
    cls, _ = torch_side.MULTI[name]
    style = "v" if name in ("zbv", "dualpipev") else "loop"
    mapping = schedules.generate_stage_to_rank_mapping(ranks, ranks * chunks, style)
    start = time.perf_counter()
    order = torch_side.order_of(cls, ranks, chunks, microbatches)
    lists = {r: schedules._add_unshard_reshard(order[r]) for r in order}
    schedules._add_send_recv(lists, lambda s: mapping[s], ranks * chunks)
    return time.perf_counter() - start


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    parser.add_argument("--scale", action="store_true", help="also 1,024 ranks, 4,096 microbatches")
    args = parser.parse_args()
    print("64 ranks, 2 chunks, 256 microbatches")
    print(f"{'schedule':26}{'build':>9}{'insert':>9}{'verify':>9}{'sum':>9}{'passes':>9}"
          f"{'torch':>9}{'ratio':>8}")
    for name in torch_side.MULTI:
        runs, passes, reference = [], [], []
        for _ in range(3):
            runs.append(ours(args.build, name, 64, 2, 256)[0])
            passes.append(as_passes(args.build, name, 64, 2, 256))
            reference.append(theirs(name, 64, 2, 256))
        parts = [statistics.median(column) for column in zip(*runs)]
        torch_time = statistics.median(reference)
        cells = "".join(f"{s:9.4f}" for s in (*parts, sum(parts), statistics.median(passes), torch_time))
        print(f"{name:26}{cells}{torch_time / sum(parts):8.0f}")
    if not args.scale:
        return
    print("\ngrowth: interleaved-1f1b, 2 chunks")
    for ranks, microbatches in ((64, 1024), (256, 1024), (1024, 1024), (1024, 4096)):
        parts, actions = ours(args.build, "interleaved-1f1b", ranks, 2, microbatches)
        print(f"{ranks:5} ranks {microbatches:5} microbatches {actions:9} actions: "
              f"{sum(parts):7.3f} s, {1e9 * sum(parts) / actions:5.0f} ns an action")


if __name__ == "__main__":
    main()
