"""examples/tensor-parallel: a hand-written tensor-parallel GPT has the gradients of one rank."""

import importlib.util
import re

import pytest
from safetensors.torch import load_file

from conformance.comparison import difference
from conformance.tools import Tools

TOLERANCE = {"f64": (1e-10, 1e-10), "f32": (1e-6, 1e-5)}  # loss, gradients


@pytest.fixture(scope="module")
def example(source_dir):
    path = source_dir / "examples" / "tensor-parallel" / "gpt_block.py"
    spec = importlib.util.spec_from_file_location("gpt_block", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("dtype", ["f64", "f32"])
@pytest.mark.parametrize("ranks", [2, 4])
def test_gradients_are_one_ranks(build_dir, tmp_path, example, ranks, dtype):
    tools = Tools(build_dir, tmp_path)
    example.write(ranks, dtype, tmp_path)
    program = (tmp_path / "gpt.mlir").read_text()
    joint = tools.transform(program, "--check-spmd-types", "--autodiff", "--check-spmd-types")
    # The two conversions to R bring one all-reduce each; queries, keys and values share the first.
    assert len(re.findall(r"dist\.all_reduce sum.*train\.backward", joint)) == 2
    weights, inputs = (load_file(tmp_path / f"{n}.safetensors") for n in ("gpt", "inputs"))
    found = tools.run(joint, weights, inputs, ranks, "--check", "replicated")
    loss, gradients = example.reference(dtype)
    loss_tolerance, tolerance = TOLERANCE[dtype]
    assert difference(found["loss"], loss) < loss_tolerance
    largest = sorted(g.abs().max().item() for g in gradients.values())
    floor = 1e-3 * largest[len(largest) // 2]  # a key's bias has no gradient, by mathematics
    for name, gradient in gradients.items():
        assert difference(found[f"grad.{name}"], gradient, floor) < tolerance, name
    assert {n for n in found if n.startswith("grad.")} == {f"grad.{n}" for n in gradients}


def test_a_missing_conversion_is_refused(build_dir, tmp_path, example):
    program = example.program(2, "f32")
    wrong, count = re.subn(r" *%f2 = .*\n", "", program)
    assert count == 1
    wrong = re.sub(
        r"(%h0 = .*?, )tensor<32x32xf32, #R>",
        r"\1tensor<32x32xf32, #I>",
        wrong.replace("%f2", "%r2"),
    )
    status, _, messages = Tools(build_dir, tmp_path).opt(wrong, "--check-spmd-types")
    assert status == 1
    assert re.search(r"error: .*I", messages), messages


@pytest.mark.parametrize("ranks, dtype", [(3, "f32"), (2, "f16")])
def test_the_example_refuses_what_it_cannot_divide(example, ranks, dtype):
    with pytest.raises(ValueError, match="expected 1, 2 or 4 ranks and f32 or f64"):
        example.program(ranks, dtype)
