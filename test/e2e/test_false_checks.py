"""No check that cannot fail: an option that would check nothing, or is not heeded, is an error."""

import pytest
import training

TEXT = "/usr/share/common-licenses/GPL-3"


@pytest.fixture(scope="module")
def subject(model):
    return model("gpt_tied")


@pytest.fixture(scope="module")
def other(subject):
    """A program that computes something else."""
    text = subject.program.read_text()
    assert "eps = 1.0e-05" in text or "eps = 1e-05" in text
    path = subject.program.with_name("other.mlir")
    path.write_text(text.replace("eps = 1.0e-05", "eps = 1.0e-02").replace("eps = 1e-05", "eps = 1.0e-02"))
    path.with_suffix(".safetensors").symlink_to(subject.weights)
    return path


def refuse(build_dir, message, *arguments):
    result = training.run(build_dir, *arguments)
    assert result.returncode == 1 and message in result.stderr, result.stderr
    assert result.stderr.count("error: ") == 1
    assert "bitwise" not in result.stdout


@pytest.mark.parametrize("tolerance", ["nan", "inf", "-inf", "-1", "-1e-9"])
def test_tolerances_that_are_none(build_dir, subject, other, example, tolerance):
    compare = [other, "--against", subject.program, "--inputs", example(subject.spec)]
    found = training.run(build_dir, *compare, "--tolerance=1e-6")
    assert found.returncode == 1 and "differ by more than the tolerance 1e-06" in found.stderr
    refuse(build_dir, "--tolerance: expected a number of at least 0, found ", *compare, f"--tolerance={tolerance}")


def test_memory_of_a_program_without_a_plan(build_dir, subject, example):
    message = "--check memory expects a lowered program (cleave-opt --lower-to-exec)"
    evaluate = ["--inputs", example(subject.spec)]
    train = ["--steps", 1, "--data", f"text:{TEXT}"]
    for mode in (evaluate, train):
        refuse(build_dir, message, subject.program, *mode, "--check", "memory")
    lowered = subject.program.with_name("lowered.mlir")
    training.optimize(build_dir, subject.program, "--lower-to-exec", "-o", lowered)
    lowered.with_suffix(".safetensors").symlink_to(subject.weights)
    # The other program of a comparison may be one without.
    for mode in (evaluate, train):
        training.train(build_dir, lowered, *mode, "--against", subject.program, "--check", "memory")


def test_kernels_of_a_program_without_kernels(build_dir, subject, example):
    mode = ["--inputs", example(subject.spec)]
    refuse(build_dir, "--kernels x86-64-v3 expects a program with kernels", subject.program, *mode,
           "--kernels", "x86-64-v3")  # fmt: skip
    for kernels in ("best", "none"):
        training.train(build_dir, subject.program, *mode, "--kernels", kernels)


def test_options_of_another_mode(build_dir, subject, example, tmp_path):
    batch = example(subject.spec)
    train = [subject.program, "--steps", 1, "--data", f"text:{TEXT}"]
    for option, path in (("--inputs", batch), ("--dump", tmp_path / "d")):
        refuse(build_dir, f"{option} is for evaluating a program once", *train, option, path)
    evaluate = [subject.program, "--inputs", batch]
    refuse(build_dir, "--tolerance is for --against", *evaluate, "--tolerance", 1)
    refuse(build_dir, "--dump is for the evaluation of one program, not for --against", *evaluate,
           "--against", subject.program, "--dump", tmp_path / "d")  # fmt: skip
    assert not (tmp_path / "d").exists()
