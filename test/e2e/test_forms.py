"""Every distributed form, executed: the same numbers as the op on one device."""

import form_cases
import placed_cases
import pytest
import torch


def on(*axes):
    """Placements along the axes, the first major: "S(0)" to "a = S(0, 0), b = S(0, 1)"."""

    def place(text):
        if len(axes) > 1 and text.startswith("S("):
            return ", ".join(f"{axis} = {text[:-1]}, {i})" for i, axis in enumerate(axes))
        return ", ".join(f"{axis} = {text}" for axis in axes)

    return place


def cases(axis):
    """All forms along one axis, or several as one."""
    yield from form_cases.embedding_cases(axis)
    yield from form_cases.softmax_cases(axis)
    yield from form_cases.softmax_cases(axis, torch.float32)
    yield from form_cases.softmax_cases(axis, torch.bfloat16)
    yield from form_cases.safe_softmax_cases(axis)
    yield from form_cases.nll_cases(None, axis)
    yield from form_cases.logsumexp_cases(axis)
    yield from form_cases.logsumexp_cases(axis, torch.bfloat16)
    yield from form_cases.mean_cases(axis)
    yield from form_cases.element_loss_cases(axis)
    for dtype in (torch.float64, torch.float32, torch.bfloat16):
        yield from form_cases.attention_cases(axis, dtype)
    yield from form_cases.cumsum_cases(axis)
    yield from form_cases.grouped_product_cases(rows=axis)
    yield from form_cases.sort_cases(axis)
    yield from form_cases.batch_norm_cases(axis)
    yield from form_cases.batch_norm_cases(axis, torch.float32)


def grouped_products(**axes):
    for dtype in (torch.float64, torch.float32, torch.bfloat16):
        yield from form_cases.grouped_product_cases(**axes, dtype=dtype)


MESHES = {
    "2": ({"tp": 2}, [lambda: cases(on("tp"))]),
    "2_experts": ({"ep": 2}, [lambda: grouped_products(groups=on("ep"))]),
    "4_experts": ({"ep": 4}, [lambda: grouped_products(groups=on("ep"))]),
    "2x2_rows_and_experts": ({"dp": 2, "ep": 2}, [lambda: grouped_products(rows=on("dp"), groups=on("ep"))]),
    "2_batch": ({"dp": 2}, [lambda: form_cases.nll_cases(on("dp"), None)]),
    "4": ({"tp": 4}, [lambda: cases(on("tp"))]),
    "2x2": ({"dp": 2, "tp": 2}, [lambda: cases(on("dp", "tp"))]),
    "2x2_batch_and_classes": (
        {"dp": 2, "tp": 2},
        [
            lambda: form_cases.nll_cases(on("dp"), on("tp")),
            lambda: form_cases.attention_cases(on("dp"), heads_axis=on("tp")),
        ],
    ),
}

TOLERANCES = {torch.float64: 1e-10, torch.float32: 1e-5, torch.bfloat16: 1e-2}
# The logarithms of sums that attention of bf16 gives in f32: whole vectors (8 columns fill one of AVX2, none of AVX-512)
# get ATen's fast exponential, whose relative error is up to 1.1e-4 (the constant term of its polynomial).
FAST_EXPONENTIAL = 1.1e-4


@pytest.mark.parametrize("mesh_name", MESHES)
def test_forms_compute_what_the_op_does(mesh_name, build_dir, cleave_run, tmp_path):
    mesh, groups = MESHES[mesh_name]
    chosen = [case for group in groups for case in group()]
    found = placed_cases.run(chosen, mesh, build_dir, cleave_run, tmp_path)
    tolerances = {
        f"{case.name}.{i}": FAST_EXPONENTIAL
        if case.name.startswith("attention") and case.name.endswith("_bf16") and i == 1
        else TOLERANCES.get(tensor.dtype, 0)
        for case in chosen
        for i, tensor in enumerate(case.expected)
    }
    assert found.keys() == tolerances.keys() and found
    assert not {name: d for name, d in found.items() if d > tolerances[name]}
