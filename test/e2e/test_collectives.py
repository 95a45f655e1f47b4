"""Every communication op on ranks as processes and as threads, against lists of tensors.

Each rank's values enter as shards of one input and leave as shards of one output, so that inputs and
dumps are the lists; in between they vary freely (V). One program has all ops. The table of all legal
types is the conformance suite's; here are several axes in both orders, futures, coalesced forms,
point-to-point and an axis that takes its size from the number of ranks.
"""

import time

import pytest
import torch
from safetensors.torch import load_file, save_file

PAIR = "<@mesh, a = {}, b = {}>"


def tensor(shape, *placements, dtype="f32"):
    sizes = "".join(f"{size}x" for size in shape)
    return f"tensor<{sizes}{dtype}, #dist.on{PAIR.format(*placements)}>"


class Module:
    """A typed program over the axes a and b whose values are lists, one tensor a rank."""

    def __init__(self, a, b, mesh=None):
        self.sizes = {"a": a, "b": b}
        self.ranks = a * b
        self.mesh = mesh or f'"a" = {a}, "b" = {b}'
        self.arguments, self.lines, self.results = [], [], []
        self.inputs, self.expected = {}, {}
        self.count = 0

    def name(self):
        self.count += 1
        return f"%v{self.count}"

    def group(self, axes, rank):
        """The ranks that differ from `rank` along the axes only, in the axes' order."""
        coordinates = {"a": rank // self.sizes["b"], "b": rank % self.sizes["b"]}
        ranks = [coordinates]
        for axis in axes:
            ranks = [{**r, axis: i} for r in ranks for i in range(self.sizes[axis])]
        return [r["a"] * self.sizes["b"] + r["b"] for r in ranks]

    def input(self, values):
        """A list as an argument; its name as a value that varies."""
        name, shape = f"x{len(self.inputs)}", list(values[0].shape)
        dtype = {torch.float32: "f32", torch.int64: "i64", torch.bfloat16: "bf16"}[values[0].dtype]
        self.inputs[name] = torch.cat(values)
        sharded = tensor(shape, "S(0, 0)", "S(0, 1)", dtype=dtype)
        self.arguments.append(
            f'%{name}: {sharded} {{train.role = #train.role<input "{name}">}}'
        )
        half, free = self.name(), self.name()
        between = tensor(shape, "S(0)", "V", dtype=dtype)
        varying = tensor(shape, "V", "V", dtype=dtype)
        self.lines += [
            f"{half} = dist.reinterpret %{name} : {sharded} -> {between}",
            f"{free} = dist.reinterpret {half} : {between} -> {varying}",
        ]
        return free, varying

    def output(self, value, expected, dtype="f32"):
        """A list as a result, and what it must be."""
        shape = list(expected[0].shape)
        half, whole = self.name(), self.name()
        varying, between = tensor(shape, "V", "V", dtype=dtype), tensor(shape, "S(0)", "V", dtype=dtype)
        sharded = tensor(shape, "S(0, 0)", "S(0, 1)", dtype=dtype)
        self.lines += [
            f"{half} = dist.reinterpret {value} : {varying} -> {between}",
            f"{whole} = dist.reinterpret {half} : {between} -> {sharded}",
        ]
        key = str(len(self.results))
        self.results.append((whole, f'{sharded} {{train.role = #train.role<output "{key}">}}', sharded))
        self.expected[f"output.{key}"] = torch.cat(expected)

    def op(self, text, axes, source, expected, dtype="f32"):
        """`text` with the operand at {}, from a V to a V of the expected shapes."""
        value, type_ = source
        result = tensor(list(expected[0].shape), "V", "V", dtype=dtype)
        over = ", ".join(f'"{axis}"' for axis in axes)
        done = self.name()
        line = f"{text.format(value)} over @mesh [{over}] : {type_} -> "
        if self.count % 2:
            self.lines.append(f"{done} = {line}{result}")
        else:
            future = self.name()
            self.lines.append(f"{future} = {line}!dist.future<{result}>")
            self.lines.append(f"{done} = dist.wait {future} : {result}")
        self.output(done, expected, dtype)

    def text(self):
        results = ", ".join(type_ for _, type_, _ in self.results)
        values = ", ".join(value for value, _, _ in self.results)
        types = ", ".join(type_ for _, _, type_ in self.results)
        return "\n".join(
            [
                "module @lists {",
                f"dist.mesh @mesh [{self.mesh}]",
                f"func.func @microbatch({', '.join(self.arguments)}) -> ({results})",
                "attributes {train.phase = #train.phase<microbatch>} {",
                *self.lines,
                f"return {values} : {types}",
                "}",
                "}",
            ]
        )


def every_op(module, axes):
    """Adds each op along the axes with random values."""
    generator = torch.Generator().manual_seed(len(axes))
    ranks = range(module.ranks)
    size = len(module.group(axes, 0))
    values = [torch.randn(2 * size, 3, generator=generator) for _ in ranks]
    x = module.input(values)
    groups = [module.group(axes, rank) for rank in ranks]
    place = [group.index(rank) for rank, group in enumerate(groups)]
    lists = [torch.stack([values[each] for each in group]) for group in groups]
    zero = torch.zeros_like(values[0])
    root = size - 1

    def part(value, rank, dim=0):
        return value.chunk(size, dim)[place[rank]]

    def fold(name, factor=1.0):
        return {
            "sum": lambda v: v.sum(0),
            "avg": lambda v: v.sum(0) / size,
            "premul_sum<0.5>": lambda v: (v * 0.5).sum(0),
            "max": lambda v: v.amax(0),
            "min": lambda v: v.amin(0),
            "product": lambda v: v.prod(0),
        }[name]

    for name in ("sum", "avg", "premul_sum<0.5>", "max", "min", "product"):
        reduced = [fold(name)(each) for each in lists]
        module.op(f"dist.all_reduce {name}({{}})", axes, x, reduced)
        module.op(
            f"dist.reduce_scatter {name}({{}}) dim 0", axes, x,
            [part(reduced[rank], rank) for rank in ranks],
        )  # fmt: skip
        module.op(
            f"dist.reduce {name}({{}}) root {root}", axes, x,
            [reduced[rank] if place[rank] == root else zero for rank in ranks],
        )  # fmt: skip
    for dim in (0, 1):
        gathered = [torch.cat(list(each), dim) for each in lists]
        module.op(f"dist.all_gather({{}}) dim {dim}", axes, x, gathered)
        module.op(
            f"dist.gather({{}}) dim {dim} root {root}", axes, x,
            [g if place[rank] == root else torch.zeros_like(g) for rank, g in enumerate(gathered)],
        )  # fmt: skip
    module.op(
        "dist.all_to_all({}) split 0 concat 1", axes, x,
        [torch.cat([part(v, rank) for v in lists[rank]], 1) for rank in ranks],
    )  # fmt: skip
    module.op("dist.broadcast({}) root 0", axes, x, [each[0] for each in lists])
    module.op(
        f"dist.scatter({{}}) dim 0 root {root}", axes, x,
        [part(lists[rank][root], rank) for rank in ranks],
    )  # fmt: skip
    module.op(
        "dist.permute({}) [0 -> 1]", axes, x,
        [lists[rank][0] if place[rank] == 1 else zero for rank in ranks],
    )  # fmt: skip
    module.op(
        "dist.shift({}) by 1 wrap", axes, x,
        [lists[rank][(place[rank] - 1) % size] for rank in ranks],
    )  # fmt: skip
    module.op(
        "dist.shift({}) by -1", axes, x,
        [lists[rank][place[rank] + 1] if place[rank] + 1 < size else zero for rank in ranks],
    )  # fmt: skip
    send_and_receive(module, axes, x, lists, place, zero)
    coalesced(module, axes, x, lists)
    ragged(module, axes, x, values, groups, place)
    indices(module, axes, place)


def send_and_receive(module, axes, x, lists, place, zero):
    """A started send from the first to the last rank, received, then awaited; a barrier."""
    value, type_ = x
    last = len(lists[0]) - 1
    over = ", ".join(f'"{axis}"' for axis in axes)
    future, received, nothing = module.name(), module.name(), module.name()
    module.lines += [
        f"{future} = dist.send({value}) from 0 to {last} tag 7 over @mesh [{over}] : {type_}"
        " -> !dist.future<none>",
        f"{received} = dist.receive from 0 to {last} tag 7 over @mesh [{over}] : {type_}",
        f"{nothing} = dist.wait {future} : none",
        f"dist.barrier over @mesh [{over}]",
    ]
    module.output(
        received,
        [lists[rank][0] if place[rank] == last else zero for rank in range(module.ranks)],
    )


def coalesced(module, axes, x, lists):
    """Two values in one message, of different element types, started and awaited."""
    value, type_ = x
    over = ", ".join(f'"{axis}"' for axis in axes)
    whole = [torch.arange(4) * (rank + 1) for rank in range(module.ranks)]
    y, other = module.input(whole)
    futures, first, second = module.name(), module.name(), module.name()
    module.lines += [
        f"{futures}:2 = dist.all_reduce sum({value}, {y}) over @mesh [{over}] : {type_}, {other}"
        f" -> !dist.future<{type_}>, !dist.future<{other}>",
        f"{second} = dist.wait {futures}#1 : {other}",
        f"{first} = dist.wait {futures}#0 : {type_}",
    ]
    module.output(first, [each.sum(0) for each in lists])
    module.output(
        second,
        [sum(whole[r] for r in module.group(axes, rank)) for rank in range(module.ranks)],
        "i64",
    )


def ragged(module, axes, x, values, groups, place):
    """Rows to each rank of the group in numbers that data say, none among them, and room for more."""
    value, type_ = x
    size, ranks = len(groups[0]), range(module.ranks)
    numbers = [[(source + 2 * target + len(axes)) % 3 for target in range(size)] for source in range(size)]
    room = 2 * size + 1
    sends = [torch.tensor(numbers[place[rank]]) for rank in ranks]
    receives = [torch.tensor([each[place[rank]] for each in numbers]) for rank in ranks]
    expected = []
    for rank in ranks:
        rows = [values[peer].split([*numbers[i], 2 * size - sum(numbers[i])])[place[rank]]
                for i, peer in enumerate(groups[rank])]  # fmt: skip
        rows = torch.cat(rows)
        expected.append(torch.cat([rows, torch.zeros(room - len(rows), 3)]))
    back = [torch.cat([v[: sum(numbers[place[rank]])], torch.zeros(2 * size - sum(numbers[place[rank]]), 3)])
            for rank, v in enumerate(values)]  # fmt: skip
    (send, list_), (receive, _) = module.input(sends), module.input(receives)
    over = ", ".join(f'"{axis}"' for axis in axes)
    there, future, again = module.name(), module.name(), module.name()
    result = tensor([room, 3], "V", "V")
    module.lines += [
        f"{there} = dist.ragged_all_to_all({value}, {send}, {receive}) over @mesh [{over}]"
        f" : ({type_}, {list_}, {list_}) -> {result}",
        f"{future} = dist.ragged_all_to_all({there}, {receive}, {send}) over @mesh [{over}]"
        f" : ({result}, {list_}, {list_}) -> !dist.future<{type_}>",
        f"{again} = dist.wait {future} : {type_}",
    ]
    module.output(there, expected)
    module.output(again, back)


def indices(module, axes, place):
    over = ", ".join(f'"{axis}"' for axis in axes)
    on = ["V" if axis in axes else "R" for axis in "ab"]
    scalar = tensor([], *on, dtype="i64")
    value, row = module.name(), module.name()
    shape = tensor([1], *on, dtype="i64")
    module.lines += [
        f"{value} = dist.axis_index over @mesh [{over}] : {scalar}",
        f"{row} = aten.unsqueeze({value}, dim = 0) : ({scalar}) -> {shape}",
    ]
    for axis in "ab":
        if axis not in axes:
            varying, all_varying = module.name(), tensor([1], "V", "V", dtype="i64")
            module.lines.append(f"{varying} = dist.reinterpret {row} : {shape} -> {all_varying}")
            row = varying
    module.output(row, [torch.tensor([each]) for each in place], "i64")


def evaluate(cleave_run, module, folder, *options):
    """Runs the module; its dump, and how long the run took."""
    program = folder / "lists.mlir"
    program.write_text(module.text())
    save_file({n: t.contiguous() for n, t in module.inputs.items()}, folder / "in.safetensors")
    dump = folder / "out.safetensors"
    begin = time.monotonic()
    cleave_run.succeed(
        program, "--inputs", folder / "in.safetensors", "--dump", dump,
        "--ranks", module.ranks, *options,
    )  # fmt: skip
    return load_file(dump), time.monotonic() - begin


def check(found, module):
    assert sorted(found) == sorted(module.expected)
    for name, expected in module.expected.items():
        torch.testing.assert_close(found[name], expected, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("options", [(), ("--ranks-as", "threads")], ids=["processes", "threads"])
def test_every_op_on_two_axes(cleave_run, tmp_path, options):
    module = Module(2, 2)
    for axes in (["a"], ["b"], ["a", "b"], ["b", "a"]):
        every_op(module, axes)
    found, _ = evaluate(cleave_run, module, tmp_path, *options)
    check(found, module)


def test_every_op_on_one_axis(cleave_run, tmp_path):
    module = Module(3, 1)
    every_op(module, ["a"])
    found, _ = evaluate(cleave_run, module, tmp_path, "--ranks-as", "threads")
    check(found, module)


@pytest.mark.parametrize("ranks", [2, 3])
def test_an_open_axis_takes_the_ranks_there_are(cleave_run, tmp_path, ranks):
    module = Module(1, ranks, mesh='"a" = 1, "b" = ?')
    values = [torch.full((2,), float(rank)) for rank in range(ranks)]
    x = module.input(values)
    module.op("dist.all_reduce avg({})", ["b"], x, [sum(values) / ranks] * ranks)
    module.op("dist.shift({}) by 1 wrap", ["a", "b"], x, values[-1:] + values[:-1])
    found, _ = evaluate(cleave_run, module, tmp_path, "--ranks-as", "threads")
    check(found, module)


def test_thousands_of_small_collectives_take_seconds(cleave_run, tmp_path):
    module = Module(4, 1)
    values = [torch.full((4,), float(rank + 1)) for rank in range(4)]
    value, type_ = module.input(values)
    for _ in range(1000):
        summed, part = module.name(), module.name()
        module.lines += [
            f'{summed} = dist.all_reduce avg({value}) over @mesh ["a"] : {type_}',
            f'{part} = dist.shift({summed}) by 1 wrap over @mesh ["a"] : {type_}',
        ]
        value = part
    module.output(value, [torch.full((4,), 2.5)] * 4)
    found, seconds = evaluate(cleave_run, module, tmp_path, "--ranks-as", "threads")
    check(found, module)
    # Four ranks on two cores: a collective takes half a millisecond to one and a half.
    assert seconds < 30, seconds


def test_ranks_of_an_untyped_program_hold_lists(cleave_run, tmp_path):
    """Without placements, inputs are the same on all ranks and each rank dumps its own results."""
    (tmp_path / "untyped.mlir").write_text("""
      module @untyped {
        dist.mesh @mesh ["a" = 3]
        func.func @microbatch(%x: tensor<2xf32> {train.role = #train.role<input "x">})
            -> (tensor<2xf32> {train.role = #train.role<output "0">})
            attributes {train.phase = #train.phase<microbatch>} {
          %y = dist.shift(%x) by 1 over @mesh ["a"] : tensor<2xf32>
          return %y : tensor<2xf32>
        }
      }""")
    save_file({"x": torch.tensor([1.0, 2.0])}, tmp_path / "in.safetensors")
    cleave_run.succeed(
        tmp_path / "untyped.mlir", "--inputs", tmp_path / "in.safetensors",
        "--dump", tmp_path / "out.safetensors", "--ranks", 3,
    )  # fmt: skip
    names = ["out.safetensors", "out.safetensors.rank1", "out.safetensors.rank2"]
    found = [load_file(tmp_path / name)["output.0"].tolist() for name in names]
    assert found == [[0, 0], [1, 2], [1, 2]]


@pytest.mark.parametrize(
    ("sends", "receives", "message"),
    [
        ([3, 2], [3, 2], "rank 0 sends 5 rows, but has 4"),
        ([0, -1], [0, 0], "expected numbers of rows in 'sends', found -1"),
        ([2, 2], [2, 2], "rank 0 receives 4 rows, but has room for 3: raise the capacity of its experts"),
    ],
)
def test_numbers_of_rows_that_do_not_fit_are_errors_of_the_run(cleave_run, tmp_path, sends, receives, message):
    module = Module(2, 1)
    value, type_ = module.input([torch.ones(4, 2)] * 2)
    # Of the second rank nothing is wrong: it must not wait for the first.
    nothing = torch.zeros(2, dtype=torch.int64)
    (send, list_), (receive, _) = (module.input([torch.tensor(n), nothing]) for n in (sends, receives))
    result, found = tensor([3, 2], "V", "V"), module.name()
    module.lines.append(
        f'{found} = dist.ragged_all_to_all({value}, {send}, {receive}) over @mesh ["a"]'
        f" : ({type_}, {list_}, {list_}) -> {result}"
    )
    module.output(found, [torch.zeros(3, 2)] * 2)
    (tmp_path / "lists.mlir").write_text(module.text())
    save_file({n: t.contiguous() for n, t in module.inputs.items()}, tmp_path / "in.safetensors")
    for options in ((), ("--ranks-as", "threads")):
        text = cleave_run.fail(tmp_path / "lists.mlir", "--inputs", tmp_path / "in.safetensors", "--ranks", 2, *options)
        assert "ragged_all_to_all of" in text and message in text, text
