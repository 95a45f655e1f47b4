"""cleave-plan on mixtures of experts: torchtitan's DeepSeek-V3, narrow, with three dense layers and more with experts; and
Mixtral and Qwen3 of Transformers, whose experts are modules of their own.

What it finds with experts over `ep` computes what one rank computes and takes the time that it predicts; stages of
layers of several kinds follow from those with few layers; no plan is below its bound."""

import functools
import json
import math
import re
import shlex
import subprocess

import cleave
import float64
import hugging_face
import pytest
import torch
import torchtitan_models
from combinations_cover import part_of_today
from matrix_runs import STEPS, Tools, difference, on_ranks

BATCH, MICROBATCHES, TOLERANCE = 8, 4, 1e-9
CLUSTER = "A100"


def make_spec(name, batch):
    if name == "gpt_oss":
        return float64.doubled(hugging_face.make("openai/gpt-oss-20b"))
    if name not in ("mixtral", "qwen3"):
        return torchtitan_models.make(name, torch.float64, batch=batch)
    import transformers

    torch.manual_seed(0)
    if name == "mixtral":
        config = hugging_face.narrow(transformers.MixtralConfig, num_local_experts=4, num_experts_per_tok=2, num_hidden_layers=4)
        model = transformers.MixtralForCausalLM(config)
    else:
        config = hugging_face.narrow(
            transformers.Qwen3MoeConfig, num_experts=4, num_experts_per_tok=2, moe_intermediate_size=16, head_dim=8,
            decoder_sparse_step=1, mlp_only_layers=[], num_hidden_layers=4)  # fmt: skip
        model = transformers.Qwen3MoeForCausalLM(config)
    config.use_cache = False
    inputs = {n: tensor.repeat(batch // 2, 1) for n, tensor in hugging_face.words(config).items()}
    optimizer = torch.optim.AdamW(model.parameters())
    return float64.doubled(cleave.ExportSpec(model.train(), (), inputs, optimizer=optimizer, name=name))


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    """A model's program and the data of all steps."""
    return float64.exporter_with_data(make_spec, STEPS * MICROBATCHES, tmp_path_factory)


@pytest.fixture(scope="module")
def tool(build_dir):
    def run(program, ranks, *options):
        command = [build_dir / "bin" / "cleave-plan", program, f"--cluster={CLUSTER}", f"--ranks={ranks}",
                   f"--microbatches={MICROBATCHES}", *options]  # fmt: skip
        return subprocess.run([str(part) for part in command], capture_output=True, text=True, timeout=600)

    return run


@pytest.fixture(scope="module")
def find(tool):
    def run(program, ranks, *options):
        done = tool(program, ranks, "--json", "--time-limit=500", *options)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    return run


@pytest.fixture(scope="module")
def one_rank(exported, build_dir):
    @functools.cache
    def get(name):
        program, data = exported(name, BATCH)
        return Tools(build_dir).train(program, data, "--microbatches", MICROBATCHES)

    return get


# The path of experts in a layer, by model.
EXPERTS = {
    "deepseek_v3_deep": "layers.*.moe.experts",
    "mixtral": "model.layers.*.block_sparse_moe.experts",
    "qwen3": "model.layers.*.mlp.experts",
}
# Model, ranks, what is fixed, and the capacity. With one of 2, two ranks have room for all rows, with one of 4 four do.
CASES = part_of_today([
    ("deepseek_v3_deep", 2, "ep=2", 2),
    ("deepseek_v3_deep", 4, "dp=2,ep=2,parameters=zero1", 2),
    ("deepseek_v3_deep", 4, "dp=2,ep=2,parameters=fsdp-once", 2),
    ("deepseek_v3_deep", 4, "ep=2,pp=2,parameters=fsdp,schedule=1f1b", None),
    ("deepseek_v3_deep", 4, "ep=4,parameters=zero1", None),
    ("deepseek_v3_deep", 4, "ep=2,pp=2,schedule=zb-h1", 2),
    ("mixtral", 2, "ep=2", 2),
    ("mixtral", 4, "dp=2,ep=2,parameters=fsdp", 2),
    ("mixtral", 4, "ep=4,parameters=zero1", 4),
    ("qwen3", 4, "dp=2,ep=2,parameters=zero1", 2),
    ("qwen3", 4, "ep=2,pp=2,schedule=interleaved-1f1b", 2),
    ("qwen3", 4, "dp=2,ep=2,parameters=fsdp-once", 2),
    # Divided within, too, beside latents of attention and without.
    ("deepseek_v3_deep", 4, "ep=2,tp=2,sequence=no", 2),
    ("deepseek_v3_deep", 4, "ep=2,tp=2,sequence=yes", 2),
    ("mixtral", 4, "ep=2,tp=2,sequence=yes", 2),
    ("qwen3", 8, "dp=2,ep=2,tp=2,parameters=zero1", 2),
])  # fmt: skip

# The whole of it along `tp`: what says where tokens go, and latents, are whole.
WITHIN = {
    "deepseek_v3_deep": {
        "tok_embeddings": "rowwise", "layers.*.attention.wq_b": "colwise", "layers.*.attention.wkv_b": "colwise",
        "layers.*.attention.wo": "rowwise", "layers.*.moe.experts.w1": {"tp": "S(1)"}, "layers.*.moe.experts.w3": {"tp": "S(1)"},
        "layers.*.moe.experts.w2": {"tp": "S(2)"}, "output": "colwise",
        **{f"layers.*.{module}.{name}": style for module in ("feed_forward", "moe.shared_experts")
           for name, style in (("w1", "colwise"), ("w3", "colwise"), ("w2", "rowwise"))},
    },
    "mixtral": {
        "model.embed_tokens": "rowwise", "lm_head": "colwise", "model.layers.*.self_attn.o_proj": "rowwise",
        **{f"model.layers.*.self_attn.{name}_proj": "colwise" for name in "qkv"},
        **{f"model.layers.*.block_sparse_moe.experts.*.{name}": style
           for name, style in (("w1", "colwise"), ("w3", "colwise"), ("w2", "rowwise"))},
    },
}  # fmt: skip


@pytest.mark.parametrize("model", WITHIN)
def test_experts_are_divided_within(exported, find, tmp_path, model):
    program, _ = exported(model, BATCH)
    find(program, 2, "--fix=tp=2,sequence=no", "-o", tmp_path)
    rules = json.loads((tmp_path / "placements.json").read_text())["rules"]
    assert {rule.get("modules") or rule["parameters"]: rule.get("style") or rule["placement"] for rule in rules} == WITHIN[model]


def test_experts_with_a_bias_and_shards_of_the_sequence(exported, tool):
    """Rows that ranks exchange along one axis are whole along the others."""
    program, _ = exported("gpt_oss", BATCH)
    done = tool(program, 4, "--fix=ep=2,tp=2,sequence=yes", "--expert-capacity=2", "--exhaustive")
    assert done.returncode == 0 and "best of 4 ranks" in done.stdout, done.stderr


def test_the_bound_holds_where_rows_have_their_scores(exported, find):
    """Replicas exchange them in another way than one group of ranks does."""
    program, _ = exported("llama4", BATCH)
    find(program, 4, "--fix=dp=2,ep=2", "--expert-capacity=2", "--exhaustive")



@pytest.mark.parametrize("model,ranks,fixed,capacity", CASES, ids=[f"{model}-{ranks}-{fixed}" for model, ranks, fixed, _ in CASES])
def test_plans_are_carried_out(exported, find, one_rank, build_dir, tmp_path, model, ranks, fixed, capacity):
    program, data = exported(model, BATCH)
    options = [f"--expert-capacity={capacity}"] if capacity else []
    found = find(program, ranks, f"--fix={fixed}", "-o", tmp_path, *options)
    assert found["complete"] and found["gap"] == 0
    plan = found["best"]["plan"]
    assert math.prod(int(plan[axis]) for axis in ("dp", "ep", "tp", "pp", "cp")) == ranks
    rules = json.loads((tmp_path / "placements.json").read_text())["rules"]
    (experts,) = [rule for rule in rules if rule.get("style") == "expert"]
    assert experts["modules"] == EXPERTS[model] and experts.get("capacity") == capacity

    optimize, simulate = found["commands"]
    for command in (optimize, f"{simulate} --json"):
        name, *arguments = shlex.split(command)
        done = subprocess.run([build_dir / "bin" / name, *arguments], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
    step = json.loads(done.stdout)["step"]
    assert step["seconds"] == pytest.approx(found["best"]["seconds"], rel=1e-9)
    peaks = [place["peak"] for place in found["best"]["memory"]]
    assert [place["peak"] for place in step["memory"]] == pytest.approx(peaks, rel=1e-9)

    local = tmp_path / "program.mlir"
    local.with_suffix(".safetensors").symlink_to(program.with_suffix(".safetensors"))
    # Each rank has the products of its own experts alone.
    products = [line for line in local.read_text().splitlines() if "aten._grouped_mm" in line]
    count = 8 if model == "deepseek_v3_deep" else 4
    # Of three dimensions those of gradients are results.
    stacks = [sizes for line in products for sizes in re.findall(r"tensor<(\d+)x\d+x\d+x", line)]
    assert stacks and {int(size) for size in stacks} == {count // int(plan["ep"])}
    options = [] if int(plan["pp"]) > 1 else ["--microbatches", MICROBATCHES]
    losses, tensors = Tools(build_dir).train(local, data, *options, *on_ranks(ranks))
    expected_losses, expected = one_rank(model)
    assert losses == pytest.approx(expected_losses, rel=TOLERANCE)
    distance, name = difference(tensors, expected)
    assert distance <= TOLERANCE, name


def test_layers_of_several_kinds(exported, tool):
    """Of equal stages one is carried out; with all of their layers random plans take and need the same, and stages of dense
    layers, of those with experts and of both take what follows from those with few layers."""
    program, _ = exported("deepseek_v3_deep", BATCH)
    usual = ("--time-limit=100", "--confirm", "--seed=3", "--expert-capacity=1.5")
    cases = [(4, "pp=4", 6), (8, "pp=4,ep=2", 6), (8, "pp=4,dp=2", 4), (4, "pp=2,ep=2", 6), (2, "pp=1,ep=2", 4),
             (8, "pp=2,dp=4,parameters=fsdp", 8)]  # fmt: skip
    for ranks, fixed, count in part_of_today(cases):
        done = tool(program, ranks, *usual, f"--fix={fixed}", f"--sample={count}")
        assert done.returncode == 0, done.stderr
        assert f"sample: {count} random plans take at least " in done.stderr


@pytest.mark.parametrize("model,ranks,capacity", part_of_today([
    ("deepseek_v3_deep", 2, 1.25), ("deepseek_v3_deep", 4, 1.5), ("mixtral", 4, 1.5), ("deepseek_v3_deep", 4, None),
    ("deepseek_v3_deep", 2, None), ("qwen3", 4, 2)]))  # fmt: skip
def test_search_equals_brute_force(exported, find, model, ranks, capacity):
    program, _ = exported(model, BATCH)
    options = [f"--expert-capacity={capacity}"] if capacity else []
    found, brute = find(program, ranks, *options), find(program, ranks, "--exhaustive", *options)
    assert found["best"]["seconds"] == found["lower_bound"] == brute["best"]["seconds"]
    assert brute["closed"] == 0


@pytest.mark.parametrize("model,ranks,capacity", part_of_today([
    ("deepseek_v3_deep", 8, 1.5), ("mixtral", 4, 2), ("deepseek_v3_deep", 4, None), ("qwen3", 8, 1.25)]))  # fmt: skip
def test_no_random_plan_is_below_the_bound(exported, tool, model, ranks, capacity):
    program, _ = exported(model, BATCH)
    options = [f"--expert-capacity={capacity}"] if capacity else []
    for limit in ("500", "0.6"):
        done = tool(program, ranks, "--sample=100", f"--time-limit={limit}", "--seed=7", *options)
        if limit == "0.6" and "no plan was simulated within the time limit" in done.stderr:
            continue
        assert done.returncode == 0, done.stderr
        assert "100 random plans take at least " in done.stderr
        assert float(done.stderr.split("at least ")[1].split()[0]) >= 1


def test_misuse(exported, tool, build_dir):
    program, _ = exported("deepseek_v3_deep", BATCH)

    def message(*options):
        done = tool(*options)
        assert done.returncode == 1 and not done.stdout, done.stdout
        return done.stderr.removeprefix("cleave-plan: error: ").strip()

    assert message(program, 4, "--expert-capacity=0.5") == (
        "--expert-capacity: expected 1, an even share of the rows, or more, found '0.5'")  # fmt: skip
    assert "has ep=3 (" in message(program, 6, "--fix=ep=3,dp=2")
    dense, _ = exported("llama3", BATCH)
    assert "expected experts whose rows are sorted" in message(dense, 4, "--expert-capacity=1.5")
    assert "has ep=2 (" in message(dense, 4, "--fix=ep=2")
