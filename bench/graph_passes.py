"""Graph passes on a 32-layer Llama training graph, beside FX on the same graph.

Both sides run in one go and alternate; the best of several runs counts, since these machines are
shared. `cleave-opt` is a whole process: start, parse, verify, CSE, dead-code removal, print.

    .venv/bin/python bench/graph_passes.py [--runs 5] [--layers 32]
"""

import argparse
import dataclasses
import pathlib
import re
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "python"), str(ROOT / "examples")]

import torch  # noqa: E402

torch.set_num_threads(1)


def best(runs, function):
    """The shortest of `runs` calls, in seconds."""
    times = []
    for _ in range(runs):
        start = time.perf_counter()
        function()
        times.append(time.perf_counter() - start)
    return min(times)


def timing_of_passes(opt, program):
    """Seconds per phase of one run, from --mlir-timing."""
    report = subprocess.run(
        [opt, program, "--cse", "--canonicalize", "--mlir-timing", "-o", "/dev/null"],
        check=True, capture_output=True, text=True).stderr
    rows = re.findall(r"([\d.]+) \(\s*[\d.]+%\)\s+(Parser|CSE|Canonicalizer|Output)", report)
    return {name: float(seconds) for seconds, name in rows}


def seconds_of_autodiff(opt, forward):
    """Seconds that differentiating a forward-only program takes."""
    report = subprocess.run(
        [opt, forward, "--autodiff", "--mlir-timing", "-o", "/dev/null"],
        check=True, capture_output=True, text=True).stderr
    return float(re.search(r"([\d.]+) \(\s*[\d.]+%\)\s+Autodiff", report).group(1))


def fx_passes(graph_module, runs):
    """FX's own CSE, dead-code removal and printing of the same joint graph."""
    from torch._functorch.compile_utils import fx_graph_cse

    def dce():
        graph = torch.fx.Graph()
        out = graph.graph_copy(graph_module.graph, {})
        graph.output(out)
        graph.eliminate_dead_code()

    return {
        "CSE": best(runs, lambda: fx_graph_cse(graph_module.graph)),
        "DCE": best(runs, dce),
        "Output": best(runs, lambda: graph_module.print_readable(print_output=False)),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--opt", default=str(ROOT / "build/bin/cleave-opt"))
    options = parser.parse_args()

    import huggingface
    from cleave.export import export_spec
    from cleave.export.capture import capture
    from cleave.export.program import Program

    capture(huggingface.llama())  # warms PyTorch's tracing machinery up
    start = time.perf_counter()
    captured = capture(huggingface.llama32())
    traced = captured.graph
    trace_seconds = time.perf_counter() - start
    with tempfile.TemporaryDirectory() as folder:
        start = time.perf_counter()
        export_spec(huggingface.llama32(), folder)
        export_seconds = time.perf_counter() - start
        program = str(next(pathlib.Path(folder).glob("*.mlir")))
        whole = best(options.runs, lambda: subprocess.run(
            [options.opt, program, "--cse", "--canonicalize", "--mlir-print-debuginfo", "-o", "/dev/null"],
            check=True))
        forward = pathlib.Path(folder, "forward.mlir")
        half = dataclasses.replace(huggingface.llama32(), gradients=False)
        forward.write_text(Program(half, captured).text)
        autodiff = min(seconds_of_autodiff(options.opt, forward) for _ in range(options.runs))
        ours = [timing_of_passes(options.opt, program) for _ in range(options.runs)]
        passes = {name: min(run[name] for run in ours) for name in ours[0]}
        theirs = fx_passes(traced, options.runs)

    nodes = len(traced.graph.nodes)
    print(f"graph: {nodes} FX nodes; torch {torch.__version__}; best of {options.runs}\n")
    print("| what | cleave (s) | FX (s) | FX / cleave |")
    print("| --- | --- | --- | --- |")
    rows = [
        ("trace (PyTorch's own; in both)", trace_seconds, trace_seconds),
        ("export: trace and write", export_seconds, None),
        ("CSE", passes["CSE"], theirs["CSE"]),
        ("dead-code removal (canonicalize)", passes["Canonicalizer"], theirs["DCE"]),
        ("print", passes["Output"], theirs["Output"]),
        ("autodiff of the forward graph", autodiff, None),
        ("parse and verify", passes["Parser"], None),
        ("cleave-opt, whole process", whole, None),
    ]
    for name, a, b in rows:
        right = f"{b:.3f} | {b / a:.1f}" if b is not None else "- | -"
        print(f"| {name} | {a:.3f} | {right} |")


if __name__ == "__main__":
    main()
