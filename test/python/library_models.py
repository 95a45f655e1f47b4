"""Small models of installed libraries, with random weights: not written for Cleave."""

import dataclasses

import cleave_path  # noqa: F401
import cleave
import torch
import torch.nn.functional as F


def t5():
    """Its embedding has four names."""
    from transformers import T5Config, T5ForConditionalGeneration

    config = T5Config(
        vocab_size=64, d_model=16, d_kv=8, d_ff=32, num_layers=2, num_heads=2, decoder_start_token_id=0
    )
    # Without a mask eager mode makes one, and a traced T5 none: it asks whether it is compiled.
    return _language_model(T5ForConditionalGeneration, config, "t5", attention_mask=torch.ones(2, 8))


def mamba():
    """PyTorch's fake kernels give other strides than its kernels do."""
    from transformers import MambaConfig, MambaForCausalLM

    config = MambaConfig(
        vocab_size=64, hidden_size=16, state_size=4, num_hidden_layers=2, time_step_rank=4
    )
    return _language_model(MambaForCausalLM, config, "mamba")


def convnextv2():
    from transformers import ConvNextV2Config, ConvNextV2ForImageClassification

    config = ConvNextV2Config(hidden_sizes=[8, 16], depths=[1, 1], num_stages=2, num_labels=5)
    return _classifier(ConvNextV2ForImageClassification, config, "convnextv2")


def convnext():
    """Its pooling gives a result other strides by `as_strided`, whose backward has three more."""
    from torchvision.models.convnext import CNBlockConfig, ConvNeXt

    torch.manual_seed(0)
    blocks = [CNBlockConfig(8, 16, 1), CNBlockConfig(16, None, 1)]
    return _images(ConvNeXt(blocks, num_classes=5), "convnext", F.cross_entropy)


def opt():
    """It draws a number for each layer, to leave out none."""
    from transformers import OPTConfig, OPTForCausalLM

    config = OPTConfig(
        vocab_size=64, hidden_size=16, word_embed_proj_dim=16, ffn_dim=32, num_hidden_layers=2,
        num_attention_heads=2, max_position_embeddings=16, dropout=0.1,
    )  # fmt: skip
    return _trained(OPTForCausalLM, config, "opt", attention_mask=torch.ones(2, 8, dtype=torch.long))


def bart():
    """So does its encoder, and its decoder, and attention has dropout, too."""
    from transformers import BartConfig, BartForConditionalGeneration

    config = BartConfig(
        vocab_size=64, d_model=16, encoder_layers=2, decoder_layers=2, encoder_attention_heads=2,
        decoder_attention_heads=2, encoder_ffn_dim=32, decoder_ffn_dim=32, max_position_embeddings=16,
        dropout=0.1, attention_dropout=0.1,
    )  # fmt: skip
    return _trained(BartForConditionalGeneration, config, "bart", attention_mask=torch.ones(2, 8))


LIBRARY_MODELS = {
    "t5": t5, "mamba": mamba, "convnextv2": convnextv2, "convnext": convnext, "opt": opt, "bart": bart,
}  # fmt: skip


def _trained(*arguments, **inputs):
    """A language model with an optimizer."""
    spec = _language_model(*arguments, **inputs)
    return dataclasses.replace(spec, optimizer=lambda p: torch.optim.AdamW(p, lr=1e-3))


def _language_model(kind, config, name, **inputs):
    torch.manual_seed(0)
    model = kind(config)
    tokens = torch.randint(0, config.vocab_size, (2, 8))
    inputs |= {"input_ids": tokens, "labels": tokens.clone(), "use_cache": False}
    return cleave.ExportSpec(model, (), inputs, mode="joint", name=name)


def _classifier(kind, config, name):
    torch.manual_seed(0)
    return _images(kind(config), name, lambda out, label: F.cross_entropy(out.logits, label))


def _images(model, name, loss):
    return cleave.ExportSpec(
        model, (torch.randn(2, 3, 32, 32),), loss=loss, targets=(torch.tensor([1, 2]),), name=name
    )
