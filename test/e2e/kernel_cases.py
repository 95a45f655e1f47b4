"""Programs of many kernels: each op that kernels have, and random chains of them."""

import dataclasses
import random

import cleave_run  # noqa: F401
import torch

MLIR = {
    torch.float32: "f32", torch.float64: "f64", torch.bfloat16: "bf16", torch.float16: "f16",
    torch.int64: "i64", torch.int32: "i32", torch.bool: "i1",
}  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Value:
    name: str
    shape: tuple
    dtype: torch.dtype

    @property
    def type(self):
        return "tensor<" + "".join(f"{size}x" for size in self.shape) + MLIR[self.dtype] + ">"


class Kernel:
    """A kernel in the making: `op` adds one, `give` a result."""

    def __init__(self, name):
        self.name, self.inputs, self.lines, self.results, self.count = name, [], [], [], 0
        self.below = {}

    def input(self, shape, dtype, below=None):
        """With `below`, numbers from 0 up to that."""
        value = Value(f"%a{len(self.inputs)}", tuple(shape), dtype)
        self.inputs.append(value)
        self.below[value.name] = below
        return value

    def op(self, name, operands, results, attributes=""):
        """`operands`: values and texts; `results`: (shape, dtype) pairs, or None for no result."""
        values = [o for o in operands if isinstance(o, Value)]
        arguments = ", ".join(o.name if isinstance(o, Value) else o for o in operands)
        arguments += (", " if attributes else "") + attributes
        made = [Value(f"%{self.count}", *r) if r else None for r in results]
        if len(made) > 1:
            made = [m and dataclasses.replace(m, name=f"{m.name}#{i}") for i, m in enumerate(made)]
        types = ", ".join(m.type if m else "none" for m in made)
        left = f"%{self.count}" + (f":{len(made)}" if len(made) > 1 else "")
        self.lines.append(
            f"  {left} = aten.{name}({arguments}) : ({', '.join(v.type for v in values)}) -> "
            + (types if len(made) == 1 else f"({types})")
        )
        self.count += 1
        return made[0] if len(made) == 1 else made

    def give(self, *values):
        self.results += [v for v in values if v]

    def text(self):
        arguments = ", ".join(f"{a.name}: {a.type}" for a in self.inputs)
        types = ", ".join(r.type for r in self.results)
        names = ", ".join(r.name for r in self.results)
        return (
            f"exec.kernel @{self.name}({arguments}) -> ({types}) {{\n"
            + "\n".join(self.lines)
            + f"\n  exec.return {names} : {types}\n}}\n"
        )


def program(kernels):
    """One function that launches all, each with inputs and outputs of its own."""
    inputs = [(f"{k.name}.{i}", a) for k in kernels for i, a in enumerate(k.inputs)]
    outputs, launches, arguments = [], [], []
    for number, (name, value) in enumerate(inputs):
        arguments.append(f'%x{number}: {value.type} {{train.role = #train.role<input "{name}">}}')
    number = 0
    for index, kernel in enumerate(kernels):
        operands = ", ".join(f"%x{number + i}" for i in range(len(kernel.inputs)))
        number += len(kernel.inputs)
        types = [r.type for r in kernel.results]
        launches.append(
            f"  %r{index}:{len(types)} = exec.launch @{kernel.name}({operands}) : "
            f"({', '.join(a.type for a in kernel.inputs)}) -> ({', '.join(types)})"
        )
        outputs += [(f"%r{index}#{i}", f"{kernel.name}.{i}", t) for i, t in enumerate(types)]
    results = [f'{t} {{train.role = #train.role<output "{n}">}}' for _, n, t in outputs]
    values, types = ", ".join(v for v, _, _ in outputs), ", ".join(t for _, _, t in outputs)
    return (
        "".join(k.text() for k in kernels)
        + "func.func @microbatch(\n    "
        + ",\n    ".join(arguments)
        + ")\n    -> ("
        + ",\n        ".join(results)
        + ")\n    attributes {train.phase = #train.phase<microbatch>} {\n"
        + "\n".join(launches)
        + f"\n  return {values} : {types}\n}}\n"
    )


def tensors(kernels, seed, special=False, smallest=-100):
    """Inputs by name. With `special`, some elements are NaN, infinite, `smallest`, large, tiny or zero."""
    generator = torch.Generator().manual_seed(seed)
    made = {}
    for kernel in kernels:
        for i, value in enumerate(kernel.inputs):
            if value.dtype == torch.bool:
                tensor = torch.randint(0, 2, value.shape, generator=generator).bool()
            elif not value.dtype.is_floating_point:
                below = kernel.below[value.name]
                low, high = (0, below) if below else (-5, 6)
                tensor = torch.randint(low, high, value.shape, generator=generator)
                tensor = tensor.to(value.dtype)
            else:
                tensor = torch.randn(value.shape, generator=generator, dtype=torch.float64) * 2
                if special and tensor.numel() > 1:
                    odd = [float("nan"), float("inf"), -float("inf"), 0, -0.0, 80, smallest, 1e-6]
                    odd = torch.tensor(odd, dtype=torch.float64)
                    where = torch.rand(value.shape, generator=generator) < 0.1
                    picks = torch.randint(0, len(odd), value.shape, generator=generator)
                    tensor = torch.where(where, odd[picks], tensor)
                tensor = tensor.to(value.dtype)
            made[f"{kernel.name}.{i}"] = tensor
    return made


UNARY = ["sqrt", "rsqrt", "reciprocal", "neg", "abs", "exp", "log", "log1p", "sin", "cos", "erf",
         "relu", "silu", "sigmoid", "tanh"]  # fmt: skip
BINARY = ["add", "sub", "mul", "div", "maximum", "minimum"]
COMPARISONS = ["eq", "ne", "lt", "le", "gt", "ge"]
SCALARS = ["add_scalar", "sub_scalar", "rsub_scalar", "mul_scalar", "div_scalar"]


def pointwise(dtype, shape):
    """A kernel for each pointwise op, on a matrix and what broadcasts to it."""
    rows, columns = shape
    kernels = []

    def kernel(name):
        kernels.append(Kernel(name))
        return kernels[-1]

    for name in UNARY:
        k = kernel(name)
        k.give(k.op(name, [k.input(shape, dtype)], [(shape, dtype)]))
    for approximate in ["none", "tanh"]:
        k = kernel(f"gelu_{approximate}")
        attribute = f'approximate = "{approximate}"'
        k.give(k.op("gelu", [k.input(shape, dtype)], [(shape, dtype)], attribute))
        k = kernel(f"gelu_backward_{approximate}")
        operands = [k.input(shape, dtype), k.input(shape, dtype)]
        k.give(k.op("gelu_backward", operands, [(shape, dtype)], attribute))
    for name in ["silu_backward", "sigmoid_backward", "tanh_backward"]:
        k = kernel(name)
        k.give(k.op(name, [k.input(shape, dtype), k.input(shape, dtype)], [(shape, dtype)]))
    k = kernel("threshold_backward")
    operands = [k.input(shape, dtype), k.input(shape, dtype)]
    k.give(k.op("threshold_backward", operands, [(shape, dtype)], "threshold = 0"))
    others = {"matrix": shape, "column": (columns,), "row": (rows, 1), "number": ()}
    for name in BINARY:
        for kind, other in others.items():
            k = kernel(f"{name}_{kind}")
            k.give(k.op(name, [k.input(shape, dtype), k.input(other, dtype)], [(shape, dtype)]))
    for name in COMPARISONS:
        k = kernel(name)
        operands = [k.input(shape, dtype), k.input((columns,), dtype)]
        k.give(k.op(name, operands, [(shape, torch.bool)]))
        k = kernel(f"{name}_scalar")
        result = [(shape, torch.bool)]
        k.give(k.op(f"{name}_scalar", [k.input(shape, dtype)], result, "other = 0.5"))
    for name in SCALARS:
        k = kernel(name)
        alpha = "" if name in ("mul_scalar", "div_scalar") else ", alpha = 2"
        k.give(k.op(name, [k.input(shape, dtype)], [(shape, dtype)], "other = 0.7" + alpha))
    k = kernel("add_alpha")
    operands = [k.input(shape, dtype), k.input(shape, dtype)]
    k.give(k.op("add", operands, [(shape, dtype)], "alpha = 0.5"))
    k = kernel("addcmul")
    operands = [k.input(shape, dtype), k.input(shape, dtype), k.input((columns,), dtype)]
    k.give(k.op("addcmul", operands, [(shape, dtype)], "value = 0.5"))
    for exponent in ["2", "3", "0.5", "-0.5", "-1", "-2", "5", "0", "2.5"]:
        k = kernel(f"pow_{exponent.replace('.', '_').replace('-', 'm')}")
        attribute = f"exponent = {exponent}"
        k.give(k.op("pow_tensor_scalar", [k.input(shape, dtype)], [(shape, dtype)], attribute))
    for name, attribute in [("clamp", "min = -0.5, max = 0.75"), ("clamp_min", "min = 0.1"),
                            ("clamp_max", "max = 0.1")]:  # fmt: skip
        k = kernel(name)
        k.give(k.op(name, [k.input(shape, dtype)], [(shape, dtype)], attribute))
    k = kernel("where")
    operands = [k.input(shape, torch.bool), k.input((columns,), dtype), k.input((rows, 1), dtype)]
    k.give(k.op("where", operands, [(shape, dtype)]))
    k = kernel("masked_fill_scalar")
    operands = [k.input(shape, dtype), k.input((rows, 1), torch.bool)]
    k.give(k.op("masked_fill_scalar", operands, [(shape, dtype)], "value = -2.0"))
    k = kernel("masked_fill")
    operands = [k.input(shape, dtype), k.input((columns,), torch.bool), k.input((), dtype)]
    k.give(k.op("masked_fill", operands, [(shape, dtype)]))
    k = kernel("native_dropout_backward")
    operands = [k.input(shape, dtype), k.input(shape, torch.bool)]
    k.give(k.op("native_dropout_backward", operands, [(shape, dtype)], "scale = 1.25"))
    k = kernel("mse_loss_backward")
    operands = [k.input((), dtype), k.input(shape, dtype), k.input(shape, dtype)]
    k.give(k.op("mse_loss_backward", operands, [(shape, dtype)], "reduction = 1"))
    return kernels


def logic(shape):
    """Booleans, integers, and conversions between them."""
    rows, columns = shape
    kernels = []

    def kernel(name):
        kernels.append(Kernel(name))
        return kernels[-1]

    for dtype in [torch.bool, torch.int64, torch.float32]:
        for name in ["logical_and", "logical_or"]:
            k = kernel(f"{name}_{MLIR[dtype]}")
            operands = [k.input(shape, dtype), k.input((columns,), dtype)]
            k.give(k.op(name, operands, [(shape, torch.bool)]))
        k = kernel(f"logical_not_{MLIR[dtype]}")
        k.give(k.op("logical_not", [k.input(shape, dtype)], [(shape, torch.bool)]))
    for dtype in [torch.bool, torch.int64, torch.int32]:
        for name in ["bitwise_and", "bitwise_or"]:
            k = kernel(f"{name}_{MLIR[dtype]}")
            operands = [k.input(shape, dtype), k.input((columns,), dtype)]
            k.give(k.op(name, operands, [(shape, dtype)]))
        k = kernel(f"bitwise_not_{MLIR[dtype]}")
        k.give(k.op("bitwise_not", [k.input(shape, dtype)], [(shape, dtype)]))
        k = kernel(f"sum_{MLIR[dtype]}")
        value = k.op("mul", [k.input(shape, dtype), k.input(shape, dtype)], [(shape, dtype)])
        attribute = "dim = [-1], keepdim = true"
        k.give(k.op("sum_dim_int_list", [value], [((rows, 1), torch.int64)], attribute))
    for dtype in [torch.int64, torch.int32]:
        for name in ["add", "sub", "mul", "maximum", "minimum"]:
            k = kernel(f"{name}_{MLIR[dtype]}")
            operands = [k.input(shape, dtype), k.input((rows, 1), dtype)]
            k.give(k.op(name, operands, [(shape, dtype)]))
        k = kernel(f"largest_{MLIR[dtype]}")
        value = k.op("neg", [k.input(shape, dtype)], [(shape, dtype)])
        k.give(k.op("amax", [value], [((rows, 1), dtype)], "dim = [1], keepdim = true"))
        k = kernel(f"compare_{MLIR[dtype]}")
        k.give(k.op("lt_scalar", [k.input(shape, dtype)], [(shape, torch.bool)], "other = 2"))
    kinds = [torch.float32, torch.float64, torch.bfloat16, torch.float16, torch.int64, torch.int32,
             torch.bool]  # fmt: skip
    for source in kinds:
        for target in kinds:
            if source != target:
                k = kernel(f"to_{MLIR[source]}_{MLIR[target]}")
                attribute = f"dtype = {MLIR[target]}"
                k.give(k.op("_to_copy", [k.input(shape, source)], [(shape, target)], attribute))
    return kernels


def reductions(dtype, shape):
    """Softmax, norms, losses, sums in both directions, and what is computed around them."""
    rows, columns = shape
    full, row, column = (shape, dtype), ((rows, 1), dtype), ((columns,), dtype)
    kernels = []

    def kernel(name):
        kernels.append(Kernel(f"{name}_{rows}x{columns}"))
        return kernels[-1]

    for name in ["_softmax", "_log_softmax"]:
        k = kernel(name)
        k.give(k.op(name, [k.input(*full)], [full], "dim = -1, half_to_float = false"))
        k = kernel(f"{name}_backward_data")
        operands = [k.input(*full), k.input(*full)]
        attributes = f"dim = -1, input_dtype = {MLIR[dtype]}"
        k.give(k.op(f"{name}_backward_data", operands, [full], attributes))
    k = kernel("_safe_softmax")
    k.give(k.op("_safe_softmax", [k.input(*full)], [full], "dim = -1"))
    k = kernel("rms_norm")
    x, w = k.input(*full), k.input(*column)
    square = k.op("pow_tensor_scalar", [x], [full], "exponent = 2")
    mean = k.op("mean_dim", [square], [row], "dim = [-1], keepdim = true")
    scale = k.op("rsqrt", [k.op("add_scalar", [mean], [row], "other = 1.0e-05")], [row])
    y = k.op("mul", [w, k.op("mul", [x, scale], [full])], [full])
    k.give(y, scale)
    k = kernel("amax")
    value = k.op("neg", [k.input(*full)], [full])
    k.give(k.op("amax", [value], [row], "dim = [-1], keepdim = true"))
    if rows > 1:
        k = kernel("cross_entropy_backward")
        number, classes = ((), dtype), ((rows,), torch.int64)
        gradient, y, weight = k.input(*number), k.input(*full), k.input(*number)
        # Class 0 is ignored.
        target = k.input(*classes, below=columns)
        operands = [gradient, y, target, "none", "reduction = 1", "ignore_index = 0", weight]
        k.give(k.op("nll_loss_backward", operands, [full]))
        g = k.op("nll_loss_backward", operands, [full])
        attributes = f"dim = 1, input_dtype = {MLIR[dtype]}"
        k.give(k.op("_log_softmax_backward_data", [g, y], [full], attributes))
    statistics = ((rows, 1), torch.float32 if dtype.itemsize == 2 else dtype)
    k = kernel("bias_gradient")
    operands = [k.input(*full), k.input(*full)]
    g = k.op("gelu_backward", operands, [full], 'approximate = "tanh"')
    k.give(g, k.op("sum_dim_int_list", [g], [((1, columns), dtype)], "dim = [0], keepdim = true"))
    k = kernel("totals")
    x, y = k.input(*full), k.input(*full)
    # A total of squares: in 16 bits, rounding each term is all that is left where terms cancel out.
    product = k.op("mul", [x, x if dtype.itemsize == 2 else y], [full])
    k.give(k.op("sum", [product], [((), dtype)]), k.op("mean", [product], [((), dtype)]))
    for reduction in [1, 2]:
        k = kernel(f"mse_loss_{reduction}")
        x = k.op("neg", [k.input(*full)], [full])
        k.give(k.op("mse_loss", [x, k.input(*full)], [((), dtype)], f"reduction = {reduction}"))
    if dtype.itemsize == 2:
        # On the CPU, ATen's statistics of 16-bit types have 16 bits, and the op says f32.
        return kernels
    k = kernel("layer_norm")
    residual = k.op("add", [k.input(*full), k.input(*full)], [full])
    operands = [residual, f"normalized_shape = [{columns}]", k.input(*column), k.input(*column)]
    results = [full, statistics, statistics]
    k.give(residual, *k.op("native_layer_norm", operands, results, "eps = 1.0e-05"))
    k = kernel("layer_norm_backward")
    operands = [k.input(*full), k.input(*full), f"normalized_shape = [{columns}]",
                k.input(*statistics), k.input(*statistics),
                k.input(*column), k.input(*column)]  # fmt: skip
    attributes = "output_mask = [true, true, true]"
    k.give(*k.op("native_layer_norm_backward", operands, [full, column, column], attributes))
    return kernels


def windows(dtype, batch, heads, tokens, width):
    """Rotary embedding, with tables of some of the rows' dimensions, and its gradient."""
    shape = (batch, heads, tokens, width)
    half = (batch, heads, tokens, width // 2)
    table = (tokens, width)
    kernels = []
    for backward in [False, True]:
        k = Kernel(f"rotary{'_backward' * backward}")
        x, cos, sin = k.input(shape, dtype), k.input(table, dtype), k.input(table, dtype)
        left = k.op("mul", [x, cos], [(shape, dtype)])
        right = k.op("mul", [x, sin], [(shape, dtype)]) if backward else x
        first, second = f"dim = 3, start = 0, end = {width // 2}", f"dim = 3, start = {width // 2}"
        a = k.op("slice", [right], [(half, dtype)], first)
        b = k.op("slice", [right], [(half, dtype)], f"{second}, end = 9223372036854775807")
        if backward:
            sizes = f"input_sizes = [{', '.join(map(str, shape))}]"
            low = k.op("slice_backward", [b], [(shape, dtype)], f"{sizes}, {first}, step = 1")
            a = k.op("neg", [a], [(half, dtype)])
            high = k.op("slice_backward", [a], [(shape, dtype)],
                        f"{sizes}, {second}, end = 9223372036854775807, step = 1")  # fmt: skip
            turned = k.op("add", [low, high], [(shape, dtype)])
        else:
            b = k.op("neg", [b], [(half, dtype)])
            turned = k.op("cat", [f"[{b.name}, {a.name}]"], [(shape, dtype)], "dim = -1")
            k.lines[-1] = k.lines[-1].replace(": () ->", f": ({b.type}, {a.type}) ->")
            turned = k.op("mul", [turned, sin], [(shape, dtype)])
        k.give(k.op("add", [left, turned], [(shape, dtype)]))
        kernels.append(k)
    return kernels


def chain(name, random_numbers, dtype, shape):
    """Random tame ops on what there is, with values of every extent."""
    rows, columns = shape
    k = Kernel(name)
    full, row = (shape, dtype), ((rows, 1), dtype)
    pool = [k.input(shape, dtype) for _ in range(2)]
    pool += [k.input((columns,), dtype), k.input((rows, 1), dtype)]
    matrices = pool[:2]
    for _ in range(random_numbers.randint(3, 12)):
        x = random_numbers.choice(matrices)
        kind = random_numbers.randrange(9)
        if kind < 3:
            other = random_numbers.choice(pool)
            made = k.op(random_numbers.choice(BINARY[:3]), [x, other], [full])
            made = k.op(random_numbers.choice(["tanh", "sigmoid"]), [made], [full])
        elif kind == 3:
            made = k.op(random_numbers.choice(["silu", "relu", "erf", "sin", "abs"]), [x], [full])
        elif kind == 4:
            made = k.op("_softmax", [x], [full], "dim = -1, half_to_float = false")
        elif kind == 5:
            attribute = "dim = [-1], keepdim = true"
            pool.append(k.op("mean_dim", [x], [row], attribute))
            continue
        elif kind == 6:
            pool.append(k.op("amax", [x], [row], "dim = [-1], keepdim = true"))
            continue
        elif kind == 7:
            chosen = [random_numbers.choice(pool[:2])]
            mask = k.op("gt_scalar", chosen, [(shape, torch.bool)], "other = 0.3")
            made = k.op("where", [mask, x, random_numbers.choice(pool)], [full])
        else:
            operands = [x, f"normalized_shape = [{columns}]", pool[2], "none"]
            statistics = ((rows, 1), torch.float32 if dtype.itemsize == 2 else dtype)
            results = [full, statistics, statistics]
            made, *_ = k.op("native_layer_norm", operands, results, "eps = 0.01")
        pool.append(made)
        matrices = [v for v in pool if v.shape == shape]
    last = [v for v in pool if v.name.startswith("%") and not v.name.startswith("%a")]
    k.give(*random_numbers.sample(last, min(len(last), 3)))
    if random_numbers.random() < 0.5 and len(matrices) > 2:
        k.give(k.op("sum_dim_int_list", [matrices[-1]], [((columns,), dtype)], "dim = [0]"))
    return k if k.results else chain(name, random_numbers, dtype, shape)


def chains(seed, count, dtype, shapes):
    numbers = random.Random(seed)
    return [chain(f"chain_{i}", numbers, dtype, numbers.choice(shapes)) for i in range(count)]
