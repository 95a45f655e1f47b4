"""Hooks on the gradients of parameters (`Tensor.register_hook`) as a part of the joint graph, where PyTorch calls them."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping

import torch
from torch.fx.experimental.proxy_tensor import make_fx

from cleave.export.errors import ExportError
from cleave.export.pytorch import descriptors as aot

Hooks = Mapping[str, list[Callable]]


def parameter_hooks(module: torch.nn.Module) -> Hooks:
    """By each name of a parameter that has some, in their order."""
    named = module.named_parameters(remove_duplicate=False)
    return {name: list(parameter._backward_hooks.values()) for name, parameter in named if parameter._backward_hooks}


def add_parameter_hooks(graph: torch.fx.GraphModule, hooks: Hooks):
    """Traces each hook behind the gradient that it takes. AOT Autograd's parameters are others, which have none."""
    output = graph.graph.output_node()
    results = list(output.args[0])
    for place, desc in enumerate(output.meta["desc"]):
        if not isinstance(desc, aot.GradAOTOutput) or not isinstance(desc.grad_of, aot.ParamAOTInput):
            continue
        name = desc.grad_of.target
        for hook in hooks.get(name, ()):
            results[place] = _add_hook(graph, results[place], hook, name.removeprefix("module."))
    output.args = (tuple(results),)
    graph.recompile()


def _add_hook(graph: torch.fx.GraphModule, gradient: torch.fx.Node, hook: Callable, name: str) -> torch.fx.Node:
    value = gradient.meta["val"]
    about = f"the hook on the gradient of '{name}' (register_hook)"
    try:
        with value.fake_mode, torch.no_grad():
            traced = make_fx(hook, _allow_non_fake_inputs=True)(value)
    except Exception as error:  # whatever tracing runs into, in PyTorch or in the hook
        lines = str(error).strip().splitlines() or [""]
        raise ExportError(f"cannot trace {about}: {type(error).__name__}: {lines[0]}") from error
    made = {}
    for node in traced.graph.nodes:
        if node.op == "placeholder":
            made[node] = gradient
        elif node.op == "output":
            break
        else:
            made[node] = gradient = _copy_behind(graph, gradient, traced, node, made)
    (returned,) = node.args
    if not isinstance(returned, torch.fx.Node):
        raise ExportError(f"{about} returns no tensor: a program has the gradient that a hook returns, and nothing else of it")
    result = made[returned]
    found = result.meta["val"]
    if (found.shape, found.dtype) != (value.shape, value.dtype):
        raise ExportError(
            f"{about}: expected a gradient of shape {tuple(value.shape)} and type {value.dtype}, found {tuple(found.shape)} and "
            f"{found.dtype}"
        )
    return result


def _copy_behind(graph, before: torch.fx.Node, traced, node: torch.fx.Node, made) -> torch.fx.Node:
    """A node of a hook's own graph, in the joint graph."""
    with graph.graph.inserting_after(before):
        copied = graph.graph.node_copy(node, made.__getitem__)
    copied.meta = copy.copy(node.meta)
    copied.meta["partitioner_tag"] = "is_backward"
    if node.op == "get_attr":  # a tensor that the hook takes from around it
        value = getattr(traced, node.target)
        copied.target = f"of_hook_{len(graph._buffers)}"
        graph.register_buffer(copied.target, value.detach(), persistent=False)
        copied.meta["val"] = value
    return copied
