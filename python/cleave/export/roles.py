"""Roles of the graph's arguments and results, read off AOT Autograd's descriptors."""

from __future__ import annotations

import dataclasses

import torch

from cleave.export.capture import Capture
from cleave.export.errors import ExportError
from cleave.export.pytorch import descriptors as aot
from cleave.export.spec import ExportSpec
from cleave.export.text import string


@dataclasses.dataclass(frozen=True)
class Role:
    """`#train.role<kind "name" ...>`; `fields` is the text after the name."""

    kind: str
    name: str | None = None
    fields: str = ""

    def __str__(self) -> str:
        name = f" {string(self.name)}" if self.name is not None else ""
        return f"#train.role<{self.kind}{name}{self.fields}>"


class State:
    """Parameters and buffers under their state-dict names, each tensor once.

    canonical: every name, aliases included, to the name that stands for the tensor.
    transient: the names that state dicts leave out.
    of_loss: those of the loss module, `loss.` before each.
    """

    def __init__(self, spec: ExportSpec):
        self.parameters: dict[str, torch.nn.Parameter] = {}
        self.buffers: dict[str, torch.Tensor] = {}
        self.canonical: dict[str, str] = {}
        self._aliases: dict[str, list[str]] = {}
        self.transient: set[str] = set()
        self.of_loss: list[str] = []
        seen: dict[int, str] = {}
        modules = [("", spec.module)]
        if isinstance(spec.loss, torch.nn.Module):
            modules.append(("loss.", spec.loss))
        for prefix, module in modules:
            for path, owner in module.named_modules(
                prefix=prefix.rstrip("."), remove_duplicate=False
            ):
                for name in owner._non_persistent_buffers_set:
                    self.transient.add(f"{path}.{name}" if path else name)
            for table, entries in (
                (self.parameters, module.named_parameters(remove_duplicate=False)),
                (self.buffers, module.named_buffers(remove_duplicate=False)),
            ):
                for name, tensor in entries:
                    name = prefix + name
                    if name in self.canonical:
                        raise ExportError(f"the module and its loss both have '{name}'")
                    if prefix:
                        self.of_loss.append(name)
                    first = seen.setdefault(id(tensor), name)
                    self.canonical[name] = first
                    if first == name:
                        table[name] = tensor
                    else:
                        self._aliases.setdefault(first, []).append(name)

    def parameter_role(self, name: str) -> Role:
        frozen = "" if self.parameters[name].requires_grad else " frozen"
        return Role("parameter", name, self._alias_field(name) + frozen)

    def buffer_role(self, name: str) -> Role:
        return Role("buffer", name, self._alias_field(name))

    def _alias_field(self, name: str) -> str:
        aliases = [alias for alias in self._aliases.get(name, []) if alias not in self.transient]
        return f" aliases [{', '.join(map(string, aliases))}]" if aliases else ""

    def traced_name(self, target: str) -> str:
        """The canonical name for a name in the traced step ("module.wte.weight")."""
        name = target.removeprefix("module.")
        return self.canonical[name]


def argument_role(desc, capture: Capture, state: State) -> Role:
    """The role of a placeholder with descriptor `desc`."""
    if isinstance(desc, aot.ParamAOTInput):
        return state.parameter_role(state.traced_name(desc.target))
    if isinstance(desc, aot.BufferAOTInput):
        return state.buffer_role(state.traced_name(desc.target))
    if isinstance(desc, aot.PlainAOTInput):
        source = capture.signature.inputs[desc.idx]
        fields = f" batch {source.batch}" if source.batch is not None else ""
        return Role("target" if source.is_target else "input", source.name, fields)
    if isinstance(desc, aot.TangentAOTInput) and desc.output == aot.PlainAOTOutput(0):
        return Role("seed")
    raise ExportError(f"the trace has an argument without a role in programs: {desc}")


def result_role(
    desc, value: torch.Tensor, capture: Capture, state: State, spec: ExportSpec
) -> Role:
    """The role of a result with descriptor `desc` and (fake) value `value`."""
    if isinstance(desc, aot.PlainAOTOutput):
        if capture.returns_loss:
            if desc.idx == 0:
                return Role("loss")
            number = str(desc.idx - 1)
        else:
            number = str(desc.idx)
        examples = capture.signature.examples
        counts = value.dim() > 0 and examples is not None and value.shape[0] == examples
        batch = spec.batch_dims.get(number, 0 if counts else None)
        return Role("output", number, f" batch {batch}" if batch is not None else "")
    if isinstance(desc, aot.GradAOTOutput):
        of = desc.grad_of
        if isinstance(of, aot.ParamAOTInput):
            return Role("gradient", state.traced_name(of.target))
        if isinstance(of, aot.PlainAOTInput):
            name = capture.signature.inputs[of.idx].name
            if name in state.canonical:
                raise ExportError(f"input '{name}' takes a gradient and is named like a parameter")
            return Role("gradient", name)
        if isinstance(of, aot.BufferAOTInput):
            raise ExportError(
                f"buffer '{state.traced_name(of.target)}' takes a gradient; make it a parameter"
            )
    if isinstance(desc, aot.InputMutationAOTOutput):
        of = desc.mutated_input
        if isinstance(of, aot.BufferAOTInput):
            return state.buffer_role(state.traced_name(of.target))
        if isinstance(of, aot.ParamAOTInput):
            raise ExportError(
                f"forward changes parameter '{state.traced_name(of.target)}' in place; only "
                "buffers may change in forward"
            )
        if isinstance(of, aot.PlainAOTInput):
            name = capture.signature.inputs[of.idx].name
            raise ExportError(f"forward changes its input '{name}' in place; clone it first")
    raise ExportError(f"the trace has a result without a role in programs: {desc}")
