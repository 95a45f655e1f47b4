"""What PyTorch's eager mode computes for an ExportSpec, under the names of Cleave's dumps.

The oracle of the tests: `evaluate` for one microbatch, `train` for a run of steps. Both leave the
spec's module as it was.
"""

from __future__ import annotations

import copy
import dataclasses
import warnings
from collections.abc import Iterator, Mapping, Sequence

import torch
from torch.optim import swa_utils

from cleave.export.capture import capture, own_loss, tensor_leaves
from cleave.export.inputs import Signature
from cleave.export.optimizer import fused_kind
from cleave.export.roles import State
from cleave.export.schedules import Schedule
from cleave.export.spec import ExportSpec
from cleave.export.targets import find_counted_targets

Tensors = dict[str, torch.Tensor]


def example_inputs(spec: ExportSpec) -> Tensors:
    """The spec's example microbatch by input name: what `cleave-run --inputs` takes."""
    return {i.name: i.value.detach() for i in Signature(spec).inputs}


def random_batch(spec: ExportSpec, microbatches: int, generator: torch.Generator) -> Tensors:
    """A batch of `microbatches` microbatches by input name.

    Floating-point inputs are normal numbers; others are drawn from the range of the example's.
    An input without a batch dimension is the example's own.
    """
    batch = {}
    for i in Signature(spec).inputs:
        if i.batch is None:
            batch[i.name] = i.value.detach()
            continue
        shape = list(i.value.shape)
        shape[i.batch] *= microbatches
        if i.value.is_floating_point() or i.value.is_complex():
            kind = torch.complex64 if i.value.is_complex() else None
            batch[i.name] = torch.randn(shape, generator=generator, dtype=kind).to(i.value.dtype)
        else:
            low, high = int(i.value.min()), int(i.value.max())
            drawn = torch.randint(low, high + 1, shape, generator=generator)
            batch[i.name] = drawn.to(i.value.dtype)
    return batch


def split_batch(spec: ExportSpec, batch: Tensors, microbatches: int) -> Iterator[Tensors]:
    """The microbatches of a batch, in order."""
    inputs = Signature(spec).inputs
    for m in range(microbatches):
        part = {}
        for i in inputs:
            value = batch[i.name]
            if i.batch is not None:
                size = i.value.shape[i.batch]
                value = value.narrow(i.batch, m * size, size)
            part[i.name] = value
        yield part


def evaluate(
    spec: ExportSpec, inputs: Tensors | None = None, seed: int = 0, loss_seed: float = 1.0
) -> Tensors:
    """One microbatch in eager mode: what the exported graph's results are called and hold.

    inputs: by name, the example's by default. seed: of PyTorch's generator. loss_seed: the
    gradient of the loss. By the spec's mode: "output.N"; or "loss" and "output.N"; or "loss",
    "grad.NAME" for each parameter (or input) that gets a gradient; and "buffer.NAME" for each
    buffer that forward changes.
    """
    run = _Run(spec)
    before = {name: value.clone() for name, value in run.state.buffers.items()}
    torch.manual_seed(seed)
    result = run.microbatch(inputs or example_inputs(spec), loss_seed)
    for name, value in run.state.parameters.items():
        if value.grad is not None:
            result[f"grad.{name}"] = value.grad
    for name, value in run.buffers().items():
        first = run.state.buffers[name]
        changed = value is not first or value._version != run.versions[name]
        if changed or not torch.equal(value, before[name]):
            result[f"buffer.{name}"] = value.detach().clone()
    return result


@dataclasses.dataclass
class Training:
    """losses: of each step, the mean over its microbatches or targets (the spec's `mean_over`), as Python floats.
    tensors: at the end, "param.NAME", "buffer.NAME" and "optim.NAME.SLOT".
    scales: with a scaler, of each step its scale, and how many steps were skipped until then, it included.
    """

    losses: list[float]
    tensors: Tensors
    scales: list[tuple[float, int]] = dataclasses.field(default_factory=list)


def train(
    spec: ExportSpec,
    batches: list[Tensors],
    microbatches: int | Sequence[int] = 1,
    seed: int = 0,
    scaler: torch.amp.GradScaler | None = None,
    max_norm: float | None = None,
) -> Training:
    """Trains with the spec's optimizers, one step for each of `batches`: as programs do, in the fused form of those that
    have one, and in the ordinary one of all others.

    A batch holds `microbatches` (or that of its step) times the example's number of examples, by input name. PyTorch's
    generator is seeded once, before the first step. scaler: of the loss; schedules and averages go by the steps that
    it does not skip. max_norm: of clip_grad_norm_.
    """
    run = _Run(spec)
    optimizers = run.make_optimizers()
    schedules = run.spec.lr_schedules
    schedulers = [_scheduler(*pair) for pair in zip(schedules, run.spec.optimizers)]
    rates = [[float(group.get("lr") or 0.0) for group in optimizer.param_groups] for optimizer in optimizers]
    losses = []
    targets = find_counted_targets(capture(spec)) if spec.mean_over == "targets" else None
    torch.manual_seed(seed)
    averaged = None
    if run.spec.ema is not None:
        averaged = swa_utils.AveragedModel(run.module, multi_avg_fn=swa_utils.get_ema_multi_avg_fn(run.spec.ema.decay))
    scales: list[tuple[float, int]] = []
    taken = 0
    counts_of_steps = [microbatches] * len(batches) if isinstance(microbatches, int) else microbatches
    for batch, microbatches in zip(batches, counts_of_steps, strict=True):
        step = taken + 1
        for optimizer in optimizers:
            optimizer.zero_grad(set_to_none=True)
        parts = list(split_batch(spec, batch, microbatches))
        counts = [targets.count(part[targets.name]) for part in parts] if targets else [1] * microbatches
        shares = [count / max(sum(counts), 1) for count in counts]
        total = []
        for part, share in zip(parts, shares):
            total.append(run.microbatch(part, share, scaler)["loss"])
            run.add_up()
        run.give_sums()
        for each, base, schedule, scheduler in zip(optimizers, rates, schedules, schedulers):
            for number, group in enumerate(each.param_groups):
                if scheduler is not None:
                    scheduled = scheduler.optimizer.param_groups[number]
                    group.update({o: scheduled[o] for o in ("lr", "momentum", "betas") if o in scheduled})
                elif group.get("lr") is not None:
                    group["lr"] = base[number] * schedule.factor(step)
        is_taken = run.step(optimizers, scaler, max_norm)
        taken += is_taken
        if scaler is not None:
            scales.append((run.scale, len(scales) + 1 - taken))
        if averaged is not None and is_taken:
            averaged.update_parameters(run.module)
        for scheduler in schedulers:
            if scheduler is not None and is_taken and step < len(batches):
                with warnings.catch_warnings():
                    # Its optimizer takes no steps: the fused one does.
                    warnings.simplefilter("ignore", UserWarning)
                    scheduler.step()
        if targets:
            losses.append(sum(float(loss) * share for loss, share in zip(total, shares) if share))
        else:
            losses.append(sum(float(loss) for loss in total) / len(total))
    tensors = {f"param.{n}": p.detach().clone() for n, p in run.state.parameters.items()}
    tensors |= {f"buffer.{n}": b.detach().clone() for n, b in run.buffers().items()}
    held = {id(p) for optimizer in optimizers for group in optimizer.param_groups for p in group["params"]}
    for name, parameter in run.state.parameters.items():
        key = run.pairs.get(parameter, parameter)
        state = next((optimizer.state[key] for optimizer in optimizers if key in optimizer.state), {})
        for slot, value in state.items():
            if isinstance(value, (int, float)) and not isinstance(value, bool):
                value = torch.tensor(value, dtype=torch.float64)
            if isinstance(value, torch.Tensor) and slot != "step":
                value = torch.view_as_complex(value) if parameter.is_complex() else value
                tensors[f"optim.{name}.{slot}"] = value.detach().clone()
        if averaged is not None and key.grad is not None and id(key) in held:
            tensors[f"optim.{name}.ema"] = dict(averaged.module.named_parameters())[name].detach().clone()
    return Training(losses, tensors, scales)


class _Run:
    """A copy of the spec's module, loss and optimizer that may be changed."""

    def __init__(self, spec: ExportSpec):
        # One copy of all three keeps the optimizer's parameters the module's.
        self.module, self.loss, self.optimizer, self.lr_schedule = copy.deepcopy(
            (spec.module, spec.loss, spec.optimizer, spec.lr_schedule)
        )
        self.spec = dataclasses.replace(
            spec, module=self.module, loss=self.loss, optimizer=self.optimizer, lr_schedule=self.lr_schedule
        )
        self.signature = Signature(self.spec)
        self.state = State(self.spec)
        self.versions = {name: b._version for name, b in self.state.buffers.items()}
        # What the fused kernels, which compute on reals, update in place of complex parameters: pairs in their memory.
        self.pairs: dict[torch.Tensor, torch.nn.Parameter] = {}
        self.sums: dict[torch.nn.Parameter, torch.Tensor] = {}  # ExportSpec.accumulate_in

    def microbatch(
        self, inputs: Mapping[str, torch.Tensor], loss_seed: float, scaler: torch.amp.GradScaler | None = None
    ) -> Tensors:
        """Runs one microbatch, and its backward in mode "joint"; the results by dump name."""
        mode = self.spec.mode
        sources = self.signature.inputs
        tensors = [
            inputs[i.name].detach().clone().requires_grad_(i.value.requires_grad) for i in sources
        ]
        with torch.set_grad_enabled(mode == "joint"):
            args, kwargs = self.signature.arguments(tensors)
            outputs = self.module(*args, **kwargs)
            result = {}
            loss = None
            if mode != "forward":
                targets = self.signature.targets(tensors)
                loss = self.loss(outputs, *targets) if self.loss is not None else own_loss(outputs)
                result["loss"] = loss.detach()
            if mode == "joint":
                scaled = loss if scaler is None else scaler.scale(loss)
                scaled.backward(torch.full_like(scaled, loss_seed))
                for source, tensor in zip(sources, tensors):
                    if tensor.grad is not None:
                        result[f"grad.{source.name}"] = tensor.grad
            else:
                leaves = [leaf for leaf in tensor_leaves(outputs) if leaf is not loss]
                result |= {f"output.{n}": leaf.detach() for n, leaf in enumerate(leaves)}
        return result

    def add_up(self):
        """Takes a microbatch's gradients of narrow parameters to their sums, if these are wider."""
        for parameter in self.state.parameters.values():
            is_narrow = parameter.dtype in (torch.bfloat16, torch.float16)
            if self.spec.accumulate_in is None or not is_narrow or parameter.grad is None:
                continue
            if parameter in self.sums:
                self.sums[parameter] += parameter.grad
            else:
                self.sums[parameter] = parameter.grad.to(self.spec.accumulate_in)
            parameter.grad = None

    def give_sums(self):
        """Makes the sums the gradients that optimizers take."""
        for parameter, total in self.sums.items():
            parameter.grad = total.to(parameter.dtype)
        self.sums.clear()

    def buffers(self) -> Tensors:
        """The buffers as they are now, also where forward put new tensors in their place."""
        return State(self.spec).buffers

    def make_optimizers(self) -> list[torch.optim.Optimizer]:
        return [self._fused(each) if fused_kind(each) else _ordinary(each) for each in self.spec.optimizers]

    def _fused(self, optimizer: torch.optim.Optimizer) -> torch.optim.Optimizer:
        """The optimizer's groups in PyTorch's fused implementation."""
        groups = []
        for group in optimizer.param_groups:
            options = {k: v for k, v in group.items() if k in _OPTIONS}
            for parameter in options["params"]:
                if parameter.is_complex():
                    self.pairs[parameter] = torch.nn.Parameter(torch.view_as_real(parameter.detach()))
            options["params"] = [self.pairs.get(p, p) for p in options["params"]]
            groups.append({**options, "fused": True})
        return type(optimizer)(groups, lr=1.0, fused=True)

    def step(
        self,
        optimizers: list[torch.optim.Optimizer],
        scaler: torch.amp.GradScaler | None = None,
        max_norm: float | None = None,
    ) -> bool:
        """Whether the step was taken, and not skipped: by all optimizers."""
        for parameter, pair in self.pairs.items():
            if parameter.grad is not None:
                pair.grad = torch.view_as_real(parameter.grad.resolve_conj())
        together = _Together(optimizers)
        if scaler is not None:
            self.scale = scaler.get_scale()
            scaler.unscale_(together)
        if max_norm is not None:
            torch.nn.utils.clip_grad_norm_(list(self.state.parameters.values()), max_norm)
        together.step() if scaler is None else scaler.step(together)
        for parameter in self.pairs:
            parameter.grad = None
        if scaler is None:
            return True
        scaler.update()
        return scaler.get_scale() >= self.scale


class _Together:
    """Several optimizers as one. A scaler takes or skips its step without asking fused kernels to: that of SGD leaves a
    momentum without a value where it is asked to skip its first step."""

    def __init__(self, optimizers: list[torch.optim.Optimizer]):
        self._optimizers = optimizers
        self.param_groups = [group for optimizer in optimizers for group in optimizer.param_groups]

    def step(self):
        for optimizer in self._optimizers:
            optimizer.step()


def _scheduler(schedule, optimizer: torch.optim.Optimizer) -> torch.optim.lr_scheduler.LRScheduler | None:
    """The scheduler of an optimizer as it is in the spec, not of the fused one; None for schedules of Cleave's."""
    if isinstance(schedule, Schedule):
        return None
    return schedule if isinstance(schedule, torch.optim.lr_scheduler.LRScheduler) else schedule(optimizer)


def _ordinary(optimizer: torch.optim.Optimizer) -> torch.optim.Optimizer:
    """Which computes parameter by parameter."""
    for group in optimizer.param_groups:
        group.update({option: False for option in ("foreach", "fused", "capturable") if option in group})
    return optimizer


_OPTIONS = {
    "params", "lr", "betas", "eps", "weight_decay", "momentum", "dampening", "nesterov",
}  # fmt: skip
