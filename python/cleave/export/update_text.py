"""What all optimizers of an update write into."""

from __future__ import annotations

from cleave.export.roles import Role
from cleave.export.text import Names, string


class UpdateText:
    """The body of `@update`.

    values: SSA names of its arguments: ("parameter", NAME), ("gradient", NAME), (SLOT, NAME) and "step".
    results: of its results, by the same keys.
    """

    def __init__(self, names: Names, values: dict):
        self.names = names
        self.values = values
        self.body: list[str] = []
        self.results: dict[tuple[str, str], str] = {}
        self._numbers: dict[tuple[str, str], str] = {}

    def learning_rate(self, rate: str) -> str:
        """The rate of the step, a 0-d tensor, by its attributes as GroupRates has them."""
        return self._number("train.learning_rate", "lr", rate)

    def hyperparameter(self, name: str, schedule: str) -> str:
        """Another number that a scheduler writes, a 0-d tensor."""
        return self._number("train.hyperparameter", name, f"name = {string(name)}, schedule = {schedule}")

    def _number(self, op: str, wanted: str, attributes: str) -> str:
        """The value of a number of the step, computed once."""
        if (op, attributes) not in self._numbers:
            self._numbers[op, attributes] = self.names.fresh(wanted)
            self.body.append(
                f"{self._numbers[op, attributes]} = {op}({self.values['step']}) {{{attributes}}} : "
                "(tensor<f32>) -> tensor<f64>"
            )
        return self._numbers[op, attributes]


def state_role(parameter: str, slot: str) -> Role:
    return Role("optimizer_state", parameter, f' slot "{slot}"')
