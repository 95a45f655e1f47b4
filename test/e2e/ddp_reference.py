"""Trains a test model with PyTorch's DistributedDataParallel over Gloo: the oracle of data parallelism.

Gives "loss" (one a step: the mean over ranks and microbatches), "grad.NAME" (after the backward of
the first step), and "buffer.NAME" (rank 0's, at the end).
"""

import dataclasses
import functools
import multiprocessing.forkserver
import os
import pathlib
import sys
import tempfile
import time
import traceback
import unittest.mock

import torch
import torch.distributed as dist
from safetensors.torch import load_file, save_file
from torch.nn.parallel import DistributedDataParallel
from training import MODELS, testing


@dataclasses.dataclass
class Options:
    """`data`: a file of batches; `draws`: random numbers of a microbatch."""

    model: str
    ranks: int
    microbatches: int
    steps: int
    draws: int
    seed: int
    data: str


def position_generator(seed, draws):
    """PyTorch's generator as it stands `draws` numbers after seeding (docs/random.md)."""
    torch.manual_seed(seed)
    if draws:
        torch.empty(draws, dtype=torch.int32).random_()


def run_rank(rank, options, folder):
    """Trains; leaves the results or, where that fails, the reason in `folder`."""
    try:
        train_rank(rank, options, folder)
    except Exception:
        (folder / "error").write_text(f"rank {rank}: {traceback.format_exc()}")
        raise


def train_rank(rank, options, folder):
    torch.set_num_threads(1)
    store = dist.FileStore(str(folder / "store"), options.ranks)
    dist.init_process_group("gloo", store=store, rank=rank, world_size=options.ranks)
    spec = MODELS[options.model]()
    run = testing._Run(spec)
    (optimizer,) = run.make_optimizers()
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
        save_file({"loss": torch.stack(losses), **gradients, **buffers}, folder / "part")
        (folder / "part").rename(folder / "results")
    dist.barrier()


def spec_examples(inputs):
    """Examples of one microbatch."""
    return next(i.value.shape[i.batch] for i in inputs if i.batch is not None)


@functools.cache
def start_server():
    """Forks ranks from a process that has imported PyTorch, once for all tests, and done nothing else."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([__name__])
    # Python 3.11's server does not look where this process does.
    with unittest.mock.patch.dict(os.environ, PYTHONPATH=os.pathsep.join(sys.path)):
        multiprocessing.forkserver.ensure_running()
    return context


def train(options):
    """The results by name."""
    context = start_server()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        results, error = folder / "results", folder / "error"
        ranks = [
            context.Process(target=run_rank, args=(r, options, folder))
            for r in range(options.ranks)
        ]
        for process in ranks:
            process.start()
        # A rank that fails would leave the others waiting for it; with the results written nothing is
        # left to do, and a forked PyTorch may hang as it ends.
        while not results.exists() and not any(process.exitcode for process in ranks):
            time.sleep(0.02)
        for process in ranks:
            process.kill()
            process.join()
        assert results.exists(), error.read_text() if error.exists() else "a rank was lost"
        return load_file(results)
