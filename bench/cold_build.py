"""CPU time to compile a sample of files: clang beside g++.

    python3 bench/cold_build.py CLANG_BUILD GCC_BUILD [--every 16]

Both folders are configured and built; of every folder's `compile_commands.json` each Nth file is
compiled anew by either compiler in turn, without ccache, to nowhere. CPU seconds of the compiler
are reported, which other work on the machine hardly changes, and their ratio.
"""

import argparse
import json
import pathlib
import re
import resource
import subprocess


def read_commands(build):
    entries = json.loads((build / "compile_commands.json").read_text())
    return {entry["file"]: entry for entry in entries if entry["file"].endswith(".cpp")}


def compile_time(entry):
    command = re.sub(r"^.*?ccache ", "", entry["command"])
    command = re.sub(r" -o \S+", " -o /dev/null", command)
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, shell=True, check=True, cwd=entry["directory"], stderr=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("builds", nargs=2, type=pathlib.Path, metavar="BUILD")
    parser.add_argument("--every", type=int, default=16)
    options = parser.parse_args()
    sides = [read_commands(build.resolve()) for build in options.builds]
    files = sorted(sides[0].keys() & sides[1].keys())[:: options.every]
    total = [0.0, 0.0]
    print("| file | first | second | ratio |\n| --- | --- | --- | --- |")
    for file in files:
        times = [compile_time(side[file]) for side in sides]
        total = [sum(pair) for pair in zip(total, times, strict=True)]
        name = pathlib.Path(file).relative_to(pathlib.Path(__file__).resolve().parents[1])
        print(f"| {name} | {times[0]:.1f} s | {times[1]:.1f} s | {times[0] / times[1]:.2f} |", flush=True)
    print(f"| all {len(files)} | {total[0]:.1f} s | {total[1]:.1f} s | {total[0] / total[1]:.2f} |")


if __name__ == "__main__":
    main()
