"""Dropout of what convolutions made, whose elements do not lie in rows: ranks draw what one rank draws, in its memory order."""

import cleave
import pytest
import torch
from cleave import FSDP, DataParallel
from formed_runs import PLACED, Form, FormedRun
from torch import nn, optim

PLANS = {"dp": DataParallel("dp"), "fsdp": FSDP("dp")}


class Patches(nn.Module):
    """Patches of an image as tokens: channels come last in their shape, and first in memory."""

    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(8, 8, 1), nn.AvgPool2d(2),
        )  # fmt: skip
        self.head = nn.Linear(8, 5)

    def forward(self, images):
        tokens = self.layers(images).flatten(2).permute(0, 2, 1)
        return self.head(nn.functional.dropout(tokens, 0.3, self.training)).mean(1)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("plan", PLANS)
def test_ranks_draw_what_one_draws(build_dir, tmp_path, plan, dtype):
    torch.manual_seed(0)
    model = Patches().to(dtype)
    spec = cleave.ExportSpec(
        model, (torch.randn(4, 3, 8, 8, dtype=dtype),), targets=(torch.randint(5, (4,)),), loss=nn.functional.cross_entropy,
        optimizer=optim.SGD(model.parameters(), lr=0.1), name="patches",
    )  # fmt: skip
    form = Form(2, 2, cleave.Plan({"dp": 2}, {"": PLANS[plan]}), PLACED)
    run = FormedRun(build_dir, tmp_path, spec, form, steps=3)
    losses = [row["loss"] for row in run.train()]
    expected = run.expect()
    # Of 1,000 terms and fewer, added in another order.
    tolerance = 1e-12 if dtype == torch.float64 else 1e-5
    assert losses == pytest.approx(expected.losses, rel=tolerance)
    assert run.far(expected, tolerance) == []
