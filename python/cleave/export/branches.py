"""Decides branches whose outcome no data can change: on random numbers, and on tensors that no input reaches.

`if torch.rand([]) < self.layerdrop` with a `layerdrop` of 0, as many models of transformers have it, looks to
Dynamo like control flow that depends on data. The number is drawn all the same: what is drawn afterwards
must be what eager mode draws.

`if mask.any().item()` with a mask that forward makes of ones, as Longformer has it, looks alike. A mask that is an input
is data.
"""

from __future__ import annotations

import contextlib
import dis
import operator
from collections.abc import Callable, Iterator

import torch

from cleave.export.checks import outcome_without_raising
from cleave.export.constants import Constants, NotConstant
from cleave.export.locations import statement
from cleave.export.outside_draws import is_drawn_outside
from cleave.export.pytorch_tracing import BYTECODE_TRANSLATORS, VariableTracker, constant, traced_node

_MIRRORED = {
    operator.lt: operator.gt, operator.le: operator.ge, operator.gt: operator.lt, operator.ge: operator.le,
}  # fmt: skip
# Methods and functions are what operators become under a TorchFunctionMode.
_COMPARISONS = (
    {compare: compare for compare in _MIRRORED}
    | {getattr(torch, compare.__name__): compare for compare in _MIRRORED}
    | {compare.__name__: compare for compare in _MIRRORED}
)
# Python's versions name jumps differently: POP_JUMP_IF_TRUE, POP_JUMP_FORWARD_IF_TRUE, JUMP_IF_TRUE_OR_POP.
_JUMPS = {
    code: name
    for name, code in dis.opmap.items()
    if "JUMP" in name and ("IF_TRUE" in name or "IF_FALSE" in name)
}
_NOT = dis.opmap["UNARY_NOT"]


class Branches:
    """notes: what was decided, a sentence for each branch of the source.
    refusal: why the branch that stopped the trace is none of these; None if it is on no random number.
    depends_on_data: whether a branch on a number taken from a tensor stopped the trace.
    """

    def __init__(self, constants: Constants):
        self._constants = constants
        self.notes: list[str] = []
        self.refusal: str | None = None
        self.depends_on_data = False

    @contextlib.contextmanager
    def decided(self) -> Iterator[None]:
        """While this is entered, Dynamo takes the branches that are decided."""
        before = [(kind, kind.dispatch_table) for kind in BYTECODE_TRANSLATORS]
        try:
            for kind, table in before:
                kind.dispatch_table = [
                    self._jump(handler, _JUMPS[code]) if code in _JUMPS and handler
                    else self._negation(handler) if code == _NOT else handler
                    for code, handler in enumerate(table)
                ]
            yield
        finally:
            for kind, table in before:
                kind.dispatch_table = table

    def _jump(self, handler: Callable, name: str) -> Callable:
        def jump(translator, instruction):
            value = translator.stack[-1]
            outcome = self._outcome(translator, value)
            if outcome is None:
                outcome = self._checked(translator, value, instruction, name)
            if outcome is None:
                return self._undecided(handler, translator, instruction)
            translator.pop()
            if outcome == ("IF_TRUE" in name):
                if name.endswith("OR_POP"):
                    translator.push(value)
                translator.jump(instruction)

        return jump

    def _checked(self, translator, value: VariableTracker, instruction, name: str) -> bool | None:
        """What a check of values gives that finds nothing wrong; None for all other branches."""
        if not value.is_tensor() and not _is_taken_from_tensor(traced_node(value)):
            return None
        is_taken = outcome_without_raising(translator, instruction)
        if is_taken is None:
            return None
        where, code = statement(translator)
        self._add(f"the program does not check what forward raises for{where}{code}")
        return is_taken == ("IF_TRUE" in name)

    def _negation(self, handler: Callable) -> Callable:
        """`return not torch.rand([]) < 0` branches like a jump."""

        def negate(translator, instruction):
            outcome = self._outcome(translator, translator.stack[-1])
            if outcome is None:
                return self._undecided(handler, translator, instruction)
            translator.pop()
            translator.push(constant(translator, not outcome))

        return negate

    def _undecided(self, handler: Callable, translator, instruction):
        value = translator.stack[-1]
        self.depends_on_data = not value.is_tensor() and _is_taken_from_tensor(traced_node(value))
        result = handler(translator, instruction)
        self.depends_on_data, self.refusal = False, None  # it did not stop the trace
        return result

    def _outcome(self, translator, value: VariableTracker) -> bool | None:
        node = traced_node(value)
        if node is None:
            return None
        compared = _comparison(node)
        if compared is None:
            try:
                outcome = bool(self._constants.value(node))
            except NotConstant:
                return None
            self._note(translator, outcome, "it is computed from constants alone")
            return outcome
        compare, number = compared
        outcome = _decide(compare, number)
        if outcome is None:
            self.refusal = (
                f"the branch depends on a random number in [0, 1), which is compared with {number:g}; expected a "
                "branch that no random number changes: set what it is compared with to 0 or 1"
            )
            return None
        self._note(translator, outcome, f"a random number in [0, 1) is compared with {number:g}")
        return outcome

    def _note(self, translator, outcome: bool, reason: str):
        where, code = statement(translator)
        self._add(f"the condition{where}{code} is always {'true' if outcome else 'false'}: {reason}")

    def _add(self, note: str):
        if note not in self.notes:
            self.notes.append(note)


def _is_taken_from_tensor(node: torch.fx.Node | None) -> bool:
    """Whether a number is computed from elements of a tensor, and not from its size."""
    if node is None or isinstance(node.meta.get("example_value"), torch.Tensor):
        return False
    return node.target == "item" or any(map(_is_taken_from_tensor, node.all_input_nodes))


def _comparison(node: torch.fx.Node) -> tuple[Callable, float] | None:
    """How a node compares a number of [0, 1) with a constant, which stands on the right."""
    if node.target == "item":  # bool(torch.rand([]) < 0)
        (node,) = node.args
    compare = _COMPARISONS.get(node.target)
    if compare is None or len(node.args) != 2 or node.kwargs:
        return None
    drawn, number = node.args
    if isinstance(number, torch.fx.Node):
        drawn, number, compare = number, drawn, _MIRRORED[compare]
    if not isinstance(drawn, torch.fx.Node) or not isinstance(number, (bool, int, float)):
        return None
    if drawn.target is torch.sym_float:
        (drawn,) = drawn.args
    if is_drawn_outside(drawn):
        return compare, float(number)
    is_number = drawn.target == "item"
    if is_number:
        (drawn,) = drawn.args
    if not _is_drawn(drawn):
        return None
    value = drawn.meta["example_value"]
    # Whatever else takes the number could change it in place.
    if value.numel() != 1 or any(user.target not in (*_COMPARISONS, "item") for user in drawn.users):
        return None
    if is_number:
        return compare, float(number)
    if any(user.target != "item" for user in node.users):
        return None
    # The kernel rounds the constant to the tensor's type.
    return compare, torch.tensor(number, dtype=value.dtype).item()


def _is_drawn(node: torch.fx.Node) -> bool:
    """Whether a call draws numbers of [0, 1) into a tensor of its own."""
    if node.target == "uniform_":
        memory, *bounds = node.args
        names = dict(zip(("from", "to"), bounds)) | node.kwargs
        of_unit = (names.pop("from", 0), names.pop("to", 1)) == (0, 1) and not names
        return of_unit and memory.target is torch.empty and set(memory.users) == {node}
    return node.target is torch.rand and "out" not in node.kwargs


def _decide(compare: Callable, number: float) -> bool | None:
    """What `x compare number` is for each x of [0, 1); None if x matters."""
    if number >= 1:
        return compare in (operator.lt, operator.le)
    if number < 0 or (number == 0 and compare in (operator.lt, operator.ge)):
        return compare in (operator.gt, operator.ge)
    return None
