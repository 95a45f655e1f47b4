"""Laying a Llama training graph out on a mesh: time of propagation and of partitioning, by layers.

    .venv/bin/python bench/placements.py [--runs 3] [--layers 32,126]

Best of several runs of cleave-opt; times of passes are those of --mlir-timing.
"""

import argparse
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "python"), str(ROOT / "examples")]

from cleave import ColwiseParallel, DataParallel, FSDP, Plan, RowwiseParallel  # noqa: E402

TENSOR = {
    "model.model.layers.*.self_attn.{q,k,v}_proj": ColwiseParallel(),
    "model.model.layers.*.self_attn.o_proj": RowwiseParallel(),
    "model.model.layers.*.mlp.{gate,up}_proj": ColwiseParallel(),
    "model.model.layers.*.mlp.down_proj": RowwiseParallel(),
}
LAYOUTS = {
    "tp2": ({"tp": 2}, TENSOR),
    "dp2 x tp2": ({"dp": 2, "tp": 2}, {**TENSOR, "": DataParallel()}),
    "fsdp2": ({"fsdp": 2}, {"": FSDP("fsdp")}),
}


def seconds(opt, program, plan):
    """Seconds of each pass of one run."""
    report = subprocess.run(
        [opt, program, f"--annotate-placements=plan={plan}", "--propagate-placements",
         "--partition", "--mlir-timing", "-o", "/dev/null"],
        check=True, capture_output=True, text=True).stderr  # fmt: skip
    rows = re.findall(r"([\d.]+) \(\s*[\d.]+%\)\s+(PropagatePlacements|Partition)\n", report)
    return {name: float(time) for time, name in rows}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--layers", default="32")
    parser.add_argument("--opt", default=str(ROOT / "build/bin/cleave-opt"))
    options = parser.parse_args()

    import huggingface
    from cleave.export import export_spec

    print("| layers | ops | layout | --propagate-placements (s) | --partition (s) |")
    print("| --- | --- | --- | --- | --- |")
    for layers in map(int, options.layers.split(",")):
        spec = huggingface._language_model(
            huggingface._llama(layers, width=16, vocabulary=64), f"llama{layers}", time=8)
        with tempfile.TemporaryDirectory() as folder:
            program = pathlib.Path(export_spec(spec, folder))
            ops = len(re.findall(r"= (?:aten|train)\.", program.read_text()))
            for name, (mesh, plan) in LAYOUTS.items():
                path = pathlib.Path(folder) / "plan.json"
                Plan(mesh, plan).write(path)
                runs = [seconds(options.opt, program, path) for _ in range(options.runs)]
                best = {key: min(run[key] for run in runs) for key in runs[0]}
                print(f"| {layers} | {ops} | {name} | {best['PropagatePlacements']:.3f} "
                      f"| {best['Partition']:.3f} |", flush=True)


if __name__ == "__main__":
    main()
