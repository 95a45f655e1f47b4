"""Context parallelism beside data parallelism: the rows of linear layers keep the shardings of both, batch and
sequence, so that ranks exchange keys and values and gather nothing. In float64, against one rank."""

import collections
import re

import float64
import matrix_models
import pytest
from cleave import FSDP, ContextParallel, DataParallel, Plan
from matrix_runs import TOLERANCE, Tools, difference, on_ranks
from safetensors.torch import save_file

COLLECTIVES = re.compile(r"= dist\.(all_gather|reduce_scatter|all_to_all|shift)\b")
# Keys and values of two layers, in the forward, and with their gradients, which go a whole round, in the backward.
RING = 2 * (2 + 2 + 4)

CASES = {
    # model, examples in a microbatch, passes before the layout, what shards the batch
    "one_example_a_rank": ("llama", 2, [], DataParallel("dp")),
    "examples_in_shards": ("llama", 4, ["--sequence-major=batch-shards=2"], DataParallel("dp")),
    "learned_positions": ("gpt_untied", 4, ["--sequence-major=batch-shards=2"], DataParallel("dp")),
    "fully_sharded": ("gpt_untied", 2, [], FSDP("dp")),
    "fully_sharded_over_both": ("gpt_untied", 2, [], FSDP("dp")),
}
# Gathered once a step, gradients scattered once, in buckets.
ONCE_A_STEP = ["--partition-joint", "--split-fsdp-collectives", "--bucket-gradients"]


@pytest.mark.parametrize("name", CASES)
def test_no_activation_is_gathered(name, build_dir, tmp_path):
    model, batch, passes, style = CASES[name]
    tools = Tools(build_dir)
    spec = matrix_models.spec(model, batch)
    source = float64.export(spec, tmp_path)
    data = tmp_path / "data.safetensors"
    save_file(matrix_models.batches(spec, 2, 2), data)
    context = ContextParallel("cp", shard_parameters=name == "fully_sharded_over_both")
    plan = Plan({"dp": 2, "cp": 2}, [("", style), ("", context)]).write(tmp_path / "plan.json")
    local = tools.opt(
        source, tmp_path / "local.mlir",
        [*passes, f"--annotate-placements=plan={plan}", "--propagate-placements", "--partition", "--check-spmd-types"],
    )  # fmt: skip
    text = local.read_text()
    found = collections.Counter(COLLECTIVES.findall(text))
    if isinstance(style, FSDP):
        # Weights are gathered, as ever: rows of activations are not.
        weights = {name for name, role in re.findall(r"(%\w+): [^%]*?#train.role<(\w+)", text) if role == "parameter"}
        gathered = re.findall(r"dist\.all_gather\((%\w+)\)", text)
        assert gathered and set(gathered) <= weights
        found = collections.Counter({"shift": found["shift"]})
    if context.shard_parameters:
        # Each over all ranks at once, dp the major axis, and none held by more than a quarter.
        over = set(re.findall(r'dist\.(?:all_gather|reduce_scatter)\(.*?over @mesh (\[.*?\])', text))
        assert over == {'["dp", "cp"]'}
        assert not re.search(r'#train.role<(?:parameter|accumulator) "h\.0\.mlp\.c_fc\.weight">.*tensor<128x', text)
        again = tools.opt(local, tmp_path / "buckets.mlir", ONCE_A_STEP)
        assert 'scatter ["dp", "cp"]' in again.read_text()
        local = again
    assert found == {"shift": RING}

    losses, expected = tools.train(source, data, "--microbatches", 2)
    found_losses, tensors = tools.train(local, data, "--microbatches", 2, *on_ranks(4))
    assert found_losses == pytest.approx(losses, rel=TOLERANCE)
    worst, name = difference(tensors, expected)
    assert worst <= TOLERANCE, (name, worst)
