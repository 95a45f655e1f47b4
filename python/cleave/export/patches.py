"""Replacements for blocks of known libraries that no trace can hold, by name.

The experts of transformers' blocks loop over `nonzero`, so sizes depend on data. Here each expert computes every token, and
what belongs to it is added in the order in which the original adds, so that results have the same bits. Gradients
of experts are the original's but for rounding: they sum over all tokens, most of which add zero. An expert that no token
chose has gradients of zeros, where the original has none.

torchtitan's blocks sort tokens by expert and multiply by `torch._grouped_mm`, whose sizes are static. They are traced as
they are, but for what only a GPU has: counts of integers, and the padding of groups, whose indices a Triton kernel
writes. Without the padding, products are those of groups of other sizes, which some kernels round differently.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import inspect
from collections.abc import Callable, Iterator

import torch
from torch import nn

from cleave.export.errors import ExportError
from cleave.export.pytorch import grouped_mm


@dataclasses.dataclass(frozen=True)
class Patch:
    """note: what its user should know.
    forward: instead of the class's, which `why` has no trace.
    source: the digest of the forward that this was written for, and of the functions of its module that `calls` names.
    library: where that is.
    functions: what else is replaced: modules, names and functions.
    """

    note: str
    forward: Callable | None = None
    source: str = ""
    library: str = ""
    why: str = ""
    calls: tuple[str, ...] = ()
    functions: tuple[tuple[object, str, Callable], ...] = ()


def _sparse_block(self, hidden_states, normalized: bool):
    tokens = hidden_states.view(-1, hidden_states.shape[-1])
    logits = self.gate(tokens)
    weights, chosen = torch.topk(logits.softmax(1, dtype=torch.float), self.top_k, dim=-1)
    if normalized:
        weights /= weights.sum(dim=-1, keepdim=True)
    weights = weights.to(tokens.dtype)
    total = torch.zeros_like(tokens)
    for number, expert in enumerate(self.experts):
        is_chosen = chosen == number
        weight = torch.where(is_chosen, weights, 0).sum(-1, keepdim=True)  # one term at most
        # Through a view, so that an expert's gradients are added to each other before they are to the others'.
        added = total + (expert(tokens.view_as(tokens)) * weight).to(tokens.dtype)
        total = torch.where(is_chosen.any(-1, keepdim=True), added, total)
    return total.reshape(hidden_states.shape), logits


def _mixtral(self, hidden_states):
    if self.training and self.jitter_noise > 0:
        low, high = 1.0 - self.jitter_noise, 1.0 + self.jitter_noise
        hidden_states *= torch.empty_like(hidden_states).uniform_(low, high)
    return _sparse_block(self, hidden_states, True)


def _qwen3(self, hidden_states):
    return _sparse_block(self, hidden_states, self.norm_topk_prob)


def _gpt_oss(self, hidden_states, router_indices=None, routing_weights=None):
    tokens = hidden_states.reshape(-1, self.hidden_size)
    total = torch.zeros_like(tokens)
    for number in range(routing_weights.shape[1]):
        gate_up = tokens @ self.gate_up_proj[number] + self.gate_up_proj_bias[number]
        gate = gate_up[..., ::2].clamp(max=self.limit)
        up = gate_up[..., 1::2].clamp(min=-self.limit, max=self.limit)
        gated = (up + 1) * (gate * torch.sigmoid(gate * self.alpha))
        out = gated @ self.down_proj[number] + self.down_proj_bias[number]
        added = total + (out * routing_weights[:, number, None]).to(tokens.dtype)
        total = torch.where((router_indices == number).any(-1, keepdim=True), added, total)
    return total.view(hidden_states.shape[0], -1, self.hidden_size)


_HISTC = torch.histc


def _histc(input, bins=100, min=0, max=0):
    """Of integers through float64, exact below 2**53: a CPU has no other."""
    if input.is_floating_point():
        return _HISTC(input, bins, min, max)
    return _HISTC(input.double(), bins, min, max).to(input.dtype)


def _grouped_experts(self, x, num_tokens_per_expert):
    # The loop over experts has no casts. In float64 there are none either: bfloat16 would hide what is compared.
    cast = self.use_grouped_mm and x.dtype != torch.float64
    dtype = torch.bfloat16 if cast else x.dtype
    ends = torch.cumsum(num_tokens_per_expert, dim=0, dtype=torch.int32)

    def times(rows, weight):
        # Each use is converted by itself, so that gradients are added after their conversion.
        return grouped_mm(rows.to(dtype), weight.to(dtype).transpose(-2, -1), offs=ends)

    hidden = torch.nn.functional.silu(times(x, self.w1))
    hidden = hidden * times(x, self.w3)
    return times(hidden, self.w2).type_as(x)


_ONE_BY_ONE = (
    "is traced as a loop in which each expert computes every token, since sizes in its own depend on data: gradients are "
    "rounded differently, and an expert that no token chose gets gradients of zeros"
)
_COUNTS = "counts integers through float64, since a CPU's torch.histc takes none: the counts are the same"
_GROUPS = (
    "multiplies groups without padding them, since a Triton kernel writes the padding's indices: some kernels round rows of "
    "a group of another size differently"
)


def _loop(forward: Callable, source: str) -> Patch:
    return Patch(_ONE_BY_ONE, forward, source, "transformers 4.57", "loops over experts that data choose,")


_MODELS = "transformers.models."
_MOE = "torchtitan.models.moe.moe."
_INTEGER_COUNTS = Patch(_COUNTS, functions=((torch, "histc", _histc),))
PATCHES = {
    f"{_MODELS}mixtral.modeling_mixtral.MixtralSparseMoeBlock": _loop(_mixtral, "16ab473c41862c54"),
    f"{_MODELS}qwen3_moe.modeling_qwen3_moe.Qwen3MoeSparseMoeBlock": _loop(_qwen3, "21b88637319fb0e3"),
    f"{_MODELS}gpt_oss.modeling_gpt_oss.GptOssExperts": _loop(_gpt_oss, "75a704441aeefa1e"),
    f"{_MOE}TokenChoiceTopKRouter": _INTEGER_COUNTS,
    f"{_MOE}TokenReorderer": _INTEGER_COUNTS,
    f"{_MOE}GroupedExperts": Patch(
        _GROUPS, _grouped_experts, "c488b4bf54d67975", "torchtitan 0.2.2", "runs a Triton kernel, or a loop over data,",
        ("_run_experts_grouped_mm", "_run_experts_for_loop", "indices_padding_wrapper"),
    ),
}  # fmt: skip


@contextlib.contextmanager
def patched(module: nn.Module, notes: list[str]) -> Iterator[None]:
    """While this is entered, the classes of the module's blocks that PATCHES names compute by their patch.

    Adds a note for each. Raises ExportError for a class that is not as it was when its patch was written.
    """
    with contextlib.ExitStack() as undone:
        for kind in dict.fromkeys(map(type, module.modules())):
            name = f"{kind.__module__}.{kind.__qualname__}"
            if name not in PATCHES:
                continue
            patch = PATCHES[name]
            if patch.forward:
                forward = kind.__dict__["forward"]
                if source_digest(forward, patch.calls) != patch.source:
                    raise ExportError(
                        f"{name}.forward {patch.why} and is not the one of {patch.library} that has a replacement; "
                        "install that version"
                    )
                _replace(undone, kind, "forward", patch.forward)
            for owner, function, replacement in patch.functions:
                _replace(undone, owner, function, replacement)
            notes.append(f"{name} {patch.note}")
        yield


def _replace(undone: contextlib.ExitStack, owner: object, name: str, value: Callable):
    undone.callback(setattr, owner, name, vars(owner)[name])
    setattr(owner, name, value)


def source_digest(forward: Callable, calls: tuple[str, ...] = ()) -> str:
    """Of a forward and the functions that it calls; none where one of them has no source."""
    module = inspect.getmodule(forward)
    try:
        text = "".join(inspect.getsource(f) for f in (forward, *(getattr(module, name) for name in calls)))
    except (AttributeError, OSError, TypeError):
        return ""
    return hashlib.sha256(text.encode()).hexdigest()[:16]
