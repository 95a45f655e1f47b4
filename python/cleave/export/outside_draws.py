"""Numbers that forward draws by Python's `random` and by NumPy.

A program draws from PyTorch's generator alone, but Dynamo makes constants of Python's numbers and draws NumPy's from
PyTorch's stream, so that masks drawn afterwards are others. Both are refused, but for a number of [0, 1) that decides a
branch which no number changes (branches.py): so MusicGen and VITS leave out no layer.
"""

from __future__ import annotations

import contextlib
import random
import sys
from collections.abc import Callable, Iterator, Sequence

import torch

from cleave.export.errors import ExportError
from cleave.export.locations import place
from cleave.export.pytorch_tracing import VariableTracker, end_trace, python_draws, tracer_config, traced_node, value_of_function

_DRAWN_OUTSIDE = "drawn_outside"  # in a node's `meta`


def refusal(function: str) -> str:
    """What an export says of a call that no program makes."""
    return (
        f"found {function}, which draws by another generator than PyTorch's; expected torch.rand or torch.randint, or a number of "
        "[0, 1) for a branch that no such number changes"
    )


def is_drawn_outside(node: torch.fx.Node) -> bool:
    """Whether a number is of [0, 1), and not of PyTorch's generator."""
    return _DRAWN_OUTSIDE in node.meta


def refuse_uses(graph: torch.fx.Graph):
    """Numbers that decided branches have no use in the graph."""
    for node in graph.nodes:
        if is_drawn_outside(node) and node.users:
            raise ExportError(f"cannot export{place(node)}: {refusal('a number of random or numpy.random')}")


@contextlib.contextmanager
def outside_draws() -> Iterator[None]:
    """While this is entered, Dynamo traces numbers of [0, 1) as unknown ones, and refuses all others."""
    with contextlib.ExitStack() as stack:
        stack.enter_context(tracer_config(use_numpy_random_stream=True))  # which Dynamo refuses to trace
        stack.enter_context(python_draws(_draw))
        # A method in C, which Dynamo does not call.
        _replace(stack, random, "random", lambda: random.uniform(0.0, 1.0))
        if numpy := sys.modules.get("numpy"):
            for name in ("random", "random_sample", "rand", "uniform"):
                _replace(stack, numpy.random, name, _of_numpy(name))
        yield


def _draw(translator, function, args: Sequence[VariableTracker], kwargs: dict[str, VariableTracker]) -> VariableTracker:
    bounds = [each.as_python_constant() for each in (*args, *kwargs.values())]
    name = f"random.{function.__name__}"
    if function.__name__ != "random" and (function.__name__, bounds) != ("uniform", [0, 1]):
        return value_of_function(translator, lambda: end_trace(msg=refusal(name)))
    value = value_of_function(translator, _unknown)
    traced_node(value).meta[_DRAWN_OUTSIDE] = True
    return value


def _unknown() -> float:
    return torch.empty((), dtype=torch.float64).item()


def _of_numpy(name: str) -> Callable:
    reason = refusal(f"numpy.random.{name}")

    def rand(*sizes):
        return end_trace(msg=reason) if sizes else random.uniform(0.0, 1.0)

    def sample(size=None):
        return random.uniform(0.0, 1.0) if size is None else end_trace(msg=reason)

    def uniform(low=0.0, high=1.0, size=None):
        return random.uniform(0.0, 1.0) if size is None and (low, high) == (0, 1) else end_trace(msg=reason)

    return {"rand": rand, "uniform": uniform}.get(name, sample)


def _replace(stack: contextlib.ExitStack, owner: object, name: str, value: object):
    stack.callback(setattr, owner, name, getattr(owner, name))
    setattr(owner, name, value)
