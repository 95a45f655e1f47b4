"""Makes visible in a forward graph where its author cut or replaced gradients.

A forward graph of ATen calls is all that `cleave-opt --autodiff` sees. What `torch.no_grad` or
`torch.inference_mode` computes looks like anything else there, and the backward of a
`torch.autograd.Function` is not there at all.
"""

from __future__ import annotations

import operator

import torch
from torch.autograd import grad_mode

from cleave.export.errors import ExportError
from cleave.export.locations import place
from cleave.export.pytorch import SET_GRAD_ENABLED


def refuse_hooks(step: torch.nn.Module, has_gradients: bool):
    """Raises ExportError for hooks on parameters' gradients that the program would not have.

    Those of `register_hook` become a part of the backward (parameter_hooks.py).
    """
    for name, parameter in step.named_parameters():
        name = name.removeprefix("module.")
        if parameter._post_accumulate_grad_hooks:
            raise ExportError(
                f"parameter '{name}' has a hook that runs after its gradient is accumulated "
                "(register_post_accumulate_grad_hook), which programs do not contain; remove it"
            )
        if parameter._backward_hooks and not has_gradients:
            raise ExportError(
                f"parameter '{name}' has a hook on its gradient (register_hook), which a forward-only export does not "
                "contain; export with gradients"
            )


def show_gradient_cuts(traced: torch.fx.GraphModule):
    """Detaches what leaves a region without gradients, in Dynamo's graph and the graphs it calls.

    Raises ExportError for a `torch.autograd.Function`, which Dynamo makes of a tensor's hook too.
    """
    for module in list(traced.modules()):
        if isinstance(module, torch.fx.GraphModule):
            _refuse_custom_functions(module.graph)
            if _detach_regions(module.graph):
                module.recompile()


def _refuse_custom_functions(graph: torch.fx.Graph):
    for node in graph.nodes:
        if "autograd_function_apply" in str(node.target):
            raise ExportError(
                f"a torch.autograd.Function{place(node)} has its own backward (a tensor's hook is one, too), "
                "which a forward-only export does not contain; export with gradients"
            )
        if node.target is torch.autograd.grad:
            raise ExportError(
                f"torch.autograd.grad{place(node)} in forward: what gradients --autodiff would make of its result is not what "
                "PyTorch does; export with gradients"
            )


def _detach_regions(graph: torch.fx.Graph) -> bool:
    """Whether anything was detached."""
    enabled, inference, around, cut, changed = True, False, [], set(), False
    for node in list(graph.nodes):
        if node.target is SET_GRAD_ENABLED:
            enabled = node.args[0]
        elif node.target is grad_mode._enter_inference_mode:
            around.append((enabled, inference))
            inference = node.args[0]
            enabled = not inference
        elif node.target is grad_mode._exit_inference_mode:
            enabled, inference = around.pop()
        elif inference or not enabled or (_is_projection(node) and node.args[0] in cut):
            cut.add(node)
        else:
            for value in node.all_input_nodes:
                if value in cut and _is_floating(value):
                    node.replace_input_with(value, _detached(graph, value))
                    changed = True
    return changed


def _detached(graph: torch.fx.Graph, value: torch.fx.Node) -> torch.fx.Node:
    for user in value.users:
        if user.target == "detach":
            return user
    with graph.inserting_after(value):
        node = graph.call_method("detach", (value,))
    node.meta = dict(value.meta)
    return node


def _is_projection(node: torch.fx.Node) -> bool:
    """Whether a node takes one of several results; `tensor[index]` is an op."""
    return node.target is operator.getitem and not isinstance(
        node.args[0].meta.get("example_value"), torch.Tensor
    )


def _is_floating(node: torch.fx.Node) -> bool:
    value = node.meta.get("example_value")
    return isinstance(value, torch.Tensor) and (value.is_floating_point() or value.is_complex())
