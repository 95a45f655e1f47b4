"""What cleave-opt writes and says about exported programs, whose functions have hundreds of arguments: an
argument a line, errors of a screenful that name the pass, bytecode where the name says so."""

import json
import subprocess

import pytest

ROWS, COLUMNS = 60, 120


@pytest.fixture
def opt(build_dir):
    def run(*arguments):
        command = [build_dir / "bin" / "cleave-opt", *arguments]
        return subprocess.run([str(part) for part in command], capture_output=True, text=True)

    return run


@pytest.fixture
def data_parallel(opt, program, tmp_path):
    """GPT with reduced gradients, as cleave-opt writes it."""
    _, path = program("gpt_tied")
    out = tmp_path / "gpt.dp.mlir"
    result = opt(path, "--sync-gradients=axis=dp", "-o", out)
    assert result.returncode == 0, result.stderr
    return out


def assert_screenful(message):
    assert sum(1 + len(line) // COLUMNS for line in message.splitlines()) <= ROWS, message


def test_functions_have_an_argument_a_line(opt, program, data_parallel, tmp_path):
    text = data_parallel.read_text()
    _, path = program("gpt_tied")
    roles = path.read_text().count("train.role = ")
    assert sum("train.role = " in line for line in text.splitlines()) == text.count("train.role = ") >= roles
    assert not [line for line in text.splitlines() if line.lstrip().startswith("func.func") and len(line) > 200]
    # The text is the same program.
    again = tmp_path / "again.mlir"
    assert opt(data_parallel, "-o", again).returncode == 0
    assert again.read_text() == text


def test_an_error_on_a_function_is_a_screenful_and_names_the_pass(opt, data_parallel):
    result = opt(data_parallel, "--cse", "--partition", "--canonicalize", "-o", "/dev/null")
    assert result.returncode == 1
    assert_screenful(result.stderr)
    assert result.stderr.splitlines()[-1] == "cleave-opt: error: --partition failed"


def test_many_errors_are_cut_off(opt, tmp_path):
    forgotten = """
func.func @forgotten_%d(%%x: tensor<4xf32, #dist.on<@mesh, tp = S(0)>>) -> tensor<4xf32, #dist.on<@mesh, tp = V>> {
  %%0 = aten.relu(%%x) : (tensor<4xf32, #dist.on<@mesh, tp = S(0)>>) -> tensor<4xf32, #dist.on<@mesh, tp = V>>
  return %%0 : tensor<4xf32, #dist.on<@mesh, tp = V>>
}
"""
    path = tmp_path / "forgotten.mlir"
    path.write_text('dist.mesh @mesh ["tp" = 2]\n' + "".join(forgotten % i for i in range(40)))
    result = opt(path, "--cse", "--simplify-communication", "-o", "/dev/null")
    assert result.returncode == 1
    assert_screenful(result.stderr)
    assert result.stderr.count("error: 'aten.relu' op produces") == 5
    assert result.stderr.splitlines()[-2:] == [
        "35 more errors (--error-limit=0 prints all)",
        "cleave-opt: error: the type check after --simplify-communication failed",
    ]
    everything = opt(path, "--simplify-communication", "--error-limit=0", "-o", "/dev/null").stderr
    assert everything.count("error: 'aten.relu' op produces") == 40 and "more errors" not in everything


def test_bytecode_by_its_name(opt, data_parallel, tmp_path, cleave_run):
    bytecode, text = tmp_path / "gpt.mlirbc", tmp_path / "back.mlir"
    assert opt(data_parallel, "-o", bytecode).returncode == 0
    content = bytecode.read_bytes()
    assert content.startswith(b"ML\xefR") and b"BLAKE3" in content[:400]
    assert opt(bytecode, "-o", text).returncode == 0
    assert text.read_text() == data_parallel.read_text()
    # A flipped bit is told from the digest, before anything is read.
    broken = bytearray(content)
    broken[len(broken) // 2] ^= 1
    bytecode.write_bytes(broken)
    assert "the file is damaged" in opt(bytecode, "-o", text).stderr


def test_a_plan_error_is_at_its_line(opt, program, tmp_path):
    _, path = program("gpt_tied")
    plan = tmp_path / "plan.json"
    plan.write_text("""{
  "mesh": [["dp", 2], ["tp", 2]],
  "rules": [
    {"style": "data", "axis": "dp"},
    {"modules": "h.*.nope", "style": "colwise", "axis": "tp", "where": "train.py:12"}
  ]
}
""")
    error = opt(path, f"--annotate-placements=plan={plan}").stderr
    assert error.startswith(f"{plan}:5:"), error
    assert "error: rules[1] (train.py:12) matches no module with weights to cut: 'h.*.nope'" in error
    plan.write_text('{\n  "mesh": [["dp", 2]],\n  "rules": [\n    {"style": "data", "axis": "dp"},\n    {"style": 3, "axis": "dp"}]}')
    error = opt(path, f"--annotate-placements=plan={plan}").stderr
    assert error.startswith(f"{plan}:5:") and 'expected "style" to be a string, found a number' in error, error
    plan.write_text('{\n  "mesh": [["dp", 2]],\n  "rules": [}\n')
    error = opt(path, f"--annotate-placements=plan={plan}").stderr
    assert error.startswith(f"{plan}:3:") and "expected JSON" in error, error
