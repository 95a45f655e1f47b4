"""Optimizers that a user might write."""

import math

import torch


class Lion(torch.optim.Optimizer):
    """Chen et al., arXiv 2302.06675."""

    def __init__(self, params, lr=1e-3, betas=(0.9, 0.99), weight_decay=0.1):
        super().__init__(params, {"lr": lr, "betas": betas, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            beta1, beta2 = group["betas"]
            for p in group["params"]:
                if p.grad is None:
                    continue
                state = self.state[p]
                if not state:
                    state["exp_avg"] = torch.zeros_like(p)
                p.mul_(1 - group["lr"] * group["weight_decay"])
                p.add_(torch.sign(state["exp_avg"] * beta1 + p.grad * (1 - beta1)), alpha=-group["lr"])
                state["exp_avg"].mul_(beta2).add_(p.grad, alpha=1 - beta2)


class Lookahead(torch.optim.Optimizer):
    """Adam in the style of old, with weights that follow every fifth step (Zhang et al., arXiv 1907.08610)."""

    def __init__(self, params, lr=1e-2, every=5, alpha=0.5):
        super().__init__(params, {"lr": lr, "every": every, "alpha": alpha})

    def step(self):
        for group in self.param_groups:
            for p in group["params"]:
                state = self.state[p]
                if len(state) == 0:
                    state["step"] = 0
                    state["slow"] = p.data.clone()
                    state["square"] = torch.zeros_like(p.data)
                    state["rate"] = 0.5
                state["step"] += 1
                state["rate"] *= 0.9
                state["square"].mul_(0.99).addcmul_(p.grad.data, p.grad.data, value=0.01)
                rate = group["lr"] * math.sqrt(1 - 0.99 ** state["step"]) * (1 + state["rate"])
                p.data.addcdiv_(p.grad.data, state["square"].sqrt().add_(1e-8), value=-rate)
                if state["step"] % group["every"] == 0:
                    state["slow"].lerp_(p.data, group["alpha"])
                    p.data.copy_(state["slow"])


class NormalizedSGD(torch.optim.Optimizer):
    """Divides all gradients by their norm: each parameter's step depends on all of them."""

    def __init__(self, params, lr=0.1):
        super().__init__(params, {"lr": lr})

    @torch.no_grad()
    def step(self):
        gradients = [p.grad for group in self.param_groups for p in group["params"]]
        norm = torch.stack([gradient.norm() for gradient in gradients]).norm().item()
        for group in self.param_groups:
            for p in group["params"]:
                p.sub_(p.grad, alpha=group["lr"] / max(norm, 1e-6))


class Orthogonal(torch.optim.Optimizer):
    """Muon's iteration in the parameters' own type."""

    def __init__(self, params, lr=0.02, momentum=0.9):
        super().__init__(params, {"lr": lr, "momentum": momentum})

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for p in group["params"]:
                state = self.state[p]
                if "momentum_buffer" not in state:
                    state["momentum_buffer"] = p.grad.clone()
                else:
                    state["momentum_buffer"].mul_(group["momentum"]).add_(p.grad)
                update = state["momentum_buffer"]
                update = update / update.norm().clamp(min=1e-7)
                for _ in range(5):
                    gram = update @ update.T
                    update = 3.4445 * update + (-4.775 * gram + 2.0315 * gram @ gram) @ update
                p.add_(update, alpha=-group["lr"])


class Numbers(torch.optim.Optimizer):
    """All arithmetic that a step may do with numbers that are known at run time."""

    def __init__(self, params, lr=0.1):
        super().__init__(params, {"lr": lr})

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            lr = group["lr"]
            for p in group["params"]:
                state = self.state[p]
                if "step" not in state:
                    state["step"] = 0
                if state["step"] == 2:
                    lr = lr * 2
                state["step"] += 1
                t = state["step"]
                wave = math.sin(t) * math.cos(0.3 * t) + math.exp(-t) * math.log(t + 1)
                steps = math.floor(t / 3) + math.ceil(t / 4) + t // 3 + t % 4 + (t - 5) % 3.5 + (5.5 - t) // 2
                sizes = abs(wave) + math.fabs(wave - 1) + math.pow(t, 0.3) + math.sqrt(t) + 2**-t + (-t) ** 2
                if t == 3 or not t != 4 or 6 <= t < 8:
                    sizes = min(sizes, 2.5, t)
                elif t >= 10 and t > 12:
                    sizes = +max(sizes, 1.0) / 2
                p.add_(p.grad, alpha=-lr * (wave + 0.01 * steps + 0.05 * sizes) / (1.5 + t))


class Grouped(torch.optim.Optimizer):
    """Counts steps for a group at once, as Adan and Lamb do in timm, and computes with all of its tensors at once."""

    def __init__(self, params, lr=0.1, betas=(0.9, 0.99)):
        super().__init__(params, {"lr": lr, "betas": betas, "calls": 0})
        for group in self.param_groups:
            for p in group["params"]:
                self.state[p]["mean"] = torch.zeros_like(p)

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            group["step"] = group["step"] + 1 if "step" in group else 1
            group["calls"] += 1
            parameters = [p for p in group["params"] if p.grad is not None]
            gradients = [p.grad for p in parameters]
            means = [self.state[p].setdefault("mean", torch.zeros_like(p)) for p in parameters]
            squares = [self.state[p].setdefault("square", torch.zeros_like(p)) for p in parameters]
            beta1, beta2 = group["betas"]
            torch._foreach_lerp_(means, gradients, 1 - beta1)
            torch._foreach_mul_(squares, beta2)
            torch._foreach_addcmul_(squares, gradients, gradients, 1 - beta2)
            roots = torch._foreach_sqrt(torch._foreach_div(squares, 1 - beta2 ** group["step"]))
            torch._foreach_add_(roots, 1e-8)
            torch._foreach_maximum_(roots, 1e-3 / group["calls"])
            norms = torch._foreach_norm(gradients)
            updates = torch._foreach_div(means, roots)
            torch._foreach_div_(updates, torch._foreach_add(norms, 1.0))
            torch._foreach_add_(parameters, updates, alpha=-group["lr"] / (1 - beta1 ** group["calls"]))
            torch._foreach_addcdiv_(parameters, means, roots, [-1e-3] * len(parameters))
