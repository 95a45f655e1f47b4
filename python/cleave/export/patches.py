"""Replacements for blocks of known libraries that no trace can hold, by name.

Gemma 3 checks that an image's features are as many as its tokens, which is a size that depends on data. The place of
features is the same without the check.

ProphetNet writes into views of constants. Here these are made of numbers, and are the same.

Speech models (Wav2Vec 2 and its kin) set `requires_grad` of their input, for the sake of reentrant checkpoints. No trace can, and
nothing takes that gradient.

Speech models take the targets that a CTC loss counts out of their labels, one after another. Here those of an example come first in
its row.

DETR and its kin ask whether a layer's results are finite, and clamp them where one is not. Clamping changes none that is: here it is
not asked.

Spectral normalization gives its vectors, which it has changed in place, to the module once more, where a trace sees new
tensors. They are changed just so without it.

RecurrentGemma leaves out a normalization where torch.compile traces it, which would train another model than eager mode does.

PyTorch's adaptive softmax computes each cluster of classes for the targets in it. Here each is computed for all, and those in it
are taken.

Mamba's layers ask whether a mask hides nothing, and leave it out then. Here it is not asked: to multiply by ones changes nothing.

Those for experts are in expert_blocks.py.
"""

from __future__ import annotations

import contextlib
import sys
import types
from collections.abc import Callable, Iterator

import torch
from torch import nn

from cleave.export.errors import ExportError
from cleave.export.expert_blocks import EXPERT_BLOCKS
from cleave.export.patch import Patch, source_digest


def _image_tokens(self, input_ids, inputs_embeds, image_features):
    """Where images' features go, for each element of the embeddings."""
    if input_ids is not None:
        is_image = input_ids == self.config.image_token_id
    else:
        number = torch.tensor(self.config.image_token_id, dtype=torch.long, device=inputs_embeds.device)
        is_image = (inputs_embeds == self.get_input_embeddings()(number)).all(-1)
    return is_image.unsqueeze(-1).expand_as(inputs_embeds)


def _ngram_attention_bias(sequence_length, ngram, device, dtype):
    least = torch.finfo(dtype).min
    whole = torch.full((sequence_length, sequence_length), least, device=device, dtype=dtype)
    right = whole.masked_fill(torch.eye(sequence_length, dtype=torch.bool, device=device), 0)
    first = torch.arange(sequence_length, device=device) == 0
    left = torch.stack([whole.triu(1 - stream).masked_fill(first, 0) for stream in range(ngram)])
    return torch.cat([left, right.expand_as(left)], dim=2)


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


def _adaptive_softmax(self, input_, target_):
    input, target = (input_, target_) if target_.dim() else (input_.unsqueeze(0), target_.unsqueeze(0))
    output, chosen = input.new_zeros(len(target)), target
    for number, (low, high) in enumerate(zip(self.cutoffs, self.cutoffs[1:])):
        is_in = (target >= low) & (target < high)
        cluster = nn.functional.log_softmax(self.tail[number](input), dim=1)
        local = cluster.gather(1, torch.where(is_in, target - low, 0).unsqueeze(1)).squeeze(1)
        output = torch.where(is_in, local, output)
        chosen = torch.where(is_in, self.shortlist_size + number, chosen)
    head = nn.functional.log_softmax(self.head(input), dim=1)
    output = output + head.gather(1, chosen.unsqueeze(1)).squeeze(1)
    loss = (-output).mean()
    return sys.modules["torch.nn.modules.adaptive"]._ASMoutput(output if target_.dim() else output.squeeze(0), loss)


def _padding_mask(self, attention_mask, cache_position):
    return None if cache_position[0] > 0 else attention_mask


def _padded(module: str, family: str, method: str = "_update_mamba_mask", source: str = "a07efa7b5876f75c") -> dict[str, Patch]:
    """Of a model whose layers multiply by a mask of padding."""
    patch = Patch(_MASKED, _padding_mask, source, "transformers 4.57", "asks whether a mask hides nothing,", method=method)
    return {f"{_MODELS}{module}.{family}Model": patch}


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
_CLUSTERS = (
    "computes each cluster of classes for every target, since sizes in its own depend on data: results are rounded differently, a "
    "cluster without a target gets gradients of zeros, and a target that is no class is an error when the program runs"
)
_MASKED = "multiplies by its mask without asking whether it hides something, since ones change nothing: the same results"
_NOT_LEAVES = "is traced without asking for its input's gradient, which nothing uses"
_UNCOUNTED = (
    "is traced without the check that an image's features are as many as its tokens, a size that depends on data: too few are "
    "an error when the program runs, and of too many the first are taken"
)
_CAST = "is traced without casting its layer, which has the type already"
_BIAS = "makes its attention's bias without writing into views of it, which no trace can hold: it is the same"
_IN_PLACE = "changes its vectors in place alone, without giving them to the module once more: they are the same"
_NORMALIZED = "is traced with the normalization that its source leaves out where torch.compile traces it"
_MODELS = "transformers.models."
PATCHES = {
    **EXPERT_BLOCKS,
    f"{_MODELS}gemma3.modeling_gemma3.Gemma3Model": Patch(
        _UNCOUNTED, _image_tokens, "77052b38fe9df90d", "transformers 4.57", "checks a size that depends on data,",
        method="get_placeholder_mask",
    ),
    f"{_MODELS}prophetnet.modeling_prophetnet.ProphetNetDecoder": Patch(
        _BIAS, None, "256c92118dd84f29", "transformers 4.57", "writes into views,", ("ngram_attention_bias",),
        ((None, "ngram_attention_bias", _ngram_attention_bias),), method="prepare_predict_attention_mask",
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
    "torch.nn.modules.adaptive.AdaptiveLogSoftmaxWithLoss": Patch(
        _CLUSTERS, _adaptive_softmax, ("d82d7fde4e069c53", "8a8baf9001aa7141"), "PyTorch 2.11 to 2.15", "selects targets,"
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
    **_padded("bamba.modeling_bamba", "Bamba"),
    **_padded("falcon_h1.modeling_falcon_h1", "FalconH1"),
    **_padded("granitemoehybrid.modeling_granitemoehybrid", "GraniteMoeHybrid"),
    **_padded("jamba.modeling_jamba", "Jamba"),
    **_padded("qwen3_next.modeling_qwen3_next", "Qwen3Next", "_update_linear_attn_mask", "b0b5aeb3e01b681a"),
    **_clamped("detr.modeling_detr", "Detr", "3a04a8c9b513d20c"),
    **_clamped("conditional_detr.modeling_conditional_detr", "ConditionalDetr", "3a04a8c9b513d20c"),
    **_clamped("table_transformer.modeling_table_transformer", "TableTransformer", "7aa8340697412b70"),
    **_clamped("deformable_detr.modeling_deformable_detr", "DeformableDetr", "1ab4faf50a2b4d4d"),
    **_clamped("rt_detr.modeling_rt_detr", "RTDetr", "88fc90065aa5b6fd"),
    **_clamped("rt_detr_v2.modeling_rt_detr_v2", "RTDetrV2", "88fc90065aa5b6fd"),
    **_clamped("d_fine.modeling_d_fine", "DFine", "88fc90065aa5b6fd"),
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
