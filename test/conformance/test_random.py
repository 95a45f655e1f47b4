"""Random typed programs have the gradients of their denotation; their mutations are refused or stay right.

The seed is CLEAVE_TEST_SEED, printed at the start, and with CLEAVE_TEST_ALL=1 there are twice as many. campaign.py runs any number.
"""

import combinations_cover
import pytest

from conformance.campaign import PASSES, run_mutants, run_programs
from conformance.generate import MESHES
from conformance.tools import Tools

MESH_NAMES = ["x".join(str(size) for _, size in mesh.axes) for mesh in MESHES]
PROGRAMS = 250 if combinations_cover.run_all() else 125


@pytest.fixture
def tools(build_dir, tmp_path):
    return Tools(build_dir, tmp_path)


@pytest.mark.parametrize("mesh", MESHES, ids=MESH_NAMES)
def test_programs_that_type_check_have_the_gradients_of_their_denotation(tools, mesh):
    run_programs(tools, mesh, PROGRAMS, combinations_cover.seed())


@pytest.mark.parametrize("mesh", MESHES[1::2], ids=MESH_NAMES[1::2])
def test_mutations_are_refused_or_stay_right(tools, mesh):
    counts = run_mutants(tools, mesh, 60, combinations_cover.seed())
    for kind in ("drop", "type", "reduction"):
        assert counts[kind, "refused"] > 10, counts
    assert sum(counts.values()) > 200, counts


@pytest.mark.parametrize("mesh", [MESHES[0], MESHES[3]], ids=[MESH_NAMES[0], MESH_NAMES[3]])
@pytest.mark.parametrize("when", ["before", "after"])
def test_communication_passes_keep_the_meaning(tools, mesh, when):
    """Simplified before they are differentiated; and after, with communication that waits late."""
    before = ("--simplify-communication", *PASSES)
    after = (
        *PASSES,
        "--simplify-communication",
        "--canonicalize",
        "--cse",
        "--overlap-communication",
    )
    passes = (*(before if when == "before" else after), "--check-spmd-types")
    run_programs(tools, mesh, 50, combinations_cover.seed() + 1, passes=passes)
