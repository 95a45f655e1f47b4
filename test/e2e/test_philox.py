"""Philox: the published generator, indexed by the element in the whole, on any mesh the same."""

import math
import subprocess

import numpy
import pytest
import torch
from safetensors.torch import load_file, save_file
from training import losses, train

import cleave

SHAPE = (8, 12)
SEED = 5
TYPES = {"f32": torch.float32, "f64": torch.float64, "f16": torch.float16, "bf16": torch.bfloat16}

# %T, %M: the part's type in the program's dtype and in i1; %S: that of a number that all ranks have.
PROGRAM = """
module @draws {
%MESH
  func.func @microbatch%SUFFIX(
      %x: %T {train.role = #train.role<input "x">},
      %s: %S {train.role = #train.role<rng_seed>},
      %o: %S {train.role = #train.role<rng_offset>})
      -> (%T {train.role = #train.role<output "0">}, %M {train.role = #train.role<output "1">},
          %T {train.role = #train.role<output "2">}, %T {train.role = #train.role<output "3">},
          %T {train.role = #train.role<output "4">}, %T {train.role = #train.role<output "5">})
      attributes {%RANKStrain.draws = 1000 : i64, train.phase = #train.phase<microbatch>} {
    %y, %m = aten.rng_native_dropout(%x, %s, %o, p = 0.3, train = true, position = 0, generator = #aten.generator<philox>)%WHOLE
        : (%T, %S, %S) -> (%T, %M)
    %b = aten.rng_bernoulli(%x, %s, %o, p = 0.7, position = 200, generator = #aten.generator<philox>)%WHOLE : (%T, %S, %S) -> %T
    %c = aten.rng_bernoulli(%x, %s, %o, position = 400, generator = #aten.generator<philox>)%WHOLE : (%T, %S, %S) -> %T
    %u = aten.rng_uniform(%x, %s, %o, from = -1.0, to = 3.0, position = 600, generator = #aten.generator<philox>)%WHOLE : (%T, %S, %S) -> %T
    %n = aten.rng_normal(%x, %s, %o, mean = 1.0, std = 2.0, position = 800, generator = #aten.generator<philox>)%WHOLE : (%T, %S, %S) -> %T
    return %y, %m, %b, %c, %u, %n : %T, %M, %T, %T, %T, %T
  }
}
"""


def draws(dtype, shape=SHAPE, placement="", scalar="", **rest):
    dims = "".join(f"{size}x" for size in shape)
    text = PROGRAM
    for name in ("mesh", "suffix", "ranks", "whole"):
        text = text.replace(f"%{name.upper()}", rest.get(name, ""))
    text = text.replace("%T", f"tensor<{dims}{dtype}{placement}>")
    text = text.replace("%M", f"tensor<{dims}i1{placement}>")
    return text.replace("%S", f"tensor<i64{scalar}>")


def on(placement):
    return f", #dist.on<@mesh, {placement}>"


def words(seed, stream, per_element, count):
    """(count, per_element) words of the stream: Philox4x32-10, written out."""
    mask = numpy.uint64(0xFFFFFFFF)
    blocks = numpy.arange(math.ceil(count * per_element / 4), dtype=numpy.uint64)
    counter = [blocks & mask, blocks >> numpy.uint64(32)]
    counter += [numpy.full_like(blocks, stream & 0xFFFFFFFF), numpy.full_like(blocks, stream >> 32)]
    key = [seed & 0xFFFFFFFF, seed >> 32]
    for _ in range(10):
        first, second = counter[0] * numpy.uint64(0xD2511F53), counter[2] * numpy.uint64(0xCD9E8D57)
        counter = [
            (second >> numpy.uint64(32)) ^ counter[1] ^ numpy.uint64(key[0]), second & mask,
            (first >> numpy.uint64(32)) ^ counter[3] ^ numpy.uint64(key[1]), first & mask,
        ]  # fmt: skip
        key = [(key[0] + 0x9E3779B9) & 0xFFFFFFFF, (key[1] + 0xBB67AE85) & 0xFFFFFFFF]
    return numpy.stack(counter, axis=1).reshape(-1)[: count * per_element].reshape(count, per_element)


def uniform(position, wide, count):
    if wide:
        pair = words(SEED, position, 2, count)
        return ((pair[:, 0] | pair[:, 1] << numpy.uint64(32)) >> numpy.uint64(11)) * 2.0**-53
    return words(SEED, position, 1, count)[:, 0] * 2.0**-32


@pytest.fixture
def files(tmp_path):
    def write(dtype, shape=SHAPE):
        torch.manual_seed(3)
        path = tmp_path / f"{dtype}.safetensors"
        save_file({"x": torch.rand(shape, dtype=torch.float64).to(TYPES[dtype])}, path)
        return path

    return write


@pytest.fixture
def device(build_dir):
    """Options for a device over the host's memory, which draws by runtime/device/Draw.h."""
    return ["--device", "cuda", "--device-plugin", build_dir / "lib" / "libcleave_fake_device.so"]


@pytest.mark.parametrize("dtype", TYPES)
def test_numbers_are_those_of_the_formulas(cleave_run, tmp_path, files, device, dtype):
    (tmp_path / "draws.mlir").write_text(draws(dtype))
    inputs, dump = files(dtype), tmp_path / "out.safetensors"
    cleave_run.succeed(tmp_path / "draws.mlir", "--inputs", inputs, "--seed", SEED, "--dump", dump)
    found, x = load_file(dump), load_file(inputs)["x"]
    type_, wide, n = TYPES[dtype], dtype == "f64", x.numel()

    def tensor(array):
        return torch.from_numpy(numpy.ascontiguousarray(array)).reshape(SHAPE)

    mask = tensor(uniform(0, False, n) < 0.7)
    assert torch.equal(found["output.1"], mask)
    scale = torch.ones((), dtype=type_).div_(0.7).item()
    assert torch.equal(found["output.0"], x.mul(mask).mul_(scale))
    assert torch.equal(found["output.2"], tensor(uniform(200, False, n) < 0.7).to(type_))
    assert torch.equal(found["output.3"], (tensor(uniform(400, wide, n)) < x.double()).to(type_))
    bits = {"f32": 24, "f64": 53, "f16": 11, "bf16": 8}[dtype]
    u = uniform(600, wide, n)
    u = u if wide else numpy.floor(u * 2.0**bits) / 2.0**bits
    assert torch.equal(found["output.4"], tensor(-1 + u * 4).to(type_))
    if wide:
        four = words(SEED, 800, 4, n)
        pair = [((four[:, i] | four[:, i + 1] << numpy.uint64(32)) >> numpy.uint64(11)) * 2.0**-53 for i in (0, 2)]
        first, second = pair[0] + 2.0**-53, pair[1]
    else:
        two = words(SEED, 800, 2, n)
        first, second = (two[:, 0] + 1.0) * 2.0**-32, two[:, 1] * 2.0**-32
    normal = 1 + 2 * numpy.sqrt(-2 * numpy.log(first)) * numpy.cos(2 * math.pi * second)
    # Two libraries' logarithms and cosines may differ in the last bit.
    tolerance = {"f64": 1e-14, "f32": 2e-7, "f16": 1e-3, "bf16": 8e-3}[dtype]
    torch.testing.assert_close(found["output.5"].double(), tensor(normal), rtol=tolerance, atol=tolerance)
    # A device that draws itself gives the same bits.
    cleave_run.succeed(tmp_path / "draws.mlir", "--inputs", inputs, "--seed", SEED, "--dump", dump, *device)
    drawn = load_file(dump)
    assert all(torch.equal(drawn[name], found[name]) for name in found)


def test_distributions(cleave_run, tmp_path, files):
    """Means and variances of many numbers, by seeds: a wrong formula would not show above."""
    shape = (256, 256)
    (tmp_path / "draws.mlir").write_text(draws("f32", shape))
    dump = tmp_path / "out.safetensors"
    cleave_run.succeed(tmp_path / "draws.mlir", "--inputs", files("f32", shape), "--seed", 11, "--dump", dump)
    found, n = load_file(dump), 256 * 256
    for name, mean, deviation in (("output.1", 0.7, 0.21**0.5), ("output.2", 0.7, 0.21**0.5),
                                  ("output.4", 1, 4 / 12**0.5), ("output.5", 1, 2)):  # fmt: skip
        values = found[name].double()
        assert abs(values.mean() - mean) < 5 * deviation / n**0.5
        assert abs(values.std() / deviation - 1) < 0.02
        # No element's number tells its neighbour's, in either direction.
        for other in (values[:, 1:], values[1:].T):
            this = values[:, :-1] if other.shape == values[:, 1:].shape else values[:-1].T
            correlation = ((this - mean) * (other - mean)).mean() / deviation**2
            assert abs(correlation) < 5 / n**0.5


@pytest.mark.parametrize("mesh, placement, shape", [
    ('"dp" = 2', "dp = S(0)", (4, 12)),
    ('"tp" = 4', "tp = S(1)", (8, 3)),
    ('"dp" = 2, "tp" = 2', "dp = S(0), tp = S(1)", (4, 6)),
    ('"dp" = 2, "tp" = 2', "dp = S(0, 1), tp = S(0, 0)", (2, 12)),
    ('"dp" = 2, "tp" = 2', "dp = R, tp = S(1)", (8, 6)),
])
def test_parts_are_those_of_the_whole(cleave_run, tmp_path, files, device, mesh, placement, shape):
    (tmp_path / "whole.mlir").write_text(draws("f32"))
    scalar = ", ".join(f"{axis} = R" for axis in ("dp", "tp") if axis in mesh)
    text = draws("f32", shape, on(placement), on(scalar), mesh=f"  dist.mesh @mesh [{mesh}]")
    (tmp_path / "parts.mlir").write_text(text)
    ranks = math.prod(int(word) for word in mesh.replace(",", "").split() if word.isdigit())
    for place in (["--ranks-as", "threads"], device):
        cleave_run.succeed(
            tmp_path / "parts.mlir", "--against", tmp_path / "whole.mlir", "--inputs", files("f32"),
            "--ranks", ranks, *place, "--seed", SEED, "--tolerance", 0,
        )  # fmt: skip
    cleave_run.succeed(
        tmp_path / "parts.mlir", "--inputs", files("f32"), "--ranks", ranks, "--ranks-as", "threads",
        "--check", "replicated",
    )  # fmt: skip


def uneven(whole, sizes=(3, 2)):
    """Two classes of ranks, whose parts of five rows are of three and two."""
    texts = [
        draws("f32", (size, 12), on("dp = S(0)"), on("dp = R"), suffix=f"_{rank}",
                ranks=f"train.ranks = {{dp = array<i64: {rank}>}}, ", whole=whole)
        for rank, size in enumerate(sizes)
    ]  # fmt: skip
    bodies = [text[text.index("  func.func") : text.rindex("}")] for text in texts]
    return 'module @parts {\n  dist.mesh @mesh ["dp" = 2]\n' + "".join(bodies) + "}\n"


def test_uneven_parts(cleave_run, tmp_path, files):
    (tmp_path / "whole.mlir").write_text(draws("f32", (5, 12)))
    (tmp_path / "parts.mlir").write_text(uneven(" {dist.whole_shape = array<i64: 5, 12>}"))
    cleave_run.succeed(
        tmp_path / "parts.mlir", "--against", tmp_path / "whole.mlir", "--inputs", files("f32", (5, 12)),
        "--ranks", 2, "--ranks-as", "threads", "--seed", SEED, "--tolerance", 0,
    )  # fmt: skip


@pytest.mark.parametrize("whole, message", [
    ("array<i64: 5>", "expected one size per dimension in dist.whole_shape, found 1 for 2 dimensions"),
    ("array<i64: 9, 12>", "expected a part of 5 in dimension 0 of what is drawn, which has 9 in all, found 3"),
])
def test_parts_that_do_not_fit_the_whole(cleave_run, tmp_path, files, whole, message):
    (tmp_path / "parts.mlir").write_text(uneven(f" {{dist.whole_shape = {whole}}}"))
    error = cleave_run.fail(
        tmp_path / "parts.mlir", "--inputs", files("f32", (5, 12)), "--ranks", 2, "--ranks-as", "threads")
    assert message in error


def test_data_parallel_dropout_trains_as_one_rank(build_dir, tmp_path, program):
    """Two ranks with two microbatches each draw what one rank draws for its four."""
    spec, _ = program("gpt_dropout")
    spec.generator = "philox"
    path = cleave.export_spec(spec, tmp_path)
    text = path.read_text()
    assert 'generator = #aten.generator<philox>' in text and "mt19937" not in text
    parallel = tmp_path / "parallel.mlir"
    subprocess.run([build_dir / "bin" / "cleave-opt", path, "--sync-gradients", "-o", parallel], check=True)
    parallel.with_suffix(".safetensors").symlink_to(path.with_suffix(".safetensors"))
    (tmp_path / "text").write_bytes(bytes(range(256)) * 40)
    data = ("--data", f"text:{tmp_path / 'text'}", "--steps", 6, "--quiet", "--metrics")
    train(build_dir, path, *data, tmp_path / "one.jsonl", "--microbatches", 4)
    train(build_dir, parallel, *data, tmp_path / "two.jsonl", "--microbatches", 2, "--ranks", 2)
    one, two = (losses(tmp_path / f"{name}.jsonl") for name in ("one", "two"))
    assert one == pytest.approx(two, rel=1e-6)
    # And dropout is there: without it the losses are others.
    plain = tmp_path / "plain.mlir"
    plain.write_text(text.replace("train = true", "train = false"))
    plain.with_suffix(".safetensors").symlink_to(path.with_suffix(".safetensors"))
    train(build_dir, plain, *data, tmp_path / "plain.jsonl", "--microbatches", 4)
    assert abs(losses(tmp_path / "plain.jsonl")[0] - one[0]) > 1e-4
