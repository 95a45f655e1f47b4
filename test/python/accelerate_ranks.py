"""A loop of accelerate's, started by `accelerate launch`: `accelerate_ranks.py FILE`; rank 0 writes the losses."""

import json
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "python"))

import accelerate
import cleave
import torch
import torch.nn.functional as F


def model():
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Tanh(), torch.nn.Linear(16, 4))


def loader(batch, workers=0):
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(24, 8, generator=generator)
    return torch.utils.data.DataLoader(list(zip(x, x[:, :4].argmax(1))), batch_size=batch, num_workers=workers)


def main():
    torch.set_num_threads(1)
    accelerator = accelerate.Accelerator(cpu=True)
    module = model()
    optimizer = torch.optim.AdamW(module.parameters(), lr=1e-2, fused=True)
    # A worker is forked for each epoch, beside the step and its process group from the second on.
    batches, optimizer = accelerator.prepare(loader(4, workers=1), optimizer)
    step = cleave.compile_step(module, F.cross_entropy, optimizer, mesh={"dp": accelerator.num_processes})
    losses = [step(x, y).loss.item() for _ in range(3) for x, y in batches]
    if accelerator.is_main_process:
        pathlib.Path(sys.argv[1]).write_text(json.dumps(losses))
    accelerator.end_training()


if __name__ == "__main__":
    main()
