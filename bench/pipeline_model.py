"""The model of the pipeline benchmarks: the demo's GPT with an output layer of its own."""

import pathlib
import sys

import torch

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "python"), str(ROOT / "examples")]

import cleave  # noqa: E402
import gpt  # noqa: E402

ROWS = 4
SEED = 0
CONFIG = gpt.GPTConfig(vocabulary=256, context=128, layers=4, heads=4, width=128, tied=False)
TEXTS = [f"/usr/share/common-licenses/{name}" for name in ("Apache-2.0", "GPL-2", "GPL-3", "LGPL-2.1")]
# The modules that stages begin with, by the number of stages.
CUTS = {1: [], 2: ["h.2"], 4: ["h.1", "h.2", "h.3"]}


def make_module():
    torch.manual_seed(SEED)
    return gpt.GPT(CONFIG)


def make_optimizer(parameters):
    return torch.optim.AdamW(parameters, lr=1e-3, weight_decay=0.1, fused=True)


def step():
    """Factory for `python -m cleave.export`."""
    tokens = torch.zeros(ROWS, CONFIG.context, dtype=torch.int64)
    return cleave.ExportSpec(
        make_module(), (tokens,), loss=gpt.cross_entropy, targets=(tokens,), name="gpt",
        optimizer=make_optimizer)
