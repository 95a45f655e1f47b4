"""Operators of a library that LibTorch does not have: exported by name, run by cleave-run --load-library."""

import re
import subprocess

import cleave_run  # noqa: F401
import cleave
import pytest
import torch
import torch.nn.functional as F
from cleave import DataParallel, Plan
from safetensors.torch import load_file, save_file
from torch import nn
from torch.utils import cpp_extension

SOURCE = """
#include <ATen/core/Tensor.h>
#include <ATen/ops/mul.h>
#include <torch/library.h>

static at::Tensor cube(const at::Tensor &x, double factor) {
  return x.mul(x).mul(x).mul(factor);
}
static at::Tensor cubeBackward(const at::Tensor &grad, const at::Tensor &x, double factor) {
  return grad.mul(x).mul(x).mul(3 * factor);
}

TORCH_LIBRARY(cleave_test, m) {
  m.def("cube(Tensor x, float factor=1.0) -> Tensor");
  m.def("cube_backward(Tensor grad, Tensor x, float factor) -> Tensor");
}
TORCH_LIBRARY_IMPL(cleave_test, CPU, m) {
  m.impl("cube", &cube);
  m.impl("cube_backward", &cubeBackward);
}
TORCH_LIBRARY_IMPL(cleave_test, Meta, m) {
  m.impl("cube", &cube);
  m.impl("cube_backward", &cubeBackward);
}
"""


def keep(ctx, inputs, output):
    ctx.save_for_backward(inputs[0])
    ctx.factor = inputs[1]


def backward(ctx, grad):
    return torch.ops.cleave_test.cube_backward(grad, *ctx.saved_tensors, ctx.factor), None


@pytest.fixture(scope="module")
def library(build_dir, tmp_path_factory):
    """The library, in this process too, with its derivative."""
    folder = tmp_path_factory.mktemp("library")
    (folder / "cube.cpp").write_text(SOURCE)
    path = folder / "libcube.so"
    cache = (build_dir / "CMakeCache.txt").read_text()
    compiler = re.search(r"^CMAKE_CXX_COMPILER:\w+=(.*)$", cache, re.M)[1]
    command = [compiler, "-std=c++20", "-shared", "-fPIC", folder / "cube.cpp", "-o", path]
    command += [flag for include in cpp_extension.include_paths() for flag in ("-isystem", include)]
    command += [f"-L{cpp_extension.library_paths()[0]}", "-ltorch_cpu", "-lc10"]
    subprocess.run(command, check=True)
    torch.ops.load_library(path)
    torch.library.register_autograd("cleave_test::cube", backward, setup_context=keep)
    return path


class Cubes(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(6, 8), nn.Linear(8, 5)

    def forward(self, x):
        return self.second(torch.ops.cleave_test.cube(self.first(x), 0.5))


@pytest.fixture(scope="module")
def exported(library, tmp_path_factory):
    """The program, a file of its inputs, and what eager mode computes for them."""
    folder = tmp_path_factory.mktemp("cubes")
    torch.manual_seed(0)
    module, x, target = Cubes(), torch.randn(4, 6), torch.tensor([0, 4, 2, 1])
    spec = cleave.ExportSpec(module, (x,), loss=F.cross_entropy, targets=(target,), name="cubes")
    path = cleave.export_spec(spec, folder)
    save_file({"x": x, "target": target}, folder / "inputs.safetensors")
    loss = F.cross_entropy(module(x), target)
    loss.backward()
    expected = {f"grad.{name}": p.grad for name, p in module.named_parameters()}
    return path, folder / "inputs.safetensors", expected | {"loss": loss.detach()}


def passed(build_dir, path, name, *passes):
    output = path.with_name(f"{name}.mlir")
    command = [build_dir / "bin" / "cleave-opt", path, *passes, "-o", output]
    result = subprocess.run(command, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    weights = output.with_suffix(".safetensors")
    if not weights.exists():
        weights.symlink_to(path.with_suffix(".safetensors"))
    return output, result.stderr


PIPELINES = {
    "exported": [],
    "lowered": ["--lower-to-exec=target=cpu"],
    "fused": ["--fuse-kernels", "--lower-to-exec=target=cpu"],
    "bytecode": ["--emit-bytecode"],
}


@pytest.mark.parametrize("name", PIPELINES)
def test_computes_what_eager_mode_does(name, library, exported, build_dir, cleave_run, tmp_path):
    path, inputs, expected = exported
    assert 'aten.call "cleave_test::cube_backward"' in path.read_text()
    program, _ = passed(build_dir, path, name, *PIPELINES[name])
    dump = tmp_path / "dump.safetensors"
    cleave_run.succeed(program, "--load-library", library, "--inputs", inputs, "--dump", dump)
    found = load_file(dump)
    for key, value in expected.items():
        assert torch.equal(found[key], value), key


def test_runs_on_several_ranks(library, exported, build_dir, cleave_run):
    """Nothing is known of its dimensions: it runs replicated, by name."""
    path, inputs, _ = exported
    Plan({"dp": 2}, {"": DataParallel("dp")}).write(path.with_name("plan.json"))
    program, remarks = passed(
        build_dir, path, "local", f"--annotate-placements=plan={path.with_name('plan.json')}",
        "--propagate-placements", "--partition", "--check-spmd-types", "--lower-to-exec=target=cpu")  # fmt: skip
    assert "'cleave_test::cube' runs replicated on all ranks, because Cleave knows only its schema" in remarks
    cleave_run.succeed(program, "--load-library", library, "--inputs", inputs, "--against", path,
                       "--ranks", 2, "--tolerance", 1e-5)  # fmt: skip


def test_libraries_that_do_not_do(library, exported, cleave_run, tmp_path):
    path, inputs, _ = exported

    def error(*options):
        text = cleave_run.fail(path, "--inputs", inputs, *options)
        assert len(text.splitlines()) == 1, text
        return text

    wanted = "no library registers operator 'cleave_test::cube'; expected the one that does, by cleave-run --load-library"
    assert wanted in error()
    other = f"{cpp_extension.library_paths()[0]}/libc10.so"
    assert wanted in error("--load-library", other)
    absent = tmp_path / "absent.so"
    assert f"cannot load operator library '{absent}': No such file" in error("--load-library", absent)
    assert f"'{tmp_path}': expected a regular file" in error("--load-library", tmp_path)
    text = tmp_path / "text.so"
    text.write_text("no library")
    assert f"cannot load operator library '{text}': expected a shared library" in error("--load-library", text)
    again = tmp_path / "again.so"
    again.write_bytes(library.read_bytes())
    assert re.search("again.so': .*cleave_test", error("--load-library", library, "--load-library", again))
    assert f"--dump {library} would overwrite --load-library" in error("--load-library", library, "--dump", library)


def test_a_library_with_another_schema_is_refused(library, exported, cleave_run, tmp_path):
    path, inputs, _ = exported
    other = tmp_path / "other.mlir"
    other.write_text(path.read_text().replace("float factor=1.", "float factor=2."))
    assert other.read_text() != path.read_text()
    error = cleave_run.fail(other, "--weights", path.with_suffix(".safetensors"), "--inputs", inputs,
                            "--load-library", library)  # fmt: skip
    assert "operator 'cleave_test::cube' is (Tensor x, float factor=2.) -> Tensor in the program" in error
    assert "but its library has (Tensor x, float factor=1.) -> Tensor" in error
