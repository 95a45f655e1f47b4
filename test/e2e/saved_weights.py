"""Writes weights as PyTorch does from several processes: what the tests of --weights read."""

import os
import socket
import sys

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from safetensors.torch import load_file
from torch.distributed.tensor import Replicate, Shard, distribute_tensor, init_device_mesh


def save_sharded(source, folder, ranks=2):
    """Saves the tensors of a safetensors file by torch.distributed.checkpoint on that many processes: matrices
    as FSDP shards them, every other one by columns, the rest replicated; under "model", beside an optimizer."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    torch.multiprocessing.spawn(_save, (str(source), str(folder), ranks, port), nprocs=ranks)


def _save(rank, source, folder, ranks, port):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), RANK=str(rank), WORLD_SIZE=str(ranks))
    dist.init_process_group("gloo")
    mesh = init_device_mesh("cpu", (ranks,))
    state = {}
    for index, (name, tensor) in enumerate(sorted(load_file(source).items())):
        placement = Shard(index % 2) if tensor.dim() == 2 else Replicate()
        state[name] = distribute_tensor(tensor, mesh, [placement])
    optimizer = {"step": 7, "moment": torch.zeros(3), "lr": 0.1}
    dcp.save({"model": state, "optimizer": optimizer}, checkpoint_id=folder)
    dist.destroy_process_group()


if __name__ == "__main__":
    save_sharded(sys.argv[1], sys.argv[2])
