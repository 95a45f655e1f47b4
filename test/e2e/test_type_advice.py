"""A program that uses the ops suggested by an error, instead of the wrong one, is accepted.

Every transition that a collective does not make: its error's advice is carried out, word for word. Nothing is
run.
"""

import itertools
import json
import re
import subprocess

import pytest

RANKS = 2
PENDING = {"P": "sum", "P(max)": "max"}


def local(shape, dim, factor):
    return tuple(int(n * factor) if d == dim else n for d, n in enumerate(shape))


def type_of(shape, kind, dtype="f64"):
    return f"tensor<{''.join(f'{n}x' for n in shape)}{dtype}, #dist.on<@mesh, tp = {kind}>>"


def split_diagnostics(build_dir, folder, programs):
    """The first error of each program and its notes, a line each, None if it is accepted; all in one run."""
    file = folder / "programs.mlir"
    file.write_text("\n// -----\n".join(programs))
    result = subprocess.run(
        [build_dir / "bin" / "cleave-opt", file, "--split-input-file", "--check-spmd-types", "--error-limit=0",
         "-o", "/dev/null"],
        capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    owner = [number for number, text in enumerate(programs) for _ in range(text.count("\n") + 2)]
    found = [None] * len(programs)
    is_first = False
    for line, kind, message in re.findall(
        rf"^{re.escape(str(file))}:(\d+):\d+: (error|note): (.*)", result.stderr, re.MULTILINE
    ):
        if kind == "error":
            current = owner[int(line) - 1]
            is_first = found[current] is None
            found[current] = found[current] or message
        elif is_first:
            found[current] += "\n" + message
    assert (result.returncode == 0) == (not any(found)), result.stderr[-2000:]
    return found


def split_errors(build_dir, folder, programs):
    """The first error of each program, None if it is accepted."""
    found = split_diagnostics(build_dir, folder, programs)
    return [message and message.split("\n")[0] for message in found]


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
        shard = "S(1)" if name == "all_to_all" else "S(0)"
        kind = {"P(k)": destination, "S(d)": shard}.get(kind, kind)
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
