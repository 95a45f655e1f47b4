"""--init trains from a module's own initialisation, which is that of constructing it."""

import os
import sys

import cleave_path  # noqa: F401
import cleave
import cleave.init.__main__
import pytest
import torch
from safetensors.torch import load_file, save_file

FACTORY = """
import torch, cleave
from torch import nn

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(32, 8)
        self.layers = nn.Sequential(nn.Linear(8, 8), nn.BatchNorm1d(6), nn.GELU(), nn.Linear(8, 32))
        self.register_buffer("scale", torch.full((8,), 0.5), persistent=False)

    def forward(self, tokens):
        return self.layers(self.embedding(tokens) * self.scale + torch.tensor([1.0] * 8))

def loss(logits, targets):
    return nn.functional.cross_entropy(logits.reshape(-1, 32), targets.reshape(-1))

def make(device="meta"):
    with torch.device(device):
        model = Model()
    tokens, targets = torch.zeros(2, 6, dtype=torch.int64), torch.zeros(2, 6, dtype=torch.int64)
    return cleave.ExportSpec(
        model, (tokens,), loss=loss, targets=(targets,), name="m",
        optimizer=torch.optim.SGD(model.parameters(), lr=0.1),
    )

def unfilled():
    spec = make()
    spec.module.weight = nn.Parameter(torch.empty(3, device="meta"))
    return spec
"""


@pytest.fixture
def exported(tmp_path, monkeypatch):
    """The file of the factory, the program without weights, the module with its own."""
    monkeypatch.setenv("CLEAVE_PYTHON", sys.executable)
    monkeypatch.setenv("PYTHONPATH", str(cleave_path.SOURCE / "python"), prepend=os.pathsep)
    file = tmp_path / "factory.py"
    file.write_text(FACTORY)
    scope = {}
    exec(compile(FACTORY, str(file), "exec"), scope)  # noqa: S102
    with pytest.warns(cleave.ExportNote, match="had no values"):
        program = cleave.export_spec(scope["make"](), tmp_path)
    torch.manual_seed(7)
    return file, program, scope["make"]("cpu")


def test_training_from_nothing_is_training_the_constructed_module(tmp_path, exported, cleave_run):
    file, program, spec = exported
    save_file(cleave.testing.random_batch(spec, 4, torch.Generator().manual_seed(1)), tmp_path / "data.safetensors")
    data = ["--data", f"safetensors:{tmp_path / 'data.safetensors'}", "--steps", 2, "--microbatches", 2, "--ranks", 1]
    cleave_run.succeed(program, "--init", f"{file}:make", "--seed", 7, *data, "--checkpoint", tmp_path / "run")
    state = spec.module.state_dict()
    initial = load_file(program.with_suffix(".init.safetensors"))
    assert initial.keys() == state.keys() | {"scale"}
    assert all(torch.equal(initial[name], tensor) for name, tensor in state.items())

    given = tmp_path / "given.safetensors"
    save_file({**state, "scale": spec.module.scale}, given)
    cleave_run.succeed(program, "--weights", given, "--seed", 7, *data, "--checkpoint", tmp_path / "other")
    ours, theirs = (load_file(tmp_path / run / "step-00000002" / "model.safetensors") for run in ("run", "other"))
    assert ours.keys() == theirs.keys() and all(torch.equal(ours[name], tensor) for name, tensor in theirs.items())
    assert any(not torch.equal(ours[name], state[name]) for name in state)


def test_what_cannot_be_initialised_is_refused(tmp_path, exported, cleave_run, monkeypatch):
    file, program, spec = exported
    save_file(cleave.testing.example_inputs(spec), tmp_path / "inputs.safetensors")
    inputs = ["--inputs", tmp_path / "inputs.safetensors", "--dump", tmp_path / "dump.safetensors"]
    message = cleave_run.fail(program, "--init", f"{file}:unfilled", *inputs)
    assert "--init: constructing Model gives 1 of its parameters and buffers no values: 'weight'; expected" in message
    assert message.count("\n") == 1
    assert "expected it without --weights" in cleave_run.fail(program, "--init", "x", "--weights", "y", *inputs)
    cleave_run.succeed(program, "--init", f"{file}:none", "--dry-run")
    monkeypatch.setenv("CLEAVE_PYTHON", str(tmp_path / "none"))
    assert "expected a Python with PyTorch in PATH" in cleave_run.fail(program, "--init", f"{file}:make", *inputs)
    monkeypatch.setenv("RANK", "0")
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setenv("MASTER_ADDR", "localhost")
    monkeypatch.setenv("MASTER_PORT", "29511")
    assert "expected --init in a single process" in cleave_run.fail(program, "--init", f"{file}:make", *inputs)
    assert not program.with_suffix(".init.safetensors").exists() and not (tmp_path / "dump.safetensors").exists()


def test_the_command_line_names_the_mistake(tmp_path, exported, capsys):
    file, _, _ = exported
    target = tmp_path / "w.safetensors"
    assert cleave.init.__main__.main([f"{file}:unfilled", "-o", str(target)]) == 1
    assert capsys.readouterr().err.startswith("error: constructing Model gives 1 of")
    assert cleave.init.__main__.main([f"{file}:none", "-o", str(target)]) == 1
    assert "has no function 'none'; it has loss, make, unfilled" in capsys.readouterr().err
    assert not target.exists()
    assert cleave.init.__main__.main([f"{file}:make", "-o", str(target)]) == 0 and target.exists()
