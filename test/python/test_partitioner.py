"""`cleave.partitioner`: the minimum cut of `--partition-joint` in torch.compile, whose gradients are those of every cut."""

import copy
import functools
import pickle
import shutil

import cleave_path  # noqa: F401
import cleave.partitioner
import pytest
import torch
import torch.nn.functional as F
from functorch.compile import make_boxed_func
from torch._dynamo.backends.common import aot_autograd
from torch._functorch.partitioners import default_partition, min_cut_rematerialization_partition
from torch.utils.checkpoint import checkpoint

pytestmark = pytest.mark.usefixtures("one_thread")


class Block(torch.nn.Module):
    def __init__(self, width, is_checkpointed):
        super().__init__()
        self.norm, self.dropout = torch.nn.LayerNorm(width), torch.nn.Dropout(0.1)
        self.up, self.down = torch.nn.Linear(width, 4 * width), torch.nn.Linear(4 * width, width)
        self.is_checkpointed = is_checkpointed

    def compute(self, x):
        return self.dropout(self.down(F.gelu(self.up(self.norm(x)), approximate="tanh")))

    def forward(self, x):
        return x + (checkpoint(self.compute, x, use_reentrant=False) if self.is_checkpointed else self.compute(x))


class Model(torch.nn.Module):
    """Two results, of which a buffer's new value is not one; a split has several."""

    def __init__(self, is_checkpointed=False):
        super().__init__()
        self.blocks = torch.nn.Sequential(*(Block(16, is_checkpointed) for _ in range(3)))
        self.norm = torch.nn.BatchNorm1d(16)

    def forward(self, x):
        left, right = self.norm(self.blocks(x)).split(8, 1)
        return left.softmax(1), right.relu()


def run(model, x, call):
    """Results, gradients and buffers of a step."""
    torch.manual_seed(3)
    left, right = call(x)
    (left.square().sum() + right.sum()).backward()
    return [left, right, x.grad, *(p.grad for p in model.parameters()), *model.buffers()]


def run_with(partition, is_checkpointed=False, dynamic=False):
    """The same, with the joint graph and its two parts as PyTorch runs them."""
    torch.compiler.reset()
    torch.manual_seed(0)
    model, x = Model(is_checkpointed), torch.randn(8, 16, requires_grad=True)
    graphs = []

    def keep(joint, inputs, **options):
        graphs.append(copy.deepcopy(joint))
        graphs.extend(partition(joint, inputs, **options))
        return graphs[1:]

    backend = aot_autograd(fw_compiler=lambda graph, _: make_boxed_func(graph.forward), partition_fn=keep)
    results = run(model, x, torch.compile(model, backend=backend, dynamic=dynamic))
    torch.compiler.reset()
    return results, graphs


def names(graph):
    return {node.name for node in graph.graph.nodes if node.op == "call_function"}


def saved_bytes(forward, outputs=5):
    """Bytes of distinct memory that the forward makes for the backward; outputs: results, and new values of buffers."""
    values = [v for v in forward.graph.output_node().args[0][outputs:] if v.op != "placeholder"]
    arguments = {n.meta["val"].untyped_storage()._cdata for n in forward.graph.nodes if n.op == "placeholder"}
    sizes = {v.meta["val"].untyped_storage()._cdata: v.meta["val"].untyped_storage().nbytes() for v in values}
    return sum(size for key, size in sizes.items() if key not in arguments)


@pytest.fixture
def left_to_pytorch(monkeypatch):
    """The graphs that the partitioner does not divide itself."""
    calls = []

    def call(*args, **options):
        calls.append(args)
        return min_cut_rematerialization_partition(*args, **options)

    monkeypatch.setattr(cleave.partitioner, "min_cut_partition", call)
    return calls


@pytest.mark.parametrize("is_checkpointed", [False, True], ids=["plain", "checkpointed"])
def test_gradients_are_the_default_partitioners(is_checkpointed, left_to_pytorch):
    expected, (_, forward, _) = run_with(default_partition, is_checkpointed)
    results, (joint, cut, backward) = run_with(cleave.partitioner.partition, is_checkpointed)
    assert not left_to_pytorch
    assert all(torch.equal(a, b) for a, b in zip(results, expected, strict=True))
    assert names(cut) | names(backward) == names(joint)
    # Computed twice, in place of saved.
    assert names(cut) & names(backward)
    assert is_checkpointed or 0 < saved_bytes(cut) < saved_bytes(forward)


def test_all_may_be_computed_again(left_to_pytorch):
    cheap, (_, cut, _) = run_with(cleave.partitioner.partition)
    everything, (_, least, _) = run_with(functools.partial(cleave.partitioner.partition, recompute="all"))
    assert not left_to_pytorch
    assert all(torch.equal(a, b) for a, b in zip(everything, cheap, strict=True))
    assert saved_bytes(least) < saved_bytes(cut)


def test_symbolic_sizes_are_left_to_pytorch(left_to_pytorch):
    results, _ = run_with(cleave.partitioner.partition, dynamic=True)
    expected, _ = run_with(default_partition)
    assert len(left_to_pytorch) == 1
    assert all(torch.equal(a, b) for a, b in zip(results, expected, strict=True))


def test_inductor_tells_partitioners_apart():
    partitioner = cleave.partitioner.inductor_partitioner()
    assert partitioner is cleave.partitioner.inductor_partitioner()
    identity = partitioner.uuid()
    assert identity == pickle.loads(pickle.dumps(identity)) == partitioner.uuid()
    assert identity != cleave.partitioner.inductor_partitioner("all").uuid()
    for each in (partitioner, cleave.partitioner.inductor_partitioner("all")):
        assert pickle.loads(pickle.dumps(each)) is each


@pytest.mark.parametrize(
    "make",
    [cleave.partitioner.inductor_partitioner, functools.partial(cleave.partitioner.partition, None, [], num_fwd_outputs=1)],
    ids=["inductor", "aot"],
)
def test_another_level_of_recomputation_is_refused(make):
    with pytest.raises(cleave.Error, match="^expected recompute as one of 'views', 'cheap', 'gathers', 'all', found 'most'$"):
        make(recompute="most")


compiles_in_inductor = pytest.mark.skipif(
    not (shutil.which("g++") or shutil.which("clang++")), reason="Inductor needs a C++ compiler"
)


@compiles_in_inductor
def test_a_constant_that_a_mask_gives_in_inductor():
    """As in the backward of Longformer: PyTorch 2.11 by itself writes C++ for this that does not compile."""
    from torch._inductor import config

    def combine(x, mask):
        zero = torch.zeros(())
        first = torch.where(mask, zero, x)
        second = torch.slice_scatter(x, torch.zeros(8, 30), 1, 2, 32)
        return first + second + torch.where(mask, zero, 2 * x)

    cleave.partitioner.inductor_partitioner()
    torch.manual_seed(0)
    x, mask = torch.randn(8, 32), torch.rand(8, 32) > 0.5
    torch.compiler.reset()
    with config.patch(fx_graph_cache=False):
        assert torch.equal(torch.compile(combine)(x, mask), combine(x, mask))


@compiles_in_inductor
def test_inductor_takes_it(left_to_pytorch, monkeypatch):
    from torch._inductor import config

    cut, divide = [], cleave.partitioner.partition

    def keep(joint, inputs, **options):
        before = names(joint)
        parts = divide(joint, inputs, **options)
        cut.append(names(parts[0]) | names(parts[1]) == before)
        return parts

    monkeypatch.setattr(cleave.partitioner, "partition", keep)

    def step(**settings):
        torch.compiler.reset()
        torch.manual_seed(0)
        model = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.GELU(), torch.nn.LayerNorm(32), torch.nn.Linear(32, 16))
        x = torch.randn(8, 16, requires_grad=True)
        with config.patch(fx_graph_cache=False, **settings):
            return run(model, x, torch.compile(lambda x: model(x).split(8, 1)))

    expected = step()
    assert not cut
    results = step(custom_partitioner_fn=cleave.partitioner.inductor_partitioner())
    assert cut == [True] and not left_to_pytorch
    assert all(torch.equal(a, b) for a, b in zip(results, expected, strict=True))
