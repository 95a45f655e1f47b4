"""Random graphs of what kernels are made of compute, bit for bit, the same fused and unfused."""

import math
import random
import subprocess

import cleave_run  # noqa: F401
import combinations_cover
import pytest
import torch
from safetensors.torch import save_file

SHAPES = [(2, 3, 4, 6), (2, 4, 3, 6), (24, 6), (4, 6), (1, 1, 4, 6), (6,), (2, 3, 4, 1), (8, 3, 6)]


class Graph:
    """A program in the making: ops on values that are known by number, with their shapes."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.shapes = list(SHAPES)
        self.lines = []

    def type(self, shape):
        return "tensor<" + "".join(f"{size}x" for size in shape) + "f32>"

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

    def text(self):
        outputs = self.random.sample(range(len(SHAPES), len(self.shapes)), len(self.lines) // 4)
        arguments = ", ".join(
            f'%{i}: {self.type(shape)} {{train.role = #train.role<input "{i}">}}'
            for i, shape in enumerate(SHAPES)
        )
        results = ", ".join(
            f'{self.type(self.shapes[i])} {{train.role = #train.role<output "{k}">}}'
            for k, i in enumerate(outputs)
        )
        values = ", ".join(f"%{i}" for i in outputs)
        types = ", ".join(self.type(self.shapes[i]) for i in outputs)
        return "\n".join(
            [
                f"func.func @microbatch({arguments}) -> ({results})",
                "    attributes {train.phase = #train.phase<microbatch>} {",
                *self.lines,
                f"  return {values} : {types}",
                "}",
            ]
        ).replace("%", "%v")


@pytest.mark.parametrize("number", range(8))
def test_same_bits(number, build_dir, cleave_run, tmp_path):
    graph = Graph(combinations_cover.seed() + number)
    while len(graph.lines) < 120:
        graph.add()
    path, fused = tmp_path / "graph.mlir", tmp_path / "fused.mlir"
    path.write_text(graph.text())
    command = [build_dir / "bin" / "cleave-opt", path, "--fuse-kernels", "-o", fused]
    subprocess.run(command, check=True)
    assert fused.read_text().count("exec.launch") > 3
    torch.manual_seed(number)
    inputs = {str(i): torch.randn(shape) for i, shape in enumerate(SHAPES)}
    save_file(inputs, tmp_path / "inputs.safetensors")
    cleave_run.succeed(path, "--against", fused, "--inputs", tmp_path / "inputs.safetensors")
