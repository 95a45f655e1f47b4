"""CPU time to compile everything, from a sample of files, in two builds: of two compilers or two ways to build.

    python3 bench/cold_build.py BUILD BUILD [--every 16]

Both folders are configured and built; of every folder's `compile_commands.json` each Nth file is
compiled anew in either way in turn, without ccache, to nowhere, and so is every precompiled header.
CPU seconds of the compiler are reported, which depend less than time on what else the machine does, their
ratio, and what the whole build takes if the other files are like those of the sample. The headers
that a test compiles alone, and links, are not counted.
"""

import argparse
import json
import pathlib
import re
import resource
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[1]


def read_commands(build):
    entries = json.loads((build / "compile_commands.json").read_text())
    return {entry["file"]: entry for entry in entries if "/test/headers/" not in entry["file"]}


def compile_time(entry):
    command = re.sub(r"^.*?ccache ", "", entry["command"])
    command = re.sub(r" -o \S+", " -o /dev/null", command)
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, shell=True, check=True, cwd=entry["directory"], stderr=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


def print_row(name, times):
    print(f"| {name} | {times[0]:.1f} s | {times[1]:.1f} s | {times[1] / times[0]:.2f} |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("builds", nargs=2, type=pathlib.Path, metavar="BUILD")
    parser.add_argument("--every", type=int, default=16)
    options = parser.parse_args()
    sides = [read_commands(build.resolve()) for build in options.builds]
    headers = [sorted(file for file in side if file.endswith("pch.hxx.cxx")) for side in sides]
    files = sorted(file for file in sides[0].keys() & sides[1].keys() if file.endswith(".cpp"))
    sample = files[:: options.every]
    print("| file | first | second | ratio |\n| --- | --- | --- | --- |")
    whole = [sum(compile_time(side[file]) for file in own) for side, own in zip(sides, headers, strict=True)]
    print_row(f"the {len(headers[0])} and {len(headers[1])} precompiled headers", whole)
    total = [0.0, 0.0]
    for file in sample:
        times = [compile_time(side[file]) for side in sides]
        total = [sum(pair) for pair in zip(total, times, strict=True)]
        print_row(pathlib.Path(file).relative_to(ROOT), times)
    print_row(f"the {len(sample)} files", total)
    scale = len(files) / len(sample)
    print_row(f"all {len(files)} files, with precompiled headers", [w + scale * t for w, t in zip(whole, total, strict=True)])


if __name__ == "__main__":
    main()
