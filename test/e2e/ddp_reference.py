"""Trains a test model with PyTorch's DistributedDataParallel over Gloo: the oracle of data parallelism.

    python ddp_reference.py MODEL --ranks 2 --microbatches 2 --steps 20 --data D.safetensors
        --draws 0 --seed 0 --out O.safetensors

Writes "loss" (one a step: the mean over ranks and microbatches), "grad.NAME" (after the backward of
the first step), and "buffer.NAME" (rank 0's, at the end).
"""

import argparse
import multiprocessing
import pathlib
import sys
import tempfile
import time

import torch
import torch.distributed as dist
from safetensors.torch import load_file, save_file
from torch.nn.parallel import DistributedDataParallel
from training import MODELS, testing


def position_generator(seed, draws):
    """PyTorch's generator as it stands `draws` numbers after seeding (docs/random.md)."""
    torch.manual_seed(seed)
    if draws:
        torch.empty(draws, dtype=torch.int32).random_()


def train_rank(rank, options, store_path):
    torch.set_num_threads(1)
    store = dist.FileStore(store_path, options.ranks)
    dist.init_process_group("gloo", store=store, rank=rank, world_size=options.ranks)
    spec = MODELS[options.model]()
    run = testing._Run(spec)
    optimizer = run.fused_optimizer()
    rates = [float(group["lr"]) for group in optimizer.param_groups]
    run.module = DistributedDataParallel(run.module)
    inputs = testing.Signature(spec).inputs
    data = load_file(options.data)
    examples = spec_examples(inputs) * options.microbatches
    losses, gradients = [], {}
    for step in range(options.steps):
        optimizer.zero_grad(set_to_none=True)
        first = (step * options.ranks + rank) * examples
        share = {
            i.name: data[i.name] if i.batch is None else data[i.name].narrow(i.batch, first, examples)
            for i in inputs
        }
        total = torch.zeros((), dtype=torch.float64)
        for m, part in enumerate(testing.split_batch(spec, share, options.microbatches)):
            microbatch = (step * options.ranks + rank) * options.microbatches + m
            position_generator(options.seed, microbatch * options.draws)
            run.module.require_backward_grad_sync = m == options.microbatches - 1
            total += run.microbatch(part, 1.0 / options.microbatches)["loss"].double()
        if step == 0:
            gradients = {
                f"grad.{n}": p.grad.clone() for n, p in run.state.parameters.items() if p.grad is not None
            }
        for group, rate in zip(optimizer.param_groups, rates):
            group["lr"] = rate * spec.lr_schedule.factor(step + 1)
        optimizer.step()
        dist.all_reduce(total)
        losses.append(total / (options.ranks * options.microbatches))
    if rank == 0:
        buffers = {f"buffer.{n}": b for n, b in run.module.module.named_buffers()}
        save_file({"loss": torch.stack(losses), **gradients, **buffers}, options.out + ".part")
        pathlib.Path(options.out + ".part").rename(options.out)
    dist.barrier()


def spec_examples(inputs):
    """Examples of one microbatch."""
    return next(i.value.shape[i.batch] for i in inputs if i.batch is not None)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("model")
    for name in ("ranks", "microbatches", "steps", "draws", "seed"):
        parser.add_argument(f"--{name}", type=int, required=True)
    parser.add_argument("--data", required=True)
    parser.add_argument("--out", required=True)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        # Forked, so that PyTorch is imported once.
        context = multiprocessing.get_context("fork")
        ranks = [
            context.Process(target=train_rank, args=(r, options, f"{folder}/store"))
            for r in range(options.ranks)
        ]
        for process in ranks:
            process.start()
        # A rank that fails would leave the others waiting for it.
        while any(process.is_alive() for process in ranks):
            if any(process.exitcode for process in ranks):
                for process in ranks:
                    process.kill()
                sys.exit("a rank failed")
            # With the results written nothing is left to do; a forked PyTorch may hang as it ends.
            if pathlib.Path(options.out).exists():
                time.sleep(0.5)
                break
            time.sleep(0.05)
        for process in ranks:
            process.kill()


if __name__ == "__main__":
    main()
