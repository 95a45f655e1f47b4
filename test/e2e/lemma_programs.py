"""Functions of ranks that PyTorch runs as they are written, on all ranks of a mesh at once, and that are printed as
programs.

What a lemma says is compared with what PyTorch computes, so nothing here knows of proofs, sharding rules or types:
an op is a call of PyTorch on each rank, and a collective moves tensors between ranks.
"""

import itertools

import torch

# Sizes that are prime to each other, one of 1, and one that is not prime.
MESH = {"dp": 2, "tp": 3, "cp": 4, "one": 1}
PLACES = [dict(zip(MESH, place, strict=True)) for place in itertools.product(*map(range, MESH.values()))]
DTYPES = {torch.float64: "f64", torch.float32: "f32", torch.int64: "i64", torch.int32: "i32", torch.bool: "i1", torch.complex128: "complex<f64>"}
aten = torch.ops.aten


class Value:
    """One tensor a rank, of one shape."""

    def __init__(self, name, tensors, on=None):
        self.name, self.tensors, self.on = name, tensors, on

    @property
    def shape(self):
        return tuple(self.tensors[0].shape)

    @property
    def type(self):
        first = self.tensors[0]
        sizes = "".join(f"{size}x" for size in first.shape)
        return f"tensor<{sizes}{DTYPES[first.dtype]}{'' if self.on is None else ', ' + print_placement(self.on)}>"


def print_placement(text):
    """All axes of "dp=0 tp=P"; axes that shard one dimension are listed major first."""
    given = dict(part.split("=") for part in text.split())
    order, parts = {}, []
    for axis in [*given, *(axis for axis in MESH if axis not in given)]:
        on = given.get(axis, "R")
        if on.isdigit():
            parts.append((axis, f"S({on}, {order.setdefault(on, 0)})"))
            order[on] += 1
        else:
            parts.append((axis, on))
    parts.sort(key=lambda part: list(MESH).index(part[0]))
    return f"#dist.on<@mesh, {', '.join(f'{axis} = {on}' for axis, on in parts)}>"


def print_mesh():
    return f"dist.mesh @mesh [{', '.join(f'{chr(34)}{axis}{chr(34)} = {size}' for axis, size in MESH.items())}]\n"


def part_of(whole, text, place):
    """A rank's part of a tensor that lies so; terms of a sum are equal shares."""
    for axis, on in (part.split("=") for part in text.split()):
        if on.isdigit():
            assert whole.shape[int(on)] % MESH[axis] == 0, "a rank's part has another size"
            whole = torch.chunk(whole, MESH[axis], int(on))[place[axis]] if MESH[axis] > 1 else whole
        elif on == "P":
            whole = whole / MESH[axis]
    return whole


def philox_stand_in(x, seed, position, whole, place):
    """Numbers by place in the whole tensor: any function of seed, position and place is one."""
    generator = torch.Generator().manual_seed(1000 * int(seed) + position)
    return part_of(torch.rand(whole, generator=generator, dtype=x.dtype), place[0], place[1])


def mt19937(x, seed, position):
    generator = torch.Generator().manual_seed(int(seed))
    torch.empty(position, dtype=torch.float64).uniform_(generator=generator)
    return torch.empty_like(x).uniform_(generator=generator)


def embedding_gradient(g, i, num_weights, padding_idx, **_):
    if i.min() < 0 or i.max() >= num_weights:
        return torch.full((num_weights, g.shape[-1]), torch.nan, dtype=g.dtype)  # the rank fails
    return aten.embedding_dense_backward(g, i, num_weights, padding_idx, False)


def embedding(w, i):
    if i.min() < 0 or i.max() >= len(w):
        return torch.full((*i.shape, w.shape[1]), torch.nan, dtype=w.dtype)
    return aten.embedding(w, i)


def to_dtype(text):
    return {name: dtype for dtype, name in DTYPES.items()}[text]


def attention(q, k, v, mask=None, *, is_causal):
    return tuple(aten._scaled_dot_product_flash_attention_for_cpu(q, k, v, 0.0, is_causal, attn_mask=mask))


def attention_gradient(g, q, k, v, out, lse, mask=None, *, is_causal):
    """As documented: kernels take what they need from `lse`, which is given."""
    batch, heads, rows, width = k.shape
    group = q.shape[1] // heads
    k, v = (x.repeat_interleave(group, 1) for x in (k, v))
    scores = q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5 + (0 if mask is None else mask)
    if is_causal:
        scores = scores.masked_fill(torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1), -torch.inf)
    shares = (scores - lse.unsqueeze(-1)).exp()
    of_scores = shares * (g @ v.transpose(-1, -2) - (g * out).sum(-1, keepdim=True)) / q.shape[-1] ** 0.5
    of_keys = of_scores.transpose(-1, -2) @ q, shares.transpose(-1, -2) @ g
    return of_scores @ k, *(x.view(batch, heads, group, rows, width).sum(2) for x in of_keys)


def grouped_product(rows, matrices, ends):
    """By groups of rows, or of what is summed; no numbers after the last."""
    starts = [0, *ends.tolist()[:-1]]
    if starts != sorted(starts) or not 0 <= ends[-1] <= (rows.shape[-1] if matrices.dim() == 2 else len(rows)):
        return torch.full((1,), torch.nan, dtype=rows.dtype)  # the kernel fails
    parts = list(zip(starts, ends.tolist(), strict=True))
    if matrices.dim() == 2:
        return torch.stack([rows[:, start:end] @ matrices[start:end] for start, end in parts])
    made = torch.full((len(rows), matrices.shape[2]), torch.nan, dtype=rows.dtype)
    for (start, end), matrix in zip(parts, matrices, strict=True):
        made[start:end] = rows[start:end] @ matrix
    return made


def safely(run):
    """Not a number where an index is outside: the rank fails."""

    def make(x, *others, **attributes):
        try:
            return run(x, *others, **attributes)
        except (IndexError, RuntimeError):
            return torch.full_like(x, torch.nan) if x.is_floating_point() else x

    return make


RUN = {
    "topk": lambda x, k, dim=-1: tuple(torch.topk(x, k, dim)), "argmax": lambda x, dim: x.argmax(dim),
    "max_dim": lambda x, dim: tuple(torch.max(x, dim)),
    "sort_stable": lambda x, stable, dim=-1: tuple(torch.sort(x, dim=dim, stable=stable)),
    "histc": lambda x, bins, max: torch.histc(x, bins, 0, max),
    "bincount": lambda x, minlength: torch.bincount(x, minlength=minlength),
    "scatter_add": lambda x, i, y, dim: x.scatter_add(dim, i, y), "scatter_src": lambda x, i, y, dim: x.scatter(dim, i, y),
    "gather": lambda x, i, dim: x.gather(dim, i), "ge": torch.ge,
    "floor_divide_scalar": lambda x, other: x // other, "remainder_scalar": lambda x, other: x % other,
    "index": safely(lambda x, i: x[i]), "index_put": safely(lambda x, i, y, accumulate=False: x.index_put((i,), y, accumulate)),
    "_grouped_mm": grouped_product,
    "add": lambda x, y, alpha=1: torch.add(x, y, alpha=alpha),
    "sub": lambda x, y, alpha=1: torch.sub(x, y, alpha=alpha),
    "mul": torch.mul, "div": torch.div, "mm": torch.mm, "t": torch.t, "exp": torch.exp, "tanh": torch.tanh,
    "log": torch.log, "neg": torch.neg, "relu": torch.relu, "logical_or": torch.logical_or,
    "view_as_complex": torch.view_as_complex, "view_as_real": torch.view_as_real,
    "clone": lambda x, memory_format=None: x.clone(memory_format=torch.contiguous_format),
    "addmm": lambda x, a, b, beta=1, alpha=1: torch.addmm(x, a, b, beta=beta, alpha=alpha),
    "add_scalar": lambda x, other: x + other, "mul_scalar": lambda x, other: x * other,
    "div_scalar": lambda x, other: x / other, "rsub_scalar": lambda x, other: other - x,
    "lt_scalar": lambda x, other: x < other, "ge_scalar": lambda x, other: x >= other,
    "eq_scalar": lambda x, other: x == other, "squeeze_dim": lambda x, dim: x.squeeze(dim),
    "masked_fill_scalar": lambda x, m, value: x.masked_fill(m, value),
    "_to_copy": lambda x, dtype: x.to(to_dtype(dtype)),
    "view": lambda x, size: x.reshape(size), "permute": lambda x, dims: x.permute(dims).contiguous(),
    "unsqueeze": lambda x, dim: x.unsqueeze(dim), "expand": lambda x, size: x.expand(size),
    "slice": lambda x, dim, start, end: x.narrow(dim, start, end - start),
    "select": lambda x, dim, index: x.select(dim, index),
    "cat": lambda *xs, dim: torch.cat(xs, dim),
    "sum_dim_int_list": lambda x, dim, keepdim=False: x.sum(dim, keepdim), "sum": torch.sum, "mean": torch.mean,
    "mean_dim": lambda x, dim, keepdim=False: x.mean(dim, keepdim),
    "amax": lambda x, dim, keepdim=False: x.amax(dim, keepdim),
    "_softmax": lambda x, dim, half_to_float: torch.softmax(x, dim),
    "_log_softmax": lambda x, dim, half_to_float: torch.log_softmax(x, dim),
    "_softmax_backward_data": lambda g, y, dim, input_dtype: aten._softmax_backward_data(g, y, dim, y.dtype),
    "maximum": torch.maximum, "_safe_softmax": lambda x, dim: aten._safe_softmax(x, dim), "index_select": lambda x, i, dim: x.index_select(dim, i),
    "_scaled_dot_product_flash_attention_for_cpu": attention,
    "_scaled_dot_product_flash_attention_for_cpu_backward": attention_gradient,
    "_log_softmax_backward_data": lambda g, y, dim, input_dtype: aten._log_softmax_backward_data(g, y, dim, y.dtype),
    "full": lambda size, fill_value, dtype: torch.full(size, fill_value, dtype=to_dtype(dtype)),
    "arange_start": lambda start, end: torch.arange(start, end),
    "linalg_vector_norm": lambda x, dim=None, keepdim=False: torch.linalg.vector_norm(x, 2, dim, keepdim),
    "var_correction": lambda x, dim, correction, keepdim=False: torch.var(
        x, dim, correction=correction, keepdim=keepdim),
    "sqrt": torch.sqrt, "rsqrt": torch.rsqrt, "stack": lambda *xs, dim: torch.stack(xs, dim), "lt": torch.lt,
    "clamp": torch.clamp, "cumsum": lambda x, dim: torch.cumsum(x, dim), "where": torch.where,
    "_native_batch_norm_legit_functional": lambda x, w, b, m, v, training, momentum, eps: (
        aten._native_batch_norm_legit_functional(x, w, b, m, v, training, momentum, eps)),
    "convolution": lambda x, w, b, **window: aten.convolution(x, w, b, *window.values()),
    "convolution_backward": lambda g, x, w, **window: tuple(aten.convolution_backward(g, x, w, *window.values())),
    "embedding": embedding, "embedding_dense_backward": embedding_gradient,
    "index_add": lambda x, i, y, dim: x.index_add(dim, i, y),
    "mse_loss": lambda x, y, reduction=1: aten.mse_loss(x, y, reduction),
    "mse_loss_backward": lambda g, x, y, reduction: aten.mse_loss_backward(g, x, y, reduction),
    "nll_loss_forward": lambda x, t, reduction, ignore_index: aten.nll_loss_forward(
        x, t, None, reduction, ignore_index),
    "nll_loss_backward": lambda g, x, t, w, reduction, ignore_index: aten.nll_loss_backward(
        g, x, t, None, reduction, ignore_index, w),
}  # fmt: skip


class Function:
    """Writes one function, of one device or of ranks, and runs it on the way. `form` is "whole", "right" or "wrong":
    wrong ones of ranks look much like right ones."""

    def __init__(self, name, form, seed):
        self.name, self.form = name, form
        self.local, self.wrong = form != "whole", form == "wrong"
        self.random = torch.Generator().manual_seed(seed)
        self.places = PLACES if self.local else [dict.fromkeys(MESH, 0)]
        self.signature, self.lines, self.results, self.next = [], [], [], 0

    def ranks(self, *axes):
        """How many there are; one on one device."""
        count = 1
        for axis in axes if self.local else ():
            count *= MESH[axis]
        return count

    def _name(self):
        self.next += 1
        return f"%{self.next - 1}"

    def _draw(self, shape, rows):
        if rows is None:
            return torch.randn(shape, generator=self.random, dtype=torch.float64)
        return torch.randint(rows, shape, generator=self.random)

    def argument(self, shape, on="", rows=None, values=None, typed=False):
        """Real numbers, or integers below `rows`, or `values`."""
        whole = self._draw(shape, rows) if values is None else values
        tensors = [part_of(whole, on, place) if self.local else whole for place in self.places]
        value = Value(self._name(), tensors, on if typed and self.local else None)
        text = f"{value.name}: {value.type}"
        if self.local and not typed:
            text += f" {{dist.placement = {print_placement(on)}}}"
        self.signature.append(text)
        return value

    def aten(self, op, *values, on=None, **attributes):
        """An op of PyTorch on each rank. `on`: what the type of its result says, of a typed function."""
        made = [RUN[op](*given, **attributes) for given in zip(*(v.tensors for v in values), strict=True)]
        if not values:
            made = [RUN[op](**attributes)] * len(self.places)
        operands = [v.name for v in values]
        if op.startswith("nll"):
            operands.insert(2 if op.endswith("forward") else 3, "none")
        return self._print(f"aten.{op}", operands, values, made, attributes, on)

    def _print(self, op, operands, values, made, attributes, on):
        several = isinstance(made[0], tuple)
        columns = list(zip(*made, strict=True)) if several else [made]
        on = on if self.local else None
        results = [Value(self._name(), list(column), on) for column in columns]
        if op in ("aten.cat", "aten.stack"):
            operands = [f"[{', '.join(operands)}]"]
        if op == "aten.nll_loss_backward":
            operands = [*operands[:4], "reduction = {reduction}".format(**attributes),
                        "ignore_index = {ignore_index}".format(**attributes), operands[4]]  # fmt: skip
            attributes = {}
        if op in ("aten.index", "aten.index_put"):
            operands[1] = f"[{operands[1]}]"
        if op in ("aten.bincount", "aten._grouped_mm"):
            operands.append("none")
        if op in ("aten.index_add", "aten.index_select", "aten.gather", "aten.scatter_add", "aten.scatter_src"):
            operands = [operands[0], f"dim = {attributes['dim']}", *operands[1:]]
            attributes = {}
        if "attention" in op:
            count, dropout = (6, ["dropout_p = 0.0"]) if op.endswith("backward") else (3, [])
            mask = operands[count:] or ["none"]
            causal = f"is_causal = {print_attribute(attributes['is_causal'])}"
            operands = [*operands[:count], *dropout, causal, *mask]
            attributes = {}
        written = [*operands, *(f"{key} = {print_attribute(value)}" for key, value in attributes.items())]
        types = ", ".join(result.type for result in results)
        self.lines.append(
            f"{', '.join(result.name for result in results)} = {op}({', '.join(written)}) : "
            f"({', '.join(v.type for v in values)}) -> {f'({types})' if several else types}"
        )
        return results if several else results[0]

    def attention(self, q, k, v, is_causal, *mask):
        return self.aten("_scaled_dot_product_flash_attention_for_cpu", q, k, v, *mask, is_causal=is_causal)

    def attention_gradient(self, g, q, k, v, out, lse, is_causal, *mask):
        values = (g, q, k, v, out, lse, *mask)
        return self.aten("_scaled_dot_product_flash_attention_for_cpu_backward", *values, is_causal=is_causal)

    def uniform(self, shaped, seed, position=0, on=None, whole=None):
        """Random numbers like `shaped`: of `mt19937`, or where the type says that they are a part, of `philox`."""
        if whole is None and on is None:
            made = [mt19937(x, s, position) for x, s in zip(shaped.tensors, seed.tensors, strict=True)]
        else:
            made = [philox_stand_in(x, s, position, whole or x.shape, (on or "", place)) for x, s, place in
                    zip(shaped.tensors, seed.tensors, self.places, strict=True)]  # fmt: skip
        generator = "mt19937" if whole is None and on is None else "philox"
        text = {"from": "0.0", "to": "1.0", "position": position, "generator": f"#aten.generator<{generator}>"}
        values = (shaped, seed, seed)
        return self._print("aten.rng_uniform", [v.name for v in values], values, made, text, on)

    def communicate(self, text, value, axes, make, on=None, attributes="", show="all_reduce"):
        """`make(group, place)`: of what the ranks along `axes` have, major first, what the one at `place` gets."""
        if not self.local:
            return value
        if isinstance(axes, str):
            axes = axes.split()
        made = []
        for place in self.places:
            others = [q for q in self.places if all(q[a] == place[a] for a in MESH if a not in axes)]
            others.sort(key=lambda q: [q[a] for a in axes])
            group = [value.tensors[self.places.index(q)] for q in others]
            made.append(make(group, others.index(place)))
        result = Value(self._name(), made, on)
        over = f"over @mesh [{', '.join(f'{chr(34)}{axis}{chr(34)}' for axis in axes)}]"
        types = value.type if value.type == result.type else f"{value.type} -> {result.type}"
        self.lines.append(f"{result.name} = dist.{show} {text}({value.name}) {attributes}{over} : {types}".replace(
            f"{show} (", f"{show}("))  # fmt: skip
        return result

    def all_reduce(self, value, axes, kind="sum", on=None):
        combine = {"sum": sum, "avg": lambda group: sum(group) / len(group),
                   "max": lambda group: torch.stack(group).amax(0), "min": lambda group: torch.stack(group).amin(0),
                   "product": lambda group: torch.stack(group).prod(0)}[kind]  # fmt: skip
        return self.communicate(kind, value, axes, lambda group, _: combine(group), on)

    def all_gather(self, value, dim, axes):
        return self.communicate("", value, axes, lambda group, _: torch.cat(group, dim), None, f"dim {dim} ",
                                "all_gather")  # fmt: skip

    def reduce_scatter(self, value, dim, axes):
        return self.communicate("sum", value, axes, lambda group, i: torch.chunk(sum(group), len(group), dim)[i], None,
                                f"dim {dim} ", "reduce_scatter")  # fmt: skip

    def broadcast(self, value, axes, root):
        return self.communicate("", value, axes, lambda group, _: group[root], None, f"root {root} ", "broadcast")

    def shift(self, value, axis, by):
        return self.communicate("", value, axis, lambda group, i: group[(i - by) % len(group)], None, f"by {by} wrap ",
                                "shift")  # fmt: skip

    def all_to_all(self, value, axes, split=0, concat=0):
        """What each rank has for this one, beside each other."""
        return self.communicate(
            "", value, axes, lambda group, i: torch.cat([torch.chunk(other, len(group), split)[i] for other in group], concat),
            None, f"split {split} concat {concat} ", "all_to_all")  # fmt: skip

    def exchange(self, value, sends, receives, room, axis):
        """Rows by number to each rank along the axis, then zeros; not a number where both sides count otherwise."""
        made = []
        for place, rows, own in zip(self.places, value.tensors, receives.tensors, strict=True):
            others = [self.places.index(place | {axis: i}) for i in range(MESH[axis])]
            parts = []
            for other in others:
                counts = sends.tensors[other].tolist()
                start = sum(counts[: place[axis]])
                parts.append(value.tensors[other][start : start + counts[place[axis]]])
            came = torch.cat(parts)
            result = torch.zeros((room, *rows.shape[1:]), dtype=rows.dtype)
            if [len(part) for part in parts] != own.tolist() or len(came) > room:
                result = torch.full_like(result, torch.nan) if rows.is_floating_point() else result
            else:
                result[: len(came)] = came
            made.append(result)
        result = Value(self._name(), made)
        self.lines.append(
            f'{result.name} = dist.ragged_all_to_all({value.name}, {sends.name}, {receives.name}) over @mesh ["{axis}"] : '
            f"({value.type}, {sends.type}, {receives.type}) -> {result.type}"
        )
        return result

    def axis_index(self, axes):
        """The rank's number along the axes; 0 on one device."""
        if not self.local:
            return self.aten("full", size=[], fill_value=0, dtype="i64")
        axes = axes.split()
        made = []
        for place in self.places:
            number = 0
            for axis in axes:
                number = number * MESH[axis] + place[axis]
            made.append(torch.tensor(number))
        value = Value(self._name(), made)
        names = ", ".join(f'"{axis}"' for axis in axes)
        self.lines.append(f"{value.name} = dist.axis_index over @mesh [{names}] : {value.type}")
        return value

    def convert(self, value, on):
        """To another placement along one axis: what the types of both say."""
        if not self.local:
            return value
        before, after = (
            {**dict.fromkeys(MESH, "R"), **dict(p.split("=") for p in text.split())} for text in (value.on, on)
        )
        (axis,) = [axis for axis in MESH if before[axis] != after[axis]]
        made = []
        for tensor, place in zip(value.tensors, self.places, strict=True):
            if after[axis] == "P":
                made.append(tensor if place[axis] == 0 else torch.zeros_like(tensor))
            else:
                made.append(part_of(tensor, f"{axis}={after[axis]}", place))
        result = Value(self._name(), made, on)
        self.lines.append(f"{result.name} = dist.convert {value.name} : {value.type} -> {result.type}")
        return result

    def reinterpret(self, value, on):
        """What ranks have, with another type: claimed, not made."""
        result = Value(self._name(), value.tensors, on)
        self.lines.append(f"{result.name} = dist.reinterpret {value.name} : {value.type} -> {result.type}")
        return result

    def dropout(self, x, seed):
        made = []
        for tensor, s in zip(x.tensors, seed.tensors, strict=True):
            kept = mt19937(tensor, s, 0) < 0.75
            made.append((tensor * kept / 0.75, kept))
        text = {"p": 0.25, "train": True, "position": 0, "generator": "#aten.generator<mt19937>"}
        values = (x, seed, seed)
        return self._print("aten.rng_native_dropout", [v.name for v in values], values, made, text, None)[0]

    def give(self, value, on=""):
        self.results.append((value, on))

    def text(self):
        types = [
            value.type + (f" {{dist.placement = {print_placement(on)}}}" if self.local and value.on is None else "")
            for value, on in self.results
        ]
        plain = ", ".join(value.type for value, _ in self.results)
        lines = "".join(f"  {line}\n" for line in self.lines)
        values = ", ".join(value.name for value, _ in self.results)
        return (
            f"func.func @{self.name}({', '.join(self.signature)}) -> ({', '.join(types)}) {{\n{lines}"
            f"  return {values} : {plain}\n}}\n"
        )


def print_attribute(value):
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        infinite = {float("inf"): "0x7FF0000000000000 : f64", -float("inf"): "0xFFF0000000000000 : f64"}
        return infinite.get(value, f"{value:.17e}")
    if value == "contiguous_format":
        return f'"{value}"'
    return f"[{', '.join(map(print_attribute, value))}]" if isinstance(value, (list, tuple)) else str(value)


def difference(ranks, whole):
    """The largest between what ranks have of each result and what one device has; infinite where shapes differ."""
    worst = 0.0
    for (value, on), (expected, _) in zip(ranks.results, whole.results, strict=True):
        summed = [part.split("=")[0] for part in on.split() if part.endswith("=P")]
        shards = " ".join(part for part in on.split() if not part.endswith("=P"))
        sizes = [(expected.shape[int(dim)], MESH[axis]) for axis, dim in (part.split("=") for part in shards.split()) if dim.isdigit()]
        if any(size % ranks_of_axis for size, ranks_of_axis in sizes):
            return float("inf")
        for place in PLACES:
            others = [t for t, q in zip(value.tensors, PLACES, strict=True)
                      if all(q[axis] == place[axis] for axis in MESH if axis not in summed)]  # fmt: skip
            part = part_of(expected.tensors[0], shards, place)
            total = sum(others[1:], others[0]) if summed else value.tensors[PLACES.index(place)]
            if total.shape != part.shape or not total.isfinite().all():
                return float("inf")
            gap = (total.double() - part.double()).abs()
            worst = max(worst, float(gap.max()) if gap.numel() else 0.0)
    return worst
