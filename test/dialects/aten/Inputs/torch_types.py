"""Runs every op of the given files in PyTorch and compares the types of the results.

usage: torch_types.py RECORDS.json DIRECTORY-OF-records.py FILE.mlir...

The verifiers accept what stands in these files; this shows that it is also what the operators do.
Operands are zeros, except for ops that want otherwise; random ops, which are Cleave's own, are left
out.
"""

import sys

import torch
from aten_calls import read_call, tensor_type, type_text

sys.path.insert(0, sys.argv[2])
from records import read  # noqa: E402


def zeros(type_: str):
    sizes, dtype = tensor_type(type_)
    return torch.zeros(sizes, dtype=dtype)


def main() -> int:
    ops = {op.mnemonic: op for op in read(sys.argv[1])}
    count = failures = 0
    seen = set()
    for path in sys.argv[3:]:
        for line in open(path):
            call = read_call(line, ops)
            if not call or call.op.mnemonic.startswith("rng_"):
                continue
            try:
                found = [type_text(value) for value in call.run([zeros(t) for t in call.operand_types])]
            except Exception as error:  # whatever PyTorch raises is what we want to see
                found = [f"{type(error).__name__}: {error}".splitlines()[0]]
            count += 1
            seen.add(call.op.mnemonic)
            if found != call.result_types:
                print(f"{path}: {line.strip()}\n  PyTorch gives {found}")
                failures += 1
    # The others are not one operator's.
    missing = {m for m, op in ops.items() if op.schema and not m.startswith("rng_")} - seen
    for mnemonic in sorted(missing):
        print(f"aten.{mnemonic} has no test in these files")
    print(f"{count} calls of {len(seen)} ops, {failures} differ")
    return failures != 0 or bool(missing) or count == 0


if __name__ == "__main__":
    sys.exit(main())
