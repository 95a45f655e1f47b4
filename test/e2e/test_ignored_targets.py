"""Targets that the loss ignores: padding, as PyTorch's data sets mark it."""

import pytest
import torch
import training
from safetensors.torch import load_file, save_file
from torch import nn

import cleave
from cleave import testing

VOCABULARY, LENGTH, ROWS = 11, 6, 4


class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.head = nn.Embedding(VOCABULARY, 8), nn.Linear(8, VOCABULARY)

    def forward(self, tokens):
        return self.head(torch.tanh(self.embed(tokens)))


def export(folder, ignore):
    torch.manual_seed(0)
    module = Tagger()
    loss = nn.CrossEntropyLoss(ignore_index=ignore)
    tokens = torch.randint(VOCABULARY, (ROWS, LENGTH))
    spec = cleave.ExportSpec(
        module, (tokens,), targets=(tokens.clone(),),
        loss=lambda out, target: loss(out.flatten(0, 1), target.flatten()),
        optimizer=torch.optim.SGD(module.parameters(), lr=0.1), name=f"tagger{abs(ignore)}",
    )  # fmt: skip
    return spec, cleave.export_spec(spec, folder)


def padded_batches(spec, ignore, steps):
    generator = torch.Generator().manual_seed(3)
    batches = [testing.random_batch(spec, 1, generator) for _ in range(steps)]
    (target,) = [source.name for source in testing.Signature(spec).inputs if source.is_target]
    for batch in batches:
        batch[target] = torch.where(torch.rand(ROWS, LENGTH, generator=generator) < 0.4, ignore,
                                    batch[target] % VOCABULARY)  # fmt: skip
        batch[target][0, 0] = ignore
    return target, batches


@pytest.mark.parametrize("ignore", [-100, -1, 255])
def test_padded_targets_train_as_in_eager_mode(build_dir, tmp_path, ignore):
    spec, program = export(tmp_path, ignore)
    target, batches = padded_batches(spec, ignore, 3)
    data = training.save_batches(spec, batches, tmp_path / "data.safetensors")
    training.train(build_dir, program, "--steps", 3, "--data", f"safetensors:{data}", "--threads", 1,
                   "--metrics", tmp_path / "m")  # fmt: skip
    assert training.losses(tmp_path / "m") == testing.train(spec, batches).losses
    # --vocabulary is about tokens; it takes nothing from what the loss ignores.
    training.train(build_dir, program, "--steps", 1, "--data", f"safetensors:{data}", "--vocabulary", VOCABULARY)

    tensors = load_file(data)
    tensors[target][1, 2] = VOCABULARY
    save_file(tensors, data)
    result = training.run(build_dir, program, "--steps", 1, "--data", f"safetensors:{data}")
    assert result.returncode == 1
    assert (
        f'data.safetensors: target "{target}": token {VOCABULARY} at position {LENGTH + 2} is outside the '
        f"vocabulary of {VOCABULARY} (0 to {VOCABULARY - 1}, or {ignore}, which the loss ignores)"
    ) in result.stderr


def test_what_another_loss_ignores_is_refused(build_dir, tmp_path):
    spec, program = export(tmp_path, -1)
    target, batches = padded_batches(spec, -100, 1)
    data = training.save_batches(spec, batches, tmp_path / "data.safetensors")
    result = training.run(build_dir, program, "--steps", 1, "--data", f"safetensors:{data}")
    assert result.returncode == 1 and f'target "{target}": token -100' in result.stderr


def test_inputs_have_no_value_to_ignore(build_dir, tmp_path):
    spec, program = export(tmp_path, -100)
    target, batches = padded_batches(spec, -100, 1)
    (name,) = batches[0].keys() - {target}
    batches[0][name][2, 1] = -100
    data = training.save_batches(spec, batches, tmp_path / "data.safetensors")
    result = training.run(build_dir, program, "--steps", 1, "--data", f"safetensors:{data}")
    assert result.returncode == 1
    assert f'input "{name}": token -100 at position {2 * LENGTH + 1}' in result.stderr
    assert "ignores" not in result.stderr


@pytest.mark.parametrize("vocabulary", [0, -1])
def test_vocabulary_is_positive(build_dir, tmp_path, vocabulary):
    spec, program = export(tmp_path, -100)
    result = training.run(build_dir, program, "--steps", 1, "--data", "text:/etc/passwd", f"--vocabulary={vocabulary}")
    assert result.returncode == 1
    assert f"error: expected --vocabulary of at least 1, found {vocabulary}" in result.stderr
