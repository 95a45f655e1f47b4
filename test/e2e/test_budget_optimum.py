"""--partition-joint=policy=budget beside optima that a MIP solver proved: bench/budget_mip.py found and stored them.

Where HiGHS is installed, new graphs are drawn and judged too.
"""

import json
import pathlib
import random
import sys

import cleave_path
import cleave_run  # noqa: F401
import pytest

sys.path.append(str(cleave_path.SOURCE / "bench"))
import combinations_cover  # noqa: E402
from budget_graphs import Walk, partition, random_program  # noqa: E402
from budget_models import MODELS  # noqa: E402

from cleave.export import export_spec  # noqa: E402

STORED = json.loads((pathlib.Path(__file__).parent / "budget_optima.json").read_text())
# How much more time than the optimum a choice may take, and how much more memory than the least the least found.
MOST_TIME, MOST_MEMORY = 1.1, 1.02


def write_program(name, folder):
    if name in MODELS:
        return pathlib.Path(export_spec(MODELS[name](), folder))
    program = folder / "graph.mlir"
    program.write_text(random_program(random.Random(name), int(name.split(".")[0])))
    return program


@pytest.fixture
def opt(build_dir):
    return build_dir / "bin" / "cleave-opt"


@pytest.mark.parametrize("name", combinations_cover.part_of_today(list(STORED)))
def test_choices_are_near_the_optimum(name, opt, cleave_run, tmp_path):
    program, stored = write_program(name, tmp_path), STORED[name]
    parted = tmp_path / "parted.mlir"
    for point in stored["points"]:
        if point["least"] is None:
            continue
        graph, chosen = partition(opt, program, point["budget"], tmp_path, result=parted)
        optimum = Walk(graph, point["kept"])
        assert optimum.time == point["least"] and graph.step_peak(optimum.peak) <= point["budget"], \
            "the graph is not the one that was judged: run bench/budget_mip.py --store"
        walk = Walk(graph, graph.saved)
        assert chosen["recompute_bytes"] == walk.time
        assert chosen["step_peak_bytes"] == graph.step_peak(walk.peak) == cleave_run.plan(parted)[0][0] <= point["budget"]
        assert point["least"] <= walk.time <= MOST_TIME * point["least"], f"at {point['budget']} bytes"
    if stored["least"] is not None:
        low = chosen["frontier"][0]["step_peak_bytes"]
        if stored["kept"] is not None:
            assert graph.step_peak(Walk(graph, stored["kept"]).peak) == stored["least"]
        assert stored["least"] <= low <= MOST_MEMORY * stored["least"]


def test_the_walk_refuses_what_is_no_partition_of_the_budget(opt, tmp_path):
    """Saving more than was chosen needs more: the walk that judges sees it."""
    graph, chosen = partition(opt, write_program("perceptron", tmp_path), STORED["perceptron"]["low"], tmp_path)
    everything = Walk(graph, graph.choices)
    assert everything.time == 0 and graph.step_peak(everything.peak) > chosen["budget_bytes"]


def test_choices_on_new_graphs(opt, tmp_path):
    pytest.importorskip("highspy")
    from budget_mip import judge

    seed = combinations_cover.seed()
    for number in range(3):
        name = f"{25 + 5 * number}.{seed}"
        print(f"graph {name}")
        case = judge(opt, write_program(name, tmp_path), tmp_path, 60)
        for point in case["points"]:
            assert point["least"] is None or point["chosen"] <= 1.25 * point["least"], f"graph {name}: {point}"
