"""What to export: the value that a factory returns and `cleave.export` takes."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch.optim.lr_scheduler import LRScheduler

from cleave.export.averages import EMA
from cleave.export.errors import ExportError
from cleave.export.options import GENERATORS, MEANS, MODES
from cleave.export.schedulers import check_arguments
from cleave.export.schedules import Constant, Schedule
from cleave.plan import Plan


@dataclasses.dataclass
class ExportSpec:
    """A module with one microbatch of example data, and how it is trained.

    module: as it stands: its training flag, its parameters' `requires_grad` and its weights are
        what is exported.
    args, kwargs: one microbatch for `module.forward`, nested in tuples, lists and dicts as you
        like. Tensors become inputs named after forward's parameters ("tokens", "batch.mask");
        numbers, strings and None are part of the program.
    loss: `loss(outputs, *targets)`, a function or a module, to a 0-d tensor: the mean over the
        microbatch. None if the module returns its own loss (a 0-d tensor, or a mapping or
        object with "loss").
    targets: one microbatch of what `loss` takes after the outputs.
    optimizer: a fresh optimizer of torch.optim (all but LBFGS and SparseAdam) or one of your own, over the
        module's parameters; a list of several, each over some of them; or a function of the parameters that creates
        either.
    lr_schedule: cleave.Constant(), WarmupCosine(...) or StepDecay(...) over the optimizer's rates; a fresh
        torch.optim.lr_scheduler of it, stepped after each of its steps (ReduceLROnPlateau: after each
        evaluation of a run), or a function of the optimizer that creates one. With several optimizers: one for all,
        where a scheduler is of one of them and the others' rates stay, or a list with one for each.
    schedule_steps: of how many steps the program has the rates, where a scheduler has no formula that
        gives the same bits; 10,000 by default, of OneCycleLR all that it has.
    ema: cleave.EMA(decay): the update keeps an exponential moving average of each parameter, too.
    mode: "forward" (outputs), "loss" (loss and outputs), "joint" (loss and gradients); "auto" is
        joint where there is a loss or an optimizer, else forward.
    gradients: False leaves the backward out of a joint program: what stays is the forward that
        training runs, with the update as ever; `cleave-opt --autodiff` adds the gradients.
    name: of the files and the MLIR module; the module's class in lower case by default.
    batch_dims: for an input or target, the dimension that counts examples, or None if every
        microbatch gets the same tensor; by default dimension 0, which must then have one size for
        all of them. For an output ("0", "1", ...) too: by default its dimension 0 where that has
        as many entries as there are examples.
    mesh, plan: how the program is to lie on a device mesh: sizes by axis, and what cleave.Plan
        takes; or a cleave.Plan alone. It is written beside the program, as NAME.plan.json.
    mean_over: what the loss of a step is the mean of: "microbatches", whose losses count the same, as in a loop
        of PyTorch with accumulation and DistributedDataParallel; or "targets", each that the loss does not ignore
        (`ignore_index`) counting the same, in whatever microbatch and on whatever rank it is: the mean of one large
        batch. For losses with reduction "mean", without weights of classes.
    generator: of the random numbers: "mt19937", PyTorch's, or "philox", whose numbers are the same
        on any mesh.
    accumulate_in: torch.float32, to add up the gradients of bfloat16 and float16 parameters over the microbatches of a
        step, and over ranks, in that type. The optimizer takes the sums in the parameters' own.
    returns_outputs: a joint program gives the outputs, too, through which no gradient comes.
    group_rates: number the learning rates by parameter group, so that who runs the program may set
        each group's at every step, as cleave.compile_step does.
    group_numbers: the same for each group's momentum or first beta, where it is above 0: theirs come after all rates'.
    device_type: of the device that the module is on, where what is traced are stand-ins of its tensors on the CPU.
    """

    module: torch.nn.Module
    args: Sequence[Any]
    kwargs: Mapping[str, Any] | None = None
    loss: Callable[..., Any] | None = None
    targets: Sequence[Any] = ()
    optimizer: Any = None
    lr_schedule: Any = Constant()
    schedule_steps: int | None = None
    ema: EMA | None = None
    mode: str = "auto"
    gradients: bool = True
    name: str | None = None
    batch_dims: Mapping[str, int | None] = dataclasses.field(default_factory=dict)
    mesh: Mapping[str, int] | None = None
    plan: Any = None
    mean_over: str = "microbatches"
    generator: str = "mt19937"
    accumulate_in: torch.dtype | None = None
    returns_outputs: bool = False
    group_rates: bool = False
    group_numbers: bool = False
    device_type: str = "cpu"

    def __post_init__(self):
        self.check()

    def check(self):
        """Raises ExportError for invalid fields, and normalizes the others.

        Fields may have been assigned since the spec was made.
        """
        if not isinstance(self.module, torch.nn.Module):
            raise ExportError(f"expected a torch.nn.Module to export, found {_kind(self.module)}")
        if isinstance(self.module, torch.jit.ScriptModule):
            raise ExportError(f"expected a module in Python, found {_kind(self.module)}: export what it was compiled from")
        for name, tensor in (*self.module.named_parameters(), *self.module.named_buffers()):
            if torch.nn.parameter.is_lazy(tensor):
                raise ExportError(f"'{name}' has no shape yet; call the module once, which gives it one")
        if isinstance(self.args, torch.Tensor):
            self.args = (self.args,)
        if isinstance(self.targets, torch.Tensor):
            self.targets = (self.targets,)
        self.args = tuple(self.args)
        self.targets = tuple(self.targets)
        self.kwargs = dict(self.kwargs or {})
        self.batch_dims = dict(self.batch_dims or {})
        if self.lr_schedule is None:
            self.lr_schedule = Constant()
        given = self.lr_schedule
        for schedule in given if isinstance(given, (list, tuple)) else [given]:
            if not isinstance(schedule, (Schedule, LRScheduler)) and not callable(schedule):
                raise ExportError(
                    "expected a torch.optim.lr_scheduler, or a function of the optimizer that creates one, or "
                    f"cleave.Constant, WarmupCosine or StepDecay as lr_schedule, found {_kind(schedule)}"
                )
        if self.schedule_steps is not None and not (isinstance(self.schedule_steps, int) and self.schedule_steps > 0):
            raise ExportError(f"expected a positive number of steps as schedule_steps, found {self.schedule_steps!r}")
        if self.ema is not None and not isinstance(self.ema, EMA):
            raise ExportError(f"expected cleave.EMA(decay) as ema, found {_kind(self.ema)}")
        if self.name is None:
            self.name = type(self.module).__name__.lower()
        if not self.name or any(c in self.name for c in "/\\\0"):
            raise ExportError(
                f"expected a file name without separators as name, found {self.name!r}"
            )
        if self.mode not in MODES:
            raise ExportError(f"expected mode to be one of {', '.join(MODES)}, found {self.mode!r}")
        if self.mode == "auto":
            wants_gradient = self.loss is not None or self.optimizer is not None
            self.mode = "joint" if wants_gradient else "forward"
        if not self.gradients and self.mode != "joint":
            raise ExportError(
                f"expected mode 'joint' to leave gradients out of, found mode '{self.mode}', which "
                "has none"
            )
        if self.loss is not None and not callable(self.loss):
            raise ExportError(f"expected loss to be callable, found {_kind(self.loss)}")
        if self.targets and self.loss is None:
            raise ExportError("found targets but no loss function that takes them")
        if self.generator not in GENERATORS:
            raise ExportError(
                f"expected generator to be one of {', '.join(GENERATORS)}, found {self.generator!r}"
            )
        if self.mean_over not in MEANS:
            raise ExportError(f"expected mean_over to be one of {', '.join(MEANS)}, found {self.mean_over!r}")
        if self.mean_over == "targets" and self.mode == "forward":
            raise ExportError("expected a loss for mean_over='targets', found mode 'forward', which has none")
        self._make_plan()
        if self.mode == "joint":
            self._make_optimizer()
        if self.accumulate_in not in (None, torch.float32):
            raise ExportError(f"expected torch.float32 as accumulate_in, found {self.accumulate_in!r}")
        if self.accumulate_in is not None and (self.mode != "joint" or not self.optimizers):
            raise ExportError("found accumulate_in without an optimizer, for which gradients are added up")
        if self.ema is not None and (self.mode != "joint" or not self.optimizers):
            raise ExportError("found ema without an optimizer, whose steps it follows")

    def _make_plan(self):
        if isinstance(self.plan, Plan):
            if self.mesh is not None and dict(self.mesh) != self.plan.mesh:
                raise ExportError(
                    f"expected the mesh of the plan, {self.plan.mesh}, found {dict(self.mesh)}"
                )
        elif self.mesh is not None:
            self.plan = Plan(self.mesh, self.plan if self.plan is not None else ())
        elif self.plan is not None:
            raise ExportError("found a plan without a mesh; give its axes' sizes as mesh={'dp': 2}")

    def _make_optimizer(self):
        if callable(self.optimizer) and not isinstance(self.optimizer, torch.optim.Optimizer):
            self.optimizer = self.optimizer(self.module.parameters())
        for optimizer in self.optimizers:
            if not isinstance(optimizer, torch.optim.Optimizer):
                raise ExportError(
                    "expected a torch.optim optimizer, a list of them, or a function that creates either, found "
                    + _kind(optimizer)
                )
        if not self.optimizers and isinstance(self.lr_schedule, LRScheduler):
            raise ExportError("found lr_schedule without the optimizer that it is of")
        for schedule, optimizer in zip(self.lr_schedules, self.optimizers):
            if not isinstance(schedule, LRScheduler):
                continue
            if schedule.optimizer is not optimizer:
                raise ExportError("expected lr_schedule to be of the spec's optimizer, found one of another optimizer")
            check_arguments(schedule)
            if getattr(schedule, "last_epoch", 0) != 0:
                raise ExportError("lr_schedule has taken steps already; export with a fresh one")

    @property
    def optimizers(self) -> list[torch.optim.Optimizer]:
        """None, one or several, each over parameters of its own."""
        if self.optimizer is None:
            return []
        return list(self.optimizer) if isinstance(self.optimizer, (list, tuple)) else [self.optimizer]

    @property
    def lr_schedules(self) -> list[Schedule | LRScheduler | Callable]:
        """Of each optimizer in turn."""
        optimizers, given = self.optimizers, self.lr_schedule
        if isinstance(given, (list, tuple)):
            if len(given) != len(optimizers):
                raise ExportError(f"expected an lr_schedule for each of {len(optimizers)} optimizers, found {len(given)}")
            return list(given)
        if isinstance(given, LRScheduler) and any(given.optimizer is each for each in optimizers):
            return [given if given.optimizer is each else Constant() for each in optimizers]
        return [given] * len(optimizers)


def _kind(value: Any) -> str:
    return f"a value of type {type(value).__module__}.{type(value).__qualname__}"
