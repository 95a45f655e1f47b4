"""Writes the examples with schedules of .td files, each in a module of its own: examples.py FILE.td ..."""

import re
import sys
from pathlib import Path

for file in sys.argv[1:]:
    for block in re.findall(r"```mlir\n(.*?)\n *```", Path(file).read_text(), re.DOTALL):
        if "pipeline.schedule" in block:
            print("module {\n" + block + "\n}")
