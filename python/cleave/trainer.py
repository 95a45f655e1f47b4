"""Hugging Face's `Trainer` whose training step is a Cleave program: `from cleave.trainer import Trainer`."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import torch
import transformers
from accelerate.optimizer import AcceleratedOptimizer
from transformers.trainer import OPTIMIZER_NAME, SCHEDULER_NAME

from cleave.export.errors import ExportError
from cleave.training_step import Step, compile_step

# What a step takes here; the rest is decided by the training arguments.
_OPTIONS = ("batch_dims", "kernels", "microbatches", "passes", "seed", "timeout")


class Trainer(transformers.Trainer):
    """Trains by `cleave.compile_step`; everything else (data, schedulers, evaluation, callbacks, checkpoints) is Trainer's.

    Several ranks, under torchrun or accelerate launch, are data-parallel. The loss is the model's own, its mean over
    each rank's batch (`num_items_in_batch` is not used); batches have one length. Gradients are clipped to
    `max_grad_norm`.

    step: options of compile_step: microbatches, passes, kernels, batch_dims, seed, timeout.
    """

    def __init__(self, *args, step: Mapping[str, Any] | None = None, **options):
        self._step: Step | None = None
        self._step_options = dict(step or {})
        self._grad_norm: torch.Tensor | None = None
        if unknown := sorted(set(self._step_options) - set(_OPTIONS)):
            raise ExportError(f"expected step to have the options {', '.join(_OPTIONS)}, found {', '.join(unknown)}")
        super().__init__(*args, **options)
        self._check()

    def _check(self) -> None:
        """Refuses what the step would ignore."""
        args, found = self.args, []
        if args.gradient_accumulation_steps != 1:
            found.append("gradient_accumulation_steps: step={'microbatches': N} divides a batch")
        found += [f"{name}: autocast in the model's forward is traced" for name in ("fp16", "bf16") if getattr(args, name)]
        found += [name for name in ("fsdp", "deepspeed", "torch_compile", "use_apex") if getattr(args, name, None)]
        if args.n_gpu > 1 or args.device.type != "cpu":
            found.append(f"the device {args.device}: the step runs on the processor (use_cpu=True)")
        if self.compute_loss_func or self.label_smoother or type(self).compute_loss is not transformers.Trainer.compute_loss:
            found.append("a loss beside the model's own")
        if found:
            raise ExportError(f"a Trainer by Cleave's step does not follow {'; '.join(found)}")

    def create_accelerator_and_postprocess(self) -> None:
        super().create_accelerator_and_postprocess()
        # The step reduces gradients, clips them and updates; accelerate's part of that has nothing to do.
        self.accelerator.prepare_model = self._as_it_is
        self.accelerator.prepare_optimizer = lambda optimizer, *args, **options: _Updated(optimizer)
        self.accelerator.clip_grad_norm_ = lambda *args, **options: self._grad_norm

    def _as_it_is(self, model: torch.nn.Module, *args, **options) -> torch.nn.Module:
        # So that an evaluation does not prepare it once more.
        self.accelerator._models.append(model)
        return model

    def training_step(self, model: torch.nn.Module, inputs: Mapping[str, Any], num_items_in_batch=None) -> torch.Tensor:
        model.train()
        if self._step is None:
            self._step = self._compile(model)
        out = self._step(dict(self._prepare_inputs(inputs)))
        self._grad_norm = out.grad_norm
        return out.loss

    def _compile(self, model: torch.nn.Module) -> Step:
        ranks = self.args.world_size
        optimizer = self.optimizer.optimizer if isinstance(self.optimizer, AcceleratedOptimizer) else self.optimizer
        clips = self.args.max_grad_norm is not None and self.args.max_grad_norm > 0
        return compile_step(
            model, None, optimizer, mesh={"dp": ranks} if ranks > 1 else None,
            clip_norm=self.args.max_grad_norm if clips else None, **self._step_options,
        )  # fmt: skip

    def _load_optimizer_and_scheduler(self, checkpoint: str | None) -> None:
        # Of several ranks transformers asks torch.load for the device "cpu:0", which that does not know.
        files = [os.path.join(checkpoint, name) for name in (OPTIMIZER_NAME, SCHEDULER_NAME)] if checkpoint else []
        for target, file in zip((self.optimizer, self.lr_scheduler), files):
            if os.path.isfile(file):
                target.load_state_dict(torch.load(file, map_location="cpu", weights_only=True))

    def _inner_training_loop(self, *args, **options):
        try:
            return super()._inner_training_loop(*args, **options)
        finally:
            # Another call of train() makes another optimizer.
            if self._step is not None:
                self._step.close()
                self._step = None


class _Updated(AcceleratedOptimizer):
    """An optimizer whose update the step has made when Trainer asks for it."""

    def __init__(self, optimizer: torch.optim.Optimizer):
        inner = optimizer.optimizer if isinstance(optimizer, AcceleratedOptimizer) else optimizer
        super().__init__(inner, device_placement=False)

    def step(self, closure=None):
        return None

    def zero_grad(self, set_to_none=None):
        return None
