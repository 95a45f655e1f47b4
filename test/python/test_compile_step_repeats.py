"""A step that is called with the like of its last arguments is not looked at by Python again; what differs is seen."""

import re

import cleave_path  # noqa: F401
import cleave
import pytest
import torch
import torch.nn.functional as F
from cleave import batches, training_step
from cleave.optimizer_state import OptimizerState
from eager_steps import EagerStep, check_is_eager_modes
from torch import nn

pytestmark = pytest.mark.usefixtures("one_thread")


class Scaled(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Sequential(nn.Linear(8, 16), nn.Dropout(0.25), nn.Linear(16, 4))

    def forward(self, x, parts=None, scale=1.0, is_squared=False):
        y = self.inner(x) * scale
        for part in parts or ():
            y = y + part["bias"]
        return y.square() if is_squared else y


def net():
    return Scaled()


def batch(examples=6):
    return torch.randn(examples, 8), torch.randint(4, (examples,))


def adamw(model, **options):
    return torch.optim.AdamW(model.parameters(), **{"lr": 1e-2, "fused": True, **options})


def test_python_looks_at_the_first_steps_only(monkeypatch):
    model = net()
    step = cleave.compile_step(model, F.cross_entropy, adamw(model))
    for _ in range(2):
        step(*batch())
    looked = []
    for owner, name in ((training_step.pytree, "tree_flatten"), (batches, "kind_of"), (OptimizerState, "begin_step")):
        monkeypatch.setattr(owner, name, lambda *_, name=name, **__: looked.append(name))
    for _ in range(3):
        step(*batch())
    assert not looked


def rates_between_batches_of_two_sizes(compile_step):
    """Each size has a program, and each program a session that is given rates."""
    model = net()
    optimizer = adamw(model)
    step = compile_step(model, F.cross_entropy, optimizer)
    rates = [1e-2, 1e-2, 1e-2, 3e-3, 3e-3, 3e-3, 1e-3, 1e-3, 1e-2, 1e-2]
    for number, rate in enumerate(rates):
        optimizer.param_groups[0]["lr"] = rate
        yield step(*batch(4 if number in (1, 3, 4, 7, 9) else 6)).loss
    yield from model.state_dict().values()


def a_rate_that_is_a_tensor(compile_step):
    model = net()
    rate = torch.tensor(1e-2)
    step = compile_step(model, F.cross_entropy, adamw(model, lr=rate))
    for number in range(5):
        rate.fill_(1e-2 / (1 + number))
        yield step(*batch()).loss
    yield from model.state_dict().values()


def options_that_are_loaded(compile_step):
    """load_state_dict gives an optimizer other groups, of the same values but the rate."""
    model = net()
    optimizer = adamw(model)
    step = compile_step(model, F.cross_entropy, optimizer)
    for number in range(6):
        yield step(*batch()).loss
        saved = optimizer.state_dict()
        saved["param_groups"][0]["lr"] = 1e-2 / (2 + number)
        optimizer.load_state_dict(saved)
    yield from model.state_dict().values()


def modes_of_one_module(compile_step):
    model = net()
    step = compile_step(model, F.cross_entropy, adamw(model))
    for number in range(6):
        model.inner[1].training = number % 3 != 1  # by hand, as train() does it
        yield step(*batch()).loss
    yield from model.state_dict().values()


def arguments_of_several_kinds(compile_step):
    """Of one model: nested ones, numbers, and tensors that are views."""
    model = net()
    step = compile_step(model, F.cross_entropy, adamw(model))
    for _ in range(3):
        parts = [{"bias": torch.randn(6, 4)}, {"bias": torch.randn(6, 8)[:, ::2]}]
        x, y = torch.randn(8, 6).t(), torch.randint(4, (6,))
        yield step((x, parts, 0.5, True), y).loss
    yield from model.state_dict().values()


def evaluation_between_steps(compile_step, trains_without_dropout=False):
    model = net().train(not trains_without_dropout)
    step = compile_step(model, F.cross_entropy, adamw(model))
    for _ in range(2):
        for _ in range(2):
            yield step(*batch()).loss
        model.eval()
        for _ in range(2):
            x, y = batch()
            if compile_step is EagerStep:
                with torch.no_grad():
                    yield F.cross_entropy(model(x), y)
            else:
                yield step.evaluate(x, y, microbatches=1).loss
        model.train(not trains_without_dropout)
    yield from model.state_dict().values()


def evaluation_between_steps_in_the_same_mode(compile_step):
    yield from evaluation_between_steps(compile_step, trains_without_dropout=True)


@pytest.mark.parametrize(
    "loop",
    [
        rates_between_batches_of_two_sizes, a_rate_that_is_a_tensor, options_that_are_loaded, modes_of_one_module,
        arguments_of_several_kinds, evaluation_between_steps, evaluation_between_steps_in_the_same_mode,
    ],
    ids=lambda loop: loop.__name__,
)  # fmt: skip
def test_a_loop_is_eager_modes(loop):
    check_is_eager_modes(loop)


def under(context, call):
    with context:
        return call()


def loss_of(outputs, targets, weight=1.0):
    return F.cross_entropy(outputs, targets) * weight


X, Y = torch.zeros(6, 8), torch.zeros(6, dtype=torch.int64)


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda step: step((X, None, 2.0), Y, 1.0), "expected the argument 1.0, as in the first batch, found 2.0"),
        (lambda step: step((X, None, 1.0), Y, 0.5), "expected the argument 1.0, as in the first batch, found 0.5"),
        (lambda step: step((X, None), Y, 1.0), "expected a batch of the first one's structure"),
        (lambda step: step((X, []), Y, 1.0), "expected a batch of the first one's structure"),
        (lambda step: step((X.double(), None, 1.0), Y, 1.0), "expected float32 [6, 8]"),
        (lambda step: step((X[:, :7], None, 1.0), Y, 1.0), "expected float32 [6, 8]"),
        (lambda step: step((X.to_sparse(), None, 1.0), Y, 1.0), "found a tensor of layout torch.sparse_coo"),
        (lambda step: step((X.to("meta"), None, 1.0), Y, 1.0), "found a tensor on meta"),
        (lambda step: step((X.clone().requires_grad_(), None, 1.0), Y, 1.0), "found an argument that requires a gradient"),
        (lambda step: under(torch.autocast("cpu"), lambda: step((X, None, 1.0), Y, 1.0)), "found autocast around the step"),
        (lambda step: under(torch.inference_mode(), lambda: step((X, None, 1.0), Y, 1.0)), "found inference mode around"),
    ],
)
def test_arguments_that_differ_are_seen(call, message):
    model = net()
    step = cleave.compile_step(model, loss_of, adamw(model))
    for _ in range(2):
        step((X, None, 1.0), Y, 1.0)
    with pytest.raises(cleave.Error, match=re.escape(message)):
        call(step)
    step((X, None, 1.0), Y, 1.0)


def test_keywords_in_another_order():
    """Which is another structure for PyTorch, and said as that."""
    model = net()
    step = cleave.compile_step(model, F.cross_entropy, adamw(model))
    for _ in range(2):
        step({"x": X, "scale": 1.0}, Y)
    with pytest.raises(cleave.Error, match="expected a batch of the first one's structure"):
        step({"scale": 1.0, "x": X}, Y)


def add_a_parameter(optimizer):
    optimizer.param_groups[0]["params"].append(nn.Parameter(torch.zeros(2)))


def exchange_two_parameters(optimizer):
    optimizer.param_groups[0]["params"].reverse()


def replace_the_groups(optimizer):
    optimizer.param_groups = [{**group, "eps": 1e-3} for group in optimizer.param_groups]


def add_a_group(optimizer):
    optimizer.param_groups.append(dict(optimizer.param_groups[0], params=[]))


def change_an_option(optimizer):
    optimizer.param_groups[0]["betas"] = (0.9, 0.5)


GROUPS = "the optimizer's parameter groups have changed since the step was compiled"


@pytest.mark.parametrize(
    "change, message",
    [
        (add_a_parameter, GROUPS), (exchange_two_parameters, GROUPS), (add_a_group, GROUPS),
        (replace_the_groups, "parameter group 0: expected eps = 1e-08, as when the step was compiled, found 0.001"),
        (change_an_option, "parameter group 0: expected betas = (0.9, 0.999), as when the step was compiled, found (0.9, 0.5)"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)  # fmt: skip
@pytest.mark.parametrize("times", [1, 2])
def test_groups_that_differ_are_seen(change, message, times):
    """At each step, not at the first alone."""
    model = net()
    optimizer = adamw(model)
    step = cleave.compile_step(model, F.cross_entropy, optimizer)
    for _ in range(3):
        step(*batch())
    before = [p.detach().clone() for p in model.parameters()]
    change(optimizer)
    for _ in range(times):
        with pytest.raises(cleave.Error, match=re.escape(message)):
            step(*batch())
    assert all(map(torch.equal, before, model.parameters()))


def test_a_class_whose_forward_is_replaced(monkeypatch):
    model = net()
    step = cleave.compile_step(model, F.cross_entropy, adamw(model))
    for _ in range(2):
        step(*batch())
    monkeypatch.setattr(nn.Dropout, "forward", lambda self, x: x)
    with pytest.raises(cleave.Error, match="the forward of 'inner.1' was replaced"):
        step(*batch())
    monkeypatch.undo()
    step(*batch())
    model.inner[1].__class__ = nn.AlphaDropout
    with pytest.raises(cleave.Error, match="the forward of 'inner.1' was replaced"):
        step(*batch())


class Timed(nn.Module):
    """Whose mode is computed: what stands among its attributes does not tell of it."""

    frozen = False

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(8, 4)

    @property
    def training(self):
        return not self.frozen

    @training.setter
    def training(self, value):
        vars(self)["training"] = value

    def forward(self, x):
        return F.dropout(self.layer(x), 0.5, self.training)


def a_mode_that_is_computed(compile_step):
    model = Timed()
    step = compile_step(model, F.cross_entropy, adamw(model))
    for number in range(4):
        model.frozen = number % 2 == 1
        yield step(*batch()).loss
    yield from model.state_dict().values()


def test_a_mode_that_is_computed():
    check_is_eager_modes(a_mode_that_is_computed)


def other_betas_whose_program_fails(compile_step, monkeypatch):
    model = net()
    optimizer = adamw(model)
    step = compile_step(model, F.cross_entropy, optimizer)
    for number in range(4):
        x, y = batch()
        optimizer.param_groups[0]["betas"] = (0.9 if number < 2 else 0.5, 0.999)
        if compile_step is not EagerStep and number == 2:
            generator = torch.get_rng_state()
            with monkeypatch.context() as patch, pytest.raises(cleave.Error, match="no memory"):
                patch.setattr(training_step, "trace_spec", fail)
                step(x, y)
            torch.set_rng_state(generator)
        yield step(x, y).loss
    yield from model.state_dict().values()


def fail(*_):
    raise cleave.Error("no memory")


def test_other_betas_whose_program_fails(monkeypatch):
    """A program that was compiled before is not taken for it at the next step."""
    check_is_eager_modes(lambda compile_step: other_betas_whose_program_fails(compile_step, monkeypatch))
