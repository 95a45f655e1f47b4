"""Hugging Face's `Trainer` whose training step is a Cleave program: `from cleave.trainer import Trainer`."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import torch
import transformers
from accelerate.data_loader import prepare_data_loader
from accelerate.optimizer import AcceleratedOptimizer
from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES
from transformers.trainer import OPTIMIZER_NAME, SCHEDULER_NAME

from cleave.export.errors import ExportError
from cleave.export.pytorch import pytree
from cleave.plan import Plan
from cleave.ranks import is_sharded, part_of_batch
from cleave.trainer_arguments import find_refused
from cleave.training_step import Step, compile_step

# What a step takes here; the rest is decided by the training arguments.
_OPTIONS = ("batch_dims", "kernels", "mesh", "passes", "pipeline", "plan", "seed", "timeout")


class Trainer(transformers.Trainer):
    """Trains by `cleave.compile_step`; everything else (data, schedulers, evaluation, callbacks, checkpoints) is Trainer's.

    Several ranks, under torchrun or accelerate launch, are data-parallel, or lie as `step` has it by mesh, plan and
    pipeline: then evaluation gives losses, and after training the model is whole on every rank. The batches of
    `gradient_accumulation_steps` are the microbatches of one step; batches have one length. What of the training
    arguments a step does not do is refused (cleave/trainer_arguments.py).

    step: options of compile_step: mesh, plan, pipeline, passes, kernels, batch_dims, seed, timeout. A pipeline's
        microbatches are the gradient_accumulation_steps.
    """

    def __init__(self, *args, step: Mapping[str, Any] | None = None, **options):
        self._step: Step | None = None
        self._step_options = dict(step or {})
        self._grad_norm: torch.Tensor | None = None
        # The batches of a step so far.
        self._batches: list[dict[str, Any]] = []
        self._loss_scale = 1
        self._shifts, self._lays_out, self._parts = False, False, 1
        if unknown := sorted(set(self._step_options) - set(_OPTIONS)):
            raise ExportError(f"expected step to have the options {', '.join(_OPTIONS)}, found {', '.join(unknown)}")
        named = (each for each in args if isinstance(each, transformers.TrainingArguments))
        given = options.get("args") or next(named, None)
        if given is not None:
            _refuse(find_refused(given))
        super().__init__(*args, **options)
        self._check()

    def _check(self) -> None:
        """Refuses what the step would ignore."""
        args, found = self.args, find_refused(self.args)
        if args.device.type not in ("cpu", "cuda"):
            found.append(f"the device {args.device}: the step runs on the processor (use_cpu=True) or on a CUDA device")
        if args.n_gpu > 1:
            found.append(f"{args.n_gpu} devices in one process: start one process for each, with torchrun")
        if type(self).compute_loss is not transformers.Trainer.compute_loss:
            found.append(f"compute_loss of {type(self).__qualname__}: give compute_loss_func, which is traced")
        self._lays_out = any(self._step_options.get(name) is not None for name in ("plan", "pipeline"))
        if self._lays_out and self.compute_metrics is not None:
            found.append("compute_metrics with a plan or a pipeline, where evaluation gives losses: evaluate after training")
        if self._lays_out and not args.average_tokens_across_devices:
            found.append("average_tokens_across_devices=False with a plan or a pipeline, where ranks share a batch")
        pipeline = self._step_options.get("pipeline")
        if pipeline is not None and pipeline.microbatches != args.gradient_accumulation_steps:
            found.append(
                f"gradient_accumulation_steps={args.gradient_accumulation_steps}: a pipeline's are its microbatches, "
                f"{pipeline.microbatches}"
            )
        _refuse(found)
        if self._lays_out:
            self._divide_batches()

    def _divide_batches(self) -> None:
        """Gives ranks that share a batch the same one."""
        accelerator, mesh = self.accelerator, dict(self._step_options.get("mesh") or {})
        plan = self._step_options.get("plan")
        plan = plan if plan is None or isinstance(plan, Plan) else Plan(mesh, plan)
        mesh = plan.mesh if plan is not None else mesh
        index, self._parts = part_of_batch(mesh, plan, self.args.process_index)
        config = accelerator.dataloader_config

        def prepare(loader, *args, **options):
            prepared = prepare_data_loader(
                loader, accelerator.device, num_processes=self._parts, process_index=index, put_on_device=True,
                split_batches=config.split_batches, rng_types=accelerator.rng_types, even_batches=config.even_batches,
                dispatch_batches=False, use_seedable_sampler=config.use_seedable_sampler, data_seed=config.data_seed,
            )  # fmt: skip
            accelerator._dataloaders.append(prepared)
            return prepared

        parts = [part_of_batch(mesh, plan, rank)[0] for rank in range(self.args.world_size)]
        # One rank of those that share a part, in the order of parts.
        chosen = [parts.index(part) for part in range(self._parts)]

        def gather(data, *args, **options):
            state = accelerator.gradient_state
            count = state.remainder if state.end_of_dataloader and state.remainder > 0 else None

            def part_by_part(tensor):
                of_ranks = tensor.view(self.args.world_size, -1, *tensor.shape[1:])
                return of_ranks[chosen].flatten(0, 1)[:count]

            return pytree.tree_map(part_by_part, accelerator.gather(data))

        accelerator.prepare_data_loader = prepare
        self.gather_function = accelerator.gather_for_metrics = gather

    def get_total_train_batch_size(self, args) -> int:
        parts = self._parts if self._lays_out else args.world_size
        return self._train_batch_size * args.gradient_accumulation_steps * parts

    def create_accelerator_and_postprocess(self) -> None:
        super().create_accelerator_and_postprocess()
        # The step reduces gradients, clips them and updates; accelerate's part of that has nothing to do. Its autocast
        # around forward is traced.
        prepare_model = self.accelerator.prepare_model
        self.accelerator.prepare_model = lambda model, *args, **options: prepare_model(
            model, device_placement=False, evaluation_mode=True
        )
        self.accelerator.prepare_optimizer = lambda optimizer, *args, **options: _Updated(optimizer)
        self.accelerator.clip_grad_norm_ = lambda *args, **options: self._grad_norm

    def training_step(self, model: torch.nn.Module, inputs: Mapping[str, Any], num_items_in_batch=None) -> torch.Tensor:
        self._batches.append(dict(self._prepare_inputs(inputs)))
        if not self.accelerator.gradient_state.sync_gradients:
            return torch.zeros((), device=self.args.device)  # the loss of all is that of the last
        batches, self._batches = self._batches, []
        inputs, targets = self._arguments(_joined(batches), num_items_in_batch)
        # Trainer's losses are of all that the step counts, where it counts; a step takes the mean over its batches.
        counts = self._counts(num_items_in_batch)
        if self._step is None:
            self._step = self._compile(model, counts)
        self._loss_scale = len(batches) * self._ranks_that_count() if counts else 1
        model.train()
        out = self._step(inputs, *targets, microbatches=len(batches))
        self._grad_norm = out.grad_norm
        return out.loss.to(self.args.device)

    def _counts(self, count: torch.Tensor | None) -> bool:
        """Whether the loss divides by a count that it is given."""
        return count is not None and (self.model_accepts_loss_kwargs or self.compute_loss_func is not None)

    def _ranks_that_count(self) -> int:
        """By how many the loss is multiplied, of which the step takes the mean over ranks; a plan's is of all of a batch."""
        if not self.args.average_tokens_across_devices:
            return 1
        has_whole = self._step_options.get("plan") is not None
        return self.accelerator.num_processes // (self._parts if has_whole else 1)

    def prediction_step(self, model, inputs, prediction_loss_only, ignore_keys=None):
        if not self._lays_out or not self.is_in_train:
            return super().prediction_step(model, inputs, prediction_loss_only, ignore_keys)
        if not prediction_loss_only:
            _refuse(["predictions of a model that is laid out over ranks: predict after training"])
        inputs = dict(self._prepare_inputs(inputs))
        count = self._get_num_items_in_batch([inputs], self.args.device)
        inputs, targets = self._arguments(inputs, count)
        if self._step is None:
            self._step = self._compile(model, self._counts(count))
        self._loss_scale = 1 if count is None else self._ranks_that_count()
        model.eval()
        return self._step.evaluate(inputs, *targets, microbatches=1).loss, None, None

    def _arguments(self, inputs: dict[str, Any], count: torch.Tensor | None) -> tuple[dict[str, Any], list[torch.Tensor]]:
        """What Trainer.compute_loss gives to the model, and to the loss beside it."""
        targets = []
        if (self.label_smoother is not None or self.compute_loss_func is not None) and "labels" in inputs:
            targets.append(inputs.pop("labels"))
        if self.model_accepts_loss_kwargs and count is not None:
            inputs["num_items_in_batch"] = count
        if self.compute_loss_func is not None and count is not None:
            targets.append(count)
        return inputs, targets

    def _loss(self, outputs, labels=None, num_items_in_batch=None) -> torch.Tensor:
        """As Trainer.compute_loss has it; traced."""
        if self.compute_loss_func is not None:
            loss = self.compute_loss_func(outputs, labels, num_items_in_batch=num_items_in_batch)
        elif labels is not None:
            loss = self.label_smoother(outputs, labels, shift_labels=self._shifts)
        else:
            loss = outputs["loss"] if isinstance(outputs, dict) else outputs[0]
        return loss if self._loss_scale == 1 else loss * self._loss_scale

    def _shifts_labels(self) -> bool:
        model = self.accelerator.unwrap_model(self.model)
        if hasattr(model, "peft_config"):
            model = model.base_model.model
        return model._get_name() in MODEL_FOR_CAUSAL_LM_MAPPING_NAMES.values()

    def _compile(self, model: torch.nn.Module, counts: bool) -> Step:
        ranks = self.args.world_size
        optimizer = self.optimizer.optimizer if isinstance(self.optimizer, AcceleratedOptimizer) else self.optimizer
        self._shifts = self._shifts_labels()
        clips = self.args.max_grad_norm is not None and self.args.max_grad_norm > 0
        options = {"timeout": float(self.args.ddp_timeout), **self._step_options}
        if counts:
            options["batch_dims"] = {"num_items_in_batch": None, **(options.get("batch_dims") or {})}
        if not self._lays_out and ranks > 1:
            options.setdefault("mesh", {"dp": ranks})
        return compile_step(
            model, _make_loss(self), optimizer, clip_norm=self.args.max_grad_norm if clips else None, **options
        )

    def _load_optimizer_and_scheduler(self, checkpoint: str | None) -> None:
        # Of several ranks transformers asks torch.load for the device "cpu:0", which that does not know.
        files = [os.path.join(checkpoint, name) for name in (OPTIMIZER_NAME, SCHEDULER_NAME)] if checkpoint else []
        for target, file in zip((self.optimizer, self.lr_scheduler), files):
            if os.path.isfile(file):
                target.load_state_dict(torch.load(file, map_location="cpu", weights_only=True))

    def _inner_training_loop(self, *args, **options):
        try:
            output = super()._inner_training_loop(*args, **options)
            self._give_back()
            return output
        finally:
            self._batches = []
            # Another call of train() makes another optimizer.
            if self._step is not None:
                self._step.close()
                self._step = None

    # Checkpoints of a model that lies on several ranks, whole and in Trainer's own form. --------------

    def _give_back(self) -> None:
        """Ends the step; the model is whole on every rank then. All call it together."""
        if self._step is None:
            return
        self._step.gather_stages()
        self._step.close()
        self._step = None
        made: dict[torch.Tensor, torch.Tensor] = {}
        for module in self.model.modules():
            for table in (module._parameters, module._buffers):
                for name, tensor in table.items():
                    if tensor is None or not is_sharded(tensor):
                        continue
                    if tensor not in made:
                        whole = tensor.detach().full_tensor()
                        is_parameter = isinstance(tensor, torch.nn.Parameter)
                        made[tensor] = torch.nn.Parameter(whole, tensor.requires_grad) if is_parameter else whole
                    table[name] = made[tensor]

    def _load_best_model(self):
        self._give_back()
        super()._load_best_model()

    def save_model(self, output_dir: str | None = None, _internal_call: bool = False):
        if not self._lays_out or self._step is None:
            return super().save_model(output_dir, _internal_call)
        self._step.gather_stages()
        state = {name: _whole(tensor) for name, tensor in self.model.state_dict().items()}
        if self.args.should_save:
            self._save(output_dir, state_dict=state)

    def _save_optimizer_and_scheduler(self, output_dir: str):
        if not self._lays_out or self._step is None:
            return super()._save_optimizer_and_scheduler(output_dir)
        state = pytree.tree_map(_whole, self.optimizer.state_dict())
        if self.args.should_save:
            torch.save(state, os.path.join(output_dir, OPTIMIZER_NAME))
            torch.save(self.lr_scheduler.state_dict(), os.path.join(output_dir, SCHEDULER_NAME))


def _whole(value: Any) -> Any:
    return value.full_tensor() if isinstance(value, torch.Tensor) and is_sharded(value) else value


def _refuse(found: list[str]) -> None:
    if found:
        raise ExportError(f"a Trainer by Cleave's step does not follow {'; '.join(found)}")


def _make_loss(trainer: Trainer):
    """Trainer's loss as a function, of which a program knows nothing of the trainer."""

    def loss(outputs, *targets):
        return trainer._loss(outputs, *targets)

    return loss


def _joined(batches: list[dict[str, Any]]) -> dict[str, Any]:
    """The batches of a step as one, which it divides into them again."""
    if len(batches) == 1:
        return batches[0]
    kinds = [{name: tuple(t.shape) for name, t in batch.items() if isinstance(t, torch.Tensor)} for batch in batches]
    for kind in kinds[1:]:
        if kind != kinds[0]:
            raise ExportError(
                f"expected batches with the same shapes in a step of {len(batches)} (gradient_accumulation_steps), found "
                f"{kinds[0]} and {kind}; dataloader_drop_last=True leaves out what is over"
            )
    return {
        name: torch.cat([batch[name] for batch in batches]) if isinstance(value, torch.Tensor) and value.dim() else value
        for name, value in batches[0].items()
    }


class _Updated(AcceleratedOptimizer):
    """An optimizer whose update the step has made when Trainer asks for it."""

    def __init__(self, optimizer: torch.optim.Optimizer):
        inner = optimizer.optimizer if isinstance(optimizer, AcceleratedOptimizer) else optimizer
        super().__init__(inner, device_placement=False)

    def step(self, closure=None):
        return None

    def zero_grad(self, set_to_none=None):
        return None
