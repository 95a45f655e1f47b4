"""Puts the Python package and the example models on the import path, for the exporter's tests."""

import os
import pathlib
import sys

# Some virtual machines announce AMX and then refuse it; bfloat16 would crash there.
os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_FP16")

SOURCE = pathlib.Path(__file__).resolve().parents[2]
for folder in ("examples", "python"):
    if str(SOURCE / folder) not in sys.path:
        sys.path.insert(0, str(SOURCE / folder))
