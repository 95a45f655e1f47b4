"""A program into which the communication suggested by an op's error is inserted is accepted.

Each computing op of exported models, with its operands in every placement: each alternative that an error offers is
carried out, word for word, until the op is accepted. Nothing is run.
"""

import dataclasses
import itertools
import re

import pytest
from test_type_advice import local, split_diagnostics, type_of

MODELS = ["gpt_untied", "moe", "resnet18"]
KINDS = ["R", "I", "V", "P", "P(max)", "S(0)", "S(1)"]
ROUNDS = 6
# Files are read one after the other, each in one run.
AT_ONCE = 4000
OP = re.compile(r"^ +%\S+(?:, %\S+)* = (aten\.\w+)\(([^\n]*?)\)( \{[^\n]*?\})? : \(([^\n]*)\) -> ([^\n]*?)(?: loc\(.*)?$",
                re.MULTILINE)  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Op:
    """`text` has {0}, {1}, ... for its operands, whose types and those of the results are (shape, dtype)."""

    name: str
    text: str
    operands: tuple
    results: tuple


@dataclasses.dataclass(frozen=True)
class Attempt:
    """An op with each operand's placements, one after each step that brings it to the next; those declared for the
    results, and steps after them."""

    op: Op
    operands: tuple
    results: tuple
    after: tuple = ()
    # What errors call the operands, with their numbers.
    names: tuple = dataclasses.field(default=(), compare=False)


def read_types(text):
    return tuple(
        (tuple(int(n) for n in shape.split("x") if n), dtype)
        for shape, dtype in re.findall(r"tensor<((?:\d+x)*)([a-z]+\d+)>", text)
    )


def read_ops(text):
    """The first op of each name whose operands and results are tensors of even sizes."""
    found = {}
    for name, inside, _, operands, results in OP.findall(text):
        names = re.findall(r"%[\w#.]+", inside)
        operands, made = read_types(operands), read_types(results)
        even = all(n % 2 == 0 for shape, _ in operands + made for n in shape)
        if not names or len(names) > 3 or len(operands) != len(names) or not even or "none" in results:
            continue
        count = itertools.count()
        template = re.sub(r"%[\w#.]+", lambda _: f"<{next(count)}>", inside)
        found.setdefault(name, Op(name, template, operands, made))
    return found


def step_of(text):
    """(op, arguments' text, source, destination, dimension, change of its size) of `dist.NAME ... from A to B`."""
    match = re.fullmatch(r"dist\.(\w+)((?: sum| max| min| avg)?)((?: \w+ \d+)*) from (\S+) to (\S+)", text)
    name, reduction, dims, source, destination = match.groups()
    return name, reduction, dims, source, destination


def sizes(shape, step, backwards=False):
    """What a step makes of a shape, or makes it from."""
    name, _, dims, source, destination = step
    change = {"all_gather": 2, "reduce_scatter": 0.5}.get(name, 1)
    dim = int(dims.split()[1]) if dims else 0
    if name == "all_to_all":
        split, concat = map(int, re.findall(r"\d+", dims))
        first, second = (split, concat) if not backwards else (concat, split)
        return local(local(shape, first, 0.5), second, 2)
    return local(shape, dim, 1 / change if backwards else change)


def write_step(step, operand, result, shape, dtype):
    name, reduction, dims, source, destination = step
    types = [type_of(shape, source, dtype), type_of(sizes(shape, step), destination, dtype)]
    inside = f" {operand}" if name in ("convert", "reinterpret") else f"{reduction}({operand}){dims} over @mesh [\"tp\"]"
    return f"  {result} = dist.{name}{inside} : {' -> '.join(types)}\n"


def write(attempt):
    """The program of an attempt. Every operand arrives in the op's own shape."""
    op, body, arguments, names, types = attempt.op, "", [], [], []
    for number, ((shape, dtype), steps) in enumerate(zip(op.operands, attempt.operands)):
        kind, steps = steps[0], steps[1:]
        shapes = [shape]
        for step in reversed(steps):
            shapes.insert(0, sizes(shapes[0], step, backwards=True))
        name = f"%x{number}"
        arguments.append(f"{name}: {type_of(shapes[0], kind, dtype)}")
        for at, step in enumerate(steps):
            body += write_step(step, name, f"%x{number}s{at}", shapes[at], dtype)
            name, kind = f"%x{number}s{at}", step[4]
        names.append(name)
        types.append(type_of(shape, kind, dtype))
    inside = re.sub(r"<(\d+)>", lambda m: names[int(m[1])], op.text)
    made = [type_of(*[shape, kind, dtype]) for (shape, dtype), kind in zip(op.results, attempt.results)]
    results = f"({', '.join(made)})" if len(made) > 1 else made[0]
    count = f":{len(made)}" if len(made) > 1 else ""
    body += f"  %r{count} = {op.name}({inside}) : ({', '.join(types)}) -> {results}\n"
    for number, step in attempt.after:
        operand = f"%r#{number}" if count else "%r"
        body += write_step(step, operand, f"%a{number}", op.results[number][0], op.results[number][1])
    return f'dist.mesh @mesh ["tp" = 2]\nfunc.func @f({", ".join(arguments)}) {{\n{body}  return\n}}\n'


def check(build_dir, folder, attempts):
    """Each attempt's first error and its notes, None if it is accepted."""
    found = []
    for start in range(0, len(attempts), AT_ONCE):
        part = [write(attempt) for attempt in attempts[start : start + AT_ONCE]]
        found += split_diagnostics(build_dir, folder, part)
    return found


STEP = re.compile(
    r"(?:reduce|gather|bring) ('\w+') (?:first|to dimension \d+) \((dist\.[^;]*? to \S+?)\)(?=[,;]|$)"
    r"|insert (dist\.\w+(?: sum| max| min)?(?: dim \d+)?) of ('\w+') (from \S+ to [^\s;,]+)"
)
BOTH = re.compile(r"but not dimension (\d+) of ('\w+'), which corresponds to it; shard both")
DECLARED = re.compile(r"declare (\S+) and insert (dist\.[^;]*?from \S+ to [^\s;]+)(?: and dist\.[^;]*)?;")
GIVEN = re.compile(r"produces (\S+) on axis \"tp\", found \S+ declared for result (\d+)")


def follow(attempt, error):
    """What each alternative that an error offers makes of an attempt."""
    message, *notes = error.split("\n")
    advice = "; ".join(message.split("; ")[1:])
    names = dict(attempt.names)
    for note in notes:
        if match := re.match(r"('\w+') is argument (\d+)", note):
            names[match[1]] = int(match[2])
    made = []

    def place(name, change):
        if name in names:
            operands = list(attempt.operands)
            operands[names[name]] = change(operands[names[name]])
            made.append(dataclasses.replace(attempt, operands=tuple(operands), names=tuple(names.items())))

    def declare(result, kind, after=()):
        results = list(attempt.results)
        results[result] = kind
        made.append(dataclasses.replace(attempt, results=tuple(results), after=attempt.after + after))

    for first, step, op, of, ends in STEP.findall(advice):
        step = step_of(step or f"{op} {ends}")
        place(first or of, lambda steps: (*steps, step))
    if match := BOTH.search(message):
        # Who has inserted something has made the choice.
        place(match[2], lambda steps: (f"S({match[1]})",) if len(steps) == 1 else steps)
    if match := GIVEN.search(message):
        kind, result = match[1], int(match[2])
        if match := DECLARED.search(advice + ";"):
            declare(result, match[1], ((result, step_of(match[2])),))
        else:
            declare(result, kind)
    return [each for each in made if each != attempt]


@pytest.mark.parametrize("name", MODELS)
def test_what_errors_of_ops_say_leads_on(name, model, build_dir, tmp_path):
    ops = read_ops(model(name).program.read_text())
    assert len(ops) > 10
    first = []
    for op in ops.values():
        for kinds in itertools.product(KINDS, repeat=len(op.operands)):
            fits = all(
                (not kind.startswith("S") or int(kind[2]) < len(shape)) and (kind[0] != "P" or dtype[0] == "f")
                for kind, (shape, dtype) in zip(kinds, op.operands)
            )
            if fits:
                first.append(Attempt(op, tuple((kind,) for kind in kinds), ("R",) * len(op.results)))
    children, errors, level = {}, {}, first
    for _ in range(ROUNDS):
        level = [attempt for attempt in dict.fromkeys(level) if attempt not in errors]
        for attempt, error in zip(level, check(build_dir, tmp_path, level)):
            errors[attempt] = error
            children[attempt] = follow(attempt, error) if error else []
        level = [child for attempt in level for child in children[attempt]]

    advised = re.compile(r"insert dist|(?:first|to dimension \d+) \(dist|shard both")

    def leads_on(attempt):
        """Whether it is accepted, or each alternative leads on; refusals without any are not this test's."""
        if errors.get(attempt, "too many rounds") is None:
            return True
        if attempt not in children or (not children[attempt] and advised.search(errors[attempt])):
            return False
        return all(map(leads_on, children[attempt]))

    refused = [attempt for attempt in first if errors[attempt]]
    assert sum(bool(children[attempt]) for attempt in refused) > 200
    stuck = [
        (write(attempt), errors[attempt], [errors.get(child) for child in children[attempt]])
        for attempt in refused
        if not leads_on(attempt)
    ]
    assert not stuck, f"{len(stuck)} of {len(refused)}:\n" + "\n".join(map(str, stuck[:4]))
