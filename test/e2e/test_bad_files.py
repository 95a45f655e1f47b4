"""Bad input: each kind gets one clear message and a non-zero exit, without a hang or a crash."""

import dataclasses
import json
import os
import re
import signal
import socket
import struct
import subprocess
import time

import numpy
import pytest
import torch
import torch.distributed.checkpoint as dcp
from safetensors.torch import load_file, save_file
from training import ENVIRONMENT, Model, command, run, train

TEXT = "/usr/share/common-licenses/GPL-3"


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return Model("gpt_tied", tmp_path_factory.mktemp("gpt_tied"))


def assert_refused(result, *parts):
    """An error that a user can act on: the parts are in it, and no sign of a crash."""
    text = result.stderr
    assert result.returncode in (1, 2), (result.returncode, text)
    assert "error: " in text, text
    for crash in ("Stack dump", "Traceback", "Assertion", "terminate called", "Exception raised from"):
        assert crash not in text, text
    for part in parts:
        assert re.search(part, text), f"expected {part!r} in: {text[:3000]}"


def refused(build, program, *options, expect):
    result = run(build, program, *options, timeout=60)
    assert_refused(result, *([expect] if isinstance(expect, str) else expect))


# ---- programs ----


def test_truncated_and_corrupted_bytecode(build_dir, tmp_path, model):
    path = tmp_path / "gpt.mlirbc"
    subprocess.run(
        [build_dir / "bin" / "cleave-opt", model.program, "--emit-bytecode", "-o", path], check=True
    )
    good = path.read_bytes()
    path.with_suffix(".safetensors").symlink_to(model.weights)
    train(build_dir, path, "--steps", 1, "--data", f"text:{TEXT}")
    bad = tmp_path / "bad.mlirbc"
    bad.with_suffix(".safetensors").symlink_to(model.weights)
    for size in (3, 4, 100, len(good) // 2, len(good) - 1):
        bad.write_bytes(good[:size])
        refused(build_dir, bad, "--steps", 1, "--data", f"text:{TEXT}", expect="bad.mlirbc")
    generator = numpy.random.default_rng(0)
    for position in generator.integers(8, len(good), 12):
        flipped = bytearray(good)
        flipped[position] ^= 1 << generator.integers(8)
        bad.write_bytes(flipped)
        refused(build_dir, bad, "--steps", 1, "--data", f"text:{TEXT}", expect="bad.mlirbc")


BAD_TEXT = {
    "not_mlir": ("hello", r"bad.mlir:1:1: error"),
    "empty": ("", "the file is empty"),
    "no_program": ("module {}", "microbatch"),
    "unknown_op": ('func.func @f() {\n  "nosuch.op"() : () -> ()\n  return\n}', r"bad.mlir:2:\d+: error"),
}


@pytest.mark.parametrize("case", BAD_TEXT)
def test_text_that_is_no_program(build_dir, tmp_path, case):
    text, expected = BAD_TEXT[case]
    path = tmp_path / "bad.mlir"
    path.write_text(text)
    refused(build_dir, path, "--steps", 1, "--data", f"text:{TEXT}", expect=["bad.mlir", expected])


@pytest.mark.parametrize("old, new, expected", [
    (" aten.arange(", " aten.nosuch(", r":\d+:\d+: error: .*nosuch"),
    (" aten.native_layer_norm(", " aten.native_layer_norm(%nowhere, ", r":\d+:\d+: error"),
    ("train.phase = #train.phase<microbatch>", "train.phase = #train.phase<nosuch>", r":\d+:\d+: error"),
    ("tensor<256x32xf32>", "tensor<256x33xf32>", r":\d+:\d+: error"),
])  # fmt: skip
def test_program_with_one_wrong_word(build_dir, tmp_path, model, old, new, expected):
    text = model.program.read_text()
    assert old in text
    path = tmp_path / "bad.mlir"
    path.write_text(text.replace(old, new, 1))
    refused(build_dir, path, "--steps", 1, "--data", f"text:{TEXT}", expect=["bad.mlir", expected])


def test_wrong_schema(build_dir, tmp_path):
    path = tmp_path / "bad.mlir"
    path.write_text("""
func.func @microbatch(%x: tensor<4xf32> {train.role = #train.role<input "x" batch 0>})
    -> (tensor<4xf32> {train.role = #train.role<output "0" batch 0>})
    attributes {train.phase = #train.phase<microbatch>} {
  %y = aten.call "aten::roll"(self = %x, shift = [1]) : (tensor<4xf32>) -> tensor<4xf32>
  return %y : tensor<4xf32>
}
""")
    refused(build_dir, path, "--inputs", tmp_path / "x", expect=["bad.mlir:5:", "shift"])
    path.write_text(path.read_text().replace("aten::roll", "aten::nosuch"))
    refused(build_dir, path, "--inputs", tmp_path / "x", expect=["bad.mlir:5:", "aten::nosuch"])


def test_missing_files(build_dir, tmp_path, model):
    refused(build_dir, tmp_path / "none.mlir", "--steps", 1, "--data", f"text:{TEXT}",
            expect="none.mlir.*No such file")  # fmt: skip
    refused(build_dir, model.program, "--weights", tmp_path / "none", "--steps", 1, "--data", f"text:{TEXT}",
            expect="none: cannot open: No such file")  # fmt: skip


# ---- weights ----


@pytest.mark.parametrize("change, expected", [
    (lambda w: w.pop("ln_f.bias"), r"missing: 'ln_f.bias' \(F32 \[32\]\)"),
    (lambda w: w.update(more=torch.zeros(2)), r"extra: 'more' \(F32 \[2\]\)"),
    (lambda w: w.update({"ln_f.bias": torch.zeros(31)}), r"'ln_f.bias': .*F32 \[32\].*F32 \[31\]"),
    (lambda w: w.update({"ln_f.bias": torch.zeros(32).half()}), r"'ln_f.bias': .*F32 \[32\].*F16 \[32\]"),
], ids=["missing", "extra", "shape", "dtype"])  # fmt: skip
def test_weights_of_another_model(build_dir, tmp_path, model, change, expected):
    weights = load_file(model.weights)
    change(weights)
    save_file(weights, tmp_path / "w.safetensors")
    refused(build_dir, model.program, "--weights", tmp_path / "w.safetensors", "--steps", 1,
            "--data", f"text:{TEXT}", expect=["w.safetensors", expected])  # fmt: skip


def tensor(begin, end, shape=(1,), dtype="U8"):
    return {"dtype": dtype, "shape": list(shape), "data_offsets": [begin, end]}


def header(text, data=b""):
    text = text if isinstance(text, str) else json.dumps(text)
    return struct.pack("<Q", len(text)) + text.encode() + data


HOSTILE = {
    "huge_header": (struct.pack("<Q", 1 << 63) + b"{}", "9223372036854775808"),
    "overlap": (header({"a": tensor(0, 2, [2]), "b": tensor(1, 3, [2])}, b"123"), '"b".*overlaps'),
    "out_of_range": (header({"a": tensor(0, 9, [9])}, b"1"), "inside the 1 bytes"),
    "hole": (header({"a": tensor(0, 1), "b": tensor(2, 3)}, b"123"), '"b": 1 bytes before'),
    "duplicate": (header('{"a":%s,"a":%s}' % ((json.dumps(tensor(0, 1)),) * 2), b"1"), '"a" twice'),
    "overflow": (header({"a": tensor(0, 0, [1 << 62, 4], "F64")}), "overflows"),
    "deep": (header('{"a":' + "[" * 2_000_000), "nested at most 3"),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_hostile_safetensors(build_dir, tmp_path, model, case):
    contents, expected = HOSTILE[case]
    path = tmp_path / "hostile.safetensors"
    path.write_bytes(contents)
    for option in ("--weights", "--data"):
        value = f"safetensors:{path}" if option == "--data" else path
        options = [option, value] if option == "--data" else [option, value, "--data", f"text:{TEXT}"]
        refused(build_dir, model.program, "--steps", 1, *options, expect=["hostile.safetensors: ", expected])


def test_names_that_are_no_text(build_dir, tmp_path, model):
    """Messages are UTF-8, whatever names they quote."""
    dcp.save(load_file(model.weights) | {"odd.wXight": torch.zeros(2)}, checkpoint_id=tmp_path, no_dist=True)
    metadata = tmp_path / ".metadata"
    metadata.write_bytes(metadata.read_bytes().replace(b"odd.wXight", b"odd.w\x80ight"))
    refused(build_dir, model.program, "--weights", tmp_path, "--steps", 1, "--data", f"text:{TEXT}",
            expect="extra: 'odd.w\ufffdight'")  # fmt: skip


# ---- data ----


def test_data(build_dir, tmp_path, model):
    (tmp_path / "empty.txt").write_text("")
    (tmp_path / "short.txt").write_text("short")
    (tmp_path / "folder").mkdir()
    numpy.array([1, 2, 300] * 40, "<u2").tofile(tmp_path / "tokens.bin")
    (tmp_path / "odd.bin").write_bytes(b"123")
    for data, expected in {
        f"text:{tmp_path}/empty.txt": "the data is empty",
        f"text:{tmp_path}/folder": "expected regular files in the directory, found none",
        f"text:{tmp_path}/short.txt": "at least 33 tokens, a window of 32 and the token after it, found 5",
        f"text:{tmp_path}/none.txt": "none.txt: cannot open",
        f"u16:{tmp_path}/tokens.bin": r"token 300 at position 2 is outside the vocabulary of 256 \(0 to 255\)",
        f"u16:{tmp_path}/odd.bin": "tokens of 2 bytes, found 3 bytes",
        f"u16:{tmp_path}/folder": "expected .bin files in the directory, found none",
        f"{tmp_path}/short.txt": "expected data as text:PATH",
    }.items():
        refused(build_dir, model.program, "--steps", 1, "--data", data, expect=expected)
    refused(build_dir, model.program, "--steps", 1, "--data", f"text:{TEXT}", "--vocabulary", 100,
            expect="outside the vocabulary of 100")  # fmt: skip
    refused(build_dir, model.program, "--steps", 1, expect="expected --data")
    refused(build_dir, model.program, "--data", f"text:{TEXT}", expect="expected --steps N with --data")


def test_batch_that_does_not_divide(build_dir, tmp_path, model):
    program = model.for_ranks(build_dir)
    options = ["--steps", 1, "--data", f"text:{TEXT}"]
    refused(build_dir, model.program, *options, "--batch", 3,
            expect="a batch of 3 examples is not divisible by 1 ranks with microbatches of 2")  # fmt: skip
    refused(build_dir, program, *options, "--batch", 6, "--ranks", 2,
            expect="a batch of 6 examples is not divisible by 2 ranks with microbatches of 2")  # fmt: skip
    refused(build_dir, program, *options, "--batch", 8, "--microbatches", 3, "--ranks", 2,
            expect="is 2 microbatches of 2 on each of 2 ranks, found --microbatches 3")  # fmt: skip
    refused(build_dir, program, *options, "--microbatches", 0, expect="--microbatches of at least 1")
    tokens = torch.zeros(6, 32, dtype=torch.int64)
    save_file({"tokens": tokens, "targets": tokens.clone()}, tmp_path / "six.safetensors")
    refused(build_dir, program, "--steps", 1, "--data", f"safetensors:{tmp_path / 'six.safetensors'}",
            "--ranks", 2, expect=r"has 6 examples along dimension 0, which do not divide into batches of 4")


# ---- checkpoints ----


def test_unwritable_places_are_found_before_training(build_dir, tmp_path, model):
    (tmp_path / "file").write_text("")
    options = ["--steps", 10_000_000, "--data", f"text:{TEXT}"]
    for option, path, expected in (
        ("--checkpoint", tmp_path / "file", "expected a writable directory"),
        ("--checkpoint", tmp_path / "file" / "sub", "cannot create the directory"),
        ("--checkpoint", "/proc/self/nowhere", "cannot create the directory"),
        ("--tensorboard", tmp_path / "file" / "tb", "cannot create the directory"),
        ("--metrics", tmp_path / "none" / "m.jsonl", "cannot write: No such file"),
        ("--trace", tmp_path / "none" / "t.json", "cannot write: No such file"),
    ):
        refused(build_dir, model.program, *options, option, path, expect=[str(path), expected])


@pytest.fixture(scope="module")
def checkpoints(build_dir, model, tmp_path_factory):
    """A directory with checkpoints of steps 2 and 4."""
    directory = tmp_path_factory.mktemp("checkpoints") / "run"
    train(build_dir, model.program, "--steps", 4, "--data", f"text:{TEXT}", "--checkpoint", directory,
          "--checkpoint-every", 2)  # fmt: skip
    return directory


def copy(directory, tmp_path):
    subprocess.run(["cp", "-r", directory, tmp_path / "run"], check=True)
    return tmp_path / "run"


def test_checkpoint_of_another_model_or_run(build_dir, tmp_path, model, checkpoints):
    import cleave
    import gpt

    spec = gpt._spec("wide", gpt.GPTConfig(width=64))
    wide = cleave.export_spec(spec, tmp_path)
    options = ["--steps", 8, "--data", f"text:{TEXT}", "--checkpoint", checkpoints]
    refused(build_dir, wide, *options, "--resume",
            expect=["model.safetensors: ", r"wte.weight.*F32 \[256, 64\].*F32 \[256, 32\]"])  # fmt: skip
    spec = gpt.tied()
    spec = dataclasses.replace(
        spec, name="sgd", optimizer=torch.optim.SGD(spec.module.parameters(), lr=0.1, momentum=0.9)
    )
    refused(build_dir, cleave.export_spec(spec, tmp_path), *options, "--resume",
            expect=["optimizer.safetensors: ", "missing: 'wte.weight.momentum_buffer'"])  # fmt: skip
    refused(build_dir, model.program, *options, expect="already has checkpoints.*step 4.*--resume")
    for more, expected in (
        (("--seed", 3), "started with --seed 0, found 3"),
        (("--microbatches", 2), "over all ranks: 1, found 2"),
        (("--shuffle=false",), "different data or a different order"),
        (("--data", "text:/usr/share/common-licenses/GPL-2"), "GPL-3, found text:.*GPL-2"),
    ):
        old = [o for o in options if more[0] != "--data" or o not in ("--data", f"text:{TEXT}")]
        refused(build_dir, model.program, *old, "--resume", *more, expect=expected)
    refused(build_dir, model.program, "--steps", 8, "--data", f"text:{TEXT}", "--resume",
            expect="need --checkpoint")  # fmt: skip


@pytest.mark.parametrize("name", ["model.safetensors", "optimizer.safetensors", "state.json"])
def test_damaged_checkpoint(build_dir, tmp_path, model, checkpoints, name):
    directory = copy(checkpoints, tmp_path)
    path = directory / "step-00000004" / name
    good = path.read_bytes()
    options = ["--steps", 6, "--data", f"text:{TEXT}", "--checkpoint", directory, "--resume"]
    damaged = bytearray(good)
    damaged[len(good) // 2] ^= 255
    for contents in (good[: len(good) // 2], b"", bytes(damaged)):
        path.write_bytes(contents)
        refused(build_dir, model.program, *options, expect=[str(path), "the one before it"])
    path.unlink()
    refused(build_dir, model.program, *options, expect=[str(path), "cannot open"])
    # What the message advises works.
    subprocess.run(["rm", "-r", directory / "step-00000004"], check=True)
    assert "resuming after step 2" in train(build_dir, model.program, *options)


# ---- losses and ranks ----


def test_loss_that_is_not_finite(build_dir, tmp_path, model):
    options = ["--steps", 6, "--data", f"text:{TEXT}", "--lr", "1e30", "--metrics", tmp_path / "m.jsonl"]
    result = run(build_dir, model.program, *options)
    assert result.returncode == 0
    assert re.search(r"warning: step \d: the loss is (nan|inf)", result.stderr)
    found = [json.loads(line)["loss"] for line in (tmp_path / "m.jsonl").read_text().splitlines()]
    assert len(found) == 6 and found[0] > 0 and found[-1] is None
    first = found.index(None) + 1
    for more in ((), ("--ranks", 2)):
        program = model.for_ranks(build_dir) if more else model.program
        result = run(build_dir, program, *options, "--stop-on-nan", *more)
        assert_refused(result, r"step \d: the loss is (nan|inf|-inf) on rank \d, microbatch 0")
        assert result.stderr.count("the loss is") == 1
        if not more:
            assert f"step {first}:" in result.stderr


def children_of(pid):
    text = subprocess.run(["ps", "-o", "pid=", "--ppid", str(pid)], capture_output=True, text=True).stdout
    return sorted(map(int, text.split()))


def test_rank_killed_in_mid_step(build_dir, tmp_path, model):
    arguments = command(build_dir, model.for_ranks(build_dir), "--ranks", 3, "--steps", 10_000_000,
                        "--data", f"text:{TEXT}", "--metrics", tmp_path / "m.jsonl", "--quiet")  # fmt: skip
    process = subprocess.Popen(
        arguments, env=ENVIRONMENT, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    )
    try:
        deadline = time.monotonic() + 60
        while not (tmp_path / "m.jsonl").exists() or not (tmp_path / "m.jsonl").stat().st_size:
            assert process.poll() is None and time.monotonic() < deadline
            time.sleep(0.05)
        ranks = children_of(process.pid)
        assert len(ranks) == 3
        os.kill(ranks[1], signal.SIGKILL)
        _, errors = process.communicate(timeout=30)
    finally:
        process.kill()
    assert process.returncode not in (0, None)
    assert "rank 1" in errors and "Stack dump" not in errors
    assert not any(os.path.exists(f"/proc/{pid}") for pid in ranks)


def test_ranks_with_different_programs(build_dir, tmp_path, model):
    first = model.for_ranks(build_dir)
    second = tmp_path / "second.mlir"
    second.write_text(re.sub(r"base = \S+ : f64", "base = 5.0e-2 : f64", first.read_text()))
    second.with_suffix(".safetensors").symlink_to(model.weights)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    processes = [
        subprocess.Popen(
            command(build_dir, program, "--steps", 5, "--data", f"text:{TEXT}", "--timeout", 30),
            env={**ENVIRONMENT, "RANK": str(rank), "WORLD_SIZE": "2", "LOCAL_RANK": str(rank),
                 "LOCAL_WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)},
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
        )
        for rank, program in enumerate((first, second))
    ]  # fmt: skip
    errors = [process.communicate(timeout=60)[1] for process in processes]
    assert all(process.returncode == 1 for process in processes), errors
    assert "program" in errors[0] and "rank 1" in errors[0] and "second.mlir" in errors[0], errors
