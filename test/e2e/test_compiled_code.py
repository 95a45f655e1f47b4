"""Code that is in a program: chosen, loaded and run, or refused."""

import json
import os
import subprocess

import pytest
import torch
from compiled_code import COLUMNS, ROWS, SOURCE, compile_object, program_text
from safetensors.torch import load_file, save_file

TARGETS = {"x86-64-v2": 2, "x86-64-v3": 3, "x86-64-v4": 4}
# What Linux calls the features that a target is told by.
FEATURES = {
    "x86-64-v2": {"sse4_2", "popcnt"},
    "x86-64-v3": {"avx2", "bmi2", "fma"},
    "x86-64-v4": {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"},
}


@pytest.fixture(scope="module")
def inputs(tmp_path_factory):
    torch.manual_seed(0)
    tensors = {"x": torch.randn(COLUMNS, ROWS), "b": torch.randn(COLUMNS)}
    path = tmp_path_factory.mktemp("inputs") / "inputs.safetensors"
    save_file(tensors, path)
    return path


@pytest.fixture(scope="module")
def marked(tmp_path_factory):
    """A program whose code adds 2, 3 or 4, each for another target."""
    folder = tmp_path_factory.mktemp("marked")
    path = folder / "marked.mlir"
    path.write_text(program_text({t: compile_object(folder, m) for t, m in TARGETS.items()}))
    return path


def expect(inputs, mark):
    tensors = load_file(inputs)
    y = tensors["x"].t() ** 2 + tensors["b"] + mark
    return y, y.sum(0)


def run(cleave_run, program, inputs, folder, *options):
    dump = folder / "dump.safetensors"
    cleave_run.succeed(program, "--inputs", inputs, "--dump", dump, *options)
    tensors = load_file(dump)
    return tensors["output.0"], tensors["output.1"]


def best_target():
    with open("/proc/cpuinfo") as file:
        flags = set(next(line for line in file if line.startswith("flags")).split())
    return max((t for t in TARGETS if FEATURES[t] <= flags), default=None)


@pytest.mark.parametrize("wanted", ["best", "x86-64-v2", "none"])
def test_code_of_the_wanted_target_runs(cleave_run, marked, inputs, tmp_path, wanted):
    found = run(cleave_run, marked, inputs, tmp_path, "--kernels", wanted)
    target = best_target() if wanted == "best" else wanted
    expected = expect(inputs, TARGETS.get(target, 0))
    for a, b in zip(found, expected, strict=True):
        torch.testing.assert_close(a, b)


def test_code_equals_ops(cleave_run, inputs, tmp_path):
    """Without a mark code computes what the ops do; so does its bytecode."""
    program = tmp_path / "program.mlir"
    program.write_text(program_text({"x86-64-v2": compile_object(tmp_path)}))
    code = run(cleave_run, program, inputs, tmp_path)
    ops = run(cleave_run, program, inputs, tmp_path, "--kernels", "none")
    for a, b in zip(code, ops, strict=True):
        torch.testing.assert_close(a, b)


def test_views_of_what_code_makes(cleave_run, inputs, tmp_path):
    """Ops keep the strides of a transposed operand, code does not: one view is then a copy."""
    text = program_text({"x86-64-v2": compile_object(tmp_path)})
    for old, new in {
        "  return %1#0, %1#1 : tensor<10x48xf32>": "  %2 = aten.t(%1#0) : (tensor<10x48xf32>) -> tensor<48x10xf32>\n"
        "  %3 = aten.view(%2, size = [480]) : (tensor<48x10xf32>) -> tensor<480xf32>\n"
        "  return %3, %1#1 : tensor<480xf32>",
        '-> (tensor<10x48xf32> {train.role = #train.role<output "0">}': '-> (tensor<480xf32> {train.role = #train.role<output "0">}',
    }.items():
        assert old in text
        text = text.replace(old, new)
    program = tmp_path / "view.mlir"
    program.write_text(text)
    for kernels in "best", "none":
        found = run(cleave_run, program, inputs, tmp_path, "--kernels", kernels)
        torch.testing.assert_close(found[0], expect(inputs, 0)[0].t().reshape(-1))


def test_bytecode_has_the_code(build_dir, cleave_run, marked, inputs, tmp_path):
    bytecode = tmp_path / "marked.mlirbc"
    command = [build_dir / "bin" / "cleave-opt", marked, "--emit-bytecode", "-o", bytecode]
    subprocess.run(command, check=True)
    found = run(cleave_run, bytecode, inputs, tmp_path, "--kernels", "x86-64-v2")
    torch.testing.assert_close(found[0], expect(inputs, 2)[0])


def test_dry_run_says_what_is_compiled(cleave_run, marked):
    text = cleave_run.succeed(marked, "--dry-run")
    assert "kernels (1)\n" in text
    line = next(line for line in text.splitlines() if "compiled for" in line)
    assert line.split()[:4] == ["1", "compiled", "for", "cpu:"]
    assert [target in line for target in TARGETS] == [True] * 3


def test_threads_do_not_change_results(build_dir, marked, inputs, tmp_path):
    results = []
    for threads in "1", "2", "3":
        dump = tmp_path / f"{threads}.safetensors"
        command = [build_dir / "bin" / "cleave-run", marked, "--inputs", inputs, "--dump", dump]
        subprocess.run(command, check=True, env={**os.environ, "OMP_NUM_THREADS": threads})
        results.append(load_file(dump))
    for result in results[1:]:
        for name, tensor in result.items():
            assert torch.equal(tensor, results[0][name]), name


@pytest.mark.parametrize("ranks_as", ["threads", "processes"])
def test_ranks(cleave_run, tmp_path, ranks_as):
    """Each rank runs the code on its part; as threads of one process they share the loaded code."""
    text = program_text({"x86-64-v2": compile_object(tmp_path, 2)})
    kernel, _, function = text.partition("func.func")
    for old, new in {
        "tensor<48x10xf32>": "tensor<48x10xf32, #S1>",
        "tensor<10x48xf32>": "tensor<10x48xf32, #S0>",
        "%b: tensor<48xf32>": "%b: tensor<48xf32, #R>",
        "tensor<48xf32>)": "tensor<48xf32, #R>)",
        "tensor<48xf32>": "tensor<48xf32, #P>",
        "(tensor<10x48xf32, #S0>, tensor<48xf32, #P>)": "(tensor<10x48xf32, #S0>, tensor<48xf32, #R>)",
        "-> (tensor<10x48xf32, #S0>, tensor<48xf32, #R>)": "-> (tensor<10x48xf32, #S0>, tensor<48xf32, #P>)",
    }.items():
        function = function.replace(old, new)
    program = tmp_path / "typed.mlir"
    program.write_text(
        '#S0 = #dist.on<@mesh, dp = S(0)>\n#S1 = #dist.on<@mesh, dp = S(1)>\n'
        '#P = #dist.on<@mesh, dp = P>\n#R = #dist.on<@mesh, dp = R>\n'
        f'dist.mesh @mesh ["dp" = 2]\n{kernel}func.func{function}')  # fmt: skip
    torch.manual_seed(1)
    inputs = tmp_path / "inputs.safetensors"
    save_file({"x": torch.randn(COLUMNS, 2 * ROWS), "b": torch.randn(COLUMNS)}, inputs)
    found = run(cleave_run, program, inputs, tmp_path, "--ranks", 2, "--ranks-as", ranks_as)
    for a, b in zip(found, expect(inputs, 2), strict=True):
        torch.testing.assert_close(a, b)


def refuse(cleave_run, folder, inputs, code, *options, **text):
    program = folder / "bad.mlir"
    program.write_text(program_text({"x86-64-v2": code}, **text))
    return cleave_run.fail(program, "--inputs", inputs, "--dump", folder / "dump.safetensors", *options)


@pytest.mark.parametrize("keep, complaint", [
    (40, "expected an ELF header of 64 bytes, found 40"),
    (100, "its program headers are truncated"),
    (8000, "ends at byte"),
])  # fmt: skip
def test_damaged_code(cleave_run, tmp_path, inputs, keep, complaint):
    message = refuse(cleave_run, tmp_path, inputs, compile_object(tmp_path)[:keep])
    assert "cannot load exec.binary @x86_64_v2 for 'x86-64-v2': the code is damaged: " in message
    assert complaint in message


def test_code_that_is_no_shared_object(cleave_run, tmp_path, inputs):
    message = refuse(cleave_run, tmp_path, inputs, compile_object(tmp_path, options=["-c"]))
    assert "expected a shared object for x86-64, found another kind of file" in message


def test_code_that_needs_what_is_not_there(cleave_run, tmp_path, inputs):
    source = SOURCE + "void nowhere(void); void more(void) { nowhere(); }"
    message = refuse(cleave_run, tmp_path, inputs, compile_object(tmp_path, source=source))
    assert "the system cannot load it: undefined symbol: nowhere" in message


def test_missing_function(cleave_run, tmp_path, inputs):
    message = refuse(cleave_run, tmp_path, inputs, compile_object(tmp_path), finish="other")
    assert "cannot bind exec.launch" in message
    assert "exec.kernel @square_add: exec.binary @x86_64_v2 for 'x86-64-v2' has no function 'other'" in message  # fmt: skip
    # Nothing is loaded where ops are wanted.
    options = "--inputs", inputs, "--dump", tmp_path / "dump.safetensors", "--kernels", "none"
    cleave_run.succeed(tmp_path / "bad.mlir", *options)


def test_unknown_and_absent_targets(cleave_run, tmp_path, inputs):
    code = compile_object(tmp_path)
    message = refuse(cleave_run, tmp_path, inputs, code, "--kernels", "x86-64-v3")
    assert "--kernels x86-64-v3: the program's kernels are compiled for x86-64-v2 only" in message
    message = refuse(cleave_run, tmp_path, inputs, code, "--kernels", "fast")
    assert ("expected --kernels to be best, none, x86-64-v4, x86-64-v3, x86-64-v2, found 'fast'" in message)  # fmt: skip


def test_trace_names_the_kernel(build_dir, tmp_path, model):
    """Compiled or not, a launch shows as its kernel."""
    source = model("gpt_tied").program
    fused = tmp_path / "fused.mlir"
    command = [build_dir / "bin" / "cleave-opt", source, "--fuse-kernels", "-o", fused]
    subprocess.run(command, check=True)
    data = tmp_path / "data"
    data.write_bytes(bytes(range(32, 127)) * 40)
    trace = tmp_path / "trace.json"
    subprocess.run([build_dir / "bin" / "cleave-run", fused, "--weights", source.with_suffix(".safetensors"),
                    "--data", f"text:{data}", "--steps", "1", "--quiet", "--trace", trace],
                   check=True, env={**os.environ, "OMP_NUM_THREADS": "1"})  # fmt: skip
    names = {event.get("name") for event in json.loads(trace.read_text())["traceEvents"]}
    kernels = [line.split("@")[1].split("(")[0] for line in fused.read_text().splitlines()
               if line.strip().startswith("exec.kernel")]  # fmt: skip
    assert kernels
    assert {f"exec.launch @{kernel}" for kernel in kernels} <= names


STRIDED = """
module @strided {
  func.func @microbatch(%x: tensor<4x8xf32> {train.role = #train.role<input "x">})
      -> (tensor<4x8xf32> {train.role = #train.role<output "0">})
      attributes {train.phase = #train.phase<microbatch>} {
    %0 = aten.t(%x) : (tensor<4x8xf32>) -> tensor<8x4xf32>
    %1 = aten.mul_scalar(%0, other = 2.0) : (tensor<8x4xf32>) -> tensor<8x4xf32>
    %2 = aten.exp(%1) : (tensor<8x4xf32>) -> tensor<8x4xf32>
    %3 = aten.call "aten::as_strided"(self = %2, size = [4, 8], stride = [8, 1], storage_offset = 0) : (tensor<8x4xf32>) -> tensor<4x8xf32>
    return %3 : tensor<4x8xf32>
  }
}
"""


def test_strides_count_elements_in_row_major_order(build_dir, cleave_run, tmp_path):
    """Whatever strides a value has: kernels make others than operators do."""
    program = tmp_path / "strided.mlir"
    program.write_text(STRIDED)
    x = torch.randn(4, 8)
    for options in [], ["--lower-to-exec"], ["--fuse-kernels", "--compile-kernels", "--lower-to-exec"]:
        output = tmp_path / f"{len(options)}.mlir"
        subprocess.run([build_dir / "bin" / "cleave-opt", program, *options, "-o", output], check=True)
        found = cleave_run.evaluate(output, {"x": x}, tmp_path)["output.0"]
        torch.testing.assert_close(found, (2 * x).exp().t().reshape(4, 8))
