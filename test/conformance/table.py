"""The conformance table: every (op, reduction, source type, destination type) along one axis.

`legal` is docs/types.md read by hand, not what the compiler says; tests compare the two.
"""

import dataclasses
import itertools

from .operations import COLLECTIVES, FAKE, WITH_REDUCTION, Op
from .values import KINDS, REDUCTIONS, partial

WHOLE = ("R", "I")


@dataclasses.dataclass(frozen=True)
class Row:
    """The dimension that an op names is 0; all_to_all splits 1 and concatenates 0."""

    name: str
    reduction: str
    source: str
    destination: str

    @property
    def legal(self):
        return (self.source, self.destination) in _legal(self.name, self.reduction)

    @property
    def linear(self):
        return self.reduction in (None, "sum", "avg", "premul_sum<0.5>")

    @property
    def differentiable(self):
        """Bitwise reductions have no derivative; no gradient passes a pending reduction but a sum."""
        pending = {partial(self.source), partial(self.destination)} - {None}
        return self.reduction not in ("band", "bor", "bxor") and pending <= {"sum"}

    @property
    def key(self):
        return f"{self.name} {self.reduction or '-'} {self.source} -> {self.destination}"

    def op(self, mesh, over, root=1, dim=0):
        """The op of this row. With several axes the root is the group's rank 1 and a shift goes by 1."""
        count = mesh.size(*over)
        extra = {}
        if self.name in WITH_REDUCTION:
            extra["reduction"] = self.reduction
        if self.name in (
            "all_gather",
            "reduce_scatter",
            "gather",
            "scatter",
            "fake_scatter",
            "fake_gather",
        ):
            extra["dim"] = dim
        if self.name in ("broadcast", "reduce", "gather", "scatter"):
            extra["root"] = root
        if self.name == "all_to_all":
            extra.update(split=1, concat=0)
        if self.name == "permute":  # rank 0 gets nothing, the last rank sends nothing on two ranks
            extra["pairs"] = tuple(
                (i, (i + 2) % count) for i in range(count) if (i + 2) % count != 0
            )
            if count == 2:
                extra["pairs"] = ((0, 1),)
        if self.name in ("shift", "shift wrap"):
            extra.update(by=1, wrap=self.name == "shift wrap")
        if self.name == "convert" and "V" in (self.source, self.destination):
            extra["dim"] = dim
        return Op(self.name.split()[0], over, **extra)


def names():
    """Every op with its reductions, shift in both forms."""
    for name in (*COLLECTIVES, "shift wrap", "convert", "reinterpret", *FAKE):
        for reduction in REDUCTIONS if name in WITH_REDUCTION else (None,):
            yield name, reduction


def rows():
    """The full product: op x reduction x source kind x destination kind."""
    for (name, reduction), source, destination in itertools.product(names(), KINDS, KINDS):
        yield Row(name, reduction, source, destination)


def _pairs(sources, destinations):
    return {(s, d) for s in sources for d in destinations}


def _legal(name, reduction):
    """(source, destination) pairs that docs/types.md allows."""
    v_to_v = {("V", "V")}
    own = {"sum": "P", "premul_sum<0.5>": None}.get(reduction, f"P({reduction})")
    pending = [own] if own in KINDS else []
    if name == "all_reduce":
        return _pairs([*pending, "V"], WHOLE) | v_to_v
    if name == "reduce_scatter":
        return _pairs(pending, ["S(0)", "V"]) | v_to_v
    if name == "reduce":
        return _pairs(pending, ["V"]) | v_to_v
    if name == "all_gather":
        return _pairs(["S(0)", "V"], WHOLE) | v_to_v
    if name == "all_to_all":
        return {("S(0)", "S(1)")} | v_to_v
    if name == "broadcast":
        return _pairs(["V"], [*WHOLE, "V"])
    if name == "convert":
        shards = ["S(0)", "S(1)"]
        return (
            _pairs(["I"], ["R", "V", "P", *shards])
            | _pairs(["R"], ["I", "V", "P", *shards])
            | _pairs(["V", *shards], ["P"])
        )
    if name == "reinterpret":
        shards = ["S(0)", "S(1)"]
        return (
            {("R", "V"), ("R", "P")}
            | _pairs(["V"], ["P", "P(avg)", "P(max)", "P(min)", "P(product)", *shards])
            | _pairs(shards, ["V"])
        )
    if name == "fake_broadcast":
        return _pairs(["I"], ["V", "R"])
    if name == "fake_reduce":
        return _pairs(["V", "P"], ["I"])
    if name == "fake_scatter":
        return _pairs(["I"], ["V", "S(0)"])
    if name == "fake_gather":
        return _pairs(["V", "S(0)"], ["I"])
    return v_to_v  # gather, scatter, permute, shift


def setups():
    """(mesh axes, axes of the op, kind along the other axis or None): where each row is executed."""
    for count in (2, 3, 4):
        yield (("tp", count),), ("tp",), None
    for over in ("dp", "tp"):
        for other in ("R", "I", "V", "P", "S(2)"):
            yield (("dp", 2), ("tp", 2)), (over,), other
    yield (("dp", 2), ("tp", 2)), ("dp", "tp"), None
    yield (("dp", 3), ("tp", 2)), ("tp", "dp"), None
