"""Functions for classes of ranks are one program, in cleave-opt as in cleave-run.

Exported models that 3 ranks do not divide evenly are accepted in every form; with one op changed in
one class they are refused before anything runs.
"""

import re
import subprocess

import pytest
from cleave import FSDP, ColwiseParallel, Plan, RowwiseParallel

PLANS = {
    "tp": Plan({"tp": 3}, {"h.*.mlp.c_fc": ColwiseParallel(), "h.*.mlp.c_proj": RowwiseParallel()}),
    "fsdp": Plan({"dp": 3}, {"": FSDP("dp")}),
}
FORMS = {
    "partitioned": [],
    "folded": ["--canonicalize", "--cse"],
    "fused": ["--fuse-kernels"],
    "lowered": ["--simplify-communication", "--fuse-kernels", "--lower-to-exec"],
}


@pytest.fixture(scope="module")
def local(model, build_dir, tmp_path_factory):
    """An exported model, laid out over 3 ranks by a plan."""
    cache = {}

    def get(plan):
        if plan not in cache:
            folder = tmp_path_factory.mktemp(plan)
            PLANS[plan].write(folder / "plan.json")
            out = folder / "local.mlir"
            subprocess.run(
                [build_dir / "bin" / "cleave-opt", model("gpt_untied").program,
                 f"--annotate-placements=plan={folder}/plan.json uneven=true",
                 "--propagate-placements=uneven=true", "--partition=uneven=true", "-o", out],
                check=True, timeout=120,
            )  # fmt: skip
            assert "train.ranks" in out.read_text()
            cache[plan] = out
        return cache[plan]

    return get


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("plan", PLANS)
def test_what_partition_makes_is_accepted(plan, form, local, build_dir, cleave_run, tmp_path):
    out = tmp_path / "form.mlir"
    subprocess.run(
        [build_dir / "bin" / "cleave-opt", local(plan), *FORMS[form], "--check-spmd-types", "-o", out],
        check=True, timeout=120,
    )  # fmt: skip
    cleave_run.succeed(out, "--ranks", 3, "--dry-run")


def change(text, pattern, to):
    """Changes the last place that a pattern matches in the last class's microbatch."""
    start = text.rindex("func.func @microbatch_1")
    end = text.index("func.func", start + 1)
    place = list(re.finditer(pattern, text[start:end]))[-1]
    return text[: start + place.start()] + place.expand(to) + text[start + place.end() :]


CHANGES = {
    "another constant": (r"(= aten\.mul_scalar\(.*?other = )[^,)]*", r"\g<1>7.5", "has other = 7.5"),
    "another op": (r"= aten\.mul\(", "= aten.div(", "stands where other ranks run 'aten.mul'"),
}


@pytest.mark.parametrize("name", CHANGES)
@pytest.mark.parametrize("plan", PLANS)
def test_one_class_that_computes_something_else_is_refused(
    plan, name, local, build_dir, cleave_run, tmp_path
):
    pattern, to, message = CHANGES[name]
    wrong = tmp_path / "wrong.mlir"
    wrong.write_text(change(local(plan).read_text(), pattern, to))
    checked = subprocess.run(
        [build_dir / "bin" / "cleave-opt", wrong, "--check-spmd-types", "-o", "/dev/null"],
        capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert checked.returncode == 1 and message in checked.stderr, checked.stderr[:2000]
    assert message in cleave_run.fail(wrong, "--ranks", 3, "--dry-run")
