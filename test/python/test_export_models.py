"""The program of every exported model computes what eager mode does, bitwise."""

import cleave_path  # noqa: F401
import cleave.testing
import pytest
import torch
from combinations_cover import covered, part_of_today
from exported_models import MODELS
from interpreter import role_name
from library_models import LIBRARY_MODELS

pytestmark = pytest.mark.usefixtures("one_thread")


def assert_same(found, expected):
    """Bitwise, NaN equal to NaN."""
    assert sorted(found) == sorted(expected)
    for name, value in expected.items():
        assert found[name].dtype == value.dtype, name
        assert torch.equal(found[name].nan_to_num(7.25), value.nan_to_num(7.25)), name
        assert torch.equal(found[name].isnan(), value.isnan()), name


@pytest.mark.parametrize("name", part_of_today([*MODELS, *LIBRARY_MODELS]))
def test_microbatch_is_eager_bitwise(exported, name):
    model = exported(name)
    inputs = cleave.testing.example_inputs(model.spec)
    expected = cleave.testing.evaluate(model.spec, inputs, seed=11)
    arguments = model.arguments(inputs, model.state(), 1.0, seed=11, offset=0)
    for role in model.microbatch.roles("accumulator"):
        arguments[role_name(role)] = None
    assert_same(model.interpreter.run("microbatch", arguments), expected)
    assert "loss" in expected and len(expected) > 10


@covered({"name": ["gpt_dropout", "gpt_autocast", "moe", "llama", "resnet18"], "mode": ["forward", "loss"]}, strength=1)
def test_forward_is_eager_bitwise(exported, name, mode):
    model = exported(name, mode)
    inputs = cleave.testing.example_inputs(model.spec)
    expected = cleave.testing.evaluate(model.spec, inputs, seed=11)
    arguments = model.arguments(inputs, model.state(), 1.0, seed=11, offset=0)
    assert_same(model.interpreter.run("microbatch", arguments), expected)
    assert "output.0" in expected and ("loss" in expected) == (mode == "loss")
    assert not model.microbatch.roles("seed") and "@update" not in model.text


def test_a_weight_under_four_names(exported):
    model = exported("t5")
    aliases = '["encoder.embed_tokens.weight", "decoder.embed_tokens.weight", "lm_head.weight"]'
    assert f'#train.role<parameter "shared.weight" aliases {aliases}>' in model.text
    assert "shared.weight" in model.weights and "lm_head.weight" not in model.weights
    module = model.spec.module
    assert type(module.shared.weight) is torch.nn.Parameter
    assert module.lm_head.weight is module.decoder.embed_tokens.weight is module.shared.weight


def test_strided_results_are_views(exported):
    """Pooling gives its result other strides; shared over ranks and in kernels, values have others again."""
    assert "as_strided" not in exported("convnext").text


# Steps by model: fewer where a step is slow.
STEPS = {
    "gpt_tied": 20,
    "gpt_dropout": 20,
    "gpt_autocast": 20,
    "moe": 20,
    "gpt2": 20,
    "llama": 20,
    "minilm": 2,
    "resnet18": 5,
}


@pytest.mark.parametrize("name", part_of_today(list(STEPS)))
def test_steps_are_eager_bitwise(exported, name):
    model = exported(name)
    microbatches = 2
    generator = torch.Generator().manual_seed(3)
    batches = [
        cleave.testing.random_batch(model.spec, microbatches, generator) for _ in range(STEPS[name])
    ]
    expected = cleave.testing.train(model.spec, batches, microbatches, seed=5)

    state = model.state()
    update = model.interpreter.functions["update"]
    for _, _, role in update.arguments:
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
    stored = {
        role_name(r) for r in roles if r.startswith(("#train.role<param", "#train.role<buffer"))
    }
    assert stored == parameters | buffers
    constants = {role_name(r) for r in model.microbatch.roles("constant")}
    assert set(model.weights) == {n.split(".", 1)[1] for n in stored} | constants
    with_gradient = {
        role_name(r).removeprefix("grad.") for _, r in model.microbatch.results if "gradient" in r
    }
    updated = {
        role_name(r).removeprefix("param.")
        for r in model.interpreter.functions["update"].roles("parameter")
    }
    assert with_gradient == updated
