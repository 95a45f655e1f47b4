"""Runs what PyTorch itself computes for a model: the calls that torch.export saw, with autograd's backward.

The calls were traced before autograd and before any decomposition, so they are those of eager mode: on another device
PyTorch chooses its own kernels for them, attention's too. The code needs nothing but torch.
"""

import types

import torch
from tensors import DTYPES


class Philox:
    """Random numbers as programs draw them that were exported with generator="philox" (docs/random.md): Philox4x32-10,
    indexed by the element, so that any device has the same. Written after the paper, not after Cleave's code."""

    def __init__(self, seed):
        self.seed, self.place = seed, 0

    @staticmethod
    def _product(a, b):
        """High and low words of the product of 32-bit numbers; int64 has no room for it at once."""
        low, high = a * (b & 0xFFFF), a * (b >> 16)
        low = low + ((high & 0xFFFF) << 16)
        return (high >> 16) + (low >> 32), low & 0xFFFFFFFF

    def words(self, count, device):
        """The first words of the current stream."""
        blocks = torch.arange((count + 3) // 4, device=device)
        c0, c1 = blocks & 0xFFFFFFFF, blocks >> 32
        c2, c3 = torch.full_like(blocks, self.place & 0xFFFFFFFF), torch.full_like(blocks, self.place >> 32)
        k0, k1 = self.seed & 0xFFFFFFFF, self.seed >> 32
        for _ in range(10):
            high0, low0 = self._product(c0, 0xD2511F53)
            high1, low1 = self._product(c2, 0xCD9E8D57)
            c0, c1, c2, c3 = high1 ^ c1 ^ k0, low1, high0 ^ c3 ^ k1, low0
            k0, k1 = (k0 + 0x9E3779B9) & 0xFFFFFFFF, (k1 + 0xBB67AE85) & 0xFFFFFFFF
        return torch.stack((c0, c1, c2, c3), dim=1).flatten()[:count]

    def dropout(self, x, p, train):
        if not train or p == 0:
            return x
        kept = self.words(x.numel(), x.device).double() * 2.0**-32 < 1 - p
        self.place += 2 * x.numel()  # as many as PyTorch's CPU generator would draw
        scale = torch.ones((), dtype=x.dtype).div_(1 - p).item()
        return x * kept.view(x.shape) * scale

    def bernoulli_(self, x, p=0.5):
        ones = self.words(x.numel(), x.device).double() * 2.0**-32 < p
        self.place += 2 * x.numel()
        return x.copy_(ones.view(x.shape))


def attention(random, q, k, v, mask=None, p=0.0, causal=False, scale=None, enable_gqa=False):
    """Attention; with dropout as PyTorch computes it where it has no kernel for that."""
    if p == 0:
        return torch.ops.aten.scaled_dot_product_attention.default(
            q, k, v, mask, 0.0, causal, scale=scale, enable_gqa=enable_gqa)  # fmt: skip
    if scale is not None or enable_gqa:
        raise NotImplementedError("attention with dropout and a scale or groups")
    root = q.shape[-1] ** -0.25
    scores = (q * root) @ (k * root).transpose(-2, -1)
    if causal:
        allowed = torch.ones(scores.shape[-2:], dtype=torch.bool, device=q.device).tril()
        scores = scores.masked_fill(~allowed, float("-inf"))
    if mask is not None:
        scores = scores.masked_fill(~mask, float("-inf")) if mask.dtype == torch.bool else scores + mask
    return random.dropout(scores.softmax(-1), p, True) @ v


class Reference:
    """description: what scripts/gpu/programs.py writes: the graph's code, and what its arguments are."""

    def __init__(self, description, device):
        self.device = device
        self.arguments = description["arguments"]
        self.aliases = description["aliases"]
        self.constants = {
            name: torch.tensor(each["value"], dtype=DTYPES[each["dtype"]], device=device)
            for name, each in description["constants"].items()
        }
        self.function = self._compile(description["graph"])
        self.random = Philox(0)

    def _compile(self, graph):
        regions = {name: self._compile(region) for name, region in graph["regions"].items()}
        code = graph["code"]
        code = code.replace("device(type='cpu')", f"device(type='{self.device}')")
        code = code.replace("wrap_with_autocast('cpu'", f"wrap_with_autocast('{self.device}'")
        code = code.replace("torch.ops.aten.dropout.default(", "random_dropout(")
        code = code.replace("torch.ops.aten.bernoulli_.float(", "random_bernoulli(")
        code = code.replace("torch.ops.aten.scaled_dot_product_attention.default(", "random_attention(")
        names = {
            "torch": torch, "device": torch.device, "inf": float("inf"), "nan": float("nan"),
            "random_dropout": lambda *given: self.random.dropout(*given),
            "random_bernoulli": lambda *given: self.random.bernoulli_(*given),
            "random_attention": lambda *given, **named: attention(self.random, *given, **named),
        }  # fmt: skip
        exec(compile(code, "<reference>", "exec"), names)
        return lambda *arguments: names["forward"](types.SimpleNamespace(**regions), *arguments)

    def prepare(self, weights):
        """The weights on the device: parameters that collect gradients, buffers that may change."""
        state = {}
        for kind, name in self.arguments:
            name = self.aliases.get(name, name)
            if kind in ("input", "constant") or name in state:
                continue
            value = weights[name].to(self.device, copy=True)
            state[name] = value.requires_grad_(kind == "parameter" and value.is_floating_point())
        return state

    def loss(self, state, inputs):
        given = {name: value.to(self.device) for name, value in inputs.items()} | self.constants
        values = [
            given[name] if kind in ("input", "constant") else state[self.aliases.get(name, name)]
            for kind, name in self.arguments
        ]
        # Buffers that the forward changes come before the loss.
        return self.function(*values)[-1]

    def evaluate(self, weights, inputs, seed=0):
        """Loss and gradients under the names of Cleave's dumps."""
        self.random = Philox(seed)
        state = self.prepare(weights)
        loss = self.loss(state, inputs)
        loss.backward()
        result = {"loss": loss.detach()}
        result |= {f"grad.{n}": v.grad for n, v in state.items() if v.requires_grad and v.grad is not None}
        return result

    def train(self, weights, batches, optimizer, seed=0):
        """Losses of a step for each list of microbatches in `batches`: the mean of each step's."""
        self.random = Philox(seed)
        state = self.prepare(weights)
        parameters = [v for v in state.values() if v.requires_grad]
        kind, options = optimizer
        steps = getattr(torch.optim, kind)(parameters, **options, fused=True)
        losses = []
        for microbatches in batches:
            steps.zero_grad(set_to_none=True)
            total = []
            for inputs in microbatches:
                loss = self.loss(state, inputs)
                (loss / len(microbatches)).backward()
                total.append(loss.detach())
            steps.step()
            losses.append(sum(map(float, total)) / len(total))
        return losses
