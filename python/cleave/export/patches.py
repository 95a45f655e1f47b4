"""Replacements for blocks of known libraries that no trace can hold, by name.

Gemma 3 checks that an image's features are as many as its tokens, which is a size that depends on data. The place of
features is the same without the check.

The experts of transformers' blocks loop over `nonzero`, so sizes depend on data. Here rows of tokens are sorted by expert and
multiplied by `torch._grouped_mm`, whose sizes are static: the original's products of the same rows in the same order. What an
expert computes is added in the order in which the original adds. So results have the same bits. Gradients are the original's
but for rounding: those of weights can be transposed products, and those of tokens add up what three or more experts give in
another order. Experts that are modules of their own, and are not as the library makes them (adapters, hooks), compute every
token instead. An expert that no token chose has gradients of zeros, where the original has none.

Funnel makes ranges whose ends are numbers of tensors that the length alone decides. ProphetNet writes into views of
constants. Here both are made of numbers, and are the same. Switch Transformers' experts are sorted rows as above, without
dropout: each draws masks for as many rows as it gets.

Speech models (Wav2Vec 2 and its kin) set `requires_grad` of their input, for the sake of reentrant checkpoints. No trace can, and
nothing takes that gradient.

Speech models take the targets that a CTC loss counts out of their labels, one after another. Here those of an example come first in
its row.

DETR and its kin ask whether a layer's results are finite, and clamp them where one is not. Clamping changes none that is: here it is
not asked.

Spectral normalization gives its vectors, which it has changed in place, to the module once more, where a trace sees new
tensors. They are changed just so without it.

RecurrentGemma leaves out a normalization where torch.compile traces it, which would train another model than eager mode does.

torchtitan's blocks sort tokens by expert and multiply by `torch._grouped_mm`, whose sizes are static. They are traced as
they are, but for what only a GPU has: counts of integers, and the padding of groups, whose indices a Triton kernel
writes. Without the padding, products are those of groups of other sizes, which some kernels round differently.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import inspect
import sys
import types
from collections.abc import Callable, Iterator

import torch
from torch import nn

from cleave.export.errors import ExportError
from cleave.export.pytorch import grouped_mm


@dataclasses.dataclass(frozen=True)
class Patch:
    """note: what its user should know.
    forward: instead of the class's, or of its `method`, which `why` has no trace.
    source: the digest of the method that this was written for, and of the functions of its module that `calls` names;
        several where releases differ in comments.
    library: where that is.
    functions: what else is replaced: modules (None for the class's own), names and functions.
    fits: whether this is right for a block; where it is not for one of the module's, `otherwise` is taken for all, or it is
        refused with `unless`, which says what to set.
    """

    note: str
    forward: Callable | None = None
    source: str | tuple[str, ...] = ""
    library: str = ""
    why: str = ""
    calls: tuple[str, ...] = ()
    functions: tuple[tuple[object, str, Callable], ...] = ()
    method: str = "forward"
    fits: Callable[[nn.Module], bool] | None = None
    otherwise: Patch | None = None
    unless: str = ""

    @property
    def sources(self) -> tuple[str, ...]:
        return (self.source,) if isinstance(self.source, str) else self.source


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


def _image_tokens(self, input_ids, inputs_embeds, image_features):
    """Where images' features go, for each element of the embeddings."""
    if input_ids is not None:
        is_image = input_ids == self.config.image_token_id
    else:
        number = torch.tensor(self.config.image_token_id, dtype=torch.long, device=inputs_embeds.device)
        is_image = (inputs_embeds == self.get_input_embeddings()(number)).all(-1)
    return is_image.unsqueeze(-1).expand_as(inputs_embeds)


def _funnel_position_embeds(self, seq_len, dtype, device):
    """As the original, with positions as numbers."""
    width = self.config.d_model // 2
    freq_seq = torch.arange(0, width, 1.0, dtype=torch.int64, device=device).to(dtype)
    inv_freq = 1 / (10000 ** (freq_seq / width))
    if self.config.attention_type == "factorized":
        pos_seq = torch.arange(0, seq_len, 1.0, dtype=torch.int64, device=device).to(dtype)
        sinusoid = pos_seq[:, None] * inv_freq[None]
        sin_embed, cos_embed = torch.sin(sinusoid), torch.cos(sinusoid)
        sin_dropped, cos_dropped = self.sin_dropout(sin_embed), self.cos_dropout(cos_embed)
        return (
            torch.cat([sin_dropped, sin_dropped], dim=-1), torch.cat([cos_dropped, cos_dropped], dim=-1),
            torch.cat([cos_embed, sin_embed], dim=-1), torch.cat([-sin_embed, cos_embed], dim=-1),
        )  # fmt: skip
    places = torch.arange(-seq_len * 2, seq_len * 2, 1.0, dtype=torch.int64, device=device).to(dtype)
    sinusoid = places[:, None] * inv_freq[None]
    sin_embed = self.sin_dropout(torch.sin(sinusoid))
    cos_embed = self.cos_dropout(torch.cos(sinusoid))
    embeds = torch.cat([sin_embed, cos_embed], dim=-1)

    def between(pos, stride, pooled, shift):
        first = pooled[0] - pos[0] + shift * len(pooled) * stride
        relative = torch.arange(first, pooled[0] - pos[-1] - 1, -stride, dtype=torch.long, device=device)
        relative = relative[:, None] + 2 * seq_len
        return torch.gather(embeds, 0, relative.expand(relative.size(0), self.config.d_model))

    found, pos = [], list(range(seq_len))
    for block in range(self.config.num_blocks):
        pooling = None
        if block > 0:
            pooled = pos[::2]
            if self.config.separate_cls:
                pooled = [1 - 2**block, *(pos[1:-1] if self.config.truncate_seq else pos[1:])[::2]]
            pooling = between(pos, 2 ** (block - 1), pooled, 2)
            pos = pooled
        found.append([between(pos, 2**block, pos, 1), pooling])
    return found


def _ngram_attention_bias(sequence_length, ngram, device, dtype):
    least = torch.finfo(dtype).min
    whole = torch.full((sequence_length, sequence_length), least, device=device, dtype=dtype)
    right = whole.masked_fill(torch.eye(sequence_length, dtype=torch.bool, device=device), 0)
    first = torch.arange(sequence_length, device=device) == 0
    left = torch.stack([whole.triu(1 - stream).masked_fill(first, 0) for stream in range(ngram)])
    return torch.cat([left, right.expand_as(left)], dim=2)


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


@torch.no_grad()
def _power_method(self, weight_mat, n_power_iterations):
    for _ in range(n_power_iterations):
        nn.functional.normalize(torch.mv(weight_mat, self._v), dim=0, eps=self.eps, out=self._u)
        nn.functional.normalize(torch.mv(weight_mat.H, self._u), dim=0, eps=self.eps, out=self._v)


def _speech_features(self, input_values):
    hidden_states = input_values[:, None]
    for layer in self.conv_layers:
        hidden_states = layer(hidden_states)
    return hidden_states


def _speech_ctc(
    self, input_values, attention_mask=None, output_attentions=None, output_hidden_states=None, return_dict=None, labels=None
):
    return_dict = return_dict if return_dict is not None else self.config.use_return_dict
    outputs = getattr(self, self.base_model_prefix.replace("-", "_"))(
        input_values, attention_mask=attention_mask, output_attentions=output_attentions,
        output_hidden_states=output_hidden_states, return_dict=return_dict,
    )  # fmt: skip
    logits = self.lm_head(self.dropout(outputs[0]))
    loss = None
    if labels is not None:
        mask = attention_mask if attention_mask is not None else torch.ones_like(input_values, dtype=torch.long)
        lengths = self._get_feat_extract_output_lengths(mask.sum(-1)).to(torch.long)
        counts = (labels >= 0).sum(-1)
        targets = labels.gather(1, (labels < 0).long().argsort(dim=1, stable=True)).clamp(min=0)
        probabilities = nn.functional.log_softmax(logits, dim=-1, dtype=torch.float32).transpose(0, 1)
        loss = nn.functional.ctc_loss(
            probabilities, targets, lengths, counts, blank=self.config.pad_token_id,
            reduction=self.config.ctc_loss_reduction, zero_infinity=self.config.ctc_zero_infinity,
        )  # fmt: skip
    if not return_dict:
        output = (logits, *outputs[2:])
        return output if loss is None else (loss, *output)
    kind = sys.modules["transformers.modeling_outputs"].CausalLMOutput
    return kind(loss=loss, logits=logits, hidden_states=outputs.hidden_states, attentions=outputs.attentions)


def _speech(module: str, family: str, ctc: str) -> dict[str, Patch]:
    """ctc: the digest of the model with a CTC loss, whose source has the family's name."""
    name = f"{_MODELS}{module}.{family}"
    return {
        f"{name}FeatureEncoder": Patch(
            _NOT_LEAVES, _speech_features, "342f03c81a4ae0d7", "transformers 4.57", "asks for its input's gradient,"
        ),
        f"{name}ForCTC": Patch(_COUNTED, _speech_ctc, ctc, "transformers 4.57", "selects labels,"),
    }


class _Found:
    """Of an infinite number that is asked for."""

    def any(self) -> bool:
        return True


def _torch_that_finds_infinities() -> types.ModuleType:
    module = types.ModuleType("torch")
    vars(module).update(vars(torch), isinf=lambda input: _Found())
    return module


def _clamped(module: str, layer: str, source: str) -> dict[str, Patch]:
    """Of a layer that clamps results where one is not finite. Of float16 the bound is below the largest number."""
    patch = Patch(
        _CLAMPS, None, source, "transformers 4.57", "asks whether numbers are finite,",
        functions=((None, "torch", _torch_that_finds_infinities()),), unless="clamps by a branch in float16: use another type",
        fits=lambda block: all(parameter.dtype != torch.float16 for parameter in block.parameters()),
    )  # fmt: skip
    return {f"{_MODELS}{module}.{layer}EncoderLayer": patch}


_COUNTED = "takes each example's labels that count in a row, since how many they are depends on data: the same loss"
_CLAMPS = "clamps its results without asking whether one is infinite, since clamping changes no other: the same results"
_NOT_LEAVES = "is traced without asking for its input's gradient, which nothing uses"
_UNCOUNTED = (
    "is traced without the check that an image's features are as many as its tokens, a size that depends on data: too few are "
    "an error when the program runs, and of too many the first are taken"
)
_CAST = "is traced without casting its layer, which has the type already"
_POSITIONS = "computes positions as numbers, since sizes in its own depend on a tensor's: they are the same"
_BIAS = "makes its attention's bias without writing into views of it, which no trace can hold: it is the same"
_IN_PLACE = "changes its vectors in place alone, without giving them to the module once more: they are the same"
_NORMALIZED = "is traced with the normalization that its source leaves out where torch.compile traces it"
_MODELS = "transformers.models."
_MOE = "torchtitan.models.moe.moe."
_GATED, _GATED_SOURCE = ("gate_proj", "up_proj", "down_proj"), "03df2d7685cf8446"
_MIXTRAL = _sparse_experts(_mixtral, "16ab473c41862c54", ("w1", "w3", "w2"), "725157515d19e80f")
_QWEN3 = _sparse_experts(_qwen3, "21b88637319fb0e3", _GATED, _GATED_SOURCE)
_OLMOE = _sparse_experts(_qwen3, "e124b2dc9d922f2e", _GATED, _GATED_SOURCE)
_QWEN2 = _sparse_experts(_qwen2, "90d4dbc10f27aae9", _GATED, "43ad9e4df02576fa")
_QWEN3_NEXT = _sparse_experts(_qwen2, "90d4dbc10f27aae9", _GATED, _GATED_SOURCE)
_DEEPSEEK = _sparse_experts(_deepseek, "d829e6212e66ee23", _GATED, _GATED_SOURCE, method="moe")


def _sparse_families(patch: Patch, *families: str, block: str = "SparseMoeBlock") -> dict[str, Patch]:
    """Families of transformers whose blocks have one source."""
    return {f"{_MODELS}{family}{block}": patch for family in families}


_INTEGER_COUNTS = Patch(_COUNTS, functions=((torch, "histc", _histc),))
PATCHES = {
    **_sparse_families(_MIXTRAL, "mixtral.modeling_mixtral.Mixtral", "minimax.modeling_minimax.MiniMax"),
    **_sparse_families(
        _QWEN3, "qwen3_moe.modeling_qwen3_moe.Qwen3Moe", "qwen3_omni_moe.modeling_qwen3_omni_moe.Qwen3OmniMoeThinkerText"
    ),
    **_sparse_families(_OLMOE, "olmoe.modeling_olmoe.Olmoe", "flex_olmo.modeling_flex_olmo.FlexOlmo"),
    **_sparse_families(
        _QWEN3_NEXT, "qwen3_next.modeling_qwen3_next.Qwen3Next",
        "qwen3_omni_moe.modeling_qwen3_omni_moe.Qwen3OmniMoeTalkerText",
    ),
    **_sparse_families(_QWEN2, "qwen2_moe.modeling_qwen2_moe.Qwen2Moe"),
    **_sparse_families(
        _DEEPSEEK, "deepseek_v3.modeling_deepseek_v3.DeepseekV3", "glm4_moe.modeling_glm4_moe.Glm4Moe",
        "glm4v_moe.modeling_glm4v_moe.Glm4vMoeText", "dots1.modeling_dots1.Dots1", block="MoE",
    ),
    f"{_MODELS}gpt_oss.modeling_gpt_oss.GptOssExperts": _experts(_gpt_oss, "75a704441aeefa1e"),
    f"{_MODELS}gemma3.modeling_gemma3.Gemma3Model": Patch(
        _UNCOUNTED, _image_tokens, "77052b38fe9df90d", "transformers 4.57", "checks a size that depends on data,",
        method="get_placeholder_mask",
    ),
    f"{_MODELS}funnel.modeling_funnel.FunnelAttentionStructure": Patch(
        _POSITIONS, _funnel_position_embeds, "37e138dc76bc0632", "transformers 4.57", "makes sizes of a tensor's numbers,",
        ("FunnelAttentionStructure",), method="get_position_embeds",
    ),
    f"{_MODELS}prophetnet.modeling_prophetnet.ProphetNetDecoder": Patch(
        _BIAS, None, "256c92118dd84f29", "transformers 4.57", "writes into views,", ("ngram_attention_bias",),
        ((None, "ngram_attention_bias", _ngram_attention_bias),), method="prepare_predict_attention_mask",
    ),
    f"{_MODELS}switch_transformers.modeling_switch_transformers.SwitchTransformersSparseMLP": dataclasses.replace(
        _experts(_switch, "4f78ea0188e551e0"), fits=_is_plain_switch,
        unless="draws dropout for as many rows as data choose, and casts its router while it runs: set dropout_rate=0.0, and "
        "router_dtype to the type of its parameters",
    ),
    f"{_MODELS}switch_transformers.modeling_switch_transformers.SwitchTransformersTop1Router": Patch(
        _CAST, lambda self: None, "ea1cdf84a305bc1f", "transformers 4.57", "casts a layer while it runs,", method="_cast_classifier",
    ),
    f"{_MODELS}recurrent_gemma.modeling_recurrent_gemma.RecurrentGemmaRglru": Patch(
        _NORMALIZED, functions=((None, "is_torchdynamo_compiling", lambda: False),)
    ),
    "torch.nn.utils.parametrizations._SpectralNorm": Patch(
        _IN_PLACE, _power_method, ("819b8dd56b2b4b61", "945a7dab8d21f05a"), "PyTorch 2.11 to 2.15",
        "assigns its buffers,", method="_power_method",
    ),
    **_speech("wav2vec2.modeling_wav2vec2", "Wav2Vec2", "c0e242c7f2e7efb9"),
    **_speech("wav2vec2_conformer.modeling_wav2vec2_conformer", "Wav2Vec2Conformer", "34b1b583348e1da6"),
    **_speech("hubert.modeling_hubert", "Hubert", "06ec6e715eb5445f"),
    **_speech("wavlm.modeling_wavlm", "WavLM", "bbff1b6b559aabc6"),
    **_speech("unispeech.modeling_unispeech", "UniSpeech", "f97e879b4dcd0b02"),
    **_speech("unispeech_sat.modeling_unispeech_sat", "UniSpeechSat", "bf4baf0e10a2a921"),
    **_speech("data2vec.modeling_data2vec_audio", "Data2VecAudio", "e9e932e7b8250e1b"),
    **_speech("sew.modeling_sew", "SEW", "98ea14003ca22f4c"),
    **_speech("sew_d.modeling_sew_d", "SEWD", "edd9ea0a41bb49c9"),
    **_clamped("detr.modeling_detr", "Detr", "3a04a8c9b513d20c"),
    **_clamped("conditional_detr.modeling_conditional_detr", "ConditionalDetr", "3a04a8c9b513d20c"),
    **_clamped("table_transformer.modeling_table_transformer", "TableTransformer", "7aa8340697412b70"),
    **_clamped("deformable_detr.modeling_deformable_detr", "DeformableDetr", "1ab4faf50a2b4d4d"),
    **_clamped("rt_detr.modeling_rt_detr", "RTDetr", "88fc90065aa5b6fd"),
    **_clamped("rt_detr_v2.modeling_rt_detr_v2", "RTDetrV2", "88fc90065aa5b6fd"),
    **_clamped("d_fine.modeling_d_fine", "DFine", "88fc90065aa5b6fd"),
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
            if patch.fits and not all(patch.fits(block) for block in module.modules() if type(block) is kind):
                if patch.otherwise is None:
                    raise ExportError(f"{name} {patch.unless}")
                patch = patch.otherwise
            if patch.source:
                method = kind.__dict__[patch.method]
                if source_digest(method, patch.calls) not in patch.sources:
                    raise ExportError(
                        f"{name}.{patch.method} {patch.why} and is not the one of {patch.library} that has a replacement; "
                        "install that version"
                    )
            if patch.forward:
                _replace(undone, kind, patch.method, patch.forward)
            for owner, function, replacement in patch.functions:
                _replace(undone, owner or sys.modules[kind.__module__], function, replacement)
            notes.append(f"{name} {patch.note}")
        yield


def _replace(undone: contextlib.ExitStack, owner: object, name: str, value: Callable):
    undone.callback(setattr, owner, name, vars(owner)[name])
    setattr(owner, name, value)


def source_digest(method: Callable, calls: tuple[str, ...] = ()) -> str:
    """Of a method and the functions that it calls; none where one of them has no source."""
    module = inspect.getmodule(method)
    try:
        text = "".join(inspect.getsource(f) for f in (method, *(getattr(module, name) for name in calls)))
    except (AttributeError, OSError, TypeError):
        return ""
    return hashlib.sha256(text.encode()).hexdigest()[:16]
