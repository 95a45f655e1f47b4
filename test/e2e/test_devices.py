"""Programs on a device: refusals if there is none, and a fake one over the host's memory.

The fake plugin (test/unit/runtime/device/FakePlugin.cpp) goes the ways that a device does: staged
inputs, views of state, losses taken once per step, messages through the host or its own
communicators. What is computed is the processor's, so everything is equal to the bit.
"""

import ctypes
import os
import pathlib
import re
import subprocess
import sys

import pytest
import torch
import training
from cleave import FSDP, Plan
from pipelines import check_sequence, pipelines, schedule_passes, text  # noqa: F401
from safetensors.torch import load_file

LOWER = {"cuda": "--lower-to-exec=target=cuda chip=sm_90", "cpu": "--lower-to-exec=target=cpu"}


@pytest.fixture
def fake(build_dir, monkeypatch):
    """Options for the fake device; sets variables that say how it is to differ."""
    path = build_dir / "lib" / "libcleave_fake_device.so"

    def options(**variables):
        for name, value in variables.items():
            monkeypatch.setenv(f"CLEAVE_FAKE_{name}", str(value))
        return ["--device", "cuda", "--device-plugin", path]

    return options


def test_no_driver_is_one_line(build_dir, cleave_run, tmp_path):
    if not (build_dir / "lib" / "libcleave_cuda.so").exists():
        pytest.skip("this build has no CUDA plugin")
    if any(os.path.exists(p) for p in ("/dev/nvidiactl", "/dev/dxg")):
        pytest.skip("this machine has a driver")
    for ranks in ([], ["--ranks", 2]):
        message = cleave_run.fail("any.mlir", "--device", "cuda", *ranks)
        assert message.count("\n") == 1
        assert "there is no NVIDIA driver on this machine" in message


def test_refusals(cleave_run, fake, tmp_path):
    def line(*options):
        message = cleave_run.fail("any.mlir", *options)
        assert message.count("\n") == 1, message
        return message

    assert "--device: expected cpu or cuda, found 'tpu'" in line("--device", "tpu")
    assert "--device-plugin is for --device cuda" in line("--device-plugin", "x.so")
    assert "--device-communication is for" in line("--device-communication", "host")
    absent = tmp_path / "absent.so"
    assert f"there is no plugin at {absent}" in line("--device", "cuda", "--device-plugin", absent)
    assert "has version 7 of the interface" in line(*fake(ABI=7))
    assert "was built for LibTorch 2.9.1" in line(*fake(ABI=2, TORCH="2.9.1"))
    assert "is for 'xla'" in line(*fake(TORCH=torch.__version__.split("+")[0], KIND="xla"))
    assert "there is no device" in line(*fake(KIND="cuda", COUNT=0))
    assert "--device cuda: the fake device was told to fail in probe" in line(
        *fake(COUNT=1, FAIL="probe")
    )


def test_open_fails(program, example, cleave_run, fake):
    spec, path = program("gpt_tied")
    message = cleave_run.fail(path, "--inputs", example(spec), *fake(FAIL="open"))
    assert "cannot use device 0: the fake device was told to fail in open" in message


def test_evaluates(program, example, cleave_run, fake, tmp_path):
    spec, path = program("gpt_tied")
    dumps = []
    for name, options in (("cpu", []), ("fake", fake())):
        dumps.append(tmp_path / f"{name}.safetensors")
        cleave_run.succeed(path, "--inputs", example(spec), "--dump", dumps[-1], *options)
    ours, theirs = map(load_file, dumps)
    assert ours.keys() == theirs.keys()
    assert all((ours[name] == theirs[name]).all() for name in ours)


def test_trains_and_resumes(model, text, cleave_run, fake, tmp_path):  # noqa: F811
    """Checkpoints are read and written through views of the state."""
    source = model("gpt_tied").program
    options = ["--data", text, "--seed", 3, "--quiet", "--microbatches", 2]
    metrics = [tmp_path / name for name in ("cpu", "first", "second")]
    cleave_run.succeed(source, "--steps", 6, *options, "--metrics", metrics[0])
    options += ["--checkpoint", tmp_path / "checkpoints", *fake()]
    cleave_run.succeed(source, "--steps", 3, *options, "--metrics", metrics[1])
    cleave_run.succeed(source, "--steps", 6, *options, "--metrics", metrics[2], "--resume")
    expected, first, second = map(training.losses, metrics)
    assert first + second == expected


@pytest.mark.parametrize("backend", ["", "1"])
def test_ranks(backend, model, pipelines, text, cleave_run, fake, tmp_path):  # noqa: F811
    """Two ranks of a pipeline, through the host and through communicators of the device."""
    source = model("gpt_tied").program
    path = pipelines.schedule(source, "1f1b", 2)
    log = tmp_path / "log"
    options = ["--steps", 2, "--data", text, "--quiet", "--microbatches", 4]
    one, two = tmp_path / "one.jsonl", tmp_path / "two.jsonl"
    cleave_run.succeed(source, *options, "--metrics", one)
    device = fake(COUNT=2, BACKEND=backend, LOG=log)
    cleave_run.succeed(path, *options, "--ranks", 2, "--metrics", two, *device)
    assert training.losses(one) == training.losses(two)
    # In planned memory, with a frame for each microbatch in flight.
    lowered = pipelines.make(source, "lowered", *schedule_passes("zb-h1", 2), LOWER["cuda"])
    assert "#exec.frame<" in lowered.read_text()
    three = tmp_path / "three.jsonl"
    trace = tmp_path / "trace.json"
    cleave_run.succeed(lowered, *options, "--ranks", 2, "--metrics", three, "--check", "memory",
                       "--trace", trace, "--trace-steps", 1, *device)  # fmt: skip
    assert training.losses(one) == training.losses(three)
    # Sends and receives in the order that was proved to fit together.
    check_sequence(trace, lowered)
    calls = log.read_text()
    assert "open 0" in calls and "open 1" in calls
    assert ("createBackend world/ascending" in calls) == bool(backend)


def test_sharded_parameters(model, build_dir, text, cleave_run, fake, tmp_path):  # noqa: F811
    """Gradients are reduced and scattered by the device's communicator where it can."""
    plan, log = tmp_path / "plan.json", tmp_path / "log"
    Plan({"dp": 2}, {"": FSDP()}).write(plan)
    source, path = model("gpt_tied").program, tmp_path / "sharded.mlir"
    passes = [f"--annotate-placements=plan={plan}", "--propagate-placements", "--partition", LOWER["cuda"]]
    subprocess.run([build_dir / "bin" / "cleave-opt", source, *passes, "-o", path], check=True)
    path.with_suffix(".safetensors").symlink_to(source.with_suffix(".safetensors"))
    options = ["--steps", 2, "--data", text, "--quiet", "--ranks", 2]
    metrics = [tmp_path / f"{name}.jsonl" for name in ("cpu", "host", "backend")]
    cleave_run.succeed(path, *options, "--metrics", metrics[0])
    cleave_run.succeed(path, *options, "--metrics", metrics[1], *fake(COUNT=2, LOG=log))
    assert "reduceScatter" not in log.read_text()
    cleave_run.succeed(path, *options, "--metrics", metrics[2], *fake(BACKEND=1))
    assert "reduceScatter" in log.read_text()
    # Of two ranks' terms the order does not show.
    assert training.losses(metrics[0]) == training.losses(metrics[1]) == training.losses(metrics[2])


def test_shared_device(model, pipelines, text, cleave_run, fake):  # noqa: F811
    """Ranks that share a device cannot use its communicators."""
    path = pipelines.schedule(model("gpt_tied").program, "1f1b", 2)
    options = ["--steps", 1, "--data", text, "--quiet", "--ranks", 2, *fake(COUNT=1, BACKEND=1)]
    cleave_run.succeed(path, *options)
    message = cleave_run.fail(path, *options, "--device-communication", "nccl")
    assert "ranks 0, 1 share the device Fake, but NCCL needs one for each rank" in message


def test_communicator_of_one_rank(model, text, cleave_run, build_dir, fake, tmp_path):  # noqa: F811
    """As asked for: its collectives run where those of several ranks would."""
    path = model("gpt_tied").for_ranks(build_dir)
    log = tmp_path / "log"
    metrics = [tmp_path / name for name in ("cpu", "device")]
    options = ["--steps", 2, "--data", text, "--quiet"]
    cleave_run.succeed(path, *options, "--metrics", metrics[0])
    options += fake(BACKEND=1, LOG=log)
    cleave_run.succeed(path, *options)
    assert "createBackend" not in log.read_text()
    cleave_run.succeed(path, *options, "--device-communication", "nccl", "--metrics", metrics[1])
    assert "createBackend" in log.read_text()
    assert training.losses(metrics[0]) == training.losses(metrics[1])


def test_rank_without_a_device(model, pipelines, text, cleave_run, fake):  # noqa: F811
    path = pipelines.schedule(model("gpt_tied").program, "1f1b", 4)
    message = cleave_run.fail(path, "--steps", 1, "--data", text, "--ranks", 4, *fake(COUNT=2))
    # Any rank without one may come first.
    assert re.search(
        r"local rank of --ranks=[23], but this machine has 2 devices: expected a rank for each, from 0 to 1",
        message,
    )


def test_environment_has_the_device(cleave_run, fake):
    lines = cleave_run.succeed("--environment", *fake()).splitlines()
    facts = dict(line.split(None, 1) for line in lines if line.startswith(("device ", "chip ")))
    assert facts["device"] == "cuda" and facts["chip"].startswith("Fake (sm_")


def graph_calls(log):
    lines = [line for line in log.read_text().split("\n") if "Capture" in line or "raph" in line or line == "replay"]
    log.unlink()
    return lines


ONE_GRAPH = ["beginCapture", "endCapture", "replay", "destroyGraph"]


@pytest.mark.parametrize("form", ["ops", "lowered"])
def test_graphs(form, model, lowered, text, cleave_run, fake, tmp_path):  # noqa: F811
    """Two steps as they are, then a whole step is recorded, once."""
    source = model("gpt_tied").program
    path = source if form == "ops" else lowered("cuda")
    log = tmp_path / "log"
    options = ["--data", text, "--seed", 3, "--microbatches", 2]
    one, two = tmp_path / "one.jsonl", tmp_path / "two.jsonl"
    cleave_run.succeed(source, "--steps", 3, *options, "--metrics", one)
    options += fake(GRAPHS=1, LOG=log)
    cleave_run.succeed(path, "--steps", 3, *options, "--metrics", two)
    assert training.losses(one) == training.losses(two)
    assert graph_calls(log) == ONE_GRAPH
    # The fake replays nothing: that is all that later steps do.
    cleave_run.succeed(path, "--steps", 5, *options)
    assert graph_calls(log).count("replay") == 3
    if form == "lowered":
        return
    out = cleave_run.succeed(path, "--steps", 3, "--stop-on-nan", *options, "--metrics", two)
    assert "recorded as two graphs: its update waits for the losses (--stop-on-nan)" in out
    assert training.losses(one) == training.losses(two)
    assert graph_calls(log) == ONE_GRAPH[:3] * 2 + ONE_GRAPH[3:] * 2
    cleave_run.succeed(path, "--steps", 3, "--graphs=off", *options)
    assert graph_calls(log) == []
    for call in ("beginCapture", "endCapture", "replay"):
        fake(FAIL=call)
        message = cleave_run.fail(source, "--steps", 5, *options)
        assert f"the fake device was told to fail in {call}" in message


def test_random_numbers_in_graphs(model, build_dir, text, cleave_run, fake, tmp_path):  # noqa: F811
    """What Philox gives, the device draws; seed and offset are where a recorded step reads them."""
    source = tmp_path / "philox.mlir"
    program = model("gpt_dropout").program
    source.write_text(program.read_text().replace('generator = #aten.generator<mt19937>', 'generator = #aten.generator<philox>'))
    source.with_suffix(".safetensors").symlink_to(program.with_suffix(".safetensors"))
    log = tmp_path / "log"
    options = ["--data", text, "--seed", 3, "--microbatches", 2, "--steps", 3]
    metrics = [tmp_path / f"{name}.jsonl" for name in ("cpu", "device", "host")]
    cleave_run.succeed(source, *options, "--metrics", metrics[0])
    cleave_run.succeed(source, *options, "--metrics", metrics[1], *fake(GRAPHS=1, LOG=log))
    calls = log.read_text()
    assert "beginCapture" in calls and "draw " in calls
    # A device that cannot draw leaves it to the host, and is not recorded.
    out = cleave_run.succeed(source, *options, "--metrics", metrics[2], *fake(DRAW="off"))
    assert "steps are not recorded as graphs: aten.rng_native_dropout draws its numbers on the host" in out
    assert training.losses(metrics[0]) == training.losses(metrics[1]) == training.losses(metrics[2])
    message = cleave_run.fail(source, *options, *fake(DRAW="on", FAIL="draw"))
    assert "cannot draw random numbers: the fake device was told to fail in draw" in message


def test_the_kernel_of_random_numbers_compiles():
    """By NVRTC, as on a machine with a GPU, for chips that are not here."""
    libraries = [p for d in sys.path for p in pathlib.Path(d).glob("nvidia/*/lib/libnvrtc.so.*")]
    if not libraries:
        pytest.skip("this PyTorch has no NVRTC")
    nvrtc, program = ctypes.CDLL(str(libraries[0])), ctypes.c_void_p()
    runtime = pathlib.Path(__file__).parents[2] / "runtime"
    source = (runtime / "device/Draw.h").read_bytes() + (runtime / "cuda/Draw.cu").read_bytes()
    assert nvrtc.nvrtcCreateProgram(ctypes.byref(program), source, b"draw.cu", 0, None, None) == 0
    for chip in (b"sm_80", b"sm_90", b"sm_100"):
        options = [b"--gpu-architecture=" + chip, b"--fmad=false", b"--std=c++17"]
        status = nvrtc.nvrtcCompileProgram(program, len(options), (ctypes.c_char_p * 3)(*options))
        log = ctypes.create_string_buffer(10000)
        nvrtc.nvrtcGetProgramLog(program, log)
        assert status == 0, log.value.decode()


def test_no_graphs(model, text, cleave_run, fake, tmp_path):  # noqa: F811
    """Why a step is not recorded is said once, and it runs as it is."""

    def notes(name, *options):
        out = cleave_run.succeed(model(name).program, "--steps", 2, "--data", text, *options)
        return [line for line in out.split("\n") if "not recorded as graphs" in line]

    def note(name, *options):
        lines = notes(name, *options)
        assert len(lines) == 1, lines
        return lines[0]

    assert "this device does not support graphs" in note("gpt_tied", *fake())
    device = fake(GRAPHS=1)
    assert "draws its numbers on the host" in note("gpt_dropout", *device)
    trace = tmp_path / "trace.json"
    assert "ops or actions are timed" in note("gpt_tied", "--trace", trace, *device)
    assert "this device does not support graphs" in note("gpt_tied", "--graphs")
    assert not notes("gpt_tied") and not notes("gpt_dropout", "--graphs=off", *device)


def test_ranges(program, example, cleave_run, fake, tmp_path):
    """Each op is a range by its name."""
    spec, path = program("gpt_tied")
    log = tmp_path / "log"
    cleave_run.succeed(path, "--inputs", example(spec), "--nvtx", *fake(LOG=log))
    calls = log.read_text().split("\n")
    names = [line for line in calls if line.startswith("pushRange ")]
    assert "pushRange aten.mm" in names or "pushRange aten.addmm" in names
    assert len(names) == calls.count("popRange")
    assert "--nvtx is for --device cuda" in cleave_run.fail(path, "--nvtx")


@pytest.fixture(scope="module")
def lowered(model, build_dir, tmp_path_factory):
    """gpt_tied, lowered for a target, beside its weights."""
    folder = tmp_path_factory.mktemp("lowered")

    def make(target, *passes, name="gpt_tied"):
        source = model(name).program
        output = folder / f"{name}.{target}.{len(list(folder.iterdir()))}.mlir"
        command = [build_dir / "bin" / "cleave-opt", source, *passes, LOWER[target], "-o", output]
        subprocess.run(command, check=True)
        output.with_suffix(".safetensors").symlink_to(source.with_suffix(".safetensors"))
        return output

    return make


@pytest.mark.parametrize("target", ["cuda", "cpu"])
def test_planned_memory(target, model, lowered, text, cleave_run, fake, tmp_path):  # noqa: F811
    """A program lowered for either has its arena on the device, and needs what is planned."""
    options = ["--data", text, "--seed", 3, "--microbatches", 2, "--steps", 3, "--threads", 1]
    one, two = tmp_path / "one.jsonl", tmp_path / "two.jsonl"
    cleave_run.succeed(model("gpt_tied").program, *options, "--metrics", one)
    path = lowered(target, "--fuse-kernels")
    out = cleave_run.succeed(path, *options, "--metrics", two, *fake())
    assert training.losses(one) == training.losses(two)
    found = re.search(r"memory: ([\d.]+) KiB planned, ([\d.]+) KiB measured, and .* workspace", out)
    assert found and float(found[1]) == pytest.approx(float(found[2]), rel=0.05), out
    # Reading memory that is dead by the plan would give NaN.
    out = cleave_run.succeed(path, *options, "--metrics", two, "--check", "memory", *fake(GRAPHS=1))
    assert "steps are not recorded as graphs: --check memory" in out
    assert training.losses(one) == training.losses(two)
