"""Time per op on tiny tensors: cleave-run's executor beside PyTorch eager, in one paired run.

    .venv/bin/python bench/step_overhead.py [BUILD]      (after: ninja -C BUILD step-overhead cleave-opt)

A chain of 4x4 `mm` and `add`, where kernels cost next to nothing. Rounds of eager Python and of the
executor alternate, so that both see the same machine; ratios are medians over rounds. Then what
cleave-run links, its size, and how long it takes to start.
"""

import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

import torch

OPS = 400
ROUNDS = 7
REPETITIONS = 300


def program():
    t = "tensor<4x4xf32>"
    role = "train.role = #train.role"
    lines = [
        "module @chain {",
        f'  func.func @microbatch(%w: {t} {{{role}<parameter "w">}},',
        f'                        %x: {t} {{{role}<input "x">}})',
        f'      -> ({t} {{{role}<output "0">}})',
        "      attributes {train.phase = #train.phase<microbatch>} {",
    ]
    value = "%x"
    for i in range(OPS):
        name = "add" if i % 2 else "mm"
        lines.append(f"    %{i} = aten.{name}({value}, %w) : ({t}, {t}) -> {t}")
        value = f"%{i}"
    return "\n".join([*lines, f"    return {value} : {t}", "  }", "}", ""])


def eager(mode):
    w = torch.full((4, 4), 0.25)
    x = w.clone()
    times = []
    with mode():
        for _ in range(REPETITIONS):
            start = time.perf_counter_ns()
            y = x
            for _ in range(OPS // 2):
                y = torch.add(torch.mm(y, w), w)
            times.append((time.perf_counter_ns() - start) / OPS)
    return statistics.median(times)


def executor(build, program):
    command = [build / "bin" / "step-overhead", program, str(OPS), str(REPETITIONS)]
    output = subprocess.run(command, check=True, capture_output=True, text=True)
    return json.loads(output.stdout)


def start_up(executable, program):
    times = []
    for _ in range(10):
        start = time.perf_counter()
        subprocess.run([executable, program, "--dry-run"], check=True, stdout=subprocess.DEVNULL)
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def main():
    build = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else "build")
    torch.set_num_threads(1)
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "chain.mlir"
        path.write_text(program())
        lowered = path.with_name("lowered.mlir")
        command = [build / "bin" / "cleave-opt", path, "--lower-to-exec=target=cpu", "-o", lowered]
        subprocess.run(command, check=True)
        for _ in range(ROUNDS):
            row = {
                "eager (inference_mode)": eager(torch.inference_mode),
                "eager (no_grad)": eager(torch.no_grad),
            }
            row |= executor(build, path)
            row["cleave-run, lowered program"] = executor(build, lowered)["cleave-run"]
            rows.append(row)
        tool = build / "bin" / "cleave-run"
        started = start_up(tool, path)
    print(f"{OPS} ops on 4x4 tensors, one thread, median of {ROUNDS} rounds of {REPETITIONS} runs")
    print("| | ns an op | relative to cleave-run |\n| --- | ---: | ---: |")
    for key in rows[0]:
        time_per_op = statistics.median(row[key] for row in rows)
        ratio = statistics.median(row[key] / row["cleave-run"] for row in rows)
        print(f"| {key} | {time_per_op:.0f} | {ratio:.2f} |")
    links = subprocess.run(["ldd", tool], check=True, capture_output=True, text=True).stdout
    names = [line.split()[0] for line in links.splitlines() if "=>" in line]
    print(f"\ncleave-run: {os.path.getsize(tool) / 2**20:.1f} MiB, {started * 1e3:.0f} ms for a dry run")
    print("links " + ", ".join(names))


if __name__ == "__main__":
    main()
