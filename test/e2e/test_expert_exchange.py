"""Ranks that exchange the rows that tokens send to experts: as many as there are, to the rank that has the expert.

Compared with one device in float64, where a rank's share is even, where all rows go to one rank and most experts have
none, and where more come than there is room for.
"""

import re
import subprocess

import cleave
import float64
import hugging_face
import pytest
import torch
import torchtitan_models
from cleave import FSDP, HSDP, DataParallel, ExpertParallel, Plan, testing
from combinations_cover import part_of_today
from safetensors.torch import save_file
from training import checkpoint_group

EXPERTS = "layers.*.moe.experts"
EXCHANGED = re.compile(r"dist\.ragged_all_to_all\(.*-> tensor<(\d+)x\d+x[bf]\w+\d")
PRODUCT = re.compile(r"_grouped_mm.* : \(tensor<(\d+)x(\d+)xf64[^>]*>, tensor<(\d+)x\d+x\d+x")
STEPS = 2


def crowd(spec):
    """Sends all tokens to the first experts, which one rank has."""
    for name, bias in spec.module.named_buffers():
        if name.endswith("expert_bias"):
            bias[: 4 if len(bias) > 4 else 1] = 100.0


def of_transformers(name):
    """Experts that are modules of their own."""
    import transformers

    torch.manual_seed(0)
    if name.startswith("mixtral"):
        chosen = 2 if name == "mixtral, two of four" else 3
        config = hugging_face.narrow(transformers.MixtralConfig, num_local_experts=4, num_experts_per_tok=chosen)
        model = transformers.MixtralForCausalLM(config)
    else:
        config = hugging_face.narrow(
            transformers.Qwen3MoeConfig, num_experts=4, num_experts_per_tok=2, moe_intermediate_size=16, head_dim=8,
            decoder_sparse_step=1, mlp_only_layers=[])  # fmt: skip
        model = transformers.Qwen3MoeForCausalLM(config)
    config.use_cache = False
    optimizer = torch.optim.AdamW(model.parameters())
    return cleave.ExportSpec(model.train(), (), hugging_face.words(config), optimizer=optimizer, name=name.split(",")[0])


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    """A model's spec, its program's path and a file with a microbatch of four sequences."""
    cache = {}

    def get(name, crowded=False):
        if (name, crowded) not in cache:
            folder = tmp_path_factory.mktemp(name)
            if name.startswith("gpt_oss"):
                with pytest.MonkeyPatch.context() as patch:
                    if name == "gpt_oss, four sequences":
                        patch.setattr(hugging_face, "BATCH", 4)
                    spec = float64.doubled(hugging_face.make("openai/gpt-oss-20b"))
            elif name.startswith("mixtral") or name == "transformers_qwen3":
                spec = float64.doubled(of_transformers(name))
            else:
                spec = torchtitan_models.make(name, torch.float64, batch=4)
            if crowded:
                crowd(spec)
            with pytest.warns(UserWarning):
                path = float64.export(spec, folder)
            inputs = folder / "inputs.safetensors"
            save_file({n: t.contiguous() for n, t in testing.example_inputs(spec).items()}, inputs)
            cache[name, crowded] = spec, path, inputs
        return cache[name, crowded]

    return get


def opt(build_dir, *arguments):
    return subprocess.run([build_dir / "bin" / "cleave-opt", *arguments], capture_output=True, text=True)


def annotate(build_dir, path, mesh, plan, folder):
    """The program with rows in parts, on one device still."""
    Plan(mesh, plan).write(folder / "plan.json")
    placed = folder / "placed" / path.name
    placed.parent.mkdir()
    placed.with_suffix(".safetensors").symlink_to(path.with_suffix(".safetensors"))
    done = opt(build_dir, path, f"--annotate-placements=plan={folder / 'plan.json'}", "-o", placed)
    assert done.returncode == 0, done.stderr
    return placed


def lay_out(build_dir, path, mesh, plan, folder, *passes):
    placed = annotate(build_dir, path, mesh, plan, folder)
    local = folder / path.name
    local.with_suffix(".safetensors").symlink_to(path.with_suffix(".safetensors"))
    done = opt(build_dir, placed, "--propagate-placements", "--partition", "--check-spmd-types", *passes, "-o", local)
    assert done.returncode == 0, done.stderr
    return local


def agree(cleave_run, local, path, inputs, ranks):
    cleave_run.succeed(
        local, "--ranks", ranks, "--ranks-as", "threads", "--inputs", inputs, "--against", path,
        "--tolerance", 1e-9)  # fmt: skip


# The model, where its experts are, ranks, a capacity, and the rows that a rank has room for.
CASES = {
    # Half of all 64 rows, and half as many again.
    "deepseek_v3 on 2": ("deepseek_v3", EXPERTS, 2, 1.5, 48),
    "qwen3_moe on 4": ("qwen3_moe", EXPERTS, 4, 2, 32),
    # Two rows a token are fewer than four ranks.
    "qwen3_moe on 4, room for all": ("qwen3_moe", EXPERTS, 4, None, 64),
    "llama4 on 2, room for all": ("llama4", EXPERTS, 2, None, 32),
    "gpt_oss on 2": ("gpt_oss", "model.layers.*.mlp.experts", 2, 1.75, 28),
}  # fmt: skip


@pytest.mark.parametrize("case", part_of_today(list(CASES)))
def test_ranks_compute_what_one_device_does(case, exported, build_dir, cleave_run, tmp_path):
    name, experts, ranks, capacity, room = CASES[case]
    _, path, inputs = exported(name)
    plan = {experts: ExpertParallel("dp", capacity), "": FSDP("dp")}
    local = lay_out(build_dir, path, {"dp": ranks}, plan, tmp_path)
    text = local.read_text()
    whole = len(PRODUCT.findall(path.read_text()))
    products = [(int(rows), int(experts)) for rows, _, experts in PRODUCT.findall(text)]
    assert len(products) == whole > 0 and {rows for rows, _ in products} == {room}
    # Rows of tokens go to experts and come back, in the forward and in the backward.
    sizes = [int(size) for size in EXCHANGED.findall(text)]
    assert sizes.count(room) >= 2 and len(sizes) >= 4, sizes
    agree(cleave_run, local, path, inputs, ranks)


# Replicas of the ranks that share experts: the batch is divided along dp, then along ep. Rows stay in their replica.
REPLICAS = {"dp": 2, "ep": 2}
SHARDED = [("", FSDP("dp")), ("", FSDP("ep"))]


@pytest.mark.parametrize(
    "name, rest, capacity, room",
    # A rank's even share is a quarter of the rows, and all that may come half of them.
    [("qwen3_moe", SHARDED, None, 32), ("deepseek_v3", [("", HSDP("dp", "ep"))], 1.5, 24)],
)
def test_replicas_exchange_rows_among_themselves(name, rest, capacity, room, exported, build_dir, cleave_run, tmp_path):
    _, path, inputs = exported(name)
    local = lay_out(build_dir, path, REPLICAS, [(EXPERTS, ExpertParallel("ep", capacity)), *rest], tmp_path)
    text = local.read_text()
    products = PRODUCT.findall(text)
    assert len(products) == len(PRODUCT.findall(path.read_text())) > 0
    # Its experts' matrices as they are: no copy for each replica.
    assert {(int(rows), int(experts)) for rows, _, experts in products} == {(room, 4)}
    assert not re.findall(r"aten\.clone.*: \(tensor<1x4x\d+x\d+x", text)
    exchanges = [line for line in text.splitlines() if "dist.ragged_all_to_all" in line]
    assert len(exchanges) >= 6 and all('over @mesh ["ep"]' in line for line in exchanges)
    agree(cleave_run, local, path, inputs, 4)


def test_a_replica_has_more_rows_than_room(exported, build_dir, cleave_run, tmp_path):
    _, path, inputs = exported("qwen3_moe", crowded=True)
    plan = [(EXPERTS, ExpertParallel("ep", 1.5)), *SHARDED]
    local = lay_out(build_dir, path, REPLICAS, plan, tmp_path)
    text = cleave_run.fail(local, "--ranks", 4, "--ranks-as", "threads", "--inputs", inputs)
    assert re.search(r"rank [02] receives 32 rows, but has room for 24: raise the capacity of its experts", text), text


@pytest.mark.parametrize("mesh, axes", [({"dp": 2, "ep": 2}, "ep dp"), ({"ep": 2, "dp": 2}, "dp ep")])
def test_experts_divide_the_batch_last(mesh, axes, exported, build_dir, cleave_run, tmp_path):
    _, path, inputs = exported("qwen3_moe")
    rest = [("", DataParallel(axis)) for axis in axes.split()]
    Plan(mesh, [(EXPERTS, ExpertParallel("ep", 2)), *rest]).write(tmp_path / "plan.json")
    done = opt(build_dir, path, f"--annotate-placements=plan={tmp_path / 'plan.json'}")
    assert done.returncode == 1 and 'expected it to be the last axis that divides the batch' in done.stderr, done.stderr
    # Without a capacity rows are gathered.
    local = lay_out(build_dir, path, mesh, [(EXPERTS, ExpertParallel("ep")), *rest], tmp_path)
    assert not EXCHANGED.search(local.read_text())
    agree(cleave_run, local, path, inputs, 4)


# By model, where its experts are, and a capacity.
MODULES = {
    "mixtral": ("model.layers.*.block_sparse_moe.experts", 1.5),
    "transformers_qwen3": ("model.layers.*.mlp.experts", 2),
}


@pytest.mark.parametrize("name", MODULES)
def test_ranks_multiply_by_whole_experts_that_are_modules(name, exported, build_dir, cleave_run, tmp_path):
    """Of each weight a rank stores a part; of the stacked ones it gets its experts', each whole."""
    experts, capacity = MODULES[name]
    _, path, inputs = exported(name)
    plan = {experts: ExpertParallel("dp", capacity), "": FSDP("dp")}
    local = lay_out(build_dir, path, {"dp": 2}, plan, tmp_path)
    text = local.read_text()
    products = PRODUCT.findall(text)
    assert products and {int(count) for _, _, count in products} == {2}
    assert EXCHANGED.findall(text)
    # Parts of experts' weights become whole experts: all to all, and their gradients the way back.
    assert len(re.findall(r"dist\.all_to_all\(.*tensor<4x\d+x\d+xf64.* -> tensor<2x", text)) >= len(products) // 3
    agree(cleave_run, local, path, inputs, 2)


@pytest.mark.parametrize("name", MODULES)
def test_replicas_exchange_rows_of_experts_that_are_modules(name, build_dir, cleave_run, tmp_path, monkeypatch):
    monkeypatch.setattr(hugging_face, "BATCH", 4)
    experts, _ = MODULES[name]
    spec = float64.doubled(of_transformers(name))
    with pytest.warns(UserWarning):
        path = float64.export(spec, tmp_path / "whole")
    inputs = tmp_path / "inputs.safetensors"
    save_file({n: t.contiguous() for n, t in testing.example_inputs(spec).items()}, inputs)
    local = lay_out(build_dir, path, REPLICAS, [(experts, ExpertParallel("ep", 2)), *SHARDED], tmp_path)
    text = local.read_text()
    products = PRODUCT.findall(text)
    assert products and {int(count) for _, _, count in products} == {2}
    exchanges = [line for line in text.splitlines() if "dist.ragged_all_to_all" in line]
    assert len(exchanges) >= 6 and all('over @mesh ["ep"]' in line for line in exchanges)
    agree(cleave_run, local, path, inputs, 4)


def test_experts_that_are_modules_need_an_exchange(exported, build_dir, tmp_path):
    experts, _ = MODULES["mixtral"]
    _, path, _ = exported("mixtral")
    Plan({"dp": 2}, {experts: ExpertParallel("dp"), "": FSDP("dp")}).write(tmp_path / "plan.json")
    done = opt(build_dir, path, f"--annotate-placements=plan={tmp_path / 'plan.json'}")
    assert done.returncode == 1 and "only where ranks exchange rows: give it a capacity" in done.stderr, done.stderr


@pytest.mark.parametrize("name", ["deepseek_v3", "gpt_oss"])
def test_one_device_computes_the_same_on_rows_in_parts(name, exported, build_dir, cleave_run, tmp_path):
    _, path, inputs = exported(name)
    experts = "model.layers.*.mlp.experts" if name == "gpt_oss" else EXPERTS
    placed = annotate(build_dir, path, {"dp": 2}, {experts: ExpertParallel("dp", 2), "": FSDP("dp")}, tmp_path)
    text = placed.read_text()
    assert len(re.findall(r"aten\.index_put.*dist\.parts = 2", text)) >= 2
    # Without what says where: a program of one device.
    text = re.sub(r"dist\.mesh .*\n", "", text)
    text = re.sub(r"dist\.(operands|results) = \[[^\]]*\],? ?|dist\.(placement = #\w+|parts = 2 : i64),? ?", "", text)
    placed.write_text(text)
    cleave_run.succeed(placed, "--inputs", inputs, "--against", path, "--tolerance", 1e-9)


def test_all_rows_go_to_one_rank(exported, build_dir, cleave_run, tmp_path):
    _, path, inputs = exported("qwen3_moe", crowded=True)
    plan = {EXPERTS: ExpertParallel("dp"), "": FSDP("dp")}
    local = lay_out(build_dir, path, {"dp": 4}, plan, tmp_path)
    agree(cleave_run, local, path, inputs, 4)


@pytest.mark.parametrize("ranks_as", ["threads", "processes"])
def test_more_rows_than_there_is_room_for_are_an_error(ranks_as, exported, build_dir, cleave_run, tmp_path):
    _, path, inputs = exported("qwen3_moe", crowded=True)
    plan = {EXPERTS: ExpertParallel("dp", 1.5), "": FSDP("dp")}
    local = lay_out(build_dir, path, {"dp": 2}, plan, tmp_path)
    text = cleave_run.fail(local, "--ranks", 2, "--ranks-as", ranks_as, "--inputs", inputs)
    assert "rank 0 receives 64 rows, but has room for 48: raise the capacity of its experts" in text, text


def test_a_capacity_that_nothing_takes_is_refused(exported, build_dir, tmp_path):
    _, path, _ = exported("qwen3_moe")
    for ranks, experts in ((3, EXPERTS), (2, "layers.0.attention")):
        Plan({"dp": ranks}, {experts: ExpertParallel("dp", 1.5)}).write(tmp_path / "plan.json")
        done = opt(build_dir, path, f"--annotate-placements=plan={tmp_path / 'plan.json'}")
        assert done.returncode == 1 and "has a capacity, but in" in done.stderr, done.stderr


def test_capacities_of_plans_are_checked(exported, build_dir, tmp_path):
    for wrong in (0.5, True, "2"):
        with pytest.raises(cleave.ExportError, match="expected a capacity of at least 1"):
            ExpertParallel("dp", wrong)
    _, path, _ = exported("qwen3_moe")
    text = Plan({"dp": 2}, {EXPERTS: ExpertParallel("dp", 1.5)}).text()
    (tmp_path / "plan.json").write_text(text.replace("1.5", "0.5"))
    done = opt(build_dir, path, f"--annotate-placements=plan={tmp_path / 'plan.json'}")
    assert done.returncode == 1 and 'expected a "capacity" of at least 1' in done.stderr, done.stderr


# A mesh, the axis of experts, the rest of the plan, and passes before buckets.
TRAINED = {
    "one replica": ({"dp": 4}, "dp", [("", DataParallel("dp"))], []),
    "two replicas": (REPLICAS, "ep", SHARDED, ["--split-fsdp-collectives"]),
}


@pytest.mark.parametrize("layout", TRAINED)
def test_ranks_train_as_one_device(layout, exported, build_dir, cleave_run, tmp_path):
    mesh, axis, rest, passes = TRAINED[layout]
    spec, path, _ = exported("qwen3_moe")
    data = tmp_path / "data.safetensors"
    batch = testing.random_batch(spec, STEPS, torch.Generator().manual_seed(1))
    save_file({name: tensor.contiguous() for name, tensor in batch.items()}, data)
    plan = [(EXPERTS, ExpertParallel(axis)), *rest]
    local = lay_out(build_dir, path, mesh, plan, tmp_path, *passes, "--bucket-gradients", "--lower-to-exec")

    def train(program, name, *options):
        checkpoint = tmp_path / f"{name}.checkpoint"
        cleave_run.succeed(
            program, "--data", f"safetensors:{data}", "--steps", STEPS, "--microbatches", 1, "--checkpoint", checkpoint,
            "--threads", 1, *options)  # fmt: skip
        return checkpoint_group(max(checkpoint.glob("step-*")))

    found, expected = train(local, "local", "--ranks", 4, "--ranks-as", "threads"), train(path, "whole")
    for name, tensor in expected.items():
        if not name.endswith("tokens_per_expert"):
            assert (found[name] - tensor).abs().max() <= 1e-9 * tensor.abs().max().clamp(min=1e-3), name
