"""A backward in two halves gives, bit for bit, the gradients of the whole, whenever dW runs."""

import dataclasses
import itertools
import re
import subprocess

import cleave_run  # noqa: F401
import combinations_cover
import gpt
import pytest
import torch
import torchvision
from cleave import testing
from exported_models import MODELS
from safetensors.torch import save_file
from torch import nn
from torch.utils.checkpoint import checkpoint

import cleave

# --partition-joint's options and --split-backward's.
FORMS = [
    ("policy=save-all", "inputs=activations"),
    ("policy=min-cut", "inputs=activations recompute=cheap"),
    ("policy=min-cut recompute=all", "inputs=activations"),
    ("policy=save-all", "inputs=roles"),
]


def cases():
    """Every model with its chain of activations split, all forms with CLEAVE_TEST_ALL."""
    if combinations_cover.run_all():
        return list(itertools.product(MODELS, FORMS))
    return [(name, FORMS[(i + combinations_cover.seed()) % 3]) for i, name in enumerate(MODELS)] + [("gpt_tied", FORMS[3])]


# Stages: modules whose input is an activation, with a gradient. ------------------------------------


class Blocks(nn.Module):
    """Transformer blocks; with checkpoint, each is recomputed in the backward."""

    def __init__(self, config, again=False):
        super().__init__()
        self.h = nn.ModuleList([gpt.Block(config) for _ in range(2)])
        self.again = again

    def forward(self, x):
        for block in self.h:
            x = checkpoint(block, x, use_reentrant=False) if self.again else block(x)
        return x


class RMSNormMLP(nn.Module):
    """What Llama's layers add to the above: a norm spelled out, and a gate."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.linspace(0.5, 1.5, 16))
        self.gate, self.up = nn.Linear(16, 32, bias=False), nn.Linear(16, 32, bias=False)
        self.down = nn.Linear(32, 16, bias=False)

    def forward(self, x):
        n = self.weight * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6))
        return x + self.down(nn.functional.silu(self.gate(n)) * self.up(n))


class Tied(nn.Module):
    """One weight in two places, under two names, and one that is frozen."""

    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(16, 16), nn.Linear(16, 16, bias=False)
        self.last.weight = self.first.weight
        self.frozen = nn.Linear(16, 16)
        self.frozen.requires_grad_(False)

    def forward(self, x):
        return self.last(torch.tanh(self.frozen(torch.tanh(self.first(x)))))


class Norms(nn.Module):
    """Batch norm with its buffers, group norm, and an input that is added to a parameter."""

    def __init__(self):
        super().__init__()
        self.shift = nn.Parameter(torch.linspace(-1, 1, 8 * 8).reshape(8, 8))
        self.conv, self.bn = nn.Conv2d(4, 8, 3, padding=1), nn.BatchNorm2d(8)
        self.gn = nn.GroupNorm(2, 8)

    def forward(self, x):
        return self.gn(torch.relu(self.bn(self.conv(x + self.shift))))


def stage(name):
    torch.manual_seed(7)
    config = gpt.GPTConfig(vocabulary=8, context=16, width=32, heads=2, layers=2)
    modules = {
        "blocks": (lambda: Blocks(config), (2, 16, 32)),
        "blocks_dropout": (lambda: Blocks(dataclasses.replace(config, dropout=0.2)), (2, 16, 32)),
        "blocks_again": (lambda: Blocks(config, again=True), (2, 16, 32)),
        "rms_norm_mlp": (RMSNormMLP, (4, 16)),
        "tied": (Tied, (4, 16)),
        "norms": (Norms, (4, 4, 8, 8)),
        "resnet_block": (lambda: torchvision.models.resnet18().layer2.train(), (2, 64, 8, 8)),
        "no_parameters": (nn.GELU, (4, 16)),
    }
    make, shape = modules[name]
    module = make()
    trained = [p for p in module.parameters() if p.requires_grad]
    return cleave.ExportSpec(
        module=module,
        args=(torch.randn(shape, requires_grad=True),),
        loss=lambda out: out.square().mean(),
        optimizer=torch.optim.SGD(trained, lr=0.1) if trained else None,
        mode="joint",
        name=name,
    )


STAGES = ["blocks", "blocks_dropout", "blocks_again", "rms_norm_mlp", "tied", "norms",
          "resnet_block", "no_parameters"]  # fmt: skip

# Tools ---------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def split(build_dir, tmp_path_factory):
    """Splits a program: the new program's path, beside its weights, and what explain prints."""
    folder = tmp_path_factory.mktemp("split")
    numbers = itertools.count()

    def run(path, partition, options):
        parted = folder / f"{path.stem}.{next(numbers)}.mlir"
        result = subprocess.run(
            [build_dir / "bin" / "cleave-opt", path, f"--partition-joint={partition}",
             f"--split-backward=explain=true {options}", "--verify-split-backward", "-o", parted],
            capture_output=True, text=True)  # fmt: skip
        assert result.returncode == 0, result.stderr
        parted.with_suffix(".safetensors").symlink_to(path.with_suffix(".safetensors"))
        return parted, result.stderr

    return run


def write_batch(spec, microbatches, path):
    tensors = testing.random_batch(spec, microbatches, torch.Generator().manual_seed(3))
    save_file({name: tensor.detach().contiguous() for name, tensor in tensors.items()}, path)
    return path


def functions(text):
    """The text of each function by name."""
    return {m[1]: m[0] for m in re.finditer(r"func\.func @(\w+)\(.*?\n  }", text, re.DOTALL)}


def ops(explained, phase):
    return int(re.search(rf"^{phase}: (\d+) ops", explained, re.MULTILINE)[1])


# Tests ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name,form", cases())
def test_halves_compute_what_the_whole_does(name, form, program, split, cleave_run, tmp_path):
    """Once as they come, and with dI of 8 microbatches before dW of the first."""
    spec, path = program(name)
    parted, explained = split(path, *form)
    assert (ops(explained, "backward_input") > 0) == ("activations" in form[1])
    batch = write_batch(spec, 1, tmp_path / "one.safetensors")
    cleave_run.succeed(path, "--against", parted, "--inputs", batch, "--seed", 3)
    batch = write_batch(spec, 8, tmp_path / "eight.safetensors")
    cleave_run.succeed(
        parted, "--against", path, "--steps", 1, "--microbatches", 8, "--seed", 3,
        "--data", f"safetensors:{batch}", "--weight-gradients=deferred")  # fmt: skip


@pytest.mark.parametrize("name", STAGES)
def test_stages(name, split, cleave_run, tmp_path):
    """The gradient of the stage's input is dI's, those of its parameters dW's, bitwise."""
    spec = stage(name)
    path = cleave.export_spec(spec, tmp_path)
    batch = write_batch(spec, 1, tmp_path / "one.safetensors")
    more = write_batch(spec, 8, tmp_path / "eight.safetensors")
    for form in (("policy=save-all", ""), ("policy=min-cut", "recompute=cheap")):
        parted, explained = split(path, *form)
        halves = functions(parted.read_text())
        heads = {n: text[: text.index("attributes {")] for n, text in halves.items()}
        gradient_of_input = re.compile(r"gradient \"(x|input)\"")
        assert gradient_of_input.search(heads["backward_input"])
        assert not re.search(r"accumulator", heads["backward_input"])
        assert not gradient_of_input.search(heads["backward_weight"])
        assert (ops(explained, "backward_weight") == 0) == (name == "no_parameters")
        cleave_run.succeed(path, "--against", parted, "--inputs", batch, "--seed", 3)
        if name == "no_parameters":
            continue
        cleave_run.succeed(
            parted, "--against", path, "--steps", 2, "--microbatches", 4, "--seed", 3,
            "--data", f"safetensors:{more}", "--weight-gradients=deferred")  # fmt: skip


def test_tied_weights_are_counted_once(split, tmp_path):
    """One accumulation for both uses (pytorch issue 180952 has the gradient twice)."""
    path = cleave.export_spec(stage("tied"), tmp_path)
    parted, _ = split(path, "policy=min-cut", "")
    weight = functions(parted.read_text())["backward_weight"]
    assert weight.count("train.accumulate") == 2  # the tied weight and first.bias
    assert weight.count('gradient "first.weight"') == 1
    assert "frozen" not in weight


def test_dropping_work_changes_what_is_held(program, split):
    """More recomputation never holds more, and modules cut the chain of activations short."""
    _, path = program("llama")

    def held(options):
        return int(re.search(r"per microbatch: (\d+) bytes", split(path, "policy=save-all", options)[1])[1])

    assert held("inputs=activations recompute=cheap") <= held("inputs=activations")
    _, path = program("gpt_untied")
    lengths = [
        ops(split(path, "policy=save-all", f"inputs={inputs}")[1], "backward_input")
        for inputs in ("activations", "h", "h.1", "lm_head", "roles")
    ]
    assert lengths == sorted(lengths, reverse=True) and len(set(lengths[1:])) == 4
    assert lengths[-1] == 0
