"""Makes the program of a small GPT for a mesh of ranks: data, pipeline and tensor parallel.

    python examples/torchrun/make_program.py --dp 2 --pp 2 --tp 2 --microbatches 4 --out out/gpt

writes OUT.mlir, which all ranks run, and OUT.safetensors, its initial weights. The number of ranks is
the product dp x pp x tp. With --compile cpu or cuda, OUT.mlirbc instead: kernels are joined and compiled, memory
and streams are planned. Make it anywhere: no rank needs Python, and no GPU is needed here.
"""

import argparse
import pathlib
import shlex
import shutil
import subprocess
import sys

import torch

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "python"), str(ROOT / "examples")]

import cleave  # noqa: E402
import gpt  # noqa: E402

# Megatron's way of cutting a block over the ranks of an axis.
TENSOR_PARALLEL = {
    "h.*.attn.c_attn": cleave.ColwiseParallel(),
    "h.*.attn.c_proj": cleave.RowwiseParallel(),
    "h.*.mlp.c_fc": cleave.ColwiseParallel(),
    "h.*.mlp.c_proj": cleave.RowwiseParallel(),
    "wte": cleave.RowwiseParallel(),
}


def spec(options):
    config = gpt.GPTConfig(
        vocabulary=256, context=options.context, layers=options.layers, heads=4, width=options.width
    )
    torch.manual_seed(options.seed)
    module = gpt.GPT(config)
    # A microbatch of all data-parallel ranks together: each takes its part.
    tokens = torch.zeros(options.rows * options.dp, config.context, dtype=torch.int64)
    # Axes from the major one: ranks that differ in tp alone are neighbours, on one machine.
    return cleave.ExportSpec(
        module,
        (tokens,),
        loss=gpt.cross_entropy,
        targets=(tokens,),
        optimizer=torch.optim.AdamW(module.parameters(), lr=1e-3),
        name=options.out.name,
        mesh={"dp": options.dp, "tp": options.tp},
        plan=TENSOR_PARALLEL | {"": cleave.DataParallel()},
    )


def passes(options, plan):
    """What cleave-opt does with the exported program."""
    result = []
    if options.dp * options.tp > 1:
        result += [
            f"--annotate-placements=plan={plan}",
            "--propagate-placements",
            "--partition",
        ]
    result += ["--cse", "--canonicalize"]
    if options.pp > 1:
        result += [
            f"--outline-stages=count={options.pp} balance=cost",
            f"--build-schedule=schedule=1f1b ranks={options.pp} microbatches={options.microbatches}",
            "--insert-p2p",
            "--verify-schedule",
        ]
    if options.compile == "cpu":
        result += ["--fuse-kernels", "--compile-kernels", "--lower-to-exec=target=cpu", "--emit-bytecode"]
    elif options.compile == "cuda":
        # Code for several chips; memory and streams are planned for the first.
        result += ["--fuse-kernels", "--compile-kernels=cpu=none cuda=sm_90,sm_80,sm_100",
                   "--lower-to-exec=target=cuda chip=sm_90", "--emit-bytecode"]  # fmt: skip
    return result


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    for axis, text in {"dp": "parts of the batch", "pp": "pipeline stages", "tp": "parts of each layer"}.items():
        parser.add_argument(f"--{axis}", type=int, default=1, help=f"{text} (default: 1)")
    parser.add_argument("--microbatches", type=int, default=4, help="in a step; of a pipeline's schedule")
    parser.add_argument("--rows", type=int, default=2, help="examples in a microbatch of one data-parallel rank")
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--context", type=int, default=64)
    parser.add_argument("--compile", choices=["cpu", "cuda"], help="for this kind of device (cuda: sm_80, sm_90, sm_100)")
    parser.add_argument("--seed", type=int, default=0, help="of the initial weights")
    parser.add_argument("--out", type=pathlib.Path, required=True, help="OUT.mlir (or .mlirbc) and OUT.safetensors")
    options = parser.parse_args()
    for name in ("dp", "pp", "tp", "microbatches", "rows"):
        if getattr(options, name) < 1:
            parser.error(f"--{name}: expected at least 1, found {getattr(options, name)}")
    tool = shutil.which("cleave-opt")
    if tool is None:
        sys.exit('expected cleave-opt in PATH: eval "$(./dev env)" puts it there')

    folder = options.out.parent / f".{options.out.name}.parts"
    try:
        whole = cleave.export_spec(spec(options), folder)
        program = options.out.with_name(options.out.name + (".mlirbc" if options.compile else ".mlir"))
        command = [tool, whole, *passes(options, whole.with_suffix(".plan.json")), "--mlir-print-debuginfo", "-o", program]
        print("$", shlex.join(map(str, command)))
        if subprocess.run(command).returncode:
            sys.exit("cleave-opt could not make the program for this mesh (its message is above)")
        shutil.move(whole.with_suffix(".safetensors"), program.with_suffix(".safetensors"))
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    ranks = options.dp * options.pp * options.tp
    print(f"{program}: for {ranks} rank{'s' if ranks > 1 else ''}, pp {options.pp} x dp {options.dp} x tp {options.tp}")


if __name__ == "__main__":
    main()
