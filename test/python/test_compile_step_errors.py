"""Bad use of `cleave.compile_step`: one clear exception, and the step goes on afterwards where it can."""

import copy
import pickle
import re
import threading

import cleave_path  # noqa: F401
import cleave
import pytest
import torch
import torch.nn.functional as F
from cleave.native import native


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = torch.nn.Embedding(10, 8)
        self.head = torch.nn.Linear(8, 4)

    def forward(self, words):
        return self.head(self.embed(words).mean(1))


def batch(examples=2):
    return torch.zeros(examples, 3, dtype=torch.int64), torch.zeros(examples, dtype=torch.int64)


@pytest.fixture
def model():
    torch.manual_seed(0)
    return Model()


@pytest.fixture
def optimizer(model):
    return torch.optim.AdamW(model.parameters(), lr=1e-2, fused=True)


@pytest.fixture
def step(model, optimizer):
    step = cleave.compile_step(model, F.cross_entropy, optimizer)
    step(*batch())
    return step


def refuses(step, text, *arguments):
    with pytest.raises(cleave.Error, match=re.escape(text)) as caught:
        step(*(arguments or batch()))
    assert "\n  File" not in str(caught.value)


def test_one_class_has_all_exceptions(model, optimizer):
    assert native().Error is cleave.Error
    assert issubclass(cleave.CheckpointError, cleave.Error) and issubclass(cleave.CheckpointError, ValueError)
    for cause in ({"passes": "--no-such-pass"}, {"clip_norm": -1.0}, {"mesh": {"dp": 2}}):
        with pytest.raises(cleave.Error) as caught:
            cleave.compile_step(model, F.cross_entropy, optimizer, **cause)(*batch())
        assert isinstance(caught.value, cleave.ExportError) == ("passes" not in cause)


def test_a_batch_of_another_type(step):
    text = "'words': expected int64 [2, 3] on cpu, as in the first batch, in any size of dimension 0, found float32 [2, 3]"
    refuses(step, text, batch()[0].float(), batch()[1])
    step(*batch())


def test_a_batch_that_no_program_takes(model, optimizer):
    step = cleave.compile_step(model, F.cross_entropy, optimizer)
    words, targets = batch()
    refuses(step, "expected tensors on the CPU or a CUDA device, numbers and strings as a step's arguments, found ndarray", words.numpy(), targets)
    refuses(step, "found a tensor of layout torch.sparse_coo", words, targets.to_sparse())


def test_other_devices(model, optimizer):
    step = cleave.compile_step(model, F.cross_entropy, optimizer)
    words, targets = batch()
    for _ in range(2):  # at first, and once it is compiled
        text = "expected tensors on the CPU or a CUDA device, numbers and strings as a step's arguments, found a tensor on meta"
        refuses(step, text, words.to("meta"), targets)
        refuses(step, "found a tensor on meta", words, targets.to("meta"))
        step(words, targets)
    state = optimizer.state[model.head.weight]
    state["exp_avg"] = state["exp_avg"].to("meta")
    refuses(step, "the optimizer's state: expected exp_avg of 'head.weight' on cpu, where steps compute, found it on meta")


def test_a_loss_on_another_device(model, optimizer):
    loss = torch.nn.CrossEntropyLoss(weight=torch.ones(4, device="meta"))
    step = cleave.compile_step(model, loss, optimizer)
    refuses(step, "'loss_fn.weight': expected it on the CPU or on a CUDA device, where steps compute, found it on meta")


@pytest.mark.parametrize("is_compiled", [False, True])
def test_a_batch_with_gradients(is_compiled):
    """What it was computed from would not learn."""
    encoder, model = torch.nn.Linear(6, 6), torch.nn.Linear(6, 3)
    step = cleave.compile_step(model, F.cross_entropy, torch.optim.SGD(model.parameters(), lr=0.1, fused=True))
    x, y = torch.randn(4, 6), torch.randint(3, (4,))
    if is_compiled:
        step(x, y)
    refuses(step, "found an argument that requires a gradient, which the step does not give", encoder(x), y)
    refuses(step, "found an argument that requires a gradient, which the step does not give", x.clone().requires_grad_(), y)
    step(encoder(x).detach(), y)
    model.eval()
    step.evaluate(encoder(x), y)


def test_a_batch_of_another_length(step):
    refuses(step, "found int64 [2, 4] on cpu", torch.zeros(2, 4, dtype=torch.int64), batch()[1])
    step(*batch())


def test_arguments_of_another_structure(step):
    words, targets = batch()
    text = "expected a batch of the first one's structure, step(..., ...), found step("
    refuses(step, text + "{'words': ...}, ...)", {"words": words}, targets)
    refuses(step, text + "..., ..., ...)", words, targets, targets)
    refuses(step, "expected tensors on the CPU or a CUDA device, numbers and strings as a step's arguments, found ndarray", words.numpy(), targets)
    step(words, targets)


def test_a_batch_that_targets_do_not_fit(step):
    refuses(step, "'target' has 3 entries in dimension 0 where 'words' has 2 examples", batch(2)[0], batch(3)[1])
    step(*batch())


def test_a_batch_that_does_not_divide(model, optimizer):
    step = cleave.compile_step(model, F.cross_entropy, optimizer, microbatches=2)
    refuses(step, "'words' has 3 examples, which do not divide into 2 microbatches", *batch(3))


def test_a_token_that_the_embedding_lacks(step, model):
    """An error of an op ends the step, not the session: the next step runs."""
    before = {name: value.clone() for name, value in model.state_dict().items()}
    words = torch.full((2, 3), 10)
    refuses(step, "index out of range", words, batch()[1])
    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())
    step(*batch())


def test_a_parameter_in_other_memory(step, model):
    memory = model.head.weight.data
    model.head.weight.data = memory.clone()
    refuses(step, "param.head.weight: it lies in other memory")
    model.head.weight.data = memory
    step(*batch())


def test_a_parameter_of_another_shape(step, model):
    memory = model.head.bias.data
    model.head.bias.data = torch.zeros(5)
    refuses(step, "param.head.bias: expected F32 [4], found F32 [5]")
    model.head.bias.data = memory
    step(*batch())


def test_a_replaced_parameter(step, model):
    model.head.bias = torch.nn.Parameter(torch.zeros(4))
    refuses(step, "'head.bias' was replaced since the step was compiled")


def test_a_parameter_whose_storage_is_resized(step, model):
    model.head.weight.data.untyped_storage().resize_(1 << 20)
    refuses(step, "param.head.weight: it lies in other memory")


def test_a_replaced_module(step, model):
    model.head = torch.nn.Linear(8, 4)
    refuses(step, "'head' was replaced since the step was compiled")


def forwards():
    """Ways in which a forward is replaced, with whose it is and how it is undone."""
    kind, original = Model, Model.forward

    def of_all(model):
        kind.forward = lambda self, words: 2 * original(self, words)
        return lambda: setattr(kind, "forward", original)

    def of_one(model):
        model.forward = lambda words: 2 * original(model, words)
        return lambda: delattr(model, "forward")

    def of_part(model):
        model.head.forward = lambda x: 2 * F.linear(x, model.head.weight, model.head.bias)
        return lambda: delattr(model.head, "forward")

    def of_class(model):
        model.head.__class__ = type("Other", (torch.nn.Linear,), {})
        return lambda: setattr(model.head, "__class__", torch.nn.Linear)

    return [(of_all, "the model"), (of_one, "the model"), (of_part, "'head'"), (of_class, "'head'")]


@pytest.mark.parametrize(("change", "whose"), forwards())
def test_a_forward_that_is_replaced_later(step, model, change, whose):
    undo = change(model)
    try:
        refuses(step, f"the forward of {whose} was replaced since the step was compiled")
        refuses(step, f"the forward of {whose} was replaced since the step was compiled", *batch(4))
    finally:
        undo()
    step(*batch())


@pytest.mark.parametrize(("change", "whose"), forwards())
def test_a_forward_that_is_replaced_before(model, optimizer, change, whose):
    """It is what the step computes, of whatever part of the model it is."""
    undo = change(model)
    try:
        expected = F.cross_entropy(model(batch()[0]), batch()[1]).item()
        assert cleave.compile_step(model, F.cross_entropy, optimizer)(*batch()).loss.item() == expected
    finally:
        undo()


class Criterion(torch.nn.Module):
    """A loss with a weight of its own, which is not contiguous."""

    def __init__(self):
        super().__init__()
        self.mix = torch.nn.Parameter(torch.arange(16.0).reshape(4, 4).t())

    def forward(self, made, targets):
        return F.cross_entropy(made @ self.mix, targets)


def test_a_loss_that_is_changed_later(model):
    criterion = Criterion()
    step = cleave.compile_step(model, criterion, torch.optim.SGD([*model.parameters(), *criterion.parameters()], lr=0.1))
    step(*batch())
    mix = criterion.mix
    criterion.mix = torch.nn.Parameter(torch.eye(4))
    refuses(step, "'loss_fn.mix' was replaced since the step was compiled")
    criterion.mix = mix
    criterion.forward = lambda made, targets: made.sum()
    refuses(step, "the forward of 'loss_fn' was replaced since the step was compiled")
    del criterion.forward
    handle = criterion.register_forward_hook(lambda *_: None)
    refuses(step, "a hook of a module or a parameter was registered or removed")
    handle.remove()
    step(*batch())


def test_another_setting_of_a_module():
    model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Dropout(0.1), torch.nn.BatchNorm1d(4))
    step = cleave.compile_step(model, F.cross_entropy, torch.optim.SGD(model.parameters(), lr=0.1))
    data = torch.ones(2, 3), torch.zeros(2, dtype=torch.int64)
    step(*data)
    for module, name, value, path in ((model[1], "p", 0.5, "1.p"), (model[2], "momentum", None, "2.momentum")):
        before = getattr(module, name)
        setattr(module, name, value)
        refuses(step, f"'{path}' was {before!r} when the step was compiled and is {value!r}", *data)
        setattr(module, name, before)
    model.epoch = 3
    step(*data)


def test_hooks_that_come_later(step, model):
    text = "a hook of a module or a parameter was registered or removed since the step was compiled"
    for register in (
        lambda: model.embed.register_forward_hook(lambda *_: None),
        lambda: model.head.register_full_backward_hook(lambda *_: None),
        lambda: model.head.weight.register_hook(lambda gradient: 2 * gradient),
    ):
        handle = register()
        refuses(step, text)
        handle.remove()
        step(*batch())


def test_hooks_of_an_optimizer(step, optimizer):
    seen = []
    handle = optimizer.register_step_post_hook(lambda *arguments: seen.append(arguments))
    step(*batch())
    assert seen == [(optimizer, (), {})]
    handle.remove()
    optimizer.register_step_pre_hook(lambda *_: None)
    refuses(step, "AdamW has a hook that runs before its step (register_step_pre_hook)")


def test_a_parameter_that_is_frozen_later(step, model):
    model.head.bias.requires_grad_(False)
    refuses(step, "'head.bias' was frozen since the step was compiled")


def test_a_parameter_that_is_frozen_and_a_batch_of_another_size(step, model):
    """The batch would be compiled for."""
    model.head.bias.requires_grad_(False)
    refuses(step, "'head.bias' was frozen since the step was compiled", *batch(4))
    model.head.bias.requires_grad_(True)
    step(*batch(4))


def test_parameters_that_begin_to_train_later():
    """With momentum alone they go on as in eager mode (test_compile_step_practice.py)."""
    model = torch.nn.Sequential(torch.nn.Linear(6, 6), torch.nn.Linear(6, 3))
    optimizer = torch.optim.AdamW(model[1].parameters(), lr=0.1, fused=True)
    x, y = torch.randn(4, 6), torch.randint(3, (4,))
    step = cleave.compile_step(model, F.cross_entropy, optimizer)
    step(x, y)
    optimizer.add_param_group({"params": list(model[0].parameters())})
    refuses(step, "the optimizer's parameter groups have changed since the step was compiled", x, y)
    step.close()
    step = cleave.compile_step(model, F.cross_entropy, optimizer)
    refuses(step, "expected exp_avg of '0.weight' of shape (6, 6), found none; parameters that begin to train later", x, y)
    optimizer.state.clear()
    step(x, y)


def test_a_hook_that_only_looks_at_a_gradient(model, optimizer):
    model.head.bias.register_hook(lambda gradient: print(gradient))
    step = cleave.compile_step(model, F.cross_entropy, optimizer)
    refuses(step, "the hook on the gradient of 'head.bias' (register_hook) returns no tensor")


def test_copies_of_a_step(step):
    for make in (copy.deepcopy, pickle.dumps):
        with pytest.raises(cleave.Error, match="a compiled step cannot be copied or pickled: copy the model and the optimizer"):
            make(step)


def test_inference_mode_around_it(step):
    with torch.inference_mode():
        refuses(step, "found inference mode around the step")
    step(*batch())


def test_threads_take_turns(step, optimizer):
    """Each of four makes 50 steps; at once they would compute in the same memory."""
    errors = []

    def work():
        try:
            for _ in range(50):
                step(*batch())
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert {int(state["step"]) for state in optimizer.state.values()} == {201}


def test_a_backward_beside_it(step, model):
    words, targets = batch()
    F.cross_entropy(model(words), targets).backward()
    refuses(step, "has a gradient, of a backward() beside the step")
    model.zero_grad()
    step(*batch())


def test_a_backward_through_values_from_before_a_step(step, model):
    words, targets = batch()
    loss = F.cross_entropy(model(words), targets)
    step(words, targets)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


def test_another_weight_decay(step, optimizer):
    optimizer.param_groups[0]["weight_decay"] = 0.5
    refuses(step, "parameter group 0: expected weight_decay = 0.01, as when the step was compiled, found 0.5")


def test_betas_that_change_in_place(model):
    """As tensors, which eager mode reads at every step, and as a list."""
    betas = torch.tensor(0.5), torch.tensor(0.75)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2, betas=betas, foreach=False)
    step = cleave.compile_step(model, F.cross_entropy, optimizer)
    step(*batch())
    betas[1].fill_(0.875)
    refuses(step, "parameter group 0: expected betas = (0.5, 0.75), as when the step was compiled, found (0.5, 0.875)")
    step.close()
    betas[1].fill_(0.75)
    optimizer.param_groups[0]["betas"] = [0.5, 0.75]
    step = cleave.compile_step(model, F.cross_entropy, optimizer)
    step(*batch())
    optimizer.param_groups[0]["betas"][1] = 0.875
    refuses(step, "parameter group 0: expected betas = (0.5, 0.75), as when the step was compiled, found (0.5, 0.875)")


def test_a_hyper_parameter_that_is_taken_away(step, optimizer):
    optimizer.param_groups[0]["weight_decay"] = None
    refuses(step, "parameter group 0: expected weight_decay = 0.01, as when the step was compiled, found None")


def test_a_step_count_that_is_changed(step, model, optimizer):
    """In place, as by hand; the next step goes on from it."""
    for state in optimizer.state.values():
        state["step"].fill_(10)
    step(*batch())
    assert {state["step"].item() for state in optimizer.state.values()} == {11}
    optimizer.state[model.head.weight]["step"].fill_(3)
    refuses(step, "expected the same step for all parameters, found [3, 11]")


def test_a_rate_that_is_no_number(step, optimizer):
    optimizer.param_groups[0]["lr"] = "fast"
    refuses(step, "parameter group 0: expected a number as lr, found 'fast'")
    optimizer.param_groups[0]["lr"] = float("nan")
    refuses(step, "expected a learning rate that is finite and not negative, found nan")


def test_another_parameter_group(step, optimizer):
    optimizer.add_param_group({"params": [torch.nn.Parameter(torch.zeros(2))]})
    refuses(step, "the optimizer's parameter groups have changed")


def test_autocast_around_it(step):
    with torch.autocast("cpu", torch.bfloat16):
        refuses(step, "found autocast around the step, which it does not follow: put it into the model's forward")
    step(*batch())


def test_evaluation_in_training_mode(step, model):
    with pytest.raises(cleave.ExportError, match="expected the model in evaluation mode"):
        step.evaluate(*batch())
    model.eval()
    with pytest.raises(cleave.Error, match="as in the first batch, in any size of dimension 0, found int64"):
        step.evaluate(torch.zeros(2, 4, dtype=torch.int64), batch()[1])


def test_two_steps_on_one_model(step, model, optimizer):
    with pytest.raises(cleave.Error, match="another step trains parameters of this Model"):
        cleave.compile_step(model, F.cross_entropy, optimizer)
    step.close()
    with pytest.raises(cleave.Error, match="the step is closed"):
        step(*batch())
    cleave.compile_step(model, F.cross_entropy, optimizer)(*batch())


def test_an_optimizer_that_is_not_known(model):
    step = cleave.compile_step(model, F.cross_entropy, torch.optim.LBFGS(model.parameters()))
    refuses(step, "LBFGS")


def test_a_pass_that_does_not_exist(model, optimizer):
    step = cleave.compile_step(model, F.cross_entropy, optimizer, passes="--no-such-pass")
    refuses(step, "no-such-pass")


def test_kernels_that_are_not_there(model, optimizer):
    step = cleave.compile_step(model, F.cross_entropy, optimizer, kernels="x86-64-v3")
    refuses(step, "expects a program with kernels")


def test_ranks_that_are_not_there(model, optimizer):
    step = cleave.compile_step(model, F.cross_entropy, optimizer, mesh={"dp": 2})
    refuses(step, "expected torch.distributed to be initialised with the 2 ranks of the mesh {'dp': 2}")


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"mesh": "dp"}, "expected a mesh as sizes by axis, {'dp': 2}, found 'dp'"),
        ({"mesh": {"dp": 0}}, "expected a positive size for mesh axis 'dp', found 0"),
        ({"pipeline": "1f1b"}, "expected a cleave.Pipeline, found '1f1b'"),
        ({"pipeline": cleave.Pipeline(stages=0)}, "expected a positive number of stages in a Pipeline, found 0"),
        ({"pipeline": cleave.Pipeline(microbatches=1.5)}, "expected a positive number of microbatches in a Pipeline, found 1.5"),
    ],
)
def test_a_layout_that_is_none(model, optimizer, options, text):
    with pytest.raises(cleave.ExportError, match=re.escape(text)):
        cleave.compile_step(model, F.cross_entropy, optimizer, **options)


def test_models_that_are_laid_out_or_not_there(model, optimizer):
    text = "expected a model that is not laid out on ranks, found DataParallel in 'inner': give the model as it is"
    wrapped = torch.nn.ModuleDict({"inner": torch.nn.DataParallel(model)})
    with pytest.raises(cleave.ExportError, match=re.escape(text)):
        cleave.compile_step(wrapped, F.cross_entropy, optimizer)
    with torch.device("meta"):
        hollow = Model()
    hollow.embed.to_empty(device="cpu")
    refuses(compiled(hollow), "'head.weight': expected it on the CPU or on a CUDA device, where steps compute, found it on meta")
    lazy = Model()
    lazy.head = torch.nn.LazyLinear(4)
    refuses(compiled(lazy, Model()), "'head.weight' has no shape yet, as LazyLinear makes it: call the model once before")


def compiled(model, held=None, loss=F.cross_entropy):
    return cleave.compile_step(model, loss, torch.optim.SGD((held or model).parameters(), lr=0.1))


@pytest.mark.parametrize(
    ("loss", "arguments", "text"),
    [
        (F.cross_entropy, batch()[:1], "TypeError: cross_entropy() missing 1 required positional argument: 'target'"),
        (lambda y, t: (F.cross_entropy(y, t), y), batch(), "expected the loss to be a 0-d tensor of a floating-point type"),
        (lambda y, t: F.cross_entropy(y, t, reduction="none"), batch(), "the loss has shape (2,)"),
        (F.cross_entropy, batch(0), "'words' has no examples in dimension 0; expected a microbatch"),
    ],
)
def test_what_is_no_loss(model, loss, arguments, text):
    refuses(compiled(model, loss=loss), text, *arguments)


def test_a_mesh_without_a_plan(model, optimizer):
    with pytest.raises(cleave.ExportError, match="expected a plan for the mesh"):
        cleave.compile_step(model, F.cross_entropy, optimizer, mesh={"tp": 2})


@pytest.mark.parametrize(
    ("options", "text"),
    [({"microbatches": 0}, "expected a positive number of microbatches"), ({"clip_norm": -1.0}, "expected a positive clip_norm")],
)
def test_options_that_mean_nothing(model, optimizer, options, text):
    with pytest.raises(cleave.ExportError, match=text):
        cleave.compile_step(model, F.cross_entropy, optimizer, **options)


def test_an_optimizer_that_counts_steps_for_a_group(model):
    class Counting(torch.optim.Optimizer):
        def step(self):
            for group in self.param_groups:
                group["step"] = group.get("step", 0) + 1
                for p in group["params"]:
                    p.data.sub_(p.grad, alpha=group["lr"] / group["step"])

    step = cleave.compile_step(model, F.cross_entropy, Counting(model.parameters(), {"lr": 0.1}))
    refuses(step, "Counting counts steps in 'step' of its parameter groups, which a compiled step leaves as they are")
