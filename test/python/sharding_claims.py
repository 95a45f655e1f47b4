"""Checks what a sharding rule claims of an op by running the op in PyTorch, in parts and as a whole.

A rule is the JSON that `--print-sharding-rules` writes; what it claims is in
`dialects/sharding/ShardingRule.h`. Each check returns how many claims it tried, and raises `Broken`.
"""

import math
import random

import torch
from aten_calls import Call, tensor_type, with_shape
from grouped import grouped_mm


class Broken(AssertionError):
    """A claim that does not hold."""


# By dtype, relative to the largest element: a wrong claim is off by far more.
TOLERANCE = {torch.float64: 1e-9, torch.float32: 2e-4, torch.float16: 2e-2, torch.bfloat16: 1e-1}
TOLERANCE |= {torch.complex128: 1e-9, torch.complex64: 2e-4}

# Operands whose elements must be positive for the op to be defined.
POSITIVE = {
    "log", "log1p", "sqrt", "rsqrt", "pow", "pow_tensor_scalar", "reciprocal", "xlogy",
}  # fmt: skip
POSITIVE_OPERANDS = {"running_var", "save_invstd", "rstd", "total_weight"}
BETWEEN_0_AND_1 = {"binary_cross_entropy", "binary_cross_entropy_backward"}
# Integers that must be as different as they can be, so that no two are tied.
DISTINCT = {"sort", "sort_stable", "topk", "max_dim", "argmax"}


def index_limit(call: Call, name: str, place: int, shapes: dict) -> int | None:
    """The number of places that an index operand may name; None for other operands."""
    op = call.op.mnemonic

    def size(argument: str, dim: int) -> int:
        return shapes[argument][dim] if shapes[argument] else 1

    match op, name:
        case "embedding", "indices":
            return size("weight", 0)
        case "embedding_dense_backward", "indices":
            return call.value("num_weights")
        case "index" | "index_put" | "_unsafe_index" | "_unsafe_index_put", "indices":
            return size("self", place)
        case "index_select" | "index_add" | "gather" | "scatter_src" | "scatter_add" | "scatter_value", "index":
            return size("self", call.value("dim"))
        case "bincount", "self":
            return call.value("minlength")
        case "nll_loss_forward" | "nll_loss_backward", "target":
            return size("self", -1)
        case "max_pool2d_with_indices_backward", "indices":
            return size("self", -1) * size("self", -2)
    return None


def make_operands(call: Call, generator: torch.Generator) -> list:
    """Random operands for which the op is defined."""
    names = call.names()
    types = [tensor_type(t) for t in call.operand_types]
    shapes = {name: shape for (name, _), (shape, _) in zip(names, types)}
    return [make_operand(call, n, p, s, d, shapes, generator) for (n, p), (s, d) in zip(names, types)]


def make_operand(call, name, place, shape, dtype, shapes, generator):
    op = call.op.mnemonic
    if (op, name) == ("_grouped_mm", "offs"):
        divided = shapes["mat2"][-2 if len(shapes["self"]) == 2 else -1] if len(shapes["mat2"]) == 2 else shapes["self"][0]
        return torch.randint(0, divided + 1, shape, generator=generator).sort().values.to(dtype)
    limit = index_limit(call, name, place, shapes)
    if limit is not None and dtype != torch.bool:
        return torch.randint(0, max(limit, 1), shape, dtype=dtype, generator=generator)
    if dtype == torch.bool or (dtype == torch.uint8 and name == "condition"):
        return torch.randint(0, 2, shape, generator=generator).to(dtype)
    if dtype.is_complex:
        return torch.randn(shape, dtype=torch.complex128, generator=generator).to(dtype)
    if not dtype.is_floating_point:
        count = math.prod(shape)
        if op in DISTINCT:
            return torch.randperm(count, generator=generator).reshape(shape).to(dtype)
        return torch.randint(1, 6, shape, generator=generator).to(dtype)
    values = torch.randn(shape, dtype=torch.float64, generator=generator)
    if op in BETWEEN_0_AND_1:
        return values.sigmoid().to(dtype)
    if op in POSITIVE or name in POSITIVE_OPERANDS or (op, name) == ("div", "other"):
        values = values.abs() + 0.5
    return values.to(dtype)


def run(call: Call, operands: list, **overrides) -> list:
    """The op's results. Of Cleave's random ops only dropout runs: with the same draws each time."""
    if call.op.mnemonic == "rng_native_dropout":
        torch.manual_seed(0)
        p, train = call.value("p"), call.value("train", True)
        return list(torch.ops.aten.native_dropout(operands[0], p, train))
    if call.op.mnemonic == "_grouped_mm":
        return [grouped_mm(*operands)]  # the operator's takes no parts whose rows have few bytes
    return call.run([o.contiguous() for o in operands], **overrides)


# What their results hold is not said.
UNINITIALIZED = {"empty_memory_format", "empty_like", "new_empty_strided"}


def runs(call: Call) -> bool:
    if call.op.mnemonic in UNINITIALIZED:
        return False
    return not call.op.mnemonic.startswith("rng_") or call.op.mnemonic == "rng_native_dropout"


def expect_close(found, expected, what: str, like=()) -> None:
    """`like`: operands whose rounding counts too."""
    if (found is None) != (expected is None):
        raise Broken(f"{what}: one of the results is undefined")
    if found is None:
        return
    if found.shape != expected.shape:
        raise Broken(f"{what}: expected shape {list(expected.shape)}, found {list(found.shape)}")
    if expected.is_complex():
        found, expected = torch.view_as_real(found), torch.view_as_real(expected)
    if not expected.dtype.is_floating_point:
        if not torch.equal(found.to(expected.dtype), expected):
            raise Broken(f"{what}: elements differ")
        return
    finite = expected.double().nan_to_num(0, 0, 0).abs()
    tolerance = max(TOLERANCE.get(t.dtype, 0) for t in [expected, *like])
    bound = tolerance * max(1.0, finite.max().item() if finite.numel() else 0)
    if not torch.allclose(found.double(), expected.double(), rtol=0, atol=bound, equal_nan=True):
        worst = (found.double() - expected.double()).abs().max().item()
        raise Broken(f"{what}: elements differ by up to {worst:.3g}, expected at most {bound:.3g}")


# ---- factors ----


def parts_of(size: int, count: int) -> list[tuple[int, int]]:
    """Begin and end of each part, as even as they can be, the first ones larger."""
    chunk = -(-size // count)
    return [(min(i * chunk, size), min((i + 1) * chunk, size)) for i in range(count)]


def spread(tensor, dims, sizes):
    """`tensor` with a dimension for each factor, and which factor each is."""
    ids = [f for dim in dims for f in dim]
    return tensor.reshape([sizes[f] for f in ids]), ids


def cut(tensor, dims, sizes, factor, begin, end):
    """The part of `tensor` that has `factor` from `begin` to `end`."""
    wide, ids = spread(tensor, dims, sizes)
    narrow = wide.narrow(ids.index(factor), begin, end - begin)
    local = {**sizes, factor: end - begin}
    return narrow.reshape([math.prod(local[f] for f in dim) for dim in dims])


def has(dims, factor) -> bool:
    return any(factor in dim for dim in dims)


def local_shape(dims, sizes) -> list[int]:
    return [math.prod(sizes[f] for f in dim) for dim in dims]


def size_overrides(rule: dict, sizes: dict) -> dict:
    """Attributes of an op whose factors have these sizes."""
    overrides = {}
    for attribute in rule["size_attributes"]:
        if "factor" in attribute:
            overrides[attribute["name"]] = sizes[attribute["factor"]]
        else:
            overrides[attribute["name"]] = local_shape(rule["results"][attribute["result"]], sizes)
    return overrides


def reduce_parts(parts: list, reduction: str, dtype):
    wide = torch.complex128 if dtype.is_complex else torch.float64 if dtype.is_floating_point else torch.int64
    stack = torch.stack([p.to(wide) for p in parts])
    match reduction:
        case "sum":
            return stack.sum(0).to(dtype)
        case "avg":
            return stack.mean(0).to(dtype)
        case "max":
            return stack.amax(0).to(dtype)
        case "min":
            return stack.amin(0).to(dtype)
        case "product":
            return stack.prod(0).to(dtype)
    raise Broken(f"no reduction is called {reduction}")


def factor_sizes(rule: dict) -> dict:
    return {i: f["size"] for i, f in enumerate(rule["factors"])}


def check_factor(call: Call, rule: dict, operands: list, whole: list, factor: int, count: int) -> int:
    """Cuts along a factor in `count` parts and puts the parts' results together."""
    entry = rule["factors"][factor]
    size, reduction = entry["size"], entry["reduction"]
    cuts = parts_of(size, count)
    if any(begin == end for begin, end in cuts) or (reduction == "avg" and size % count):
        return 0
    sizes = factor_sizes(rule)
    results = []
    for number, (begin, end) in enumerate(cuts):
        local = []
        for i, operand in enumerate(operands):
            if has(rule["operands"][i], factor):
                local.append(cut(operand, rule["operands"][i], sizes, factor, begin, end))
            elif i in entry["addends"] and number:
                local.append(torch.zeros_like(operand))  # a term of a sum whose first is all of it
            else:
                local.append(operand)
        results.append(run(call, local, **size_overrides(rule, {**sizes, factor: end - begin})))
    for r, expected in enumerate(whole):
        parts = [result[r] for result in results]
        what = f"factor {entry['name']} cut in {count}, result {r}"
        dims = rule["results"][r]
        if expected is None:
            for part in parts:
                expect_close(part, expected, what)
        elif has(dims, factor):
            wide = []
            for (begin, end), part in zip(cuts, parts):
                local = {**sizes, factor: end - begin}
                if list(part.shape) != local_shape(dims, local):
                    raise Broken(f"{what}: a part has shape {list(part.shape)}")
                wide.append(spread(part, dims, local))
            joined = torch.cat([w for w, _ in wide], dim=wide[0][1].index(factor))
            expect_close(joined.reshape(expected.shape), expected, what)
        elif reduction == "none" or r in entry["unaffected"]:
            for part in parts:
                expect_close(part, expected, what + ", which does not depend on it")
        else:
            expect_close(reduce_parts(parts, reduction, expected.dtype), expected, what + f" by {reduction}")
    return 1


def check_factors(call: Call, rule: dict, generator) -> int:
    if not runs(call) or rule["kind"] == "random":
        return 0
    tried = 0
    operands = make_operands(call, generator)
    whole = run(call, operands)
    for factor, entry in enumerate(rule["factors"]):
        if entry["whole"] is None and entry["size"] > 1:
            for count in {2, 3 if entry["size"] % 3 == 0 else 2, entry["size"] if entry["size"] <= 8 else 2}:
                tried += check_factor(call, rule, operands, whole, factor, count)
    return tried


# ---- linearity, and what results do not depend on ----


def check_groups(call: Call, rule: dict, generator) -> int:
    if not runs(call):
        return 0
    tried = 0
    fixed = make_operands(call, generator)
    for group in rule["linear"]:
        a = make_operands(call, generator)
        b = make_operands(call, generator)
        if not group["moves"] and any(
            a[i].dtype == torch.int8 or a[i].dtype == torch.uint8 for i in group["operands"]
        ):
            continue  # would overflow

        def results(values):
            mixed = [values[i] if i in group["operands"] else o for i, o in enumerate(fixed)]
            return run(call, mixed)

        def combine(operator, x, y):
            return [operator(p, q) if i in group["operands"] else p for i, (p, q) in enumerate(zip(x, y))]

        of_a, of_b = results(a), results(b)
        operators = {} if any(a[i].dtype == torch.bool for i in group["operands"]) else {"sum": torch.add}
        if group["moves"]:
            operators |= {"max": torch.maximum, "min": torch.minimum}
        for name, operator in operators.items():
            together = results(combine(operator, a, b))
            for r in range(len(together)):
                what = f"{name} in operands {group['operands']}, result {r}"
                if r not in group["results"]:
                    expect_close(of_b[r], of_a[r], what + ", which does not depend on them")
                else:
                    expect_close(operator(of_a[r], of_b[r]), together[r], what, [a[i] for i in group["operands"]])
            tried += 1
        if operators.get("sum"):
            zero = results([torch.zeros_like(o) for o in fixed])
            for r in group["results"]:
                expect_close(zero[r], torch.zeros_like(zero[r]), f"zeros in {group['operands']}, result {r}")
    return tried


def check_shape_only(call: Call, rule: dict, generator) -> int:
    if not runs(call) or not rule["shape_only"]:
        return 0
    a, b = make_operands(call, generator), make_operands(call, generator)
    mixed = [b[i] if i in rule["shape_only"] else o for i, o in enumerate(a)]
    for r, (x, y) in enumerate(zip(run(call, a), run(call, mixed))):
        expect_close(y, x, f"operands {rule['shape_only']} lend their shape, result {r}")
    return 1


def check_call(call: Call, rule: dict, seed: int) -> int:
    """All that the rule claims; gives the number of claims tried."""
    generator = torch.Generator().manual_seed(seed)
    return (
        check_factors(call, rule, generator)
        + check_groups(call, rule, generator)
        + check_shape_only(call, rule, generator)
    )


# ---- the rule of a part ----


def attribute_text(value) -> str:
    return f"[{', '.join(map(str, value))}]" if isinstance(value, list) else str(value)


def local_statements(call: Call, rule: dict):
    """For each factor that may be cut where it stands: (factor, the op on one of the equal parts)."""
    sizes = factor_sizes(rule)
    for factor, entry in enumerate(rule["factors"]):
        tensors = [(kind, i, d) for kind in ("operands", "results") for i, d in enumerate(rule[kind])]
        if entry["whole"] is not None or entry["size"] < 2:
            continue
        if not all(leads(rule, dims, factor) for _, _, dims in tensors if has(dims, factor)):
            continue
        for count in {2, entry["size"]} if entry["size"] <= 64 else {2}:
            if entry["size"] % count:
                continue
            local = {**sizes, factor: entry["size"] // count}
            types = [with_shape(t, local_shape(d, local)) for t, d in zip(call.operand_types, rule["operands"])]
            results = [
                t if t == "none" else with_shape(t, local_shape(d, local))
                for t, d in zip(call.result_types, rule["results"])
            ]
            overrides = {k: attribute_text(v) for k, v in size_overrides(rule, local).items()}
            yield factor, call.statement(types, results, overrides)


def leads(rule: dict, dims, factor: int) -> bool:
    """Whether a part of the factor is a part of a dimension: all factors before it have size 1."""
    for dim in dims:
        if factor in dim:
            return all(rule["factors"][f]["size"] == 1 for f in dim[: dim.index(factor)])
    return False


def places(rule: dict, factor: int) -> tuple[set, set]:
    found = []
    for kind in ("operands", "results"):
        found.append(
            {(i, d) for i, dims in enumerate(rule[kind]) for d, dim in enumerate(dims) if factor in dim}
        )
    return found[0], found[1]


def check_local_rule(rule: dict, factor: int, local: dict) -> None:
    """The rule of the part must have a factor that says the same: in the same dimensions, leading there."""
    entry = rule["factors"][factor]
    operands, results = places(rule, factor)
    for other, candidate in enumerate(local["factors"]):
        if candidate["whole"] is not None or candidate["reduction"] != entry["reduction"]:
            continue
        local_operands, local_results = places(local, other)
        more = local_operands - operands
        # What stretches has size 1, as the part may have.
        if more and not (local["broadcasts"] and candidate["size"] == 1):
            continue
        if not operands <= local_operands or results != local_results:
            continue
        if all(
            leads(local, dims, other)
            for kind in ("operands", "results")
            for dims in local[kind]
            if has(dims, other)
        ):
            return
    raise Broken(f"the rule of a part has no factor like {entry['name']}")


# ---- random calls ----


def random_statements(rng: random.Random, count: int):
    """Calls of the ops whose rules depend most on shapes and attributes, as lines of a program."""

    def tensor(shape, dtype="f32"):
        return "tensor<" + "".join(f"{s}x" for s in shape) + dtype + ">"

    def regroup(factors):
        shape = []
        while factors:
            taken = rng.randint(1, min(3, len(factors)))
            shape.append(math.prod(factors[:taken]))
            factors = factors[taken:]
        for _ in range(rng.randint(0, 1)):
            shape.insert(rng.randint(0, len(shape)), 1)
        return shape

    def shape(rank=None):
        return [rng.choice([1, 2, 3, 4, 6]) for _ in range(rng.randint(1, 4) if rank is None else rank)]

    def line(op, types, arguments, results):
        names = ", ".join(filter(None, ["%x" + str(i) for i in range(len(types))] + [arguments]))
        return f"%0 = aten.{op}({names}) : ({', '.join(types)}) -> {results}"

    def view():
        factors = [rng.choice([2, 2, 3, 4, 5]) for _ in range(rng.randint(1, 5))]
        start, end = regroup(factors), regroup(factors)
        if rng.random() < 0.2:
            rng.shuffle(end)  # what no longer factors must be said to be whole
        op = rng.choice(["view", "_unsafe_view"])
        return line(op, [tensor(start)], f"size = {end}", tensor(end))

    def sum_dims():
        start = shape()
        dims = rng.sample(range(len(start)), rng.randint(1, len(start)))
        keep = rng.random() < 0.5
        end = [1 if i in dims else s for i, s in enumerate(start) if keep or i not in dims]
        op = rng.choice(["sum_dim_int_list", "mean_dim", "amax", "amin"])
        return line(op, [tensor(start)], f"dim = {dims}, keepdim = {str(keep).lower()}", tensor(end))

    def broadcast():
        end = shape()
        starts = []
        for _ in range(2):
            part = end[rng.randint(0, len(end)) :]
            starts.append([1 if rng.random() < 0.3 else s for s in part])
        full = [max([s[i - len(end) + len(s)] for s in starts if i >= len(end) - len(s)] or [1]) for i in range(len(end))]
        full = full[len(end) - max(len(s) for s in starts) :]
        return line(rng.choice(["add", "mul", "maximum"]), [tensor(s) for s in starts], "", tensor(full))

    def permute():
        start = shape()
        order = rng.sample(range(len(start)), len(start))
        return line("permute", [tensor(start)], f"dims = {order}", tensor([start[i] for i in order]))

    def expand():
        start = shape()
        end = shape(rng.randint(0, 2)) + [rng.choice([2, 3]) if s == 1 else s for s in start]
        return line("expand", [tensor(start)], f"size = {end}", tensor(end))

    def index():
        start = [rng.choice([2, 3, 4]) for _ in range(rng.randint(1, 4))]
        present = [rng.random() < 0.5 for _ in start]
        if not any(present):
            present[rng.randrange(len(start))] = True
        to = shape(rng.randint(0, 2))
        indices, types = [], [tensor(start)]
        for is_there in present:
            if is_there:
                types.append(tensor([1 if rng.random() < 0.2 else s for s in to], "i64"))
            indices.append(f"%i{len(types)}" if is_there else "none")
        used = [tensor_type(t)[0] for t in types[1:]]
        to = [max(u[d] for u in used) for d in range(len(to))]
        places = [i for i, is_there in enumerate(present) if is_there]
        side_by_side = places[-1] - places[0] + 1 == len(places)
        at = places[0] if side_by_side else 0
        rest = [s for s, is_there in zip(start, present) if not is_there]
        end = rest[:at] + to + rest[at:]
        listed = "[" + ", ".join(indices) + "]"
        if rng.random() < 0.5:
            return f"%0 = aten.index(%x, {listed}) : ({', '.join(types)}) -> {tensor(end)}"
        values = end[rng.randint(0, len(end)) :]
        types.append(tensor(values))
        accumulate = str(rng.random() < 0.7).lower()
        return (
            f"%0 = aten.index_put(%x, {listed}, %v, accumulate = {accumulate}) "
            f": ({', '.join(types)}) -> {tensor(start)}"
        )

    makers = [view, view, view, sum_dims, broadcast, permute, expand, index, index]
    return [rng.choice(makers)() for _ in range(count)]
