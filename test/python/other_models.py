"""Models of other families than those of the dashboards: of transformers and timm, narrowed.

Of the shape of hugging_face.py and timm_models.py: MODELS names them, and make(name) gives a model's ExportSpec.
"""

import cleave_path  # noqa: F401
import hugging_face
import timm_models
import torch
from torch.nn.functional import cross_entropy

import cleave


def _of_transformers(family, head, inputs=hugging_face.words, **changes):
    def make(name, **more):
        import transformers

        config = hugging_face.narrow(getattr(transformers, f"{family}Config"), **(changes | more))
        module = getattr(transformers, f"{family}{head}")(config).train()
        if hasattr(config, "use_cache"):
            config.use_cache = False
        optimizer = torch.optim.AdamW(module.parameters(), lr=1e-3)
        return cleave.ExportSpec(module, (), inputs(config), optimizer=optimizer, name=name)

    return make


def _of_speech(family, **changes):
    """Of waves. Layers are never left out, and nothing is masked."""

    def make(name):
        import transformers

        config = getattr(transformers, f"{family}Config")(
            hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=32, vocab_size=16,
            conv_dim=(8, 8), conv_stride=(5, 2), conv_kernel=(10, 3), num_feat_extract_layers=2,
            num_conv_pos_embedding_groups=2, classifier_proj_size=8, layerdrop=0.0, apply_spec_augment=False,
            **{"num_conv_pos_embeddings": 4} | changes,
        )  # fmt: skip
        module = getattr(transformers, f"{family}ForSequenceClassification")(config).train()
        inputs = {"input_values": torch.randn(2, 400), "labels": torch.randint(2, (2,))}
        optimizer = torch.optim.AdamW(module.parameters(), lr=1e-3)
        return cleave.ExportSpec(module, (), inputs, optimizer=optimizer, name=name)

    return make


def _hubert_with_ctc(name):
    """Of labels some are left out, in the middle of a row and at its end."""
    import transformers

    config = transformers.HubertConfig(
        hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=32, vocab_size=16, conv_dim=(8, 8),
        conv_stride=(5, 2), conv_kernel=(10, 3), num_feat_extract_layers=2, num_conv_pos_embedding_groups=2,
        num_conv_pos_embeddings=4, layerdrop=0.0, apply_spec_augment=False, pad_token_id=0, ctc_loss_reduction="mean",
    )  # fmt: skip
    module = transformers.HubertForCTC(config).train()
    labels = torch.tensor([[3, -100, 5, 5], [7, 2, -100, -100]])
    optimizer = torch.optim.AdamW(module.parameters(), lr=1e-3)
    return cleave.ExportSpec(module, (), {"input_values": torch.randn(2, 400), "labels": labels}, optimizer=optimizer, name=name)


class _Queries(torch.nn.Module):
    """What DETR's queries come to, as a loss: no mean of squares, which a normalization sets to one. What matches them with
    objects runs on NumPy."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, pixel_values):
        return self.model(pixel_values).last_hidden_state.tanh().square().mean()


def _detr(name):
    import transformers

    backbone = transformers.ResNetConfig(
        embedding_size=8, hidden_sizes=[8, 8, 16, 16], depths=[1, 1, 1, 1], out_features=["stage4"]
    )
    config = transformers.DetrConfig(
        use_timm_backbone=False, use_pretrained_backbone=False, backbone=None, backbone_config=backbone, d_model=16,
        encoder_layers=1, decoder_layers=1, encoder_attention_heads=2, decoder_attention_heads=2, encoder_ffn_dim=32,
        decoder_ffn_dim=32, num_queries=4,
    )  # fmt: skip
    module = _Queries(transformers.DetrModel(config)).train()
    optimizer = torch.optim.AdamW([p for p in module.parameters() if p.requires_grad], lr=1e-3)
    return cleave.ExportSpec(module, (torch.randn(2, 3, 64, 64),), optimizer=optimizer, name=name)


class _Codebooks(torch.nn.Module):
    """Takes batches with a dimension for the codebooks, which the model takes as more rows."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, input_ids, labels):
        return self.model(input_ids.flatten(0, 1), labels=labels.transpose(1, 2)).loss


def _musicgen(name):
    """Leaves out layers by numbers of Python's `random`, none by default."""
    from transformers import MusicgenForCausalLM
    from transformers.models.musicgen.configuration_musicgen import MusicgenDecoderConfig

    config = MusicgenDecoderConfig(
        vocab_size=32, hidden_size=16, num_hidden_layers=2, num_attention_heads=2, ffn_dim=32, num_codebooks=2,
        use_cache=False,
    )  # fmt: skip
    module = _Codebooks(MusicgenForCausalLM(config).train())
    tokens, labels = torch.randint(32, (2, 2, 2, 8)).unbind()
    optimizer = torch.optim.AdamW(module.parameters(), lr=1e-3)
    return cleave.ExportSpec(module, (tokens, labels), optimizer=optimizer, name=name)


def _of_timm(size, narrow=lambda model: None, **changes):
    def make(name):
        import timm

        module = timm.create_model(name, num_classes=timm_models.CLASSES, **changes)
        narrow(module)
        images = torch.randn(timm_models.BATCH, 3, size, size)
        targets = torch.randint(timm_models.CLASSES, (timm_models.BATCH,))
        optimizer = torch.optim.AdamW(module.parameters(), lr=1e-3)
        return cleave.ExportSpec(
            module.train(), (images,), loss=cross_entropy, targets=(targets,), optimizer=optimizer, name=name
        )

    return make


def _fewer_blocks(model):
    del model.blocks[2:]


def _first_of_parts(model):
    """Of VOLO's stages the first block each; downsampling lies between them."""
    for part in model.network:
        if isinstance(part, torch.nn.Sequential):
            del part[1:]


def _first_of_stages(model):
    """Blocks after a stage's first two keep its shape."""
    for stage in model.stages:
        del stage.blocks[2:]


MODELS = {
    "Funnel": _of_transformers(
        "Funnel", "ForMaskedLM", block_sizes=[1, 1], n_head=2, d_head=8, d_inner=32, num_decoder_layers=1
    ),
    "ProphetNet": _of_transformers(
        "ProphetNet", "ForConditionalGeneration", num_encoder_layers=2, num_decoder_layers=2,
        num_encoder_attention_heads=2, num_decoder_attention_heads=2, decoder_start_token_id=0,
    ),
    "SwitchTransformers": _of_transformers(
        "SwitchTransformers", "ForConditionalGeneration", num_experts=4, decoder_start_token_id=0,
        num_sparse_encoder_layers=1, num_sparse_decoder_layers=1, dropout_rate=0.0,
    ),
    "Perceiver": _of_transformers(
        "Perceiver", "ForMaskedLM", num_latents=4, d_latents=16, num_self_attends_per_block=1,
        num_self_attention_heads=2, num_cross_attention_heads=2, qk_channels=16, v_channels=16,
        max_position_embeddings=8,
    ),
    "RoFormer": _of_transformers("RoFormer", "ForMaskedLM"),
    "GPTNeoX": _of_transformers("GPTNeoX", "ForCausalLM"),
    "Jamba": _of_transformers(
        "Jamba", "ForCausalLM", num_experts=4, expert_layer_period=1, expert_layer_offset=0, attn_layer_period=2,
        attn_layer_offset=1, mamba_d_state=4, mamba_d_conv=2, mamba_dt_rank=4, use_mamba_kernels=False, pad_token_id=0,
    ),
    "Phimoe": _of_transformers("Phimoe", "ForCausalLM", num_local_experts=4),
    "FalconH1": _of_transformers(
        "FalconH1", "ForCausalLM", mamba_d_ssm=32, mamba_n_heads=4, mamba_d_head=8, mamba_n_groups=1, mamba_d_state=4,
        mamba_d_conv=2, mamba_chunk_size=4,
    ),
    "Musicgen": _musicgen,
    "Wav2Vec2": _of_speech("Wav2Vec2"),
    "WavLM": _of_speech("WavLM"),
    "Data2VecAudio": _of_speech("Data2VecAudio", num_conv_pos_embeddings=2),
    "SEWD": _of_speech("SEWD", squeeze_factor=1),
    "HubertForCTC": _hubert_with_ctc,
    "Detr": _detr,
    "coatnet_nano_rw_224": _of_timm(64, img_size=64, embed_dim=(32, 32, 64, 64), depths=(1, 1, 1, 1)),
    "davit_tiny": _of_timm(64, embed_dims=(32,) * 4, depths=(1,) * 4, num_heads=(1,) * 4),
    "hrnet_w18_small": _of_timm(64),
    "mixer_s32_224": _of_timm(64, _fewer_blocks, img_size=64),
    "mvitv2_tiny": _of_timm(64, _first_of_stages, img_size=64),
    "volo_d1_224": _of_timm(64, _first_of_parts, img_size=64),
}  # fmt: skip


def make(name, **changes):
    """changes: of the configuration, for models of transformers."""
    torch.manual_seed(0)
    return MODELS[name](name, **changes)
