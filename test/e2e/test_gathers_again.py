"""What the forward gathers for its products is saved as the rank's shard where memory asks for it, and gathered again
by the backward. In float64, against one rank; with pipeline stages and without."""

import json
import math
import re

import float64
import matrix_models
import placement_cases
import pytest
from matrix_runs import TOLERANCE, ToolFailed, Tools, difference, on_ranks
from safetensors.torch import save_file

RECOMPUTED = re.compile(r"= dist\.all_gather.*train\.recomputed")
SCHEDULE = ["--build-schedule=schedule=1f1b ranks=2 microbatches=2", "--insert-p2p", "--verify-schedule"]


def saved_bytes(text):
    """Of the values of role saved that functions take."""
    sizes = {"f64": 8, "f32": 4, "i64": 8, "i1": 1}
    total = 0
    for shape in re.findall(r"%\w+: tensor<(\w+), #\w+> \{train\.role = #train\.role<saved", text):
        *dims, element = shape.split("x")
        total += sizes[element] * math.prod(map(int, dims))
    return total


@pytest.fixture
def exported(tmp_path):
    """A Llama, data for two steps of two microbatches, and the passes that lay it out."""
    spec = matrix_models.spec("llama", 2)
    source = float64.export(spec, tmp_path)
    data = tmp_path / "data.safetensors"
    save_file(matrix_models.batches(spec, 2, 2), data)
    plan = placement_cases.plan("llama", "tp2, sequence").write(tmp_path / "plan.json")
    return source, data, [f"--annotate-placements=plan={plan}", "--propagate-placements", "--partition"]


def check_training(tools, source, local, data, ranks):
    losses, expected = tools.train(source, data, "--microbatches", 2)
    found_losses, tensors = tools.train(local, data, "--microbatches", 2, *on_ranks(ranks))
    assert found_losses == pytest.approx(losses, rel=TOLERANCE)
    worst, name = difference(tensors, expected)
    assert worst <= TOLERANCE, (name, worst)


@pytest.mark.parametrize("staged", [False, True], ids=["joint", "stages"])
def test_activations_gathered_again(staged, exported, build_dir, tmp_path):
    tools = Tools(build_dir)
    source, data, place = exported
    texts = {}
    for level in ("cheap", "gathers"):
        split = "--outline-stages=count=2 balance=cost" if staged else "--partition-joint="
        split = f"{split} recompute={level}".replace("= ", "=")
        local = tools.opt(source, tmp_path / f"{level}.mlir", [*place, split, *(SCHEDULE if staged else [])])
        texts[level] = local.read_text()
    assert not RECOMPUTED.search(texts["cheap"])
    # Queries, keys and values take one gathered value, and so do both products of the feed-forward part: of two
    # layers, and one for the head.
    assert len(RECOMPUTED.findall(texts["gathers"])) == 5
    assert saved_bytes(texts["gathers"]) < saved_bytes(texts["cheap"])

    check_training(tools, source, local, data, 4 if staged else 2)


def test_a_budget_gathers_again(exported, build_dir, tmp_path):
    """Where little memory is left, shards are saved, and what else is recomputed shows no difference."""
    tools = Tools(build_dir)
    source, data, place = exported
    report = tmp_path / "report.json"

    def partition(memory):
        budget = f"--partition-joint=policy=budget memory={memory} microbatches=2 json={report}"
        local = tools.opt(source, tmp_path / f"{memory}.mlir", [*place, budget])
        return local, json.loads(report.read_text())["budget"]

    most, chosen = partition("1GiB")
    assert not RECOMPUTED.search(most.read_text())
    least, chosen = partition(chosen["frontier"][0]["step_peak_bytes"])
    assert chosen["recompute_bytes"] > 0
    assert RECOMPUTED.search(least.read_text())
    assert saved_bytes(least.read_text()) < saved_bytes(most.read_text())
    check_training(tools, source, least, data, 2)


def test_a_budget_of_a_pipelines_ranks_gathers_again(exported, build_dir, tmp_path):
    tools = Tools(build_dir)
    source, data, place = exported

    def stage(memory):
        outline = f"--outline-stages=count=2 balance=cost policy=budget memory={memory} ranks=2 microbatches=2"
        return tools.opt(source, tmp_path / f"{memory}.mlir", [*place, outline, *SCHEDULE])

    assert not RECOMPUTED.search(stage("1GiB").read_text())
    memory, least = 1, None
    while least is None:
        try:
            least = stage(memory)
        except ToolFailed as failed:
            memory = int(re.search(r"needs .* \((\d+) bytes\)", str(failed))[1])
    assert RECOMPUTED.search(least.read_text())
    check_training(tools, source, least, data, 4)
