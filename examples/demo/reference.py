"""The demo's other side: the same training with PyTorch's DistributedDataParallel.

    torchrun --nproc-per-node 2 examples/demo/reference.py --steps 120 --metrics ddp.jsonl
"""

import argparse
import json
import os
import time

import torch
import torch.distributed as dist

import model
from cleave.data import TextBatches
from gpt import cross_entropy


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=model.STEPS)
    parser.add_argument("--microbatches", type=int, default=model.MICROBATCHES)
    parser.add_argument("--metrics", required=True)
    options = parser.parse_args()
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank, ranks = dist.get_rank(), dist.get_world_size()

    module = model.make_module()
    parallel = torch.nn.parallel.DistributedDataParallel(module)
    optimizer = model.make_optimizer(parallel.parameters())
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda t: model.SCHEDULE.factor(t + 1))
    batches = TextBatches(model.TEXTS, model.ROWS, model.CONFIG.context, options.microbatches, ranks,
                          model.SEED)
    metrics = open(options.metrics, "w") if rank == 0 else None
    for step in range(1, options.steps + 1):
        start = time.perf_counter()
        total = torch.zeros((), dtype=torch.float64)
        for index in range(options.microbatches):
            tokens, targets = batches.microbatch(step, rank, index)
            parallel.require_backward_grad_sync = index == options.microbatches - 1
            loss = cross_entropy(parallel(tokens), targets)
            (loss / options.microbatches).backward()
            total += loss.detach().double()
        optimizer.step()
        schedule.step()
        optimizer.zero_grad()
        dist.all_reduce(total)
        if metrics:
            row = {"step": step, "loss": float(total) / (ranks * options.microbatches),
                   "ms": 1e3 * (time.perf_counter() - start)}
            print(json.dumps(row), file=metrics, flush=True)
    # All is done and written. PyTorch 2.11 aborts now and then while DDP's and Gloo's threads are
    # taken down ("terminate called without an active exception"), so they are not.
    dist.barrier()
    os._exit(0)


if __name__ == "__main__":
    main()
