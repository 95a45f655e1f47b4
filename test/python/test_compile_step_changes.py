"""What changes between steps is seen by a compiled step, whose model and optimizer native code looks at before each."""

import gc
import re
import weakref

import cleave_path  # noqa: F401
import cleave
import pytest
import torch
import torch.nn.functional as F
from cleave.bound_program import BoundProgram

pytestmark = pytest.mark.usefixtures("one_thread")


def batch(seed):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(6, 8, generator=generator), torch.randint(4, (6,), generator=generator)


@pytest.fixture
def model():
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Tanh(), torch.nn.Linear(16, 4))


@pytest.fixture
def optimizer(model):
    return torch.optim.AdamW(model.parameters(), lr=1e-2, fused=True)


@pytest.fixture
def step(model, optimizer):
    """After two steps."""
    step = cleave.compile_step(model, F.cross_entropy, optimizer)
    for number in range(2):
        step(*batch(number))
    return step


def test_steps_look_closely_only_where_something_is_another(monkeypatch):
    looked = []
    look = BoundProgram._look_closely
    monkeypatch.setattr(BoundProgram, "_look_closely", lambda self: looked.append(look(self)))
    model = torch.nn.Sequential(torch.nn.Linear(8, 4), torch.nn.Dropout(0.5), torch.nn.BatchNorm1d(4))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2, fused=True)
    step = cleave.compile_step(model, F.cross_entropy, optimizer)
    for number in range(3):
        step(*batch(number))
        model.eval().train()
    assert not looked
    model[1].p = float("0.5")  # another object, and the same number
    step(*batch(3))
    assert looked == [None]
    model[1].p = 0.25
    with pytest.raises(cleave.Error, match="'1.p' was 0.5 when the step was compiled and is 0.25"):
        step(*batch(4))


def change_count(state):
    state["step"] = state["step"] + 1


@pytest.mark.parametrize(
    "change, found",
    [
        (lambda state: state.pop("exp_avg_sq"), "expected exp_avg_sq of '0.bias' of shape (16,), found none"),
        (dict.clear, "expected exp_avg of '0.bias' of shape (16,), found none"),
        (change_count, "expected the same step for all parameters, found [2, 3]"),
        (lambda state: state["step"].add_(1), "expected the same step for all parameters, found [2, 3]"),
    ],
    ids=["taken away", "cleared", "another count", "counted on"],
)
def test_a_state_that_is_changed_for_one_parameter(step, model, optimizer, change, found):
    change(optimizer.state[model[0].bias])
    with pytest.raises(cleave.Error, match=re.escape(f"the optimizer's state: {found}")):
        step(*batch(2))


def test_a_state_that_is_taken_from_the_optimizers(step, model, optimizer):
    optimizer.state[model[0].weight] = optimizer.state.pop(model[0].weight)  # in another order, which does not matter
    step(*batch(2))
    del optimizer.state[model[0].weight]
    with pytest.raises(cleave.Error, match=re.escape("expected exp_avg of '0.weight' of shape (16, 8), found none")):
        step(*batch(3))


def test_a_model_that_has_its_step_is_collected():
    model = torch.nn.Linear(8, 4)
    model.compiled = cleave.compile_step(model, F.cross_entropy, torch.optim.AdamW(model.parameters(), fused=True))
    for number in range(2):
        model.compiled(*batch(number))
    gone = weakref.ref(model)
    del model
    gc.collect()
    assert gone() is None
