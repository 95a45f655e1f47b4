"""Replacements for blocks of experts, which loop over what data choose.

The experts of transformers' blocks loop over `nonzero`, so sizes depend on data. Here rows of tokens are sorted by expert and
multiplied by `torch._grouped_mm`, whose sizes are static: the original's products of the same rows in the same order. What an
expert computes is added in the order in which the original adds. So results have the same bits. Gradients are the original's
but for rounding: those of weights can be transposed products, and those of tokens add up what three or more experts give in
another order. Experts that are modules of their own, and are not as the library makes them (adapters, hooks), compute every
token instead. An expert that no token chose has gradients of zeros, where the original has none.

Switch Transformers' experts are sorted rows as above, without dropout: each draws masks for as many rows as it gets.

Granite's and JetMoe's blocks sort rows themselves, and cut them into parts whose sizes are data. Here the parts are groups of
one product.

torchtitan's blocks sort tokens by expert and multiply by `torch._grouped_mm`, whose sizes are static. They are traced as
they are, but for what only a GPU has: counts of integers, and the padding of groups, whose indices a Triton kernel
writes. Without the padding, products are those of groups of other sizes, which some kernels round differently.
"""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable

import torch
from torch import nn

from cleave.export.patch import Patch, source_digest
from cleave.export.pytorch import grouped_mm


def _by_expert(tokens, chosen, weights, experts: int, compute, dtype=None):
    """What `compute` makes of each token for each expert that it chose, weighted and added for each token.

    compute: rows sorted by expert, the ends of each expert's rows and the experts by row, to rows.
    dtype: in which they are added; None: that of the tokens.
    """
    dtype = dtype or tokens.dtype
    slots = chosen.t()  # The original takes an expert's tokens by slot, too.
    by_row, places = slots.flatten().sort(stable=True)
    ends = _histc(by_row, experts, 0, experts).cumsum(0).to(torch.int32)
    rows = compute(tokens[places % len(tokens)], ends, by_row) * weights.t().flatten()[places, None]
    rows = rows.to(dtype)
    rows = torch.zeros_like(rows).index_put((places,), rows).view(*slots.shape, -1)
    if len(slots) > 2:  # The order of two terms does not matter.
        rows = rows.gather(0, slots.argsort(dim=0)[..., None].expand_as(rows))
    total = torch.zeros_like(tokens, dtype=dtype)
    for row in rows:
        total = total + row
    return total


def _times(rows, matrices, ends):
    """A product for each group of rows, in the type that autocast gives to any other product."""
    if torch.is_autocast_enabled("cpu"):
        dtype = torch.get_autocast_dtype("cpu")
        rows, matrices = rows.to(dtype), matrices.to(dtype)
    return grouped_mm(rows, matrices, offs=ends)


def _sparse_block(self, hidden_states, normalized: bool, add):
    tokens = hidden_states.view(-1, hidden_states.shape[-1])
    logits = self.gate(tokens)
    weights, chosen = torch.topk(logits.softmax(1, dtype=torch.float), self.top_k, dim=-1)
    if normalized:
        weights /= weights.sum(dim=-1, keepdim=True)
    return add(self.experts, tokens, chosen, weights.to(tokens.dtype)).reshape(hidden_states.shape), logits


def _grouped(gate: str, up: str, down: str) -> Callable:
    """Adds what experts with layers of these names compute, by products of their stacked weights."""

    def add(experts, tokens, chosen, weights, dtype=None):
        matrices = {
            name: torch.stack([getattr(expert, name).weight for expert in experts]).transpose(-2, -1)
            for name in (gate, up, down)
        }

        def compute(rows, ends, _):
            gated = experts[0].act_fn(_times(rows, matrices[gate], ends)) * _times(rows, matrices[up], ends)
            return _times(gated, matrices[down], ends)

        return _by_expert(tokens, chosen, weights, len(experts), compute, dtype)

    return add


def _each_on_all(experts, tokens, chosen, weights, dtype=None):
    """Adds what experts compute, whatever they are: each of all tokens."""
    total = torch.zeros_like(tokens, dtype=dtype)
    for number, expert in enumerate(experts):
        is_chosen = chosen == number
        weight = torch.where(is_chosen, weights, 0).sum(-1, keepdim=True)  # one term at most
        # Through a view, so that an expert's gradients are added to each other before they are to the others'.
        added = total + (expert(tokens.view_as(tokens)) * weight).to(total.dtype)
        total = torch.where(is_chosen.any(-1, keepdim=True), added, total)
    return total


def _mixtral(add: Callable) -> Callable:
    def forward(self, hidden_states):
        if self.training and self.jitter_noise > 0:
            low, high = 1.0 - self.jitter_noise, 1.0 + self.jitter_noise
            hidden_states *= torch.empty_like(hidden_states).uniform_(low, high)
        return _sparse_block(self, hidden_states, True, add)

    return forward


def _qwen3(add: Callable) -> Callable:
    def forward(self, hidden_states):
        return _sparse_block(self, hidden_states, self.norm_topk_prob, add)

    return forward


def _qwen2(add: Callable) -> Callable:
    """With an expert that all tokens share, and a gate for it."""

    def forward(self, hidden_states):
        routed, logits = _sparse_block(self, hidden_states, self.norm_topk_prob, add)
        tokens = hidden_states.view(-1, hidden_states.shape[-1])
        shared = self.shared_expert(tokens)
        shared = torch.nn.functional.sigmoid(self.shared_expert_gate(tokens)) * shared
        return routed + shared.view_as(routed), logits

    return forward


def _ernie(add: Callable) -> Callable:
    """Weights in float32, of experts chosen by corrected ones, and experts that all tokens share."""

    def forward(self, hidden_states):
        tokens = hidden_states.view(-1, hidden_states.shape[-1])
        shared = None if self.shared_experts is None else self.shared_experts(tokens)
        with torch.autocast(device_type=tokens.device.type, enabled=False):
            logits = self.gate(tokens.float())
            weights = logits.softmax(1, dtype=torch.float)
            _, chosen = torch.topk(self.moe_statics(weights), self.top_k, dim=-1)
            weights = torch.gather(weights, dim=-1, index=chosen)
            weights = weights / torch.clamp(weights.sum(dim=-1, keepdim=True), min=self.norm_min)
            weights = weights.to(tokens.dtype)
        total = add(self.experts, tokens, chosen, weights)
        if shared is not None:
            total = total + shared
        return total.reshape(hidden_states.shape), logits

    return forward


def _phimoe(add: Callable) -> Callable:
    """Two experts, drawn by the model's own function."""

    def forward(self, hidden_states):
        if self.training and self.input_jitter_noise > 0:
            low, high = 1.0 - self.input_jitter_noise, 1.0 + self.input_jitter_noise
            hidden_states *= torch.empty_like(hidden_states).uniform_(low, high)
        tokens = hidden_states.view(-1, hidden_states.shape[-1])
        logits = self.gate(tokens)
        draw = sys.modules[type(self).__module__].sparsemixer
        weights, chosen = draw(logits, jitter_eps=self.router_jitter_noise, training=self.training)
        return add(self.experts, tokens, chosen, weights).reshape(hidden_states.shape), logits

    return forward


def _jamba(add: Callable) -> Callable:
    def forward(self, hidden_states):
        tokens = hidden_states.view(-1, hidden_states.shape[-1])
        logits = self.router(tokens)
        weights, chosen = torch.topk(logits.softmax(1, dtype=torch.float), self.top_k, dim=-1)
        return add(self.experts, tokens, chosen, weights.to(tokens.dtype)).reshape(hidden_states.shape), logits

    return forward


def _deepseek(add: Callable) -> Callable:
    def moe(self, hidden_states, topk_indices, topk_weights):
        total = add(self.experts, hidden_states, topk_indices, topk_weights, topk_weights.dtype)
        return total.type(hidden_states.dtype)

    return moe


def _have_just_weights(layers: tuple[str, ...], source: str) -> Callable[[nn.Module], bool]:
    """Whether a block's experts are what the library makes: linear layers of these names, without adapters or hooks.

    source: the digest of an expert's forward.
    """

    def is_plain(part: nn.Module) -> bool:
        hooks = (part._forward_hooks, part._forward_pre_hooks, part._backward_hooks, part._backward_pre_hooks)
        return "forward" not in vars(part) and not any(hooks)

    def fits(block: nn.Module) -> bool:
        return all(
            source_digest(type(expert).forward) == source
            and type(expert.act_fn) is type(block.experts[0].act_fn)
            and all(map(is_plain, expert.modules()))
            and all(type(layer := getattr(expert, name)) is nn.Linear and layer.bias is None for name in layers)
            for expert in block.experts
        )  # fmt: skip

    return fits


def _gpt_oss(self, hidden_states, router_indices=None, routing_weights=None):
    tokens = hidden_states.reshape(-1, self.hidden_size)

    def compute(rows, ends, experts):
        gate_up = _times(rows, self.gate_up_proj, ends) + self.gate_up_proj_bias[experts]
        gate = gate_up[..., ::2].clamp(max=self.limit)
        up = gate_up[..., 1::2].clamp(min=-self.limit, max=self.limit)
        gated = (up + 1) * (gate * torch.sigmoid(gate * self.alpha))
        return _times(gated, self.down_proj, ends) + self.down_proj_bias[experts]

    weights = routing_weights.gather(1, router_indices)
    total = _by_expert(tokens, router_indices, weights, routing_weights.shape[1], compute)
    return total.view(hidden_states.shape[0], -1, self.hidden_size)


def _switch(self, hidden_states):
    mask, probabilities, logits = self.router(hidden_states)
    index = torch.argmax(mask, dim=-1)
    experts = list(self.experts.values())
    up, down = (
        torch.stack([getattr(expert, name).weight for expert in experts]).transpose(-2, -1) for name in ("wi", "wo")
    )
    tokens = hidden_states.reshape(-1, hidden_states.shape[-1])

    def compute(rows, ends, _):
        return _times(experts[0].act(_times(rows, up, ends)), down, ends)

    made = _by_expert(tokens, index.reshape(-1, 1), tokens.new_ones(len(tokens), 1), len(experts), compute)
    # What is beyond an expert's capacity stays zero.
    made = torch.where(mask.bool().any(-1, keepdim=True), made.view_as(hidden_states), 0)
    return probabilities * made, (logits, index)


def _is_plain_switch(block) -> bool:
    router = block.router
    return router.classifier.weight.dtype == router.dtype and not any(
        expert.training and expert.dropout.p > 0 for expert in block.experts.values()
    )


def _granite_gate(self, hidden_states):
    logits = self.layer(hidden_states).float()
    top_k_logits, top_k_indices = logits.topk(self.top_k, dim=1)
    top_k_gates = torch.softmax(top_k_logits, dim=1).type_as(hidden_states)
    by_row, index_sorted_experts = top_k_indices.flatten().sort(0)
    batch_index = index_sorted_experts.div(self.top_k, rounding_mode="trunc")
    batch_gates = top_k_gates.flatten()[index_sorted_experts]
    return index_sorted_experts, batch_index, batch_gates, _histc(by_row, self.num_experts, 0, self.num_experts), logits


def _granite_experts(self, inputs, expert_size):
    return _times(inputs, self.weight.transpose(-2, -1), expert_size.cumsum(0).to(torch.int32))


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


_SORTED = (
    "is traced as products of tokens sorted by expert, since sizes in its own depend on data: some gradients are rounded "
    "differently, and an expert that no token chose gets gradients of zeros"
)
_ONE_BY_ONE = (
    "is traced as a loop in which each expert computes every token, since sizes in its own depend on data, and its experts are "
    "not just the weights that their library gives them: gradients are rounded differently, and an expert that no token chose "
    "gets gradients of zeros"
)
_SIZES = "counts its experts' rows without making numbers of them, since sizes would depend on data: they are the same"
_COUNTS = "counts integers through float64, since a CPU's torch.histc takes none: the counts are the same"
_GROUPS = (
    "multiplies groups without padding them, since a Triton kernel writes the padding's indices: some kernels round rows of "
    "a group of another size differently"
)


def _experts(forward: Callable, source: str, note: str = _SORTED) -> Patch:
    return Patch(note, forward, source, "transformers 4.57", "loops over experts that data choose,")


def _sparse_experts(
    make: Callable, source: str, layers: tuple[str, str, str], expert_source: str, method: str = "forward"
) -> Patch:
    by_row, by_expert = _experts(make(_grouped(*layers)), source), _experts(make(_each_on_all), source, _ONE_BY_ONE)
    return dataclasses.replace(
        by_row, fits=_have_just_weights(layers, expert_source), method=method,
        otherwise=dataclasses.replace(by_expert, method=method),
    )  # fmt: skip


_MODELS = "transformers.models."
_MOE = "torchtitan.models.moe.moe."
_GATED, _GATED_SOURCE = ("gate_proj", "up_proj", "down_proj"), "03df2d7685cf8446"
_MIXTRAL = _sparse_experts(_mixtral, "16ab473c41862c54", ("w1", "w3", "w2"), "725157515d19e80f")
_QWEN3 = _sparse_experts(_qwen3, "21b88637319fb0e3", _GATED, _GATED_SOURCE)
_OLMOE = _sparse_experts(_qwen3, "e124b2dc9d922f2e", _GATED, _GATED_SOURCE)
_QWEN2 = _sparse_experts(_qwen2, "90d4dbc10f27aae9", _GATED, "43ad9e4df02576fa")
_ERNIE = _sparse_experts(_ernie, "9985442291c997f7", _GATED, _GATED_SOURCE)
_PHIMOE = _sparse_experts(_phimoe, "17bbc18e70820001", ("w1", "w3", "w2"), "725157515d19e80f")
_JAMBA = _sparse_experts(_jamba, "a77251f20f2c91e0", _GATED, _GATED_SOURCE)
_QWEN3_NEXT = _sparse_experts(_qwen2, "90d4dbc10f27aae9", _GATED, _GATED_SOURCE)
_DEEPSEEK = _sparse_experts(_deepseek, "d829e6212e66ee23", _GATED, _GATED_SOURCE, method="moe")


def _sparse_families(patch: Patch, *families: str, block: str = "SparseMoeBlock") -> dict[str, Patch]:
    """Families of transformers whose blocks have one source."""
    return {f"{_MODELS}{family}{block}": patch for family in families}


def _granite_families(**sources: str) -> dict[str, Patch]:
    """Families with Granite's gate; sources: the digests of their experts, by family."""
    found = {}
    for family, source in sources.items():
        name = f"{_MODELS}{family.lower()}.modeling_{family.lower()}.{family}"
        found[f"{name}TopKGating"] = _experts(_granite_gate, "a83a4201867ddc15", _SIZES)
        found[f"{name}ParallelExperts"] = _experts(_granite_experts, source)
    return found


_INTEGER_COUNTS = Patch(_COUNTS, functions=((torch, "histc", _histc),))
EXPERT_BLOCKS = {
    **_sparse_families(_MIXTRAL, "mixtral.modeling_mixtral.Mixtral", "minimax.modeling_minimax.MiniMax"),
    **_sparse_families(
        _QWEN3, "qwen3_moe.modeling_qwen3_moe.Qwen3Moe", "qwen3_omni_moe.modeling_qwen3_omni_moe.Qwen3OmniMoeThinkerText"
    ),
    **_sparse_families(_OLMOE, "olmoe.modeling_olmoe.Olmoe", "flex_olmo.modeling_flex_olmo.FlexOlmo"),
    **_sparse_families(
        _QWEN3_NEXT, "qwen3_next.modeling_qwen3_next.Qwen3Next",
        "qwen3_omni_moe.modeling_qwen3_omni_moe.Qwen3OmniMoeTalkerText",
    ),
    **_sparse_families(_ERNIE, "ernie4_5_moe.modeling_ernie4_5_moe.Ernie4_5_Moe"),
    **_sparse_families(_PHIMOE, "phimoe.modeling_phimoe.Phimoe"),
    **_sparse_families(_JAMBA, "jamba.modeling_jamba.Jamba"),
    **_sparse_families(_QWEN2, "qwen2_moe.modeling_qwen2_moe.Qwen2Moe"),
    **_sparse_families(
        _DEEPSEEK, "deepseek_v3.modeling_deepseek_v3.DeepseekV3", "glm4_moe.modeling_glm4_moe.Glm4Moe",
        "glm4v_moe.modeling_glm4v_moe.Glm4vMoeText", "dots1.modeling_dots1.Dots1", block="MoE",
    ),
    f"{_MODELS}gpt_oss.modeling_gpt_oss.GptOssExperts": _experts(_gpt_oss, "75a704441aeefa1e"),
    **_granite_families(
        GraniteMoe="7c88fbebdad42240", GraniteMoeShared="db70cc9bc2f0b055", GraniteMoeHybrid="468bf2d231e4842c",
        JetMoe="8b3dc71286eb7c1a",
    ),
    f"{_MODELS}switch_transformers.modeling_switch_transformers.SwitchTransformersSparseMLP": dataclasses.replace(
        _experts(_switch, "4f78ea0188e551e0"), fits=_is_plain_switch,
        unless="draws dropout for as many rows as data choose, and casts its router while it runs: set dropout_rate=0.0, and "
        "router_dtype to the type of its parameters",
    ),
    f"{_MOE}TokenChoiceTopKRouter": _INTEGER_COUNTS,
    f"{_MOE}TokenReorderer": _INTEGER_COUNTS,
    f"{_MOE}GroupedExperts": Patch(
        _GROUPS, _grouped_experts, "c488b4bf54d67975", "torchtitan 0.2.2", "runs a Triton kernel, or a loop over data,",
        ("_run_experts_grouped_mm", "_run_experts_for_loop", "indices_padding_wrapper"),
    ),
}  # fmt: skip
