"""Local programs of example models without types, and edits of their text.

Types inside of the programs are erased: they refuse most known errors, and the prover must find them without.
"""

import dataclasses
import difflib
import re

import placement_cases as cases
from cleave import HSDP, DataParallel, ExpertParallel, Plan


def _axes(text):
    """The sizes of the mesh's axes, and what each alias says of them."""
    sizes = {axis: int(size) for axis, size in re.findall(r'"(\w+)" = (\d+)', re.search(r"dist\.mesh @\w+ \[.*?\]", text)[0])}
    aliases = {
        name: dict(re.findall(r"(\w+) = (\w+(?:\(\w+)?)", of))  # orders of axes are left out
        for name, of in re.findall(r"^(#\w+) = #dist\.on<@\w+, (.*)>$", text, re.MULTILINE)
    }
    return sizes, aliases


def erase(text):
    """The program without placements, but for those of arguments and results."""
    mesh = re.search(r"dist\.mesh (@\w+)", text)[1]
    sizes, aliases = _axes(text)
    text = re.sub(
        r"^(      (?:%\w+: )?)(tensor<[\w.]+), (#\w+)> \{", r"\1\2> {dist.placement = \3, ", text, flags=re.MULTILINE
    )
    lines, renamed = [], {}
    for line in text.splitlines():
        if line.startswith("  func.func"):
            renamed = {}
        line = re.sub(r"%\w+", lambda found: renamed.get(found[0], found[0]), line)
        converted = re.match(r"    (%\w+) = dist\.(reinterpret|convert) (%\w+).*? : (\S+), (#\w+)> -> (\S+), (#\w+)>", line)
        if converted:
            result, name, operand, before, source, after, target = converted.groups()
            changed = [
                axis for axis, size in sizes.items() if size > 1 and aliases[source].get(axis) != aliases[target].get(axis)
            ]
            whole, part = (re.findall(r"\d+(?=x)", of) for of in (before, after))
            dims = [dim for dim, given in enumerate(zip(whole, part, strict=True)) if given[0] != given[1]]
            is_share = name == "convert" and any(aliases[target][axis].startswith("P") for axis in changed)
            if not dims and not is_share:
                renamed[result] = operand
                continue
            (axis,) = changed
            if dims:
                # A rank's part of what all have: of their sum it is as many times as much.
                scattered = f"%all_{result[1:]}"
                lines.append(
                    f"    {scattered} = dist.reduce_scatter sum({operand}) dim {dims[0]} over {mesh} "
                    f'["{axis}"] : {before}> -> {after}>'
                )
                operand = scattered
            # All have their share in place of one: the sum is the same.
            line = f"    {result} = aten.div_scalar({operand}, other = {sizes[axis]}.0) : ({after}>) -> {after}>"
        line = re.sub(r"(tensor<[\w.]+), #\w+>", r"\1>", line)
        line = re.sub(r"( = dist\.all_reduce .* : )(tensor<[\w.]+>) -> \2", r"\1\2", line)
        line = re.sub(r"( = train\.\w+\(.*\} : tensor<[\w.]+>), tensor<f32>, tensor<f64>", r"\1", line)
        lines.append(line)
    return "\n".join(lines) + "\n"


@dataclasses.dataclass(frozen=True)
class Edit:
    """`old` is a pattern that must occur at least `number` + 1 times."""

    old: str
    new: str
    number: int = 0
    function: str = "microbatch"

    def __call__(self, text):
        begin = text.index(f"func.func @{self.function}(")
        found = list(re.finditer(self.old, text[begin:]))
        assert found, self.old
        match = found[self.number]
        at, end = begin + match.start(), begin + match.end()
        return text[:at] + match.expand(self.new) + text[end:]


@dataclasses.dataclass(frozen=True)
class Source:
    """How a local program is made: `both` are passes of the program for one device as well. `annotate` edits that one's
    text in place of a plan."""

    model: str
    mesh: str = ""
    batch: int | None = None
    passes: tuple = ()
    both: tuple = ()
    annotate: object = None

    @property
    def name(self):
        return re.sub(r"[^a-z0-9]+", "_", "_".join([self.model, self.mesh, str(self.batch), *self.both, *self.passes,
                                                    getattr(self.annotate, "__name__", "")]).lower())  # fmt: skip


# Beside those of the table of placements.
MESHES = {
    "hsdp 2 x 1": ({"replicas": 2, "shards": 1}, lambda model: {"": HSDP("replicas", "shards")}),
    "dp2 x ep2": ({"dp": 2, "ep": 2}, lambda model: [("h.*.experts", ExpertParallel()), ("", DataParallel("ep")),
                                                      ("", DataParallel("dp"))]),
}  # fmt: skip


def plan(source):
    if source.mesh not in MESHES:
        return cases.plan(source.model, source.mesh)
    sizes, rules = MESHES[source.mesh]
    return Plan(sizes, rules(source.model))


def zero1(text):
    """ZeRO-1: the states of the optimizer are sharded, parameters are not."""
    text = text.replace("  train.program\n", '  dist.mesh @mesh ["dp" = 2]\n  train.program\n', 1)
    return re.sub(
        r"train\.role = #train\.role<((?:input|target|optimizer_state) [^>]*)>",
        r"dist.placement = #dist.on<@mesh, dp = S(0)>, train.role = #train.role<\1>", text,
    )  # fmt: skip


schedule_in_two = ("--outline-stages=count=2 balance=cost", "--build-schedule=schedule=1f1b ranks=2 microbatches=3",
                   "--insert-p2p", "--verify-schedule")  # fmt: skip


def edited_lines(right, wrong, function):
    """The numbers of the lines of the wrong program that the edit made or changed, and of those that take what these
    make, or what an op that is gone has become."""
    before, after = right.splitlines(), wrong.splitlines()
    changed, taken = set(), set()
    for tag, _, _, begin, end in difflib.SequenceMatcher(None, before, after, autojunk=False).get_opcodes():
        if tag != "equal":
            changed.update(range(begin, end))
    start = next(i for i, line in enumerate(after) if f"func.func @{function}(" in line)
    end = next((i for i, line in enumerate(after) if i > start and line.startswith("  }")), len(after))
    for i in changed:
        taken.update(re.findall(r"%\w+", after[i].partition(" = ")[0]))
    users = {i for i in range(start, end) if taken & set(re.findall(r"%\w+", after[i].partition(" = ")[2]))}
    return {i + 1 for i in changed | users}
