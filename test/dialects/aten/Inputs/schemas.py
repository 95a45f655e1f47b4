"""Checks every typed op's record against the schema of its overload in the dispatcher's registry.

usage: schemas.py RECORDS.json

A record must have the schema's arguments by name and order (all but device, layout and pin_memory),
each of the schema's kind, required exactly where the schema has no default and no None; as many
results; be a view exactly where the schema shares memory; and, if it is pointwise, have a pointwise
`out` overload exactly where PyTorch has one that it did not generate. The check is itself checked:
each kind of disagreement is planted in a record and must be found.
"""

import sys
from dataclasses import replace

import torch

sys.path.insert(0, sys.argv[2])
from records import Argument, Op, read  # noqa: E402

# How an op holds an argument of a schema type: kind of argument, and constraint of an attribute.
HELD_AS = {
    "Tensor": ("T", ""),
    "Optional[Tensor]": ("O", ""),
    "List[Tensor]": ("L", ""),
    "List[Optional[Tensor]]": ("L", ""),
    "int": ("A", "Aten_ReqInt"),
    "float": ("A", "F64Attr"),
    "bool": ("A", "BoolAttr"),
    "str": ("A", "StrAttr"),
    "number": ("A", "Aten_ReqScalar"),
    "ScalarType": ("A", "TypeAttr"),
    "MemoryFormat": ("A", "StrAttr"),
    "List[int]": ("A", "DenseI64ArrayAttr"),
    "List[bool]": ("A", "DenseBoolArrayAttr"),
    "List[float]": ("A", "DenseF64ArrayAttr"),
}
VIEW = "ViewLikeOpInterface::Trait"
NOT_IN_PROGRAMS = {"Optional[Layout]", "Optional[Device]", "Layout", "Device"}


def expected_arguments(schema) -> list[Argument]:
    arguments = []
    for argument in schema.arguments:
        schema_type = str(argument.real_type)
        if schema_type in NOT_IN_PROGRAMS or argument.name == "pin_memory":
            continue
        base = schema_type.removeprefix("Optional[").removesuffix("]")
        is_optional = schema_type.startswith("Optional[")
        if schema_type in HELD_AS:
            kind, attribute = HELD_AS[schema_type]
        else:
            # The bracket of `Optional[List[int]]` has been taken off with Optional's.
            kind, attribute = HELD_AS[base] if base in HELD_AS else HELD_AS[base + "]"]
        optional = is_optional or (kind == "A" and argument.has_default_value())
        arguments.append(Argument(argument.name, kind, attribute, optional))
        if schema_type == "List[Optional[Tensor]]":
            arguments.append(
                Argument(f"{argument.name}_present", "A", "DenseBoolArrayAttr", True)
            )
    return arguments


def has_own_out(schema) -> bool:
    """Whether the overload has a counterpart that writes its result into a tensor, by a kernel that
    PyTorch did not generate from the overload itself."""
    packet = getattr(torch.ops.aten, schema.name.removeprefix("aten::"))
    inputs = [(a.name, str(a.real_type)) for a in schema.arguments]
    for name in packet.overloads():
        overload = getattr(packet, name)
        arguments = overload._schema.arguments
        written = [a for a in arguments if a.alias_info and a.alias_info.is_write]
        read = [(a.name, str(a.real_type)) for a in arguments if a not in written]
        if len(written) == 1 and written[0].kwarg_only and read == inputs:
            return torch.Tag.generated not in overload.tags
    return False


def errors(op: Op) -> list[str]:
    """What disagrees between the record and the schema, in words."""
    name, _, overload = op.schema.partition(".")
    try:
        schema = torch._C._get_schema(name, overload)
    except RuntimeError:
        return [f"no overload {op.schema} in the dispatcher"]
    found = []
    expected = expected_arguments(schema)
    if list(op.arguments) != expected:
        for has, wants in zip(op.arguments, expected):
            if has != wants:
                found.append(f"argument: expected {wants}, found {has}")
        if len(op.arguments) != len(expected):
            found.append(f"expected {len(expected)} arguments, found {len(op.arguments)}")
    if any(a.alias_info and a.alias_info.is_write for a in schema.arguments):
        found.append("the overload mutates an argument")
    returns = [str(r.real_type) for r in schema.returns]
    wanted = ["L" if r == "List[Tensor]" else "T" for r in returns]
    if [("T" if r == "M" else r) for r in op.results] != wanted:
        found.append(f"expected results {returns}, found {op.results}")
    shares = any(r.alias_info for r in schema.returns)
    if shares != (VIEW in op.traits):
        found.append(f"the schema {'shares' if shares else 'does not share'} memory with its operand")
    is_pointwise = "Pointwise" in op.traits
    if ("PointwiseOut" in op.traits) != (is_pointwise and has_own_out(schema)):
        found.append("PointwiseOut does not say whether `out` is a pointwise kernel of PyTorch's own")
    varying = sum(a.kind in "OL" for a in op.arguments)
    if (varying > 1) != ("AttrSizedOperandSegments" in op.traits):
        found.append(f"{varying} operand groups of varying size, AttrSizedOperandSegments wrong")
    return found


def planted(ops: dict[str, Op]):
    """Records with one disagreement each, by what is wrong with them."""
    add, norm, split = ops["add"], ops["native_layer_norm"], ops["split"]
    add_scalar, out = ops["add_scalar"], {"PointwiseOut"}

    def with_argument(op: Op, i: int, **changes) -> Op:
        arguments = list(op.arguments)
        arguments[i] = replace(arguments[i], **changes)
        return replace(op, arguments=tuple(arguments))

    yield "unknown overload", replace(add, schema="aten::add.NoSuch")
    yield "misspelt argument", with_argument(add, 2, name="alfa")
    yield "exchanged arguments", replace(add, arguments=add.arguments[1::-1] + add.arguments[2:])
    yield "missing argument", replace(add, arguments=add.arguments[:-1])
    yield "tensor as attribute", with_argument(add, 1, kind="A", attribute="Aten_ReqScalar")
    yield "wrong attribute type", with_argument(add, 2, attribute="Aten_ReqInt")
    yield "default not optional", with_argument(add, 2, optional=False)
    yield "required made optional", with_argument(norm, 1, optional=True)
    yield "optional tensor required", with_argument(norm, 2, kind="T", optional=False)
    yield "missing result", replace(norm, results=norm.results[:-1])
    yield "list result as tensor", replace(split, results=("T",))
    yield "view not marked", replace(split, traits=split.traits - {VIEW})
    yield "copy marked as view", replace(add, traits=add.traits | {VIEW})
    yield "generated out as PyTorch's own", replace(add_scalar, traits=add_scalar.traits | out)
    yield "own out not marked", replace(add, traits=add.traits - out)
    yield "no segment sizes", replace(norm, traits=norm.traits - {"AttrSizedOperandSegments"})
    yield "mutating overload", replace(add, schema="aten::add_.Tensor")


def main() -> int:
    ops = read(sys.argv[1])
    failures = 0
    for op in ops:
        if not op.schema.startswith("aten::"):
            continue
        for error in errors(op):
            print(f"aten.{op.mnemonic} ({op.schema}): {error}")
            failures += 1
    seen = [op.schema for op in ops if op.schema]
    for schema in {s for s in seen if seen.count(s) > 1}:
        print(f"{schema} has two typed ops")
        failures += 1
    for what, op in planted({op.mnemonic: op for op in ops}):
        if not errors(op):
            print(f"the check misses: {what}")
            failures += 1
    print(f"{len(ops)} typed ops, {failures} disagreements")
    return failures != 0 or not ops


if __name__ == "__main__":
    sys.exit(main())
