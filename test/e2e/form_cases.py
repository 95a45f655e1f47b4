"""One op for each distributed form and corner of it, with PyTorch's results."""

import torch
from grouped import grouped_mm
from placed_cases import Case

aten = torch.ops.aten


def embedding_cases(axis):
    """`axis` is the mesh axis over which rows are sharded, in a list of (name, axes' placements)."""
    generator = torch.Generator().manual_seed(0)
    weight = torch.randn(16, 6, generator=generator, dtype=torch.float64)
    for name, indices in {
        "": torch.randint(16, (4, 5), generator=generator),
        "_one_rank": torch.randint(4, (4, 5), generator=generator),
        "_narrow": torch.randint(16, (7,), generator=generator, dtype=torch.int32),
    }.items():
        yield Case(
            f"embedding{name}",
            "aten.embedding(%w, %i)",
            {"w": (weight, axis("S(0)")), "i": (indices, "")},
            [aten.embedding(weight, indices)],
            [axis("P")],
        )
        gradient = torch.randn(*indices.shape, 6, generator=generator, dtype=torch.float64)
        for padding in (-1, int(indices.flatten()[0])):
            for by_frequency in (False, True):
                suffix = f"{name}_{padding + 1}_{int(by_frequency)}"
                yield Case(
                    f"embedding_backward{suffix}",
                    f"aten.embedding_dense_backward(%g, %i, num_weights = 16, padding_idx = "
                    f"{padding}, scale_grad_by_freq = {str(by_frequency).lower()})",
                    {"g": (gradient, ""), "i": (indices, "")},
                    [aten.embedding_dense_backward(gradient, indices, 16, padding, by_frequency)],
                    [axis("S(0)")],
                )


def softmax_cases(axis, dtype=torch.float64):
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(3, 8, generator=generator, dtype=torch.float64).to(dtype)
    one_rank = x.clone()
    one_rank[1, :4] = float("-inf")
    gradient = torch.randn(3, 8, generator=generator, dtype=torch.float64).to(dtype)
    kind = {torch.float64: "f64", torch.float32: "f32", torch.bfloat16: "bf16"}[dtype]
    for op, tensor, dim in [
        ("_softmax", x, 1),
        ("_softmax", one_rank, -1),
        ("_log_softmax", x, -1),
        ("_log_softmax", one_rank, 1),
    ]:
        name = f"{op}_{kind}_{dim % 7}"
        shard = axis("S(1)")
        output = getattr(aten, op)(tensor, dim, False)
        yield Case(
            name,
            f"aten.{op}(%x, dim = {dim}, half_to_float = false)",
            {"x": (tensor, shard)},
            [output],
            [shard],
        )
        yield Case(
            f"{name}_backward",
            f"aten.{op}_backward_data(%g, %y, dim = {dim}, input_dtype = {kind})",
            {"g": (gradient, shard), "y": (output, shard)},
            [getattr(aten, f"{op}_backward_data")(gradient, output, dim, dtype)],
            [shard],
        )


def safe_softmax_cases(axis):
    x = torch.randn(3, 8, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    x[1] = float("-inf")
    x[2, :4] = float("-inf")
    shard = axis("S(1)")
    yield Case(
        "safe_softmax",
        "aten._safe_softmax(%x, dim = -1)",
        {"x": (x, shard)},
        [aten._safe_softmax(x, -1)],
        [shard],
    )


def logsumexp_cases(axis, dtype=torch.float64):
    generator = torch.Generator().manual_seed(8)
    x = torch.randn(3, 8, 4, generator=generator, dtype=torch.float64).to(dtype)
    extreme = x.clone()
    extreme[0, :4] = float("-inf")
    extreme[1] = float("-inf")
    extreme[2, 5] = float("inf")
    kind = {torch.float64: "f64", torch.bfloat16: "bf16"}[dtype]
    for name, tensor, dims, keep in [
        ("one", x, [1], False),
        ("kept", x, [-2], True),
        ("two", x, [2, 1], False),
        ("all", x, [0, 1, 2], False),
        ("extreme", extreme, [1], False),
    ]:
        yield Case(
            f"logsumexp_{name}_{kind}",
            f"aten.logsumexp(%x, dim = {dims}, keepdim = {str(keep).lower()})",
            {"x": (tensor, axis("S(1)"))},
            [aten.logsumexp(tensor, dims, keep)],
            [""],
        )


def nll_cases(batch, classes):
    """Loss over a sharded batch, sharded classes or both; `batch` or `classes` is None for not."""
    generator = torch.Generator().manual_seed(3)
    x = torch.randn(8, 12, generator=generator, dtype=torch.float64).log_softmax(1)
    weights = torch.rand(12, generator=generator, dtype=torch.float64)
    random = torch.randint(12, (8,), generator=generator)
    targets = {
        "random": (random, -100),
        "one_rank": (random % 3, -100),
        "ignored": (torch.where(torch.arange(8) < 4, 5, random), 5),
        "all_ignored": (torch.full((8,), -100), -100),
    }
    both = ", ".join(filter(None, [batch and batch("S(0)"), classes and classes("S(1)")]))
    rows = batch("S(0)") if batch else ""
    of_classes = classes("S(0)") if classes else ""
    pending = ", ".join(filter(None, [batch and batch("P"), classes and classes("P")]))
    for target_name, (target, ignore) in targets.items():
        for weight in (None, weights):
            for reduction in (1, 2, 0):
                name = f"nll_{target_name}_{reduction}{'' if weight is None else '_weighted'}"
                loss, total = aten.nll_loss_forward(x, target, weight, reduction, ignore)
                operands = {"x": (x, both), "t": (target, rows)}
                if weight is not None:
                    operands["w"] = (weight, of_classes)
                given = "none" if weight is None else "%w"
                rest = f"reduction = {reduction}, ignore_index = {ignore}"
                results = [pending, ""]
                if reduction == 2:
                    results = [pending, rows.replace("S(0)", "P")]
                if reduction == 0:
                    results = [
                        ", ".join(filter(None, [rows, of_classes.replace("S(0)", "P")])),
                        rows.replace("S(0)", "P"),
                    ]
                # Without a reduction PyTorch leaves `total_weight` open.
                if reduction:
                    yield Case(
                        name,
                        f"aten.nll_loss_forward(%x, %t, {given}, {rest})",
                        operands,
                        [loss, total],
                        results,
                    )
                if not classes:
                    continue
                gradient = torch.randn(loss.shape, generator=generator, dtype=torch.float64)
                order = {"g": (gradient, rows if reduction == 0 else ""), **operands}
                order["total"] = (total if reduction else torch.ones_like(total), "")
                yield Case(
                    f"{name}_backward",
                    f"aten.nll_loss_backward(%g, %x, %t, {given}, {rest}, %total)",
                    order,
                    [
                        aten.nll_loss_backward(
                            gradient, x, target, weight, reduction, ignore, order["total"][0]
                        )
                    ],
                    [both],
                )


def mean_cases(axis):
    generator = torch.Generator().manual_seed(4)
    x = torch.randn(4, 8, 6, generator=generator, dtype=torch.float64)
    y = torch.randn(4, 8, 6, generator=generator, dtype=torch.float64)
    gradient = torch.randn((), generator=generator, dtype=torch.float64)
    for dim in (0, 1):
        shard = axis(f"S({dim})")
        yield Case(f"mean_{dim}", "aten.mean(%x)", {"x": (x, shard)}, [x.mean()], [axis("P")])
        for keep in (False, True):
            yield Case(
                f"mean_dim_{dim}_{int(keep)}",
                f"aten.mean_dim(%x, dim = [0, -2], keepdim = {str(keep).lower()})",
                {"x": (x, shard)},
                [x.mean([0, 1], keep)],
                [axis("P")],
            )
        yield Case(
            f"mse_{dim}",
            "aten.mse_loss(%x, %y, reduction = 1)",
            {"x": (x, shard), "y": (y, shard)},
            [aten.mse_loss(x, y)],
            [axis("P")],
        )
        yield Case(
            f"mse_backward_{dim}",
            "aten.mse_loss_backward(%g, %x, %y, reduction = 1)",
            {"g": (gradient, ""), "x": (x, shard), "y": (y, shard)},
            [aten.mse_loss_backward(gradient, x, y, 1)],
            [shard],
        )


def element_loss_cases(axis):
    """Means of losses, with what broadcasts against them."""
    generator = torch.Generator().manual_seed(9)
    x = torch.rand(4, 8, generator=generator, dtype=torch.float64)
    y = torch.rand(4, 8, generator=generator, dtype=torch.float64)
    row = torch.rand(8, generator=generator, dtype=torch.float64)
    gradient = torch.randn((), generator=generator, dtype=torch.float64)
    shard = axis("S(0)")
    logits = "binary_cross_entropy_with_logits"
    for op, names, text, constants in [
        ("huber_loss", "", ", delta = 0.3", [1, 0.3]),
        ("smooth_l1_loss", "", ", beta = 0.3", [1, 0.3]),
        ("soft_margin_loss", "", "", [1]),
        ("binary_cross_entropy", "%w, ", "", [row, 1]),
        (logits, "none, %w, ", "", [None, row, 1]),
    ]:
        more = {"w": (row, "")} if names else {}
        yield Case(
            op,
            f"aten.{op}(%x, %y, {names}reduction = 1{text})",
            {"x": (x, shard), "y": (y, shard), **more},
            [getattr(aten, op)(x, y, *constants)],
            [axis("P")],
        )
        if op != logits:
            yield Case(
                f"{op}_backward",
                f"aten.{op}_backward(%g, %x, %y, {names}reduction = 1{text})",
                {"g": (gradient, ""), "x": (x, shard), "y": (y, shard), **more},
                [getattr(aten, f"{op}_backward")(gradient, x, y, *constants)],
                [shard],
            )


def attention_cases(axis, dtype=torch.float64, heads_axis=None):
    """`heads_axis` shards heads by the op's rule at the same time."""
    generator = torch.Generator().manual_seed(5)

    def random(*shape):
        return torch.randn(*shape, generator=generator, dtype=torch.float64).to(dtype)

    empty_rows = torch.where(torch.rand(8, 8, generator=generator) < 0.5, 0.0, float("-inf"))
    empty_rows[5] = float("-inf")
    masks = {
        "": None,
        "_causal": None,
        "_grouped": None,
        "_scaled": None,
        "_mask": random(8, 8),
        "_row_mask": random(2, 1, 1, 8),
        "_empty_rows": empty_rows.to(dtype),
        "_whole_blocks_masked": torch.zeros(8, 8, dtype=torch.float64)
        .masked_fill(torch.ones(8, 8).triu(1).bool(), float("-inf"))
        .to(dtype),
    }
    for name, mask in masks.items():
        causal = name == "_causal"
        groups = 2 if name == "_grouped" else 4
        scale = 0.3 if name == "_scaled" else None
        q, k, v = random(2, 4, 8, 6), random(2, groups, 8, 6), random(2, groups, 8, 6)
        out, lse = aten._scaled_dot_product_flash_attention_for_cpu(
            q, k, v, 0.0, causal, attn_mask=mask, scale=scale
        )
        gradient = random(2, 4, 8, 6)
        shard = axis("S(2)")
        if heads_axis:
            shard += ", " + heads_axis("S(1)")
        operands = {"q": (q, shard), "k": (k, shard), "v": (v, shard)}
        masked = {}
        if mask is not None:
            rows = mask.dim() - 2
            masked = {"m": (mask, axis(f"S({rows})") if mask.shape[rows] > 1 else "")}
        given = "none" if mask is None else "%m"
        rest = "" if scale is None else f", scale = {scale}"
        kind = {torch.float64: "f64", torch.float32: "f32", torch.bfloat16: "bf16"}[dtype]
        yield Case(
            f"attention{name}_{kind}",
            f"aten._scaled_dot_product_flash_attention_for_cpu(%q, %k, %v, dropout_p = 0.0, "
            f"is_causal = {str(causal).lower()}, {given}{rest})",
            {**operands, **masked},
            [out, lse],
            [shard, shard],
        )
        gradients = aten._scaled_dot_product_flash_attention_for_cpu_backward(
            gradient, q, k, v, out, lse, 0.0, causal, attn_mask=mask, scale=scale
        )
        yield Case(
            f"attention{name}_{kind}_backward",
            f"aten._scaled_dot_product_flash_attention_for_cpu_backward(%g, %q, %k, %v, %o, %l, "
            f"dropout_p = 0.0, is_causal = {str(causal).lower()}, {given}{rest})",
            {"g": (gradient, shard), **operands, "o": (out, shard), "l": (lse, shard), **masked},
            list(gradients),
            [shard] * 3,
        )


def cumsum_cases(axis):
    generator = torch.Generator().manual_seed(6)
    real = torch.randn(3, 8, 2, generator=generator, dtype=torch.float64)
    whole = torch.randint(-5, 5, (8, 4), generator=generator)
    for name, x, dim in [
        ("real", real, 1),
        ("last", real.transpose(1, 2).contiguous(), -1),
        ("whole", whole, 0),
        ("boolean", whole > 0, 0),
    ]:
        shard = axis(f"S({dim % x.dim()})")
        yield Case(
            f"cumsum_{name}",
            f"aten.cumsum(%x, dim = {dim})",
            {"x": (x, shard)},
            [x.cumsum(dim)],
            [shard],
        )


def sort_cases(axis):
    generator = torch.Generator().manual_seed(10)
    whole = torch.randint(4, (16,), generator=generator)
    real = torch.randn(3, 8, generator=generator, dtype=torch.float64)
    for name, text, x, dim, found in [
        ("", "aten.sort(%x)", real, 1, real.sort()),
        ("_stable", "aten.sort_stable(%x, stable = true)", whole, 0, whole.sort(stable=True)),
        ("_down", "aten.sort_stable(%x, stable = true, dim = 0, descending = true)", real.t().contiguous(), 0,
         real.t().sort(stable=True, dim=0, descending=True)),
    ]:  # fmt: skip
        shard = axis(f"S({dim})")
        yield Case(f"sort{name}", text, {"x": (x, shard)}, list(found), [shard, shard])


def grouped_product_cases(rows=None, groups=None, dtype=torch.float64):
    """Products by group; `rows` is the axis along which what groups divide is sharded, `groups` that of the groups."""
    generator = torch.Generator().manual_seed(9)
    kind = {torch.float64: "", torch.float32: "_f32", torch.bfloat16: "_bf16"}[dtype]

    def random(*shape):
        return torch.randn(*shape, generator=generator, dtype=torch.float64).to(dtype)

    def place(*parts):
        """Of the axes that there are, each with its placement."""
        return ", ".join(axis(text) for axis, text in zip((rows, groups), parts) if axis and text)

    for name, ends in {
        "uneven": [1, 3, 3, 10, 10, 13, 15, 16],
        "some": [0, 2, 2, 3, 3, 7, 9, 11],
        "one": [0, 0, 0, 0, 0, 16, 16, 16],
        "none": [0] * 8,
    }.items():
        ends = torch.tensor(ends, dtype=torch.int32)
        forms = {
            "rows": (random(16, 6), random(8, 6, 5), place("S(0)"), place("", "S(0)"), place("S(0)", "P")),
            "sums": (random(3, 16), random(16, 5), place("S(1)"), place("S(0)"), place("P", "S(0)")),
            "columns": (random(8, 3, 6), random(6, 16), place("", "S(0)"), place("S(1)"), place("S(1)", "P")),
        }
        for form, (left, right, left_place, right_place, result) in forms.items():
            yield Case(
                f"grouped_{form}_{name}{kind}",
                "aten._grouped_mm(%x, %w, %e, none)",
                {"x": (left, left_place), "w": (right, right_place), "e": (ends, "")},
                [grouped_mm(left, right, ends)],
                [result],
            )


def batch_norm_cases(axis, dtype=torch.float64):
    generator = torch.Generator().manual_seed(7)

    def random(*shape):
        return torch.randn(*shape, generator=generator, dtype=torch.float64).to(dtype)

    shard, kind = axis("S(0)"), {torch.float64: "f64", torch.float32: "f32"}[dtype]
    weight, bias, mean, variance = random(3), random(3), random(3), random(3).abs()
    for name, x, affine in [
        ("images", random(8, 3, 4, 4) + 30, True),
        ("rows", random(8, 3), True),
        ("plain", random(4, 3, 5), False),
    ]:
        parameters = {"w": (weight, ""), "b": (bias, "")} if affine else {}
        results = aten._native_batch_norm_legit_functional(
            x, *([weight, bias] if affine else [None, None]), mean, variance, True, 0.1, 1e-5
        )
        yield Case(
            f"batch_norm_{name}_{kind}",
            f"aten._native_batch_norm_legit_functional(%x, {'%w, %b' if affine else 'none, none'}, "
            "%m, %v, training = true, momentum = 0.1, eps = 1.0e-05)",
            {"x": (x, shard), **parameters, "m": (mean, ""), "v": (variance, "")},
            list(results),
            [shard, "", "", "", ""],
        )
        gradient = random(*x.shape)
        gradients = aten.native_batch_norm_backward(
            gradient, x, weight if affine else None, mean, variance, results[1], results[2],
            True, 1e-5, [True, True, True],
        )
        for reduced in ("R", "P"):
            yield Case(
                f"batch_norm_{name}_{kind}_{reduced}_backward",
                f"aten.native_batch_norm_backward(%g, %x, {'%w' if affine else 'none'}, %m, %v, "
                "%sm, %si, train = true, eps = 1.0e-05, output_mask = [true, true, true])",
                {
                    "g": (gradient, shard),
                    "x": (x, shard),
                    **({"w": (weight, "")} if affine else {}),
                    "m": (mean, ""),
                    "v": (variance, ""),
                    "sm": (results[1], ""),
                    "si": (results[2], ""),
                },
                list(gradients),
                [shard, axis(reduced), axis(reduced)],
            )
