"""`torch.compile(model, backend="cleave")`: what models compute, bit for bit eager mode's."""

import copy
import tomllib
import warnings

import cleave_path
import cleave
import gpt
import llama
import pytest
import torch
import torch.nn.functional as F
import vision
from cleave import entry_points

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(autouse=True)
def compiles_anew():
    torch.compiler.reset()
    yield
    torch.compiler.reset()


def compiled(model, **options):
    """As a program, or an error; with the programs that are made."""
    programs = []
    options = {"strict": True, "programs": programs, **options}
    return torch.compile(model, backend="cleave", options=options), programs


class Branching(torch.nn.Module):
    """Two graphs, with a branch on data between them; dropout, and buffers that change."""

    def __init__(self):
        super().__init__()
        self.first, self.second = torch.nn.Linear(8, 16), torch.nn.Linear(16, 4)
        self.norm, self.dropout = torch.nn.BatchNorm1d(16), torch.nn.Dropout(0.3)

    def forward(self, x):
        h = F.gelu(self.norm(self.first(x)))
        h = h * 2 if h.sum() > 0 else h - 1
        return self.second(self.dropout(h))


def train(model, call, loss_fn, batches):
    """Losses, and the random number that comes after each step."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    torch.manual_seed(3)
    seen = []
    for inputs, targets in batches:
        optimizer.zero_grad()
        loss = loss_fn(call(*inputs), *targets)
        loss.backward()
        optimizer.step()
        seen += [loss.item(), torch.rand(()).item()]
    return seen


def assert_trains_as_eager_mode(model, loss_fn, batches, **options):
    """Returns the programs."""
    eager = copy.deepcopy(model)
    call, programs = compiled(model, **options)
    assert train(model, call, loss_fn, batches) == train(eager, eager, loss_fn, batches)
    for (name, value), expected in zip(model.state_dict().items(), eager.state_dict().values(), strict=True):
        assert torch.equal(value, expected), name
    return programs


@pytest.mark.parametrize("options", [{}, {"partition": "min-cut"}], ids=["save-all", "min-cut"])
def test_graph_breaks_dropout_buffers_and_another_batch_size(options):
    torch.manual_seed(0)
    batches = [((torch.randn(n, 8),), (torch.randint(4, (n,)),)) for n in (6, 6, 4, 6)]
    programs = assert_trains_as_eager_mode(Branching(), F.cross_entropy, batches, **options)
    # Two graphs, each forward and backward, for two batch sizes.
    assert len(programs) == 8
    assert "aten.rng_" in "".join(map(str, programs))


@pytest.mark.parametrize("make", [gpt.tied, gpt.dropout, llama.small, vision.resnet18], ids=lambda make: make.__name__)
def test_training_is_eager_modes(make):
    spec = make()
    batches = [(tuple(spec.args), tuple(spec.targets))] * 3
    programs = assert_trains_as_eager_mode(spec.module, spec.loss, batches)
    assert len(programs) == 2


def test_inference_and_autocast():
    torch.manual_seed(0)
    model, x = Branching().eval(), torch.randn(6, 8)
    call, programs = compiled(model)
    with torch.no_grad():
        assert torch.equal(call(x), model(x))
    with torch.inference_mode():
        assert torch.equal(call(x), model(x))
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(call(x), model(x))
    assert "bf16" in str(programs[-1])


def test_inputs_change_in_place_and_results_are_views():
    def change(x, y):
        x.mul_(2)
        return x[1:], y.t(), x, x.new_ones(3)

    call, _ = compiled(change)
    results = []
    for function in (change, call):
        x, y = torch.arange(12.0).reshape(3, 4), torch.arange(6.0).reshape(2, 3)
        outputs = function(x, y)
        results.append([x, *outputs])
        assert outputs[0].data_ptr() == x[1].data_ptr() and outputs[1].data_ptr() == y.data_ptr()
        assert outputs[2] is x
    assert all(torch.equal(a, b) for a, b in zip(*results, strict=True))


def test_a_changed_weight_stops_the_backward_as_in_eager_mode():
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Tanh(), torch.nn.Linear(4, 2))
    call, _ = compiled(model)
    loss = call(torch.randn(3, 4)).sum()
    with torch.no_grad():
        model[2].weight.mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


def test_a_function_takes_tensors_out_of_its_list():
    """So it lets go of what only it holds."""
    from cleave.native import native

    text = """module @twice {
      train.program
      func.func @microbatch(%x: tensor<4xf32> {train.role = #train.role<input "x">})
          -> (tensor<4xf32> {train.role = #train.role<output "0">})
          attributes {train.phase = #train.phase<microbatch>} {
        %0 = aten.neg(%x) : (tensor<4xf32>) -> tensor<4xf32>
        return %0 : tensor<4xf32>
      }
    }"""
    function = native().Function(cleave.Program(text)._native, "best")
    x = torch.arange(4.0)
    kept, arguments = x.untyped_storage(), [x]
    assert torch.equal(function(arguments)[0], -torch.arange(4.0)) and arguments == []
    assert torch.equal(x, torch.arange(4.0)) and kept.data_ptr() == x.data_ptr()
    with pytest.raises(cleave.Error, match=r"'x': expected F32 \[4\] on the CPU, found F32 \[5\]"):
        function([torch.arange(5.0)])
    with pytest.raises(cleave.Error, match="expected 1 tensors, found 2"):
        function([x, x])
    with pytest.raises(cleave.Error, match="expected tensors, found a value of type"):
        function([3])


def test_what_is_no_function_of_tensors_is_refused():
    from cleave.native import native

    spec = gpt.tied()
    program = cleave.trace(spec.module, spec.args, loss=spec.loss, targets=spec.targets, mode="loss")
    with pytest.raises(cleave.Error, match="expected one function from tensors to outputs, found the result 'loss'"):
        native().Function(program._native, "best")


@torch.library.custom_op("cleave_tests::halved", mutates_args=())
def halved(x: torch.Tensor) -> torch.Tensor:
    return x / 2


@halved.register_fake
def _(x):
    return torch.empty_like(x)


def test_pytorch_runs_what_is_no_program_and_a_warning_says_so():
    def compute(x):
        return halved(x.sin()) + 1

    x = torch.randn(4)
    call = torch.compile(compute, backend="cleave")
    with pytest.warns(cleave.ExportNote, match=r"leaves a graph \(inference\) to PyTorch: .*'cleave_tests::halved'.*written in Python"):
        assert torch.equal(call(x), compute(x))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        call(x)  # said once


def test_strictly_it_is_an_error():
    call, _ = compiled(lambda x: halved(x) + 1)
    with pytest.raises(Exception, match="backend='cleave' raised:\n.*'cleave_tests::halved'"):
        call(torch.randn(4))


def test_symbolic_sizes_are_refused():
    call = torch.compile(lambda x: x + 1, backend="cleave", dynamic=True)
    with pytest.raises(Exception, match="compiles for fixed sizes, and again for others: expected .*dynamic=False"):
        call(torch.randn(4))
    for mark in (torch._dynamo.mark_dynamic, torch._dynamo.decorators.mark_unbacked):
        torch.compiler.reset()
        marked = torch.randn(3, 4)
        mark(marked, 1)
        with pytest.raises(Exception, match=r"fixed sizes.*: expected none that mark_dynamic.*found dimension 1 of L\['x'\]"):
            torch.compile(lambda x: x + 1, backend="cleave")(marked)
    torch.compiler.reset()
    marked = torch.randn(3, 4)
    torch._dynamo.maybe_mark_dynamic(marked, 1)
    assert torch.equal(torch.compile(lambda x: x + 1, backend="cleave")(marked), marked + 1)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"fast": True}, "expected options of the back end 'cleave'.*found fast"),
        ({"partition": "max-cut"}, "expected partition 'save-all' or 'min-cut', found 'max-cut'"),
        ({"passes": "--no-such-pass", "strict": True}, "no-such-pass"),
        ({"passes": "--lower-to-exec", "strict": True}, "found one whose memory is planned"),
    ],
)
def test_options_are_checked(options, message):
    with pytest.raises(Exception, match=message):
        torch.compile(lambda x: x + 1, backend="cleave", options=options)(torch.randn(4))


def test_passes_run_on_each_program():
    torch.manual_seed(0)
    model, x = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.GELU(), torch.nn.LayerNorm(8)), torch.randn(4, 8)
    call, programs = compiled(model, passes="--fuse-kernels --compile-kernels")
    result = call(x)
    result.square().sum().backward()
    assert "exec.launch" in str(programs[0]) and "exec.launch" in str(programs[1])
    torch.testing.assert_close(result, model(x))


def test_the_entry_point_is_the_installed_ones():
    assert "cleave" in torch.compiler.list_backends()
    project = tomllib.loads((cleave_path.SOURCE / "python" / "pyproject.toml").read_text())["project"]
    for name, value in project["entry-points"]["torch_dynamo_backends"].items():
        assert f"{name} = {value.replace(':', ':')}\n" in entry_points._FILES["entry_points.txt"]
    assert f"Version: {project['version']}\n" in entry_points._FILES["METADATA"]
