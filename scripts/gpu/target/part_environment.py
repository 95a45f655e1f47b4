"""What the machine is, and that Cleave agrees with PyTorch about it."""

import platform
import re
import shutil
import subprocess

import torch
from part import describe_failure


def run(part):
    machine = platform.processor() or platform.machine()
    if part.device == "cuda":
        facts = torch.cuda.get_device_properties(0)
        machine = f"{facts.name}, sm_{facts.major}{facts.minor}, {facts.total_memory >> 30} GiB"
    part.result["machine"] = machine
    part.note(f"PyTorch {torch.__version__}, CUDA {torch.version.cuda}, Python {platform.python_version()}")
    if part.device == "cuda":
        part.note(f"cuDNN {torch.backends.cudnn.version()}, NCCL {'.'.join(map(str, torch.cuda.nccl.version()))}")
        if tool := shutil.which("nvidia-smi"):
            query = "name,driver_version,clocks.sm,clocks.mem,memory.used"
            output = subprocess.run([tool, f"--query-gpu={query}", "--format=csv"], capture_output=True, text=True).stdout
            part.note(" / ".join(output.strip().splitlines()))
    result = part.cleave("--environment")
    part.check("cleave-run --environment", result.returncode == 0, describe_failure(result) if result.returncode else "printed")
    for line in result.stdout.split("variables\n")[0].splitlines():
        name, _, value = line.partition("  ")
        part.row("cleave-run --environment", fact=name.strip(), value=value.strip())
    version = re.search(r"^LibTorch +(\S+)$", result.stdout, re.MULTILINE)
    found = version[1] if version else "none"
    part.check("LibTorch is PyTorch's", found == torch.__version__, f"{found}, expected {torch.__version__}")
