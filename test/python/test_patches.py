"""Blocks whose experts loop over what data choose are exported by replacements, which compute what they do: results
bitwise, gradients but for rounding."""

import dataclasses
import subprocess

import cleave_path  # noqa: F401
import cleave
import hugging_face
import other_models
import pytest
import torch
import torchtitan_models
from cleave import testing
from cleave.export import patches
from cleave.export.patch import source_digest
from combinations_cover import covered, part_of_today
from exported_models import microbatch_values
from interpreter import Interpreter
from safetensors.torch import load_file, save_file

pytestmark = pytest.mark.usefixtures("one_thread")

SMALL = {
    "vocab_size": 64, "hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2,
    "num_key_value_heads": 2, "head_dim": 8, "max_position_embeddings": 32, "num_experts_per_tok": 2,
}  # fmt: skip
MODELS = {
    "mixtral": ("Mixtral", {"num_local_experts": 4, "attention_dropout": 0.1}),
    "few tokens": ("Mixtral", {"num_local_experts": 8}),
    "three experts": ("Mixtral", {"num_local_experts": 4, "num_experts_per_tok": 3}),
    "qwen3": ("Qwen3Moe", {"num_experts": 4, "moe_intermediate_size": 8, "norm_topk_prob": True}),
    "qwen3 as it is": ("Qwen3Moe", {"num_experts": 4, "moe_intermediate_size": 8, "norm_topk_prob": False}),
    "olmoe": ("Olmoe", {"num_experts": 4}),
    "shared expert": (
        "Qwen2Moe",
        {"num_experts": 4, "num_experts_per_tok": 3, "moe_intermediate_size": 8, "shared_expert_intermediate_size": 16},
    ),
    "deepseek": (
        "DeepseekV3",
        {
            "n_routed_experts": 8, "num_experts_per_tok": 4, "n_group": 4, "topk_group": 2, "q_lora_rank": 8,
            "kv_lora_rank": 8, "qk_rope_head_dim": 4, "qk_nope_head_dim": 4, "v_head_dim": 8, "head_dim": 4,
            "moe_intermediate_size": 8, "first_k_dense_replace": 0,
        },
    ),
    "glm4": (
        "Glm4Moe",
        {
            "n_routed_experts": 4, "moe_intermediate_size": 8, "n_group": 1, "topk_group": 1, "first_k_dense_replace": 0,
        },
    ),
    "ernie": ("Ernie4_5_Moe", {"moe_num_experts": 4, "moe_intermediate_size": 8, "moe_layer_start_index": 0}),
    "phimoe": ("Phimoe", {"num_local_experts": 4}),
    "jamba": (
        "Jamba",
        {
            "num_experts": 4, "expert_layer_period": 1, "expert_layer_offset": 0, "attn_layer_period": 2, "attn_layer_offset": 1,
            "mamba_d_state": 4, "mamba_d_conv": 2, "mamba_dt_rank": 4, "use_mamba_kernels": False, "pad_token_id": 0,
        },
    ),
    "granite": ("GraniteMoe", {"num_local_experts": 4}),
    "granite with a shared expert": ("GraniteMoeShared", {"num_local_experts": 4, "shared_intermediate_size": 16}),
    "jetmoe": ("JetMoe", {"num_local_experts": 4, "kv_channels": 8, "num_key_value_heads": 1}),
    "gpt-oss": ("GptOss", {"num_local_experts": 4, "sliding_window": 4}),
}

# Of an expert, where it has not gate_proj, up_proj and down_proj.
PRODUCTS = {"gpt-oss": 2, "granite": 2, "granite with a shared expert": 2, "jetmoe": 4}


def make(name, length=8):
    import transformers

    torch.manual_seed(0)
    family, changes = MODELS[name]
    config = getattr(transformers, f"{family}Config")(**SMALL | changes)
    model = getattr(transformers, f"{family}ForCausalLM")(config).train()
    tokens = torch.randint(3, 64, (2, length))
    inputs = {"input_ids": tokens, "attention_mask": torch.ones_like(tokens), "labels": tokens.clone()}
    return cleave.ExportSpec(model, (), {**inputs, "use_cache": False}, mode="joint", name="experts")


# With 4 tokens some of 8 experts are chosen by none.
@pytest.mark.parametrize("name", part_of_today(list(MODELS), 4))
def test_a_replacement_computes_what_the_block_does(tmp_path, name):
    spec = make(name, 2 if name == "few tokens" else 8)
    kinds = {type(m): type(m).forward for m in spec.module.modules()}
    with pytest.warns(cleave.ExportNote, match="is traced as products of tokens sorted by expert") as notes:
        path = cleave.export_spec(spec, tmp_path)
    assert sum("sorted by expert" in str(note.message) for note in notes) == 1
    assert all(kind.forward is forward for kind, forward in kinds.items())
    found, expected = run(path, spec)
    products = [line for line in path.read_text().splitlines() if "aten._grouped_mm" in line]
    # In each of 2 layers: the forward's, and the two gradients of each.
    assert len(products) == 2 * 3 * PRODUCTS.get(name, 3)
    assert torch.equal(found["loss"], expected["loss"])
    largest = max(value.abs().max() for value in expected.values())
    for tensor, value in expected.items():
        # Rounding of float32, by sums of 16 terms.
        assert (found[tensor] - value).abs().max() <= 2**-20 * largest, tensor
    unchosen = found.keys() - expected.keys()
    assert bool(unchosen) == (name == "few tokens")
    assert all("expert" in tensor and not found[tensor].any() for tensor in unchosen)


def run(path, spec):
    """What the program computes, and what eager mode does."""
    interpreter = Interpreter(path.read_text())
    weights = load_file(path.with_suffix(".safetensors"))
    found = interpreter.run("microbatch", microbatch_values(interpreter, weights, spec))
    return found, testing.evaluate(spec, seed=7)


STATE_SPACE = {
    "mamba_n_heads": 4, "mamba_d_head": 8, "mamba_n_groups": 1, "mamba_d_state": 4, "mamba_d_conv": 2, "mamba_expand": 2,
    "mamba_chunk_size": 4,
}  # fmt: skip
MASKED = {
    "FalconH1": STATE_SPACE | {"mamba_d_ssm": 32},
    "Bamba": STATE_SPACE | {"attn_layer_indices": [1], "partial_rotary_factor": 0.5},
    "GraniteMoeHybrid": STATE_SPACE
    | {"num_local_experts": 4, "layer_types": ["mamba", "attention"], "shared_intermediate_size": 16},
    "Jamba": MODELS["jamba"][1],
    "Qwen3Next": {
        "num_experts": 4, "moe_intermediate_size": 8, "shared_expert_intermediate_size": 8, "linear_num_value_heads": 2,
        "linear_num_key_heads": 2, "linear_key_head_dim": 8, "linear_value_head_dim": 8,
        "layer_types": ["linear_attention", "full_attention"],
    },
}  # fmt: skip


@covered({"family": list(MASKED), "padding": {"all": 0, "padded": 3}}, strength=1)
def test_masks_that_may_hide_nothing(tmp_path, family, padding):
    """Models that ask for that leave the mask out; the program, for which it is data, multiplies by ones."""
    import transformers

    torch.manual_seed(0)
    config = getattr(transformers, f"{family}Config")(**SMALL | MASKED[family])
    model = getattr(transformers, f"{family}ForCausalLM")(config).train()
    tokens = torch.randint(3, 64, (2, 8))
    mask = torch.ones_like(tokens)
    mask[1, :padding] = 0
    inputs = {"input_ids": tokens, "attention_mask": mask, "labels": tokens.clone(), "use_cache": False}
    spec = cleave.ExportSpec(model, (), inputs, mode="joint", name="masked")
    method = "_update_linear_attn_mask" if family == "Qwen3Next" else "_update_mamba_mask"
    before = getattr(type(model.model), method)
    with pytest.warns(cleave.ExportNote, match=f"{family}Model multiplies by its mask without asking whether it hides something"):
        path = cleave.export_spec(spec, tmp_path)
    assert getattr(type(model.model), method) is before
    found, expected = run(path, spec)
    assert torch.equal(found["loss"], expected["loss"])
    rounded = [name for name, value in expected.items() if not torch.equal(found[name], value)]
    assert not rounded or any("expert" in name for name in expected)
    largest = max(value.abs().max() for value in expected.values())
    for name in rounded:
        # By experts, as above.
        assert (found[name] - expected[name]).abs().max() <= 2**-20 * largest, name


@pytest.mark.parametrize("iterations", [1, 2])
def test_spectral_normalization(tmp_path, iterations, build_dir):
    """Its vectors are buffers that a step changes; with convolutions, and beside the older form and other norms."""
    norms, nn = torch.nn.utils.parametrizations, torch.nn
    torch.manual_seed(0)
    module = nn.Sequential(
        norms.spectral_norm(nn.Conv2d(2, 3, 3), n_power_iterations=iterations), nn.ReLU(), nn.Flatten(),
        norms.spectral_norm(nn.Linear(12, 6), n_power_iterations=iterations), norms.weight_norm(nn.Linear(6, 5)),
        nn.utils.spectral_norm(nn.Linear(5, 5)), norms.orthogonal(nn.Linear(5, 4)),
    )  # fmt: skip
    before = {name: tensor.clone() for name, tensor in module.state_dict().items()}
    spec = cleave.ExportSpec(
        module, (torch.randn(2, 2, 4, 4),), targets=(torch.randn(2, 4),), loss=nn.functional.mse_loss, mode="joint", name="norms"
    )
    with pytest.warns(cleave.ExportNote, match="_SpectralNorm changes its vectors in place alone"):
        path = cleave.export_spec(spec, tmp_path)
    assert all(tensor.equal(before[name]) for name, tensor in module.state_dict().items())
    expected = testing.evaluate(spec)
    save_file(testing.example_inputs(spec), tmp_path / "inputs.safetensors")
    command = [build_dir / "bin" / "cleave-run", path, "--inputs", tmp_path / "inputs.safetensors"]
    subprocess.run([*command, "--dump", tmp_path / "dump.safetensors"], check=True)
    found = load_file(tmp_path / "dump.safetensors")
    assert found.keys() == expected.keys() and "buffer.0.parametrizations.weight.0._u" in found
    assert [name for name, value in expected.items() if not found[name].equal(value)] == []


class Adaptive(torch.nn.Module):
    """Targets at both ends of each cluster, or of no other than the first."""

    def __init__(self, dtype, targets, head_bias=False):
        super().__init__()
        self.layer = torch.nn.Linear(5, 16, dtype=dtype)
        self.softmax = torch.nn.AdaptiveLogSoftmaxWithLoss(16, 20, [4, 9, 15], 2.0, head_bias, dtype=dtype)
        self.targets = targets

    def forward(self, x, target):
        output, loss = self.softmax(self.layer(x), target)
        return {"loss": loss, "output": output}


@pytest.mark.parametrize("targets", [[0, 3, 4, 8, 9, 14, 15, 19], [0, 1, 2, 3], [19], [7, 7]], ids=str)
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)
def test_adaptive_softmax(tmp_path, dtype, targets):
    torch.manual_seed(0)
    module, targets = Adaptive(dtype, targets, head_bias=len(targets) > 1), torch.tensor(targets)
    forward = torch.nn.AdaptiveLogSoftmaxWithLoss.forward
    spec = cleave.ExportSpec(module, (torch.randn(len(targets), 5, dtype=dtype), targets), mode="joint", name="adaptive")
    with pytest.warns(cleave.ExportNote, match="AdaptiveLogSoftmaxWithLoss computes each cluster of classes for every target"):
        path = cleave.export_spec(spec, tmp_path)
    assert torch.nn.AdaptiveLogSoftmaxWithLoss.forward is forward
    found, expected = run(path, spec)
    for name, value in expected.items():
        largest = value.abs().max()
        assert (found[name] - value).abs().max() <= (1e-14 if dtype == torch.float64 else 2**-20) * largest, name
    assert all(not found[name].any() for name in found.keys() - expected.keys())


def test_a_target_that_is_no_class_of_an_adaptive_softmax_is_an_error(tmp_path, build_dir):
    module = Adaptive(torch.float32, None)
    spec = cleave.ExportSpec(module, (torch.randn(2, 5), torch.tensor([0, 19])), mode="joint", name="adaptive")
    with pytest.warns(cleave.ExportNote):
        path = cleave.export_spec(spec, tmp_path)
    for wrong in (20, -1):
        inputs = testing.example_inputs(spec) | {"target": torch.tensor([0, wrong])}
        save_file(inputs, tmp_path / "inputs.safetensors")
        command = [build_dir / "bin" / "cleave-run", path, "--inputs", tmp_path / "inputs.safetensors"]
        result = subprocess.run(command, capture_output=True, text=True)
        assert result.returncode == 1 and "index" in result.stderr and "out of" in result.stderr, result.stderr


class Adapted(torch.nn.Module):
    """A linear layer with an adapter of rank 1."""

    def __init__(self, layer):
        super().__init__()
        self.layer = layer
        self.down = torch.nn.Linear(layer.in_features, 1, bias=False)
        self.up = torch.nn.Linear(1, layer.out_features, bias=False)

    def forward(self, x):
        return self.layer(x) + self.up(self.down(x))


def test_experts_with_adapters_are_called_one_by_one(tmp_path):
    spec = make("mixtral")
    expert = spec.module.model.layers[1].block_sparse_moe.experts[2]
    expert.w1 = Adapted(expert.w1)
    with pytest.warns(cleave.ExportNote, match="a loop in which each expert computes every token.*not just the weights"):
        path = cleave.export_spec(spec, tmp_path)
    found, expected = run(path, spec)
    assert "grad.model.layers.1.block_sparse_moe.experts.2.w1.up.weight" in found
    assert torch.equal(found["loss"], expected["loss"])
    largest = max(value.abs().max() for value in expected.values())
    assert all((found[tensor] - value).abs().max() <= 2**-20 * largest for tensor, value in expected.items())


class Autocast(torch.nn.Module):
    def __init__(self, module):
        super().__init__()
        self.module = module

    def forward(self, **inputs):
        with torch.autocast("cpu", torch.bfloat16):
            return self.module(**inputs)


def test_experts_have_the_type_that_autocast_gives_them(tmp_path):
    spec = make("qwen3")
    spec.module = Autocast(spec.module)
    with pytest.warns(cleave.ExportNote, match="sorted by expert"):
        path = cleave.export_spec(spec, tmp_path)
    products = [line for line in path.read_text().splitlines() if "aten._grouped_mm" in line]
    assert products and all("bf16" in line for line in products)
    found, expected = run(path, spec)
    assert torch.equal(found["loss"], expected["loss"])


def test_the_module_is_as_before_where_the_export_fails(tmp_path):
    spec = make("mixtral")
    kind = type(spec.module.model.layers[0].block_sparse_moe)
    before = kind.forward
    spec.loss = lambda outputs: outputs.loss.item()
    with pytest.raises(cleave.ExportError):
        cleave.export_spec(spec, tmp_path)
    assert kind.forward is before


def test_a_block_whose_source_has_changed_is_refused(tmp_path, monkeypatch):
    spec = make("mixtral")
    kind = type(spec.module.model.layers[0].block_sparse_moe)

    def forward(self, hidden_states):
        return self.gate(hidden_states), None

    monkeypatch.setattr(kind, "forward", forward)
    with pytest.raises(cleave.ExportError, match="MixtralSparseMoeBlock.forward loops over .* is not the one of transformers"):
        cleave.export_spec(spec, tmp_path)
    assert kind.forward is forward and not list(tmp_path.iterdir())


def test_each_replacement_was_written_for_what_is_installed():
    import importlib

    for name, patch in patches.PATCHES.items():
        module, _, kind = name.rpartition(".")
        method = getattr(getattr(importlib.import_module(module), kind), patch.method)
        assert patch.source or not patch.forward, name
        assert not patch.source or source_digest(method, patch.calls) in patch.sources, name


def gemma3_with_images():
    spec = hugging_face.make("google/gemma-3-4b-it")
    config = spec.module.config
    image = slice(1, 1 + config.mm_tokens_per_image)
    inputs = dict(spec.kwargs)
    inputs["input_ids"][:, image] = config.image_token_id
    inputs["token_type_ids"][:, image] = 1
    size = config.vision_config.image_size
    inputs["pixel_values"] = torch.randn(len(inputs["input_ids"]), 3, size, size)
    return dataclasses.replace(spec, kwargs=inputs, mode="joint", optimizer=None, name="images")


def test_gemma3_takes_images(tmp_path):
    spec = gemma3_with_images()
    with pytest.warns(cleave.ExportNote, match="as many as its tokens"):
        path = cleave.export_spec(spec, tmp_path)
    found, expected = run(path, spec)
    assert any("vision_tower" in tensor for tensor in expected)
    assert found.keys() == expected.keys()
    assert all(torch.equal(found[tensor], value) for tensor, value in expected.items())


def test_recurrent_gemma_keeps_the_normalization_of_eager_mode(tmp_path):
    import transformers
    from transformers.models.recurrent_gemma import modeling_recurrent_gemma

    torch.manual_seed(0)
    config = hugging_face.narrow(transformers.RecurrentGemmaConfig, lru_width=16, attention_window_size=4)
    model = transformers.RecurrentGemmaForCausalLM(config).train()
    before = modeling_recurrent_gemma.is_torchdynamo_compiling
    spec = cleave.ExportSpec(model, (), hugging_face.words(config) | {"use_cache": False}, mode="joint", name="recurrent")
    with pytest.warns(cleave.ExportNote, match="RecurrentGemmaRglru is traced with the normalization"):
        path = cleave.export_spec(spec, tmp_path)
    assert modeling_recurrent_gemma.is_torchdynamo_compiling is before
    found, expected = run(path, spec)
    assert found.keys() == expected.keys()
    assert all(torch.equal(found[tensor], value) for tensor, value in expected.items())


# What their exports say.
OTHERS = {
    "Funnel": "the numbers of tensors at transformers/models/funnel/modeling_funnel.py",
    "ProphetNet": "ProphetNetDecoder makes its attention's bias without writing into views",
    "SwitchTransformers": "SwitchTransformersSparseMLP is traced as products of tokens sorted by expert",
    "Wav2Vec2": "Wav2Vec2FeatureEncoder is traced without asking for its input's gradient",
    "SEWD": "SEWDFeatureEncoder is traced without asking for its input's gradient",
    "HubertForCTC": "HubertForCTC takes each example's labels that count in a row",
    "Detr": "DetrEncoderLayer clamps its results without asking whether one is infinite",
}


@pytest.mark.parametrize("name", part_of_today(list(OTHERS)))
def test_other_models_are_eager_mode_bit_for_bit(tmp_path, name):
    spec = dataclasses.replace(other_models.make(name), mode="joint", optimizer=None)
    with pytest.warns(cleave.ExportNote, match=OTHERS[name]):
        path = cleave.export_spec(spec, tmp_path)
    found, expected = run(path, spec)
    rounded = [tensor for tensor, value in expected.items() if not torch.equal(found[tensor], value)]
    # Of experts' weights, products may be transposed.
    assert all("experts" in tensor for tensor in rounded) and (not rounded or name == "SwitchTransformers"), rounded
    for tensor in rounded:
        assert torch.allclose(found[tensor], expected[tensor], rtol=1e-5, atol=1e-7), tensor


def test_switch_transformers_with_dropout_say_what_to_set(tmp_path):
    spec = other_models.make("SwitchTransformers", dropout_rate=0.1)
    with pytest.raises(cleave.ExportError, match="draws dropout for as many rows as data choose.*: set dropout_rate=0.0"):
        cleave.export_spec(spec, tmp_path)
    assert not list(tmp_path.iterdir())


# With a seed of the weights: in a loop over experts, silu rounds some tokens otherwise with 1 and 2.
TORCHTITAN = [("qwen3_moe", 0), ("qwen3_moe_float", 0), ("qwen3_moe_float", 1), ("qwen3_moe_float", 2)]


@pytest.mark.parametrize("name, seed", TORCHTITAN)
def test_experts_of_torchtitan_are_its_own_bit_for_bit(tmp_path, name, seed):
    import torchtitan.models.moe.moe as moe

    spec = torchtitan_models.make(name, seed=seed)
    before = torch.histc, moe.GroupedExperts.forward
    with pytest.warns(cleave.ExportNote) as notes:
        path = cleave.export_spec(spec, tmp_path)
    assert (torch.histc, moe.GroupedExperts.forward) == before
    texts = [str(note.message) for note in notes]
    for kind, said in (("GroupedExperts", "without padding"), ("TokenReorderer", "histc"), ("TokenChoiceTopKRouter", "histc")):
        assert sum(f".{kind} " in text and said in text for text in texts) == 1, kind
    interpreter = Interpreter(path.read_text())
    # Copied: a product of one row is rounded by how its matrix is aligned, in a file otherwise than in a module.
    weights = {tensor: value.clone() for tensor, value in load_file(path.with_suffix(".safetensors")).items()}
    found = interpreter.run("microbatch", microbatch_values(interpreter, weights, spec))
    with torchtitan_models.runs_on_a_processor():
        as_is = testing.evaluate(spec, seed=7)
        with torchtitan_models.silu_rounds_alike():
            expected = testing.evaluate(spec, seed=7)
    assert all(torch.equal(found[tensor], value) for tensor, value in expected.items())
    # The last bit of some results of silu, through two layers.
    assert all((found[tensor] - value).norm() <= 1e-6 * value.norm() for tensor, value in as_is.items())


@pytest.mark.parametrize("changed", ["GroupedExperts.forward", "_run_experts_grouped_mm", "indices_padding_wrapper"])
def test_experts_of_torchtitan_that_have_changed_are_refused(tmp_path, monkeypatch, changed):
    import torchtitan.models.moe.moe as moe

    def another(*arguments):
        return arguments[-2]

    owner, _, function = changed.rpartition(".")
    monkeypatch.setattr(getattr(moe, owner) if owner else moe, function, another)
    histc = torch.histc
    with pytest.raises(cleave.ExportError, match="GroupedExperts.forward runs a Triton kernel.* not the one of torchtitan 0.2.2"):
        cleave.export_spec(torchtitan_models.make("qwen3_moe"), tmp_path)
    assert torch.histc is histc and not list(tmp_path.iterdir())


def test_counts_have_static_lengths(tmp_path):
    class Counts(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.scale = torch.nn.Parameter(torch.ones(4))

        def forward(self, numbers):
            return (torch.bincount(numbers, minlength=4) * self.scale).sum()

    numbers = torch.tensor([0, 1, 1, 3])
    with pytest.warns(cleave.ExportNote, match="torch.bincount gives `minlength` counts"):
        path = cleave.export_spec(cleave.ExportSpec(Counts(), (numbers,), mode="joint", name="counts"), tmp_path)
    assert "tensor<4xi64>" in path.read_text()
