"""A small mixture-of-experts transformer whose routing has static shapes, so that it traces.

Every token is sent to its `chosen` best experts. Experts are batched: each expert has `capacity`
slots, tokens take slots in order, and a token that finds its expert full is dropped there (the
residual path still carries it).
"""

import dataclasses

import torch
import torch.nn.functional as F
from torch import nn

import cleave
from gpt import Attention, GPTConfig, cross_entropy


@dataclasses.dataclass
class MoEConfig(GPTConfig):
    experts: int = 4
    chosen: int = 2
    capacity_factor: float = 1.25
    balance: float = 0.01


class Experts(nn.Module):
    """(batch, time, width) to the same shape, and the load-balancing loss (a scalar)."""

    def __init__(self, config: MoEConfig):
        super().__init__()
        self.config = config
        e, c = config.experts, config.width
        self.router = nn.Linear(c, e, bias=False)
        self.up = nn.Parameter(torch.randn(e, c, 4 * c) * 0.02)
        self.down = nn.Parameter(torch.randn(e, 4 * c, c) * 0.02)

    def forward(self, x):
        b, t, c = x.shape
        e, k = self.config.experts, self.config.chosen
        tokens = x.reshape(-1, c)
        n = tokens.shape[0]
        capacity = int(n * k / e * self.config.capacity_factor)
        probabilities = F.softmax(self.router(tokens), dim=-1)
        weights, experts = torch.topk(probabilities, k, dim=-1)
        weights = weights / weights.sum(dim=-1, keepdim=True)

        # The slot of each (token, choice) at its expert: how many came before it.
        chosen = F.one_hot(experts.reshape(-1), e)
        slot = ((chosen.cumsum(0) - 1) * chosen).sum(-1)
        fits = slot < capacity
        place = torch.where(fits, experts.reshape(-1) * capacity + slot, e * capacity)

        # One row more than there are slots takes what is dropped.
        source = tokens.repeat_interleave(k, dim=0)
        slots = tokens.new_zeros(e * capacity + 1, c).index_add(0, place, source)
        hidden = torch.bmm(slots[:-1].view(e, capacity, c), self.up)
        output = torch.bmm(F.silu(hidden), self.down).view(e * capacity, c)
        output = torch.cat([output, output.new_zeros(1, c)])
        y = output[place] * (weights.reshape(-1, 1) * fits.unsqueeze(-1))
        y = y.view(n, k, c).sum(1).view(b, t, c)

        load = chosen.view(n, k, e).sum(1).float().mean(0) / k
        balance = e * (load * probabilities.mean(0)).sum()
        return y, balance


class MoEBlock(nn.Module):
    def __init__(self, config: MoEConfig):
        super().__init__()
        self.ln_1 = nn.LayerNorm(config.width)
        self.attn = Attention(config)
        self.ln_2 = nn.LayerNorm(config.width)
        self.experts = Experts(config)

    def forward(self, x):
        x = x + self.attn(self.ln_1(x))
        y, balance = self.experts(self.ln_2(x))
        return x + y, balance


class MoE(nn.Module):
    """Tokens (batch, time) to logits (batch, time, vocabulary) and the load-balancing loss."""

    def __init__(self, config: MoEConfig):
        super().__init__()
        self.config = config
        self.wte = nn.Embedding(config.vocabulary, config.width)
        self.wpe = nn.Embedding(config.context, config.width)
        self.h = nn.ModuleList([MoEBlock(config) for _ in range(config.layers)])
        self.ln_f = nn.LayerNorm(config.width)
        self.lm_head = nn.Linear(config.width, config.vocabulary, bias=False)

    def forward(self, tokens):
        positions = torch.arange(tokens.shape[1], device=tokens.device)
        x = self.wte(tokens) + self.wpe(positions)
        balance = x.new_zeros(())
        for block in self.h:
            x, aux = block(x)
            balance = balance + aux
        return self.lm_head(self.ln_f(x)), self.config.balance * balance


def balanced_cross_entropy(outputs, targets):
    logits, balance = outputs
    return cross_entropy(logits, targets) + balance


def moe():
    torch.manual_seed(0)
    config = MoEConfig()
    module = MoE(config)
    tokens = torch.randint(config.vocabulary, (2, config.context))
    targets = torch.randint(config.vocabulary, (2, config.context))
    return cleave.ExportSpec(
        module,
        (tokens,),
        loss=balanced_cross_entropy,
        targets=(targets,),
        optimizer=torch.optim.AdamW(module.parameters(), lr=1e-3),
        name="moe",
    )
