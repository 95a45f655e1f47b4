"""Each function of a program must have a finding in what `cleave-prove --json` said of it."""

import json
import pathlib
import re
import sys

names = re.findall(r"func\.func @(\w+)", pathlib.Path(sys.argv[1]).read_text())
answer = json.loads(pathlib.Path(sys.argv[2]).read_text())
proved = set(names) - {finding["function"] for finding in answer["findings"]}
if not names or proved:
    sys.exit(f"proved, though wrong: {sorted(proved)}")
