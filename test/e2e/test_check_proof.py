"""`cleave-check-proof` accepts what `cleave-prove --log` writes of exported models, and nothing that was changed or that rests on
a wrong lemma."""

import random
import re
import subprocess

import lemma_cases
import lemma_cases_of_data  # noqa: F401: adds cases
import lemma_cases_of_ranks  # noqa: F401
import lemma_programs
import placement_cases as cases
import pytest
from combinations_cover import covered, seed
from training import ENVIRONMENT

CHECKED, REJECTED, TRUSTING = range(3)


@pytest.fixture(scope="module")
def check(build_dir):
    def run(whole, part, log, *options):
        made = subprocess.run(
            [build_dir / "bin" / "cleave-check-proof", whole, part, log, *options],
            capture_output=True, text=True, timeout=120,
        )  # fmt: skip
        assert made.returncode in (CHECKED, REJECTED, TRUSTING), made.stderr
        return made.returncode, made.stdout

    return run


@pytest.fixture(scope="module")
def proved(build_dir):
    """Whether the programs are proved, with the log that says so."""

    def run(whole, part, log, *options):
        made = subprocess.run(
            [build_dir / "bin" / "cleave-prove", whole, part, "--execute=false", f"--log={log}", *options],
            capture_output=True, text=True, timeout=120,
        )  # fmt: skip
        assert made.returncode in (0, 2), made.stderr
        assert log.exists() == (made.returncode == 0)
        return made.returncode == 0

    return run


@pytest.fixture(scope="module")
def programs(build_dir, model):
    """A model, and what each rank of a mesh runs, made once."""
    made = {}

    def get(name, mesh):
        if (name, mesh) not in made:
            whole = model(name).program
            stem = whole.with_name(re.sub(r"[^a-z0-9]+", "_", f"checked {mesh}"))
            plan = cases.plan(name, mesh).write(stem.with_suffix(".json"))
            made[name, mesh] = whole, stem.with_suffix(".local.mlir")
            subprocess.run(
                [build_dir / "bin" / "cleave-opt", whole, f"--annotate-placements=plan={plan}",
                 "--propagate-placements", "--partition", "-o", made[name, mesh][1]],
                check=True, env=ENVIRONMENT, timeout=120,
            )  # fmt: skip
        return made[name, mesh]

    return get


@covered({"name": ["gpt_untied", "llama"], "mesh": ["dp2", "fsdp2", "tp2, sequence", "fsdp2 x tp2"]}, strength=1)
def test_models_on_meshes(programs, proved, check, tmp_path, name, mesh):
    whole, part = programs(name, mesh)
    log = tmp_path / "proof"
    assert proved(whole, part, log)
    # Also a vocabulary in parts, as of tensor parallelism.
    status, answer = check(whole, part, log)
    assert status == CHECKED, answer
    assert int(re.match(r"checked: (\d+) results", answer).group(1)) > 80


def change(lines, choose):
    """One line less, twice, or with another number; which line, and where in it a number."""
    at = choose.randrange(1, len(lines) - 2)
    kind = choose.choice(["drop", "double", "number", "number", "number"])
    line, changed = lines[at], list(lines)
    if kind == "drop":
        del changed[at]
    elif kind == "double":
        changed.insert(at, line)
    else:
        numbers = list(re.finditer(r"(?<![\w.])\d+", line))
        if not numbers:
            return change(lines, choose)
        number = choose.choice(numbers)
        value = int(number.group())
        other = choose.choice([value + 1, value * 2 + 1, value - 1 if value else 3])
        changed[at] = line[: number.start()] + str(other) + line[number.end() :]
        return changed, at, number.start()
    return changed, at, None


def is_size(line, place):
    """Whether there is the size of a digit of an op's or a sum's term. Sizes are part of a term's name, and choose between terms
    that a form could be; nothing is concluded from them."""
    sizes = re.match(r"(?:op \d+|sum) ([\d,]+) ", line)
    return sizes is not None and place is not None and sizes.start(1) <= place < sizes.end(1)


def unnamed(lines):
    """The lines of terms that no other line names."""
    defined, used = {}, set()
    for at, line in enumerate(lines):
        if line.startswith(("leaf ", "op ", "sum ")):
            # Numbered from 2, and named before their places.
            defined[2 + len(defined)] = at
        if line.startswith(("op ", "sum ", "value ")):
            used |= {int(term) for term in re.findall(r"(?<![\w:])(\d+)\[", line.split(" : ")[0])}
    return {at for term, at in defined.items() if term not in used}


@pytest.mark.parametrize("mesh", ["fsdp2", "tp2, sequence"])
def test_a_changed_log_is_rejected(programs, proved, check, tmp_path, mesh):
    """But for sizes that only choose between names, terms that nothing names, and steps of which the answer then says that they are
    trusted. The programs are equal, so that no proof of it is wrong."""
    whole, part = programs("gpt_untied", mesh)
    log, changed = tmp_path / "proof", tmp_path / "changed"
    assert proved(whole, part, log)
    lines = log.read_text().split("\n")
    choose = random.Random(seed())
    for _ in range(60):
        other, at, place = change(lines, choose)
        changed.write_text("\n".join(other))
        status, answer = check(whole, part, changed)
        if status == CHECKED:
            # Of a line that is there twice, nothing may name the second one.
            last = at + 1 if len(other) > len(lines) else at
            assert is_size(lines[at], place) or last in unnamed(other), (lines[at], other[at])
        elif status == REJECTED:
            assert answer.startswith("rejected: ")


def test_digits_that_a_term_does_not_find_are_rejected(programs, proved, check, tmp_path):
    """An operand read at a digit of the result alone, or a summand at what another one binds: where it is read would be no part of
    what the term is found by, and two values one term."""
    whole, part = programs("gpt_untied", "fsdp2")
    log, changed = tmp_path / "proof", tmp_path / "changed"
    assert proved(whole, part, log)
    lines = log.read_text().split("\n")
    wrong = {}
    for at, line in enumerate(lines):
        op = re.match(r"op (\d+) ([\d,]+) .*?\[1\*0\b", line)
        if op and len(op[2].split(",")) > int(op[1]):
            wrong.setdefault("op", []).append((at, f"{line[: op.end() - 1]}{op[1]}{line[op.end() :]}"))
        several = re.match(r"sum ([\d,]+) .*?<(\d+):\d+>", line)
        unbound = re.search(r"(?<= )-?[\d/]+\*\d+\[1\*\d", line)
        if several and unbound:
            wrong.setdefault("sum", []).append((at, f"{line[: unbound.end() - 1]}{several[2]}{line[unbound.end() :]}"))
    assert wrong.keys() == {"op", "sum"}
    for cases_of_kind in wrong.values():
        # Many are alike, layer by layer.
        for at, line in cases_of_kind[:8]:
            changed.write_text("\n".join([*lines[:at], line, *lines[at + 1 :]]))
            status, answer = check(whole, part, changed)
            assert status == REJECTED and f":{at + 1}: expected a line of a proof" in answer, (line, answer)


@pytest.mark.parametrize(
    "old, new",
    [
        ("eps = 1.000000e-05", "eps = 1.000000e-04"),
        ("is_causal = true", "is_causal = false"),
        (r"aten\.gelu\(", "aten.relu("),
    ],
)
def test_a_changed_program_is_rejected(programs, proved, check, tmp_path, old, new):
    whole, part = programs("gpt_untied", "tp2, sequence")
    log, wrong = tmp_path / "proof", tmp_path / "wrong.mlir"
    assert proved(whole, part, log)
    text, count = re.subn(old, new, part.read_text(), count=1)
    assert count == 1
    wrong.write_text(text)
    assert check(whole, wrong, log)[0] == REJECTED


def test_changed_lines_of_a_vocabulary_in_parts_are_rejected(programs, proved, check, tmp_path):
    """Those of look-ups, of marks and of what they fill: with another number, or without the line."""
    whole, part = programs("gpt_untied", "tp2, sequence")
    log, changed = tmp_path / "proof", tmp_path / "changed"
    assert proved(whole, part, log)
    lines = log.read_text().split("\n")
    of_ranks = lines.index("local")
    asked = [
        at
        for at, line in enumerate(lines)
        if re.match(r"op .*: (marked$|aten\.(masked_fill|lt_scalar|ge_scalar|logical_or))", line)
        or (at > of_ranks and line.startswith("value lookup ") and line.count("*") > 1)
    ]
    assert len(asked) > 12
    choose = random.Random(seed())
    for at in asked:
        line, sizes = lines[at], re.match(r"op \d+ [\d,]+ ", lines[at])
        numbers = [each for each in re.finditer(r"(?<![\w.])\d+", line) if not sizes or each.start() >= sizes.end()]
        number = choose.choice(numbers)
        other = f"{line[: number.start()]}{int(number[0]) + 1}{line[number.end() :]}"
        for with_line in ([other], []):
            changed.write_text("\n".join([*lines[:at], *with_line, *lines[at + 1 :]]))
            status, answer = check(whole, part, changed)
            assert status == REJECTED, (line, other, answer)


@pytest.mark.parametrize("step", ["draw", "lookup", "statistics", "order", "rows"])
def test_steps_of_other_ops_are_rejected(programs, proved, check, tmp_path, step):
    """A value is taken from the log only of an op that such a step is about."""
    whole, part = programs("gpt_untied", "tp2, sequence")
    log, changed = tmp_path / "proof", tmp_path / "changed"
    assert proved(whole, part, log)
    lines = log.read_text().split("\n")
    made = [at for at, line in enumerate(lines) if re.match(r"value (rule|dist|reshape|copy|arithmetic|lookup) ", line)]
    for at in random.Random(seed()).sample(made, 8):
        value = lines[at].split(" ", 2)[2]
        line = f"value {step} " + re.sub(r"\b1/1([<*])", r"2/1\1", value)
        changed.write_text("\n".join([*lines[:at], line, *lines[at + 1 :]]))
        status, answer = check(whole, part, changed)
        assert status == REJECTED and f":{at + 1}: " in answer, (line, answer)


WRONG_VOCABULARIES = {
    "a row too few": (r"(aten\.lt_scalar\(%\w+, other = )0\)", r"\g<1>1)"),
    "a row too many": (r"(aten\.ge_scalar\(%\w+, other = )128\)", r"\g<1>129)"),
    "no end": (r"(aten\.logical_or\((%\w+), )(?!\2)%\w+(\) : \((tensor<[^>]*>), \4\))", r"\1\2\3"),
    "no mark on the result": (r"(%\w+) = aten\.masked_fill_scalar\((%\w+), %\w+, value = 0\.0[^\n]*: \((tensor<[^>]*>), [^\n]*", r"\1 = aten.clone(\2) : (\3) -> \3"),
    "filled with another row": (r"(aten\.masked_fill_scalar\(%\w+, %\w+, value = )128\)", r"\g<1>127)"),
    "filled with a class": (r"(aten\.masked_fill_scalar\(%\w+, %\w+, value = )-100\)", r"\g<1>0)"),
    "another padding": (r"num_weights = 129, padding_idx = 128", "num_weights = 129, padding_idx = -1"),
    "another class is ignored": (r"ignore_index = -100", "ignore_index = 3"),
    "another rank's rows": (r"(aten\.mul_scalar\(%\w+, other = )128\)", r"\g<1>64)"),
}  # fmt: skip


@pytest.mark.parametrize("error", WRONG_VOCABULARIES)
def test_a_wrong_vocabulary_is_rejected(programs, proved, check, tmp_path, error):
    """By the log of what is right, wherever the error is made."""
    whole, part = programs("gpt_untied", "tp2, sequence")
    log, wrong = tmp_path / "proof", tmp_path / "wrong.mlir"
    assert proved(whole, part, log)
    text = part.read_text()
    found = list(re.finditer(WRONG_VOCABULARIES[error][0], text))
    assert found
    for match in found:
        wrong.write_text(text[: match.start()] + match.expand(WRONG_VOCABULARIES[error][1]) + text[match.end() :])
        status, answer = check(whole, wrong, log)
        assert status == REJECTED, answer


INFINITE = {
    "add": ("%x, %inf", "1/1*2[1*0] 1/1*3[]"),
    "mul_scalar": ("%inf, other = 0.0", "."),
}


@pytest.mark.parametrize("op", INFINITE)
def test_infinities_are_no_numbers(check, tmp_path, op):
    """`x + inf - inf` and `x - 0 * inf` are not `x`, whatever a log says."""
    operands, value = INFINITE[op]
    whole, part, log = (tmp_path / name for name in ("whole.mlir", "part.mlir", "proof"))
    signature = "func.func @f(%x: tensor<3xf64>) -> tensor<3xf64> {"
    types = ", ".join(["tensor<3xf64>"] * operands.count("%"))
    whole.write_text(f"{signature}\nreturn %x : tensor<3xf64>\n}}\n")
    first, second = ("%y", "%inf") if op == "add" else ("%x", "%y")
    part.write_text(f"""{signature}
      %inf = aten.full(size = [3], fill_value = 0x7FF0000000000000 : f64, dtype = f64) : () -> tensor<3xf64>
      %y = aten.{op}({operands}) : ({types}) -> tensor<3xf64>
      %z = aten.sub({first}, {second}) : (tensor<3xf64>, tensor<3xf64>) -> tensor<3xf64>
      return %z : tensor<3xf64>
    }}
    """)
    log.write_text(f"""cleave-proof 1
global
func f
local
func f
leaf 3 f argument 0
op 0 -  : constant 0x7FF0000000000000 : f64 of f64
value arithmetic 3; 1/1*3[]
value arithmetic 3; {value}
value arithmetic 3; 1/1*2[1*0]
end
""")
    status, answer = check(whole, part, log)
    assert status == REJECTED and "does not make the value" in answer and answer.count("\n") == 1, answer


@pytest.mark.parametrize("step", ["draw", "lookup", "rows", "copy"])
def test_an_argument_is_made_by_no_step(check, tmp_path, step):
    """One that ranks do not take: a log may only say that it is unknown."""
    whole, part, log = (tmp_path / name for name in ("whole.mlir", "part.mlir", "proof"))
    whole.write_text("func.func @f(%x: tensor<3xf64>, %y: tensor<3xf64>) -> tensor<3xf64> {\nreturn %y : tensor<3xf64>\n}\n")
    part.write_text("func.func @f(%x: tensor<3xf64>) -> tensor<3xf64> {\nreturn %x : tensor<3xf64>\n}\n")
    log.write_text(f"""cleave-proof 1
leaf 3 f argument 0
global
func f
value {step} 3; 1/1*2[1*0]
local
func f
end
""")
    status, answer = check(whole, part, log)
    assert status == REJECTED and f"step '{step}' does not make the value" in answer, answer


def test_a_proof_of_ring_attention(programs, proved, check, tmp_path):
    """Its steps are not replayed: it is rejected, in one line."""
    whole, part = programs("gpt_untied", "cp2")
    log = tmp_path / "proof"
    assert proved(whole, part, log)
    assert "value attention " in log.read_text()
    status, answer = check(whole, part, log)
    assert status == REJECTED and answer.count("\n") == 1, answer
