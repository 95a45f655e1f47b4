"""The demo's model and the settings that both sides of the comparison share."""

import pathlib
import sys

import torch

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "python"), str(ROOT / "examples")]

import cleave  # noqa: E402
import gpt  # noqa: E402

# Licence texts: every Debian machine has them.
TEXTS = [
    f"/usr/share/common-licenses/{name}"
    for name in ("Apache-2.0", "GFDL-1.3", "GPL-2", "GPL-3", "LGPL-2.1", "MPL-2.0")
]
# Two pipelines of two stages each: four ranks. PyTorch's side has a rank for each pipeline.
STAGES = 2
REPLICAS = 2
MICROBATCHES = 4
ROWS = 4
STEPS = 60
SEED = 0

CONFIG = gpt.GPTConfig(vocabulary=256, context=128, layers=4, heads=4, width=128)
SCHEDULE = cleave.WarmupCosine(warmup=10, total=STEPS, floor=0.1)


def make_module():
    """The model with the weights both sides begin with."""
    torch.manual_seed(SEED)
    return gpt.GPT(CONFIG)


def make_optimizer(parameters):
    return torch.optim.AdamW(parameters, lr=2e-3, weight_decay=0.1, fused=True)


def demo():
    """Factory for `python -m cleave.export`."""
    tokens = torch.zeros(ROWS, CONFIG.context, dtype=torch.int64)
    return cleave.ExportSpec(
        make_module(), (tokens,), loss=gpt.cross_entropy, targets=(tokens,), name="gpt",
        optimizer=make_optimizer, lr_schedule=SCHEDULE)
