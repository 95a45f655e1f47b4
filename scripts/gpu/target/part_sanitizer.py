"""compute-sanitizer over one evaluation of a model with compiled kernels: no access out of bounds, no race."""

import os
import pathlib
import re
import shutil

from part import Skip, describe_failure
from part_models import load


def run(part):
    if part.device != "cuda":
        raise Skip("compute-sanitizer needs a GPU")
    places = [shutil.which("compute-sanitizer")]
    places += [str(pathlib.Path(root) / "bin" / "compute-sanitizer")
               for root in (os.environ.get("CUDA_HOME"), "/usr/local/cuda") if root]  # fmt: skip
    tool = next((p for p in places if p and os.access(p, os.X_OK)), None)
    if tool is None:
        raise Skip("compute-sanitizer is not installed here")
    entry = next(e for e in part.manifest["models"] if e["model"] in ("llama_small", "gpt_tied") and e["dtype"] == "fp32")
    folder, _, file, _ = load(part, entry)
    variant = entry["variants"][-1]
    for check in ("memcheck", "racecheck", "initcheck"):
        result = part.cleave(
            folder / f"{variant}.mlirbc", "--weights", file, "--inputs", folder / "inputs.safetensors",
            before=[tool, "--tool", check, "--error-exitcode", "9"], seconds=60)  # fmt: skip
        found = re.search(r"ERROR SUMMARY: (\d+) error|RACECHECK SUMMARY: (\d+) hazard", result.stdout + result.stderr)
        refused = "Device not supported" in result.stdout + result.stderr
        if refused:
            raise Skip("compute-sanitizer does not support this machine")
        detail = found[0] if found else describe_failure(result)
        part.check(check, result.returncode == 0 and found is not None, detail)
