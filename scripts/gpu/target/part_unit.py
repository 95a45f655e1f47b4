"""The unit tests of the CUDA plugin, which need a GPU: memory, streams, events, graphs, kernels, random numbers, attention."""

import re
import subprocess

from part import Failure, Skip


def run(part):
    program = part.bundle / "bin" / "cleave_cuda_test"
    if part.device != "cuda":
        raise Skip("these are tests of the CUDA plugin")
    if not program.exists():
        raise Skip("the bundle was made from a build without tests")
    environment = part.environment() | {"CLEAVE_DEVICE_PLUGIN": str(part.bundle / "lib" / "libcleave_cuda.so")}
    result = subprocess.run([program], capture_output=True, text=True, errors="replace", env=environment)
    print(result.stdout[-20000:], result.stderr[-3000:])
    for state, name in re.findall(r"^\[ +(OK|FAILED|SKIPPED) +\] ([\w.]+) \(", result.stdout, re.MULTILINE):
        part.check(name, state == "OK", state.lower())
    if not part.result["checks"]:
        raise Failure(f"no test ran: {result.stderr.strip()[-300:]}")
    if result.returncode:
        part.check("all of them", False, f"status {result.returncode}")
