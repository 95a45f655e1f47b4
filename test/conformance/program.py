"""Typed programs as data: evaluated on lists of tensors, differentiated, and printed as MLIR.

A program is a list of steps; each makes one value. Types are dictionaries from axis to kind. Nothing here
decides whether a program is legal: steps are evaluated and printed as they are, so that wrong programs can be
written too.
"""

import dataclasses

import torch

from .compute import COMPUTE
from .operations import COMMUNICATIONS, CONVERSIONS, Op
from .values import canonical, denote, disagreement, dual, partial, shard, sharded, spread

DTYPES = {torch.float64: "f64", torch.float32: "f32", torch.int64: "i64"}


@dataclasses.dataclass
class Step:
    """`op`: "leaf", a name of COMPUTE, or an Op of the dist dialect. `kinds`: the value's type."""

    op: object
    operands: tuple
    kinds: dict
    name: str = ""  # of a leaf
    gradient: bool = False  # whether the leaf is a parameter
    dropped: bool = False  # by a mutation: not printed


class Program:
    """One typed program over `mesh`. `tensors`: the whole tensor of each leaf."""

    def __init__(self, mesh, prefix=""):
        self.mesh = mesh
        self.prefix = prefix
        self.steps = []
        self.tensors = {}
        self.values = []  # per step: one tensor a rank, as of building
        self.results = []  # steps that a test reads
        self.tested = None  # the step that a test is about
        self.loss = None  # the step that is differentiated: 0-d, I or P on every axis

    # --- building -------------------------------------------------------------------------------

    def _append(self, step):
        self.steps.append(step)
        with torch.no_grad():
            self.values.append(self._value(step, self.values, self.tensors))
        return len(self.steps) - 1

    def leaf(self, whole, kinds, gradient=True):
        """A parameter (or, without gradient, an input) of kinds R, I and S."""
        name = f"{self.prefix}{'x' if gradient else 'c'}{len(self.tensors)}"
        self.tensors[name] = whole
        return self._append(Step("leaf", (), dict(kinds), name, gradient))

    def compute(self, name, *operands):
        """An aten op of COMPUTE; its type by the rule. Raises ValueError where the rule has none."""
        kinds = {}
        for axis in self.mesh.names:
            kinds[axis] = COMPUTE[name].rule([self.steps[o].kinds[axis] for o in operands])
            if kinds[axis] is None:
                raise ValueError(f"{name} may not join these types")
        return self._append(Step(name, operands, canonical(kinds)))

    def dist(self, op, operand, destination):
        """An op of the dist dialect; `destination`: the kinds that change."""
        return self._append(Step(op, (operand,), {**self.steps[operand].kinds, **destination}))

    def source(self, kinds, local, make=None, gradient=True):
        """A value of any type with distinct data where the type has any: V and P come from a leaf that is S.

        `make`: what gives a tensor of a shape (default: normally distributed float64).
        """
        make = make or (lambda shape: torch.randn(shape, dtype=torch.float64))
        order = {}
        for axis in sorted(kinds, key=lambda a: (shard(kinds[a]) or (0, 0))[1]):
            place = shard(kinds[axis])
            if place:
                order.setdefault(place[0], []).append(axis)
        hidden = [a for a in self.mesh.names if kinds[a] == "V" or partial(kinds[a])]
        order.setdefault(0, []).extend(hidden)
        start, whole = dict(kinds), list(local)
        for dim, axes in order.items():
            for k, axis in enumerate(axes):
                start[axis] = sharded(dim, k)
                whole[dim] *= self.mesh.size(axis)
        value = self.leaf(make(whole), start, gradient)
        for axis in reversed(hidden):
            value = self.reinterpret(value, axis, "V")
        for axis in hidden:
            if kinds[axis] != "V":
                value = self.reinterpret(value, axis, kinds[axis])
        return value

    def reinterpret(self, value, axis, kind):
        return self.dist(Op("reinterpret", (axis,)), value, {axis: kind})

    def observe(self, value):
        """Makes `value` a result: V is given as the list, a pending reduction but a sum is carried out."""
        kinds = self.steps[value].kinds
        for axis in self.mesh.names:
            if partial(kinds[axis]) not in (None, "sum"):
                op = Op("all_reduce", (axis,), reduction=partial(kinds[axis]))
                value = self.dist(op, value, {axis: "R"})
        for axis in self.mesh.names:
            if kinds[axis] == "V":
                minor = sum((shard(k) or (None,))[0] == 0 for k in self.steps[value].kinds.values())
                value = self.reinterpret(value, axis, sharded(0, minor))
        self.results.append(value)

    def weighted_sum(self, value):
        """A loss of types I and P: the sum of `value` times weights that are different on all ranks they may be."""
        kinds = self.steps[value].kinds
        weights = {a: {"R": "P", "P": "R"}.get(k, k) for a, k in kinds.items()}
        local = self.values[value][0].shape
        total = self.compute(
            "sum", self.compute("mul", value, self.source(weights, local, gradient=False))
        )
        for axis in self.mesh.names:
            if self.steps[total].kinds[axis] == "V":
                total = self.reinterpret(total, axis, "P")
        return total

    def renamed(self, prefix):
        """A copy under another prefix."""
        copy = Program(self.mesh, prefix)
        name = {s.name: prefix + s.name[len(self.prefix) :] for s in self.steps if s.op == "leaf"}
        copy.steps = [
            dataclasses.replace(s, kinds=dict(s.kinds), name=name.get(s.name, ""))
            for s in self.steps
        ]
        copy.tensors = {name[n]: t for n, t in self.tensors.items()}
        copy.values, copy.results = list(self.values), list(self.results)
        copy.loss, copy.tested = self.loss, self.tested
        return copy

    def freeze(self):
        """Makes inputs of the parameters."""
        for step in self.steps:
            step.gradient = False

    # --- meaning --------------------------------------------------------------------------------

    def _value(self, step, values, tensors):
        if step.op == "leaf":
            return spread(tensors[step.name], self.mesh, step.kinds)
        operands = [values[o] for o in step.operands]
        if isinstance(step.op, Op):
            before, op = self.steps[step.operands[0]].kinds, step.op
            if op.name in CONVERSIONS:  # the types say along which axis, here as in the IR
                changed = tuple(a for a in self.mesh.names if before[a] != step.kinds[a])
                op = dataclasses.replace(op, over=changed or op.over)
            return op.apply(operands[0], self.mesh, before, step.kinds)
        return [COMPUTE[step.op].formula(*ranks) for ranks in zip(*operands)]

    def evaluate(self, tensors=None, start=()):
        """Per step, one tensor a rank. `start`: the values of the first steps."""
        values = list(start)
        for step in self.steps[len(values) :]:
            values.append(self._value(step, values, tensors or self.tensors))
        return values

    def denotation(self, values, index):
        """The one tensor that a step without V axes denotes."""
        (tensor,) = denote(values[index], self.mesh, self.steps[index].kinds).values()
        return tensor

    def gradients(self):
        """The loss's denotation, and the gradient of each parameter by autograd of the denotation."""
        leaves = {s.name for s in self.steps if s.gradient}
        tensors = {
            n: t.detach().clone().requires_grad_(n in leaves) for n, t in self.tensors.items()
        }
        loss = self.denotation(self.evaluate(tensors), self.loss)
        names = sorted(leaves)
        found = [None] * len(names)
        if loss.requires_grad:  # not where zeros came between, as from a shift
            found = torch.autograd.grad(loss, [tensors[n] for n in names], allow_unused=True)
        return loss.detach(), {
            n: torch.zeros_like(tensors[n]) if g is None else g for n, g in zip(names, found)
        }

    def honest(self):
        """Whether all ranks agree wherever the types say so."""
        return all(
            disagreement(v, self.mesh, s.kinds) < 1e-12 for v, s in zip(self.values, self.steps)
        )

    # --- printing -------------------------------------------------------------------------------

    def type(self, index):
        tensor = self.values[index][0]
        return type_text(tensor.shape, tensor.dtype, self.steps[index].kinds)

    def lines(self, started=False):
        """The steps that are not leaves, as lines of a function's body; communications started, then waited for."""
        for index, step in enumerate(self.steps):
            if step.op == "leaf" or step.dropped:
                continue
            names = [self.ssa(o) for o in step.operands]
            types = [self.type(o) for o in step.operands]
            if started and isinstance(step.op, Op) and step.op.name in COMMUNICATIONS:
                future = f"{self.ssa(index)}_started"
                yield f"{future} = {step.op.prefix(names[0])} : {types[0]} -> !dist.future<{self.type(index)}>"
                text = f"dist.wait {future} : {self.type(index)}"
            elif isinstance(step.op, Op):
                both = f"{types[0]} -> {self.type(index)}"
                text = f"{step.op.prefix(names[0])} : {both if types[0] != self.type(index) else types[0]}"
            else:
                text = (
                    f"{COMPUTE[step.op].text(names)} : ({', '.join(types)}) -> {self.type(index)}"
                )
            yield f"{self.ssa(index)} = {text}"

    def ssa(self, index):
        step = self.steps[index]
        return f"%{step.name}" if step.op == "leaf" else f"%{self.prefix}v{index}"


def type_text(shape, dtype, kinds):
    dims = "".join(f"{n}x" for n in shape)
    axes = ", ".join(f"{a} = {k}" for a, k in sorted(kinds.items()))
    return f"tensor<{dims}{DTYPES[dtype]}, #dist.on<@mesh, {axes}>>"


def gradient_kinds(kinds):
    return {a: dual(k) for a, k in kinds.items()}
