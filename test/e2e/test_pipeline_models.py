"""First-step values of scheduled models: loss, outputs, gradients and buffers, bit for bit."""

import pytest
import torch
from pipelines import SPLIT, pipelines, schedule_passes, write_batch  # noqa: F401
from safetensors.torch import load_file
from test_stages import crossings  # noqa: F401

import cleave


@pytest.mark.parametrize("name", ["resnet18", "llama", "gpt_untied_dropout"])
def test_models_in_pipelines(name, model, pipelines, cleave_run, tmp_path):  # noqa: F811
    """ResNet's statistics are carried from microbatch to microbatch, whatever runs in between."""
    exported = model(name)
    batch = write_batch(exported.spec, tmp_path / "batch.safetensors")
    for schedule in ("1f1b", "zbv"):
        path = pipelines.schedule(exported.program, schedule, 2)
        cleave_run.succeed(path, "--ranks", 2, "--inputs", batch, "--seed", 3, "--timeout", 60,
                           "--against", exported.program)  # fmt: skip


@pytest.mark.parametrize("schedule", ["1f1b", "zb-h1"])
def test_everything_crosses_between_ranks(schedule, crossings, pipelines, cleave_run, tmp_path):  # noqa: F811
    """A skip, an integer, a boolean, tied and frozen weights, batch norm: three ranks."""
    spec, source = crossings
    path = pipelines.make(source, f"crossings.{schedule}",
                          *schedule_passes(schedule, 3, stages="recompute=views"))  # fmt: skip
    batch = write_batch(spec, tmp_path / "batch.safetensors")
    cleave_run.succeed(path, "--ranks", 3, "--inputs", batch, "--against", source)
    data = write_batch(spec, tmp_path / "data.safetensors", 12)
    cleave_run.succeed(path, "--ranks", 3, "--steps", 3, "--data", f"safetensors:{data}",
                       "--against", source)  # fmt: skip


def test_inference_in_a_loop(pipelines, cleave_run, tmp_path):  # noqa: F811
    """A forward-only program: outputs of all microbatches, one after another."""
    torch.manual_seed(0)
    model = torch.nn.Sequential(*(torch.nn.Linear(4, 4) for _ in range(4)))
    spec = cleave.ExportSpec(model, (torch.randn(3, 4),), mode="forward", name="inference")
    source = cleave.export_spec(spec, tmp_path)
    path = pipelines.make(
        source, "inference", "--outline-stages=at=1,2,3",
        "--build-schedule=schedule=looped-bfs ranks=2 microbatches=3 forward-only=true",
        "--insert-p2p")  # fmt: skip
    batch = write_batch(spec, tmp_path / "batch.safetensors", 3)
    dump = tmp_path / "dump.safetensors"
    cleave_run.succeed(path, "--ranks", 2, "--inputs", batch, "--dump", dump)
    output = load_file(dump)["output.0"]
    (examples,) = load_file(batch).values()
    # A file's bytes lie anywhere, and products of unaligned memory round in another way.
    expected = torch.cat([model(part.clone()) for part in examples.split(3)])
    assert torch.equal(output, expected.detach())
    cleave_run.succeed(path, "--ranks", 2, "--inputs", batch, "--against", source)


def test_gradients_that_are_not_accumulated(pipelines, cleave_run, tmp_path):  # noqa: F811
    """Those of several microbatches would be the last one's: refused."""
    torch.manual_seed(0)
    model = torch.nn.Sequential(*(torch.nn.Linear(4, 4) for _ in range(2)))
    spec = cleave.ExportSpec(model, (torch.randn(3, 4),), loss=lambda y: y.square().mean(), name="plain")
    source = cleave.export_spec(spec, tmp_path)
    path = pipelines.make(source, "plain", *schedule_passes("1f1b", 2, 2, stages="at=1"))
    batch = write_batch(spec, tmp_path / "batch.safetensors", 2)
    message = cleave_run.fail(path, "--ranks", 2, "--inputs", batch)
    assert "does not accumulate the gradient of" in message and "not 2" in message
