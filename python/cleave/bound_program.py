"""A program for one kind of batch, bound to the memory of a model, which is watched for changes."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping
from typing import Any

import torch

from cleave.errors import Error
from cleave.export.errors import ExportError
from cleave.export.pytorch import count_gradient_hooks, hook_tables
from cleave.export.roles import State
from cleave.native import native
from cleave.programs import Program
from cleave.ranks import Ranks


# By class, which the model is in or, the last, has become.
_WRAPPERS = {"DataParallel", "DistributedDataParallel", "FullyShardedDataParallel", "FSDPModule"}
# What PyTorch's own modules are set to, such as a Dropout's p; attributes of other modules may count epochs.
_SETTINGS = (bool, int, float, str, tuple, type(None))


def check_model(model: torch.nn.Module) -> None:
    """Refuses a model that PyTorch has laid out on ranks."""
    for path, module in model.named_modules():
        kinds = {kind.__name__ for kind in type(module).__mro__ if kind.__module__.startswith("torch.")}
        if found := sorted(kinds & _WRAPPERS):
            where = f" in '{path}'" if path else ""
            raise ExportError(
                f"expected a model that is not laid out on ranks, found {found[0]}{where}: give the model as it is, and "
                "mesh={'dp': N}, or with plan={'': cleave.FSDP('dp')} sharded parameters"
            )


def _watch_modes(modules: Iterable[torch.nn.Module]) -> Any:
    """Of what `training` is; None where a module has it elsewhere than PyTorch's own, as those of TorchScript do."""
    modules = list(modules)
    if any("training" not in vars(module) or hasattr(type(module), "training") for module in modules):
        return None
    return native().Watch(entries=[(vars(module), "training", module.training) for module in modules])


class BoundProgram:
    """Refuses to run where the model is no longer what it was compiled for."""

    def __init__(self, modules: Mapping[str, torch.nn.Module], program: Program, session, order: list[int],
                 state: State, signature: dict, microbatches: int, device: torch.device):  # fmt: skip
        """modules: by their paths, all that the program was traced from. device: where the model is."""
        self.program, self.session, self.order, self.microbatches = program, session, order, microbatches
        self._outputs, self.draws, self._device = signature["outputs"], signature["draws"], device
        # Of the numbers that are set at every step.
        self.groups = set(program._native.rate_groups())
        # Where each tensor stands in the model, to see that it still does.
        self._tables = [
            (table, key, tensor, f"{path}.{key}" if path else key)
            for path, module in modules.items()
            for table in (module._parameters, module._buffers, module._modules)
            for key, tensor in table.items()
            if tensor is not None
        ]
        # What a call runs: a forward of the module's own, before that of its class.
        self._forwards = [(path, each, type(each), vars(each).get("forward")) for path, each in modules.items()]
        self._classes = {kind: inspect.getattr_static(kind, "forward") for kind in map(type, modules.values())}
        self._settings = [
            (vars(module), key, value, f"{path}.{key}" if path else key)
            for path, module in modules.items()
            if type(module).__module__.startswith("torch.nn.")
            for key, value in vars(module).items()
            if key != "training" and not key.startswith("_") and isinstance(value, _SETTINGS)
        ]
        self._hooks = [table for module in modules.values() for table in hook_tables(module)]
        self._num_hooks = sum(map(len, self._hooks))
        self._parameters = list(state.parameters.values())
        self._gradient_hooks = sum(map(count_gradient_hooks, self._parameters))
        self._trained = [p for p in state.parameters.values() if p.requires_grad]
        everything = {**state.parameters, **state.buffers}
        self.weights = {v["name"]: everything[v["name"]] for v in signature["weights"] if v["name"] in everything}
        self._frozen = [p for p in state.parameters.values() if not p.requires_grad]
        self._names = {id(p): name for name, p in state.parameters.items()}
        forwards = [(vars(module), "forward", forward) for _, module, _, forward in self._forwards]
        self._watch = native().Watch(
            entries=[*self._tables, *forwards, *self._settings], tables=self._hooks, parameters=self._parameters,
            objects=list(modules.values()), attributes=[(kind, "forward", it) for kind, it in self._classes.items()],
        )  # fmt: skip
        self._modes = _watch_modes(modules.values())
        # Under which its session was given numbers of the optimizers: see OptimizerStates.
        self.numbers: object = None

    def check(self) -> None:
        """Refuses what would make the step train something else than the model."""
        self.session.check()
        # Native code looks at thousands of objects before each step; where one is another, Python says what it is.
        if self._watch.has_changed():
            self._look_closely()

    def has_its_modes(self) -> bool:
        """Whether each module is in the mode, training or evaluation, of the program; False, too, where that takes a closer look."""
        return self._modes is not None and not self._modes.has_changed()

    def _look_closely(self) -> None:
        for table, key, tensor, name in self._tables:
            if table.get(key) is not tensor:
                raise Error(
                    f"'{name}' was replaced since the step was compiled, which trains what it was: change values in place, or "
                    "compile another step"
                )
        for path, module, kind, forward in self._forwards:
            is_same = type(module) is kind and inspect.getattr_static(kind, "forward") is self._classes[kind]
            if not is_same or vars(module).get("forward") is not forward:
                where = f"'{path}'" if path else "the model"
                raise Error(
                    f"the forward of {where} was replaced since the step was compiled, which runs what it was; close() the "
                    "step and compile another one"
                )
        for table, key, value, name in self._settings:
            if (found := table.get(key)) is not value and found != value:
                raise Error(
                    f"'{name}' was {value!r} when the step was compiled and is {found!r}, which the program would not follow; "
                    "close() the step and compile another one"
                )
        hooks = sum(map(len, self._hooks)), sum(map(count_gradient_hooks, self._parameters))
        if hooks != (self._num_hooks, self._gradient_hooks):
            raise Error(
                "a hook of a module or a parameter was registered or removed since the step was compiled, which runs those "
                "that were there; close() the step and compile another one"
            )
        for parameter in self._trained:
            if parameter.grad is not None:
                raise Error(
                    f"'{self._names[id(parameter)]}' has a gradient, of a backward() beside the step, which makes its "
                    "own and would ignore it: set it to None (optimizer.zero_grad())"
                )
            if not parameter.requires_grad:
                raise Error(
                    f"'{self._names[id(parameter)]}' was frozen since the step was compiled; close() the step and "
                    "compile another one"
                )
        for parameter in self._frozen:
            if parameter.requires_grad:
                raise Error(
                    f"'{self._names[id(parameter)]}' was frozen when the step was compiled and no longer is; close() "
                    "the step and compile another one"
                )

    def outputs(self, ranks: Ranks) -> Any:
        """Of the last step: a tensor, a tuple of several, or None where other ranks make them."""
        parts = [self.session.output(value["file_name"]) for value in self._outputs]
        parts = [part if part is None else part.to(self._device) for part in parts]
        made = [ranks.show_output(part, value, self.microbatches) for part, value in zip(parts, self._outputs)]
        if not made or any(tensor is None for tensor in made):
            return None
        return made[0] if len(made) == 1 else tuple(made)
