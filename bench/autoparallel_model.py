"""What autoparallel published, read from a checkout: graphs of one rank, and the functions by which it prices them.

Nothing of it is copied: its modules are loaded from the checkout, those of costs one by one, since the package as a
whole imports what an environment without a GPU may lack.
"""

import dataclasses
import functools
import importlib
import importlib.util
import sys
import types

import torch
from torch._subclasses.fake_tensor import FakeTensorMode

KINDS = {
    "all_gather_into_tensor": "all-gather",
    "reduce_scatter_tensor": "reduce-scatter",
    "all_reduce": "all-reduce",
    "all_to_all_single": "all-to-all",
}
FUNCTIONS = {"all-gather": "allgather", "reduce-scatter": "reduce_scatter", "all-reduce": "allreduce", "all-to-all": "all_to_all"}


@dataclasses.dataclass(frozen=True, order=True)
class Collective:
    """`size`: bytes of the whole, which a gather makes and a scatter takes."""

    kind: str
    axes: tuple
    dtype: str
    size: int


@dataclasses.dataclass(frozen=True, order=True)
class Product:
    """m x k by k x n."""

    m: int
    k: int
    n: int


@dataclasses.dataclass
class Graph:
    collectives: list  # of Collective
    products: list  # of Product, attention's left out
    layers: int
    seconds: float  # of its ops by autoparallel's model, collectives left out


def short(dtype):
    return {torch.float32: "f32", torch.bfloat16: "bf16", torch.int64: "i64"}.get(dtype, str(dtype))


class Costs:
    """autoparallel's model of an H100 and of nodes of eight, on a mesh of `sizes`."""

    def __init__(self, checkout, sizes):
        for name, folder in (("autoparallel", "autoparallel"), ("autoparallel.cost_models", "autoparallel/cost_models")):
            package = types.ModuleType(name)
            package.__path__ = [str(checkout / folder)]
            sys.modules[name] = package
        load = functools.partial(importlib.import_module, package="autoparallel.cost_models")
        links, self.collectives, self.work = load(".nccl_cost_model"), load(".collective_runtime_estimation"), load(".compute_estimation")
        h100 = next(limit for limit in self.work.DEVICE_LIMITS if limit.name == "H100")
        self.work._get_device_limit = lambda: h100  # it asks the GPU of this machine otherwise
        self.sizes = tuple(sizes.values())
        self.axes = list(sizes)
        count = functools.reduce(lambda a, b: a * b, self.sizes)
        self.collectives.set_nccl_topo_config(links.h100_topo_config(num_nodes=count // 8))

    def move(self, size):
        """Seconds of a kernel that reads and writes so many bytes."""
        return 1e-6 * self.work.compute_read_write_time(size)

    def communicate(self, one):
        """Seconds of a collective. Over several axes its model takes one after the other, as it redistributes."""
        function, seconds, size = FUNCTIONS[one.kind], 0.0, one.size
        for axis in reversed(one.axes):  # from the whole to the part
            place = self.axes.index(axis)
            seconds += 1e-6 * self.collectives.collective_comm_cost(function, size, self.sizes, place)
            if one.kind in ("all-gather", "reduce-scatter"):
                size //= self.sizes[place]
        return seconds

    def node(self, node):
        return 1e-6 * self.work.estimate_strategy_runtime_cost(node, None)

    @functools.cache  # noqa: B019
    def call(self, target, *arguments):
        """Seconds of an operator; a tensor is (shape, dtype)."""
        graph, made = torch.fx.Graph(), []
        for one in arguments:
            if isinstance(one, tuple):
                place = graph.placeholder(f"a{len(made)}")
                place.meta["val"] = torch.empty(one[0], dtype=one[1], device="meta")
                one = place
            made.append(one)
        return self.node(graph.call_function(target, tuple(made)))


class Reader:
    """Takes the place of the reader of PyTorch's reproducers: the arguments, without values."""

    def __init__(self):
        self.tensors = []

    def storage(self, *arguments, **named):
        return None

    def tensor(self, storage, shape, stride=None, dtype=torch.float32, **named):
        self.tensors.append((shape, stride, dtype))


def read(path, sizes, costs):
    """A published graph. Its process groups are the axes, in their order."""
    described = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(described)
    described.loader.exec_module(module)
    module.device = lambda **_: torch.device("cpu")  # its graphs name GPUs
    groups = dict(zip(module.get_pg_config(), sizes))
    reader = Reader()
    module.load_args(reader)
    graph = torch.fx.symbolic_trace(module.Repro())
    collectives, products, seconds, layers = [], [], 0.0, 0

    class Recorder(torch.fx.Interpreter):
        def run_node(self, node):
            node.meta["val"] = super().run_node(node)
            return node.meta["val"]

    with FakeTensorMode(allow_non_fake_inputs=True):
        made = [
            torch.empty(shape, dtype=dtype) if stride is None else torch.empty_strided(shape, stride, dtype=dtype)
            for shape, stride, dtype in reader.tensors
        ]
        Recorder(graph).run(*made)
        for node in graph.graph.nodes:
            if node.op != "call_function":
                continue
            target = str(node.target)
            if "_c10d_functional" in target:
                kind = KINDS.get(target.split(".")[1])
                if kind:
                    held = node.meta["val"] if kind == "all-gather" else node.args[0].meta["val"]
                    collectives.append(Collective(kind, (groups[node.args[-1]],), short(held.dtype), held.numel() * held.element_size()))
                continue
            seconds += costs.node(node)
            if target == "aten.mm.default":
                left, right = (argument.meta["val"] for argument in node.args)
                products.append(Product(left.shape[0], left.shape[1], right.shape[1]))
            layers += "scaled_dot_product" in target
    return Graph(collectives, products, layers, seconds)
