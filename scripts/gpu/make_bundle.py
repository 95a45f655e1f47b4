"""Makes a bundle that shows on a machine with a GPU what Cleave does there: no network, nothing to install.

    python scripts/gpu/make_bundle.py --build build --out out/gpu-bundle
    ... copy it, and there: gpu-bundle/run_all

It holds cleave-run, the CUDA plugin, the example models compiled for several chips, what PyTorch computes for them, and
the scripts that run and compare (scripts/gpu/target). That machine needs an NVIDIA driver and python3 with the same
release of PyTorch; small weights are in the bundle, big ones are drawn there from fixed seeds. No GPU is needed here.
"""

import argparse
import json
import pathlib
import shutil
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import programs  # noqa: E402
import torch  # noqa: E402
from kernels import write_kernels  # noqa: E402
from llama import BILLION, LlamaConfig  # noqa: E402

MOST_BYTES = 64 << 20


def commit():
    result = subprocess.run(
        ["git", "-C", str(programs.ROOT), "describe", "--always", "--exclude=*", "--abbrev=12", "--dirty=+"],
        capture_output=True, text=True)  # fmt: skip
    return result.stdout.strip() or "unknown"


def strip(source, target):
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy2(source, target)
    subprocess.run(["strip", "--strip-unneeded", str(target)], check=True)


def copy_tools(build, out, device):
    strip(build / "bin" / "cleave-run", out / "bin" / "cleave-run")
    if device == "cuda":
        plugin = next((p for p in (build / "lib" / "libcleave_cuda.so", build / "bin" / "libcleave_cuda.so") if p.exists()), None)
        if plugin is None:
            sys.exit(f"expected the CUDA plugin, libcleave_cuda.so, in {build}/lib: was it built where a CUDA toolkit is?")
        strip(plugin, out / "lib" / "libcleave_cuda.so")
        if (tests := build / "unit" / "cleave_cuda_test").exists():
            strip(tests, out / "bin" / "cleave_cuda_test")
    shutil.copytree(HERE / "target", out / "target", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy2(programs.ROOT / "examples" / "llama.py", out / "target" / "llama.py")
    start = out / "run_all"
    start.write_text('#!/bin/sh\nexec "${PYTHON:-python3}" "$(dirname "$0")/target/run_all.py" "$@"\n')
    start.chmod(0o755)


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, required=True, help="the build tree")
    parser.add_argument("--out", type=pathlib.Path, required=True, help="the folder to make, which must not exist")
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda", help="what it is for (default: cuda)")
    parser.add_argument("--chips", help="what kernels are compiled for, the first one what programs are lowered for: chips, or levels of "
                        "the x86-64 architecture (default: all)")  # fmt: skip
    parser.add_argument("--models", default=",".join(programs.MODELS), help="separated by commas (default: all)")
    parser.add_argument("--also", metavar="FILE:FACTORY", action="append", default=[],
                        help="a model of your own, as python -m cleave.export takes it; once for each")  # fmt: skip
    parser.add_argument("--variants", default="ops,kernels,exec", help="how far programs are lowered (default: all three)")
    parser.add_argument("--small", action="store_true", help="a small Llama and small kernels, to try the bundle itself")
    options = parser.parse_args(arguments)
    options.chips = options.chips or programs.CHIPS[options.device]
    models, variants, chips = (getattr(options, n).split(",") for n in ("models", "variants", "chips"))
    if unknown := [m for m in models if m not in programs.MODELS]:
        parser.error(f"--models: expected some of {', '.join(programs.MODELS)}, found {', '.join(unknown)}")
    if "gpt_tied" not in models:
        parser.error("--models: expected gpt_tied among them, which two ranks train")
    if unknown := [v for v in variants if v not in ("ops", "kernels", "exec")]:
        parser.error(f"--variants: expected some of ops, kernels, exec, found {', '.join(unknown)}")
    wanted, prefix = ("chips like sm_90", "sm_") if options.device == "cuda" else ("levels of the x86-64 architecture", "x86-64-v")
    if unknown := [c for c in chips if not c.startswith(prefix)]:
        parser.error(f"--chips: expected {wanted}, found {', '.join(unknown)}")
    if options.out.exists():
        parser.error(f"--out: {options.out} is there already")
    opt = options.build / "bin" / "cleave-opt"
    if not opt.exists():
        parser.error(f"--build: expected {opt}")

    out = options.out
    out.mkdir(parents=True)
    try:
        copy_tools(options.build, out, options.device)
        lower = (opt, options.device, chips, variants)
        manifest = {"commit": commit(), "devices": [options.device], "chips": chips, "torch": torch.__version__, "models": []}
        for name in models:
            for dtype in ("fp32", "bf16"):
                if dtype == "bf16" and name not in programs.BFLOAT16:
                    continue
                print(f"{name} in {dtype}", flush=True)
                manifest["models"].append(programs.write_model(name, dtype, out / "models" / f"{name}.{dtype}", *lower))
        for target in options.also:
            print(target, flush=True)
            manifest["models"].append(programs.write_other(target, out / "models", *lower))
        sanitized = next(e for e in manifest["models"] if e["model"] in ("llama_small", "gpt_tied") and e["dtype"] == "fp32")
        lowered = out / "models" / sanitized["folder"] / f"{variants[-1]}.mlirbc"
        manifest["sanitized"] = {"folder": sanitized["folder"], "kernels": programs.kernel_names(opt, lowered)}
        print("gpt_tied for two ranks", flush=True)
        manifest["ranks"] = programs.write_ranks(out / "ranks", *lower)
        print("the large Llama", flush=True)
        config, batch, steps, dtype = (LlamaConfig(), 2, 6, torch.float32) if options.small else (BILLION, 4, 14, torch.bfloat16)
        manifest["llama"] = programs.write_llama(out / "llama", config, batch, steps, opt, options.device, chips, dtype, variants)
        print("kernels", flush=True)
        sizes = [(64, 256)] if options.small else [(16384, 4096)]
        if variants == ["ops"]:
            sizes = []
        manifest["kernels"] = write_kernels(out / "kernels", opt, options.device, chips, sizes)
        (out / "manifest.json").write_text(json.dumps(manifest, indent=1))
    except programs.BuildError as error:
        shutil.rmtree(out)
        sys.exit(f"make_bundle: {error}")
    size = sum(f.stat().st_size for f in out.rglob("*") if f.is_file())
    print(f"{out}: {size / 2**20:.1f} MiB, for {options.device}, {len(manifest['models'])} models; run {out}/run_all there")
    if size > MOST_BYTES:
        sys.exit(f"make_bundle: expected at most {MOST_BYTES >> 20} MiB, so that it can be carried along")


if __name__ == "__main__":
    main()
