"""Random graphs of what kernels are made of compute the same fused as unfused, bit for bit, and nearly
the same compiled."""

import math
import random
import subprocess

import cleave_run  # noqa: F401
import combinations_cover
import pytest
import torch
from safetensors.torch import save_file
from test_compile_kernels import describe_difference, levels

SHAPES = [(2, 3, 4, 6), (2, 4, 3, 6), (24, 6), (4, 6), (1, 1, 4, 6), (6,), (2, 3, 4, 1), (8, 3, 6)]


class Graph:
    """Ops in the making, on values that are known by number, with their shapes."""

    def __init__(self, seed, dtype="f32", prefix="v"):
        self.random = random.Random(seed)
        self.dtype, self.prefix = dtype, prefix
        self.shapes = list(SHAPES)
        self.lines = []

    def type(self, shape):
        return "tensor<" + "".join(f"{size}x" for size in shape) + self.dtype + ">"

    def op(self, name, operands, shape, attributes="", is_list=False):
        arguments = ", ".join(f"%{i}" for i in operands)
        arguments = f"[{arguments}]" if is_list else arguments
        types = ", ".join(self.type(self.shapes[i]) for i in operands)
        comma = ", " if attributes else ""
        self.lines.append(
            f"  %{len(self.shapes)} = aten.{name}({arguments}{comma}{attributes}) : "
            f"({types}) -> {self.type(shape)}"
        )
        self.shapes.append(tuple(shape))

    def pick(self, accepts=lambda shape: True):
        """A value, mostly one of the last."""
        found = [i for i, shape in enumerate(self.shapes) if shape and accepts(shape)]
        if not found:
            return None
        recent = found[-6:] if self.random.random() < 0.7 else found
        return self.random.choice(recent)

    def add(self):
        kind = self.random.choice(
            "unary unary binary binary binary view transpose slice cat pad row column total "
            "softmax expand copy barrier".split()
        )
        getattr(self, kind)()

    def unary(self):
        i = self.pick()
        self.op(self.random.choice(["neg", "sin", "tanh", "sigmoid"]), [i], self.shapes[i])

    def binary(self):
        i = self.pick()

        def fits(shape):
            pairs = list(zip(reversed(shape), reversed(self.shapes[i])))
            return all(a == b or 1 in (a, b) for a, b in pairs)

        j = self.pick(fits)
        shape = torch.broadcast_shapes(self.shapes[i], self.shapes[j])
        if math.prod(shape) <= 2000:
            self.op(self.random.choice(["add", "mul", "sub"]), [i, j], shape)

    def view(self):
        i = self.pick()
        same = [s for s in SHAPES + self.shapes if math.prod(s) == math.prod(self.shapes[i])]
        shape = self.random.choice(same)
        copy = len(self.shapes)
        self.op("clone", [i], self.shapes[i], 'memory_format = "contiguous_format"')
        self.op("view", [copy], shape, f"size = {list(shape)}")

    def transpose(self):
        i = self.pick(lambda shape: len(shape) > 1)
        shape = list(self.shapes[i])
        last = len(shape) - (1 if self.random.random() < 0.8 and len(shape) > 2 else 0)
        a, b = sorted(self.random.sample(range(last), 2))
        shape[a], shape[b] = shape[b], shape[a]
        self.op("transpose", [i], shape, f"dim0 = {a}, dim1 = {b}")

    def slice(self):
        i = self.pick(lambda shape: shape[-1] % 2 == 0)
        shape = self.shapes[i]
        half, last = shape[-1] // 2, len(shape) - 1
        start = self.random.choice([0, half])
        attributes = f"dim = {last}, start = {start}, end = {start + half}"
        self.op("slice", [i], (*shape[:-1], half), attributes)

    def cat(self):
        i = self.pick(lambda shape: shape[-1] <= 6)
        j = self.pick(lambda shape: shape[:-1] == self.shapes[i][:-1] and shape[-1] <= 6)
        shape = (*self.shapes[i][:-1], self.shapes[i][-1] + self.shapes[j][-1])
        self.op("cat", [i, j], shape, "dim = -1", is_list=True)

    def pad(self):
        i = self.pick(lambda shape: shape[-1] == 3)
        if i is None:
            return
        shape = (*self.shapes[i][:-1], 6)
        start = self.random.choice([0, 3])
        attributes = (
            f"input_sizes = {list(shape)}, dim = {len(shape) - 1}, start = {start}, "
            f"end = {start + 3}, step = 1"
        )
        self.op("slice_backward", [i], shape, attributes)

    def row(self):
        i = self.pick()
        shape = (*self.shapes[i][:-1], 1)
        name = self.random.choice(["sum_dim_int_list", "mean_dim", "amax"])
        self.op(name, [i], shape, "dim = [-1], keepdim = true")

    def column(self):
        i = self.pick(lambda shape: len(shape) > 1)
        dims = list(range(len(self.shapes[i]) - 1))
        self.op("sum_dim_int_list", [i], self.shapes[i][-1:], f"dim = {dims}")

    def total(self):
        i = self.pick()
        copy = len(self.shapes)
        self.op("mean", [i], ())
        self.op("expand", [copy], (1,), "size = [1]")

    def softmax(self):
        i = self.pick(lambda shape: shape[-1] > 1)
        self.op("_softmax", [i], self.shapes[i], "dim = -1, half_to_float = false")

    def expand(self):
        i = self.pick(lambda shape: 1 in shape)
        if i is None:
            return
        shape = list(self.shapes[i])
        shape[shape.index(1)] = self.random.choice([2, 3])
        self.op("expand", [i], shape, f"size = {shape}")

    def copy(self):
        i = self.pick()
        self.op("clone", [i], self.shapes[i], 'memory_format = "contiguous_format"')

    def barrier(self):
        i = self.pick()
        self.op("cumsum", [i], self.shapes[i], "dim = -1")

    def grow(self, count):
        while len(self.lines) < count:
            self.add()
        made = range(len(SHAPES), len(self.shapes))
        self.outputs = self.random.sample(made, len(self.lines) // 4)
        return self


def program(graphs):
    """One function with the ops of all."""
    arguments, results, lines, values, types = [], [], [], [], []
    for graph in graphs:
        name = graph.prefix
        for i, shape in enumerate(SHAPES):
            role = f'{{train.role = #train.role<input "{name}.{i}">}}'
            arguments.append(f"%{name}{i}: {graph.type(shape)} {role}")
        for k, i in enumerate(graph.outputs):
            role = f'{{train.role = #train.role<output "{name}.{k}">}}'
            types.append(graph.type(graph.shapes[i]))
            results.append(f"{types[-1]} {role}")
            values.append(f"%{name}{i}")
        lines += [line.replace("%", f"%{name}") for line in graph.lines]
    return "\n".join(
        [
            f"func.func @microbatch({', '.join(arguments)}) -> ({', '.join(results)})",
            "    attributes {train.phase = #train.phase<microbatch>} {",
            *lines,
            f"  return {', '.join(values)} : {', '.join(types)}",
            "}",
        ]
    )


def draw(graphs, seed):
    """Inputs of the graphs by name."""
    torch.manual_seed(seed)
    dtypes = {"f32": torch.float32, "f64": torch.float64}
    return {
        f"{graph.prefix}.{i}": torch.randn(shape, dtype=dtypes[graph.dtype])
        for graph in graphs
        for i, shape in enumerate(SHAPES)
    }


@pytest.mark.parametrize("number", range(8))
def test_same_bits(number, build_dir, cleave_run, tmp_path):
    graph = Graph(combinations_cover.seed() + number).grow(120)
    path, fused = tmp_path / "graph.mlir", tmp_path / "fused.mlir"
    path.write_text(program([graph]))
    command = [build_dir / "bin" / "cleave-opt", path, "--fuse-kernels", "-o", fused]
    subprocess.run(command, check=True)
    assert fused.read_text().count("exec.launch") > 3
    save_file(draw([graph], number), tmp_path / "inputs.safetensors")
    cleave_run.succeed(path, "--against", fused, "--inputs", tmp_path / "inputs.safetensors")


def test_compiled(build_dir, cleave_run, tmp_path):
    """Graphs in one program, fused and compiled, compute what their ops do one by one. Most are of f64:
    in f32, what rounding changes grows with each op."""
    count, seed = (24 if combinations_cover.run_all() else 3), combinations_cover.seed()
    print("seed", seed)
    dtypes = ["f64", "f64", "f32"]
    graphs = [Graph(seed + 100 + i, dtypes[i % 3], f"g{i}_").grow(60) for i in range(count)]
    path, compiled = tmp_path / "graphs.mlir", tmp_path / "compiled.mlirbc"
    path.write_text(program(graphs))
    command = [build_dir / "bin" / "cleave-opt", path, "--fuse-kernels", "--compile-kernels"]
    result = subprocess.run([*command, "-o", compiled], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    # Whatever is fused is compiled.
    assert "not compiled" not in result.stderr
    inputs = draw(graphs, seed)
    expected = cleave_run.evaluate(path, inputs, tmp_path)
    wrong = []
    for target in levels():
        actual = cleave_run.evaluate(compiled, inputs, tmp_path, "--kernels", target)
        assert actual.keys() == expected.keys()
        for name, tensor in expected.items():
            tolerance = 1e-9 if tensor.dtype == torch.float64 else 2e-3
            difference = describe_difference(actual[name], tensor, tolerance)
            wrong += [f"{name} on {target}: {difference}"] * bool(difference)
    assert not wrong, "\n".join(wrong)
