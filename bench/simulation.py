#!/usr/bin/env python3
"""The search beside the Zero Bubble paper's published rates, and the simulator's speed.

    bench/simulation.py [--build build] [--effort X] [--write]

Prints Markdown; --write puts it, with the date, into docs/simulation.md between its markers.
"""

import argparse
import csv
import datetime
import json
import os
import pathlib
import subprocess
import time

SOURCE = pathlib.Path(__file__).resolve().parent.parent
DATA = SOURCE / "test/data/zero_bubble"
# Hidden size and attention heads (arXiv 2401.10241, table 3); sequences of 1024.
SHAPES = {"1.5B": (2304, 24), "6.2B": (4096, 32), "14.6B": (5120, 40), "28.3B": (6144, 48)}


def sim(build, *arguments):
    command = [build / "bin/cleave-sim", *arguments, "--json"]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def searches():
    """(row, chunks, column, memory limit as multiple of ranks x chunks forwards)."""
    for name, chunks in (("zero_bubble_table5.csv", 1), ("zero_bubble_table8.csv", 2)):
        with open(DATA / name, newline="", encoding="utf-8") as file:
            for row in csv.DictReader(file):
                for column, factor in {1: [("zb_1p", 1), ("zb_2p", 2)], 2: [("zbv", 1)]}[chunks]:
                    yield row, chunks, column, factor


def search_table(build, effort):
    lines = ["| model | ranks | microbatches | memory of | published | found | lower bound | seconds |",
             "| --- | --- | --- | --- | --- | --- | --- | --- |"]
    for row, chunks, column, factor in searches():
        hidden, heads = SHAPES[row["model"]]
        released = [2 * hidden + 5 * heads * 1024, 32 * hidden]
        limit = factor * int(row["ranks"]) * chunks * sum(released)
        result = sim(build, "--schedule=auto", f"--ranks={row['ranks']}",
                     f"--microbatches={row['microbatches']}", f"--chunks={chunks}",
                     f"--topology={'v' if chunks == 2 else 'loop'}",
                     "--costs=" + ",".join(row[f"t_{c}_ms"] for c in ("f", "b", "w", "comm")),
                     f"--activation-memory={sum(released)},{released[0]},{released[1]}",
                     f"--memory-limit={limit}", f"--effort={effort}")
        found, bound = result["bubble_rate_largest_span"], result["lower_bound"]["bubble_rate_largest_span"]
        assert result["fits"]
        lines.append(f"| {row['model']} | {row['ranks']} | {row['microbatches']} | {column.upper().replace('_', '-')} "
                     f"| {float(row[column]):.4f} | {found:.4f} | {bound:.4f} | {result['search_seconds']:.1f} |")
    return lines


def speed_table(build):
    lines = ["| program | actions | built and simulated in |", "| --- | --- | --- |"]
    for name, ranks, microbatches, per in (("zbv", 64, 256, 6), ("1f1b", 1024, 4096, 2)):
        best = float("inf")
        for _ in range(3):
            start = time.perf_counter()
            sim(build, f"--schedule={name}", f"--ranks={ranks}", f"--microbatches={microbatches}",
                "--costs=1,1,1,0.1")
            best = min(best, time.perf_counter() - start)
        lines.append(f"| {name}, {ranks} ranks x {microbatches} microbatches | {ranks * microbatches * per:,} "
                     f"| {best:.2f} s |")
    return lines


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=SOURCE / "build")
    parser.add_argument("--effort", type=float, default=1)
    parser.add_argument("--write", action="store_true", help="update docs/simulation.md")
    options = parser.parse_args()
    lines = [f"Measured {datetime.date.today()} on {os.cpu_count()} shared cores, one thread, `--effort={options.effort:g}`, "
             "by `bench/simulation.py`.", ""]
    lines += search_table(options.build, options.effort) + [""] + speed_table(options.build)
    text = "\n".join(lines)
    print(text)
    if options.write:
        page = SOURCE / "docs/simulation.md"
        begin, end = "<!-- results: bench/simulation.py --write -->\n", "<!-- end of results -->"
        before, rest = page.read_text(encoding="utf-8").split(begin)
        page.write_text(before + begin + text + "\n" + end + rest.split(end)[1], encoding="utf-8")


if __name__ == "__main__":
    main()
