"""`torch.compile(backend="cleave")` in the ways that it is called: what eager mode gives, bit for bit."""

import copy
import threading

import cleave_path  # noqa: F401
import cleave  # noqa: F401
import pytest
import torch
import torch.nn.functional as F
from torch.utils.checkpoint import checkpoint

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(autouse=True)
def compiles_anew():
    torch.compiler.reset()
    torch.manual_seed(0)
    yield
    torch.compiler.reset()


def compiled(function, *, fullgraph=False, **options):
    """As programs, or an error; with the programs that are made."""
    programs = []
    options = {"strict": True, "programs": programs, **options}
    return torch.compile(function, backend="cleave", fullgraph=fullgraph, options=options), programs


def perceptron():
    return torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.GELU(), torch.nn.Dropout(0.2), torch.nn.Linear(16, 4))


def step(module, call, *inputs):
    """Result, gradients, buffers, and the random number that comes after a step."""
    torch.manual_seed(1)
    module.zero_grad()
    result = call(*inputs)
    result.float().square().sum().backward()
    gradients = [p.grad.clone() for p in module.parameters()]
    return [result.detach(), *gradients, *(b.clone() for b in module.buffers()), torch.rand(1)]


def assert_same(found, expected):
    """Tensors bit for bit, strides as well."""
    assert type(found) is type(expected)
    if isinstance(expected, (list, tuple)):
        assert len(found) == len(expected)
        for one, other in zip(found, expected):
            assert_same(one, other)
    elif isinstance(expected, torch.Tensor):
        assert (found.dtype, found.shape, found.stride()) == (expected.dtype, expected.shape, expected.stride())
        assert torch.equal(found, expected)
    else:
        assert found == expected


def assert_steps_are_eager_modes(module, *inputs, **options):
    """Returns the programs."""
    eager = copy.deepcopy(module)
    call, programs = compiled(module, **options)
    for _ in range(2):
        assert_same(step(module, call, *inputs), step(eager, eager, *inputs))
    return programs


def test_one_graph_or_an_error():
    assert len(assert_steps_are_eager_modes(perceptron(), torch.randn(4, 8), fullgraph=True)) == 2
    call, programs = compiled(lambda x: x * 2 if x.sum() > 0 else x, fullgraph=True)
    with pytest.raises(Exception, match="[Dd]ata-dependent"):
        call(torch.ones(3))
    assert not programs


@pytest.mark.parametrize("partition", ["save-all", "min-cut"])
@pytest.mark.parametrize(
    "function",
    [
        lambda x: F.interpolate(x, scale_factor=2.0, mode="bilinear"),
        lambda x: F.interpolate(x, size=(7, 9), mode="bicubic", align_corners=True),
        lambda x: F.interpolate(x, size=(3, 2), mode="bilinear", antialias=True),
        lambda x: F.interpolate(x, scale_factor=1.5, mode="nearest-exact"),
        lambda x: F.hardshrink(x) + F.softshrink(x),
        lambda x: F.multi_margin_loss(x.flatten(1)[:, :5], torch.tensor([1, 4])),
        lambda x: x.cumprod(2),
    ],
)
def test_operators_stay_whole(function, partition):
    call, _ = compiled(function, partition=partition)
    x = torch.randn(2, 3, 5, 4)
    found, expected = x.clone().requires_grad_(), x.clone().requires_grad_()
    results = call(found), function(expected)
    for result in results:
        result.square().sum().backward()
    assert_same(*results)
    assert_same(found.grad, expected.grad)


def test_a_function_of_tensors_and_numbers():
    def function(x, y, scale=2.0):
        return {"product": torch.sin(x) @ y * scale, "others": (x.sum(), None, 3)}

    def run(call):
        torch.manual_seed(0)
        x, y = torch.randn(3, 4, requires_grad=True), torch.randn(4, 2, requires_grad=True)
        outputs = call(x, y)
        (outputs["product"].sum() + outputs["others"][0]).backward()
        return [outputs["product"].detach(), outputs["others"][0].detach(), *outputs["others"][1:], x.grad, y.grad]

    assert_same(run(compiled(function, fullgraph=True)[0]), run(function))


def test_numbers_that_change():
    def function(x, times, scale):
        return (x * scale).repeat(times) + times

    call, _ = compiled(function)
    for times, scale in ((1, 0.5), (2, 0.5), (3, 0.7), (4, 0.8), (2, 0.5)):
        assert_same(call(torch.ones(2), times, scale), function(torch.ones(2), times, scale))


def test_training_under_autocast():
    model = perceptron()
    eager = copy.deepcopy(model)
    call, programs = compiled(model)

    def run(module, call):
        torch.manual_seed(1)
        module.zero_grad()
        with torch.autocast("cpu", torch.bfloat16):
            loss = F.cross_entropy(call(torch.linspace(-1, 1, 32).reshape(4, 8)), torch.arange(4))
        loss.backward()
        return [loss.detach(), *(p.grad.clone() for p in module.parameters())]

    for _ in range(2):
        assert_same(run(model, call), run(eager, eager))
    assert all("bf16" in str(program) for program in programs) and len(programs) == 2


def test_two_models_at_once():
    """Of one class too; their steps are interleaved."""
    models = [perceptron(), perceptron(), torch.nn.Sequential(torch.nn.Linear(8, 3), torch.nn.Tanh())]
    eager, x = copy.deepcopy(models), torch.randn(5, 8)

    def run(models, calls):
        torch.manual_seed(1)
        losses = [call(x).sum() for call in calls]
        for model in models:
            model.zero_grad()
        for loss in losses:
            loss.backward()
        return [loss.detach() for loss in losses] + [p.grad.clone() for model in models for p in model.parameters()]

    calls = [compiled(model)[0] for model in models]
    for _ in range(2):
        assert_same(run(models, calls), run(eager, eager))


class Counting(torch.nn.Module):
    """Counts in a buffer and in an attribute, and writes into parts of another buffer."""

    def __init__(self):
        super().__init__()
        self.linear, self.calls = torch.nn.Linear(4, 4), 0
        self.register_buffer("count", torch.zeros((), dtype=torch.long))
        self.register_buffer("cache", torch.zeros(6, 4))

    def forward(self, x):
        self.count += 1
        self.calls += 1
        with torch.no_grad():
            self.cache[1:3] = x[:2]
            self.cache.mul_(0.5)
        return self.linear(x) + self.cache[:3] * self.count


def test_buffers_that_a_model_changes():
    model = Counting()
    assert_steps_are_eager_modes(model, torch.randn(3, 4))
    assert model.calls == 2
    with torch.inference_mode():
        assert_same(compiled(copy.deepcopy(model))[0](torch.ones(3, 4)), model(torch.ones(3, 4)))


def test_tensors_that_share_memory():
    def change(x, y):
        x.add_(1)
        return y * 2

    call, _ = compiled(change)
    x = torch.ones(3)
    assert_same(call(x, x), torch.full((3,), 4.0))
    assert_same(call(torch.ones(3), torch.ones(3)), torch.full((3,), 2.0))
    base = torch.ones(6)
    assert_same(call(base[:4], base[2:]), torch.tensor([4.0, 4.0, 2.0, 2.0]))


def test_strides_and_empty_tensors():
    def function(x):
        return x * 2, x.sum(0), torch.zeros(2)

    call, _ = compiled(function)
    square = torch.randn(6, 6)
    image = torch.randn(2, 3, 4, 5).to(memory_format=torch.channels_last)
    for x in (square, square.t(), square[::2], square[:, ::2], square[:3].t(), image, torch.ones(0, 2)):
        assert_same(call(x), function(x))


def test_a_module_compiles_itself_and_changes_its_mode():
    model = perceptron()
    eager, x = copy.deepcopy(model), torch.randn(4, 8)
    model.compile(backend="cleave", options={"strict": True})
    for is_training in (True, False, True):
        model.train(is_training)
        eager.train(is_training)
        assert_same(step(model, model, x), step(eager, eager, x))


@pytest.mark.parametrize("partition", ["save-all", "min-cut"])
def test_checkpointed_regions_draw_once(partition):
    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.region, self.last = perceptron(), torch.nn.Linear(4, 4)

        def forward(self, x):
            return self.last(checkpoint(self.region, x, use_reentrant=False))

    forward, backward = assert_steps_are_eager_modes(Model(), torch.randn(4, 8), partition=partition)
    assert "aten.rng_" in str(forward) and "aten.rng_" not in str(backward)
    assert "aten.addmm(" in str(backward)  # computed again


@pytest.mark.parametrize("partition", ["save-all", "min-cut"])
def test_numbers_that_nothing_uses_are_drawn(partition):
    """Later ones are eager mode's, and so is where the generator is left."""

    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.region, self.last = perceptron(), torch.nn.Linear(4, 4)

        def forward(self, x):
            torch.rand(3)
            x = self.region(x) * (torch.rand(4) + 1)
            torch.bernoulli(torch.rand(7) * 0.5)
            return self.last(x) + torch.rand(4)

    assert_steps_are_eager_modes(Model(), torch.randn(4, 8), partition=partition)
    with torch.no_grad():
        model = Model()
        found, expected = [], []
        for results, call in ((found, compiled(model)[0]), (expected, model)):
            torch.manual_seed(2)
            results += [call(torch.ones(4, 8)), torch.rand(1)]
        assert_same(found, expected)


class Filled(torch.autograd.Function):
    """Writes its result in place, which other back ends' gradients do not survive."""

    @staticmethod
    def forward(ctx, x):
        result = torch.zeros_like(x)
        result.add_(x.exp())
        ctx.save_for_backward(result)
        return result

    @staticmethod
    def backward(ctx, gradient):
        return gradient * ctx.saved_tensors[0]


def test_own_functions_that_write_their_results():
    x, y = (torch.linspace(-1, 1, 8).requires_grad_() for _ in range(2))
    compiled(lambda x: Filled.apply(x.sin()), fullgraph=True)[0](x).sum().backward()
    Filled.apply(y.sin()).sum().backward()
    assert_same(x.grad, y.grad)


def test_own_functions_of_autograd_and_frozen_weights():
    class Square(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx, gradient):
            return 3 * gradient * ctx.saved_tensors[0]

    def run(module, call):
        x = torch.linspace(-1, 1, 32).reshape(4, 8).requires_grad_()
        module.zero_grad()
        torch.manual_seed(1)
        Square.apply(call(x)).sum().backward()
        assert module[0].weight.grad is None
        return [x.grad, module[3].weight.grad]

    model = perceptron()
    model[0].requires_grad_(False)
    whole = compiled(lambda x: Square.apply(x.sin()), fullgraph=True)[0]
    assert_same(run(model, compiled(model)[0]), run(model, model))
    x, y = (torch.randn(4).requires_grad_() for _ in range(2))
    with torch.no_grad():
        y.copy_(x)
    whole(x).sum().backward()
    Square.apply(y.sin()).sum().backward()
    assert_same(x.grad, y.grad)


def test_a_backward_twice():
    model = perceptron().eval()
    eager, x = copy.deepcopy(model), torch.randn(4, 8)

    def run(module, call):
        module.zero_grad()
        loss = call(x).sum()
        loss.backward(retain_graph=True)
        loss.backward()
        return loss, [p.grad.clone() for p in module.parameters()]

    (loss, found), (_, expected) = run(model, compiled(model)[0]), run(eager, eager)
    assert_same(found, expected)
    with pytest.raises(RuntimeError, match="backward through the graph a second time"):
        loss.backward()


def test_the_update_of_an_optimizer():
    """Dynamo traces the capturable form, whose roundings are not the ordinary one's: the bits are the trace's."""

    def run(backend):
        torch.compiler.reset()
        torch.manual_seed(0)
        model = perceptron()
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
        update = torch.compile(optimizer.step, backend=backend) if backend else optimizer.step
        for _ in range(3):
            model.zero_grad()
            model(torch.ones(4, 8)).square().sum().backward()
            update()
        return [p.detach().clone() for p in model.parameters()]

    found, traced, eager = run("cleave"), run("aot_eager"), run(None)
    assert_same(found, traced)
    for one, other in zip(found, eager):
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-6)


def test_threads_share_a_program():
    model, x = perceptron().eval(), torch.randn(4, 8)
    call, programs = compiled(model)
    expected, wrong = torch.autograd.grad(call(x).sum(), model.parameters()), []

    def work():
        for _ in range(50):
            if not all(map(torch.equal, torch.autograd.grad(call(x).sum(), model.parameters()), expected)):
                wrong.append(threading.current_thread())

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong and len(programs) == 2
    assert_same(expected, torch.autograd.grad(model(x).sum(), model.parameters()))


def test_modes_are_inductors():
    with pytest.raises(Exception, match=r"expected torch.compile\(..., options=\{...\}\).*found mode='reduce-overhead'"):
        torch.compile(lambda x: x + 1, backend="cleave", mode="reduce-overhead")(torch.ones(2))
