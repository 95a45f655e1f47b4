"""Names the tensors of one microbatch after the parameters that they are passed for."""

from __future__ import annotations

import dataclasses
import inspect
from typing import Any

import torch

from cleave.export.errors import ExportError
from cleave.export.pytorch import pytree
from cleave.export.spec import ExportSpec
from cleave.export.weightless import has_values


@dataclasses.dataclass
class Input:
    """A tensor of the example microbatch."""

    name: str
    value: torch.Tensor
    is_target: bool
    batch: int | None  # the dimension that counts examples


class Signature:
    """Flattens the example arguments into tensors, and rebuilds the arguments from tensors.

    inputs: the tensors in the order in which the traced function takes them.
    """

    def __init__(self, spec: ExportSpec):
        self.inputs: list[Input] = []
        bound = _bind(spec.module.forward, spec.args, spec.kwargs, type(spec.module).__name__)
        self._arguments = self._flatten(bound, spec, is_target=False)
        names = _target_names(spec.loss, len(spec.targets))
        self._targets = self._flatten(list(zip(names, spec.targets)), spec, is_target=True)
        self._positional = len(spec.args)
        self._keywords = list(spec.kwargs)
        known = {i.name for i in self.inputs}
        for name in spec.batch_dims:
            if name not in known and not name.isdigit():
                raise ExportError(
                    f"batch_dims names '{name}', which is not an input; the inputs are "
                    + ", ".join(sorted(known))
                )
        self.examples = self._check_batch()
        _check_devices(spec, self.inputs)

    def arguments(self, tensors) -> tuple[list[Any], dict[str, Any]]:
        """The positional and keyword arguments of forward, with `tensors` for the inputs."""
        values = self._unflatten(self._arguments, tensors)
        return values[: self._positional], dict(zip(self._keywords, values[self._positional :]))

    def targets(self, tensors) -> list[Any]:
        return self._unflatten(self._targets, tensors)

    def _flatten(self, named: list[tuple[str, Any]], spec: ExportSpec, is_target: bool):
        """For each value its tree and its leaves: the index of an input, or a constant."""
        flattened = []
        for name, value in named:
            leaves, tree = pytree.tree_flatten_with_path(value)
            parts = []
            for path, leaf in leaves:
                leaf_name = ".".join([name, *(_key(entry) for entry in path)])
                if isinstance(leaf, torch.Tensor):
                    parts.append((True, len(self.inputs)))
                    self._add(leaf_name, leaf, spec, is_target)
                elif leaf is None or isinstance(leaf, (bool, int, float, complex, str, torch.dtype)):
                    parts.append((False, leaf))
                else:
                    raise ExportError(
                        f"argument '{leaf_name}' is of type {type(leaf).__name__}; expected a "
                        "tensor, a number, a string, None, or a list, tuple or dict of them"
                    )
            flattened.append((tree, parts))
        return flattened

    def _add(self, name: str, value: torch.Tensor, spec: ExportSpec, is_target: bool):
        if value.is_nested:
            raise ExportError(
                f"argument '{name}' is a nested tensor; expected a padded one, and a mask of what counts in the loss"
            )
        if any(i.name == name for i in self.inputs):
            name = next(
                n
                for k in range(1, 1000)
                if all(i.name != (n := f"{name}_{k}") for i in self.inputs)
            )
        batch = spec.batch_dims.get(name, 0 if value.dim() else None)
        if batch is not None and not 0 <= batch < value.dim():
            raise ExportError(
                f"batch_dims gives dimension {batch} for '{name}', which has {value.dim()} "
                "dimensions"
            )
        # The tracer takes one tensor that is passed twice for one input, which would make every
        # later batch's second one be ignored.
        if any(_shares_memory(i.value, value) for i in self.inputs):
            value = value.detach().clone().requires_grad_(value.requires_grad)
        self.inputs.append(Input(name, value, is_target, batch))

    @staticmethod
    def _unflatten(flattened, tensors):
        return [
            pytree.tree_unflatten([tensors[v] if is_input else v for is_input, v in parts], tree)
            for tree, parts in flattened
        ]

    def _check_batch(self) -> int | None:
        """All batched inputs have as many examples; a shared mask must be declared as one."""
        first = None
        for i in self.inputs:
            if i.batch is None:
                continue
            if first is None:
                first = i
            if i.value.shape[i.batch] != first.value.shape[first.batch]:
                raise ExportError(
                    f"'{i.name}' has {i.value.shape[i.batch]} entries in dimension {i.batch} where "
                    f"'{first.name}' has {first.value.shape[first.batch]} examples; give its batch "
                    "dimension in batch_dims, or None if every microbatch gets the same tensor"
                )
        examples = first.value.shape[first.batch] if first else None
        if examples == 0:
            raise ExportError(
                f"'{first.name}' has no examples in dimension {first.batch}; expected a microbatch with at least one"
            )
        return examples


def _shares_memory(a: torch.Tensor, b: torch.Tensor) -> bool:
    if a is b or not (has_values(a) and has_values(b)):
        return a is b
    return a.numel() > 0 and a.untyped_storage().data_ptr() == b.untyped_storage().data_ptr()


def _check_devices(spec: ExportSpec, inputs: list[Input]):
    """Everything is on the CPU, or has no values: kernels differ by device, and what is traced is the CPU's."""
    tensors = [(f"input '{i.name}'", i.value) for i in inputs]
    tensors += [(f"parameter '{n}'", p) for n, p in spec.module.named_parameters()]
    tensors += [(f"buffer '{n}'", b) for n, b in spec.module.named_buffers()]
    for name, tensor in tensors:
        if tensor.device.type not in ("cpu", "meta"):
            raise ExportError(
                f"{name} is on {tensor.device}; expected everything on the CPU: a program does not "
                "say where it runs, cleave-run does"
            )


def _key(entry: Any) -> str:
    for field in ("key", "idx", "name"):
        if hasattr(entry, field):
            return str(getattr(entry, field))
    return str(entry)


def _bind(forward, args, kwargs, owner: str) -> list[tuple[str, Any]]:
    """(parameter's name, value) of a call, positional ones first, in the order of the call."""
    signature = inspect.signature(forward)
    try:
        signature.bind(*args, **kwargs)
    except TypeError as error:
        raise ExportError(
            f"{owner}.forward{signature} does not take these arguments: {error}"
        ) from None
    names = []
    rest = None
    for parameter in signature.parameters.values():
        if parameter.kind is parameter.VAR_POSITIONAL:
            rest = parameter.name
        elif parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD):
            names.append(parameter.name)
    positional = [
        (names[i] if i < len(names) else f"{rest}.{i - len(names)}", value)
        for i, value in enumerate(args)
    ]
    return positional + list(kwargs.items())


def _target_names(loss, count: int) -> list[str]:
    function = loss.forward if isinstance(loss, torch.nn.Module) else loss
    try:
        parameters = list(inspect.signature(function).parameters.values())[1:]
    except (TypeError, ValueError):
        parameters = []
    names = [p.name for p in parameters if p.kind is not p.VAR_POSITIONAL][:count]
    return names + [f"target.{i}" for i in range(len(names), count)]
