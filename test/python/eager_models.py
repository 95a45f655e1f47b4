"""Training steps of small models that installed libraries make, to be run in eager mode."""

import torch
import torch.nn.functional as F


def _text(name, head, **config):
    """A language model of transformers, which returns its loss."""

    def make():
        import transformers

        model = getattr(transformers, head)(getattr(transformers, f"{name}Config")(vocab_size=64, **config))
        tokens = torch.randint(3, 64, (2, 8))
        return lambda: model(input_ids=tokens, attention_mask=torch.ones_like(tokens), labels=tokens).loss

    return make


def _pictures(name, size=32, **config):
    """A classifier of transformers."""

    def make():
        import transformers

        config_of = getattr(transformers, f"{name}Config")(num_labels=5, **config)
        model = getattr(transformers, f"{name}ForImageClassification")(config_of)
        images, labels = torch.randn(2, 3, size, size), torch.tensor([1, 2])
        return lambda: model(pixel_values=images, labels=labels).loss

    return make


def _vision(construct, size=32):
    """A classifier of torchvision, which `construct` makes from its module of models."""

    def make():
        import torchvision

        model = construct(torchvision.models)
        images, labels = torch.randn(2, 3, size, size), torch.tensor([1, 2])
        return lambda: F.cross_entropy(model(images), labels)

    return make


def _convnext(models):
    block = models.convnext.CNBlockConfig
    return models.ConvNeXt([block(8, 16, 1), block(16, None, 1)], num_classes=5)


def _efficientnet(models):
    block = models.efficientnet.MBConvConfig
    return models.EfficientNet([block(1, 3, 1, 8, 8, 1), block(4, 5, 2, 8, 16, 1)], 0.2, num_classes=5)


def _regnet(models):
    parameters = models.regnet.BlockParams([1, 1], [8, 16], [4, 4], [1.0, 1.0], [2, 2], 0.25)
    return models.RegNet(parameters, num_classes=5, stem_width=8)


def _swin(models, kind=None, **parts):
    return models.SwinTransformer([4, 4], 8, [2, 2], [2, 2], [4, 4], num_classes=5, **parts)


def _swin_v2(models):
    parts = models.swin_transformer
    return _swin(models, block=parts.SwinTransformerBlockV2, downsample_layer=parts.PatchMergingV2)


def _maxvit(models):
    return models.MaxVit((32, 32), 8, 2, [8, 16], [1, 1], 8, 0.0, num_classes=5)


def _speech():
    import transformers

    config = transformers.Wav2Vec2Config(
        vocab_size=32, conv_dim=(16, 16), conv_kernel=(4, 4), conv_stride=(4, 4), num_feat_extract_layers=2,
        num_conv_pos_embeddings=4, num_conv_pos_embedding_groups=2, mask_time_prob=0.0, **_SMALL,
    )  # fmt: skip
    model = transformers.Wav2Vec2ForSequenceClassification(config)
    sound, labels = torch.randn(2, 400), torch.tensor([0, 1])
    return lambda: model(input_values=sound, labels=labels).loss


_SMALL = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32}

# Each makes a function that computes a loss.
EAGER_MODELS = {
    "resnet": _vision(lambda m: m.ResNet(m.resnet.BasicBlock, [1, 1, 1, 1], num_classes=5)),
    "convnext": _vision(_convnext),
    "mobilenet_v2": _vision(lambda m: m.mobilenet_v2(num_classes=5, width_mult=0.25), 64),
    "mobilenet_v3": _vision(lambda m: m.mobilenet_v3_small(num_classes=5, width_mult=0.25), 64),
    "swin": _vision(_swin),
    "swin_v2": _vision(_swin_v2),
    "maxvit": _vision(_maxvit),
    "vit": _vision(lambda m: m.VisionTransformer(32, 8, 1, 2, 16, 32, num_classes=5)),
    "efficientnet": _vision(_efficientnet),
    "densenet": _vision(lambda m: m.DenseNet(4, (2, 2), 8, num_classes=5)),
    "regnet": _vision(_regnet),
    "squeezenet": _vision(lambda m: m.squeezenet1_1(num_classes=5)),
    "shufflenet": _vision(lambda m: m.ShuffleNetV2([1, 1, 1], [8, 16, 32, 64, 64], num_classes=5)),
    "bert": _text("Bert", "BertForMaskedLM", **_SMALL),
    "deberta": _text(
        "DebertaV2", "DebertaV2ForMaskedLM", relative_attention=True, pos_att_type=["p2c", "c2p"], **_SMALL
    ),
    "gpt2": _text("GPT2", "GPT2LMHeadModel", n_embd=16, n_layer=1, n_head=2),
    "bloom": _text("Bloom", "BloomForCausalLM", hidden_size=16, n_layer=1, n_head=2),
    "llama": _text("Llama", "LlamaForCausalLM", **_SMALL),
    "gemma2": _text("Gemma2", "Gemma2ForCausalLM", head_dim=8, num_key_value_heads=1, **_SMALL),
    "mixtral": _text("Mixtral", "MixtralForCausalLM", num_key_value_heads=1, num_local_experts=2, **_SMALL),
    "t5": _text(
        "T5", "T5ForConditionalGeneration", d_model=16, d_kv=8, d_ff=32, num_layers=1, num_heads=2,
        decoder_start_token_id=0,
    ),
    "mamba": _text(
        "Mamba", "MambaForCausalLM", hidden_size=16, state_size=4, num_hidden_layers=1, time_step_rank=4
    ),
    "mamba2": _text(
        "Mamba2", "Mamba2ForCausalLM", hidden_size=16, state_size=4, num_hidden_layers=1, num_heads=4, head_dim=8,
        n_groups=1, chunk_size=4,
    ),
    "convnextv2": _pictures("ConvNextV2", hidden_sizes=[8, 16], depths=[1, 1], num_stages=2),
    "beit": _pictures("Beit", image_size=32, patch_size=8, **_SMALL),
    "mobilevit": _pictures(
        "MobileViT", 64, image_size=64, hidden_sizes=[16, 16, 16], neck_hidden_sizes=[8, 8, 8, 8, 8, 8, 16]
    ),
    "poolformer": _pictures("PoolFormer", 64, hidden_sizes=[8, 16, 16, 16], depths=[1, 1, 1, 1]),
    "wav2vec2": _speech,
}  # fmt: skip
