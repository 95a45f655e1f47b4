"""Placed programs of single ops: what tests of strategies and forms write, run and compare.

Each case is an op with operands and results placed on a mesh, and PyTorch's own results. The cases
of a mesh share one program, partitioned and run once, each with arguments and results of its own.
"""

import dataclasses
import re
import subprocess

import torch

DTYPES = {
    torch.float64: "f64",
    torch.float32: "f32",
    torch.bfloat16: "bf16",
    torch.int64: "i64",
    torch.int32: "i32",
    torch.bool: "i1",
}


@dataclasses.dataclass
class Case:
    """`text` is the op with its operands by name, as in "aten.mm(%a, %b)".

    Operands are (tensor, placement) by name, in the order of the op's operands; placements are as
    in "dp = S(0), tp = R", where R may be left out. `expected` has a tensor a result.
    """

    name: str
    text: str
    operands: dict
    expected: list
    results: list

    def tensors(self):
        return {f"{self.name}.{name}": tensor.clone() for name, (tensor, _) in self.operands.items()}


def type_of(tensor):
    return f"tensor<{''.join(f'{n}x' for n in tensor.shape)}{DTYPES[tensor.dtype]}>"


def placement(text, mesh, default="R"):
    """`#dist.on` with every axis of the mesh."""
    entries = dict(re.findall(r"(\w+) = ([A-Z](?:\([^)]*\))?)", text))
    assert entries or not text, text
    return f"#dist.on<@mesh, {', '.join(f'{a} = {entries.get(a, default)}' for a in mesh)}>"


def program(cases, mesh):
    """The placed global program of all cases; `mesh` has the axes' sizes by name."""
    arguments, results, body, returned = [], [], [], []
    for case in cases:
        text, places, types = case.text, [], []
        for name, (tensor, where) in case.operands.items():
            value = f"%{case.name}_{name}"
            text = re.sub(rf"%{name}\b", value, text)
            places.append(placement(where, mesh))
            types.append(type_of(tensor))
            arguments.append(
                f'{value}: {types[-1]} {{train.role = #train.role<input "{case.name}.{name}">, '
                f"dist.placement = {places[-1]}}}"
            )
        made = [placement(where, mesh) for where in case.results]
        gives = [type_of(tensor) for tensor in case.expected]
        count = f":{len(gives)}" if len(gives) > 1 else ""
        body.append(
            f"    %{case.name}{count} = {text} {{dist.operands = [{', '.join(places)}], "
            f"dist.results = [{', '.join(made)}]}} : ({', '.join(types)}) -> "
            + (f"({', '.join(gives)})" if count else gives[0])
        )
        for i, (given, where) in enumerate(zip(gives, made)):
            results.append(
                f'{given} {{train.role = #train.role<output "{case.name}.{i}">, '
                f"dist.placement = {where}}}"
            )
            returned.append((f"%{case.name}" + (f"#{i}" if count else ""), given))
    axes = ", ".join(f'"{axis}" = {size}' for axis, size in mesh.items())
    comma = ",\n      "
    return f"""module {{
  dist.mesh @mesh [{axes}]
  func.func @microbatch(
      {comma.join(arguments)})
      -> ({comma.join(results)})
      attributes {{train.phase = #train.phase<microbatch>}} {{
{chr(10).join(body)}
    return {", ".join(v for v, _ in returned)} : {", ".join(t for _, t in returned)}
  }}
}}
"""


def difference(found, expected):
    """max|a-b| / max(max|b|, 1), where infinities and NaNs have to be where they are expected."""
    assert found.shape == expected.shape and found.dtype == expected.dtype
    found, expected = found.double(), expected.double()
    finite = expected.isfinite()
    if not torch.equal(finite, found.isfinite()):
        return float("inf")
    if not torch.equal(found[~finite].nan_to_num(7), expected[~finite].nan_to_num(7)):
        return float("inf")
    found, expected = found[finite], expected[finite]
    if not expected.numel():
        return 0.0
    return ((found - expected).abs().max() / expected.abs().max().clamp(min=1.0)).item()


def run(cases, mesh, build_dir, cleave_run, folder):
    """Partitions and runs the cases; returns each result's difference by name."""
    ranks = 1
    for size in mesh.values():
        ranks *= size
    placed, local = folder / "placed.mlir", folder / "local.mlir"
    placed.write_text(program(cases, mesh))
    subprocess.run(
        [build_dir / "bin" / "cleave-opt", placed, "--partition", "--check-spmd-types", "-o", local],
        check=True,
    )
    inputs = {name: t for case in cases for name, t in case.tensors().items()}
    options = ["--ranks", ranks, "--ranks-as", "threads"]
    found = cleave_run.evaluate(local, inputs, folder, *options)
    return {
        f"{case.name}.{i}": difference(found[f"output.{case.name}.{i}"], expected)
        for case in cases
        for i, expected in enumerate(case.expected)
    }
