"""Everything of PyTorch that the exporter uses and PyTorch does not promise to keep.

No module of the package but this one, pytorch_tracing.py and pytorch_compile.py names anything private of `torch` (a test sees
to that), so what a new version changes is changed there. docs/install.md lists the versions that were tried.
"""

from __future__ import annotations

import contextlib
import functools
import sys
from collections.abc import Callable, Iterator, Mapping

import torch
from torch import fx
from torch._functorch._aot_autograd import descriptors
from torch._functorch.autograd_function import autograd_function_apply
from torch._guards import detect_fake_mode
from torch._ops import OpOverload
from torch._prims_common import compute_elementwise_output_logical_to_physical_perm as memory_order
from torch._prims_common import suggest_memory_format
from torch._subclasses.fake_impls import op_implementations_dict as FAKE_KERNELS
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode, unset_fake_temporarily
from torch.fx import node
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

__all__ = [
    "CUSTOM_FUNCTION", "FAKE_KERNELS", "KEPT_WHERE_UNUSED", "SET_GRAD_ENABLED",
    "DispatchKey", "FakeTensor", "FakeTensorMode", "OpOverload", "TorchDispatchMode",
    "count_gradient_hooks", "descriptors", "detect_fake_mode", "dtensor_spec", "erase_assertions", "erase_unused_numbers",
    "grouped_mm", "has_python_kernel", "hook_tables", "memory_order", "note_optimizer_step", "part_of_step", "process_group_size",
    "pytree", "python_kernels", "record_call", "registered_sharding", "run_kernel", "scheduler_parts", "schemas", "step_hooks",
    "suggest_memory_format", "unset_fake_temporarily", "without_onednn",
]  # fmt: skip

_ASSERTIONS = {getattr(torch.ops.aten._assert_async, name) for name in torch.ops.aten._assert_async.overloads()}
# Calls that passes over graphs never erase.
KEPT_WHERE_UNUSED = node._side_effectful_functions
# A torch.autograd.Function in Dynamo's graph: its first argument is the graph of its forward.
CUSTOM_FUNCTION = autograd_function_apply
DispatchKey = torch._C.DispatchKey
grouped_mm = torch._grouped_mm
SET_GRAD_ENABLED = torch._C._set_grad_enabled


def scheduler_parts(scheduler: torch.optim.lr_scheduler.LRScheduler) -> tuple[list, list[int]]:
    """The schedulers that SequentialLR or ChainedScheduler is made of, and where one takes over from the last."""
    return getattr(scheduler, "_schedulers", []), getattr(scheduler, "_milestones", [])


def schemas() -> list:
    """Of all operators that are registered."""
    return torch._C._jit_get_all_schemas()


def process_group_size(name: str) -> int:
    """Number of ranks of the process group that collectives of a graph know by this name."""
    return torch.distributed.distributed_c10d._resolve_process_group(name).size()


def part_of_step(call: fx.Node) -> str | None:
    """`forward` or `backward`; None where the tracer did not say."""
    return (call.meta.get("partitioner_tag") or "").removeprefix("is_") or None


def erase_assertions(graph: fx.Graph) -> list[str]:
    """Takes out the checks of values, with what only they use; returns what they say, or their statement.

    PyTorch 2.15 traces those of its own functions too (torch.nn.functional.one_hot's); 2.11 does not.
    """
    said = []
    for call in list(graph.nodes):
        if call.target in _ASSERTIONS:
            said.append(call.args[1] if len(call.args) > 1 else "")
            _erase_with_operands(graph, call)
        elif call.target is torch.ops.aten._assert_scalar.default and not _checks_flag(call):
            said.append(_statement(call))
            _erase_with_operands(graph, call)
    return said


def erase_unused_numbers(graph: fx.Graph):
    """Takes out numbers taken from tensors that nothing uses, as those of branches that were decided.

    PyTorch 2.11 does so itself, 2.15 does not, and checks of a flag that it is 0 or 1.
    """
    for call in list(graph.nodes):
        if call.target is torch.ops.aten._assert_scalar.default and _checks_flag(call):
            _erase_with_operands(graph, call)
    for call in list(graph.nodes):
        if call.target is torch.ops.aten._local_scalar_dense.default and not call.users:
            _erase_with_operands(graph, call)


def _checks_flag(assertion: fx.Node) -> bool:
    """Whether an assertion of a number is PyTorch's own, that a flag is 0 or 1."""
    condition = assertion.args[0]
    return isinstance(condition, fx.Node) and getattr(condition.args[0], "target", None) is torch.sym_ite


def _statement(assertion: fx.Node) -> str:
    """The Python statement that asserts; that of a number which it compares where it has none itself."""
    calls = [assertion]
    while calls:
        call = calls.pop(0)
        lines = [line.strip() for line in (call.meta.get("stack_trace") or "").splitlines()]
        if lines := [line for line in lines if line.strip("~^")]:  # some versions underline what is computed
            return lines[-1]
        calls += call.all_input_nodes
    return ""


def _erase_with_operands(graph: fx.Graph, call: fx.Node):
    """Erases a call, and what only it used."""
    unused = [call]
    while unused:
        erased = unused.pop()
        operands = erased.all_input_nodes
        graph.erase_node(erased)
        unused += [n for n in operands if not n.users and n.op == "call_function" and not n.is_impure()]


# Kernels of operators.


def has_python_kernel(overload: OpOverload, keys: tuple[str, ...]) -> bool:
    """Whether a library's operator has a kernel that torch.library registered, under one of these keys."""
    name = overload._name.replace("::", "/")
    return not torch.library._impls.isdisjoint(f"{name}/{key}" for key in keys)


@contextlib.contextmanager
def python_kernels(kernels: dict[OpOverload, dict]) -> Iterator[None]:
    """While this is entered, the operators have these kernels in Python by dispatch key; None: none under that key."""
    kept = [(overload, dict(overload.py_kernels)) for overload in kernels]
    try:
        for overload, changes in kernels.items():
            overload.py_kernels.update(changes)
            for key in [key for key, kernel in changes.items() if kernel is None]:
                del overload.py_kernels[key]
            overload._dispatch_cache.clear()
        yield
    finally:
        for overload, before in kept:
            overload.py_kernels.clear()
            overload.py_kernels.update(before)
            overload._dispatch_cache.clear()


def run_kernel(overload: OpOverload, key, *args, **kwargs):
    """The operator's kernel in C++ under this key."""
    return overload._op_dk(key, *args, **kwargs)


@contextlib.contextmanager
def without_onednn() -> Iterator[None]:
    """torch.backends.mkldnn.flags sets TF32 too, and warns that it does."""
    enabled = torch._C._get_mkldnn_enabled()
    torch._C._set_mkldnn_enabled(False)
    try:
        yield
    finally:
        torch._C._set_mkldnn_enabled(enabled)


def record_call(overload: OpOverload, *args, **kwargs):
    """Has the tracer record a call of the operator, below autograd."""
    with torch._C._AutoDispatchBelowAutograd():
        return run_kernel(overload, DispatchKey.Python, *args, **kwargs)


# Shardings of operators, for torch.distributed.tensor, which is imported only where it is in use.


def registered_sharding(overload: OpOverload) -> Callable | None:
    """The function given to register_sharding, which keeps it in a partial of one of its own."""
    module = sys.modules.get("torch.distributed.tensor")
    if module is None:
        return None
    strategy = module.DTensor._op_dispatcher.sharding_propagator.op_strategy_funcs.get(overload)
    if isinstance(strategy, functools.partial) and "register_sharding" in strategy.func.__qualname__:
        return strategy.args[0]
    return None


def dtensor_spec(tensor: torch.Tensor) -> object:
    """What that function is called with in place of a tensor."""
    from torch.distributed.tensor import Replicate
    from torch.distributed.tensor._dtensor_spec import DTensorSpec, TensorMeta

    return DTensorSpec(None, (Replicate(),), TensorMeta(tensor.shape, tensor.stride(), tensor.dtype))


def note_optimizer_step(optimizer: torch.optim.Optimizer) -> None:
    """Tells learning-rate schedulers that the optimizer has taken its step, which they would miss otherwise."""
    optimizer._opt_called = True


def step_hooks(optimizer: torch.optim.Optimizer) -> tuple[list[Callable], list[Callable]]:
    """What runs before and after each of the optimizer's steps."""
    return list(optimizer._optimizer_step_pre_hooks.values()), list(optimizer._optimizer_step_post_hooks.values())


def hook_tables(module: torch.nn.Module) -> list[Mapping]:
    """Where a module's hooks stand."""
    return [module._forward_pre_hooks, module._forward_hooks, module._backward_pre_hooks, module._backward_hooks]


def count_gradient_hooks(parameter: torch.Tensor) -> int:
    return len(parameter._backward_hooks or ()) + len(parameter._post_accumulate_grad_hooks or ())
