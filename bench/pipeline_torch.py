"""One rank of torch.distributed.pipelining on the pipeline benchmarks' model; started by torchrun.

Stages are the modules that bench/pipeline.py cuts at, data and random order those of cleave-run.
"""

import argparse
import json
import time

import pipeline_model
import torch
import torch.distributed as dist
from pipeline_model import gpt
from torch.distributed import pipelining
from torch.distributed.pipelining import schedules

from cleave.data import TextBatches


class Part(torch.nn.Module):
    """Blocks `first` to `last` of the model, the embedding before the first, the head after the last."""

    def __init__(self, model, first, last):
        super().__init__()
        self.wte = model.wte if first == 0 else None
        self.wpe = model.wpe if first == 0 else None
        self.h = torch.nn.ModuleDict({str(i): model.h[i] for i in range(first, last)})
        final = last == len(model.h)
        self.ln_f, self.lm_head = (model.ln_f, model.lm_head) if final else (None, None)

    def forward(self, x):
        if self.wte is not None:
            x = self.wte(x) + self.wpe(torch.arange(x.shape[1], device=x.device))
        for block in self.h.values():
            x = block(x)
        return x if self.lm_head is None else self.lm_head(self.ln_f(x))


def make_stages(kind, rank, world):
    """This rank's stages, in the order of the schedule's topology."""
    multi = issubclass(kind, schedules.PipelineScheduleMulti)
    count = 2 * world if multi else world
    v_shaped = kind.__name__ in ("ScheduleZBVZeroBubble", "ScheduleDualPipeV")
    mine = [s for s in range(count)
            if (min(s % (2 * world), 2 * world - 1 - s % (2 * world)) if v_shaped else s % world) == rank]  # fmt: skip
    model = pipeline_model.make_module()
    each = len(model.h) // count
    parts = [Part(model, s * each, (s + 1) * each) for s in mine]
    stages = [pipelining.PipelineStage(part, s, count, torch.device("cpu")) for part, s in zip(parts, mine)]
    return stages, [p for part in parts for p in part.parameters()], (0 in mine), (count - 1 in mine)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--schedule", required=True)
    parser.add_argument("--steps", type=int, required=True)
    parser.add_argument("--microbatches", type=int, required=True)
    parser.add_argument("--metrics", required=True)
    options = parser.parse_args()
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    kind = getattr(schedules, options.schedule)
    stages, parameters, reads, makes_loss = make_stages(kind, rank, world)
    single = issubclass(kind, schedules.PipelineScheduleSingle)
    schedule = kind(stages[0] if single else stages, options.microbatches, loss_fn=gpt.cross_entropy)
    optimizer = pipeline_model.make_optimizer(parameters)
    batches = TextBatches(pipeline_model.TEXTS, pipeline_model.ROWS, pipeline_model.CONFIG.context,
                          options.microbatches, 1, pipeline_model.SEED)  # fmt: skip
    rows = []
    for step in range(1, options.steps + 1):
        start = time.perf_counter()
        data = [batches.microbatch(step, 0, index) for index in range(options.microbatches)]
        tokens = torch.cat([each[0] for each in data])
        targets = torch.cat([each[1] for each in data])
        losses = []
        inputs = (tokens,) if reads else ()
        schedule.step(*inputs, **({"target": targets, "losses": losses} if makes_loss else {}))
        optimizer.step()
        optimizer.zero_grad()
        # As cleave-run does: all ranks know the loss of a step, and its time includes that.
        loss = torch.stack(losses).mean() if makes_loss else torch.zeros(())
        dist.all_reduce(loss)
        rows.append({"loss": loss.item(), "ms": (time.perf_counter() - start) * 1e3})
    if rank == 0:
        with open(options.metrics, "w") as file:
            file.writelines(json.dumps(row) + "\n" for row in rows)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
