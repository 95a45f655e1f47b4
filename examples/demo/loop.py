"""The demo's model in a loop of one's own, in an environment where only Cleave's wheel and PyTorch are installed."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

import cleave
import cleave.native
import gpt
import torch

spec = gpt.tied()
optimizer = torch.optim.AdamW(spec.module.parameters(), lr=3e-3, fused=True)
scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 40)
step = cleave.compile_step(spec.module, spec.loss, optimizer, clip_norm=1.0)
text = torch.tensor(list(pathlib.Path(gpt.__file__).read_bytes()))
tokens = spec.args[0].shape[1]
losses = []
for _ in range(40):
    begins = torch.randint(len(text) - tokens - 1, (16,)).tolist()
    batch = torch.stack([text[i : i + tokens] for i in begins])
    targets = torch.stack([text[i + 1 : i + tokens + 1] for i in begins])
    out = step(batch, targets)
    scheduler.step()
    losses.append(out.loss.item())
print(f"loss {losses[0]:.3f} -> {losses[-1]:.3f}, by {cleave.native.native().__file__}")
