"""Weights by a module's own initialisation are those of constructing it on the CPU, in little memory."""

import contextlib
import resource
import subprocess
import sys

import cleave_path  # noqa: F401
import cleave
import pytest
import torch
from cleave.tensor_files import load_file
from torch import nn


def llama():
    from transformers import LlamaConfig, LlamaForCausalLM

    return LlamaForCausalLM(
        LlamaConfig(
            vocab_size=64, hidden_size=16, intermediate_size=32, num_hidden_layers=3, num_attention_heads=4,
            num_key_value_heads=2,
        )
    )  # fmt: skip


def t5():
    from transformers import T5Config, T5ForConditionalGeneration

    return T5ForConditionalGeneration(T5Config(vocab_size=64, d_model=16, d_ff=32, d_kv=4, num_layers=2, num_heads=4))


def mamba():
    from transformers import MambaConfig, MambaForCausalLM

    return MambaForCausalLM(MambaConfig(vocab_size=64, hidden_size=16, num_hidden_layers=2, state_size=4))


def gpt2():
    from transformers import GPT2Config, GPT2LMHeadModel

    return GPT2LMHeadModel(GPT2Config(vocab_size=64, n_positions=32, n_embd=16, n_layer=2, n_head=4))


def vision():
    import timm

    return timm.create_model("vit_tiny_patch16_224", depth=2, embed_dim=24, num_heads=3, num_classes=10)


def resnet():
    import torchvision

    return torchvision.models.resnet18(num_classes=10)


class Mixed(nn.Module):
    """Whatever torch.nn.init has, views of a parameter, copies, ties, values from elsewhere, and seeds."""

    def __init__(self):
        super().__init__()
        self.layers = nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16), 2)
        self.embedding = nn.Embedding(12, 8, padding_idx=3)
        self.head = nn.Linear(8, 12, bias=False)
        self.head.weight = self.embedding.weight
        self.filters = nn.Parameter(torch.empty(6, 6))
        nn.init.orthogonal_(self.filters)
        self.cut = nn.Parameter(nn.init.trunc_normal_(torch.empty(5, 7), std=0.1)).data.t()
        self.half = nn.Linear(4, 4).to(torch.bfloat16)
        self.lines = nn.ParameterList([nn.Parameter(part.clone()) for part in torch.randn(4, 3).unbind()])
        self.register_buffer("places", torch.arange(5) * 2 + torch.tensor([1, 2, 3, 4, 5]))
        self.register_buffer("noise", torch.rand(3) + torch.randn(3), persistent=False)
        torch.manual_seed(5)
        self.seeded = nn.Parameter(torch.randn(3, 3))
        with torch.no_grad():
            self.seeded[1].fill_(2).mul_(self.seeded[0])
        self.norm = nn.utils.parametrizations.weight_norm(nn.Linear(3, 3))
        self.rotation = nn.utils.parametrizations.orthogonal(nn.Linear(4, 4))  # has operators that meta has not
        self.register_buffer("phases", torch.polar(torch.ones(3), torch.rand(3)))
        # What follows depends on values.
        first, second = self.layers.layers[0].linear1.weight.sum(), torch.randn(4)
        if first > 0:
            self.layers.layers[0].linear1.weight.data.neg_()
        while not (second > 1).any():
            second = torch.randn(4)
        self.chosen = nn.Parameter(second * float(self.filters.double().norm()))
        self.listed = nn.Parameter(torch.tensor(self.chosen.tolist()).flip(0))
        self.positions = nn.Parameter(torch.nonzero(self.chosen > 1) + torch.rand(1))
        self.recurrent = nn.LSTM(3, 4)
        self.unused = nn.Parameter(torch.zeros(0, 4))


MODELS = [(make, torch.float32) for make in (llama, t5, mamba, gpt2, vision, resnet, Mixed)]
MODELS += [(make, torch.bfloat16) for make in (llama, mamba)]


def tensors_of(module):
    return {**dict(module.named_parameters()), **dict(module.named_buffers())}


@pytest.mark.parametrize("make, dtype", MODELS, ids=lambda what: getattr(what, "__name__", str(what)))
def test_equal_to_the_module_made_on_the_cpu(tmp_path, make, dtype):
    @contextlib.contextmanager
    def of_type():
        before = torch.get_default_dtype()
        torch.set_default_dtype(dtype)
        try:
            yield
        finally:
            torch.set_default_dtype(before)

    def on_meta():
        with of_type(), torch.device("meta"):
            return make()

    torch.manual_seed(11)
    with of_type():
        expected = tensors_of(make())
    before = torch.get_rng_state()
    found = load_file(cleave.initialize(on_meta, tmp_path / "weights.safetensors", seed=11))
    assert torch.equal(torch.get_rng_state(), before)
    assert found.keys() == expected.keys()
    different = [
        name
        for name, tensor in expected.items()
        if found[name].dtype != tensor.dtype or not torch.equal(found[name], tensor)
    ]
    assert not different
    other = load_file(cleave.initialize(on_meta, tmp_path / "weights.safetensors", seed=12))
    assert any(not torch.equal(other[name], tensor) for name, tensor in expected.items())


def test_a_module_with_values_is_written_as_it_is(tmp_path):
    module = resnet()
    found = load_file(cleave.initialize(lambda: module, tmp_path / "weights.safetensors"))
    assert all(torch.equal(found[name], tensor) for name, tensor in tensors_of(module).items())


DEEP = """
import resource, sys, torch, cleave
from torch import nn
layers = int(sys.argv[1])
def make():
    with torch.device("meta"):
        module = nn.Sequential(*(nn.Linear(2048, 2048, bias=False) for _ in range(layers)))
        for layer in module:
            nn.init.trunc_normal_(layer.weight)
        return module
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
cleave.initialize(make, sys.argv[2])
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


def test_memory_is_that_of_one_module(tmp_path):
    def peak(layers):
        path = tmp_path / "weights.safetensors"
        output = subprocess.run([sys.executable, "-c", DEEP, str(layers), path], check=True, capture_output=True).stdout
        assert path.stat().st_size > layers * 2048 * 2048 * 4
        path.unlink()
        return int(output) * 1024

    one = 2048 * 2048 * 4
    assert peak(16) < peak(2) + 2 * one < 10 * one


class Unfilled(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(4, 4)
        self.weight = nn.Parameter(torch.empty(4, 4))

    def init_weights(self):
        nn.init.ones_(self.weight)


def test_a_module_without_initialisation_is_refused(tmp_path):
    def make(initialised=False):
        with torch.device("meta"):
            module = Unfilled()
            if initialised:
                module.init_weights()
            return module

    path = tmp_path / "weights.safetensors"
    with pytest.raises(cleave.ExportError, match=r"constructing Unfilled gives 1 of .* no values: 'weight'; expected"):
        cleave.initialize(make, path)
    assert not list(tmp_path.iterdir())
    cleave.initialize(lambda: make(True), path)
    assert torch.equal(load_file(path)["weight"], torch.ones(4, 4))


def test_what_cannot_be_recorded_is_refused(tmp_path):
    from torch._subclasses import FakeTensorMode

    path = tmp_path / "weights.safetensors"

    def fake():
        with FakeTensorMode():
            return nn.Linear(4, 4)

    def other_generator():
        with torch.device("meta"):
            module = nn.Linear(4, 4)
        nn.init.normal_(module.weight, generator=torch.Generator())
        return module

    def value_of_none():
        with torch.device("meta"):
            torch.empty(()).item()

    def own_operator():
        with torch.device("meta"):
            module = nn.Linear(4, 4)
        torch.ops.cleave_test_init.fill_(module.weight.data)
        return module

    with torch.library._scoped_library("cleave_test_init", "DEF") as library:
        library.define("fill_(Tensor(a!) x) -> Tensor(a!)")
        library.impl("fill_", lambda x: x.fill_(1), "CPU")
        with pytest.raises(
            cleave.ExportError,
            match="expected an initialisation by operators that PyTorch has for the meta device, found cleave_test_init::fill_",
        ):
            cleave.initialize(own_operator, path)
    for make, message in (
        (fake, "'weight' was made under FakeTensorMode"),
        (value_of_none, "the constructor asks for the value of a tensor that it gave none"),
        (other_generator, "expected an initialisation from PyTorch's default generator, found normal_"),
        (lambda: 3, "expected a cleave.ExportSpec or a torch.nn.Module, found a value of type int"),
    ):
        with pytest.raises(cleave.ExportError, match=message):
            cleave.initialize(make, path)
    with pytest.raises(cleave.ExportError, match="cannot write .*: No such file or directory"):
        cleave.initialize(lambda: nn.Linear(2, 2), tmp_path / "none" / "weights.safetensors")
    assert not list(tmp_path.iterdir())
