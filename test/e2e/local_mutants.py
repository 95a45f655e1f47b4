"""Every small change of a program of ranks. The changes know nothing of how a proof is made: what one does is measured by
running it.
"""

import dataclasses

from local_programs import COLLECTIVES, Op

def without(program, at, by):
    """The program without op `at`, whose result is value `by` instead."""
    first = len(program.arguments)
    gone = first + at

    def moved(value):
        value = by if value == gone else value
        return value - (value > gone)

    ops = [
        dataclasses.replace(op, inputs=tuple(map(moved, op.inputs))) for i, op in enumerate(program.ops) if i != at
    ]
    results = tuple((moved(value), on) for value, on in program.results)
    return dataclasses.replace(program, ops=tuple(ops), results=results)


def _after(program, at, op):
    """The program with `op`, on the result of op `at`, behind it; all uses are of the new one."""
    first = len(program.arguments)
    made = first + at

    def moved(value):
        return value + (value >= made)

    ops = list(program.ops[: at + 1]) + [op]
    ops += [dataclasses.replace(o, inputs=tuple(map(moved, o.inputs))) for o in program.ops[at + 1 :]]
    return dataclasses.replace(
        program, ops=tuple(ops), results=tuple((moved(value), on) for value, on in program.results)
    )


def _before(program, at, op):
    """The program with `op` in front of op `at`, which has the number of that one's result; nothing uses it yet."""
    made = len(program.arguments) + at

    def moved(value):
        return value + (value >= made)

    ops = [*program.ops[:at], op]
    ops += [dataclasses.replace(o, inputs=tuple(map(moved, o.inputs))) for o in program.ops[at:]]
    return dataclasses.replace(
        program, ops=tuple(ops), results=tuple((moved(value), on) for value, on in program.results)
    )


def _with(program, at, op):
    ops = list(program.ops)
    ops[at] = op
    return dataclasses.replace(program, ops=tuple(ops))


def mutants(program):
    """(kind, program) for each change of one op."""
    for at in range(len(program.ops)):
        op = program.ops[at]
        for given in op.inputs:
            kind = "drop a collective" if op.name in COLLECTIVES else "drop an op"
            yield kind, without(program, at, given)
        if op.name in COLLECTIVES or op.name == "axis_index":
            yield from _axes(program, at)
        if op.name in COLLECTIVES:
            yield from _collectives(program, at)
            yield from _moved(program, at)
        yield from _attributes(program, at)
        yield from _counts(program, at)
        if op.name == "dropout":
            yield from _seeds(program, at)
        yield from _values(program, at)
    yield from _microbatches(program)
    yield from _results(program)


def _axes(program, at):
    """Along other axes: one in place of another, more, fewer, and the same in another order."""
    op = program.ops[at]
    names = [axis for axis, _ in program.mesh]
    for i, axis in enumerate(op.axes):
        for other in names:
            if other not in op.axes:
                yield "wrong axis", _with(program, at, op.replace(axis=(*op.axes[:i], other, *op.axes[i + 1 :])))
        if len(op.axes) > 1:
            yield "wrong group", _with(program, at, op.replace(axis=(*op.axes[:i], *op.axes[i + 1 :])))
    for other in names:
        if other not in op.axes and op.name != "axis_index":
            yield "wrong group", _with(program, at, op.replace(axis=(*op.axes, other)))
            yield "wrong group", _with(program, at, op.replace(axis=(other, *op.axes)))
    if len(op.axes) > 1:
        yield "regroup a collective", _with(program, at, op.replace(axis=op.axes[::-1]))


def _collectives(program, at):
    """Doubled, by another function, and as two: along one axis after the other, and as a scatter and a gather."""
    op, value = program.ops[at], len(program.arguments) + at
    names = [axis for axis, _ in program.mesh]
    if op.name in ("all_reduce", "reduce_scatter"):
        for kind in ("sum", "avg", "max"):
            if kind != op.get("kind") and not (op.name == "reduce_scatter" and kind == "max"):
                yield "wrong reduction", _with(program, at, op.replace(kind=kind))
    if op.name == "all_reduce":
        for axis in names:
            again = Op("all_reduce", (value,), (("kind", "sum"), ("axis", axis)))
            yield "double a collective", _after(program, at, again)
        for dim in range(2):
            for axis in names:
                for kind in ("sum", "avg"):
                    scatter = Op("reduce_scatter", op.inputs, (("kind", kind), ("dim", dim), ("axis", op.axes)))
                    gather = Op("all_gather", (value,), (("dim", dim), ("axis", axis)))
                    yield "regroup a collective", _after(_with(program, at, scatter), at, gather)
    else:
        yield "double a collective", _after(program, at, dataclasses.replace(op, inputs=(value,)))
    for axis in names:
        for first, second in ((op.axes, (axis,)), ((axis,), op.axes), *((a, b) for a in names for b in names if a == axis)):
            one, other = op.replace(axis=first), dataclasses.replace(op.replace(axis=second), inputs=(value,))
            if len(op.axes) > 1:
                yield "regroup a collective", _after(_with(program, at, one), at, other)


def _moved(program, at):
    """In front of the op that makes what is communicated, and behind each op that takes what was."""
    first, op = len(program.arguments), program.ops[at]
    maker = op.inputs[0] - first
    if maker >= 0:
        made = program.ops[maker]
        for i, given in enumerate(made.inputs):
            earlier = _before(program, maker, dataclasses.replace(op, inputs=(given,)))
            inputs = tuple(first + maker if j == i else value for j, value in enumerate(made.inputs))
            earlier = _with(earlier, maker + 1, dataclasses.replace(made, inputs=inputs))
            yield "move a collective", without(earlier, at + 1, first + maker + 1)
    for place in range(at + 1, len(program.ops)):
        user = program.ops[place]
        if first + at in user.inputs:
            inputs = tuple(op.inputs[0] if value == first + at else value for value in user.inputs)
            later = _with(program, place, dataclasses.replace(user, inputs=inputs))
            yield "move a collective", _after(later, place, dataclasses.replace(op, inputs=(first + place,)))


def _attributes(program, at):
    op = program.ops[at]
    given = dict(op.attributes)
    for key in ("dim", "split", "concat"):
        if key in given:
            for dim in range(3):
                if dim != op.get(key):
                    yield "wrong dimension", _with(program, at, op.replace(**{key: dim}))
    if op.name == "slice":
        for start, end in ((1, 1), (-1, -1), (2, 2), (-2, -2), (1, 0), (0, -1)):
            shifted = op.replace(start=op.get("start") + start, end=op.get("end") + end)
            yield "shift a slice", _with(program, at, shifted)
    if op.name == "shift":
        for by in (-1, 0, 1, 2):
            if by != op.get("by"):
                yield "wrong shift", _with(program, at, op.replace(by=by))
    # Where masks and the places of ranks begin and end.
    is_mask = op.name in ("lt_scalar", "ge_scalar", "arange") or (
        op.name == "mul_scalar" and _name_of(program, op.inputs[0]) == "axis_index"
    )
    for key in ("other", "value", "num_weights", "padding_idx", "end"):
        if key in given and isinstance(op.get(key), int) and op.name != "slice":
            for change in (-1, 1, op.get(key)):
                kind = "wrong mask offset" if is_mask else "wrong number"
                yield kind, _with(program, at, op.replace(**{key: op.get(key) + change}))
    if op.name == "lt":
        yield "wrong mask offset", _with(program, at, dataclasses.replace(op, inputs=op.inputs[::-1]))


def _name_of(program, value):
    place = value - len(program.arguments)
    return program.ops[place].name if place >= 0 else "argument"


def _counts(program, at):
    """A mean over too many or too few, and what is divided by another number of ranks or elements."""
    op, value = program.ops[at], len(program.arguments) + at
    if op.name.startswith("nll"):
        yield "wrong count", _with(program, at, op.replace(reduction=3 - op.get("reduction")))
    if op.name == "var":
        yield "wrong count", _with(program, at, op.replace(correction=1))
    sizes = sorted({size for _, size in program.mesh})
    if op.name == "mean":
        count = program.local_types()[op.inputs[0]][0][op.get("dim")]
        for other in {count + 1, count - 1, *(count * size for size in sizes), *(count // size for size in sizes)}:
            if other > 0:
                total = _with(program, at, dataclasses.replace(op, name="sum"))
                yield "wrong count", _after(total, at, Op("mul_scalar", (value,), (("other", 1.0 / other),)))
    if op.name == "mul_scalar" and isinstance(op.get("other"), float):
        for factor in (*sizes, *(1 / size for size in sizes)):
            yield "wrong count", _with(program, at, op.replace(other=op.get("other") * factor))


def _seeds(program, at):
    """Another op's place in the stream, another number as seed or offset, and a seed for each rank."""
    op, first = program.ops[at], len(program.arguments)
    positions = {other.get("position") for other in program.ops if other.name == "dropout"}
    for position in sorted(positions | {op.get("position") + change for change in (1, 8, 64)}):
        if position != op.get("position"):
            yield "wrong seed", _with(program, at, op.replace(position=position))
    x, seed, offset = op.inputs
    for inputs in ((offset, seed), (seed, seed), (offset, offset)):
        if inputs != (seed, offset):
            yield "wrong seed", _with(program, at, dataclasses.replace(op, inputs=(x, *inputs)))
    for axis, _ in program.mesh:
        for i in (1, 2):
            place = _before(program, at, Op("axis_index", (), (("axis", axis),)))
            own = _before(place, at + 1, Op("add", (op.inputs[i], first + at)))
            inputs = tuple(first + at + 1 if j == i else value for j, value in enumerate(op.inputs))
            yield "wrong seed", _with(own, at + 2, dataclasses.replace(op, inputs=inputs))


def _values(program, at):
    op, value = program.ops[at], len(program.arguments) + at
    for factor in (2.0, 0.5, 4.0, 0.25, -1.0):
        yield "scale", _after(program, at, Op("mul_scalar", (value,), (("other", factor),)))
    yield "apply too early", _after(program, at, Op("tanh", (value,)))
    yield "accumulate twice", _after(program, at, Op("add", (value, value)))
    for i in range(len(op.inputs)):
        for other in range(value):
            if other != op.inputs[i]:
                changed = tuple(other if j == i else v for j, v in enumerate(op.inputs))
                yield "stale value", _with(program, at, dataclasses.replace(op, inputs=changed))


def _microbatches(program):
    """Ops that take values of another microbatch."""
    of = dict(program.microbatches)
    members = {}
    for value in range(len(program.arguments) + len(program.ops)):
        place = value - len(program.arguments)
        number = program.ops[place].microbatch if place >= 0 else of.get(value)
        if number is not None:
            members.setdefault(number, []).append(value)
    others = {}
    for number, values in members.items():
        for other in members:
            if other != number and len(members[other]) == len(values):
                for mine, theirs in zip(values, members[other], strict=True):
                    others.setdefault(mine, []).append(theirs)
    for at, op in enumerate(program.ops):
        for i, value in enumerate(op.inputs):
            for other in others.get(value, ()):
                # Nothing that is made later.
                if other < len(program.arguments) + at:
                    inputs = tuple(other if j == i else v for j, v in enumerate(op.inputs))
                    yield "swap microbatches", _with(program, at, dataclasses.replace(op, inputs=inputs))


def _results(program):
    for i, (value, on) in enumerate(program.results):
        for other in range(len(program.arguments) + len(program.ops)):
            if other != value:
                results = tuple((other, on) if j == i else r for j, r in enumerate(program.results))
                yield "wrong result", dataclasses.replace(program, results=results)


def changed_ops(right, wrong):
    """The lines of the changed ops, and of their direct users: an op is changed if the right program has none like it
    on the same values, and has all these values; or if all ops but it are in both programs."""
    known = set(terms_of(right))
    terms = terms_of(wrong)
    first = len(wrong.arguments)
    changed = {
        i for i, op in enumerate(wrong.ops)
        if terms[first + i] not in known and all(terms[value] in known for value in op.inputs)
    }  # fmt: skip
    if len(wrong.ops) == len(right.ops):
        changed |= {i for i, (op, other) in enumerate(zip(wrong.ops, right.ops, strict=True)) if op != other}
    if len(wrong.ops) == len(right.ops) + 1:
        changed |= {
            i for i, op in enumerate(wrong.ops) for value in op.inputs if without(wrong, i, value) == right
        }  # fmt: skip
    return changed | {i for i, op in enumerate(wrong.ops) if any(value - first in changed for value in op.inputs)}


def terms_of(program):
    """What each value is made of, as a text of its own."""
    numbers, terms = {}, []
    for i in range(len(program.arguments)):
        terms.append(numbers.setdefault(("argument", i), len(numbers)))
    for op in program.ops:
        of = (op.name, op.attributes, tuple(terms[value] for value in op.inputs))
        terms.append(numbers.setdefault(of, len(numbers)))
    names = {number: key for key, number in numbers.items()}

    def spell(number):
        key = names[number]
        return key if key[0] == "argument" else (key[0], key[1], tuple(spell(given) for given in key[2]))

    return [spell(number) for number in terms]
