"""A Llama in plain PyTorch: RMS norms, rotary positions, grouped queries, SwiGLU; up to 1.1 billion parameters.

The model needs PyTorch alone; the factories at the end are for `python -m cleave.export examples/llama.py:NAME`.
"""

import dataclasses
import math

import torch
import torch.nn.functional as F
from torch import nn


@dataclasses.dataclass
class LlamaConfig:
    vocabulary: int = 256
    context: int = 32
    layers: int = 2
    heads: int = 4
    key_value_heads: int = 2
    width: int = 32
    hidden: int = 64
    base: float = 10000.0

    def parameters(self):
        """How many there are; the embedding and the head are two."""
        head = self.width // self.heads
        attention = self.width * head * 2 * (self.heads + self.key_value_heads)
        block = attention + 3 * self.width * self.hidden + 2 * self.width
        return self.layers * block + 2 * self.vocabulary * self.width + self.width

    def flops_per_token(self):
        """Of a training step, as in the PaLM paper's appendix B: 6 for each parameter of a matrix product (the
        embedding is looked up), and 12 x layers x width x context for attention's two products, forward and backward.
        """
        products = self.parameters() - self.vocabulary * self.width - (2 * self.layers + 1) * self.width
        return 6 * products + 12 * self.layers * self.width * self.context


# The sizes of TinyLlama-1.1B.
BILLION = LlamaConfig(vocabulary=32000, context=2048, layers=22, heads=32, key_value_heads=4, width=2048, hidden=5632)


class RMSNorm(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x):
        y = x.float()
        y = y * torch.rsqrt(y.pow(2).mean(-1, keepdim=True) + 1e-5)
        return self.weight * y.to(x.dtype)


def rotate(x, cos, sin):
    """x (batch, heads, time, size) turned by the angles of (time, size)."""
    half = x.shape[-1] // 2
    low, high = x[..., :half], x[..., half:]
    return x * cos + torch.cat((-high, low), dim=-1) * sin


class Attention(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.config = config
        head = config.width // config.heads
        self.q_proj = nn.Linear(config.width, config.heads * head, bias=False)
        self.k_proj = nn.Linear(config.width, config.key_value_heads * head, bias=False)
        self.v_proj = nn.Linear(config.width, config.key_value_heads * head, bias=False)
        self.o_proj = nn.Linear(config.heads * head, config.width, bias=False)

    def forward(self, x, cos, sin):
        b, t, c = x.shape
        heads, shared = self.config.heads, self.config.key_value_heads
        size = c // heads
        q = self.q_proj(x).view(b, t, heads, size).transpose(1, 2)
        k = self.k_proj(x).view(b, t, shared, size).transpose(1, 2)
        v = self.v_proj(x).view(b, t, shared, size).transpose(1, 2)
        q, k = rotate(q, cos, sin), rotate(k, cos, sin)

        def repeat(y):
            return y[:, :, None].expand(b, shared, heads // shared, t, size).reshape(b, heads, t, size)

        y = F.scaled_dot_product_attention(q, repeat(k), repeat(v), is_causal=True)
        return self.o_proj(y.transpose(1, 2).reshape(b, t, c))


class MLP(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.gate_proj = nn.Linear(config.width, config.hidden, bias=False)
        self.up_proj = nn.Linear(config.width, config.hidden, bias=False)
        self.down_proj = nn.Linear(config.hidden, config.width, bias=False)

    def forward(self, x):
        return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))


class Block(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.input_layernorm = RMSNorm(config.width)
        self.self_attn = Attention(config)
        self.post_attention_layernorm = RMSNorm(config.width)
        self.mlp = MLP(config)

    def forward(self, x, cos, sin):
        x = x + self.self_attn(self.input_layernorm(x), cos, sin)
        return x + self.mlp(self.post_attention_layernorm(x))


class Llama(nn.Module):
    """Tokens (batch, time) of int64 to logits (batch, time, vocabulary)."""

    def __init__(self, config: LlamaConfig):
        super().__init__()
        self.config = config
        self.embed_tokens = nn.Embedding(config.vocabulary, config.width)
        self.layers = nn.ModuleList([Block(config) for _ in range(config.layers)])
        self.norm = RMSNorm(config.width)
        self.lm_head = nn.Linear(config.width, config.vocabulary, bias=False)
        size = config.width // config.heads
        frequencies = config.base ** (-torch.arange(0, size, 2, dtype=torch.float64, device="cpu") / size)
        angles = torch.outer(torch.arange(config.context, dtype=torch.float64, device="cpu"), frequencies)
        angles = torch.cat((angles, angles), dim=-1).float()
        self.register_buffer("cos", angles.cos())
        self.register_buffer("sin", angles.sin())

    def forward(self, tokens):
        t = tokens.shape[1]
        x = self.embed_tokens(tokens)
        cos, sin = self.cos[:t].to(x.dtype), self.sin[:t].to(x.dtype)
        for layer in self.layers:
            x = layer(x, cos, sin)
        return self.lm_head(self.norm(x))


def initialise(tensors, seed=0):
    """Fills parameters by name, in place: normal numbers of deviation 0.02, less where results are added up, and ones.

    In the order of the names, from a generator of its own: the same on every machine with the same device.
    """
    layers = 1 + max((int(name.split(".")[1]) for name in tensors if name.startswith("layers.")), default=0)
    for index, name in enumerate(sorted(tensors)):
        tensor = tensors[name]
        if name.endswith("norm.weight"):
            tensor.fill_(1.0)
            continue
        generator = torch.Generator(tensor.device).manual_seed(seed * 100003 + index)
        added = name.endswith(("o_proj.weight", "down_proj.weight"))
        tensor.normal_(0.0, 0.02 / math.sqrt(2 * layers) if added else 0.02, generator=generator)


def cross_entropy(logits, targets):
    """Mean loss over all tokens, in float32; logits (..., vocabulary), targets (...) of int64."""
    return F.cross_entropy(logits.float().reshape(-1, logits.shape[-1]), targets.reshape(-1))


def make_model(config, dtype=torch.float32, device="cpu"):
    """A model with memory for its parameters that nothing was written to; `initialise` fills them."""
    with torch.device("meta"):
        model = Llama(config)
    buffers = dict(model.named_buffers())
    model = model.to(dtype).to_empty(device=device)
    for name, value in buffers.items():
        setattr(model, name, value.to(device))
    return model


def make_optimizer(parameters):
    return torch.optim.AdamW(parameters, lr=1e-4, weight_decay=0.1, fused=True)


def make_spec(config, name, batch=2, dtype=torch.float32, fill=True):
    """What `cleave.export` takes. With `fill` false nothing is written to the parameters' memory, so that a model
    of any size can be traced; `initialise` can fill their file later."""
    import cleave

    module = make_model(config, dtype)
    if fill:
        with torch.no_grad():
            initialise(dict(module.named_parameters()))
    generator = torch.Generator().manual_seed(1)
    tokens, targets = torch.randint(config.vocabulary, (2, batch, config.context), generator=generator)
    return cleave.ExportSpec(
        module, (tokens,), loss=cross_entropy, targets=(targets,), optimizer=make_optimizer, name=name)


def small():
    return make_spec(LlamaConfig(), "llama_small")


def billion():
    return make_spec(BILLION, "llama_1b", batch=4, dtype=torch.bfloat16)
