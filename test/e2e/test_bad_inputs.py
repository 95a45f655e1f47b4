"""What a user can get wrong in programs, weights and inputs: each is one clear error."""

import subprocess

import cleave_run  # noqa: F401
import pytest
import torch
from safetensors.torch import save_file

PROGRAM = """\
module @small {
  func.func @microbatch(
      %w: tensor<4x4xf32> {train.role = #train.role<parameter "w" aliases ["tied"]>},
      %b: tensor<4xf32> {train.role = #train.role<buffer "b">},
      %x: tensor<2x4xf32> {train.role = #train.role<input "x" batch 0>})
      -> (tensor<2x4xf32> {train.role = #train.role<output "0">})
      attributes {train.phase = #train.phase<microbatch>} {
    %y = aten.mm(%x, %w) : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32> loc("head"("net.py":7:0))
    return %y : tensor<2x4xf32>
  }
}
"""
WEIGHTS = {"w": torch.ones(4, 4), "b": torch.zeros(4)}
INPUTS = {"x": torch.ones(2, 4)}


@pytest.fixture
def files(tmp_path):
    """Writes a program with weights and inputs; returns the arguments that run it."""

    def write(text=PROGRAM, weights=WEIGHTS, inputs=INPUTS):
        program = tmp_path / "small.mlir"
        program.write_text(text)
        save_file(weights, tmp_path / "small.safetensors")
        save_file(inputs, tmp_path / "inputs.safetensors")
        return [program, "--inputs", tmp_path / "inputs.safetensors"]

    return write


def test_the_good_ones_run(cleave_run, files, tmp_path):
    cleave_run.succeed(*files(), "--dump", tmp_path / "dump.safetensors")


def test_program_that_is_not_there(cleave_run, tmp_path):
    assert "No such file" in cleave_run.fail(tmp_path / "nothing.mlir")
    assert "directory" in cleave_run.fail(tmp_path)


def test_no_arguments(cleave_run):
    assert "expected a program" in cleave_run.fail()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", ["empty"]),
        ("hello", ["small.mlir:1:1", "error"]),
        (PROGRAM.replace("aten.mm", "aten.mmm"), ["small.mlir:8:10", "aten.mmm"]),
        (PROGRAM[: len(PROGRAM) // 2], ["small.mlir:", "error"]),
        (PROGRAM.replace("2x4xf32> loc", "2x5xf32> loc"), ["small.mlir", "2x5xf32"]),
        (PROGRAM.replace("<microbatch>", "<update>"), ["phase<microbatch>"]),
        ("module {}", ["phase<microbatch>"]),
        (PROGRAM.replace("aten.mm(%x, %w)", 'aten.call "aten::mmm"(a = %x, b = %w)'),
         ["aten::mmm", "dispatcher"]),
        (PROGRAM.replace("aten.mm(%x, %w)", 'aten.call "aten::mm"(self = %x, other = %w)'),
         ["other", "schema"]),
    ],
)  # fmt: skip
def test_programs_that_are_none(cleave_run, files, text, expected):
    message = cleave_run.fail(*files(text=text))
    for part in expected:
        assert part in message, message


def test_damaged_bytecode(cleave_run, build_dir, files, tmp_path):
    program, *arguments = files()
    weights = program.with_suffix(".safetensors")
    bytecode = tmp_path / "whole.mlirbc"
    opt = build_dir / "bin" / "cleave-opt"
    subprocess.run([opt, program, "--emit-bytecode", "-o", bytecode], check=True)
    cleave_run.succeed(bytecode, "--weights", weights, *arguments)
    whole = bytecode.read_bytes()
    damaged = tmp_path / "damaged.mlirbc"
    for data in (whole[:40], whole[: len(whole) // 2], whole[:-1]):
        damaged.write_bytes(data)
        assert "damaged" in cleave_run.fail(damaged, "--weights", weights, *arguments)
    for position in range(300, len(whole), 97):
        changed = bytearray(whole)
        changed[position] ^= 0x55
        damaged.write_bytes(changed)
        assert "damaged" in cleave_run.fail(damaged, "--weights", weights, *arguments)


def test_weights_that_do_not_fit(cleave_run, files):
    weights = {"w": torch.ones(4, 5), "b": torch.zeros(4, dtype=torch.float64), "c": torch.ones(1)}
    message = cleave_run.fail(*files(weights=weights))
    assert "small.safetensors: the weights do not match the program" in message
    assert "'w': the program has F32 [4, 4], the file F32 [4, 5]" in message
    assert "'b': the program has F32 [4], the file F64 [4]" in message
    assert "extra: 'c' (F32 [1])" in message
    message = cleave_run.fail(*files(weights={"b": torch.zeros(4)}))
    assert "missing: 'w' (F32 [4, 4])" in message


def test_tied_weights_that_differ(cleave_run, files):
    same = dict(WEIGHTS, tied=WEIGHTS["w"].clone())
    cleave_run.succeed(*files(weights=same))
    other = dict(WEIGHTS, tied=torch.zeros(4, 4))
    assert "'tied' is tied to 'w'" in cleave_run.fail(*files(weights=other))


def test_many_differences_are_counted(cleave_run, files):
    weights = dict(WEIGHTS, **{f"extra{i}": torch.ones(1) for i in range(100)})
    assert "and 80 more" in cleave_run.fail(*files(weights=weights))


def test_weights_that_are_not_there(cleave_run, files):
    arguments = files()
    message = cleave_run.fail(*arguments, "--weights", "nothing.safetensors")
    assert "nothing.safetensors" in message
    arguments[0].with_suffix(".safetensors").unlink()
    assert "small.safetensors" in cleave_run.fail(*arguments)


def test_inputs_that_do_not_fit(cleave_run, files):
    message = cleave_run.fail(*files(inputs={"x": torch.ones(3, 4), "y": torch.ones(2)}))
    assert "'x': the program has F32 [2, 4], the file F32 [3, 4]" in message
    assert "extra: 'y'" in message
    assert "expected --inputs" in cleave_run.fail(files()[0])


def test_dump_that_cannot_be_written(cleave_run, files, tmp_path):
    message = cleave_run.fail(*files(), "--dump", tmp_path / "nowhere" / "dump.safetensors")
    assert "nowhere" in message


def test_operator_that_fails_is_named(cleave_run, files):
    # Only the operator itself can know that the index is out of range.
    text = PROGRAM.replace(
        "aten.mm(%x, %w)", 'aten.call "aten::index_select"(self = %x, dim = 0, index = %i)'
    )
    text = text.replace("(tensor<2x4xf32>, tensor<4x4xf32>)", "(tensor<2x4xf32>, tensor<2xi64>)")
    text = text.replace('"x" batch 0>}', '"x" batch 0>},\n'
                        '      %i: tensor<2xi64> {train.role = #train.role<input "i">}')  # fmt: skip
    inputs = dict(INPUTS, i=torch.tensor([0, 5]))
    message = cleave_run.fail(*files(text=text, inputs=inputs))
    assert "aten::index_select" in message or "aten.call" in message
    assert "at head (net.py:7)" in message
    assert "index out of range" in message
    good = dict(INPUTS, i=torch.tensor([0, 1]))
    cleave_run.succeed(*files(text=text, inputs=good))


def test_type_that_the_operator_does_not_give(cleave_run, files):
    text = PROGRAM.replace("aten.mm(%x, %w)", 'aten.call "aten::tanh"(self = %x)')
    text = text.replace("(tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>",
                        "(tensor<2x4xf32>) -> tensor<2x4xf64>")  # fmt: skip
    text = text.replace("return %y : tensor<2x4xf32>", "return %y : tensor<2x4xf64>")
    text = text.replace("-> (tensor<2x4xf32>", "-> (tensor<2x4xf64>")
    message = cleave_run.fail(*files(text=text))
    assert "result 0 is F32 [2, 4], but the program says F64 [2, 4]" in message
    assert "at head (net.py:7)" in message


def test_operator_without_a_cpu_kernel(cleave_run, files):
    text = PROGRAM.replace("aten.mm(%x, %w)", 'aten.call "aten::_cslt_compress"(input = %x)')
    text = text.replace("(tensor<2x4xf32>, tensor<4x4xf32>)", "(tensor<2x4xf32>)")
    message = cleave_run.fail(*files(text=text))
    assert "'aten::_cslt_compress' has no kernel for the CPU" in message
    assert "at head (net.py:7)" in message


@pytest.mark.parametrize(
    ("size", "expected"), [(2**62, "cannot be counted"), (2**50, "cannot allocate")]
)
def test_tensors_that_no_machine_holds(cleave_run, files, size, expected):
    buffer = f'%b: tensor<{size}xf32> {{train.role = #train.role<buffer "b">}}'
    text = PROGRAM.replace('%b: tensor<4xf32> {train.role = #train.role<buffer "b">}', buffer)
    assert str(size) in text
    assert expected in cleave_run.fail(*files(text=text))


def test_mesh_needs_its_ranks(cleave_run, files):
    text = PROGRAM.replace("module @small {", 'module @small {\n  dist.mesh @mesh ["dp" = 2]')
    message = cleave_run.fail(*files(text=text))
    assert 'the program\'s mesh ["dp" = 2] expects 2 ranks, found 1' in message
    cleave_run.succeed(*files(text=text.replace('"dp" = 2', '"dp" = ?')))


def test_training_options_without_training(cleave_run, program):
    _, path = program("gpt_tied")
    message = cleave_run.fail(path, "--batch", 2)
    assert "expected --steps and --data with --batch" in message
