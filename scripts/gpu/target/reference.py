"""Runs what PyTorch itself computes for a model: the calls that torch.export saw, with autograd's backward.

The calls were traced before autograd and before any decomposition, so they are those of eager mode: on another device
PyTorch chooses its own kernels for them, attention's too. The code needs nothing but torch.
"""

import types

import torch
from tensors import DTYPES


def host_dropout(x, p, train):
    """Dropout with the numbers of PyTorch's CPU generator, whatever device x is on, as CPU eager mode draws them."""
    if not train or p == 0:
        return x
    noise = torch.empty_like(x, device="cpu").bernoulli_(1 - p).div_(1 - p)
    return x * noise.to(x.device)


def host_attention(q, k, v, mask=None, p=0.0, causal=False, scale=None, enable_gqa=False):
    """Attention; with dropout as CPU eager mode computes it, with its numbers."""
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
    return host_dropout(scores.softmax(-1), p, True) @ v


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

    def _compile(self, graph):
        regions = {name: self._compile(region) for name, region in graph["regions"].items()}
        code = graph["code"]
        code = code.replace("device(type='cpu')", f"device(type='{self.device}')")
        code = code.replace("wrap_with_autocast('cpu'", f"wrap_with_autocast('{self.device}'")
        code = code.replace("torch.ops.aten.dropout.default(", "host_dropout(")
        code = code.replace("torch.ops.aten.scaled_dot_product_attention.default(", "host_attention(")
        names = {
            "torch": torch, "device": torch.device, "inf": float("inf"), "nan": float("nan"),
            "host_dropout": host_dropout, "host_attention": host_attention,
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
        torch.manual_seed(seed)
        state = self.prepare(weights)
        loss = self.loss(state, inputs)
        loss.backward()
        result = {"loss": loss.detach()}
        result |= {f"grad.{n}": v.grad for n, v in state.items() if v.requires_grad and v.grad is not None}
        return result

    def train(self, weights, batches, optimizer, seed=0):
        """Losses of a step for each list of microbatches in `batches`: the mean of each step's."""
        torch.manual_seed(seed)
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
