"""Operators of a library that LibTorch does not have: exported by name, run by cleave-run --load-library."""

import re
import subprocess

import cleave_run  # noqa: F401
import cleave
import pytest
import torch
import torch.nn.functional as F
from cleave import ColwiseParallel, DataParallel, Plan, RowwiseParallel, testing
from combinations_cover import covered
from safetensors.torch import load_file, save_file
from torch import nn
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard
from torch.distributed.tensor.experimental import register_sharding
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


def compiled(build_dir, folder, name, source):
    """A library of operators."""
    (folder / f"{name}.cpp").write_text(source)
    path = folder / f"lib{name}.so"
    cache = (build_dir / "CMakeCache.txt").read_text()
    compiler = re.search(r"^CMAKE_CXX_COMPILER:\w+=(.*)$", cache, re.M)[1]
    command = [compiler, "-std=c++20", "-shared", "-fPIC", folder / f"{name}.cpp", "-o", path]
    command += [flag for include in cpp_extension.include_paths() for flag in ("-isystem", include)]
    command += [f"-L{cpp_extension.library_paths()[0]}", "-ltorch_cpu", "-lc10"]
    subprocess.run(command, check=True)
    return path


@pytest.fixture(scope="module")
def library(build_dir, tmp_path_factory):
    """The library, in this process too, with its derivative."""
    path = compiled(build_dir, tmp_path_factory.mktemp("library"), "cube", SOURCE)
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


# Rules of PyTorch's own notation ------------------------------------------------------------


@pytest.fixture
def registered():
    """register_sharding, undone afterwards."""
    table = DTensor._op_dispatcher.sharding_propagator.op_strategy_funcs
    before = dict(table)
    yield register_sharding
    table.clear()
    table.update(before)


def cubes():
    torch.manual_seed(0)
    return cleave.ExportSpec(Cubes(), (torch.randn(4, 6),), loss=F.cross_entropy, targets=(torch.tensor([0, 4, 2, 1]),),
                             name="cubes")  # fmt: skip


def test_a_registered_sharding_is_used(library, registered, build_dir, cleave_run, tmp_path):
    """Pointwise operators are sharded by the batch and by the columns of a tensor-parallel layer."""
    operators = torch.ops.cleave_test

    @registered(operators.cube.default)
    def shard_cube(x, factor):
        return [([Replicate()], [Replicate(), None])] + [([Shard(d)], [Shard(d), None]) for d in range(x.ndim)]

    @registered(operators.cube_backward.default)
    def shard_cube_backward(grad, x, factor):
        pointwise = [([Shard(d)], [Shard(d), Shard(d), None]) for d in range(len(x.shape))]
        return [*pointwise, ([Partial()], [Partial(), Replicate(), None])]

    path = cleave.export_spec(cubes(), tmp_path)
    text = path.read_text()
    assert '"cleave_test::cube" "(Tensor x, float factor=1.) -> Tensor" sharded "ab -> ab"(x = ' in text
    assert 'sharded "ab, ab -> ab; linear 0"(grad = ' in text
    inputs = tmp_path / "inputs.safetensors"
    save_file(testing.example_inputs(cubes()), inputs)
    plans = {
        "dp": Plan({"dp": 2}, {"": DataParallel("dp")}),
        "tp": Plan({"tp": 2}, {"first": ColwiseParallel("tp"), "second": RowwiseParallel("tp")}),
    }
    for name, plan in plans.items():
        plan.write(tmp_path / f"{name}.json")
        program, remarks = passed(
            build_dir, path, name, f"--annotate-placements=plan={tmp_path / name}.json", "--propagate-placements",
            "--partition", "--check-spmd-types", "--lower-to-exec=target=cpu")  # fmt: skip
        assert "replicated" not in remarks, remarks
        cube = next(line for line in program.read_text().splitlines() if '"cleave_test::cube"' in line)
        assert ("tensor<2x8xf32" if name == "dp" else "tensor<4x4xf32") in cube
        cleave_run.succeed(program, "--load-library", library, "--inputs", inputs, "--against", path,
                           "--ranks", 2, "--tolerance", 1e-5)  # fmt: skip


WRONG = {
    "output 0 is placed as Shard(2), and has 2 dimensions": lambda: [([Shard(2)], [Shard(0), None])],
    "input 0 is placed as Shard(1), where it has 8 elements; expected 4": lambda: [([Shard(0)], [Shard(1), None])],
    "it has placements for 2 outputs, of which there are 1": lambda: [([Shard(0), Shard(0)], [Shard(0), None])],
    "it has placements for 3 inputs; expected one for each of 1 tensors": lambda: [([Shard(0)], [Shard(0)] * 3)],
    "it raises ZeroDivisionError": lambda: 1 / 0,
    "it raises TypeError": lambda: [Shard(0)],
}


@pytest.mark.parametrize("found", WRONG)
def test_a_registered_sharding_that_does_not_fit(found, library, registered, tmp_path):
    registered(torch.ops.cleave_test.cube.default)(lambda x, factor: WRONG[found]())
    with pytest.raises(cleave.ExportError) as error:
        cleave.export_spec(cubes(), tmp_path)
    message = str(error.value)
    assert re.search("cannot export 'cleave_test::cube' at .*test_operator_libraries.py:[0-9]+: ", message), message
    assert found in message and len(message.splitlines()) == 1
    assert not list(tmp_path.iterdir())


# Libraries that break their word -------------------------------------------------------------

HOSTILE = """
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <stdexcept>
#include <torch/library.h>

using at::Tensor;
static Tensor throws(const Tensor &) { throw std::runtime_error("the device is on fire"); }
static Tensor throwsInt(const Tensor &) { throw 42; }
static Tensor shape(const Tensor &x) { return x.sum(0); }
static Tensor dtype(const Tensor &x) { return x.to(at::kDouble); }
static Tensor changes(const Tensor &x) { x.mutable_data_ptr<float>()[3] += 1; return x.mul(2); }
static Tensor same(const Tensor &x) { return x; }
static Tensor part(const Tensor &x) { return x.t().t(); }
static Tensor strides(const Tensor &x) { return x.select(0, 0).mul(2).unsqueeze(0).expand_as(x); }
static Tensor nothing(const Tensor &) { return Tensor(); }

TORCH_LIBRARY(cleave_bad, m) {
  for (const char *name : {"throws", "throws_int", "shape", "dtype", "changes", "same", "part", "strides",
                           "nothing", "absent"})
    m.def((std::string(name) + "(Tensor x) -> Tensor").c_str());
}
TORCH_LIBRARY_IMPL(cleave_bad, CPU, m) {
  m.impl("throws", &throws);
  m.impl("throws_int", &throwsInt);
  m.impl("shape", &shape);
  m.impl("dtype", &dtype);
  m.impl("changes", &changes);
  m.impl("same", &same);
  m.impl("part", &part);
  m.impl("strides", &strides);
  m.impl("nothing", &nothing);
}
"""

PROGRAM = """module @bad {
  train.program
  func.func @microbatch(%%x: tensor<4x6xf32> {train.role = #train.role<input "x" batch 0>})
      -> (tensor<4x6xf32> {train.role = #train.role<output "0" batch 0>})
      attributes {train.phase = #train.phase<microbatch>} {
    %%0 = aten.neg(%%x) : (tensor<4x6xf32>) -> tensor<4x6xf32>
    %%1 = aten.call "cleave_bad::%s" "(Tensor x) -> Tensor"(x = %%0) : (tensor<4x6xf32>) -> tensor<4x6xf32>
    %%2 = aten.mul(%%1, %%0) : (tensor<4x6xf32>, tensor<4x6xf32>) -> tensor<4x6xf32>
    return %%2 : tensor<4x6xf32>
  }
}
"""

BROKEN = {
    "throws": "the device is on fire",
    "throws_int": "operator 'cleave_bad::throws_int' threw what is no std::exception",
    "shape": "result 0 is F32 [6], but the program says F32 [4, 6]",
    "dtype": "result 0 is F64 [4, 6], but the program says F32 [4, 6]",
    "changes": "operator 'cleave_bad::changes' changed its argument 'x', which its schema does not say",
    "same": "operator 'cleave_bad::same' returned memory of its argument 'x', which its schema does not say",
    "part": "operator 'cleave_bad::part' returned memory of its argument 'x', which its schema does not say",
    "nothing": "result 0 is nothing, but the program says F32 [4, 6]",
    "absent": "cleave_bad::absent",
}


@pytest.fixture(scope="module")
def hostile(build_dir, tmp_path_factory):
    return compiled(build_dir, tmp_path_factory.mktemp("hostile"), "hostile", HOSTILE)


@pytest.fixture(scope="module")
def bad_inputs(tmp_path_factory):
    path = tmp_path_factory.mktemp("bad") / "inputs.safetensors"
    save_file({"x": torch.arange(1.0, 25.0).reshape(4, 6)}, path)
    return path


def bad_program(build_dir, folder, name, *passes):
    path = folder / "bad.mlir"
    path.write_text(PROGRAM % name)
    if not passes:
        return path
    result = subprocess.run([build_dir / "bin/cleave-opt", path, *passes, "-o", folder / "passed.mlir"])
    assert result.returncode == 0
    return folder / "passed.mlir"


@covered({"name": list(BROKEN), "passes": {"exported": (), "lowered": ("--lower-to-exec=target=cpu",)}}, strength=1)
def test_a_library_that_breaks_its_word(name, passes, hostile, bad_inputs, build_dir, cleave_run, tmp_path):
    program, dump = bad_program(build_dir, tmp_path, name, *passes), tmp_path / "dump.safetensors"
    error = cleave_run.fail(program, "--inputs", bad_inputs, "--load-library", hostile, "--dump", dump)
    assert BROKEN[name] in error and len(error.splitlines()) == 1, error
    assert not dump.exists()


@pytest.mark.parametrize("passes", [(), ("--lower-to-exec=target=cpu",)], ids=["exported", "lowered"])
def test_results_whose_elements_share_memory(passes, hostile, bad_inputs, build_dir, cleave_run, tmp_path):
    program, dump = bad_program(build_dir, tmp_path, "strides", *passes), tmp_path / "dump.safetensors"
    x = load_file(bad_inputs)["x"]
    cleave_run.succeed(program, "--inputs", bad_inputs, "--load-library", hostile, "--dump", dump)
    assert torch.equal(load_file(dump)["output.0"], (-2 * x[:1]).expand(4, 6) * -x)


def test_a_library_that_lacks_a_symbol(build_dir, bad_inputs, cleave_run, tmp_path):
    path = compiled(build_dir, tmp_path, "lacking", 'extern "C" void nowhere(); void *use = (void *)&nowhere;')
    program = bad_program(build_dir, tmp_path, "same")
    error = cleave_run.fail(program, "--inputs", bad_inputs, "--load-library", path)
    assert "cannot load operator library" in error and "undefined symbol: nowhere" in error
    assert len(error.splitlines()) == 1


# Operators in Python ---------------------------------------------------------------------------


@pytest.fixture(scope="module")
def in_python():
    """A composite operator, and one with a kernel."""
    library = torch.library.Library("cleave_python", "DEF")
    library.define("gate(Tensor x) -> Tensor")
    library.impl("gate", lambda x: x * torch.sigmoid(1.5 * x), "CompositeImplicitAutograd")
    torch.library.define("cleave_python::opaque", "(Tensor x) -> Tensor")
    torch.library.impl("cleave_python::opaque", "cpu", lambda x: x * 2)
    torch.library.register_fake("cleave_python::opaque", torch.empty_like)
    yield torch.ops.cleave_python
    library._destroy()


class Applied(Cubes):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, x):
        return self.second(self.function(self.first(x)))


def test_composites_in_python_are_traced(in_python, build_dir, cleave_run, tmp_path):
    torch.manual_seed(0)
    spec = cleave.ExportSpec(Applied(in_python.gate), (torch.randn(4, 6),), loss=F.cross_entropy,
                             targets=(torch.tensor([0, 4, 2, 1]),), name="gate")  # fmt: skip
    path = cleave.export_spec(spec, tmp_path)
    assert "aten.call" not in path.read_text()
    found = cleave_run.evaluate(path, testing.example_inputs(spec), tmp_path)
    for key, value in testing.evaluate(spec).items():
        assert torch.equal(found[key], value), key


def test_kernels_in_python_are_refused(in_python, tmp_path):
    with pytest.raises(cleave.ExportError) as error:
        cleave.export(Applied(in_python.opaque), (torch.randn(4, 6),), out=tmp_path)
    for part in ("'cleave_python::opaque' at ", "written in Python", "TORCH_LIBRARY", "CompositeImplicitAutograd"):
        assert part in str(error.value)
