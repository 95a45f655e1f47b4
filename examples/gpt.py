"""A small GPT and the ways in which the tests and the demonstration train it.

Every function at the end is a factory for `python -m cleave.export examples/gpt.py:NAME`.
"""

import dataclasses

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint

import cleave


@dataclasses.dataclass
class GPTConfig:
    vocabulary: int = 256
    context: int = 32
    layers: int = 2
    heads: int = 4
    width: int = 32
    dropout: float = 0.0
    tied: bool = True
    checkpoint: bool = False


class Attention(nn.Module):
    """Causal self-attention over (batch, time, width)."""

    def __init__(self, config: GPTConfig):
        super().__init__()
        self.heads = config.heads
        self.dropout = config.dropout
        self.c_attn = nn.Linear(config.width, 3 * config.width)
        self.c_proj = nn.Linear(config.width, config.width)
        self.resid_dropout = nn.Dropout(config.dropout)

    def forward(self, x):
        b, t, c = x.shape
        q, k, v = self.c_attn(x).split(c, dim=2)
        q = q.view(b, t, self.heads, c // self.heads).transpose(1, 2)
        k = k.view(b, t, self.heads, c // self.heads).transpose(1, 2)
        v = v.view(b, t, self.heads, c // self.heads).transpose(1, 2)
        y = F.scaled_dot_product_attention(
            q, k, v, is_causal=True, dropout_p=self.dropout if self.training else 0.0
        )
        y = y.transpose(1, 2).contiguous().view(b, t, c)
        return self.resid_dropout(self.c_proj(y))


class MLP(nn.Module):
    def __init__(self, config: GPTConfig):
        super().__init__()
        self.c_fc = nn.Linear(config.width, 4 * config.width)
        self.gelu = nn.GELU()
        self.c_proj = nn.Linear(4 * config.width, config.width)
        self.dropout = nn.Dropout(config.dropout)

    def forward(self, x):
        return self.dropout(self.c_proj(self.gelu(self.c_fc(x))))


class Block(nn.Module):
    def __init__(self, config: GPTConfig):
        super().__init__()
        self.ln_1 = nn.LayerNorm(config.width)
        self.attn = Attention(config)
        self.ln_2 = nn.LayerNorm(config.width)
        self.mlp = MLP(config)

    def forward(self, x):
        x = x + self.attn(self.ln_1(x))
        return x + self.mlp(self.ln_2(x))


class GPT(nn.Module):
    """Tokens (batch, time) of int64 to logits (batch, time, vocabulary)."""

    def __init__(self, config: GPTConfig):
        super().__init__()
        self.config = config
        self.wte = nn.Embedding(config.vocabulary, config.width)
        self.wpe = nn.Embedding(config.context, config.width)
        self.drop = nn.Dropout(config.dropout)
        self.h = nn.ModuleList([Block(config) for _ in range(config.layers)])
        self.ln_f = nn.LayerNorm(config.width)
        self.lm_head = nn.Linear(config.width, config.vocabulary, bias=False)
        self.apply(self._initialise)
        if config.tied:
            self.lm_head.weight = self.wte.weight

    @staticmethod
    def _initialise(module):
        if isinstance(module, (nn.Linear, nn.Embedding)):
            nn.init.normal_(module.weight, std=0.02)
        if isinstance(module, nn.Linear) and module.bias is not None:
            nn.init.zeros_(module.bias)

    def forward(self, tokens):
        positions = torch.arange(tokens.shape[1], device=tokens.device)
        x = self.drop(self.wte(tokens) + self.wpe(positions))
        for block in self.h:
            if self.config.checkpoint:
                x = checkpoint(block, x, use_reentrant=False)
            else:
                x = block(x)
        return self.lm_head(self.ln_f(x))


class AutocastGPT(GPT):
    """The same with the blocks computed in bfloat16."""

    def forward(self, tokens):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            logits = super().forward(tokens)
        return logits.float()


def cross_entropy(logits, targets):
    """Mean loss over all tokens; logits (..., vocabulary), targets (...) of int64."""
    return F.cross_entropy(logits.reshape(-1, logits.shape[-1]), targets.reshape(-1))


def _spec(name, config, batch=2, model=GPT, seed=0, **options):
    torch.manual_seed(seed)
    module = model(config)
    tokens = torch.randint(config.vocabulary, (batch, config.context))
    targets = torch.randint(config.vocabulary, (batch, config.context))
    options.setdefault("optimizer", torch.optim.AdamW(module.parameters(), lr=1e-3))
    return cleave.ExportSpec(
        module, (tokens,), loss=cross_entropy, targets=(targets,), name=name, **options
    )


def tied():
    return _spec("gpt_tied", GPTConfig())


def untied():
    return _spec("gpt_untied", GPTConfig(tied=False))


def dropout():
    return _spec("gpt_dropout", GPTConfig(dropout=0.1))


def untied_dropout():
    return _spec("gpt_untied_dropout", GPTConfig(dropout=0.1, tied=False))


def checkpointed():
    return _spec("gpt_checkpointed", GPTConfig(checkpoint=True))


def autocast():
    return _spec("gpt_autocast", GPTConfig(), model=AutocastGPT)
