"""What all optimizers of an update write into."""

from __future__ import annotations

from cleave.export.roles import Role
from cleave.export.schedules import Schedule
from cleave.export.text import Names, float_attribute


class UpdateText:
    """The body of `@update`.

    values: SSA names of its arguments: ("parameter", NAME), ("gradient", NAME), (SLOT, NAME) and "step".
    results: of its results, by the same keys.
    """

    def __init__(self, names: Names, values: dict, schedule: Schedule):
        self.names = names
        self.values = values
        self.body: list[str] = []
        self.results: dict[tuple[str, str], str] = {}
        self._schedule = schedule
        self._rates: dict[float, str] = {}

    def learning_rate(self, base: float) -> str:
        """The rate of the step, a 0-d tensor."""
        if base not in self._rates:
            self._rates[base] = self.names.fresh("lr")
            self.body.append(
                f"{self._rates[base]} = train.learning_rate({self.values['step']}) {{base = "
                f"{float_attribute(base)}, schedule = {self._schedule.attribute()}}} : (tensor<f32>) -> tensor<f64>"
            )
        return self._rates[base]


def state_role(parameter: str, slot: str) -> Role:
    return Role("optimizer_state", parameter, f' slot "{slot}"')
