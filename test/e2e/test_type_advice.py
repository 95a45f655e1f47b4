"""Whoever follows the type checker's advice gets a program that it accepts.

Every wrong placement of a few kinds of ops, and every transition that a collective does not make: the advice
of the error is carried out, word for word, until nothing is refused. Nothing is run.
"""

import dataclasses
import itertools
import json
import re
import subprocess

import pytest
import torch

RANKS = 2
PENDING = {"P": "sum", "P(max)": "max"}


def local(shape, dim, factor):
    return tuple(int(n * factor) if d == dim else n for d, n in enumerate(shape))


def type_of(shape, kind, dtype="f64"):
    return f"tensor<{''.join(f'{n}x' for n in shape)}{dtype}, #dist.on<@mesh, tp = {kind}>>"


def split_errors(build_dir, folder, programs):
    """The first error of each program, None where it is accepted; all in one run."""
    file = folder / "programs.mlir"
    file.write_text("\n// -----\n".join(programs))
    result = subprocess.run(
        [build_dir / "bin" / "cleave-opt", file, "--split-input-file", "--check-spmd-types", "-o", "/dev/null"],
        capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    starts, line = [], 1
    for program in programs:
        starts.append(line)
        line += program.count("\n") + 2
    errors = [None] * len(programs)
    for offset, message in re.findall(
        r"within split at [^:]*:(\d+) offset :\d+:\d+: error: (.*)", result.stderr
    ):
        place = max(i for i, start in enumerate(starts) if start <= int(offset) + 1)
        errors[place] = errors[place] or message
    assert (result.returncode == 0) == (not any(errors)), result.stderr[-2000:]
    return errors


# Collectives -------------------------------------------------------------------------------------

# How each op is written, and what it does to a dimension of the operand.
COLLECTIVES = {
    "all_reduce": ("sum(%x) over @mesh [\"tp\"]", "same"),
    "reduce_scatter": ("sum(%x) dim 0 over @mesh [\"tp\"]", "scatter"),
    "all_gather": ("(%x) dim 0 over @mesh [\"tp\"]", "gather"),
    "all_to_all": ("(%x) split 1 concat 0 over @mesh [\"tp\"]", "exchange"),
    "broadcast": ("(%x) root 0 over @mesh [\"tp\"]", "same"),
    "reduce": ("sum(%x) root 0 over @mesh [\"tp\"]", "same"),
    "gather": ("(%x) dim 0 root 0 over @mesh [\"tp\"]", "gather"),
    "scatter": ("(%x) dim 0 root 0 over @mesh [\"tp\"]", "scatter"),
    "permute": ("(%x) [0 -> 1] over @mesh [\"tp\"]", "same"),
    "shift": ("(%x) by 1 over @mesh [\"tp\"]", "same"),
    "convert": ("%x", "same"),
    "reinterpret": ("%x", "same"),
    "fake_broadcast": ("(%x) over @mesh [\"tp\"]", "same"),
    "fake_reduce": ("(%x) over @mesh [\"tp\"]", "same"),
    "fake_scatter": ("(%x) dim 0 over @mesh [\"tp\"]", "scatter"),
    "fake_gather": ("(%x) dim 0 over @mesh [\"tp\"]", "gather"),
}
KINDS = ["R", "I", "V", "P", "P(max)", "S(0)"]


@pytest.fixture(scope="module")
def transitions(build_dir):
    """What each op does to the shape, by op and kinds."""
    result = subprocess.run(
        [build_dir / "bin" / "cleave-opt", "--dump-transitions"], capture_output=True, text=True, check=True
    )  # fmt: skip
    return {
        (row["op"], row["source"], row["destination"]): row["shape"]
        for row in json.loads(result.stdout)
    }


def resize(shape, effect):
    if effect == "exchange":
        return local(local(shape, 0, RANKS), 1, 1 / RANKS)
    return local(shape, 0, {"same": 1, "gather": RANKS, "scatter": 1 / RANKS}[effect])


def write_op(name, operand, source, destination, effect, result):
    """`%result = dist.NAME` of `%operand`, a (kind, shape); with the result's shape."""
    text, _ = COLLECTIVES[name]
    kind, shape = source
    to = resize(shape, effect)
    reduction = PENDING.get(kind)
    if reduction and "sum(" in text:
        text = text.replace("sum(", f"{reduction}(")
    text = text.replace("%x", operand)
    if name == "convert" and effect != "same" and "V" in (kind, destination):
        text += " dim 0"
    space = "" if text.startswith("(") else " "
    types = [type_of(shape, kind), type_of(to, destination)]
    types = types[0] if types[0] == types[1] and name not in ("convert", "reinterpret") else " -> ".join(types)
    return f"  {result} = dist.{name}{space}{text} : {types}\n", to


def collective_program(steps, source, transitions, wrong=None):
    """Ops one after the other, each (name, destination); `wrong` is the effect of one that has no row."""
    text, shape, kind = "", (4, 4), source
    for number, (name, destination) in enumerate(steps):
        effect = wrong or transitions[(name, re.sub(r"S\(.*", "S", kind), re.sub(r"S\(.*", "S", destination))]
        operand = "%x" if number == 0 else f"%{number - 1}"
        line, shape = write_op(name, operand, (kind, shape), destination, effect, f"%{number}")
        text, kind = text + line, destination
    first = type_of((4, 4), source)
    return (
        f'dist.mesh @mesh ["tp" = {RANKS}]\nfunc.func @f(%x: {first}) {{\n{text}  return\n}}\n', shape
    )  # fmt: skip


def read_advice(message, destination):
    """The chains of (op, destination) that a message offers, and whether it says that shapes differ."""
    match = re.search(r": use (dist\.[^;(]*?)( \(|, whose| \[|$)", message)
    if not match:
        return [], False
    words, differs = match[1], match[2].startswith(", whose")
    if ", then " in words:
        first, second = words.split(", then ")
        name, kind = re.fullmatch(r"dist\.(\w+) to (\S+)", first).groups()
        kind = {"P(k)": destination, "S(d)": "S(0)"}.get(kind, kind)
        return [[(name, kind), (second.removeprefix("dist."), destination)]], differs
    names = re.findall(r"dist\.(\w+)", words)
    return [[(name, destination)] for name in names], differs


def test_collectives_to_use_instead(build_dir, transitions, tmp_path):
    legal = {(op, a, b) for op, a, b in transitions}
    short = lambda kind: re.sub(r"S\(.*", "S", kind)  # noqa: E731
    wrong, programs = [], []
    for name, source, destination in itertools.product(COLLECTIVES, KINDS, KINDS):
        if (name, short(source), short(destination)) in legal:
            continue
        effect = COLLECTIVES[name][1]
        text, shape = collective_program([(name, destination)], source, transitions, wrong=effect)
        wrong.append((name, source, destination, shape))
        programs.append(text)
    errors = split_errors(build_dir, tmp_path, programs)
    assert all(errors), [w for w, e in zip(wrong, errors) if not e][:3]
    followed, texts = [], []
    for (name, source, destination, shape), error in zip(wrong, errors):
        chains, differs = read_advice(error, destination)
        for chain in chains:
            text, got = collective_program(chain, source, transitions)
            assert (got != shape) == differs, (error, got, shape)
            followed.append((error, chain))
            texts.append(text)
    assert len(followed) > 150
    refused = [(*f, e) for f, e in zip(followed, split_errors(build_dir, tmp_path, texts)) if e]
    assert not refused, refused[:3]


# Ops that compute ----------------------------------------------------------------------------------

aten = torch.ops.aten
X, W, ROW = (8, 8), (8, 8), (8,)


@dataclasses.dataclass
class Op:
    """`text` is the op with its operands; `function` gives its result's shape."""

    text: str
    function: object
    operands: dict


OPS = [
    Op("aten.relu(%self)", aten.relu, {"self": X}),
    Op("aten.add(%self, %other)", aten.add, {"self": X, "other": ROW}),
    Op("aten.mul(%self, %other)", aten.mul, {"self": X, "other": X}),
    Op("aten.div(%self, %other)", aten.div, {"self": X, "other": ROW}),
    Op("aten.mm(%self, %mat2)", aten.mm, {"self": X, "mat2": W}),
    Op("aten.addmm(%self, %mat1, %mat2)", aten.addmm, {"self": ROW, "mat1": X, "mat2": W}),
    Op("aten._softmax(%self, dim = 1, half_to_float = false)", lambda x: x, {"self": X}),
    Op("aten.sum_dim_int_list(%self, dim = [0], keepdim = false)", lambda x: x.sum(0), {"self": X}),
    Op("aten.t(%self)", aten.t, {"self": X}),
]
TRANSITION = re.compile(
    r"dist\.(all_reduce|all_gather|reduce_scatter|all_to_all|convert|reinterpret)"
    r"((?: sum| max| dim \d+| split \d+ concat \d+)*)( of '(\w+)')? from (\S+?) to (\S+?)[,;)\s]"
)


class Attempt:
    """An op on operands that are placed so; what is inserted in front of it or behind it."""

    def __init__(self, op, kinds, parameters, declared):
        self.op, self.parameters, self.declared = op, parameters, declared
        self.kinds = dict(zip(op.operands, kinds))
        self.shapes = dict(op.operands)
        self.first = dict(self.kinds)
        self.inserted = {name: [] for name in op.operands}
        self.behind = ""

    def text(self):
        arguments, body = [], ""
        for i, (name, shape) in enumerate(self.op.operands.items()):
            role = f' {{train.role = #train.role<parameter "{name}">}}' if i in self.parameters else ""
            arguments.append(f"%{name}: {type_of(shape, self.first[name])}{role}")
            body += "".join(self.inserted[name])
        values = {n: f"%{n}_{len(self.inserted[n])}" if self.inserted[n] else f"%{n}" for n in self.kinds}
        text = re.sub(r"%(\w+)", lambda m: values[m[1]], self.op.text)
        types = ", ".join(type_of(self.shapes[n], self.kinds[n]) for n in self.kinds)
        result = type_of(self.result_shape(), self.declared)
        body += f"  %r = {text} : ({types}) -> {result}\n{self.behind}"
        return (
            f'dist.mesh @mesh ["tp" = {RANKS}]\nfunc.func @f({", ".join(arguments)}) {{\n{body}  return\n}}\n'
        )

    def result_shape(self):
        operands = [torch.empty(self.shapes[n], device="meta") for n in self.kinds]
        return tuple(self.op.function(*operands).shape)

    def follow(self, message):
        """Whether the message had advice, which then is carried out."""
        wrong = re.search(r"gives (\S+) on axis \"tp\", found (\S+) declared", message)
        if wrong:
            declared = re.search(r"; declare (\S+) and insert (.*?); the result is", message)
            self.declared = wrong[1]
            if declared:
                assert declared[1] == wrong[1]
                shape, value = self.result_shape(), "%r"
                for i, step in enumerate(TRANSITION.finditer(declared[2] + ";")):
                    line, shape = transition(step, value, f"%behind_{i}", shape)
                    self.behind, value = self.behind + line, f"%behind_{i}"
            return True
        steps = list(TRANSITION.finditer(message))
        if not steps:
            return False
        # What is added to a sum that is not made yet cannot be reduced before.
        step = steps["before adding" in message]
        name = step[4] or re.search(r"(?:reduce|gather) '(\w+)'", message)[1]
        assert step[5] == self.kinds[name], (message, self.kinds)
        lines = self.inserted[name]
        operand = f"%{name}_{len(lines)}" if lines else f"%{name}"
        line, self.shapes[name] = transition(step, operand, f"%{name}_{len(lines) + 1}", self.shapes[name])
        lines.append(line)
        self.kinds[name] = step[6]
        return True


def transition(step, operand, result, shape):
    """The op that the words of an error name, and its result's shape."""
    name, words, source, target = step[1], (step[2] or "").strip(), step[5], step[6]
    over = ' over @mesh ["tp"]'
    dim = lambda kind: int(re.search(r"\d+", kind)[0])  # noqa: E731
    to = shape
    if name == "all_reduce":
        text = f"dist.all_reduce {words}({operand}){over}"
    elif name == "all_gather":
        to = local(shape, dim(words), RANKS)
        text = f"dist.all_gather({operand}) {words}{over}"
    elif name == "reduce_scatter":
        to = local(shape, dim(target), 1 / RANKS)
        text = f"dist.reduce_scatter {words.split()[0]}({operand}) dim {dim(target)}{over}"
    elif name == "all_to_all":
        to = local(local(shape, dim(source), RANKS), dim(target), 1 / RANKS)
        text = f"dist.all_to_all({operand}) {words}{over}"
    else:
        if name == "convert" and target.startswith("S"):
            to = local(shape, dim(target), 1 / RANKS)
        elif name == "convert" and source.startswith("S"):
            to = local(shape, dim(source), RANKS)
        text = f"dist.{name} {operand}"
    return f"  {result} = {text} : {type_of(shape, source)} -> {type_of(to, target)}\n", to


def test_what_to_insert(build_dir, tmp_path):
    attempts, results = [], itertools.cycle(["R", "I", "V", "P", "S(0)"])
    for op in OPS:
        choices = []
        for shape in op.operands.values():
            choices.append(["R", "I", "V", "P", *(f"S({d})" for d in range(len(shape)))])
        for kinds in itertools.product(*choices):
            for parameters in ([], [0]):
                declared = next(results)
                attempts.append(Attempt(op, kinds, parameters, declared))
    # Shapes that do not fit are another error, which the op's verifier has.
    errors = split_errors(build_dir, tmp_path, [a.text() for a in attempts])
    open_ = [(a, [e]) for a, e in zip(attempts, errors) if e and "axis" in e]
    assert len(open_) > 300
    helpless = []
    for _ in range(6):
        led = [(a, history) for a, history in open_ if a.follow(history[-1])]
        helpless += [(a.first, history) for a, history in open_ if (a, history) not in led]
        errors = split_errors(build_dir, tmp_path, [a.text() for a, _ in led])
        open_ = [(a, [*history, e]) for (a, history), e in zip(led, errors) if e]
    assert not open_, [(a.first, history) for a, history in open_][:2]
    assert not helpless, helpless[:3]
