"""The table of `docs/random.md`: what each random operator takes from PyTorch's CPU generator."""

import struct

import cleave_path  # noqa: F401
import pytest
import torch
from cleave.export import random_ops
from interpreter import seek

FLOATS = (torch.float32, torch.float64, torch.bfloat16, torch.float16)
aten = torch.ops.aten


def engine():
    """The generator's state words, position, and whether a normal number is cached."""
    state = torch.default_generator.get_state().numpy().tobytes()
    _, left, _, position = struct.unpack_from("<QiiQ", state, 0)
    *_, cached = struct.unpack_from("<dddi", state, 24 + 624 * 8)
    return state[24 : 24 + 624 * 8], left, position, cached


def node(value):
    """A graph node that has `value`, as the exporter sees it."""
    graph = torch.fx.Graph()
    placeholder = graph.placeholder("x")
    placeholder.meta["val"] = value
    return placeholder


def limit(x):
    """Of random integers: narrow types hold no large ones."""
    return 2**28 if x.dtype == torch.float64 else 100


CALLS = {
    aten.native_dropout.default: (
        lambda x: (x, 0.3, True),
        lambda x: {"input": x, "p": 0.3, "train": True},
    ),
    aten.bernoulli.p: (lambda x: (x, 0.3), lambda x: {"self": x, "p": 0.3}),
    aten.bernoulli.default: (lambda x: (x.sigmoid(),), lambda x: {"self": x}),
    aten.rand_like.default: (lambda x: (x,), lambda x: {"self": x}),
    aten.uniform.default: (
        lambda x: (x, -1.0, 2.0),
        lambda x: {"self": x, "from": -1.0, "to": 2.0},
    ),
    aten.randn_like.default: (lambda x: (x,), lambda x: {"self": x}),
    aten.normal_functional.default: (
        lambda x: (x, 1.0, 2.0),
        lambda x: {"self": x, "mean": 1.0, "std": 2.0},
    ),
    aten.exponential.default: (lambda x: (x, 2.0), lambda x: {"self": x, "lambd": 2.0}),
    aten.randint_like.default: (lambda x: (x, 10), lambda x: {"self": x, "high": 10}),
    # From a range of 2**28 on, a number takes two draws.
    aten.randint_like.low_dtype: (
        lambda x: (x, -5, limit(x)),
        lambda x: {"self": x, "low": -5, "high": limit(x.meta["val"])},
    ),
    aten.randperm.default: (lambda x: (x.numel(),), lambda x: {"n": x.meta["val"].numel()}),
    aten.bernoulli.Tensor: (lambda x: (x, x.sigmoid()), lambda x: {"self": x, "p": x}),
}


@pytest.mark.parametrize("overload", CALLS, ids=str)
@pytest.mark.parametrize("dtype", FLOATS, ids=lambda d: str(d)[6:])
def test_draws(overload, dtype):
    arguments, bound = CALLS[overload]
    for shape in ((2,), (14,), (15,), (16,), (17,), (31,), (32,), (7, 9), (40, 50)):
        contiguous = torch.ones(shape, dtype=dtype)
        for x in (contiguous, contiguous.t().contiguous().t()):
            values = arguments(x)
            torch.manual_seed(9)
            result = overload(*values)
            after = engine()
            first = result[0] if isinstance(result, tuple) else result
            try:
                call = random_ops.replace(overload, bound(node(x)), result)
            except random_ops.Unsupported:
                assert after[3] == 1, "refused, but no number is cached"
                continue
            assert after[3] == 0
            seek(9, call.draws)
            assert engine() == after, (shape, x.stride())
            assert first.numel() == x.numel()


@pytest.mark.parametrize("dtype", FLOATS, ids=lambda d: str(d)[6:])
def test_draws_of_samples(dtype):
    for shape in ((8,), (3, 7), (5, 40)):
        for samples, replacement in ((1, False), (1, True), (4, False), (4, True)):
            weights = torch.rand(shape).to(dtype) + 0.1
            torch.manual_seed(9)
            result = torch.multinomial(weights, samples, replacement)
            after = engine()
            bound = {"self": node(weights), "num_samples": samples, "replacement": replacement}
            seek(9, random_ops.replace(aten.multinomial.default, bound, result).draws)
            assert engine() == after, (shape, samples, replacement)


def test_consecutive_draws_are_one_stream():
    torch.manual_seed(4)
    torch.rand(33), torch.randn(5, 8)
    expected = torch.nn.functional.dropout(torch.ones(11, 3), 0.4)
    seek(4, 33 + 40 + 16)
    assert torch.equal(torch.nn.functional.dropout(torch.ones(11, 3), 0.4), expected)


@pytest.mark.parametrize("dtype", FLOATS, ids=lambda d: str(d)[6:])
def test_dropout_is_eager_dropout(dtype):
    """The mask and scale of docs/random.md against torch.nn.functional.dropout and its gradient."""
    for percent in range(1, 100):
        p = percent / 100
        x = torch.randn(8, 9, dtype=dtype).t().requires_grad_(percent % 2 == 0)
        gradient = torch.randn(9, 8, dtype=dtype)
        torch.manual_seed(percent)
        expected = torch.nn.functional.dropout(x, p)
        torch.manual_seed(percent)
        mask = torch.empty_like(x, dtype=torch.bool).bernoulli_(1 - p)
        scale = torch.ones((), dtype=dtype).div_(1 - p).item()
        assert torch.equal(x.detach().mul(mask).mul_(scale), expected)
        if x.requires_grad:
            (expected,) = torch.autograd.grad(expected, x, gradient)
            assert torch.equal(aten.native_dropout_backward(gradient, mask, scale), expected)
