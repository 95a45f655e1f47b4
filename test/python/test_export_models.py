"""Every model of the project is exported, and its program computes what eager mode does, bitwise."""

import os
import pathlib
import subprocess
import sys

# Some virtual machines announce AMX and then refuse it; bfloat16 would crash there.
os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_FP16")

import pytest
import torch
from safetensors.torch import load_file

SOURCE = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(SOURCE / "python"), str(SOURCE / "examples")]

import cleave
import cleave.testing
import gpt
import huggingface
import moe
import vision
from interpreter import Interpreter, role_name

MODELS = {
    "gpt_tied": gpt.tied,
    "gpt_untied": gpt.untied,
    "gpt_dropout": gpt.dropout,
    "gpt_untied_dropout": gpt.untied_dropout,
    "gpt_checkpointed": gpt.checkpointed,
    "gpt_autocast": gpt.autocast,
    "moe": moe.moe,
    "gpt2": huggingface.gpt2,
    "llama": huggingface.llama,
    "minilm": huggingface.minilm,
    "resnet18": vision.resnet18,
}


class Exported:
    """A model's spec, its exported files, and an interpreter of the text."""

    def __init__(self, factory, folder):
        self.spec = factory()
        self.path = cleave.export_spec(self.spec, folder)
        self.text = self.path.read_text()
        self.weights = load_file(self.path.with_suffix(".safetensors"))
        self.interpreter = Interpreter(self.text)
        self.microbatch = self.interpreter.functions["microbatch"]

    def state(self):
        """Argument values for the stored tensors, by role name."""
        values = {}
        for _, _, role in self.microbatch.arguments:
            name = role_name(role)
            if role.startswith(("#train.role<parameter", "#train.role<buffer")):
                values[name] = self.weights[name.split(".", 1)[1]].clone()
            elif role.startswith("#train.role<constant"):
                values[name] = self.weights[name].clone()
        return values

    def arguments(self, inputs, state, loss_seed, seed, offset):
        values = dict(state)
        values |= inputs
        values["seed"] = torch.tensor(loss_seed)
        values["rng_seed"], values["rng_offset"] = torch.tensor(seed), torch.tensor(offset)
        return values


@pytest.fixture(scope="module", autouse=True)
def one_thread():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    """Exports a model once."""
    cache = {}

    def get(name):
        if name not in cache:
            cache[name] = Exported(MODELS[name], tmp_path_factory.mktemp(name))
        return cache[name]

    return get


def assert_same(found, expected):
    """Bitwise, NaN equal to NaN."""
    assert sorted(found) == sorted(expected)
    for name, value in expected.items():
        assert found[name].dtype == value.dtype, name
        assert torch.equal(found[name].nan_to_num(7.25), value.nan_to_num(7.25)), name
        assert torch.equal(found[name].isnan(), value.isnan()), name


@pytest.mark.parametrize("name", MODELS)
def test_microbatch_is_eager_bitwise(exported, name):
    model = exported(name)
    inputs = cleave.testing.example_inputs(model.spec)
    expected = cleave.testing.evaluate(model.spec, inputs, seed=11)
    arguments = model.arguments(inputs, model.state(), 1.0, seed=11, offset=0)
    for role in model.microbatch.roles("accumulator"):
        arguments[role_name(role)] = None
    assert_same(model.interpreter.run("microbatch", arguments), expected)
    assert "loss" in expected and len(expected) > 10


# MiniLM, GPT-2 and Llama take AdamW's path as the GPT does; they run on whole steps in cleave-run's tests.
@pytest.mark.parametrize("name", ["gpt_tied", "gpt_dropout", "gpt_autocast", "moe", "resnet18"])
def test_steps_are_eager_bitwise(exported, name):
    model = exported(name)
    microbatches = 2
    generator = torch.Generator().manual_seed(3)
    steps = 5 if name == "resnet18" else 20
    batches = [
        cleave.testing.random_batch(model.spec, microbatches, generator) for _ in range(steps)
    ]
    expected = cleave.testing.train(model.spec, batches, microbatches, seed=5)

    state = model.state()
    update = model.interpreter.functions["update"]
    for _, type_, role in update.arguments:
        if role.startswith("#train.role<optimizer_state"):
            parameter = role_name(role).removeprefix("optim.").rsplit(".", 1)[0]
            state[role_name(role)] = torch.zeros_like(state[f"param.{parameter}"])
    draws = int(model.text.partition("train.draws = ")[2].partition(" ")[0] or 0)
    losses, count = [], 0
    for step, batch in enumerate(batches, start=1):
        gradients = {role_name(r): None for r in model.microbatch.roles("accumulator")}
        total = 0.0
        for inputs in cleave.testing.split_batch(model.spec, batch, microbatches):
            values = model.arguments(inputs, state, 1 / microbatches, 5, count * draws)
            results = model.interpreter.run("microbatch", values | gradients)
            total += float(results.pop("loss"))
            gradients = {n: v for n, v in results.items() if n.startswith("grad.")}
            state |= {n: v for n, v in results.items() if n.startswith("buffer.")}
            count += 1
        losses.append(total / microbatches)
        values = state | gradients | {"step": torch.tensor(float(step))}
        state |= model.interpreter.run("update", values)
    assert losses == expected.losses
    kept = {n: v for n, v in state.items() if n.startswith(("param.", "buffer.", "optim."))}
    assert_same(kept, expected.tensors)


@pytest.mark.parametrize("name", MODELS)
def test_roles_cover_the_module(exported, name):
    model = exported(name)
    module = model.spec.module
    parameters = {f"param.{n}" for n, _ in module.named_parameters()}
    buffers = {f"buffer.{n}" for n, _ in module.named_buffers()}
    roles = [role for _, _, role in model.microbatch.arguments]
    assert len(set(map(role_name, roles))) == len(roles)
    stored = {role_name(r) for r in roles if r.startswith(("#train.role<param", "#train.role<buffer"))}
    assert stored == parameters | buffers
    constants = {role_name(r) for r in model.microbatch.roles("constant")}
    assert set(model.weights) == {n.split(".", 1)[1] for n in stored} | constants
    with_gradient = {role_name(r).removeprefix("grad.") for _, r in model.microbatch.results if "gradient" in r}
    updated = {
        role_name(r).removeprefix("param.")
        for r in model.interpreter.functions["update"].roles("parameter")
    }
    assert with_gradient == updated


@pytest.mark.parametrize("name", MODELS)
def test_program_is_a_fixed_point_of_cleave_opt(exported, name, build_dir, tmp_path):
    check_fixed_point(exported(name).path, build_dir, tmp_path)


def check_fixed_point(path, build_dir, tmp_path):
    """The text parses and verifies, and printing it again changes nothing; bytecode too."""

    def opt(source, *options):
        out = tmp_path / f"out{len(list(tmp_path.iterdir()))}"
        command = [build_dir / "bin/cleave-opt", source, *options, "-o", out]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stderr[:2000]
        return out

    once = opt(path, "--mlir-print-debuginfo")
    assert opt(once, "--mlir-print-debuginfo").read_bytes() == once.read_bytes()
    assert opt(opt(path, "--emit-bytecode"), "--mlir-print-debuginfo").read_bytes() == once.read_bytes()


def test_a_graph_of_seven_thousand_ops(build_dir, tmp_path):
    path = cleave.export_spec(huggingface.llama32(), tmp_path)
    assert path.read_text().count(" = aten.") > 5000
    (tmp_path / "check").mkdir()
    check_fixed_point(path, build_dir, tmp_path / "check")
