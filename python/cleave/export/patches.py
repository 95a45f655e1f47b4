"""Replacements for blocks of known libraries that no trace can hold, by name.

The experts of these blocks loop over `nonzero`, so sizes depend on data. Here each expert computes every token, and
what belongs to it is added in the order in which the original adds, so that results have the same bits. Gradients
of experts are the original's but for rounding: they sum over all tokens, most of which add zero. An expert that no token
chose has gradients of zeros, where the original has none.
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


@dataclasses.dataclass(frozen=True)
class Patch:
    """forward: instead of the class's. source: the digest of the one that it was written for."""

    forward: Callable
    source: str


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


_MODELS = "transformers.models."
PATCHES = {
    f"{_MODELS}mixtral.modeling_mixtral.MixtralSparseMoeBlock": Patch(_mixtral, "16ab473c41862c54"),
    f"{_MODELS}qwen3_moe.modeling_qwen3_moe.Qwen3MoeSparseMoeBlock": Patch(_qwen3, "21b88637319fb0e3"),
    f"{_MODELS}gpt_oss.modeling_gpt_oss.GptOssExperts": Patch(_gpt_oss, "75a704441aeefa1e"),
}


@contextlib.contextmanager
def patched(module: nn.Module, notes: list[str]) -> Iterator[None]:
    """While this is entered, the classes of the module's blocks that PATCHES names compute by their patch.

    Adds a note for each. Raises ExportError for a class that is not as it was when its patch was written.
    """
    before = []
    try:
        for kind in dict.fromkeys(map(type, module.modules())):
            name = f"{kind.__module__}.{kind.__qualname__}"
            if name not in PATCHES:
                continue
            patch, forward = PATCHES[name], kind.__dict__["forward"]
            if source_digest(forward) != patch.source:
                raise ExportError(
                    f"{name}.forward loops over experts that data choose, and is not the one of transformers 4.57 "
                    "that has a replacement; install that version"
                )
            before.append((kind, forward))
            kind.forward = patch.forward
            notes.append(
                f"{name} is traced as a loop in which each expert computes every token, since sizes in its own depend on "
                "data: gradients are rounded differently, and an expert that no token chose gets gradients of zeros"
            )
        yield
    finally:
        for kind, forward in before:
            kind.forward = forward


def source_digest(forward: Callable) -> str:
    return hashlib.sha256(inspect.getsource(forward).encode()).hexdigest()[:16]
