"""What a forward saves for its backward under torch.compile, by `--partition-joint`'s minimum cut.

`cleave.partitioner.partition` is a `partition_fn` of AOT Autograd; Inductor takes it as an object:

    torch._inductor.config.custom_partitioner_fn = cleave.partitioner.inductor_partitioner()
"""

from __future__ import annotations

import functools
import hashlib
import pathlib
import re
from collections.abc import Sequence
from typing import Any

import torch

from cleave.errors import Error
from cleave.export.joint_text import JointText, is_tangent
from cleave.export.pytorch import unset_fake_temporarily
from cleave.export.pytorch_compile import extract_parts, joint_results, mend_masked_constants, min_cut_partition, partitioner_class
from cleave.native import native
from cleave.programs import Program

# Of `--partition-joint`.
_LEVELS = ("views", "cheap", "gathers", "all")


def partition(
    joint: torch.fx.GraphModule, inputs: Sequence[Any], *, num_fwd_outputs: int, recompute: str = "cheap", **options
) -> tuple[torch.fx.GraphModule, torch.fx.GraphModule]:
    """The forward and the backward of a joint graph, whose nodes are those of the joint graph.

    recompute: what the backward may recompute, as `--partition-joint` has it. A graph that has symbolic sizes, or
        no backward, is left to PyTorch's own minimum cut.
    """
    _check_level(recompute)
    forward, backward = joint_results(joint, num_fwd_outputs)
    primals = [node for node in joint.graph.nodes if node.op == "placeholder" and not is_tangent(node)]
    is_known = len(backward) == len(primals) and any(is_tangent(node) for node in joint.graph.nodes)
    if not is_known or any(_is_symbolic(node) for node in joint.graph.nodes):
        return min_cut_partition(joint, inputs, num_fwd_outputs=num_fwd_outputs, **options)
    gradients = {of: node for of, node in zip(primals, backward) if isinstance(node, torch.fx.Node)}
    results = [node for node in forward if isinstance(node, torch.fx.Node)]
    try:
        with unset_fake_temporarily():
            program = Program(JointText(joint, results, gradients).text, "joint graph")
        program.run_passes(f"partition-joint{{policy=min-cut recompute={recompute}}}")
    except Error:
        return min_cut_partition(joint, inputs, num_fwd_outputs=num_fwd_outputs, **options)
    saved = _needed(_saved_nodes(joint, program), list(gradients.values()))
    return extract_parts(joint, saved, num_fwd_outputs, options.get("static_lifetime_input_indices") or [])


def _check_level(recompute: Any) -> None:
    if recompute not in _LEVELS:
        raise Error(f"expected recompute as one of {', '.join(map(repr, _LEVELS))}, found {recompute!r}")


def _is_symbolic(node: torch.fx.Node) -> bool:
    value = node.meta.get("val")
    if isinstance(value, (torch.SymInt, torch.SymFloat, torch.SymBool)):
        return True
    return isinstance(value, torch.Tensor) and any(not isinstance(size, int) for size in value.shape)


# The function's results come before its body: `#train.role<saved "mm_1.mm">`, of several results "split.split#1".
_SAVED = re.compile(r'#train\.role<saved "(\w+)\.[^"#]*(?:#(\d+))?">')


def _saved_nodes(joint: torch.fx.GraphModule, program: Program) -> list[torch.fx.Node]:
    nodes = {node.name: node for node in joint.graph.nodes}
    signature = re.search(r"func\.func @forward\(.*?-> \((.*?)\) *attributes", program.text(), re.DOTALL).group(1)
    saved = []
    for name, number in _SAVED.findall(signature):
        node = nodes[name]
        if isinstance(node.meta["val"], (list, tuple)):
            node = next(user for user in node.users if user.args[1] == int(number or 0))
        saved.append(node)
    return saved


def _needed(saved: list[torch.fx.Node], gradients: list[torch.fx.Node]) -> list[torch.fx.Node]:
    """What the backward takes: what is saved, and the arguments that it needs besides."""
    taken, seen, stack = dict.fromkeys(saved), set(), list(gradients)
    needed: dict[torch.fx.Node, None] = {}
    while stack:
        node = stack.pop()
        if node in seen:
            continue
        seen.add(node)
        if node in taken or (node.op == "placeholder" and not is_tangent(node)):
            needed[node] = None
        else:
            stack += node.all_input_nodes
    return sorted(needed, key=_order(gradients))


def _order(gradients: list[torch.fx.Node]):
    places = {node: place for place, node in enumerate(gradients[0].graph.nodes)} if gradients else {}
    return places.__getitem__


def inductor_partitioner(recompute: str = "cheap"):
    """An object for `torch._inductor.config.custom_partitioner_fn`; the same for the same `recompute`."""
    _check_level(recompute)
    return _inductor_partitioner(recompute)


@functools.cache
def _inductor_partitioner(recompute: str):
    # What is computed again brings masks and constants together that Inductor's own partition keeps in different kernels.
    mend_masked_constants()

    class CleavePartitioner(partitioner_class()):
        def __call__(self, gm: torch.fx.GraphModule, joint_inputs: Sequence[Any], **options):
            options.pop("compiler", None)
            return partition(gm, joint_inputs, recompute=recompute, **options)

        def uuid(self) -> str:
            """Of this implementation, for Inductor's cache: the partition is that of these sources and this pass."""
            digest = hashlib.sha256(recompute.encode())
            for file in (__file__, JointText.__init__.__code__.co_filename, native().__file__):
                digest.update(pathlib.Path(file).read_bytes())
            return f"cleave-{digest.hexdigest()}"

        def __reduce__(self):
            """Inductor pickles its configuration for a cache's key, too."""
            return inductor_partitioner, (recompute,)

    return CleavePartitioner()
