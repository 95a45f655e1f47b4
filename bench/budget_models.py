"""Models of which partitions are judged: three small ones by a MIP solver, and one that PyTorch partitions too."""

import torch
from torch import nn

import cleave


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(width), nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        return x + self.down(nn.functional.gelu(self.up(self.norm(x))))


def perceptron():
    model = nn.Sequential(nn.Linear(8, 16), *(Block(16) for _ in range(4)), nn.Linear(16, 4))
    return cleave.ExportSpec(model, (torch.randn(32, 8),), loss=nn.functional.cross_entropy,
                             targets=(torch.randint(4, (32,)),), name="perceptron")


def convolutions():
    model = nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(8, 16, 3, padding=1),
        nn.BatchNorm2d(16), nn.ReLU(), nn.Conv2d(16, 16, 3, padding=1), nn.GELU(), nn.Flatten(), nn.Linear(1024, 4))
    return cleave.ExportSpec(model, (torch.randn(4, 3, 16, 16),), loss=nn.functional.cross_entropy,
                             targets=(torch.randint(4, (4,)),), name="convolutions")


def encoder():
    model = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True, dropout=0.0, norm_first=True)
    return cleave.ExportSpec(model, (torch.randn(2, 32, 16),), loss=nn.functional.mse_loss,
                             targets=(torch.randn(2, 32, 16),), name="encoder")


MODELS = {"perceptron": perceptron, "convolutions": convolutions, "encoder": encoder}


class Hidden(nn.Module):
    """A transformer from tokens to its last hidden states."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, tokens):
        return self.model(input_ids=tokens).last_hidden_state


class Summed(nn.Module):
    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, tokens):
        return self.model(tokens).sum()


def llama(scale=1):
    """That of pytorch#197838: 4 layers and 128 tokens for each unit of scale."""
    from transformers import LlamaConfig, LlamaModel

    config = LlamaConfig(vocab_size=1000, hidden_size=256, intermediate_size=688, num_hidden_layers=4 * scale,
                         num_attention_heads=8, num_key_value_heads=8, use_cache=False)
    return cleave.ExportSpec(Hidden(LlamaModel(config)), (torch.randint(1000, (2, 128 * scale)),),
                             loss=lambda hidden: hidden.sum(), name="llama")
