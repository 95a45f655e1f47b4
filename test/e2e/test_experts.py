"""Mixtures of experts of torchtitan and transformers on several ranks: what they compute on one device, and what ranks send.

In float64, in which the exporter leaves torchtitan's casts to bfloat16 around `_grouped_mm` out, ranks agree with one device
to 1e-9. As they are, each group's product is one rank's, of the same kernel and sizes: differences are those of what is
summed over ranks elsewhere.
"""

import collections
import math
import re
import subprocess

import cleave
import float64
import hugging_face
import pytest
import torch
import torchtitan_models
from cleave import FSDP, ColwiseParallel, DataParallel, ExpertParallel, Plan, RowwiseParallel, testing
from combinations_cover import covered
from safetensors.torch import load_file, save_file
from training import checkpoint_group

COLLECTIVES = re.compile(r"dist\.(all_reduce|all_gather|reduce_scatter|all_to_all)\b")
MODELS = ["qwen3_moe", "deepseek_v3", "llama4"]
EXPERTS = "layers.*.moe.experts"

# The mesh; where experts and the batch lie on it; among how many ranks rows sorted by expert, and experts, are divided.
LAYOUTS = {
    "experts on 2": ({"ep": 2}, {EXPERTS: ExpertParallel("ep")}, 1, 2),
    "experts on 4": ({"ep": 4}, {EXPERTS: ExpertParallel("ep")}, 1, 4),
    "data": ({"dp": 2}, {"": DataParallel("dp")}, 2, 1),
    "fully sharded": ({"dp": 2}, {"": FSDP("dp")}, 2, 1),
    "experts of the data's ranks": ({"dp": 2}, {EXPERTS: ExpertParallel("dp"), "": FSDP("dp")}, 1, 2),
    "data and experts": ({"dp": 2, "ep": 2}, {EXPERTS: ExpertParallel("ep"), "": FSDP("dp")}, 2, 2),
}
STEPS = 2
PRODUCT = re.compile(r"_grouped_mm.* : \(tensor<(\d+)x\d+xf64[^>]*>, tensor<(\d+)x\d+x\d+x")


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    """A model's spec, its program's path and a file with a microbatch."""
    cache = {}

    def get(name, dtype):
        if (name, dtype) not in cache:
            folder = tmp_path_factory.mktemp(name)
            spec = torchtitan_models.make(name, dtype)
            export = float64.export if dtype == torch.float64 else cleave.export_spec
            with pytest.warns(UserWarning):
                path = export(spec, folder)
            inputs = folder / "inputs.safetensors"
            save_file({n: t.contiguous() for n, t in testing.example_inputs(spec).items()}, inputs)
            cache[name, dtype] = spec, path, inputs
        return cache[name, dtype]

    return get


def lay_out(build_dir, path, mesh, plan, folder, *passes):
    Plan(mesh, plan).write(folder / "plan.json")
    local = folder / path.name
    local.with_suffix(".safetensors").symlink_to(path.with_suffix(".safetensors"))
    subprocess.run(
        [build_dir / "bin" / "cleave-opt", path, f"--annotate-placements=plan={folder / 'plan.json'}",
         "--propagate-placements", "--partition", "--check-spmd-types", *passes, "-o", local],
        check=True,
    )  # fmt: skip
    return local


@pytest.mark.parametrize("name", MODELS)
def test_one_rank_computes_what_torchtitan_does(name, exported, cleave_run, tmp_path):
    spec, path, inputs = exported(name, torch.float32)
    dump = tmp_path / "dump.safetensors"
    cleave_run.succeed(path, "--inputs", inputs, "--dump", dump, "--threads", 1)
    found = load_file(dump)
    with torchtitan_models.runs_on_a_processor():
        expected = testing.evaluate(spec)
    assert found.keys() >= expected.keys()
    assert all(torch.equal(found[tensor], value) for tensor, value in expected.items())


@covered({"layout": list(LAYOUTS), "name": MODELS}, strength=1)
def test_ranks_compute_what_one_device_does(name, layout, exported, build_dir, cleave_run, tmp_path):
    mesh, plan, rows, experts = LAYOUTS[layout]
    _, path, inputs = exported(name, torch.float64)
    local = lay_out(build_dir, path, mesh, plan, tmp_path)
    whole, part = (PRODUCT.findall(program.read_text()) for program in (path, local))
    assert whole and part == [(str(int(n) // rows), str(int(e) // experts)) for n, e in whole]
    cleave_run.succeed(
        local, "--ranks", math.prod(mesh.values()), "--ranks-as", "threads", "--inputs", inputs, "--against", path,
        "--tolerance", 1e-9)  # fmt: skip


# In the models' own types, the largest difference relative to a tensor's largest element.
OWN_TYPES = {
    # Experts' products are bitwise one device's, and two of them a token's sum in any order.
    "experts on 2": 0,
    # Float32's rounding of what the data's ranks sum up, of some 100 terms.
    "experts of the data's ranks": 2**-20,
    # A gradient of experts' weights is a sum of two products in bfloat16, each rounded.
    "data and experts": 2**-6,
}


@covered({"layout": list(OWN_TYPES), "name": MODELS}, strength=1)
def test_ranks_compute_in_bfloat16_what_one_device_does(name, layout, exported, build_dir, cleave_run, tmp_path):
    mesh, plan, _, _ = LAYOUTS[layout]
    _, path, inputs = exported(name, torch.float32)
    local = lay_out(build_dir, path, mesh, plan, tmp_path)
    products = [line for line in local.read_text().splitlines() if "aten._grouped_mm" in line]
    assert products and all("bf16" in line for line in products)
    cleave_run.succeed(
        local, "--ranks", math.prod(mesh.values()), "--ranks-as", "threads", "--inputs", inputs, "--against", path,
        "--tolerance", OWN_TYPES[layout])  # fmt: skip


def gpt_oss():
    return hugging_face.make("openai/gpt-oss-20b")


def mixtral():
    import transformers

    torch.manual_seed(0)
    config = hugging_face.narrow(transformers.MixtralConfig, num_local_experts=4, num_experts_per_tok=3)
    config.use_cache = False
    model = transformers.MixtralForCausalLM(config).train()
    return cleave.ExportSpec(
        model, (), hugging_face.words(config), optimizer=torch.optim.AdamW(model.parameters()), name="mixtral")  # fmt: skip


OSS, MIXTRAL = "model.layers.*.mlp.experts", "model.layers.*.block_sparse_moe.experts.*"
# The model, the mesh, its plan, and among how many ranks experts, and their widths, are divided.
OF_TRANSFORMERS = {
    "experts on 4": (gpt_oss, {"ep": 4}, {OSS: ExpertParallel("ep")}, 4, 1),
    "data and experts": (gpt_oss, {"dp": 2, "ep": 2}, {OSS: ExpertParallel("ep"), "": FSDP("dp")}, 2, 1),
    "within experts": (
        mixtral, {"tp": 2}, {f"{MIXTRAL}.w[13]": ColwiseParallel("tp"), f"{MIXTRAL}.w2": RowwiseParallel("tp")}, 1, 2),
}  # fmt: skip
WEIGHTS = re.compile(r"aten\._grouped_mm.*, tensor<(\d+)x(\d+)x(\d+)xf64")


@pytest.mark.parametrize("layout", OF_TRANSFORMERS)
def test_experts_of_transformers_are_divided(layout, build_dir, cleave_run, tmp_path):
    make, mesh, plan, experts, widths = OF_TRANSFORMERS[layout]
    spec = float64.doubled(make())
    with pytest.warns(cleave.ExportNote, match="products of tokens sorted by expert"):
        path = float64.export(spec, tmp_path)
    inputs = tmp_path / "inputs.safetensors"
    save_file({n: t.contiguous() for n, t in testing.example_inputs(spec).items()}, inputs)
    folder = tmp_path / "local"
    folder.mkdir()
    local = lay_out(build_dir, path, mesh, plan, folder)
    whole, part = (WEIGHTS.findall(program.read_text()) for program in (path, local))
    assert len(whole) == len(part) > 0
    for before, after in zip(whole, part):
        assert int(before[0]) == experts * int(after[0])
        assert math.prod(map(int, before[1:])) == widths * math.prod(map(int, after[1:]))
    cleave_run.succeed(
        local, "--ranks", math.prod(mesh.values()), "--ranks-as", "threads", "--inputs", inputs, "--against", path,
        "--tolerance", 1e-9)  # fmt: skip


@pytest.mark.parametrize("layout", ["each rank's own", "fully sharded", "experts of the data's ranks"])
def test_ranks_train_as_one_device(layout, exported, build_dir, cleave_run, tmp_path):
    spec, path, _ = exported("qwen3_moe", torch.float64)
    data = tmp_path / "data.safetensors"
    # A rank alone takes as many microbatches as both do together.
    alone = 2 if layout == "each rank's own" else 1
    batch = testing.random_batch(spec, STEPS * alone, torch.Generator().manual_seed(1))
    save_file({name: tensor.contiguous() for name, tensor in batch.items()}, data)

    def train(program, microbatches, *options):
        checkpoint = tmp_path / f"{program.parent.name}.checkpoint"
        cleave_run.succeed(
            program, "--data", f"safetensors:{data}", "--steps", STEPS, "--microbatches", microbatches, "--checkpoint",
            checkpoint, "--threads", 1, *options)  # fmt: skip
        return checkpoint_group(max(checkpoint.glob("step-*")))

    folder = tmp_path / "local"
    folder.mkdir()
    if layout == "each rank's own":
        # Every rank sorts its tokens by expert, and only gradients are reduced.
        local = folder / path.name
        local.with_suffix(".safetensors").symlink_to(path.with_suffix(".safetensors"))
        subprocess.run(
            [build_dir / "bin" / "cleave-opt", path, "--sync-gradients=axis=dp", "--bucket-gradients", "-o", local],
            check=True)  # fmt: skip
    else:
        mesh, plan, _, _ = LAYOUTS[layout]
        local = lay_out(build_dir, path, mesh, plan, folder, "--split-fsdp-collectives", "--bucket-gradients")
    found, expected = train(local, 1, "--ranks", 2, "--ranks-as", "threads"), train(path, alone)
    for name, tensor in expected.items():
        if not name.endswith("tokens_per_expert"):
            assert (found[name] - tensor).abs().max() <= 1e-9 * tensor.abs().max().clamp(min=1e-3), name


class Experts(torch.nn.Module):
    def __init__(self, width, experts):
        super().__init__()
        self.up = torch.nn.Parameter(torch.randn(experts, width, 2 * width) / 4)
        self.down = torch.nn.Parameter(torch.randn(experts, 2 * width, width) / 4)

    def forward(self, slots):
        return torch.relu(slots @ self.up) @ self.down


class Slots(torch.nn.Module):
    """Experts with slots for each group of tokens, filled and read by products with masks."""

    def __init__(self, width=16, experts=4, slots=4):
        super().__init__()
        self.router = torch.nn.Linear(width, experts, bias=False)
        self.experts = Experts(width, experts)
        self.slots = slots

    def forward(self, x):
        groups, tokens, width = x.shape
        best, chosen = self.router(x).softmax(-1).max(-1)
        chosen = torch.nn.functional.one_hot(chosen, self.router.out_features)
        place = ((chosen.cumsum(1) - 1) * chosen).clamp(max=self.slots)
        slot = torch.nn.functional.one_hot(place, self.slots + 1)[..., :-1]
        send = (slot * chosen[..., None]).to(x.dtype).reshape(groups, tokens, -1)
        slots = send.transpose(1, 2) @ x
        slots = slots.view(groups, -1, self.slots, width).transpose(0, 1).reshape(-1, groups * self.slots, width)
        slots = self.experts(slots)
        slots = slots.view(-1, groups, self.slots, width).transpose(0, 1).reshape(groups, -1, width)
        return ((send * best[..., None]) @ slots).square().sum()


def test_slots_of_groups_go_to_experts_all_to_all(build_dir, cleave_run, tmp_path):
    torch.manual_seed(0)
    module = Slots().double()
    x = torch.randn(4, 8, 16, dtype=torch.float64)
    spec = cleave.ExportSpec(module, (x,), mode="joint", name="slots")
    path = cleave.export_spec(spec, tmp_path)
    inputs = tmp_path / "inputs.safetensors"
    save_file(testing.example_inputs(spec), inputs)
    folder = tmp_path / "local"
    folder.mkdir()
    plan = {"experts": ExpertParallel("dp"), "": DataParallel("dp")}
    local = lay_out(build_dir, path, {"dp": 2}, plan, folder)
    found = collections.Counter(COLLECTIVES.findall(local.read_text()))
    # Slots to the experts, what these give back, and its gradient. The input gets none.
    assert found == {"all_to_all": 3}, found
    cleave_run.succeed(
        local, "--ranks", 2, "--ranks-as", "threads", "--inputs", inputs, "--against", path, "--tolerance", 1e-9)  # fmt: skip


class Grouped(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.randn(4, 8, 8, dtype=torch.float64))

    def forward(self, x, ends, numbers):
        # 0 to 3 are counted.
        counts = torch.bincount(numbers, minlength=4)
        return (torch._grouped_mm(x, self.weight, offs=ends) * counts.sum()).sum()


def test_ends_and_numbers_that_do_not_fit_are_errors_of_the_run(cleave_run, tmp_path):
    good = {"x": torch.randn(6, 8, dtype=torch.float64), "ends": torch.tensor([1, 1, 4, 6], dtype=torch.int32),
            "numbers": torch.tensor([0, 3, 3])}  # fmt: skip
    spec = cleave.ExportSpec(
        Grouped(), tuple(good.values()), mode="joint", name="grouped", batch_dims={"ends": None, "numbers": None})  # fmt: skip
    with pytest.warns(cleave.ExportNote, match="bincount"):
        path = cleave.export_spec(spec, tmp_path)
    inputs = tmp_path / "inputs.safetensors"
    save_file(good, inputs)
    cleave_run.succeed(path, "--inputs", inputs)
    ends, numbers = torch.tensor([1, 1, 4, 7], dtype=torch.int32), torch.tensor([0, 3, 4])
    for wrong, message in (
        ({"ends": ends}, "expected ends of groups in ascending order up to 6, found 7 for group 3 after 4"),
        ({"ends": ends.flip(0)}, "expected ends of groups in ascending order up to 6, found 7 for group 0 after 0"),
        ({"numbers": numbers}, "expected numbers below 4, the static length of the result, found 4"),
    ):
        save_file(good | wrong, inputs)
        assert message in cleave_run.fail(path, "--inputs", inputs)
