"""Checkpoints are PyTorch's state dicts: what `load_state_dict(strict=True)` takes, whatever the program's form."""

import pytest
import torch
import training
from safetensors.torch import load_file, save_file
from torch import nn

import cleave

TEXT = "/usr/share/common-licenses/GPL-3"


class Model(nn.Module):
    """Weights under three names, a table that depends on the length, counters of both kinds."""

    def __init__(self, length=8, width=16):
        super().__init__()
        self.embed, self.mix = nn.Embedding(256, width), nn.Linear(width, width)
        self.head, self.third = nn.Linear(width, 256, bias=False), nn.Module()
        self.head.weight = self.third.weight = self.embed.weight
        self.register_buffer("table", torch.linspace(0, 1, length)[:, None].expand(length, width).clone(),
                             persistent=False)  # fmt: skip
        self.register_buffer("seen", torch.zeros(()))
        self.register_buffer("pace", torch.ones(()), persistent=False)
        self.twin = nn.Module()
        self.twin.register_buffer("shared", self.seen)

    def forward(self, tokens):
        self.seen.add_(1)
        self.pace.mul_(0.9)
        return self.head(torch.tanh(self.mix(self.embed(tokens) * self.pace + self.table)))


def make_spec(length=8):
    torch.manual_seed(1)
    module = Model(length)
    tokens = torch.randint(256, (2, length))
    return cleave.ExportSpec(
        module, (tokens,), targets=(tokens.clone(),),
        loss=lambda out, y: nn.functional.cross_entropy(out.flatten(0, 1), y.flatten()),
        optimizer=torch.optim.AdamW(module.parameters(), lr=1e-2), name=f"model{length}",
    )  # fmt: skip


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    spec = make_spec()
    return spec, cleave.export_spec(spec, tmp_path_factory.mktemp("exported"))


FORMS = {
    "joint": ([], []),
    "ranks": (["--sync-gradients=axis=dp"], ["--ranks", 2]),
    "stages": (["--outline-stages=count=2 balance=cost",
                "--build-schedule=schedule=1f1b ranks=2 microbatches=2", "--insert-p2p"], ["--ranks", 2]),
    "lowered": (["--lower-to-exec"], []),
}  # fmt: skip


def train_two_steps(build_dir, folder, source, form):
    """What cleave-run was told of program and data, and the checkpoint."""
    passes, options = FORMS[form]
    program = folder / "program.mlir"
    training.optimize(build_dir, source, *passes, "-o", program)
    run = [program, "--weights", source.with_suffix(".safetensors"), "--data", f"text:{TEXT}", *options]
    training.train(build_dir, *run, "--steps", 2, "--checkpoint", folder / "run")
    return run, training.newest_checkpoint(folder / "run")


@pytest.mark.parametrize("form", FORMS)
def test_checkpoint_loads_strictly(build_dir, tmp_path, exported, form):
    spec, source = exported
    run, checkpoint = train_two_steps(build_dir, tmp_path, source, form)
    saved = training.checkpoint_group(checkpoint)
    assert saved.keys() == spec.module.state_dict().keys()
    module = training.load_strictly(spec, checkpoint)
    assert not torch.equal(module.embed.weight, spec.module.embed.weight)
    assert module.head.weight is module.embed.weight

    # It goes on from there as if it had not stopped, the counter outside of the state dict included.
    training.train(build_dir, *run, "--steps", 4, "--checkpoint", tmp_path / "run", "--resume",
                   "--metrics", tmp_path / "a")  # fmt: skip
    training.train(build_dir, *run, "--steps", 4, "--metrics", tmp_path / "b")
    assert training.losses(tmp_path / "a") == training.losses(tmp_path / "b")[2:]


def test_weights_of_a_checkpoint(build_dir, tmp_path, exported):
    """What state dicts leave out comes from beside the program."""
    spec, program = exported
    run = [program, "--data", f"text:{TEXT}", "--lr", 0, "--steps", 1]
    training.train(build_dir, *run, "--checkpoint", tmp_path / "run", "--metrics", tmp_path / "a")
    checkpoint = training.newest_checkpoint(tmp_path / "run")
    for weights in (checkpoint, checkpoint / "model.safetensors"):
        training.train(build_dir, *run, "--weights", weights, "--metrics", tmp_path / "b")
        assert training.losses(tmp_path / "b") == training.losses(tmp_path / "a")
    # PyTorch's own state dict is taken as well.
    save_file({n: t.clone() for n, t in spec.module.state_dict().items()}, tmp_path / "torch.safetensors")
    training.train(build_dir, *run, "--weights", tmp_path / "torch.safetensors", "--metrics", tmp_path / "b")
    assert training.losses(tmp_path / "b") == training.losses(tmp_path / "a")
    alone = tmp_path / "alone.mlir"
    alone.write_bytes(program.read_bytes())
    result = training.run(build_dir, alone, *run[1:], "--weights", checkpoint)
    assert result.returncode == 1
    assert "which state dicts omit, is not in it and cannot be read from next to the program" in result.stderr


def test_another_length_resumes(build_dir, tmp_path):
    """Nothing in the checkpoint depends on the length of the sequences."""
    programs = [cleave.export_spec(make_spec(length), tmp_path) for length in (8, 4)]
    run = ["--data", f"text:{TEXT}", "--checkpoint", tmp_path / "run", "--resume"]
    training.train(build_dir, programs[0], *run, "--steps", 2)
    output = training.train(build_dir, programs[1], *run, "--steps", 3)
    assert "resuming after step 2" in output


@pytest.mark.parametrize("name", ["gpt_tied", "llama", "resnet18", "minilm"])
def test_models_of_the_project(build_dir, tmp_path, model, name):
    subject = model(name)
    batches = training.random_batches(subject.spec, 1, 1, 0)
    data = training.save_batches(subject.spec, batches, tmp_path / "data.safetensors")
    training.train(build_dir, subject.program, "--steps", 1, "--data", f"safetensors:{data}",
                   "--checkpoint", tmp_path / "run")  # fmt: skip
    training.load_strictly(subject.spec, training.newest_checkpoint(tmp_path / "run"))


class Margins(nn.Module):
    """A loss with a state of its own, and with a weight of the model."""

    def __init__(self, model):
        super().__init__()
        self.scale = nn.Parameter(torch.tensor(1.5))
        self.head = model.head
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, out, y):
        self.calls.add_(1)
        scores = self.scale * out.flatten(0, 1)
        return nn.functional.cross_entropy(scores, y.flatten()) + 0.1 * self.head.weight.square().mean()


class WithLoss(Model):
    """A model that has a module with that name."""

    def __init__(self):
        super().__init__()
        self.loss = nn.Linear(16, 16)

    def forward(self, tokens):
        return self.head(self.loss(self.mix(self.embed(tokens))))


@pytest.mark.parametrize("form", FORMS)
def test_loss_with_a_state_loads_strictly(build_dir, tmp_path, form):
    """The model's file holds the model's state, the loss's file the loss's."""
    torch.manual_seed(1)
    module = WithLoss()
    loss, tokens = Margins(module), torch.randint(256, (2, 8))
    parameters = {id(p): p for p in [*module.parameters(), *loss.parameters()]}
    spec = cleave.ExportSpec(
        module, (tokens,), targets=(tokens.clone(),), loss=loss, name="margins",
        optimizer=torch.optim.AdamW(parameters.values(), lr=1e-2))  # fmt: skip
    source = cleave.export_spec(spec, tmp_path)
    run, checkpoint = train_two_steps(build_dir, tmp_path, source, form)
    trained = training.load_strictly(spec, checkpoint)
    own = training.checkpoint_group(checkpoint, "loss")
    assert own["calls"] > 0 and own["scale"] != 1.5
    loss.load_state_dict(own, strict=True)
    assert torch.equal(own["head.weight"], trained.head.weight)

    # Both are there for a run that goes on, or that begins with these weights.
    training.train(build_dir, *run, "--steps", 4, "--checkpoint", tmp_path / "run", "--resume",
                   "--metrics", tmp_path / "a")  # fmt: skip
    training.train(build_dir, *run, "--steps", 4, "--metrics", tmp_path / "b")
    assert training.losses(tmp_path / "a") == training.losses(tmp_path / "b")[2:]
    if form == "joint":
        fresh = ["--data", f"text:{TEXT}", "--steps", 1, "--metrics", tmp_path / "c"]
        training.train(build_dir, source, *fresh, "--weights", checkpoint)
        together = load_file(source.with_suffix(".safetensors")) | load_file(checkpoint / "model.safetensors")
        together |= {f"loss.{name}": tensor for name, tensor in own.items()}
        save_file(together, tmp_path / "all.safetensors")
        training.train(build_dir, source, *fresh[:-1], tmp_path / "d", "--weights", tmp_path / "all.safetensors")
        assert training.losses(tmp_path / "c") == training.losses(tmp_path / "d")
