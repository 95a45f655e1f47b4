"""`cleave.trace`, `Program` and `Session`: a program in the hand, and the module that they are in."""

import os
import re
import signal
import subprocess
import sys

import cleave_path  # noqa: F401
import cleave
import gpt
import pytest
import torch
from safetensors.torch import load_file, save_file

pytestmark = pytest.mark.usefixtures("one_thread")


def traced():
    spec = gpt.tied()
    return spec, cleave.trace(
        spec.module, spec.args, loss=spec.loss, targets=spec.targets, optimizer=spec.optimizer, name="gpt"
    )


def test_a_program_is_what_export_writes(tmp_path):
    spec, program = traced()
    path = cleave.export_spec(spec, tmp_path)
    loaded = cleave.load(path)
    # Both are printed by MLIR, and the name is the spec's.
    assert str(loaded).replace("@gpt_tied", "@gpt") == str(program)
    assert repr(program) == "<cleave.Program 'gpt'>"
    assert all(torch.equal(loaded.tensors[name], tensor) for name, tensor in program.tensors.items())


@pytest.mark.parametrize("passes", ["--sync-gradients=axis=dp --cse", "sync-gradients{axis=dp},cse",
                                    ["builtin.module(sync-gradients{axis=dp})", "--cse"]])  # fmt: skip
def test_passes_in_each_spelling(passes, build_dir, tmp_path):
    _, program = traced()
    before = program.save(tmp_path / "before.mlir")
    assert program.run_passes(passes) is program
    command = [build_dir / "bin" / "cleave-opt", before, "--sync-gradients=axis=dp", "--cse"]
    ran = subprocess.run(command, capture_output=True, text=True, check=True)
    assert str(cleave.Program(ran.stdout)) == str(program)


def test_a_pass_that_fails_leaves_the_program_as_it_was():
    _, program = traced()
    before = str(program)
    with pytest.raises(cleave.Error, match=r"(?s)error: .*--verify-schedule failed"):
        program.run_passes("cse,verify-schedule")
    assert str(program) == before


@pytest.mark.parametrize(
    ("passes", "text"),
    {
        "--no-such-pass": "'no-such-pass' does not refer to a registered pass or pass pipeline",
        "cse,nope": "'nope' does not refer to a registered pass or pass pipeline",
        "sync-gradients{axis=dp": "missing closing '}' while processing pass options",
        "--sync-gradients=axes=dp": "no such option axes; failed to add `sync-gradients` with options `axes=dp`",
    }.items(),
)
def test_passes_that_do_not_exist(passes, text):
    _, program = traced()
    before = str(program)
    with pytest.raises(cleave.Error, match=f"^{re.escape(text)}$"):
        program.run_passes(passes)
    assert str(program) == before


def test_text_that_is_no_program():
    with pytest.raises(cleave.Error, match=r"(?s)program 'mine' is not valid:.*mine:1:"):
        cleave.Program("module {", "mine")
    with pytest.raises(cleave.Error, match="'program' is empty"):
        cleave.Program("")


@pytest.mark.parametrize("suffix", [".mlir", ".mlirbc"])
def test_a_session_trains_as_cleave_run_does(tmp_path, build_dir, suffix):
    spec, program = traced()
    program.run_passes("canonicalize,cse")
    path = program.save(tmp_path / f"gpt{suffix}")
    inputs = {"tokens": torch.cat([spec.args[0]] * 6), "targets": torch.cat([spec.targets[0]] * 6)}
    save_file({name: tensor.contiguous() for name, tensor in inputs.items()}, tmp_path / "batches.safetensors")
    command = [build_dir / "bin" / "cleave-run", path, "--weights", path.with_suffix(".safetensors"), "--steps", "3", "--batch",
               "4", "--data", f"safetensors:{tmp_path / 'batches.safetensors'}", "--checkpoint", tmp_path / "run", "--threads", "1"]  # fmt: skip
    subprocess.run(command, check=True, capture_output=True)
    session = cleave.Session(cleave.load(path), microbatches=2)
    for _ in range(3):
        session.step({name: tensor[:4] for name, tensor in inputs.items()})
    saved = load_file(tmp_path / "run" / "step-00000003" / "model.safetensors")
    for name, tensor in saved.items():
        if name in program.tensors:
            assert torch.equal(session.weight(name), tensor), name
    assert session.steps == 3
    # The module that was traced has kept its own.
    assert torch.equal(program.tensors["wte.weight"], spec.module.wte.weight)
    assert not torch.equal(session.weight("wte.weight"), spec.module.wte.weight)


def test_a_session_says_what_it_expects():
    spec, program = traced()
    session = cleave.Session(program)
    with pytest.raises(cleave.Error, match=re.escape("input 'tokens': expected I64 [2, 32] on the CPU, found I64 [2, 31]")):
        session.step([spec.args[0][:, :-1], spec.targets[0]])
    with pytest.raises(cleave.Error, match="expected the inputs tokens, targets, found others: words"):
        session.step({"tokens": spec.args[0], "targets": spec.targets[0], "words": spec.args[0]})
    with pytest.raises(cleave.Error, match="expected a tensor for parameter"):
        cleave.Session(program, weights={})
    with pytest.raises(cleave.Error, match="has no learning rate of parameter group 0"):
        session.set_learning_rate(0, 0.1)
    with pytest.raises(cleave.Error, match=re.escape("expected 2 tensors (tokens, targets), found 1")):
        session.step([spec.args[0]])
    with pytest.raises(cleave.Error, match="expected a weight of the program, found 'head'"):
        session.weight("head")
    with pytest.raises(cleave.Error, match="expected a state of the optimizer, found 'exp_avg' of 'head'"):
        session.optimizer_state("head", "exp_avg")
    session.step([spec.args[0], spec.targets[0]])


# The module in a process ----------------------------------------------------------------------------


def caught_signals():
    status = open("/proc/self/status").read()
    return int(re.search(r"SigCgt:\s*(\w+)", status).group(1), 16)


def test_no_signal_handler_is_set():
    signals, handler = caught_signals(), signal.getsignal(signal.SIGINT)
    spec, program = traced()
    program.run_passes("--fuse-kernels --compile-kernels --lower-to-exec")
    session = cleave.Session(program)
    session.step([spec.args[0], spec.targets[0]])
    assert caught_signals() == signals
    assert signal.getsignal(signal.SIGINT) is handler


def native_file():
    from cleave.native import native

    return native().__file__


def test_what_the_module_exports():
    """Nothing of its LLVM, MLIR or of Cleave's: another copy in the process does not meet it."""
    ran = subprocess.run(["nm", "-D", "--defined-only", "-C", native_file()], capture_output=True, text=True, check=True)
    names = [line.split(maxsplit=2)[2] for line in ran.stdout.splitlines()]
    assert "PyInit_cleave_native" in names
    assert not [name for name in names if re.match(r"(.*\b)?(llvm|mlir|cleave)::", name)]


def test_the_module_has_its_own_mlir():
    """One, in itself: a shared one beside it would have other dialects of the same names."""
    ran = subprocess.run(["readelf", "-d", native_file()], capture_output=True, text=True, check=True)
    libraries = re.findall(r"NEEDED.*\[(.*)\]", ran.stdout)
    assert "libtorch_python.so" in libraries
    assert not [name for name in libraries if re.search("mlir|llvm", name, re.IGNORECASE)]


def test_what_the_module_uses():
    """Ranks are the process group's: the module opens no socket, and `signal` is not called."""
    ran = subprocess.run(["nm", "-D", "--undefined-only", native_file()], capture_output=True, text=True, check=True)
    names = {line.split()[-1].split("@")[0] for line in ran.stdout.splitlines()}
    assert not names & {"socket", "bind", "listen", "connect", "accept", "signal"}


@pytest.mark.parametrize("order", [("cleave", "triton"), ("triton", "cleave")])
def test_beside_another_llvm(order):
    pytest.importorskip("triton")
    imports = {"cleave": "import cleave; cleave.Program('module {}')", "triton": "import triton._C.libtriton as t; t.ir.context()"}
    code = "\n".join(imports[each] for each in order) + "\ncleave.Program('module {}').run_passes('cse')\nt.ir.context()"
    subprocess.run([sys.executable, "-c", code], check=True, env={**os.environ})


def test_the_module_of_another_torch_is_refused():
    code = "import torch; torch.__version__ = '2.10.0'; import cleave; cleave.Program('module {}')"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert ran.returncode == 1
    assert re.search(r"ImportError: .*built against torch 2\.\d+\.\d+, found 2\.10\.0$", ran.stderr.strip()), ran.stderr
