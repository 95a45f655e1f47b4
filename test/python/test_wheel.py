"""The wheel that `pip wheel ./python` makes: what is in it, and what it does in an environment of its own."""

import os
import pathlib
import re
import subprocess
import sys
import sysconfig
import zipfile

import cleave_path
import pytest

PYTHON = cleave_path.SOURCE / "python"


def pip(*arguments, **environment):
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, env={**os.environ, **environment})


@pytest.fixture(scope="module")
def wheel(tmp_path_factory, build_dir):
    """Made from the build that is there. Of the network it needs nothing."""
    folder = tmp_path_factory.mktemp("wheel")
    before = set(PYTHON.iterdir())
    made = pip("wheel", PYTHON, "--no-deps", "--no-build-isolation", "--no-index", "-w", folder, CLEAVE_BUILD=str(build_dir))
    assert made.returncode == 0, made.stdout + made.stderr
    assert set(PYTHON.iterdir()) == before, "it writes beside the sources"
    (found,) = folder.iterdir()
    return found


@pytest.fixture(scope="module")
def installed(tmp_path_factory, wheel):
    """Runs Python, or a command of the environment, where the wheel is installed and PyTorch is."""
    folder = tmp_path_factory.mktemp("environment")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    packages = folder / "lib" / f"python{sys.version_info.major}.{sys.version_info.minor}" / "site-packages"
    (packages / "rest.pth").write_text(sysconfig.get_paths()["purelib"])
    made = pip("--python", folder / "bin" / "python", "install", "--no-deps", "--no-index", wheel)
    assert made.returncode == 0, made.stdout + made.stderr
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "CLEAVE"))}
    clean["PATH"] = f"{folder / 'bin'}:/usr/bin:/bin"

    def run(*command):
        return subprocess.run(command, cwd=folder, env=clean, capture_output=True, text=True, check=False)

    return run


def test_what_is_in_it(wheel):
    tag = f"cp{sys.version_info.major}{sys.version_info.minor}"
    assert re.fullmatch(rf"cleave-[\d.]+-{tag}-{tag}-linux_x86_64.whl", wheel.name)
    with zipfile.ZipFile(wheel) as opened:
        names = {info.filename: info for info in opened.infolist()}
    sources = [path.relative_to(PYTHON) for path in (PYTHON / "cleave").rglob("*") if path.suffix in (".py", ".html")]
    assert len(sources) > 50
    assert not [path for path in sources if str(path) not in names]
    assert "cleave/typed_ops.json" in names
    (native,) = [name for name in names if re.match(r"cleave/cleave_native\..*so$", name)]
    if (pathlib.Path(os.environ.get("CLEAVE_BUILD", cleave_path.SOURCE / "build")) / "lib" / "libcleave_cuda.so").exists():
        assert "cleave/lib/libcleave_cuda.so" in names
    for name in [native, *(f"cleave/bin/cleave-{tool}" for tool in ("opt", "run", "sim"))]:
        assert names[name].external_attr >> 16 & 0o111, f"{name} cannot be executed"


TRAINS = """
import triton._C.libtriton as triton
triton.ir.context()
import cleave, cleave.native, torch
torch.manual_seed(0)
model = torch.nn.Linear(4, 2)
step = cleave.compile_step(model, torch.nn.functional.mse_loss, torch.optim.SGD(model.parameters(), lr=0.1))
x, y = torch.randn(3, 4), torch.randn(3, 2)
assert step(x, y).loss > step(x, y).loss
triton.ir.context()
step.program.save("step.mlir")
print(cleave.native.native().__file__)
print(cleave.__file__)
"""


def test_it_trains_beside_another_llvm(installed):
    if not installed("python", "-c", "import triton").returncode == 0:
        pytest.skip("triton is not installed")
    ran = installed("python", "-c", TRAINS)
    assert ran.returncode == 0, ran.stderr
    native, package = ran.stdout.split()
    assert "/environment" in native and os.path.dirname(native) == os.path.dirname(package)
    names = subprocess.run(["nm", "-D", "--defined-only", "-C", native], capture_output=True, text=True, check=True).stdout
    assert "PyInit_cleave_native" in names and not re.search(r" (llvm|mlir|cleave)::", names)
    # The tools take the program, and PyTorch's libraries from where they are.
    assert installed("cleave-opt", "step.mlir", "--cse", "-o", "again.mlir").returncode == 0
    ran = installed("cleave-run", "again.mlir", "--weights", "step.safetensors", "--dry-run")
    assert ran.returncode == 0 and "parameters" in ran.stdout, ran.stderr
    assert "OVERVIEW" in installed("cleave-sim", "--help").stdout


def test_it_refuses_another_torch(installed):
    code = "import torch; torch.__version__ = '2.10.0+cpu'; import cleave; cleave.Program('module {}')"
    ran = installed("python", "-c", code)
    assert ran.returncode == 1
    assert re.search(r"ImportError: /.*cleave_native.*: built against torch 2\.\d+\.\d+, found 2\.10\.0\+cpu$", ran.stderr.strip())


def test_a_build_without_the_module_is_refused(tmp_path):
    made = pip("wheel", PYTHON, "--no-deps", "--no-build-isolation", "-w", tmp_path, CLEAVE_BUILD=str(tmp_path))
    assert made.returncode == 1
    text = f"setup.py: expected cleave_native in {tmp_path / 'python'}, found none: run ./dev build in Cleave's checkout"
    assert text in made.stdout + made.stderr
