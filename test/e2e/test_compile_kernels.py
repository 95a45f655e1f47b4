"""Compiled kernels compute what their ops do one by one: every op, every element type, odd shapes.

Results are compared per tensor by `max|a - b| / max|b|` over finite elements; NaNs and infinities
must be in the same places.
"""

import subprocess

import combinations_cover
import kernel_cases as cases
import pytest
import torch
from exported_models import MODELS
from library_models import LIBRARY_MODELS
from safetensors.torch import load_file

# Of what is computed in f32, the last bits differ; 16-bit types round after each op when they run
# one by one, and once when they are compiled.
TOLERANCE = {
    torch.float32: 1e-6, torch.float64: 1e-14, torch.bfloat16: 2e-2, torch.float16: 3e-3,
    torch.int64: 0, torch.int32: 0, torch.bool: 0,
}  # fmt: skip


def levels():
    """The targets that this machine executes."""
    flags = open("/proc/cpuinfo").read()
    found = ["x86-64-v2"]
    if " avx2 " in flags and " fma " in flags:
        found.append("x86-64-v3")
    if all(f" avx512{part} " in flags for part in ["f", "bw", "cd", "dq", "vl"]):
        found.append("x86-64-v4")
    return found


@pytest.fixture(scope="module")
def compile_program(build_dir, tmp_path_factory):
    def compile_program(kernels, targets):
        """The program, compiled for `targets`, and what the compiler remarked."""
        folder = tmp_path_factory.mktemp("kernels")
        source, compiled = folder / "kernels.mlir", folder / "kernels.mlirbc"
        source.write_text(cases.program(kernels))
        passes = f"--compile-kernels=cpu={','.join(targets)}"
        command = [build_dir / "bin" / "cleave-opt", source, passes, "-o", compiled]
        result = subprocess.run(command, capture_output=True, text=True)
        assert result.returncode == 0, result.stderr
        return compiled, result.stderr

    return compile_program


def describe_difference(actual, expected, tolerance):
    """What is wrong with `actual`; nothing if it is right."""
    if actual.dtype != expected.dtype or actual.shape != expected.shape:
        return f"{actual.dtype} {actual.shape}, expected {expected.dtype} {expected.shape}"
    if not actual.dtype.is_floating_point:
        count = (actual != expected).sum().item()
        return f"{count} of {actual.numel()} differ" if count else ""
    a, b = actual.double(), expected.double()
    if not torch.equal(a.isnan(), b.isnan()):
        return f"{a.isnan().sum()} NaNs, expected {b.isnan().sum()}"
    infinite = b.isinf()
    if not torch.equal(a.isinf(), infinite) or not torch.equal(a[infinite], b[infinite]):
        return f"{a.isinf().sum()} infinities, expected {infinite.sum()}"
    finite = b.isfinite()
    if not finite.any():
        return ""
    scale = b[finite].abs().max().clamp_min(1e-30)
    error = ((a - b)[finite].abs().max() / scale).item()
    return f"differs by {error:.2e}, expected {tolerance:.0e}" if error > tolerance else ""


def compare(
    cleave_run, program, kernels, tmp_path, targets, special=False, tolerances=TOLERANCE, skipped=(),
    smallest=-100,
):  # fmt: skip
    """`special`: with infinities and their like, the results of kernels named in `skipped` apart."""
    inputs = cases.tensors(kernels, combinations_cover.seed(), special, smallest)
    expected = cleave_run.evaluate(program, inputs, tmp_path, "--kernels", "none")
    for target in targets:
        actual = cleave_run.evaluate(program, inputs, tmp_path, "--kernels", target)
        assert actual.keys() == expected.keys()
        wrong = []
        for name, tensor in expected.items():
            if name.split(".")[1] in skipped:
                continue
            # ATen's own gradients have errors of this size.
            factor = 10 if "backward" in name and tensor.dtype == torch.float32 else 1
            difference = describe_difference(
                actual[name], tensor, factor * tolerances[tensor.dtype]
            )
            wrong += [f"{name} on {target}: {difference}"] * bool(difference)
        assert not wrong, "\n".join(wrong)


SHAPES = {
    torch.float32: (7, 37), torch.float64: (5, 19), torch.bfloat16: (3, 67), torch.float16: (4, 35),
}  # fmt: skip


@pytest.mark.parametrize("dtype", SHAPES, ids=lambda dtype: cases.MLIR[dtype])
def test_pointwise(dtype, compile_program, cleave_run, tmp_path):
    kernels = cases.pointwise(dtype, SHAPES[dtype])
    targets = levels() if dtype == torch.float32 else levels()[:: len(levels()) - 1 or 1]
    program, remarks = compile_program(kernels, targets)
    assert "not compiled" not in remarks
    compare(cleave_run, program, kernels, tmp_path, targets)
    # Of infinity, ATen itself gives different results in vectors and in what is left of them.
    skipped = ("gelu_none", "pow_0_5", "pow_m0_5")
    compare(cleave_run, program, kernels, tmp_path, targets, special=True, skipped=skipped)


def test_logic_and_conversions(compile_program, cleave_run, tmp_path):
    kernels = cases.logic((5, 33))
    program, remarks = compile_program(kernels, levels())
    assert "not compiled" not in remarks
    compare(cleave_run, program, kernels, tmp_path, levels())


@pytest.mark.parametrize("dtype", SHAPES, ids=lambda dtype: cases.MLIR[dtype])
def test_reductions(dtype, compile_program, cleave_run, tmp_path):
    shapes = [(2, 3), (1, 64), (13, 31), (67, 130), (300, 513)]
    kernels = [k for shape in shapes for k in cases.reductions(dtype, shape)]
    targets = levels()[-2:] if dtype == torch.float32 else levels()[-1:]
    program, remarks = compile_program(kernels, targets)
    assert "not compiled" not in remarks
    # Sums of thousands of terms that cancel out.
    wide = dict(TOLERANCE) | {torch.float32: 1e-5, torch.float64: 1e-13}
    compare(cleave_run, program, kernels, tmp_path, targets, tolerances=wide)


def test_special_values_in_reductions(compile_program, cleave_run, tmp_path):
    kernels = cases.reductions(torch.float32, (40, 65))
    kernels = [k for k in kernels if "softmax" in k.name or "amax" in k.name]
    target = levels()[-1]
    program, _ = compile_program(kernels, [target])
    # Without AVX-512, results of exp below 2^-125 are 0 (lib/kernels/cpu/VectorMath.cpp); times infinity, they are NaN.
    smallest = -100 if target == "x86-64-v4" else -80
    compare(cleave_run, program, kernels, tmp_path, [target], special=True, smallest=smallest)


def test_windows_and_tables(compile_program, cleave_run, tmp_path):
    kernels = cases.windows(torch.float32, 2, 3, 5, 44)
    program, remarks = compile_program(kernels, levels())
    assert "not compiled" not in remarks
    compare(cleave_run, program, kernels, tmp_path, levels())


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["f32", "f64"])
def test_random_chains(dtype, compile_program, cleave_run, tmp_path):
    shapes = [(1, 40), (9, 2), (2, 17), (31, 61), (64, 64), (50, 1000)]
    kernels = cases.chains(combinations_cover.seed(), 40, dtype, shapes)
    program, remarks = compile_program(kernels, levels()[-1:])
    # A chain may fall into parts that nothing joins; `--fuse-kernels` makes no such kernel.
    assert remarks.count("remark: ") == remarks.count("no rows in common") < len(kernels) / 3
    wide = dict(TOLERANCE) | {torch.float32: 2e-5, torch.float64: 1e-13}
    compare(cleave_run, program, kernels, tmp_path, levels()[-1:], tolerances=wide)


def median_gradient(values):
    sizes = [t.abs().max().item() for n, t in values.items() if n.startswith("grad.") and t.numel()]
    return sorted(sizes)[len(sizes) // 2] if sizes else 0.0


# The others with `./dev test --all`; their kernels are much the same.
FEW = ["gpt_tied", "gpt_autocast", "moe", "llama", "resnet18", "convnext", "mamba"]


@pytest.mark.parametrize("name", [*MODELS, *LIBRARY_MODELS] if combinations_cover.run_all() else FEW)
def test_models(name, program, example, build_dir, cleave_run, tmp_path):
    """Fused and compiled against unfused: 1e-6 forward, 1e-5 for gradients, as design section 7
    measures them."""
    spec, path = program(name)
    compiled = tmp_path / "compiled.mlirbc"
    options = ["--fuse-kernels", f"--compile-kernels=cpu={levels()[-1]}", "-o", compiled]
    command = [build_dir / "bin" / "cleave-opt", path, *options]
    result = subprocess.run(command, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    # Every kernel that fusion makes is one that code is made of.
    assert "not compiled" not in result.stderr
    compiled.with_suffix(".safetensors").symlink_to(path.with_suffix(".safetensors"))
    values = []
    for each in [path, compiled]:
        dump = tmp_path / f"{each.stem}.dump.safetensors"
        cleave_run.succeed(each, "--inputs", example(spec), "--seed", 3, "--dump", dump)
        values.append(load_file(dump))
    expected, actual = values
    assert expected.keys() == actual.keys()
    median, wrong = median_gradient(expected), []
    for key, b in expected.items():
        if not b.is_floating_point() or b.numel() == 0:
            assert torch.equal(actual[key], b), key
            continue
        a, b = actual[key].double(), b.double()
        # A key's bias has a gradient of 0: what is there are others' last digits.
        floor = median * (1 if "key.bias" in key else 1e-3)
        error = ((a - b).abs().max() / max(b.abs().max().item(), floor, 1e-30)).item()
        bound = 1e-5 if key.startswith("grad.") else 1e-6
        if name == "gpt_autocast":
            bound = 2e-2
        elif name == "minilm" and key == "loss":
            # A squared distance between cosines and their targets: a difference of like numbers.
            bound = 1e-5
        if not error <= bound:
            wrong.append(f"{key}: {error:.2e}")
    assert not wrong, "\n".join(wrong)
