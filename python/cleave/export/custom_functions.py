"""Results of torch.autograd.Functions that their forward has changed in place.

PyTorch's tracers run the forward of such a function once more, and connect what it returns to the gradient. A result that was
changed in place is connected to nothing: its gradient is zeros. A view of it is connected.
"""

from __future__ import annotations

import torch
from torch import fx

from cleave.export.constants import changes_its_operand
from cleave.export.pytorch import CUSTOM_FUNCTION


def connect_results(traced: fx.GraphModule):
    """Has each custom function of Dynamo's graph that changes something in place return other tensors of the same values."""
    for module in list(traced.modules()):
        if not isinstance(module, fx.GraphModule):
            continue
        for call in module.graph.find_nodes(op="call_function", target=CUSTOM_FUNCTION):
            forward = getattr(module, call.args[0].target)
            if any(map(changes_its_operand, forward.graph.nodes)):
                _return_others(forward, copies=any(map(changes_its_operand, module.graph.nodes)))


def _return_others(forward: fx.GraphModule, copies: bool):
    """forward: returns the results, and what it saves for the backward."""
    (end,) = forward.graph.find_nodes(op="output")
    results, saved = end.args[0]
    with forward.graph.inserting_before(end):

        def other(node: fx.Node) -> fx.Node:
            if not isinstance(node.meta.get("example_value"), torch.Tensor):
                return node
            made = forward.graph.call_method("clone", (node,)) if copies else forward.graph.call_method("view_as", (node, node))
            made.meta = dict(node.meta)
            return made

        end.args = ((fx.map_arg(results, other), saved),)
    forward.recompile()
