"""Splitting the backward of a 32-layer Llama training graph into dI and dW: time and bytes held between them.

    .venv/bin/python bench/split_backward.py [--runs 3] [--layers 32,126]
"""

import re
import subprocess
import sys
import tempfile

from layers import ROOT, llama, parse_options

sys.path[:0] = [str(ROOT / "python"), str(ROOT / "examples")]

import torch  # noqa: E402

torch.set_num_threads(1)


def run(opt, program, options):
    """Seconds of the pass (from --mlir-timing), and what explain prints."""
    report = subprocess.run(
        [opt, program, "--partition-joint=policy=save-all", f"--split-backward=explain=true {options}",
         "--mlir-timing", "-o", "/dev/null"],
        check=True, capture_output=True, text=True).stderr
    seconds = float(re.search(r"([\d.]+) \(\s*[\d.]+%\)\s+SplitBackward", report).group(1))
    return seconds, report


def measure(layers, options):
    from cleave.export import export_spec

    with tempfile.TemporaryDirectory() as folder:
        program = str(export_spec(llama(layers), folder))
        for form in ("inputs=activations", "inputs=activations recompute=cheap"):
            seconds, report = min(run(options.opt, program, form) for _ in range(options.runs))
            ops = [re.search(rf"{half}: (\d+) ops", report)[1]
                   for half in ("backward_input", "backward_weight")]
            held = re.search(r"per microbatch: (\d+) bytes in (\d+) values", report)
            print(f"| {layers} | {form} | {seconds:.4f} | {ops[0]} | {ops[1]} "
                  f"| {held[1]} ({held[2]}) |", flush=True)


def main():
    options = parse_options(__doc__)
    print(f"best of {options.runs}\n")
    print("| layers | form | pass (s) | ops of dI | ops of dW | bytes held (values) |")
    print("| --- | --- | --- | --- | --- | --- |")
    for layers in options.layers:
        measure(layers, options)


if __name__ == "__main__":
    main()
