"""Compiled kernels on a device: the choice of a chip's code, and how it is launched.

The fake device (test/unit/runtime/device/FakePlugin.cpp) takes shared objects for cubins, and calls
a function for each block, with the addresses of its arguments as a launch has them.
"""

import subprocess

import pytest
import torch
from compiled_code import COLUMNS, PROGRAM, ROWS, compile_object
from safetensors.torch import load_file, save_file

# As compiled_code.SOURCE, with the entry of a device: arguments, results, partials.
SOURCE = """
#include <stdint.h>
enum { ROWS = %d, COLUMNS = %d, BLOCKS = 5, THREADS = 64 };

void square_add(void **arguments, uint32_t block, uint32_t threads) {
  const float *x = *(float **)arguments[0], *b = *(float **)arguments[1];
  float *y = *(float **)arguments[2], *sums = *(float **)arguments[4] + block * COLUMNS;
  float mark = threads == THREADS ? MARK : 1e6f;
  for (int j = 0; j < COLUMNS; ++j)
    sums[j] = 0;
  for (int i = block * ROWS / BLOCKS; i < (int)(block + 1) * ROWS / BLOCKS; ++i)
    for (int j = 0; j < COLUMNS; ++j)
      sums[j] += y[i * COLUMNS + j] = x[i * COLUMNS + j] * x[i * COLUMNS + j] + b[j] + mark;
}

void square_add_finish(void **arguments, uint32_t block, uint32_t threads) {
  float *sum = *(float **)arguments[3], *parts = *(float **)arguments[4];
  int j = block * threads;
  for (int end = j + threads; j < end && j < COLUMNS; ++j) {
    sum[j] = 0;
    for (int part = 0; part < BLOCKS; ++part)
      sum[j] += parts[part * COLUMNS + j];
  }
}
""" % (ROWS, COLUMNS)

CODE = (
    '#exec.code<cuda, phases = [<"square_add", chunks = 5, threads = 64>, '
    '<"{finish}", chunks = 3, threads = 16>], partials = 960>'
)


def program_text(objects, finish="square_add_finish"):
    """The program with code for chips, by their names."""
    binaries, resources = [], []
    for chip, code in objects.items():
        binaries.append(
            f'exec.binary @{chip} cubin for "{chip}" = '
            f"dense_resource<{chip}> : tensor<{len(code)}xi8>"
        )
        resources.append(f'{chip}: "0x10000000{code.hex()}"')
    text = PROGRAM.format(
        binaries="\n".join(binaries), resources=", ".join(resources), finish=finish
    )
    begin, end = text.index("#exec.code<cpu"), text.index("partials = 768>")
    return text[:begin] + CODE.format(finish=finish) + text[end + len("partials = 768>") :]


@pytest.fixture(scope="module")
def inputs(tmp_path_factory):
    torch.manual_seed(0)
    path = tmp_path_factory.mktemp("inputs") / "inputs.safetensors"
    save_file({"x": torch.randn(COLUMNS, ROWS), "b": torch.randn(COLUMNS)}, path)
    return path


@pytest.fixture(scope="module")
def marked(tmp_path_factory):
    """A program whose code adds the chip's number."""
    folder = tmp_path_factory.mktemp("marked")
    path = folder / "marked.mlir"
    chips = (80, 90, 100)
    path.write_text(
        program_text({f"sm_{n}": compile_object(folder, n, SOURCE) for n in chips})
    )
    return path


@pytest.fixture
def fake(build_dir, monkeypatch):
    def options(**variables):
        for name, value in variables.items():
            monkeypatch.setenv(f"CLEAVE_FAKE_{name}", str(value))
        return ["--device", "cuda", "--device-plugin", build_dir / "lib/libcleave_fake_device.so"]

    return options


@pytest.mark.parametrize(
    "capability,kernels,mark",
    [("9.0", "best", 90), ("8.9", "best", 80), ("10.3", "best", 100), ("9.0", "none", 0)],
)
def test_the_chips_code_runs(
    cleave_run, marked, inputs, fake, tmp_path, capability, kernels, mark
):
    dump, log = tmp_path / "dump.safetensors", tmp_path / "log"
    options = fake(CAPABILITY=capability, LOG=log)
    cleave_run.succeed(
        marked, "--inputs", inputs, "--dump", dump, "--kernels", kernels, *options
    )
    found, tensors = load_file(dump), load_file(inputs)
    expected = tensors["x"].t() ** 2 + tensors["b"] + mark
    torch.testing.assert_close(found["output.0"], expected)
    torch.testing.assert_close(found["output.1"], expected.sum(0))
    calls = log.read_text().split("\n")
    launches = [call for call in calls if call.startswith("launch")]
    assert launches == (["launch 5 x 64", "launch 3 x 16"] if mark else [])
    assert sum(call.startswith("loadModule") for call in calls) == (1 if mark else 0)


def test_kernels_write_where_it_is_planned(cleave_run, build_dir, marked, inputs, fake, tmp_path):
    """For a lowered program: dead memory is NaN, results are at their planned offsets."""
    lowered, dump = tmp_path / "lowered.mlirbc", tmp_path / "dump.safetensors"
    command = [build_dir / "bin" / "cleave-opt", marked, "--lower-to-exec=target=cuda chip=sm_90"]
    subprocess.run([*command, "--emit-bytecode", "-o", lowered], check=True)
    options = ["--check", "memory", *fake(CAPABILITY="9.0")]
    cleave_run.succeed(lowered, "--inputs", inputs, "--dump", dump, *options)
    found, tensors = load_file(dump), load_file(inputs)
    expected = tensors["x"].t() ** 2 + tensors["b"] + 90
    torch.testing.assert_close(found["output.0"], expected)
    torch.testing.assert_close(found["output.1"], expected.sum(0))


def test_refusals(cleave_run, marked, inputs, fake, tmp_path):
    def message(path, *options, **variables):
        return cleave_run.fail(path, "--inputs", inputs, *options, *fake(**variables))

    assert (
        "the program's kernels are compiled for sm_80, sm_90, sm_100, but this device is an sm_120"
        in message(marked, CAPABILITY="12.0")
    )
    assert "expected --kernels to be best, none or a chip" in message(
        marked, "--kernels", "sm_70", CAPABILITY="9.0"
    )
    assert "compiled for sm_80, but this device is an sm_90" in message(
        marked, "--kernels", "sm_80"
    )
    for call in ("loadModule", "getFunction", "launch"):
        text = message(marked, FAIL=call)
        assert f"the fake device was told to fail in {call}" in text
        assert text.count("\n") == 1
    missing = tmp_path / "missing.mlir"
    missing.write_text(program_text({"sm_90": compile_object(tmp_path, 0, SOURCE)}, "nothing"))
    assert "has no function 'nothing'" in message(missing, FAIL="")
