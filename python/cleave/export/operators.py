"""Dispatcher calls as `aten` ops in text: which op, and how each argument is written."""

from __future__ import annotations

import dataclasses
import functools
import json
import pathlib
from collections.abc import Callable
from typing import Any

import torch

from cleave.export.errors import ExportError
from cleave.export.paths import short_path
from cleave.export.pytorch import DispatchKey, OpOverload, has_python_kernel
from cleave.export.sharding_rules import sharding_text
from cleave.export.text import Unsupported, attribute, string, tensor_type

# Where a program runs is not its business.
_PLACEMENT_ARGUMENTS = {"device", "layout", "pin_memory", "generator"}

_TABLE = pathlib.Path(__file__).resolve().parent.parent / "typed_ops.json"


aten = torch.ops.aten

# These kernels take operands of one dtype only, their fake kernels any.
_ONE_DTYPE = {
    aten.mm, aten.bmm, aten.addmm, aten.baddbmm, aten.addbmm, aten.mv, aten.addmv, aten.addr, aten.dot,
    aten.convolution, aten._scaled_dot_product_flash_attention_for_cpu,
}  # fmt: skip

# Which are others to autograd only: they make the same views.
SAME_AS = {
    aten.unsafe_split.Tensor: aten.split.Tensor,
    aten.unsafe_split_with_sizes.default: aten.split_with_sizes.default,
}

# Under which a kernel that runs on the CPU is registered.
_KERNEL_KEYS = ("CPU", "CompositeExplicitAutograd", "CompositeImplicitAutograd")

COLLECTIVE = (
    "a collective of torch.distributed; a program is exported as one rank computes it, and Cleave's passes "
    "add the communication that a plan asks for (docs/plans.md)"
)

CHANGES_ARGUMENT = "an operator that changes its argument; programs are pure: expected one that returns what it computes"
NUMBER_OF_TENSOR = "a number taken from a tensor (item, tolist, float); expected the tensor in its place"


def check_call(overload: OpOverload, bound: dict[str, Any]):
    """Raises Unsupported for a call that would fail when the program runs."""
    if overload.namespace in ("_c10d_functional", "_c10d_functional_autograd", "c10d", "_dtensor"):
        raise Unsupported(COLLECTIVE)
    if overload.namespace != "aten":
        _check_library_operator(overload)
    if overload.overloadpacket in _ONE_DTYPE:
        dtypes = {v.meta["val"].dtype: None for v in bound.values() if isinstance(v, torch.fx.Node)}
        if len(dtypes) > 1:
            found = " and ".join(str(dtype).removeprefix("torch.") for dtype in dtypes)
            raise Unsupported(f"operands of types {found}; expected one type")


def _check_library_operator(overload: OpOverload):
    """cleave-run loads libraries, but no Python."""
    if has_python_kernel(overload, _KERNEL_KEYS):
        raise Unsupported(
            f"an operator of the library '{overload.namespace}' that is written in Python, which cleave-run does not have; "
            "expected one in C++ (TORCH_LIBRARY), whose library it loads by --load-library, or one implemented for "
            "CompositeImplicitAutograd, of which the operators that it calls are exported"
        )
    if not overload.has_kernel_for_dispatch_key(DispatchKey.CPU) and not any(
        overload.has_kernel_for_dispatch_key(getattr(DispatchKey, key)) for key in _KERNEL_KEYS
    ):
        raise Unsupported(f"an operator of the library '{overload.namespace}' without a kernel for the CPU")


def _callee(overload: OpOverload, name: str, sharding: str | None) -> str:
    """The name, the schema of an operator that tools do not know, and a rule that was registered for it."""
    rule = f" sharded {string(sharding)}" if sharding else ""
    if overload.namespace in ("aten", "prims"):
        return string(name) + rule
    text = str(overload._schema)
    return f"{string(name)} {string(text[text.index('(') :])}{rule}"


def load_typed_ops() -> dict[str, str]:
    """Schema name to the mnemonic of the op that stands for it.

    Without the table every call would be an `aten.call`, which runs, but which no pass can lay out or split.
    """
    try:
        return json.loads(_TABLE.read_text())
    except FileNotFoundError:
        raise ExportError(
            f"expected the table of typed ops at {short_path(str(_TABLE))}, which the build generates; found none: run "
            "./dev build in Cleave's checkout, or install the package from there after a build"
        ) from None


def schema_name(overload: OpOverload) -> str:
    """`aten::add.Tensor`, `aten::mm`."""
    schema = overload._schema
    return f"{schema.name}.{schema.overload_name}" if schema.overload_name else schema.name


def bind(overload: OpOverload, args, kwargs) -> dict[str, Any]:
    """Arguments by name, in the schema's order, without those that have their default."""
    bound = {}
    for i, argument in enumerate(overload._schema.arguments):
        if i < len(args) and not argument.kwarg_only:
            value = args[i]
        elif argument.name in kwargs:
            value = kwargs[argument.name]
        else:
            continue
        if argument.name in _PLACEMENT_ARGUMENTS:
            continue
        if argument.has_default_value() and _same(value, argument.default_value):
            continue
        bound[argument.name] = value
    return bound


def with_default_dtype(overload: OpOverload, bound: dict[str, Any], result: Any) -> dict[str, Any]:
    """The arguments with the dtype of a tensor that is made from none: the exporting process's default
    (`torch.set_default_dtype`), where the program's is float32."""
    arguments = [argument.name for argument in overload._schema.arguments]
    if "dtype" not in arguments or "dtype" in bound or not isinstance(result, torch.Tensor):
        return bound
    if result.dtype in (torch.float32, torch.complex64) or not (result.is_floating_point() or result.is_complex()):
        return bound
    if any(isinstance(value, torch.fx.Node) for value in bound.values()):
        return bound
    named = {**bound, "dtype": result.dtype}
    return {name: named[name] for name in arguments if name in named}


def integers_to_widen(overload: OpOverload, bound: dict[str, Any], result: Any) -> list[torch.fx.Node]:
    """Tensors of integers of which a call makes the exporting process's default type (`torch.set_default_dtype`): with
    a number, by a division, or by a function of reals. In programs they become float32."""
    if overload.namespace != "aten" or not isinstance(result, torch.Tensor):
        return []
    if not result.is_floating_point() or result.dtype == torch.float32:
        return []
    # The first says whose elements are taken; others name the type.
    if overload.overloadpacket is torch.ops.aten.where or "dtype" in argument_types(overload):
        return []
    nodes = [value for value in bound.values() if isinstance(value, torch.fx.Node)]
    values = [node.meta.get("val") for node in nodes]
    if any(not isinstance(value, torch.Tensor) or value.is_floating_point() or value.is_complex() for value in values):
        return []
    return nodes


def _same(value: Any, default: Any) -> bool:
    if isinstance(value, (list, tuple)) and isinstance(default, (list, tuple)):
        return list(value) == list(default)
    if isinstance(value, torch.fx.Node) or isinstance(default, torch.Tensor):
        return False
    # True == 1 and 1 == 1.0 in Python, but not to the dtype rules.
    return type(value) is type(default) and value == default


def is_tensor_type(schema_type: str) -> bool:
    return schema_type in ("Tensor", "Tensor?")


def is_tensor_list_type(schema_type: str) -> bool:
    return schema_type.rstrip("?") in ("Tensor[]", "Tensor?[]")


@functools.cache
def argument_types(overload: OpOverload) -> dict[str, str]:
    """Names to types as the schema spells them: "Tensor?", "int[]", "Scalar"."""

    def spell(text: str) -> str:
        if text.startswith("Optional["):
            return spell(text[len("Optional[") : -1]) + "?"
        if text.startswith("List["):
            return spell(text[len("List[") : -1]) + "[]"
        return "Scalar" if text == "number" else text

    # `real_type` tells dtypes from ints, `type` does not.
    return {a.name: spell(str(a.real_type)) for a in overload._schema.arguments}


def as_scalar_overload(
    overload: OpOverload, bound: dict[str, Any]
) -> OpOverload | None:
    """The overload that takes Python numbers where `bound` has them for tensors, if there is one.

    Python wraps such numbers in tensors that do not take part in type promotion; a Scalar
    overload does the same inside the dispatcher.
    """
    types = argument_types(overload)
    numbers = {n for n, v in bound.items() if is_tensor_type(types[n]) and _is_number(v)}
    for name in overload.overloadpacket.overloads():
        other = getattr(overload.overloadpacket, name)
        candidate = argument_types(other)
        if list(candidate) == list(types) and all(
            candidate[n] == ("Scalar" if n in numbers else types[n]) for n in types
        ):
            return other
    return None


@dataclasses.dataclass(frozen=True)
class RunTimeNumber:
    """A number that the program computes: the name of its SSA value, and its type."""

    name: str
    type: str = "f64"


def _is_number(value: Any) -> bool:
    return isinstance(value, (bool, int, float, complex, RunTimeNumber))


def has_number_for_tensor(overload: OpOverload, bound: dict[str, Any]) -> bool:
    types = argument_types(overload)
    return any(is_tensor_type(types[n]) and _is_number(v) for n, v in bound.items())


class OperatorWriter:
    """Writes calls; `value` gives the SSA name of a node and `type_of` its type."""

    def __init__(
        self, value: Callable[[torch.fx.Node], str], type_of: Callable[[torch.fx.Node], str]
    ):
        self._value = value
        self._type_of = type_of
        self._typed = load_typed_ops()

    def write(
        self, overload: OpOverload, bound: dict[str, Any], result: Any = None, rule: str | None = None
    ) -> tuple[str, str]:
        """`aten.mm(%a, %b)` and the operands' types, `tensor<..>, tensor<..>`; `result` is its value in the trace.

        rule: how an operator without a typed op may be sharded, if nobody has registered that.
        """
        types = argument_types(overload)
        name = schema_name(overload)
        # Attributes of typed ops are constants.
        computed = any(isinstance(value, RunTimeNumber) for value in bound.values())
        mnemonic = None if computed else self._typed.get(name)
        operands: list[torch.fx.Node | RunTimeNumber] = []
        parts = []
        for argument, schema_type in types.items():
            if argument in _PLACEMENT_ARGUMENTS:
                continue
            is_tensor = is_tensor_type(schema_type)
            is_list = is_tensor_list_type(schema_type)
            if argument not in bound:
                # A typed op's tensors stand by position, so an absent one is written.
                if mnemonic and is_tensor and schema_type.endswith("?"):
                    parts.append("none")
                continue
            value = bound[argument]
            if is_tensor or is_list:
                text = self._tensors(value, operands)
                parts.append(text if mnemonic else f"{argument} = {text}")
            elif isinstance(value, RunTimeNumber):
                if schema_type.rstrip("?") != "Scalar":
                    raise Unsupported(f"a number that is computed at run time for '{argument}', which takes a {schema_type}")
                operands.append(value)
                parts.append(f"{argument} = {value.name}")
            elif value is None:
                # No optional constant differs from its absence, except where None is not a default.
                continue
            else:
                parts.append(f"{argument} = {attribute(value, schema_type)}")
        if mnemonic:
            op = f"aten.{mnemonic}("
        else:
            op = f"aten.call {_callee(overload, name, sharding_text(overload, bound, result) or rule)}("
        operand_types = [each.type if isinstance(each, RunTimeNumber) else self._type_of(each) for each in operands]
        return op + ", ".join(parts) + ")", ", ".join(operand_types)

    def _tensors(self, value: Any, operands: list[torch.fx.Node]) -> str:
        if value is None:
            return "none"
        if isinstance(value, (list, tuple)):
            return "[" + ", ".join(self._tensors(item, operands) for item in value) + "]"
        if not isinstance(value, torch.fx.Node):
            raise Unsupported(f"the number {value!r} where a tensor is expected")
        operands.append(value)
        return self._value(value)


def result_types(value: Any) -> list[str]:
    """Types of a call's results: undefined ones (a gradient not asked for) are `none`."""
    if value is None:
        return ["none"]
    if isinstance(value, torch.Tensor):
        return [tensor_type(value)]
    if isinstance(value, (list, tuple)):
        return [t for item in value for t in result_types(item)]
    if isinstance(value, (torch.SymInt, torch.SymFloat, torch.SymBool)):
        raise Unsupported(NUMBER_OF_TENSOR)
    raise Unsupported(f"a result of type {type(value).__name__} ({value}); programs compute tensors only")


def kernel_result_types(
    overload: OpOverload,
    value: Any,
    bound: dict[str, Any],
    type_of: Callable[[torch.fx.Node], str],
) -> list[str]:
    """The same as the kernel gives them, where the trace's fake kernel says otherwise."""
    types = result_types(value)
    if overload is torch.ops.aten._scaled_dot_product_flash_attention_for_cpu.default:
        if value[0].dtype == torch.float64:
            types[1] = tensor_type(value[1].to(torch.float64))  # the kernel accumulates in f64
    elif overload in _BATCH_NORMS:
        # Fake: saved statistics in the input's dtype, moved ones in f32. The kernel gives both in
        # the dtype that the running ones have.
        dtype = _element_type(type_of(bound["running_mean"]))
        types[1:] = [t.removesuffix(_element_type(t) + ">") + f"{dtype}>" for t in types[1:]]
    elif overload is torch.ops.aten.native_layer_norm.default and isinstance(bound.get("weight"), torch.fx.Node):
        # Fake: statistics in the input's dtype. The kernel for a narrow one with f32 weights has them in f32.
        dtype = _element_type(type_of(bound["weight"]))
        if dtype != _element_type(types[0]):
            types[1:] = [t.removesuffix(_element_type(t) + ">") + f"{dtype}>" for t in types[1:]]
    elif overload is torch.ops.aten.native_batch_norm_backward.default:
        # Fake: all three, whatever is asked for.
        types = [t if asked else "none" for t, asked in zip(types, bound["output_mask"])]
    return types


_BATCH_NORMS = (
    torch.ops.aten._native_batch_norm_legit_functional.default,
    torch.ops.aten._native_batch_norm_legit_no_training.default,
)


def _element_type(type_: str) -> str:
    """`bf16` of `tensor<4x8xbf16>`."""
    return type_.removesuffix(">").rpartition("x")[2]
