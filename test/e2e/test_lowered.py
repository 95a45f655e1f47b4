"""A lowered program computes, bit for bit, what it did before, in the memory that its plan says."""

import re
import subprocess

import cleave
import cleave_run  # noqa: F401
import pytest
import torch
import torch.nn.functional as F
from cleave import FSDP, Plan, testing
from combinations_cover import covered, part_of_today
from exported_models import MODELS
from library_models import LIBRARY_MODELS
from pipelines import schedule_passes
from safetensors.torch import save_file
from training import checkpoint_tensors, losses, newest_checkpoint, read_metrics, train

LOWER = "--lower-to-exec=target=cpu"
FUSE = "--fuse-kernels"


@pytest.fixture(scope="module")
def lower(build_dir, tmp_path_factory):
    """The program after passes, and the same lowered, both beside their weights."""
    folder = tmp_path_factory.mktemp("lowered")
    cache = {}

    def make(path, name, passes):
        output = folder / f"{name}.mlir"
        command = [build_dir / "bin" / "cleave-opt", path, *passes, "-o", output]
        result = subprocess.run(command, capture_output=True, text=True)
        assert result.returncode == 0, result.stderr
        output.with_suffix(".safetensors").symlink_to(path.with_suffix(".safetensors"))
        return output

    def run(path, *passes):
        key = (path, passes)
        if key not in cache:
            name = f"{path.stem}.{len(cache)}"
            cache[key] = make(path, name, passes), make(path, name + ".lowered", [*passes, LOWER])
        return cache[key]

    return run


@pytest.fixture
def losses_of_steps(build_dir, lower, tmp_path):
    """Losses of three steps of a module with the loss and data given, evaluated and lowered."""

    def run(name, model, example, batches, **spec):
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        path = cleave.export_spec(cleave.ExportSpec(model, example, optimizer=optimizer, name=name, **spec), tmp_path)
        data = tmp_path / "data.safetensors"
        save_file(batches, data)
        found = []
        for program in lower(path):
            metrics = program.with_suffix(".jsonl")
            train(build_dir, program, "--steps", 3, "--data", f"safetensors:{data}", "--metrics", metrics)
            found.append(losses(metrics))
        assert len(found[0]) == 3
        return found

    return run


@covered({"name": part_of_today([*MODELS, *LIBRARY_MODELS]), "passes": {"unfused": [], "fused": [FUSE]}}, strength=1)
def test_lowered_computes_what_the_program_does(name, passes, program, lower, example, cleave_run):
    spec, path = program(name)
    _, lowered = lower(path, *passes)
    assert "exec.lowered" in lowered.read_text()
    # The default tolerance is 0. Reading memory that is dead by the plan would give NaN.
    cleave_run.succeed(lowered, "--against", path, "--weights", path.with_suffix(".safetensors"),
                       "--inputs", example(spec), "--seed", 3, "--check", "memory")  # fmt: skip



class Scaled(torch.nn.Module):
    """A loss that is not the program's result, so that it lies in planned memory."""

    def __init__(self, loss):
        super().__init__()
        self.linear, self.loss = torch.nn.Linear(4, 4), loss

    def forward(self, x, y):
        return 0.5 * self.loss(self.linear(x).sigmoid(), y)


@covered(
    {
        "loss": ["MSELoss", "SmoothL1Loss", "HuberLoss", "BCELoss", "SoftMarginLoss"],
        "reduction": ["sum", "mean"],
    },
    strength=1,
)  # fmt: skip
def test_losses_in_planned_memory(loss, reduction, losses_of_steps):
    """In every step: the first one does not write where the plan says, later ones do."""
    torch.manual_seed(0)
    model = Scaled(getattr(torch.nn, loss)(reduction=reduction))
    example = (torch.rand(3, 4), torch.rand(3, 4))
    evaluated, lowered = losses_of_steps("loss", model, example, {"x": torch.rand(12, 4), "y": torch.rand(12, 4)})
    assert evaluated == lowered


class Standardized(torch.nn.Module):
    """A layer whose weights are standardized in each step, as convolutions of networks without normalization are."""

    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.randn(6, 4))
        self.gain = torch.nn.Parameter(torch.ones(6))

    def forward(self, x):
        weight = F.batch_norm(self.weight[None], None, None, weight=self.gain, training=True, momentum=0.0)
        return F.linear(x, weight[0])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_workspace_of_a_results_size(dtype, losses_of_steps):
    """Kernels that are given where to write allocate as much beside it: never a result's own memory."""
    torch.manual_seed(0)
    model, labels = Standardized().to(dtype), torch.randint(6, (3,))
    evaluated, lowered = losses_of_steps(
        "standardized", model, (torch.randn(3, 4, dtype=dtype),),
        {"x": torch.randn(12, 4, dtype=dtype), "target": torch.randint(6, (12,))},
        loss=F.cross_entropy, targets=(labels,),
    )  # fmt: skip
    assert evaluated == lowered


VIEW = """
module @view {
  func.func @microbatch(%x: tensor<4x8xf32> {train.role = #train.role<input "x">})
      -> (tensor<32xf32> {train.role = #train.role<output "0">},
          tensor<32xf32> {train.role = #train.role<output "1">})
      attributes {train.phase = #train.phase<microbatch>} {
    %0 = aten.t(%x) : (tensor<4x8xf32>) -> tensor<8x4xf32>
    %1 = aten.exp(%0) : (tensor<8x4xf32>) -> tensor<8x4xf32>
    %2 = aten.view(%1, size = [32]) : (tensor<8x4xf32>) -> tensor<32xf32>
    %3 = aten.neg(%2) : (tensor<32xf32>) -> tensor<32xf32>
    %4 = aten.exp(%1) : (tensor<8x4xf32>) -> tensor<8x4xf32>
    %5 = aten.view(%4, size = [32]) : (tensor<8x4xf32>) -> tensor<32xf32>
    return %3, %5 : tensor<32xf32>, tensor<32xf32>
  }
}
"""


@pytest.mark.parametrize("passes", [[], [LOWER], [FUSE, LOWER]], ids=["plain", "lowered", "fused"])
def test_a_view_that_strides_do_not_allow_copies(passes, build_dir, cleave_run, tmp_path):
    """The plan takes it for a view; what it is laid over stays unchanged."""
    program, output = tmp_path / "view.mlir", tmp_path / "output.mlir"
    program.write_text(VIEW)
    subprocess.run([build_dir / "bin" / "cleave-opt", program, *passes, "-o", output], check=True)
    x = torch.randn(4, 8, generator=torch.Generator().manual_seed(4))
    check = ["--check", "memory"] if passes else []
    found = cleave_run.evaluate(output, {"x": x}, tmp_path, *check)
    assert torch.equal(found["output.0"], -x.t().exp().reshape(32))
    assert torch.equal(found["output.1"], x.t().exp().exp().reshape(32))


@pytest.fixture(scope="module")
def data(program, tmp_path_factory):
    """A file with data for 3 steps of 8 microbatches in all."""

    def write(name):
        spec, _ = program(name)
        path = tmp_path_factory.mktemp("data") / "data.safetensors"
        batch = testing.random_batch(spec, 8, torch.Generator().manual_seed(1))
        save_file({n: t.contiguous() for n, t in batch.items()}, path)
        return path

    return write


def compare_training(build_dir, programs, data, folder, *options):
    """Losses and state after training with each program; what the second one reported."""
    results = []
    unplanned = [o for o in options if o not in ("--check", "memory")]  # has nothing to check
    for name, path, options in zip(["plain", "lowered"], programs, [unplanned, options]):
        out = folder / name
        metrics = folder / f"{name}.jsonl"
        text = train(build_dir, path, "--data", f"safetensors:{data}", "--seed", 5, "--threads", 1,
                     "--metrics", metrics, "--checkpoint", out, *options)  # fmt: skip
        results.append((losses(metrics), checkpoint_tensors(newest_checkpoint(out))))
    (expected_losses, expected), (found_losses, found) = results
    assert found_losses == expected_losses
    assert found.keys() == expected.keys()
    for key in expected:
        assert torch.equal(found[key], expected[key]), key
    return text


UNITS = {"B": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30}


def read_memory(text):
    """Planned and measured bytes of "memory: 1.5 MiB planned, 1.4 MiB measured, and ..."."""
    found = re.search(r"memory: ([\d.]+) (\w+) planned, ([\d.]+) (\w+) measured", text)
    assert found, text
    planned, unit, measured, other = found.groups()
    return float(planned) * UNITS[unit], float(measured) * UNITS[other]


@covered(
    {
        "name": ["gpt_tied", "gpt_dropout", "llama", "minilm", "moe", "resnet18"],
        "passes": {"unfused": [], "fused": [FUSE]},
    },
    strength=1,
)  # fmt: skip
def test_training_in_planned_memory(name, passes, program, lower, data, build_dir, tmp_path):
    _, path = program(name)
    programs = lower(path, *passes)
    text = compare_training(build_dir, programs, data(name), tmp_path,
                            "--steps", 3, "--microbatches", 2)  # fmt: skip
    planned, measured = read_memory(text)
    assert planned == pytest.approx(measured, rel=0.05)
    rows = read_metrics(tmp_path / "lowered.jsonl")
    # Rounded to a tenth of the unit in the line.
    assert max(row["memory_bytes"] for row in rows[1:]) == pytest.approx(measured, rel=0.05)
    assert all(row["workspace_bytes"] >= 0 for row in rows)
    plain = read_metrics(tmp_path / "plain.jsonl")[0]
    assert plain["memory_bytes"] > 0 and "workspace_bytes" not in plain


SPLIT = ["--partition-joint", "--split-backward"]
SYNC = ["--sync-gradients=axis=dp", "--bucket-gradients=bucket-size-mb=0.02 first-bucket-mb=0.01",
        "--overlap-communication"]  # fmt: skip
# Microbatches in flight have a frame each: two of the first stage by 1F1B, more of two stages a rank.
ONE_F_ONE_B, INTERLEAVED, ZERO_BUBBLE = (
    schedule_passes(schedule, 2, microbatches=2)
    for schedule in ["1f1b", "interleaved-1f1b", "zb-h1"]
)


@pytest.fixture(scope="module")
def sharded(tmp_path_factory):
    """A pass that annotates all parameters as sharded over two ranks."""
    path = tmp_path_factory.mktemp("plan") / "plan.json"
    Plan({"dp": 2}, {"": FSDP()}).write(path)
    return f"--annotate-placements=plan={path}"


BUCKETS = ["--split-fsdp-collectives", "--bucket-gradients"]


@pytest.mark.parametrize("more", [[], ["--overlap-communication"], BUCKETS], ids=["waiting", "overlapped", "buckets"])
def test_sharded_parameters(more, program, lower, sharded, data, build_dir, tmp_path):
    _, path = program("llama")
    passes = [sharded, "--propagate-placements", "--partition", *more]
    text = compare_training(build_dir, lower(path, *passes), data("llama"), tmp_path,
                            "--steps", 2, "--microbatches", 2, "--ranks", 2)  # fmt: skip
    # What the communication backend's threads ask for is workspace. A bucket has its shard of the sums beside it.
    planned, measured = read_memory(text)
    assert planned == pytest.approx(measured, rel=0.05)


@pytest.mark.parametrize("name,passes,options", [
    ("gpt_dropout", SPLIT, ["--weight-gradients", "deferred", "--check", "memory"]),
    ("llama", SYNC, ["--ranks", 2, "--ranks-as", "threads"]),
    ("gpt_untied", SYNC, ["--ranks", 2, "--ranks-as", "processes"]),
], ids=["deferred", "buckets-threads", "buckets-processes"])  # fmt: skip
def test_training_in_parts(name, passes, options, program, lower, data, build_dir, tmp_path):
    _, path = program(name)
    compare_training(build_dir, lower(path, *passes), data(name), tmp_path,
                     "--steps", 2, "--microbatches", 2, *options)  # fmt: skip


@pytest.mark.parametrize("name,passes,options", [
    ("gpt_tied", ONE_F_ONE_B, []),
    ("llama", INTERLEAVED, []),
    ("gpt_tied", ZERO_BUBBLE, []),
    ("llama", ZERO_BUBBLE, ["--check", "memory"]),
], ids=["1f1b", "interleaved", "zero-bubble", "poisoned"])  # fmt: skip
def test_pipelines_in_frames(name, passes, options, program, lower, data, build_dir, tmp_path):
    _, path = program(name)
    programs = lower(path, *passes)
    assert "#exec.frame<" in programs[1].read_text()
    text = compare_training(build_dir, programs, data(name), tmp_path, "--ranks", 2,
                            "--steps", 2, "--microbatches", 2, *options)  # fmt: skip
    planned, measured = read_memory(text)
    assert planned == pytest.approx(measured, rel=0.05)


def test_resumed_training_goes_on(program, lower, data, build_dir, tmp_path):
    _, path = program("gpt_dropout")
    _, lowered = lower(path)
    options = ["--data", f"safetensors:{data('gpt_dropout')}", "--seed", 5, "--threads", 1,
               "--microbatches", 2]  # fmt: skip
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    train(build_dir, lowered, *options, "--steps", 3, "--checkpoint", whole)
    train(build_dir, lowered, *options, "--steps", 1, "--checkpoint", parts)
    train(build_dir, lowered, *options, "--steps", 3, "--checkpoint", parts, "--resume")
    expected = checkpoint_tensors(newest_checkpoint(whole))
    found = checkpoint_tensors(newest_checkpoint(parts))
    for key in expected:
        assert torch.equal(found[key], expected[key]), key
