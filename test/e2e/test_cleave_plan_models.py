"""cleave-plan on models of other kinds than decoders: what it finds trains as one rank does, and no plan is below its bound."""

import float64
import pytest
import torch
import torchvision
import transformers
from combinations_cover import part_of_today
from matrix_runs import STEPS
from test_cleave_plan import BATCH, MICROBATCHES, check_commands, check_training, find, one_rank, tool  # noqa: F401

import cleave


class Translator(torch.nn.Module):
    """An encoder and a decoder, all of whose layers attend to what the encoder makes."""

    def __init__(self):
        super().__init__()
        config = transformers.PegasusConfig(
            vocab_size=64, d_model=16, encoder_layers=4, decoder_layers=4, encoder_attention_heads=2, decoder_attention_heads=2,
            encoder_ffn_dim=32, decoder_ffn_dim=32, max_position_embeddings=16, dropout=0.0, attention_dropout=0.0, activation_dropout=0.0,
        )  # fmt: skip
        self.model = transformers.PegasusForConditionalGeneration(config)

    def forward(self, source, target):
        return self.model(input_ids=source, decoder_input_ids=target, use_cache=False).logits


def translator(batch):
    module = Translator()
    source, target, labels = torch.randint(64, (3, batch, 8))
    return cleave.ExportSpec(
        module, (source, target), loss=lambda scores, labels: torch.nn.functional.cross_entropy(scores.flatten(0, 1), labels.flatten()),
        targets=(labels,), optimizer=torch.optim.AdamW(module.parameters(), lr=1e-3), name="translator",
    )  # fmt: skip


def shuffler(batch):
    """Convolutions in groups, which shuffle their channels."""
    module = torchvision.models.ShuffleNetV2([2, 2, 2], [8, 16, 32, 64, 64], num_classes=10)
    return cleave.ExportSpec(
        module, (torch.randn(batch, 3, 32, 32),), loss=torch.nn.functional.cross_entropy, targets=(torch.randint(10, (batch,)),),
        optimizer=torch.optim.SGD(module.parameters(), lr=1e-2, momentum=0.9), name="shuffler",
    )  # fmt: skip


class Perceptron(torch.nn.Module):
    """Of all tokens, or of the first alone, with a scale of its own."""

    def __init__(self, takes_first):
        super().__init__()
        self.takes_first = takes_first
        self.norm, self.up, self.down = torch.nn.LayerNorm(16), torch.nn.Linear(16, 32), torch.nn.Linear(32, 16)
        self.scale = torch.nn.Parameter(torch.full((16,), 0.5))

    def forward(self, tokens):
        found = tokens[:, :1] if self.takes_first else tokens
        found = found + self.scale * self.down(torch.nn.functional.gelu(self.up(self.norm(found))))
        return torch.cat([found, tokens[:, 1:]], dim=1) if self.takes_first else found


class Classifier(torch.nn.Module):
    """Norms of tokens, of one token, and of none. Layers get gradients of slices of what they passed on."""

    def __init__(self):
        super().__init__()
        self.embed, self.norm, self.head = torch.nn.Linear(8, 16), torch.nn.LayerNorm(16), torch.nn.Linear(16, 4)
        self.layers = torch.nn.ModuleList(Perceptron(takes_first) for takes_first in (False, True, False, True, False))

    def forward(self, patches):
        tokens = self.embed(patches)
        for layer in self.layers:
            tokens = layer(tokens)
        return self.head(self.norm(tokens[:, 0]))


def classifier(batch):
    module = Classifier()
    return cleave.ExportSpec(
        module, (torch.randn(batch, 6, 8),), loss=torch.nn.functional.cross_entropy, targets=(torch.randint(4, (batch,)),),
        optimizer=torch.optim.AdamW(module.parameters(), lr=1e-3), name="classifier",
    )  # fmt: skip


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    def make(model, batch):
        torch.manual_seed(0)
        return float64.doubled({"translator": translator, "shuffler": shuffler, "classifier": classifier}[model](batch))

    get = float64.exporter_with_data(make, STEPS * MICROBATCHES, tmp_path_factory)
    return lambda model: get(model, BATCH)


# The backward needs the encoder's table of inputs only to recompute what is looked up in it.
CASES = [
    ("translator", 2, "cp=2,parameters=fsdp,recompute=cheap"),
    ("translator", 4, "pp=2,dp=2,parameters=fsdp-once,recompute=cheap,schedule=1f1b"),
    ("translator", 2, "tp=2"),
    ("shuffler", 2, "tp=2"),
    ("shuffler", 2, "dp=2,parameters=fsdp"),
    ("classifier", 2, "tp=2,sequence=yes"),
]


@pytest.mark.parametrize("model,ranks,fixed", CASES[:1] + CASES[3:4] + part_of_today(CASES[1:3] + CASES[4:], 3))
def test_plans_are_carried_out(exported, find, one_rank, build_dir, tmp_path, model, ranks, fixed):  # noqa: F811
    program, data = exported(model)
    found = find(program, ranks, f"--fix={fixed}", "-o", tmp_path)
    assert found["complete"] and found["gap"] == 0
    check_commands(found, build_dir, tmp_path)
    check_training(found, program, data, build_dir, tmp_path, one_rank(model))


@pytest.mark.parametrize("fixed", ["cp=2", "pp=1"])
def test_search_equals_brute_force(exported, find, fixed):  # noqa: F811
    """Every layout of it is compared with what bounds say of it."""
    program, _ = exported("translator")
    found, brute = (find(program, 2, f"--fix={fixed},ends=0", *more) for more in ((), ("--exhaustive",)))
    assert found["best"]["seconds"] == found["lower_bound"] == brute["best"]["seconds"]
