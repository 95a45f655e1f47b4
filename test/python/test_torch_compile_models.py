"""torch.compile's back end on models of PyTorch's dashboards: a step is eager mode's, bit for bit.

A run has a few of them, another day's run others; `./dev test --all` has all. bench/torch_compile.py runs them beside
Inductor.
"""

import random

import combinations_cover
import dashboard_steps
import pytest
import torch
from dashboard_steps import Step

# Complex numbers; and two parts of a model that use one value, which Dynamo divides at branches on random numbers.
ALWAYS = ["GoogleFnet", "M2M100ForConditionalGeneration"]

# There the gradients of the encoder's result are added part by part, and not layer by layer.
DIVIDED = {
    "BartForConditionalGeneration", "BlenderbotForConditionalGeneration", "BlenderbotSmallForConditionalGeneration",
    "M2M100ForConditionalGeneration", "MBartForConditionalGeneration", "PLBartForConditionalGeneration",
    "PegasusForConditionalGeneration", "openai/whisper-tiny",
}  # fmt: skip


def models():
    every = dashboard_steps.names()
    if combinations_cover.run_all():
        return every
    others = [name for name in every if name not in ALWAYS]
    return ALWAYS + random.Random(combinations_cover.seed()).sample(others, 4)


@pytest.mark.usefixtures("one_thread")
@pytest.mark.parametrize("name", models())
def test_a_step_is_eager_modes(name):
    expected = results(name)
    programs = []
    found = results(name, backend="cleave", options={"strict": True, "programs": programs})
    assert len(programs) >= 2
    if name in DIVIDED:
        assert dashboard_steps.judge(name, found, expected, dashboard_steps.in_float64(name)) == "same"
        expected = results(name, backend="aot_eager")
    assert dashboard_steps.is_bitwise(found, expected)


def results(name, **compiler):
    torch.compiler.reset()
    try:
        return {key: value.clone() for key, value in Step(dashboard_steps.make(name), **compiler).results().items()}
    finally:
        torch.compiler.reset()


def test_what_differs_is_judged_so():
    one = {"loss": torch.ones(3), "w.grad": torch.ones(4)}
    in_float64 = {name: value.double() for name, value in one.items()}
    judge = dashboard_steps.judge
    for reference in (None, in_float64):
        assert judge("T5Small", {**one}, one, reference) == "bitwise"
        assert judge("T5Small", {**one, "w.grad": one["w.grad"] + 1e-6}, one, reference) == "same"
        assert judge("T5Small", {"loss": one["loss"]}, one, reference) == "differs"
    off = {**one, "w.grad": one["w.grad"] + 0.06}
    assert judge("T5Small", off, one, in_float64) == "differs"
    assert judge("beit_base_patch16_224", off, one, in_float64) == "same"
    # Without float64 it is the direction that counts.
    assert judge("T5Small", off, one, None) == "same"
    assert judge("T5Small", {**one, "w.grad": torch.tensor([1.0, -1, 1, -1])}, one, None) == "differs"
    # None is a gradient of zeros, and of another type than none.
    assert judge("T5Small", {**one, "v.grad": torch.zeros(2)}, one, in_float64) == "same"
    assert judge("T5Small", {**one, "w.grad": one["w.grad"].double()}, one, in_float64) == "differs"
