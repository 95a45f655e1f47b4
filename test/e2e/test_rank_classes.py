"""Functions for classes of ranks are one program, in cleave-opt as in cleave-run.

Exported models that 3 ranks do not divide evenly are accepted in every form. What is refused:
test/passes/placement/check-rank-classes-invalid.mlir.
"""

import subprocess

import pytest
from cleave import ColwiseParallel, Plan, RowwiseParallel

PLANS = {
    "tp": Plan({"tp": 3}, {"h.*.mlp.c_fc": ColwiseParallel(), "h.*.mlp.c_proj": RowwiseParallel()}),
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
