"""`torch.compile(model, backend="cleave")`: forward and backward graphs as Cleave programs.

AOT Autograd makes the graphs; each becomes a program that is bound once and called on PyTorch's tensors, without a
copy. docs/torch-compile.md says what users see.
"""

from __future__ import annotations

import functools
import itertools
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from cleave.errors import Error
from cleave.export.custom_functions import connect_results
from cleave.export.errors import ExportError, ExportNote
from cleave.export.pytorch import unset_fake_temporarily
from cleave.export.pytorch_compile import (
    aot_backend,
    asks_for_dynamic_shapes,
    demanded_symbol,
    make_static,
    save_all_partition,
    without_forward_draws,
)
from cleave.export.random_ops import unused_draws_kept
from cleave.export.tensor_function import TensorFunction, Value
from cleave.export.whole_operators import operators_kept_whole
from cleave.native import native
from cleave.programs import Program

_OPTIONS = {"passes": "", "kernels": "best", "partition": "save-all", "strict": False, "programs": None}
_numbers = itertools.count()


def compile_graph(
    graph: torch.fx.GraphModule, inputs: Sequence[Any], *, options: Mapping[str, Any] | None = None,
    mode: str | None = None,
):  # fmt: skip
    """The back end: what runs in the place of `graph`, as torch.compile expects it.

    options: of `torch.compile(..., options={...})`:
        passes: run on each program, as `cleave.Program.run_passes` takes them.
        kernels: which compiled kernels run, as `cleave-run --kernels` has it.
        partition: what the forward saves for the backward: "save-all", as eager mode does, or "min-cut".
        strict: whether a graph that cannot be a program is an error. By default PyTorch runs it, and a warning says so.
        programs: a list to which each program is added.
    mode: refused. It is a set of options of Inductor's.
    """
    if mode is not None:
        raise ExportError(
            f"expected torch.compile(..., options={{...}}) for the back end 'cleave', found mode={mode!r}"
        )
    options = _checked(options or {})
    if asks_for_dynamic_shapes():
        raise ExportError(
            "the back end 'cleave' compiles for fixed sizes, and again for others: expected torch.compile(..., "
            "dynamic=False) or no `dynamic`, found dynamic=True"
        )
    if marked := demanded_symbol(inputs):
        raise ExportError(
            "the back end 'cleave' compiles for fixed sizes, and again for others: expected none that mark_dynamic or "
            f"mark_unbacked keeps symbolic (maybe_mark_dynamic is ignored), found {marked}"
        )
    native()  # refuses before anything is traced
    if options["partition"] == "min-cut":
        from cleave.partitioner import partition
    else:
        partition = save_all_partition
    connect_results(graph)
    graph, inputs, kept = make_static(graph, inputs)
    compiler = functools.partial(_compile, options=options)
    with unused_draws_kept(), operators_kept_whole([]):
        compiled = aot_backend(
            graph, inputs, forward=functools.partial(compiler, kind="forward"),
            backward=functools.partial(compiler, kind="backward"),
            inference=functools.partial(compiler, kind="inference"), partition=without_forward_draws(partition),
        )  # fmt: skip
    if kept is None:
        return compiled
    return lambda *arguments: compiled(*(arguments[place] for place in kept))


def _checked(options: Mapping[str, Any]) -> dict[str, Any]:
    if unknown := sorted(set(options) - set(_OPTIONS)):
        raise ExportError(
            f"expected options of the back end 'cleave' ({', '.join(_OPTIONS)}), found {', '.join(unknown)}"
        )
    options = {**_OPTIONS, **options}
    if options["partition"] not in ("save-all", "min-cut"):
        raise ExportError(f"expected partition 'save-all' or 'min-cut', found {options['partition']!r}")
    return options


def _compile(graph: torch.fx.GraphModule, _inputs: Sequence[Any], *, kind: str, options: dict[str, Any]) -> Callable:
    """What runs a graph of AOT Autograd: takes a list of its arguments, which it empties."""
    try:
        with unset_fake_temporarily():
            function = TensorFunction(graph, f"{kind}_{next(_numbers)}")
        program = Program(function.text, f"{kind} graph")
        program.run_passes(options["passes"])
        call = native().Function(program._native, options["kernels"])
    except Error as error:
        if options["strict"]:
            raise
        warnings.warn(f"the back end 'cleave' leaves a graph ({kind}) to PyTorch: {error}", ExportNote, stacklevel=2)
        return _interpreted(graph)
    if options["programs"] is not None:
        options["programs"].append(program)
    return _called(call, function)


def _called(call: Callable, function: TensorFunction) -> Callable:
    inputs, constants, results = function.inputs, function.constants, function.results

    def run(arguments: list) -> list:
        tensors = [arguments[place] for place in inputs]
        tensors += constants
        arguments.clear()  # so that what has no other holder is freed after its last use
        made = call(tensors)
        return [result.value if isinstance(result, Value) else made[result] for result in results]

    run._boxed_call = True
    return run


def _interpreted(graph: torch.fx.GraphModule) -> Callable:
    def run(arguments: list) -> list:
        taken = list(arguments)
        arguments.clear()
        return graph.forward(*taken)

    run._boxed_call = True
    return run
