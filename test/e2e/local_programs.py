"""Small programs of one rank, as lists of ops that can be printed, run on a mesh, and changed.

A test of the prover needs programs that are wrong in every way, and what they compute, from a source
that knows nothing of proofs: this file prints ops and runs them with NumPy on all ranks at once. Nothing
here reads a sharding rule or a type.
"""

import dataclasses
import itertools
import math

import numpy as np


@dataclasses.dataclass(frozen=True)
class Op:
    """`inputs` are numbers of values: first the arguments, then each op's result."""

    name: str
    inputs: tuple
    attributes: tuple = ()
    microbatch: int | None = None  # of a step, which it belongs to
    on: tuple | None = None  # how its result lies, as pairs, in a program with types

    def get(self, key):
        return dict(self.attributes)[key]

    def replace(self, **attributes):
        changed = {**dict(self.attributes), **attributes}
        return dataclasses.replace(self, attributes=tuple(changed.items()))

    @property
    def axes(self):
        """Along which it communicates, major first."""
        axes = self.get("axis")
        return axes if isinstance(axes, tuple) else (axes,)


COLLECTIVES = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "shift")


@dataclasses.dataclass(frozen=True)
class Program:
    """Arguments and results have shapes of the whole tensor and placements: {axis: "R", "P" or a dimension}."""

    name: str
    mesh: tuple  # of (axis, size)
    arguments: tuple  # of (shape, placement as pairs, dtype)
    ops: tuple
    results: tuple  # of (value, placement as pairs)
    microbatches: tuple = ()  # of (argument, microbatch), for arguments that belong to one

    def size(self, *axes):
        return math.prod(dict(self.mesh)[axis] for axis in axes)

    def local_shape(self, shape, placement):
        shape = list(shape)
        for axis, on in placement:
            if isinstance(on, int):
                shape[on] //= self.size(axis)
        return tuple(shape)

    def local_types(self):
        """The shape and dtype of each value. Raises ValueError where an op does not fit its operands."""
        types = [(self.local_shape(shape, placement), dtype) for shape, placement, dtype in self.arguments]
        for op in self.ops:
            types.append(infer(self, op, [types[i] for i in op.inputs]))
        return types


def check(condition):
    if not condition:
        raise ValueError


def infer(program, op, types):
    shapes = [shape for shape, _ in types]
    dtype = types[0][1] if types else "i64"
    name = op.name
    if name == "axis_index":
        return (), "i64"
    if name == "arange":
        check(op.get("end") > 0)
        return (op.get("end"),), "i64"
    shape = list(shapes[0])
    if name in ("add", "sub", "mul", "div", "logical_or"):
        check(types[0][1] == types[1][1] and (name == "logical_or") == (dtype == "i1"))
        return tuple(np.broadcast_shapes(*shapes)), dtype
    if name == "lt":
        check(dtype == types[1][1] == "i64")
        return tuple(np.broadcast_shapes(*shapes)), "i1"
    if name == "where":
        check(dtype == "i1" and types[1][1] == types[2][1] == "f64")
        return tuple(np.broadcast_shapes(*shapes)), "f64"
    if name == "dropout":
        check(dtype == "f64" and types[1:] == [((), "i64")] * 2)
        return shapes[0], dtype
    if name == "cat":
        dim = op.get("dim")
        check(dtype == types[1][1] == "f64" and len(shape) == len(shapes[1]) > dim)
        rest = [n for i, n in enumerate(shape) if i != dim]
        check(rest == [n for i, n in enumerate(shapes[1]) if i != dim])
        shape[dim] += shapes[1][dim]
        return tuple(shape), dtype
    if name == "cumsum":
        check(dtype == "f64" and op.get("dim") < len(shape))
        return shapes[0], dtype
    if name in ("tanh", "exp", "log", "sqrt", "rsqrt", "relu", "neg", "mul_scalar", "shift", "all_reduce"):
        check(dtype == "f64" or (name == "mul_scalar" and dtype == "i64" and isinstance(op.get("other"), int)))
        return shapes[0], dtype
    if name in ("lt_scalar", "ge_scalar"):
        check(dtype == "i64")
        return shapes[0], "i1"
    if name == "masked_fill_scalar":
        check(types[1][1] == "i1" and tuple(np.broadcast_shapes(*shapes)) == shapes[0])
        return shapes[0], dtype
    if name == "mm":
        check(dtype == types[1][1] == "f64" and len(shape) == len(shapes[1]) == 2 and shape[1] == shapes[1][0])
        return (shape[0], shapes[1][1]), dtype
    if name == "t":
        check(len(shape) == 2)
        return (shape[1], shape[0]), dtype
    if name in ("sum", "amax", "mean", "var", "norm"):
        check(dtype == "f64" and op.get("dim") < len(shape))
        check(name != "var" or 0 <= op.get("correction") < shape[op.get("dim")])
        shape[op.get("dim")] = 1
        return tuple(shape), dtype
    if name in ("softmax", "log_softmax"):
        check(dtype == "f64" and op.get("dim") < len(shape))
        return shapes[0], dtype
    if name == "addmm":
        rest = infer(program, Op("mm", ()), types[1:])
        check(dtype == "f64" and shapes[0] == rest[0])
        return rest
    if name in ("nll_loss", "nll_weight"):
        check(dtype == "f64" and types[1][1] == "i64" and len(shape) == 2 and shapes[1] == (shape[0],))
        return (), dtype
    if name == "nll_loss_backward":
        check(shapes[0] == shapes[3] == () and dtype == types[1][1] == types[3][1] == "f64" and types[2][1] == "i64")
        check(len(shapes[1]) == 2 and shapes[2] == (shapes[1][0],))
        return shapes[1], dtype
    if name == "log_softmax_backward":
        check(dtype == types[1][1] == "f64" and shapes[0] == shapes[1] and op.get("dim") < len(shape))
        return shapes[0], dtype
    if name == "view":
        check(np.prod(op.get("size")) == np.prod(shape))
        return tuple(op.get("size")), dtype
    if name == "slice":
        check(0 <= op.get("start") < op.get("end") <= shape[op.get("dim")])
        shape[op.get("dim")] = op.get("end") - op.get("start")
        return tuple(shape), dtype
    if name == "unsqueeze":
        return (*shapes[0], 1), dtype
    if name == "embedding":
        check(dtype == "f64" and types[1][1] == "i64" and len(shape) == 2)
        return (*shapes[1], shape[1]), dtype
    if name == "embedding_dense_backward":
        check(dtype == "f64" and types[1][1] == "i64" and tuple(shape[:-1]) == shapes[1])
        return (op.get("num_weights"), shape[-1]), dtype
    ranks = program.size(*op.axes)
    check(dtype == "f64" and len(set(op.axes)) == len(op.axes))
    if name == "all_gather":
        check(op.get("dim") < len(shape))
        shape[op.get("dim")] *= ranks
    elif name == "reduce_scatter":
        check(op.get("dim") < len(shape) and shape[op.get("dim")] % ranks == 0)
        shape[op.get("dim")] //= ranks
    elif name == "all_to_all":
        check(op.get("split") != op.get("concat") and max(op.get("split"), op.get("concat")) < len(shape))
        check(shape[op.get("split")] % ranks == 0)
        shape[op.get("split")] //= ranks
        shape[op.get("concat")] *= ranks
    else:
        raise AssertionError(name)
    return tuple(shape), dtype


# Running.


def compute(op, values):
    """What an op of one rank makes; IndexError where an index names no row."""
    x = values[0] if values else None
    simple = {
        "add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide, "logical_or": np.logical_or,
        "tanh": np.tanh, "exp": np.exp, "log": np.log, "neg": np.negative, "mm": np.matmul, "t": np.transpose,
        "sqrt": np.sqrt, "lt": np.less, "where": np.where,
    }  # fmt: skip
    if op.name in simple:
        return simple[op.name](*values)
    if op.name == "dropout":
        # A number is a function of seed and offset, of the place in the stream, and of the place in the tensor.
        random = np.random.default_rng([int(values[1]) % 2**32, int(values[2]) % 2**32, op.get("position")])
        return x * (random.random(x.shape) < 0.5) * 2
    if op.name == "cat":
        return np.concatenate(values, op.get("dim"))
    if op.name in ("softmax", "log_softmax"):
        shifted = x - x.max(op.get("dim"), keepdims=True)
        logarithm = shifted - np.log(np.exp(shifted).sum(op.get("dim"), keepdims=True))
        return logarithm if op.name == "log_softmax" else np.exp(logarithm)
    if op.name == "addmm":
        return x + values[1] @ values[2]
    if op.name == "log_softmax_backward":
        return x - np.exp(values[1]) * x.sum(op.get("dim"), keepdims=True)
    if op.name.startswith("nll"):
        return negative_log_likelihood(op, values)
    if op.name == "embedding":
        if values[1].min() < 0 or values[1].max() >= len(x):
            raise IndexError
        return x[values[1]]
    if op.name == "embedding_dense_backward":
        gradient = np.zeros((op.get("num_weights"), x.shape[-1]))
        if values[1].min() < 0 or values[1].max() >= len(gradient):
            raise IndexError
        keep = values[1] != op.get("padding_idx")
        np.add.at(gradient, values[1][keep], x[keep])
        return gradient
    return {
        "relu": lambda: np.maximum(x, 0),
        "rsqrt": lambda: 1 / np.sqrt(x),
        "arange": lambda: np.arange(op.get("end")),
        "cumsum": lambda: x.cumsum(op.get("dim")),
        "var": lambda: x.var(op.get("dim"), ddof=op.get("correction"), keepdims=True),
        "norm": lambda: np.sqrt((x * x).sum(op.get("dim"), keepdims=True)),
        "mul_scalar": lambda: x * op.get("other"),
        "lt_scalar": lambda: x < op.get("other"),
        "ge_scalar": lambda: x >= op.get("other"),
        "masked_fill_scalar": lambda: np.where(values[1], op.get("value"), x),
        "sum": lambda: x.sum(op.get("dim"), keepdims=True),
        "mean": lambda: x.mean(op.get("dim"), keepdims=True),
        "amax": lambda: x.max(op.get("dim"), keepdims=True),
        "view": lambda: x.reshape(op.get("size")),
        "slice": lambda: np.take(x, range(op.get("start"), op.get("end")), op.get("dim")),
        "unsqueeze": lambda: x[..., None],
    }[op.name]()


def negative_log_likelihood(op, values):
    scores, targets = values[:2] if op.name != "nll_loss_backward" else values[1:3]
    counts = targets != -100
    if ((targets < 0) & counts).any() or (targets >= scores.shape[1]).any():
        raise IndexError
    named = np.zeros_like(scores)
    named[np.nonzero(counts)[0], targets[counts]] = 1
    mean = op.get("reduction") == 1
    if op.name == "nll_weight":
        return named.sum()
    if op.name == "nll_loss":
        return -(named * scores).sum() / (named.sum() if mean else 1)
    return -named * values[0] / (values[3] if mean else 1)


def communicate(program, op, places, values):
    """What a collective makes of the values of all ranks."""
    at = [[name for name, _ in program.mesh].index(axis) for axis in op.axes]
    size = program.size(*op.axes)
    results = []
    for place in places:
        others = [list(place) for _ in range(size)]
        for other, numbers in zip(others, itertools.product(*(range(program.size(axis)) for axis in op.axes))):
            for i, number in zip(at, numbers, strict=True):
                other[i] = number
        group = [values[places.index(tuple(other))] for other in others]
        mine = others.index(list(place))
        if op.name == "axis_index":
            results.append(np.array(mine))
        elif op.name == "all_reduce":
            reduce = {"sum": np.sum, "avg": np.mean, "max": np.max}[op.get("kind")]
            results.append(reduce(np.stack(group), axis=0))
        elif op.name == "all_gather":
            results.append(np.concatenate(group, op.get("dim")))
        elif op.name == "reduce_scatter":
            total = sum(group) / (size if op.get("kind") == "avg" else 1)
            results.append(np.split(total, size, op.get("dim"))[mine])
        elif op.name == "all_to_all":
            parts = [np.split(value, size, op.get("split"))[mine] for value in group]
            results.append(np.concatenate(parts, op.get("concat")))
        elif op.name == "shift":
            results.append(group[(mine - op.get("by")) % size])
    return results


def run(program, whole):
    """The results of each rank, for arguments of the whole tensors."""
    places = list(itertools.product(*(range(size) for _, size in program.mesh)))
    values = []
    for tensor, (_, placement, _) in zip(whole, program.arguments, strict=True):
        values.append([shard(program, tensor, placement, place) for place in places])
    for op in program.ops:
        inputs = [values[i] for i in op.inputs]
        if op.name in COLLECTIVES or op.name == "axis_index":
            values.append(communicate(program, op, places, inputs[0] if inputs else places))
        else:
            of_ranks = zip(*inputs, strict=True) if inputs else [()] * len(places)
            values.append([compute(op, list(of_rank)) for of_rank in of_ranks])
    return places, [values[value] for value, _ in program.results]


def shard(program, tensor, placement, place):
    at = dict(zip([name for name, _ in program.mesh], place, strict=True))
    for axis, on in placement:
        if isinstance(on, int):
            tensor = np.split(tensor, program.size(axis), on)[at[axis]]
    return tensor


def difference(local, expected, whole):
    """The largest difference between what ranks have and their part of what one device has; infinite where
    a rank fails."""
    try:
        places, results = run(local, whole)
    except IndexError:
        return float("inf")
    worst = 0.0
    for values, (_, placement), tensor in zip(results, local.results, expected, strict=True):
        summed = [axis for axis, on in placement if on == "P"]
        names = [name for name, _ in local.mesh]
        for place, value in zip(places, values, strict=True):
            if summed:
                others = [
                    other
                    for other, q in zip(values, places, strict=True)
                    if all(q[i] == place[i] for i, name in enumerate(names) if name not in summed)
                ]
                value = sum(others)
            part = shard(local, tensor, placement, place)
            if value.shape != part.shape or not np.isfinite(value).all():
                return float("inf")
            worst = max(worst, float(np.abs(value - part).max(initial=0.0)))
    return worst


# Printing.


def print_type(shape, dtype, placement=None):
    encoding = f", {print_placement(placement)}" if placement else ""
    return f"tensor<{''.join(f'{n}x' for n in shape)}{dtype}{encoding}>"


def print_placement(placement):
    """`P` on one axis and dimensions on others; axes that shard one dimension are listed major first."""
    order, parts = {}, []
    for axis, on in placement:
        if isinstance(on, int):
            parts.append(f"{axis} = S({on}, {order.setdefault(on, 0)})")
            order[on] += 1
        else:
            parts.append(f"{axis} = {on}")
    return f"#dist.on<@mesh, {', '.join(parts)}>"


def print_attribute(value):
    if isinstance(value, float):
        return f"{value:.17e}"
    if isinstance(value, tuple):
        return f"[{', '.join(map(str, value))}]"
    return str(value).lower() if isinstance(value, bool) else str(value)


SPELLING = {
    "sum": "sum_dim_int_list", "mean": "mean_dim", "softmax": "_softmax", "log_softmax": "_log_softmax",
    "var": "var_correction", "norm": "linalg_vector_norm",
}  # fmt: skip


def print_op(op, number, types):
    def typed(values):
        return ", ".join(print_type(*types[i]) for i in values)

    names = ", ".join(f"%{i}" for i in op.inputs)
    result = print_type(*types[number])
    if op.name in COLLECTIVES or op.name == "axis_index":
        over = "over @mesh [" + ", ".join(f'"{axis}"' for axis in op.axes) + "]"
        text = {
            "all_reduce": lambda: f"all_reduce {op.get('kind')}({names}) {over}",
            "all_gather": lambda: f"all_gather({names}) dim {op.get('dim')} {over}",
            "reduce_scatter": lambda: f"reduce_scatter {op.get('kind')}({names}) dim {op.get('dim')} {over}",
            "all_to_all": lambda: f"all_to_all({names}) split {op.get('split')} concat {op.get('concat')} {over}",
            "shift": lambda: f"shift({names}) by {op.get('by')} wrap {over}",
            "axis_index": lambda: f"axis_index {over}",
        }[op.name]()
        operands = f"{typed(op.inputs)} -> " if op.inputs and types[op.inputs[0]] != types[number] else ""
        return f"%{number} = dist.{text} : {operands}{result}"
    attributes = dict(op.attributes)
    if op.name == "dropout":
        mask = print_type(types[number][0], "i1", *types[number][2:])
        given = f"p = 0.5, train = true, position = {op.get('position')}, generator = #aten.generator<mt19937>"
        text = f"aten.rng_native_dropout({names}, {given}) : ({typed(op.inputs)}) -> ({result}, {mask})"
        return f"%{number}, %unused{number} = {text}"
    if op.name == "cat":
        return f"%{number} = aten.cat([{names}], dim = {op.get('dim')}) : ({typed(op.inputs)}) -> {result}"
    if op.name.startswith("nll"):
        given = f"reduction = {op.get('reduction')}, ignore_index = -100"
        first = [f"%{i}" for i in op.inputs]
        if op.name == "nll_loss_backward":
            text = f"aten.nll_loss_backward({', '.join(first[:3])}, none, {given}, {first[3]})"
            return f"%{number} = {text} : ({typed(op.inputs)}) -> {result}"
        both = f"%{number}, %unused{number}" if op.name == "nll_loss" else f"%unused{number}, %{number}"
        text = f"aten.nll_loss_forward({', '.join(first)}, none, {given})"
        return f"{both} = {text} : ({typed(op.inputs)}) -> ({result}, {result})"
    if op.name == "log_softmax_backward":
        return (
            f"%{number} = aten._log_softmax_backward_data({names}, dim = {op.get('dim')}, input_dtype = f64) "
            f": ({typed(op.inputs)}) -> {result}"
        )
    if op.name == "arange":
        return f"%{number} = aten.arange(end = {op.get('end')}, dtype = i64) : () -> {result}"
    if op.name in ("sum", "amax", "mean", "var", "norm"):
        before = {"ord": 2.0} if op.name == "norm" else {}
        after = {"correction": op.get("correction")} if op.name == "var" else {}
        attributes = {**before, "dim": (op.get("dim"),), **after, "keepdim": True}
    if op.name.endswith("softmax"):
        attributes["half_to_float"] = False
    if op.name == "unsqueeze":
        attributes = {"dim": -1}
    if op.name == "embedding_dense_backward":
        attributes["scale_grad_by_freq"] = False
    written = "".join(f", {key} = {print_attribute(value)}" for key, value in attributes.items())
    return f"%{number} = aten.{SPELLING.get(op.name, op.name)}({names}{written}) : ({typed(op.inputs)}) -> {result}"


def with_placements(program, types):
    """The types of values with how they lie: as ops say, or as their first operand does."""
    typed = [(*types[i], placement) for i, (_, placement, _) in enumerate(program.arguments)]
    for i, op in enumerate(program.ops):
        here = op.on or (typed[op.inputs[0]][2] if op.inputs else tuple((axis, "R") for axis, _ in program.mesh))
        typed.append((*types[len(program.arguments) + i], here))
    return typed


def print_function(program, name, is_global, is_typed=False):
    """The function of one device has whole shapes, that of a rank says how its arguments and results lie."""
    types = program.local_types()
    if is_typed:
        types = with_placements(program, types)

    def placed(placement):
        return "" if is_global or is_typed else f" {{dist.placement = {print_placement(placement)}}}"

    arguments = ", ".join(
        f"%{i}: {print_type(*types[i])}{placed(placement)}" for i, (_, placement, _) in enumerate(program.arguments)
    )
    results = ", ".join(
        # The signature stays what it is.
        print_type(*types[v][:2], placement if is_typed else None) + placed(placement)
        for v, placement in program.results
    )
    lines = [f"func.func @{name}({arguments}) -> ({results}) {{"]
    first = len(program.arguments)
    lines += [f"  {print_op(op, first + i, types)}" for i, op in enumerate(program.ops)]
    values = ", ".join(f"%{v}" for v, _ in program.results)
    lines += [f"  return {values} : {', '.join(print_type(*types[v]) for v, _ in program.results)}", "}"]
    return "\n".join(lines) + "\n"


def print_mesh(mesh):
    return "dist.mesh @mesh [" + ", ".join(f'"{axis}" = {size}' for axis, size in mesh) + "]\n"


def with_lines(text):
    """The function whose ops are at lines 0, 1, ... of a file "ops"."""
    lines = text.splitlines()
    body = [f'{line} loc("ops":{number}:1)' for number, line in enumerate(lines[1:-2])]
    return "\n".join([lines[0], *body, *lines[-2:]]) + "\n"
