"""`cleave-check-proof` replays proofs in which ranks take what lies at their place: shards of ZeRO by index, and blocks that go round a
ring. With one wrong step in the program, or a changed line of the log, it is no proof."""

import random
import re
import subprocess

import placement_cases as cases
import pytest
from combinations_cover import seed
from test_check_proof import CHECKED, REJECTED, TRUSTING, change, check, is_size, proved, unnamed  # noqa: F401
from test_prove_batches import SYNC
from training import ENVIRONMENT
from zero_programs import Zero

CASES = {
    "zero1": ("gpt_untied", 1), "zero2": ("gpt_untied", 2), "ring": ("gpt_untied", "tp2, sequence"), "llama": ("llama", "fsdp2 x tp2"),
}  # fmt: skip


@pytest.fixture(scope="module")
def programs(build_dir, model, proved, tmp_path_factory):  # noqa: F811
    """A program for one device, what ranks run of it, and the proof, made once."""
    made = {}

    def get(case):
        if case not in made:
            (name, how), folder = CASES[case], tmp_path_factory.mktemp(case)
            whole, part, log = model(name).program, folder / "part.mlir", folder / "proof"
            passes = [f"{SYNC} size=2"]
            if isinstance(how, str):
                plan = cases.plan(name, how).write(folder / "plan.json")
                passes = [f"--annotate-placements=plan={plan}", "--propagate-placements", "--partition", "--async-tp=min-mb=0", "--cse"]
            subprocess.run([build_dir / "bin" / "cleave-opt", whole, *passes, "-o", part], check=True, env=ENVIRONMENT, timeout=120)
            if isinstance(how, int):
                text = re.sub(r" loc\(.*?\)$|^#loc.*$", "", part.read_text(), flags=re.MULTILINE)
                part.write_text(Zero(text, 2, how).text())
            assert proved(whole, part, log)
            made[case] = whole, part, log
        return made[case]

    return get


@pytest.mark.parametrize("case", CASES)
def test_accepted(programs, check, case):  # noqa: F811
    whole, part, log = programs(case)
    assert "index_select" in part.read_text()
    status, said = check(whole, part, log)
    assert status in (CHECKED, TRUSTING), said


ERRORS = {
    "another rank's block": (("ring", "llama"), r"(aten\.sub_scalar\(%\w+, other = )1\)", r"\g<1>2)"),
    "the own block again": (("ring", "llama"), r"(dist\.shift\(%\w+\) by )1 wrap", r"\g<1>2 wrap"),
    "parts in another order": (("ring", "llama"), r"aten\.cat\(\[(%\w+), (?!\1)(%\w+)(?=[^\n]*f32)", r"aten.cat([\2, \1"),
    "averaged": (("zero1", "zero2"), r"dist\.reduce_scatter sum", "dist.reduce_scatter avg"),
    "another rank's part": (("zero1", "zero2"), r"( *)(%\S+) = (dist\.axis_index [^\n]* : (tensor<i64>))", r"\1%own = \3\n\1\2 = aten.rsub_scalar(%own, other = 1) : (\4) -> \4"),
}  # fmt: skip


@pytest.mark.parametrize("error, case", [(error, case) for error in ERRORS for case in ERRORS[error][0]])
def test_a_wrong_step_is_rejected(programs, check, tmp_path, error, case):  # noqa: F811
    whole, part, log = programs(case)
    text, wrong = part.read_text(), tmp_path / "wrong.mlir"
    made = re.sub(ERRORS[error][1], ERRORS[error][2], text, count=1)
    assert made != text
    wrong.write_text(made)
    status, said = check(whole, wrong, log)
    assert status == REJECTED and said.startswith("rejected: "), said


@pytest.mark.parametrize("case", CASES)
def test_a_changed_line_is_rejected(programs, check, tmp_path, case):  # noqa: F811
    """But for sizes that only choose between names, terms that nothing names, and steps that the answer trusts."""
    whole, part, log = programs(case)
    changed, lines = tmp_path / "changed", log.read_text().split("\n")
    trusted = re.findall(r"^trusted: .*", check(whole, part, log)[1], re.MULTILINE)
    choose = random.Random(f"{seed()} {case}")
    rejected = 0
    for _ in range(8):
        other, at, place = change(lines, choose)
        changed.write_text("\n".join(other))
        status, said = check(whole, part, changed)
        rejected += status == REJECTED
        last = at + 1 if len(other) > len(lines) else at
        is_harmless = is_size(lines[at], place) or last in unnamed(other)
        assert status == REJECTED or is_harmless or trusted, (lines[at], other[at])
    assert rejected > 0
