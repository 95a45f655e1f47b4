"""The models of the standing matrix: the examples, and ten that installed libraries make and that no
other test knows, in float64 and at any batch size."""

import dataclasses

import cleave_run  # noqa: F401  (puts the examples on the path)
import float64
import placement_cases
import torch
import torch.nn.functional as F
from cleave import testing
from torch import nn

import cleave


class Logits(nn.Module):
    """A Hugging Face model seen as one tensor to logits."""

    def __init__(self, model, name="input_ids", **more):
        super().__init__()
        self.model, self.name, self.more = model, name, more

    def forward(self, x):
        return self.model(**{self.name: x}, **self.more).logits


class Translation(nn.Module):
    """An encoder and decoder that read the same tokens."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, tokens):
        return self.model(input_ids=tokens, decoder_input_ids=tokens, use_cache=False).logits


def _cross_entropy(logits, targets):
    return F.cross_entropy(logits.flatten(0, -2), targets.flatten())


def _optimizer(module):
    return torch.optim.AdamW(module.parameters(), lr=1e-3)


def _tokens(module, batch, time=8, vocabulary=64):
    tokens = torch.randint(3, vocabulary, (batch, time))
    return cleave.ExportSpec(
        module.train(), (tokens,), loss=_cross_entropy, targets=(tokens.roll(-1, 1),), optimizer=_optimizer(module)
    )


def _images(module, batch, size=32, classes=7):
    images, labels = torch.randn(batch, 3, size, size, dtype=torch.float64), torch.randint(classes, (batch,))
    optimizer = torch.optim.SGD(module.parameters(), lr=0.01, momentum=0.9)
    return cleave.ExportSpec(module.train(), (images,), loss=F.cross_entropy, targets=(labels,), optimizer=optimizer)


def _t5(batch):
    """One weight under three names, relative positions, dropout."""
    from transformers import T5Config, T5ForConditionalGeneration

    config = T5Config(vocab_size=64, d_model=16, d_kv=4, d_ff=32, num_layers=1, num_decoder_layers=1, num_heads=4,
                      dropout_rate=0.1)  # fmt: skip
    return _tokens(Translation(T5ForConditionalGeneration(config)).double(), batch)


def _bert(batch):
    """Masked language model whose decoder is tied; dropout in attention, too."""
    from transformers import BertConfig, BertForMaskedLM

    config = BertConfig(vocab_size=64, hidden_size=16, num_hidden_layers=2, num_attention_heads=4,
                        intermediate_size=32, max_position_embeddings=16)  # fmt: skip
    return _tokens(Logits(BertForMaskedLM(config)).double(), batch)


def _gpt_neox(batch):
    """Rotary embeddings over a part of the head, parallel residual."""
    from transformers import GPTNeoXConfig, GPTNeoXForCausalLM

    config = GPTNeoXConfig(vocab_size=64, hidden_size=16, num_hidden_layers=2, num_attention_heads=4,
                           intermediate_size=32, max_position_embeddings=16)  # fmt: skip
    return _tokens(Logits(GPTNeoXForCausalLM(config), use_cache=False).double(), batch)


def _qwen2(batch):
    """Grouped queries with biases, tied embeddings."""
    from transformers import Qwen2Config, Qwen2ForCausalLM

    config = Qwen2Config(vocab_size=64, hidden_size=16, num_hidden_layers=2, num_attention_heads=4,
                         num_key_value_heads=2, intermediate_size=32, max_position_embeddings=16,
                         tie_word_embeddings=True)  # fmt: skip
    return _tokens(Logits(Qwen2ForCausalLM(config), use_cache=False).double(), batch)


def _mamba(batch):
    """A scan written as a loop, a causal convolution."""
    from transformers import MambaConfig, MambaForCausalLM

    config = MambaConfig(vocab_size=64, hidden_size=8, state_size=4, num_hidden_layers=1, time_step_rank=2)
    return _tokens(Logits(MambaForCausalLM(config), use_cache=False).double(), batch, time=4)


def _vit(batch):
    """Hugging Face's, with dropout: a class token beside the patches."""
    from transformers import ViTConfig, ViTForImageClassification

    config = ViTConfig(hidden_size=16, num_hidden_layers=2, num_attention_heads=4, intermediate_size=32, image_size=16,
                       patch_size=8, num_labels=7, hidden_dropout_prob=0.1)  # fmt: skip
    return _images(Logits(ViTForImageClassification(config), "pixel_values").double(), batch, size=16)


def _swin(batch):
    """Windows that are rolled, biases by relative position, no stochastic depth."""
    from torchvision.models import SwinTransformer

    model = SwinTransformer(patch_size=[4, 4], embed_dim=8, depths=[2, 2], num_heads=[2, 2], window_size=[4, 4],
                            stochastic_depth_prob=0.0, num_classes=7)  # fmt: skip
    return _images(model.double(), batch)


def _convnext(batch):
    """Depthwise convolutions, layer norms over channels, layer scale."""
    from torchvision.models.convnext import CNBlockConfig, ConvNeXt

    blocks = [CNBlockConfig(8, 16, 1), CNBlockConfig(16, None, 1)]
    return _images(ConvNeXt(blocks, stochastic_depth_prob=0.0, num_classes=7).double(), batch)


def _mobilenet(batch):
    """MobileNetV3: squeeze and excitation, hard swish, batch norm, dropout."""
    from torchvision.models import mobilenet_v3_small

    return _images(mobilenet_v3_small(num_classes=7, width_mult=0.25).double(), batch, size=96)


def _densenet(batch):
    """Concatenations of all earlier features."""
    from torchvision.models import DenseNet

    model = DenseNet(growth_rate=4, block_config=(2, 2), num_init_features=8, bn_size=2, num_classes=7)
    return _images(model.double(), batch, size=64)


OTHERS = {
    "t5": _t5, "bert": _bert, "gpt_neox": _gpt_neox, "qwen2": _qwen2, "mamba": _mamba, "vit": _vit, "swin": _swin,
    "convnext": _convnext, "mobilenet": _mobilenet, "densenet": _densenet,
}  # fmt: skip
MODELS = placement_cases.MODELS + list(OTHERS)


def spec(model, batch):
    """The model in float64 with a microbatch of `batch` random examples."""
    torch.manual_seed(0)
    made = OTHERS[model](batch) if model in OTHERS else float64.doubled(placement_cases.spec(model, batch))
    return dataclasses.replace(made, name=model)


def batches(made, microbatches, steps):
    """So many steps' data by input name, joined, as `--data safetensors:` reads them."""
    generator = torch.Generator().manual_seed(2)
    drawn = testing.random_batch(made, microbatches * steps, generator)
    return {name: tensor.contiguous() for name, tensor in drawn.items()}
