"""Takes compiled kernels out of a program: their code, how they are launched, and which values they take and make."""

import inspect
import re
import subprocess

import torch
from programs import CLEANUP, BuildError, compiling
from target.kernel_modules import MODULES

import cleave
from cleave.export.capture import capture
from cleave.export.program import Program

TENSOR = re.compile(r"tensor<([0-9x]*?)x?(f64|f32|f16|bf16|i64|i32|i16|i8|ui8|i1)>")
TYPES = {"f64": "F64", "f32": "F32", "f16": "F16", "bf16": "BF16", "i64": "I64", "i32": "I32", "i16": "I16",
         "i8": "I8", "ui8": "U8", "i1": "BOOL"}  # fmt: skip


def parse_types(text):
    """[[shape, dtype]] of the tensor types in a text, in order."""
    return [[[int(s) for s in m[1].split("x") if s], TYPES[m[2]]] for m in TENSOR.finditer(text)]


def parse_code(text):
    """The `#exec.code` attributes of a kernel: by kind its phases, scratch and partials."""
    codes = {}
    for kind, list_, rest in re.findall(r"#exec\.code<(\w+), (.*?\])((?:, \w+ = \d+)*)>", text):
        phases = [
            {"entry": m[1], "chunks": int(m[2]), "threads": int(m[3] or 1)}
            for m in re.finditer(r'<"([^"]+)", chunks = (\d+)(?:, threads = (\d+))?>', list_)
        ]
        sizes = {name: int(value) for name, value in re.findall(r"(scratch|partials) = (\d+)", rest)}
        codes[kind] = {"phases": phases, "scratch": sizes.get("scratch", 0), "partials": sizes.get("partials", 0)}
    return codes


def take_kernel(text, kind):
    """The only kernel of a program whose microbatch is nothing but its launch, or a reason why it is none.

    Gives the launch, the binaries by target as bytes, and the roles' names of what the kernel takes.
    """
    launches = re.findall(r"(?:(%[\w#:, %]+) = )?exec\.launch @(\w+)\(([^)]*)\)", text)
    if len(launches) != 1:
        return None, f"{len(launches)} kernels"
    function = re.search(r"func\.func @\w+\((.*?)\)\s*->", text, re.DOTALL)[1]
    roles = dict(re.findall(r'(%\w+): tensor<[^>]*> \{train\.role = #train\.role<(\w+ "[^"]+")', function))
    _, symbol, operands = launches[0]
    operands = [name.strip() for name in operands.split(",") if name.strip()]
    if any(name not in roles for name in operands):
        return None, "other ops beside the kernel"
    kernel = re.search(rf"exec\.kernel @{symbol}\((.*?)\) -> (.*?) attributes \{{(.*?)\}} \{{\n", text, re.DOTALL)
    if not kernel:
        return None, "it has no compiled code"
    codes = parse_code(kernel[3])
    if kind not in codes:
        return None, f"it has no code for {kind}"
    binaries = {}
    for name, target in re.findall(r'exec\.binary @(\w+) \w+ for "([^"]+)"', text):
        blob = re.search(rf'\b{name}: "0x([0-9A-Fa-f]+)"', text)
        binaries[target] = bytes.fromhex(blob[1])[4:]
    return {
        **codes[kind],
        "takes": [roles[name].split('"')[1] for name in operands],
        "arguments": parse_types(kernel[1]),
        "results": parse_types(kernel[2]),
    }, binaries


def write_kernels(folder, opt, device, chips, sizes):
    """Kernels of the given (rows, columns), in float32 and bfloat16, each in a folder with a file for each target."""
    folder.mkdir(parents=True)
    entries = []
    for rows, columns in sizes:
        for dtype in (torch.float32, torch.bfloat16):
            for name, make in MODULES.items():
                module = make(rows, columns, dtype).eval()
                inputs = module.inputs(torch.Generator().manual_seed(0))
                spec = cleave.ExportSpec(
                    module, inputs, mode="forward", name=name, batch_dims={n: None for n in _names(make, module)})
                entry = {"kernel": name, "rows": rows, "columns": columns, "dtype": str(dtype).removeprefix("torch.")}
                entries.append(entry)
                source = folder / "kernel.mlir"
                source.write_text(Program(spec, capture(spec)).text)
                passes = [*CLEANUP, *compiling(device, chips)]
                result = subprocess.run([str(opt), str(source), *passes], capture_output=True, text=True)
                source.unlink()
                if result.returncode:
                    raise BuildError(f"kernel {name}: {result.stderr.strip()[:2000]}")
                kernel, found = take_kernel(result.stdout, "cuda" if device == "cuda" else "cpu")
                if kernel is None:
                    entry["not_measured"] = found
                    continue
                entry |= kernel
                entry["files"] = {}
                for target, code in found.items():
                    file = folder / f"{name}-{rows}x{columns}-{entry['dtype']}.{target}"
                    file.write_bytes(code)
                    entry["files"][target] = file.name
    return {"folder": folder.name, "kernels": entries}


def _names(make, module):
    return list(inspect.signature(make.forward).parameters)[1:]
