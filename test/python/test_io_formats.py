"""runtime/io against the packages that others read and write its formats with."""

import json
import subprocess

import numpy
import pytest
import safetensors.torch
import torch
from cleave.data import MixedBatches, TextBatches, TokenBatches


@pytest.fixture
def driver(build_dir):
    """Runs test/unit/runtime/io/IoDriver.cpp with arguments; its standard output."""

    def run(*arguments):
        command = [build_dir / "unit" / "cleave_io_driver", *map(str, arguments)]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout

    return run


DTYPES = [
    torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64,
    torch.float16, torch.bfloat16, torch.float32, torch.float64,
]  # fmt: skip


def test_safetensors_are_those_of_the_package(driver, tmp_path):
    generator = torch.Generator().manual_seed(0)
    tensors = {"scalar": torch.tensor(3.0), "empty": torch.zeros(3, 0), 'quote" back\\slash é': torch.ones(2)}
    for i, dtype in enumerate(DTYPES):
        for size in ([3], [2, 5]):
            values = torch.randint(0, 2, size, generator=generator).to(dtype)
            tensors[f"{i % 3}.{dtype}.{len(size)}"] = values
    safetensors.torch.save_file(tensors, tmp_path / "theirs.safetensors", metadata={"format": "pt"})
    driver("copy", tmp_path / "theirs.safetensors", tmp_path / "ours.safetensors")
    ours = (tmp_path / "ours.safetensors").read_bytes()
    assert ours == (tmp_path / "theirs.safetensors").read_bytes()
    loaded = safetensors.torch.load_file(tmp_path / "ours.safetensors")
    assert loaded.keys() == tensors.keys()
    for name, tensor in tensors.items():
        assert loaded[name].dtype == tensor.dtype and torch.equal(loaded[name], tensor), name


def test_tensorboard_reads_the_events(driver, tmp_path):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    driver("events", tmp_path)
    events = EventAccumulator(str(tmp_path), size_guidance={"scalars": 0})
    events.Reload()
    assert sorted(events.Tags()["scalars"]) == ["speed/step_ms", "speed/tokens_per_s", "train/loss"]
    losses = events.Scalars("train/loss")
    assert [e.step for e in losses] == list(range(1, 301))
    assert [e.value for e in losses] == [numpy.float32(1 / s) for s in range(1, 301)]


def test_event_records_have_valid_checksums(driver, tmp_path):
    from tensorboard.compat.tensorflow_stub.pywrap_tensorflow import masked_crc32c

    driver("events", tmp_path)
    (path,) = tmp_path.iterdir()
    data, at, records = path.read_bytes(), 0, 0
    while at < len(data):
        length = int.from_bytes(data[at : at + 8], "little")
        assert int.from_bytes(data[at + 8 : at + 12], "little") == masked_crc32c(data[at : at + 8])
        body = data[at + 12 : at + 12 + length]
        end = at + 12 + length
        assert int.from_bytes(data[end : end + 4], "little") == masked_crc32c(body)
        at, records = end + 4, records + 1
    assert records == 1 + 3 * 300


def test_trace_is_chrome_json(driver, tmp_path):
    driver("trace", tmp_path / "trace.json")
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    slices = [e for e in events if e["ph"] == "X"]
    assert len(slices) == 40_000
    assert {e["pid"] for e in slices} == {0, 1}
    assert slices[7] == {
        "ph": "X", "name": "aten.mm", "cat": "op", "pid": 0, "tid": 0, "ts": 7.0, "dur": 0.5,
        "args": {"location": "model.py:7"},
    }  # fmt: skip


@pytest.mark.parametrize("microbatches, ranks, seed", [(1, 1, 0), (3, 2, 7)])
def test_text_batches_are_those_of_the_runtime(driver, tmp_path, microbatches, ranks, seed):
    (tmp_path / "texts" / "sub").mkdir(parents=True)
    (tmp_path / "texts" / "b.txt").write_bytes(bytes(range(256)))
    (tmp_path / "texts" / "sub" / "a.txt").write_text("naïve " * 40)
    (tmp_path / "texts" / "link").symlink_to("b.txt")
    steps, rows, length = 12, 3, 5
    output = driver("tokens", f"text:{tmp_path / 'texts'}", rows, length, microbatches, ranks, seed, steps)
    found = [list(map(int, line.split())) for line in output.splitlines()]
    batches = TextBatches([tmp_path / "texts"], rows, length, microbatches, ranks, seed)
    assert found == flat_batches(batches, steps)


def flat_batches(batches, steps):
    """Inputs and targets of all microbatches, as the driver prints them."""
    flat = []
    for step in range(1, steps + 1):
        for rank in range(batches.ranks):
            for index in range(batches.microbatches):
                inputs, targets = batches.microbatch(step, rank, index)
                flat.append(inputs.flatten().tolist() + targets.flatten().tolist())
    return flat


def test_mixed_batches_are_those_of_the_runtime(driver, tmp_path):
    paths, weights, lengths = [tmp_path / name for name in "abc"], [0.5, 0.3, 0.2], [900, 100, 33]
    for path, length, base in zip(paths, lengths, (0, 80, 160)):
        path.write_bytes(bytes(base + i % 79 for i in range(length)))
    source = ";".join(f"{weight}=text:{path}" for weight, path in zip(weights, paths))
    rows, length, microbatches, ranks, seed, steps = 2, 4, 3, 2, 5, 40
    output = driver("tokens", f"mix:{source}", rows, length, microbatches, ranks, seed, steps)
    found = [list(map(int, line.split())) for line in output.splitlines()]
    parts = [TextBatches([path], rows, length, seed=seed) for path in paths]
    assert found == flat_batches(MixedBatches(zip(weights, parts), microbatches, ranks), steps)


def test_token_files_are_those_of_numpy(driver, tmp_path):
    stream = numpy.random.default_rng(0).integers(0, 1 << 32, 100)
    for kind, dtype in (("u16", "<u2"), ("u32", "<u4")):
        tokens = (stream % (1 << (8 * numpy.dtype(dtype).itemsize))).astype(dtype)
        tokens.tofile(tmp_path / "tokens.bin")
        output = driver("tokens", f"{kind}:{tmp_path / 'tokens.bin'}", 2, 7, 1, 1, 3, 4)
        batches = TokenBatches(tokens, 2, 7, seed=3)
        for step, line in enumerate(output.splitlines(), start=1):
            inputs, targets = batches.microbatch(step)
            assert list(map(int, line.split())) == inputs.flatten().tolist() + targets.flatten().tolist()
