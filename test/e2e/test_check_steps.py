"""`cleave-check-proof` replays what the documents' pipelines leave: buckets, stages by their schedule, sums over stages, norms and
shards of ranks with microbatches of their own. With one wrong step in the program, or a changed line of the log, it is no proof."""

import random
import re

import documented_proofs
import placement_cases as cases
import pytest
from combinations_cover import seed
from documented_proofs import MODEL, RECIPES
from test_check_proof import CHECKED, REJECTED, TRUSTING, change, check, is_size, proved, unnamed  # noqa: F401
from test_prove_batches import BUCKETS, CLIP, SCALE, STAGES, SYNC, ZERO_BUBBLE, replaced
from test_prove_runs import opt  # noqa: F401
from zero_programs import Zero


@pytest.fixture(scope="module")
def forward_only(tmp_path_factory):
    return documented_proofs.export_forward(tmp_path_factory.mktemp("forward"))


@pytest.mark.parametrize("where", RECIPES)
def test_documented_pipelines(build_dir, model, forward_only, proved, check, tmp_path, where):  # noqa: F811
    """All but blocks that go round a ring."""
    program = forward_only if documented_proofs.starts_forward(where) else model(MODEL).program
    whole, part = documented_proofs.make_programs(build_dir, where, program, tmp_path)
    log = tmp_path / "proof"
    assert proved(whole, part, log)
    status, said = check(whole, part, log)
    if "dist.shift" in part.read_text():
        assert status == REJECTED and "step 'attention'" in said, said
        return
    assert status == CHECKED and int(re.match(r"checked: (\d+)", said)[1]) > 80, said


PASSES = {
    "buckets": (SYNC, BUCKETS), "scaled": (SYNC, BUCKETS, SCALE, CLIP), "stages": (SYNC, *STAGES), "zbv": ZERO_BUBBLE,
    "shards": ("fsdp2", "--partition-joint", "--split-fsdp-collectives", BUCKETS, CLIP), "zero": (f"{SYNC} size=2",),
}  # fmt: skip


@pytest.fixture(scope="module")
def programs(opt, model, proved, tmp_path_factory):  # noqa: F811
    """A program for one device, what ranks run of it, and the proof, made once."""
    made = {}

    def get(name):
        if name not in made:
            folder = tmp_path_factory.mktemp(name)
            whole, passes = model("gpt_untied").program, PASSES[name]
            part, log = folder / "part.mlir", folder / "proof"
            if name == "shards":
                plan = cases.plan("gpt_untied", passes[0]).write(folder / "plan.json")
                passes = (f"--annotate-placements=plan={plan}", "--propagate-placements", "--partition", *passes[1:])
            opt(whole, part, *passes)
            if changes := [each for each in passes if each in (CLIP, SCALE)]:
                whole = opt(whole, folder / "whole.mlir", *changes)
            if name == "zero":
                part.write_text(Zero(part.read_text(), 2, 3).text())
            assert proved(whole, part, log)
            made[name] = whole, part, log
        return made[name]

    return get


@pytest.mark.parametrize("name", PASSES)
def test_steps(programs, check, name):  # noqa: F811
    status, said = check(*programs(name))
    assert status == CHECKED, said


@pytest.mark.parametrize("name", ["llama", "minilm"])
def test_models(opt, model, proved, check, tmp_path, name):  # noqa: F811
    """Also norms along dimensions, as of embeddings."""
    whole = opt(model(name).program, tmp_path / "whole.mlir", CLIP)
    part, log = opt(model(name).program, tmp_path / "part.mlir", SYNC, BUCKETS, CLIP), tmp_path / "proof"
    assert proved(whole, part, log)
    status, said = check(whole, part, log)
    assert status == CHECKED, said


CONTRIBUTED = r"(%\S+) = train\.contribute (%\S+) (to .*? : )(tensor<[^>]*>)(.*)"
ERRORS = {
    "contributed twice": (("buckets", "zbv", "shards"), CONTRIBUTED, r"%twice = aten.add(\2, \2) : (\4, \4) -> \4\n    \1 = train.contribute %twice \3\4\5"),
    "not reduced": (("buckets", "scaled"), r"(train\.bucket @.*) over @mesh \[\"dp\"\]", r"\1"),
    "another order": (("buckets",), r"(train\.bucket .*)\"(\S+)\" : (tensor<\S+>), \"(\S+)\" : (?=\3)", r'\1"\4" : \3, "\2" : '),
    "reduced again": (
        ("buckets", "scaled"), r"( *)(%\S+) = (train\.wait_bucket .* -> (tensor<[^,\n]*>))(?=\n)",
        r'\1%once = \3\n\1\2 = dist.all_reduce sum(%once) over @mesh ["dp"] : \4',
    ),
    "another microbatch": (("stages", "zbv"), r"\bF1\.1 ((?:\S+\s+)*?)F1\.2\b", r"F1.2 \1F1.1"),
    "no step": (("stages",), r"\bstep1\b", ""),
    "summed too late": (("zbv",), r"collective \"stage_sum\.gradient_norm_squared\"\[0 1\] (step0 step3|step0|step3)", r'\1 collective "stage_sum.gradient_norm_squared"[0 1]'),
    "another norm": (("zbv", "scaled", "shards"), r"aten\.linalg_vector_norm\((%\S+), ord = 2\.0+e\+00", r"aten.linalg_vector_norm(\1, ord = 1.000000e+00"),
    "not a term": (("zbv",), r"(%\S+) = aten\.mul\((%\S+), \2\) : \(tensor<f32>, tensor<f32>\) -> tensor<f32>(?=\n    return)", r"\1 = aten.add(\2, \2) : (tensor<f32>, tensor<f32>) -> tensor<f32>"),
    "averaged": (("zero",), r"dist\.reduce_scatter sum", "dist.reduce_scatter avg"),
    "of the step before": (("zero",), r"(train\.adamw\()(%\S+), (%\S+), (%\S+), (%\S+),", r"\1\2, \3, \5, \4,"),
    "another axis": (("shards",), r"\"dp\" = 2\]", '"dp" = 2, "tp" = 2]'),
}  # fmt: skip


@pytest.mark.parametrize("error, name", [(error, name) for error in ERRORS for name in ERRORS[error][0]])
def test_a_wrong_step_is_rejected(programs, check, tmp_path, error, name):  # noqa: F811
    whole, part, log = programs(name)
    wrong = tmp_path / "wrong.mlir"
    wrong.write_text(replaced(ERRORS[error][1], ERRORS[error][2])(re.sub(r"\n      (?=\S*[FIW]\d|send|recv)", " ", part.read_text())))
    status, said = check(whole, wrong, log)
    assert status == REJECTED and re.fullmatch(r"rejected: .*\n(  .*\n)*", said), said


@pytest.mark.parametrize("name", PASSES)
def test_a_changed_line_is_rejected(programs, check, tmp_path, name):  # noqa: F811
    """But for sizes that only choose between names, and terms that nothing names."""
    whole, part, log = programs(name)
    changed = tmp_path / "changed"
    lines = log.read_text().split("\n")
    choose = random.Random(f"{seed()} {name}")
    rejected = 0
    for _ in range(12):
        other, at, place = change(lines, choose)
        changed.write_text("\n".join(other))
        status, said = check(whole, part, changed)
        rejected += status == REJECTED
        if status == CHECKED:
            last = at + 1 if len(other) > len(lines) else at
            assert is_size(lines[at], place) or last in unnamed(other), (lines[at], other[at])
    assert rejected > 0
