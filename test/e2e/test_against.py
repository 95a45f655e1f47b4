"""--against runs two programs on the same numbers; --dry-run says what one costs."""

import json
import re

import cleave_run  # noqa: F401
import pytest
import torch
from cleave import testing
from safetensors.torch import load_file, save_file


@pytest.fixture
def inputs(program, tmp_path):
    spec, _ = program("gpt_tied")
    path = tmp_path / "inputs.safetensors"
    save_file({n: t.contiguous() for n, t in testing.example_inputs(spec).items()}, path)
    return path


def rewrite(path, folder, pattern, replacement):
    """A copy of a program in which the first match of `pattern` is replaced."""
    text, count = re.subn(pattern, replacement, path.read_text(), count=1)
    assert count == 1
    other = folder / "other.mlir"
    other.write_text(text)
    return other


def test_a_program_computes_what_it_computes(program, cleave_run, inputs):
    _, path = program("gpt_tied")
    output = cleave_run.succeed(path, "--against", path, "--inputs", inputs)
    rows = [line for line in output.splitlines() if line.endswith("bitwise equal")]
    assert any(line.startswith("loss ") for line in rows)
    found, total = re.search(r"(\d+) of (\d+) values are bitwise equal", output).groups()
    assert found == total == str(len(load_values(program)))


def load_values(program):
    return testing.evaluate(program("gpt_tied")[0])


def test_a_change_is_found_and_measured(program, cleave_run, inputs, tmp_path):
    _, path = program("gpt_tied")
    other = rewrite(path, tmp_path, r"eps = [0-9.eE+-]+", "eps = 1.1e-5")
    arguments = [other, "--against", path, "--inputs", inputs, "--weights",
                 path.with_suffix(".safetensors")]  # fmt: skip
    message = cleave_run.fail(*arguments)
    assert "compute different values" in message and "tolerance" in message
    cleave_run.succeed(*arguments, "--tolerance", "1e-3")
    cleave_run.fail(*arguments, "--tolerance", "1e-12")


def test_the_measure_is_the_documented_one(program, cleave_run, inputs, tmp_path):
    _, path = program("gpt_tied")
    weights = path.with_suffix(".safetensors")
    other = rewrite(path, tmp_path, r"eps = [0-9.eE+-]+", "eps = 1.0e-3")
    report = tmp_path / "report.json"
    result = cleave_run(other, "--against", path, "--inputs", inputs, "--weights", weights, "--json", report)
    values = {value["name"]: value for value in json.loads(report.read_text())["values"]}
    dumps = []
    for each in (other, path):
        cleave_run.succeed(each, "--inputs", inputs, "--weights", weights,
                           "--dump", tmp_path / "dump.safetensors")  # fmt: skip
        dumps.append(load_file(tmp_path / "dump.safetensors"))
    a, b = dumps
    largest = [b[name].abs().max().item() for name in b if name.startswith("grad.")]
    floor = 1e-3 * torch.tensor(largest).quantile(0.5).item()
    for name in b:
        row = next(line for line in result.stdout.splitlines() if line.split()[0] == name)
        distance = (a[name].double() - b[name].double()).abs().max().item()
        relative = distance / max(b[name].abs().max().item(), floor)
        assert float(row.split()[1]) == pytest.approx(distance, rel=0.01)
        assert float(row.split()[2]) == pytest.approx(relative, rel=0.01)
        value = values[name]
        assert value["bitwise_equal"] == torch.equal(a[name], b[name]) and value["above_tolerance"] == (distance > 0)
        assert value["max_difference"] == distance and value["relative"] == pytest.approx(relative, rel=1e-9)
        if distance:
            at = tuple(value["at"])
            assert value["numbers"] == [a[name][at].item(), b[name][at].item()]
            assert abs(value["numbers"][0] - value["numbers"][1]) == distance
            assert "ABOVE TOLERANCE" + (f" at {list(at)}: " if at else ": ") in row


def test_a_report_is_of_a_comparison(program, cleave_run, inputs, tmp_path):
    _, path = program("gpt_tied")
    message = cleave_run.fail(path, "--inputs", inputs, "--json", tmp_path / "report.json")
    assert "--json is for --against" in message
    message = cleave_run.fail(path, "--against", path, "--inputs", inputs, "--json", inputs)
    assert "would overwrite --inputs" in message


def test_programs_with_other_results(program, cleave_run, inputs, tmp_path):
    _, path = program("gpt_tied")
    other = rewrite(path, tmp_path, r"role<loss>", 'role<output "7">')
    message = cleave_run.fail(other, "--against", path, "--inputs", inputs, "--weights",
                              path.with_suffix(".safetensors"))  # fmt: skip
    assert "'loss' is only in" in message and "'output.7' is only in" in message


def test_dry_run_needs_neither_weights_nor_inputs(program, cleave_run, tmp_path):
    spec, path = program("gpt_tied")
    copy = tmp_path / "alone.mlir"
    copy.write_text(path.read_text())
    output = cleave_run.succeed(copy, "--dry-run")
    parameters = sum(p.numel() * 4 for p in spec.module.parameters())
    sizes = dict(re.findall(r"^  (\S.*?)  +.*?(\d+)$", output, re.MULTILINE))
    assert int(sizes["parameters"]) == parameters
    assert int(sizes["gradients"]) == parameters
    assert int(sizes["optimizer state"]) == 2 * parameters
    assert int(sizes["peak of a step"]) >= 4 * parameters
    assert "aten.mm" in output and "communication of a step\n  none" in output


def test_dry_run_counts_communication(program, cleave_run, build_dir, tmp_path):
    import subprocess

    spec, path = program("gpt_tied")
    reduced = tmp_path / "dp.mlir"
    subprocess.run(
        [build_dir / "bin" / "cleave-opt", path, "--sync-gradients=axis=dp", "-o", reduced],
        check=True,
    )
    count = len(list(spec.module.parameters()))
    size = sum(p.numel() * 4 for p in spec.module.parameters())
    output = cleave_run.succeed(reduced, "--dry-run")
    assert re.search(rf"{count} communications, .*\({size} bytes\)", output), output


def train(cleave_run, program, against, data, *arguments):
    command = [program, "--against", against, "--data", f"text:{data}", "--steps", 3]
    return cleave_run(*command, "--batch", 8, "--quiet", *arguments)


@pytest.fixture
def text(tmp_path):
    path = tmp_path / "text.txt"
    path.write_text("the quick brown fox jumps over the lazy dog. " * 200)
    return path


def test_training_two_programs(program, cleave_run, build_dir, text, tmp_path):
    import shutil
    import subprocess

    _, path = program("gpt_tied")
    result = train(cleave_run, path, path, text)
    assert result.returncode == 0, result.stderr
    rows = dict(re.findall(r"^(\S.*?)  +(\S+)  +\S+", result.stdout, re.MULTILINE))
    assert rows["loss of step 3"] == "0" and rows["param.wte.weight"] == "0"

    # Two ranks against one: the same batches, other orders of sums.
    reduced = tmp_path / "dp.mlir"
    opt = [build_dir / "bin" / "cleave-opt", path, "--sync-gradients=axis=dp", "-o", reduced]
    subprocess.run(opt, check=True)
    shutil.copy(path.with_suffix(".safetensors"), reduced.with_suffix(".safetensors"))
    result = train(cleave_run, reduced, path, text, "--ranks", 2, "--tolerance", "1e-3")
    assert result.returncode == 0, result.stderr
    assert "loss of step 3" in result.stdout

    other = rewrite(path, tmp_path, r"base = [0-9.eE+-]+", "base = 0.5")
    shutil.copy(path.with_suffix(".safetensors"), other.with_suffix(".safetensors"))
    result = train(cleave_run, other, path, text, "--tolerance", "1e-3")
    assert result.returncode == 1 and "compute different values" in result.stderr


def test_mesh_of_two_axes(program, cleave_run, build_dir, text, tmp_path):
    import shutil
    import subprocess

    # Ranks 0 and 1 reduce together, and 2 and 3; along "pp" all compute the same.
    _, path = program("gpt_tied")
    mesh = r'\g<0>  dist.mesh @mesh ["pp" = ?, "dp" = 2]\n'
    meshed = rewrite(path, tmp_path, r"module @\w+ \{\n", mesh)
    reduced = tmp_path / "reduced.mlir"
    opt = [build_dir / "bin" / "cleave-opt", meshed, "--sync-gradients=axis=dp", "-o", reduced]
    subprocess.run(opt, check=True)
    shutil.copy(path.with_suffix(".safetensors"), reduced.with_suffix(".safetensors"))
    result = train(cleave_run, reduced, path, text, "--ranks", 4, "--tolerance", "1e-3")
    assert result.returncode == 0, result.stderr
    result = train(cleave_run, reduced, path, text, "--ranks", 3)
    assert result.returncode == 1 and "expects a multiple of 2 ranks, found 3" in result.stderr
