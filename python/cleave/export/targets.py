"""Which elements of the targets a loss counts: what its mean is over, where a spec asks for the mean over targets."""

from __future__ import annotations

import dataclasses

import torch

from cleave.export.capture import Capture
from cleave.export.errors import ExportError
from cleave.export.locations import place
from cleave.export.pytorch import descriptors as aot
from cleave.export.text import string

aten = torch.ops.aten

_LOSSES = (aten.nll_loss_forward.default, aten.nll_loss2d_forward.default)
_MEAN = 1

# What moves targets and computes nothing with them. A loss that computes them (masks them, say) ignores what
# only a run can tell.
_MOVES = {
    overload
    for packet in (
        aten.view, aten._unsafe_view, aten.reshape, aten.flatten, aten.slice, aten.select, aten.narrow, aten.transpose,
        aten.permute, aten.t, aten.squeeze, aten.unsqueeze, aten.clone, aten.contiguous, aten.alias, aten.detach,
        aten.constant_pad_nd, aten._to_copy, aten.cat,
    )
    for overload in (getattr(packet, name) for name in packet.overloads())
}  # fmt: skip


@dataclasses.dataclass(frozen=True)
class CountedTargets:
    """The elements of an input, in the ranges [begin, end) of its dimensions, that are not `ignored`."""

    name: str
    ignored: int
    begin: tuple[int, ...]
    end: tuple[int, ...]

    def __str__(self) -> str:
        begin, end = (", ".join(map(str, bounds)) for bounds in (self.begin, self.end))
        return f"#train.targets<{string(self.name)} except {self.ignored} from [{begin}] to [{end}]>"

    def count(self, value: torch.Tensor) -> int:
        """How many targets count in a microbatch, of which `value` is the input."""
        inside = value[tuple(slice(*bounds) for bounds in zip(self.begin, self.end))]
        return int((inside != self.ignored).sum())


def find_counted_targets(capture: Capture) -> CountedTargets:
    """What the loss of a trace is the mean of. Raises ExportError if it is not a mean over targets that can be
    counted before it is computed."""
    losses = [node for node in capture.graph.graph.nodes if node.target in _LOSSES]
    if not losses:
        raise ExportError(
            "expected a loss that ignores targets for mean_over='targets' (cross_entropy or nll_loss), found none: "
            "a mean over all elements is the same over microbatches"
        )
    found = {_counted(node, capture): node for node in losses}
    if len(found) > 1:
        (one, first), (two, second), *_ = found.items()
        raise ExportError(
            f"expected one mean for mean_over='targets', found those of {one}{place(first)} and of {two}{place(second)}"
        )
    return next(iter(found))


def _counted(loss: torch.fx.Node, capture: Capture) -> CountedTargets:
    def refuse(what: str):
        return ExportError(f"expected {what} for mean_over='targets'{place(loss)}")

    _, target, weight, reduction, ignored = loss.args
    if reduction != _MEAN:
        raise refuse("a loss with reduction 'mean'")
    if weight is not None:
        raise refuse("a loss without weights of classes, with which targets do not count the same,")
    sources: list[torch.fx.Node] = []
    moved = _move(target, ignored, sources, refuse)
    (source,) = sources
    shape = source.meta["val"].shape
    taken = moved[moved >= 0]
    if taken.numel() == 0:
        raise refuse("targets that the loss counts")
    places = torch.stack(torch.unravel_index(taken, shape))
    begin, end = places.amin(1).tolist(), (places.amax(1) + 1).tolist()
    box = 1
    for from_, to in zip(begin, end):
        box *= to - from_
    if taken.numel() != box or taken.unique().numel() != box:
        raise refuse("a loss that takes a range of each dimension of its targets, each target once,")
    name = capture.signature.inputs[source.meta["desc"].idx].name
    return CountedTargets(name, ignored, tuple(begin), tuple(end))


def _move(node: torch.fx.Node, ignored: int, sources: list[torch.fx.Node], refuse) -> torch.Tensor:
    """What becomes of the targets on the way to the loss: the number of the element of the input that each is, or a
    negative one for padding."""
    if node.op == "placeholder" and isinstance(node.meta["desc"], aot.PlainAOTInput):
        sources[:] = {*sources, node}
        if len(sources) > 1:
            raise refuse("targets from one input")
        value = node.meta["val"]
        if value.dtype not in (torch.int64, torch.int32):
            raise refuse("targets that are integers")
        return torch.arange(value.numel()).view(value.shape)
    if node.op != "call_function" or node.target not in _MOVES:
        what = f"'{node.target}' made{place(node)}" if node.op == "call_function" else f"a {node.op}"
        raise refuse(f"targets that the loss takes as they are given, found what {what},")
    args, kwargs = torch.fx.node.map_arg(
        (node.args, dict(node.kwargs)), lambda operand: _move(operand, ignored, sources, refuse)
    )
    if node.target is aten._to_copy.default:
        return args[0]
    if node.target is aten.constant_pad_nd.default:
        if (args[2] if len(args) > 2 else 0) != ignored:
            raise refuse(f"padding of targets with {ignored}, which the loss ignores,")
        return aten.constant_pad_nd(args[0], args[1], -1)
    return node.target(*args, **kwargs)
