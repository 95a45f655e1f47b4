"""Bytes through memory of the example models' memory-bound ops, before and after `--fuse-kernels`.

Counts what each launch and each op outside reads and writes, were it alone. Left out are views and
what kernels never have: contractions, attention, convolutions, embeddings, and updates of weights.

    .venv/bin/python bench/fused_traffic.py [--opt build/bin/cleave-opt] [MODEL...]
"""

import argparse
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "python"), str(ROOT / "examples"), str(ROOT / "test/python")]

VIEWS = (
    "view _unsafe_view t transpose permute expand unsqueeze squeeze squeeze_dim squeeze_dims alias "
    "detach slice select split split_with_sizes"
).split()
OTHERS = "mm bmm addmm baddbmm convolution _scaled_dot embedding max_pool _native_batch_norm".split()
SIZES = {"f64": 8, "i64": 8, "f32": 4, "i32": 4, "bf16": 2, "f16": 2, "i1": 1}


def count_bytes(text):
    """The sum over all tensor types in `text`."""
    total = 0
    for dims, dtype in re.findall(r"tensor<((?:\d+x)*)(\w+)", text):
        size = SIZES[dtype]
        for dim in dims.split("x")[:-1]:
            size *= int(dim)
        total += size
    return total


def count(program):
    """(Launches, ops outside, bytes of both) of a program's text."""
    launches = ops = total = 0
    in_kernel = False
    for line in program.splitlines():
        in_kernel |= line.lstrip().startswith("exec.kernel")
        if in_kernel:
            in_kernel = not line.startswith("  }")
            continue
        match = re.match(r"\s+(?:%.* = )?(aten|exec)\.(\w+)[ (].* : (\(.*)", line)
        if not match:
            continue
        dialect, op, types = match.groups()
        if dialect == "exec":
            launches += 1
        elif op in VIEWS or op.startswith(tuple(OTHERS)):
            continue
        else:
            ops += 1
        total += count_bytes(types)
    return launches, ops, total


def main():
    from exported_models import MODELS

    import cleave

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--opt", default=str(ROOT / "build/bin/cleave-opt"))
    parser.add_argument("models", nargs="*", default=list(MODELS))
    options = parser.parse_args()
    print("| model | ops | kB | launches | unfused ops | kB | ratio |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for name in options.models:
        with tempfile.TemporaryDirectory() as folder:
            path = cleave.export_spec(MODELS[name](), pathlib.Path(folder))
            results = [
                count(
                    subprocess.run(
                        [options.opt, path, *passes], check=True, capture_output=True, text=True
                    ).stdout
                )
                for passes in ([], ["--fuse-kernels"])
            ]
        (_, ops, before), (launches, outside, after) = results
        print(
            f"| {name} | {ops} | {before / 1e3:.0f} | {launches} | {outside} | {after / 1e3:.0f} "
            f"| {after / before:.0%} |"
        )


if __name__ == "__main__":
    main()
