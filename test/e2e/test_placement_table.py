"""Models on meshes by plans: each agrees with one rank, or is refused with the reason.

In two days every mesh stands in at least one case; with which model depends on the day's seed;
`./dev test --all` runs all pairs. docs/placement-table.md is the table of them all.
"""

import random

import placement_cases as cases
import pytest
from combinations_cover import part_of_today, run_all, seed
from placement_table import Runner, page


def pairs():
    if run_all():
        return [(model, mesh) for model in cases.MODELS for mesh in cases.MESHES]
    # MiniLM and ResNet-18 take half a minute a mesh.
    models = [model for model in cases.MODELS if model not in ("minilm", "resnet18")]
    meshes = list(cases.MESHES)
    random.Random(seed()).shuffle(models)
    return [(models[i % len(models)], mesh) for i, mesh in enumerate(part_of_today(meshes))]


@pytest.fixture(scope="module")
def runner(build_dir, tmp_path_factory):
    return Runner(build_dir, tmp_path_factory.mktemp("table"))


def check(outcome):
    wanted = cases.refusal(outcome.model, outcome.mesh)
    if wanted:
        assert outcome.stage == "compile" and wanted in outcome.error, outcome
    else:
        assert outcome.agrees, outcome


@pytest.mark.parametrize("model, mesh", pairs())
def test_agrees_with_one_rank(runner, model, mesh):
    check(runner.run(model, mesh))


def test_page_has_results_and_refusals(runner):
    outcomes = [runner.run("gpt_philox", mesh) for mesh in ("dp2 x tp2", "ep2")]
    for outcome in outcomes:
        check(outcome)
    text = page(outcomes, runner.steps)
    assert "1 of 2 pairs agree; 1 are refused" in text
    row = next(line for line in text.splitlines() if line.startswith("| dp2 x tp2 |"))
    assert "**" not in row and " AR" in row
    assert "| ep2 | gpt_philox | " in text and "matches no module with stacked experts" in text


@pytest.mark.parametrize("mesh", ["tp4", "fsdp2"])
def test_philox_trains_alike_on_every_mesh(runner, mesh):
    """The masks are the same numbers: only sums are rounded otherwise."""
    check(runner.run("gpt_philox", mesh))
    program, *_ = runner.reference("gpt_philox", cases.BATCH)
    local = program.with_name(f"{mesh}.mlir").read_text()
    drawn = [line for line in local.splitlines() if "aten.rng_native_dropout" in line]
    assert drawn and all('generator = #aten.generator<philox>' in line for line in drawn)
    if mesh == "fsdp2":
        assert all("tensor<2x" in line.split("->")[1] for line in drawn), "each rank draws its half"
