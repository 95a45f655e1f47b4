"""Sessions in Python: a program, bound and ready to run steps on tensors of PyTorch's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch

from cleave.errors import Error
from cleave.native import native
from cleave.programs import Program


class Session:
    """One rank's execution of a program. All of its values lie in memory of tensors, which a step changes in place.

    program: with tensors, or with `weights` for them.
    weights: tensors to compute in, by name; by default copies of the program's, so that whose they are, a module,
        say, keeps its own. Contiguous, of the program's types.
    microbatches: in a step. seed: of random numbers. kernels: which compiled kernels run ("best", a target such as
        "x86-64-v3", or "none").
    """

    def __init__(
        self, program: Program, *, weights: Mapping[str, torch.Tensor] | None = None, microbatches: int = 1,
        seed: int = 0, kernels: str = "best",
    ):  # fmt: skip
        signature = native().signature(program._native)
        if weights is None:
            weights = {name: tensor.detach().clone().contiguous() for name, tensor in program.tensors.items()}
        self._weights, self._states, adopt = {}, {}, {}
        for value in signature["weights"]:
            if value["name"] not in weights:
                raise Error(f"expected a tensor for {value['role']} '{value['name']}', found none")
            self._weights[value["name"]] = adopt[value["file_name"]] = weights[value["name"]]
        for value in signature["optimizer_states"]:
            tensor = torch.zeros(value["shape"], dtype=value["dtype"])
            self._states[value["name"], value["slot"]] = adopt[value["file_name"]] = tensor
        self._inputs = [value["name"] for value in signature["inputs"]]
        self._native = native().Session(
            program._native, adopt, microbatches=microbatches, seed=seed, follows_generator=False, kernels=kernels,
            ranks=None,
        )  # fmt: skip
        self.steps = 0

    def weight(self, name: str) -> torch.Tensor:
        """A parameter, buffer or constant: the memory in which steps compute."""
        return _named(self._weights, name, f"a weight of the program, found '{name}'")

    def optimizer_state(self, parameter: str, slot: str) -> torch.Tensor:
        """A tensor of the optimizer's state, such as slot "exp_avg"."""
        what = f"a state of the optimizer, found '{slot}' of '{parameter}'"
        return _named(self._states, (parameter, slot), what)

    def step(self, inputs: Mapping[str, torch.Tensor] | Sequence[torch.Tensor]) -> float:
        """Runs a step on a batch, all microbatches along the batch dimension, and returns its loss.

        inputs: inputs and targets by name, or in the program's order.
        """
        if isinstance(inputs, Mapping):
            if unknown := sorted(set(inputs) ^ set(self._inputs)):
                raise Error(f"expected the inputs {', '.join(self._inputs)}, found others: {', '.join(unknown)}")
            inputs = [inputs[name] for name in self._inputs]
        loss = self._native.step(self.steps + 1, list(inputs))
        self.steps += 1
        return loss

    def set_learning_rate(self, group: int, rate: float) -> None:
        """The rate of a parameter group from now on; the program must number its groups (`group_rates=True`)."""
        self._native.set_learning_rate(group, rate)

    def result(self, name: str) -> torch.Tensor | None:
        """A value of the last step by its name in dumps ("loss", "output.gradient_norm"), or None."""
        return self._native.result(name)


def _named(tensors: Mapping, key, expected: str) -> torch.Tensor:
    if key not in tensors:
        raise Error(f"expected {expected}")
    return tensors[key]
