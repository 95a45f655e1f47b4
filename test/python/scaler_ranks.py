"""What each rank of test_compile_step_loss_scale.py does under torchrun: trains a small GPT in float64 with a GradScaler in each of
LAYOUTS, and rank 0 writes losses, norms and scales, before and after each step, to the file that is given."""

import json
import pathlib
import sys

sys.path[:0] = [str(pathlib.Path(__file__).parents[2] / folder) for folder in ("python", "examples")]

import cleave
import gpt
import torch
import torch.distributed as dist

STEPS = 6
LAYOUTS = {
    "dp": {"mesh": {"dp": 2}},
    "fsdp": {"mesh": {"dp": 2}, "plan": {"": cleave.FSDP("dp")}},
    "pipeline": {"pipeline": cleave.Pipeline("1f1b", stages=2, microbatches=2)},
}


def batch(number):
    """Of all ranks."""
    generator = torch.Generator().manual_seed(number)
    return [torch.randint(64, (4, 16), generator=generator) for _ in range(2)]


def model():
    torch.manual_seed(0)
    return gpt.GPT(gpt.GPTConfig(layers=2, heads=2, width=16, vocabulary=64, context=16, tied=False)).double()


def scaler():
    """The first steps overflow float64, without any gradient near its bound."""
    return torch.amp.GradScaler("cpu", init_scale=2.0**127, growth_factor=2.0**20, backoff_factor=2.0**-40, growth_interval=2)


def loss(logits, targets):
    """So large that its gradients overflow when they are scaled."""
    return gpt.cross_entropy(logits, targets) * 2.0**897


def train(step, scale, parts):
    rows = []
    for number in range(STEPS):
        before = scale.get_scale()
        out = step(*parts(number))
        rows.append((out.loss.item(), out.grad_norm.item(), before, scale.get_scale()))
    return rows


def main():
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    results = {}
    for name, layout in LAYOUTS.items():
        module, scale = model(), scaler()
        optimizer = torch.optim.AdamW(module.parameters(), lr=1e-2, fused=True)
        step = cleave.compile_step(module, loss, optimizer, clip_norm=1.0, scaler=scale, timeout=60, **layout)
        divides = name != "pipeline"
        results[name] = train(step, scale, lambda number: [p.chunk(2)[dist.get_rank()] if divides else p for p in batch(number)])
        dist.barrier()
    if dist.get_rank() == 0:
        pathlib.Path(sys.argv[1]).write_text(json.dumps(results))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
