"""Token sources for models that take labels beside the tokens and shift them, as Hugging Face's do."""

import cleave
import pytest
import torch
import training
from cleave import testing
from cleave.data import TextBatches
from torch import nn

TEXT, ROWS, LENGTH = "/usr/share/common-licenses/GPL-3", 2, 12


class Causal(nn.Module):
    def __init__(self):
        super().__init__()
        from transformers import GPT2Config, GPT2LMHeadModel

        torch.manual_seed(0)
        self.model = GPT2LMHeadModel(GPT2Config(
            vocab_size=256, n_positions=LENGTH, n_embd=16, n_layer=1, n_head=2, resid_pdrop=0, embd_pdrop=0, attn_pdrop=0,
            attn_implementation="eager"))  # fmt: skip

    def forward(self, input_ids, labels, attention_mask=None):
        return self.model(input_ids=input_ids, labels=labels, attention_mask=attention_mask, use_cache=False).loss


def make_spec(*, mask):
    module = Causal()
    tokens = torch.randint(256, (ROWS, LENGTH))
    inputs = {"input_ids": tokens, "labels": tokens.clone()}
    if mask:
        inputs["attention_mask"] = torch.ones_like(tokens)
        inputs["attention_mask"][0, 0] = 0  # eager mode leaves out a mask of ones
    return cleave.ExportSpec(
        module, (), kwargs=inputs, optimizer=torch.optim.AdamW(module.parameters(), lr=1e-3), name="causal", mode="joint"
    )


@pytest.mark.parametrize("mask", [False, True])
def test_labels_are_the_tokens(build_dir, tmp_path, mask):
    spec = make_spec(mask=mask)
    program = cleave.export_spec(spec, tmp_path)
    run = [program, "--data", f"text:{TEXT}", "--steps", 3, "--threads", 1, "--seed", 5, "--metrics", tmp_path / "m"]
    result = training.run(build_dir, *run)
    assert result.returncode == 1 and "token data fills one integer input [batch, time]" in result.stderr
    assert '--documents "labels=tokens" for labels that the model shifts, or safetensors:PATH' in result.stderr
    training.train(build_dir, *run, "--documents", "labels=tokens" + (" attention_mask=ones" if mask else ""))
    source = TextBatches([TEXT], ROWS, LENGTH, seed=5)
    batches = []
    for step in (1, 2, 3):
        tokens, _ = source.microbatch(step)
        batches.append({"input_ids": tokens, "labels": tokens, **({"attention_mask": torch.ones_like(tokens)} if mask else {})})
    assert training.losses(tmp_path / "m") == pytest.approx(testing.train(spec, batches).losses, rel=1e-6)


def test_documents_need_an_end(build_dir, tmp_path):
    program = cleave.export_spec(make_spec(mask=True), tmp_path)
    run = [program, "--data", f"text:{TEXT}", "--steps", 1]
    result = training.run(build_dir, *run, "--documents", "labels=tokens attention_mask=ids")
    assert result.returncode == 1 and "expected end=TOKEN" in result.stderr
    result = training.run(build_dir, *run, "--documents", "labels=tokens")
    assert result.returncode == 1 and "found \"input_ids\" and \"attention_mask\"" in result.stderr
    training.train(build_dir, *run, "--documents", "end=10 labels=tokens attention_mask=ones")
