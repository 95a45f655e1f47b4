"""`cleave.compile_step`: the step of your own training loop as a compiled program.

Who owns what is in docs/python.md: parameters and buffers stay the module's and the optimizer's state stays the
optimizer's; the session computes in their memory.
"""

from __future__ import annotations

import atexit
import contextlib
import math
import os
import threading
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch

from cleave.batches import LastCall, OtherKind, TensorKind, about_batch, call_arguments, describe_structure, kind_of
from cleave.bound_program import BoundProgram, check_model
from cleave.devices import find_device, for_native
from cleave.errors import Error
from cleave.export.errors import ExportError
from cleave.export.inputs import Input, Signature
from cleave.export.pytorch import note_optimizer_step, pytree, step_hooks
from cleave.export.roles import State
from cleave.export.spec import ExportSpec
from cleave.loss_scale import LossScale
from cleave.native import native
from cleave.optimizer_state import OptimizerStates, fresh_copy, is_cycled, learning_rate, without_wrapper
from cleave.plan import Plan, check_mesh
from cleave.programs import Program, trace_spec
from cleave.ranks import Ranks, generator_digest, is_sharded
from cleave.stage_cuts import StageCuts, run_forward_schedule, splits_backward
from cleave.step_values import Pipeline, StepResult, check_pipeline
from cleave.step_tensors import replace, settle, settled, whole_stand_ins


def compile_step(
    model: torch.nn.Module,
    loss_fn: Callable[..., torch.Tensor] | None,
    optimizer: torch.optim.Optimizer | Sequence[torch.optim.Optimizer],
    *,
    mesh: Mapping[str, int] | None = None,
    plan: Any = None,
    pipeline: Pipeline | None = None,
    microbatches: int = 1,
    clip_norm: float | None = None,
    scaler: torch.amp.GradScaler | None = None,
    outputs: bool = False,
    passes: str | Sequence[str] = (),
    kernels: str = "best",
    batch_dims: Mapping[str, int | None] | None = None,
    seed: int = 0,
    group: Any = None,
    timeout: float = 300.0,
) -> Step:
    """A function that trains `model` by one step: `out = step(inputs, *targets)`.

    The first call traces and compiles, for the shapes of its batch; a batch of other shapes compiles once more. Each
    call does what eager mode does in the forward, backward, clipping and `optimizer.step()`, and nothing is left for
    `loss.backward()` or `zero_grad()`. `scheduler.step()` stays yours.

    loss_fn: `loss_fn(outputs, *targets)`, the mean over the batch; None where the model returns its own loss.
    optimizer: over the model's parameters, of a kind that `cleave.export` takes; or a list of several, each over some
        of them. Learning rates, momenta and first betas are read at every step; another change of a hyper-parameter is
        refused.
    mesh, plan: how the program is to lie on ranks, as for `cleave.export`; `{"dp": 2}` alone is data parallelism. The
        ranks are those of `group`, by default all of torch.distributed, which must be initialised.
    pipeline: a schedule by which ranks run stages; they are the outermost axis of the mesh.
    microbatches: into which a batch is divided; gradients are averages over them.
    clip_norm: clip gradients by their global norm, as torch.nn.utils.clip_grad_norm_ does.
    scaler: scale the loss by this scaler's scale, unscale gradients, skip steps in which these are not finite, and let
        the scale grow or shrink: what its `scale`, `unscale_`, `step` and `update` do, which nobody calls then.
    outputs: return what the model has made of the batch, too: its tensor, or all its tensors as a tuple (in the
        order of its tuples, dicts and dataclasses; without its own loss), those that this rank makes. In a pipeline
        only the ranks of the last stage have them.
    passes: run on the program at the end.
    kernels: which compiled kernels run, as `cleave-run --kernels` has it.
    batch_dims: as for `cleave.export`.
    seed: of Philox's random numbers; others come from PyTorch's default generator, as in eager mode.
    timeout: seconds after which a rank gives up waiting for the others.
    """
    return Step(
        model, loss_fn, optimizer, mesh=mesh, plan=plan, pipeline=pipeline, microbatches=microbatches,
        clip_norm=clip_norm, scaler=scaler, outputs=outputs, passes=passes, kernels=kernels, batch_dims=batch_dims, seed=seed,
        group=group, timeout=timeout,
    )  # fmt: skip


# Steps that train parameters: two that train the same would change them behind each other's back.
_live: weakref.WeakSet[Step] = weakref.WeakSet()


@atexit.register
def _end_groups() -> None:
    """Lets go of process groups before the interpreter ends: their threads end with the last reference to them, and one that
    gives back a tensor of Python's later than that aborts the process (pytorch#179291). Not after an error: an operation that
    other ranks never join would be waited for. Parameters that are DTensors keep the groups of their mesh."""
    for step in list(_live):
        if step._process == os.getpid() and step._ranks is not None and not step._has_failed:
            step.close()
            step._options["group"] = None
            step._ranks.let_go()


class Step:
    """What `compile_step` returns. `close()` gives the model back."""

    def __init__(self, model, loss_fn, optimizer, *, mesh, plan, pipeline, microbatches, clip_norm, scaler, **options):
        if not isinstance(model, torch.nn.Module):
            raise ExportError(f"expected a torch.nn.Module to train, found a value of type {type(model).__qualname__}")
        check_model(model)
        optimizers = list(optimizer) if isinstance(optimizer, (list, tuple)) else [optimizer]
        unknown = [each for each in optimizers if not isinstance(each, torch.optim.Optimizer)]
        if unknown or not optimizers:
            kind = f"a value of type {type(unknown[0]).__qualname__}" if unknown else "an empty list"
            raise ExportError(f"expected a torch.optim optimizer, or a list of them, found {kind}")
        optimizers = list(map(without_wrapper, optimizers))
        if pipeline is not None:
            check_pipeline(pipeline)
        if pipeline is not None and microbatches not in (1, pipeline.microbatches):
            raise ExportError(
                f"expected the pipeline's {pipeline.microbatches} microbatches, found microbatches={microbatches}"
            )
        self._microbatches = pipeline.microbatches if pipeline else microbatches
        if not isinstance(self._microbatches, int) or self._microbatches < 1:
            raise ExportError(f"expected a positive number of microbatches, found {self._microbatches!r}")
        if clip_norm is not None and not clip_norm > 0:
            raise ExportError(f"expected a positive clip_norm, found {clip_norm!r}")
        self._model, self._loss_fn, self._optimizers = model, loss_fn, optimizers
        self._scale = LossScale.of(scaler)
        self._modules = self._find_modules()
        self._pipeline, self._clip_norm, self._options = pipeline, clip_norm, options
        self._plan = plan if isinstance(plan, Plan) else Plan(mesh, plan) if plan is not None and mesh else None
        if plan is not None and self._plan is None:
            raise ExportError("found a plan without a mesh; give its axes' sizes as mesh={'dp': 2}")
        self._mesh = dict(self._plan.mesh) if self._plan else check_mesh(mesh) if mesh else {}
        if self._plan is None and set(self._mesh) - {"dp"}:
            raise ExportError(f"expected a plan for the mesh {self._mesh}: only the axis 'dp' needs none")
        self._programs: dict[Any, BoundProgram] = {}
        self._last: LastCall | None = None
        self._cuts = StageCuts(pipeline.stages, pipeline.balance) if pipeline else None
        # Of the first batch: its structure, and its inputs as they were traced.
        self._first: tuple[Any, list[Any], list[Input]] | None = None
        self._state: OptimizerStates | None = None
        # Whether programs take momenta and first betas from the optimizers at every step, as they take rates.
        self._follows_numbers = False
        # Whether parameters and buffers lie as programs have them on ranks.
        self._is_laid_out = False
        # The parameters that this rank trains, or uses.
        self._held: set[str] | None = None
        self._ranks: Ranks | None = None
        # Where the model is.
        self._device: torch.device | None = None
        self._process = os.getpid()
        # Threads take turns.
        self._lock = threading.RLock()
        self._closed = False
        # Whether a step has ended in an error, since when ranks may wait for each other.
        self._has_failed = False
        mine = _updated(optimizers)
        for other in list(_live):
            if not other._closed and mine & _updated(other._optimizers):
                raise Error(f"another step trains parameters of this {type(model).__name__}: close() it first")
        _live.add(self)

    def close(self) -> None:
        """Forgets all programs. The model and the optimizer keep their values, and may be given to another step."""
        self._closed = True
        self._forget_programs()
        _live.discard(self)

    def __reduce__(self):
        raise Error("a compiled step cannot be copied or pickled: copy the model and the optimizer, and compile a step of theirs")

    @property
    def program(self) -> Program | None:
        """The program that was compiled last, as it runs; None before the first step."""
        return list(self._programs.values())[-1].program if self._programs else None

    def __call__(self, inputs: Any, *targets: Any, microbatches: int | None = None) -> StepResult:
        """Trains by one step.

        microbatches: into which this batch is divided; those of `compile_step` by default.
        """
        microbatches = self._microbatches if microbatches is None else microbatches
        if not isinstance(microbatches, int) or microbatches < 1:
            raise ExportError(f"expected a positive number of microbatches, found {microbatches!r}")
        with self._lock, self._noting_failure():
            return self._train(inputs, targets, microbatches)

    @contextlib.contextmanager
    def _noting_failure(self) -> Iterator[None]:
        try:
            yield
        except BaseException:
            self._has_failed = True
            raise

    def _train(self, inputs: Any, targets: tuple, microbatches: int) -> StepResult:
        compiled, tensors, number = self._prepare(inputs, targets, microbatches, trains=True)
        if self._scale is not None:
            self._scale.begin_step(compiled.session)
        loss = compiled.session.step(number, tensors)
        is_skipped = self._scale is not None and not self._scale.end_step(compiled.session)
        if not is_skipped:
            self._end_step(number)
        norm = compiled.session.result("output.gradient_norm") if self._clip_norm is not None else None
        if is_skipped and self._clip_norm is not None:
            norm = torch.tensor(math.nan)
        outputs = compiled.outputs(self._ranks) if self._options["outputs"] else None
        return StepResult(compiled.session.loss_tensor(loss), norm, outputs)

    def _end_step(self, number: int) -> None:
        """What follows an update."""
        self._state.end_step(number)
        for optimizer in self._optimizers:
            note_optimizer_step(optimizer)
            for hook in step_hooks(optimizer)[1]:
                hook(optimizer, (), {})

    def evaluate(self, inputs: Any, *targets: Any, microbatches: int | None = None) -> StepResult:
        """The loss and the outputs of a batch, by the forward alone, of a model in evaluation mode (`model.eval()`).

        For any layout on ranks, those too in which no rank has a model that it could call. Batches are divided over ranks
        as those of steps are.

        microbatches: 1 by default; in a pipeline those of its steps, where they divide the batch.
        """
        if self._model.training:
            raise ExportError("expected the model in evaluation mode, model.eval(), found it in training mode")
        with self._lock, self._noting_failure():
            compiled, tensors, number = self._prepare(inputs, targets, microbatches, trains=False)
            loss = compiled.session.step(number, tensors)
            if self._divides_untyped:
                loss = self._ranks.mean(loss)
            return StepResult(compiled.session.loss_tensor(loss), None, compiled.outputs(self._ranks))

    def gather_stages(self) -> None:
        """Gives every rank of a pipeline the parameters, buffers and optimizer state that others have trained.

        After it the model and the optimizer are whole on each rank (parts of what a plan shards), to be saved, say. All
        ranks call it together; of other layouts nothing is to be gathered.
        """
        trained = [compiled for key, compiled in self._programs.items() if key[3]]
        if self._pipeline is None or self._ranks is None or self._ranks.native is None or not trained:
            return
        session, weights = trained[-1].session, trained[-1].weights
        held = {name for name in weights if session.has_weight(name)}
        updated = {name for name in weights if session.has_optimizer_state(name)}
        self._ranks.spread(weights, updated & held, held)
        states = {" ".join(key): tensor for key, tensor in self._state.tensors().items()}
        own = {" ".join(key) for key in self._state.tensors() if session.has_optimizer_state(key[0])}
        self._ranks.spread(states, own, own)
        session.note_changes()

    @property
    def _divides_untyped(self) -> bool:
        """Whether ranks run the same whole program, each on its own batches."""
        return self._plan is None and self._pipeline is None

    @property
    def _shares_batches(self) -> bool:
        """Whether some ranks compute parts of the same values, whose random numbers must be the same."""
        return self._plan is not None and self._ranks.native is not None and (
            self._ranks.parts_of_batch(self._plan) < math.prod(self._mesh.values())
        )  # fmt: skip

    def _has_other_numbers(self) -> bool:
        """Whether a momentum or first beta changes from step to step, as OneCycleLR and CyclicLR have it."""
        return any(map(is_cycled, self._optimizers)) if self._state is None else self._state.has_other_numbers()

    def _rates(self) -> str:
        groups = [group for optimizer in self._optimizers for group in optimizer.param_groups]
        rates = ", ".join(str(learning_rate(group, number)) for number, group in enumerate(groups))
        return rates if self._scale is None else f"{rates} and a loss scale of {self._scale.scale}"

    def _find_modules(self) -> dict[str, torch.nn.Module]:
        """Those of the model, and of a loss that is one, by their paths."""
        modules = dict(self._model.named_modules())
        if isinstance(self._loss_fn, torch.nn.Module):
            known = set(modules.values())
            modules |= {name: each for name, each in self._loss_fn.named_modules(prefix="loss_fn") if each not in known}
        return modules

    def _prepare(self, inputs, targets, microbatches: int | None, trains: bool) -> tuple[BoundProgram, list[torch.Tensor], int]:
        """The program for a batch, the batch's tensors, and the number of the step."""
        if self._closed:
            raise Error("the step is closed")
        if os.getpid() != self._process:
            raise Error(
                f"the step is of process {self._process}, found process {os.getpid()}, which was forked from it: start "
                "a process that trains by spawn, and compile its step there (PyTorch takes no gradients in a fork)"
            )
        arguments = (*call_arguments(inputs), targets)
        last = self._last
        tensors = last.match(arguments, microbatches, trains) if last is not None else None
        if is_like_last := tensors is not None:
            key, compiled = last.key, last.compiled
        else:
            key, tensors = self._key(arguments, microbatches, trains)
            compiled = self._programs.get(key)
        if self._ranks is None:
            self._ranks = Ranks(self._mesh, self._pipeline, self._options["group"], self._options["timeout"])
        number, problem, rates = 1, None, ""
        try:
            if not is_like_last:
                _check_arguments(key, tensors)
            if trains and self._ranks.native is not None:
                rates = self._rates()
            if trains and not self._follows_numbers and self._has_other_numbers():
                for each in self._programs.values():
                    each.check()
                self._forget_programs()
                self._follows_numbers, compiled = True, None
            if compiled is not None:
                number = self._begin(compiled, trains)
            elif self._programs:
                # What has changed since the last program was compiled is said as that, not as what it leads to.
                next(reversed(self._programs.values())).check()
        except Error as error:
            problem = error
        # What is wrong on one rank keeps all from a step in which they would wait for it.
        if self._ranks.native is not None:
            about = about_batch(key, self._microbatches) + " with other momenta or betas" * self._follows_numbers
            if compiled is not None and compiled.draws and self._shares_batches:
                about += f" with PyTorch's generator in state {generator_digest():08x}"
            self._ranks.check_same(about, rates, problem)
        elif problem is not None:
            raise problem
        if compiled is None:
            compiled = self._compile(key, *arguments)
            with self._ranks.together("the first step"):
                number = self._begin(compiled, trains)
            if compiled.draws and self._shares_batches:
                self._ranks.check_same_generator()
        if not is_like_last:
            self._last = LastCall(arguments, microbatches, key, compiled)
        return compiled, [tensors[i] for i in compiled.order], number

    def _key(self, arguments: tuple, microbatches: int | None, trains: bool) -> tuple[tuple, list[torch.Tensor]]:
        """What a program is compiled for, and the tensors among the arguments."""
        leaves, tree = pytree.tree_flatten(arguments)
        if self._first is None:
            self._modules = self._find_modules()
        modes = tuple([module.training for module in self._modules.values()])
        key = (tree, tuple(kind_of(leaf) for leaf in leaves), modes, trains, microbatches)
        return key, [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]

    def _forget_programs(self) -> None:
        self._programs.clear()
        self._last = None

    def _begin(self, compiled: BoundProgram, trains: bool) -> int:
        """Follows or refuses what has changed since the last step; the number of the next."""
        compiled.check()
        if not trains:
            return 1
        for optimizer in self._optimizers:
            if step_hooks(optimizer)[0]:
                raise ExportError(
                    f"{type(optimizer).__name__} has a hook that runs before its step (register_step_pre_hook), where the "
                    "compiled step has no gradients to show; remove it"
                )
        return self._state.begin_step(compiled, self._follows_numbers)

    # Compiling ----------------------------------------------------------------------------------

    def _compile(self, key, args, kwargs, targets) -> BoundProgram:
        *_, trains, microbatches = key
        # Ranks begin together or not at all: one that cannot compile tells the others.
        with self._ranks.together("the trace of the step"):
            self._check_like_first(*key[:2])
            self._device = find_device(self._modules)
            device = for_native(self._device)
            args, kwargs, targets = self._on_cpu((args, kwargs, targets))
            settle(self._modules)
            if microbatches is None:
                microbatches = 1 if self._pipeline is None else self._divide(args, kwargs, targets)
            program, names, state = self._trace(key, args, kwargs, targets, microbatches)
            signature = native().signature(program._native, self._ranks.rank, self._ranks.size)
        beginning = {} if self._programs else self._beginning(state)
        with self._ranks.together("the memory of the step"):
            adopt = {}
            for value in signature["weights"]:
                adopt[value["file_name"]] = self._adopt(value, program.tensors, state)
            self._is_laid_out = True
            if trains:
                if self._state is None:
                    self._state = OptimizerStates(
                        self._optimizers, state.parameters, signature["optimizer_states"], self._ranks
                    )
                adopt |= self._state.memory()
        session = native().Session(
            program._native, adopt, microbatches=microbatches, seed=self._options["seed"],
            follows_generator=True, kernels=self._options["kernels"], keep_outputs=self._options["outputs"] or not trains,
            ranks=None if not trains and self._divides_untyped else self._ranks.native, device=device,
        )  # fmt: skip
        with self._ranks.together("the stages of the step"):
            self._check_stages(session, signature)
            if self._scale is None and session.loss_scale() is not None:
                raise ExportError(
                    "found a pass that scales the loss, without the scaler whose scale it is: expected "
                    "compile_step(scaler=torch.amp.GradScaler('cpu')), and no such pass"
                )
        if not self._programs:
            held = {name: digests for name, digests in beginning.items() if name in self._held}
            self._ranks.check_same_values({what: digest for each in held.values() for what, digest in each.items()})
        order = [names.index(value["name"]) for value in signature["inputs"]]
        self._programs[key] = BoundProgram(
            self._modules, program, session, order, state, signature, microbatches, self._device
        )
        return self._programs[key]

    def _beginning(self, state: State) -> dict[str, dict[str, int]]:
        """Digests of each parameter's value and of its states in the optimizers, by what they are."""
        found = {}
        for name, parameter in state.parameters.items():
            tensors = {f"'{name}'": parameter}
            for optimizer in self._optimizers:
                for key, value in optimizer.state.get(parameter, {}).items():
                    if isinstance(value, torch.Tensor):
                        tensors[f"'{key}' of '{name}' in {type(optimizer).__name__}"] = value
            found[name] = self._ranks.digests(tensors)
        return found

    def _divide(self, args, kwargs, targets) -> int:
        """The microbatches of an evaluation in a pipeline: those of its steps, or one."""
        spec = ExportSpec(self._model, args, kwargs, loss=self._loss_fn, targets=targets, mode="loss",
                          batch_dims=self._options["batch_dims"] or {})  # fmt: skip
        sizes = [source.value.shape[source.batch] for source in Signature(spec).inputs if source.batch is not None]
        return 1 if any(size % self._microbatches for size in sizes) else self._microbatches

    def _check_stages(self, session, signature: dict) -> None:
        """Refuses a program that is cut otherwise than the first: a rank has no other stages' current values."""
        held = {value["name"] for value in signature["weights"] if session.has_weight(value["name"])}
        held &= {name for name, _ in self._model.named_parameters()}
        first = self._held = self._held if self._held is not None else held
        if held != first:
            raise Error(
                "stages are cut otherwise for this batch than for the first: expected the parameters "
                f"{', '.join(sorted(first))} on this rank, found {', '.join(sorted(held))}; take batches of the "
                "first one's size (drop_last=True)"
            )

    def _check_like_first(self, tree, kinds) -> None:
        """A batch of another size is compiled again; anything else about it must be as in the first one."""
        if self._first is None:
            return
        first_tree, first_kinds, inputs = self._first
        if tree != first_tree:
            raise Error(
                f"expected a batch of the first one's structure, {describe_structure(first_tree)}, found {describe_structure(tree)}"
            )
        sources = iter(inputs)
        for kind, first in zip(kinds, first_kinds):
            if not isinstance(first, TensorKind):
                if kind != first:
                    raise Error(f"expected the argument {first!r}, as in the first batch, found {kind!r}")
                continue
            source = next(sources)
            if not isinstance(kind, TensorKind) or not kind.is_like(first, source.batch):
                raise Error(
                    f"'{source.name}': expected {first}, as in the first batch, "
                    + ("" if source.batch is None else f"in any size of dimension {source.batch}, ")
                    + f"found {kind}"
                )

    def _trace(self, key, args, kwargs, targets, microbatches) -> tuple[Program, list[str], State]:
        trains = key[3]
        mode = "joint" if trains else "loss"
        with whole_stand_ins(self._modules) as stand_ins:
            optimizers = [fresh_copy(optimizer, stand_ins) for optimizer in self._optimizers] if trains else None

            def spec(args, kwargs, targets):
                return ExportSpec(
                    self._model, args, kwargs, loss=self._loss_fn, targets=targets, optimizer=optimizers,
                    mode=mode, returns_outputs=self._options["outputs"] or not trains, group_rates=True,
                    group_numbers=self._follows_numbers, batch_dims=self._options["batch_dims"] or {}, plan=self._plan,
                    device_type=self._device.type,
                )  # fmt: skip

            whole = spec(args, kwargs, targets)
            inputs = Signature(whole).inputs
            example = iter([self._example(source, microbatches) for source in inputs])
            leaves, tree = pytree.tree_flatten((args, kwargs, targets))
            one = [next(example) if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves]
            traced = spec(*pytree.tree_unflatten(one, tree))
            program = trace_spec(traced)
            state = State(traced)
        owners = {id(stand_in): owner for owner, stand_in in stand_ins.items()}
        for table in (state.parameters, state.buffers):
            for name, tensor in table.items():
                table[name] = owner = owners.get(id(tensor), tensor)
                if is_sharded(owner):
                    program.tensors.pop(name, None)  # nobody has it whole
                elif owner is not tensor and name in program.tensors:
                    program.tensors[name] = owner.detach()
        self._run_passes(program, trains, microbatches)
        self._first = self._first or (*key[:2], inputs)
        return program, [source.name for source in inputs], state

    def _on_cpu(self, arguments: Any) -> Any:
        """The arguments as they are traced, on the CPU."""

        def host(leaf: Any) -> Any:
            if not isinstance(leaf, torch.Tensor) or leaf.device.type == "cpu":
                return leaf
            if leaf.device != self._device:
                raise ExportError(f"expected a batch on the CPU or on {self._device}, found a tensor on {leaf.device}")
            return leaf.detach().cpu()

        return pytree.tree_map(host, arguments)

    def _example(self, source, microbatches: int) -> torch.Tensor:
        """One microbatch of an input as the program takes it, of all ranks together where it is laid out on them."""
        value = source.value.detach()
        if source.batch is None:
            return value
        size = value.shape[source.batch]
        if size % microbatches:
            raise ExportError(f"'{source.name}' has {size} examples, which do not divide into {microbatches} microbatches")
        part = value.narrow(source.batch, 0, size // microbatches)
        times = self._ranks.parts_of_batch(self._plan)
        return torch.cat([part] * times, source.batch) if times > 1 else part.clone()

    def _run_passes(self, program: Program, trains: bool, microbatches: int) -> None:
        if self._plan is not None:
            program.place()
        elif self._mesh and trains:
            program.run_passes("sync-gradients{axis=dp}")
        scale = self._scale.scaling_pass if self._scale is not None and trains else ""
        clip = f"clip-gradients{{max-norm={self._clip_norm!r}}}" if self._clip_norm is not None and trains else ""
        if pipe := self._pipeline:
            ranks = self._ranks.size_of_pipeline
            self._cuts.mark(program)
            program.run_passes(["outline-stages", scale, clip])
            if trains and splits_backward(pipe.schedule):
                program.run_passes("split-backward")
            if trains:
                program.run_passes(
                    f"build-schedule{{schedule={pipe.schedule} ranks={ranks} microbatches={microbatches}}}"
                )
            else:
                run_forward_schedule(program, pipe.schedule, pipe.stages, ranks, microbatches)
            program.run_passes("insert-p2p,verify-schedule")
        else:
            program.run_passes([scale, clip])
        if trains:
            program.run_passes(self._options["passes"])

    def _adopt(self, value: dict, tensors: dict[str, torch.Tensor], state: State) -> torch.Tensor:
        """The tensor in whose memory the session has a weight."""
        name = value["name"]
        owner = state.parameters.get(name, state.buffers.get(name))
        if owner is None:
            return settled(tensors[name].to(self._device))  # a constant
        if self._is_laid_out or is_sharded(owner):
            return self._ranks.held(owner, value)
        if not value["shards"]:
            return owner
        # The program's own would keep the whole tensor alive.
        tensors.pop(name, None)
        part, shown = self._ranks.shard(owner, value)
        replace(self._modules, self._optimizers, owner, shown)
        table = state.parameters if name in state.parameters else state.buffers
        table[name] = shown
        return part


def _check_arguments(key: tuple, tensors: list[torch.Tensor]) -> None:
    """Refuses what no step takes, and what around its call it would not follow."""
    _, kinds, _, trains, _ = key
    if others := [kind for kind in kinds if isinstance(kind, OtherKind)]:
        raise ExportError(f"expected tensors on the CPU or a CUDA device, numbers and strings as a step's arguments, found {others[0].name}")
    if trains and any([tensor.requires_grad for tensor in tensors]):
        raise ExportError(
            "found an argument that requires a gradient, which the step does not give: detach() it, or put what it comes "
            "from into the model"
        )
    if trains and torch.is_inference_mode_enabled():
        raise ExportError("found inference mode around the step, which trains: take the step outside of it")
    if torch.is_autocast_enabled("cpu") or torch.is_autocast_enabled("cuda"):
        raise ExportError("found autocast around the step, which it does not follow: put it into the model's forward")


def _updated(optimizers: list[torch.optim.Optimizer]) -> set[int]:
    """The parameters that optimizers hold."""
    return {id(p) for optimizer in optimizers for group in optimizer.param_groups for p in group["params"]}
