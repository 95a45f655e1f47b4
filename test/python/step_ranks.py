"""What each rank of test_compile_step_ranks.py does under torchrun: `step_ranks.py MODE FILE`.

MODE `all` trains a small GPT in each way and writes the losses to FILE, from rank 0. `errors` and `rank_dies` write what
each misuse ends in to FILE.RANK.
"""

import datetime
import json
import os
import pathlib
import sys

sys.path[:0] = [str(pathlib.Path(__file__).parents[2] / folder) for folder in ("python", "examples")]

import cleave
import gpt
import torch
import torch.distributed as dist

STEPS, EXAMPLES = 20, 4


def batch(step):
    generator = torch.Generator().manual_seed(step)
    return [torch.randint(256, (EXAMPLES, 32), generator=generator) for _ in range(2)]


def model():
    torch.manual_seed(0)
    return gpt.GPT(gpt.GPTConfig(layers=2, heads=4, width=32, vocabulary=256, context=32, tied=False))


def optimizer_of(module):
    return torch.optim.AdamW(module.parameters(), lr=1e-3, fused=True)


TP = {
    "h.*.attn.c_attn": cleave.ColwiseParallel(),
    "h.*.mlp.c_fc": cleave.ColwiseParallel(),
    "h.*.mlp.c_proj": cleave.RowwiseParallel(),
}
MODES = {
    "one": {},
    "dp": {"mesh": {"dp": 2}},
    "fsdp": {"mesh": {"dp": 2}, "plan": {"": cleave.FSDP("dp")}},
    "tp": {"mesh": {"tp": 2}, "plan": TP},
    "pp": {"pipeline": cleave.Pipeline("1f1b", stages=2, microbatches=2)},
}


def train(mode):
    module = model()
    optimizer = optimizer_of(module)
    options = MODES[mode]
    divides = mode in ("dp", "fsdp")
    step = cleave.compile_step(module, gpt.cross_entropy, optimizer, clip_norm=1.0, timeout=30, **options)
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda number: 1 / (1 + number))
    losses = []
    for number in range(STEPS):
        parts = batch(number)
        if divides:
            parts = [part.chunk(2)[dist.get_rank()] for part in parts]
        out = step(*parts)
        scheduler.step()
        losses.append((out.loss.item(), None if out.grad_norm is None else out.grad_norm.item()))
    return losses, module, optimizer


def check_shards(mode, module, optimizer):
    """What a plan shards is DTensors, in the module and in the optimizer's state."""
    from torch.distributed.tensor import DTensor

    whole = model().state_dict()
    sharded = 0
    for name, parameter in module.named_parameters():
        assert parameter.shape == whole[name].shape, name
        if isinstance(parameter.detach(), DTensor):
            sharded += 1
            state = optimizer.state[parameter]["exp_avg"]
            assert isinstance(state, DTensor) and state.to_local().shape == parameter.to_local().shape, name
            full = parameter.detach().full_tensor()
            assert full.shape == whole[name].shape and not torch.equal(full, whole[name]), name
    assert (sharded > 0) == (mode in ("fsdp", "tp")), sharded


def misuse(mode):
    """Ends in an error on every rank that stays."""
    rank = dist.get_rank()
    module = model()
    if mode == "different_models" and rank == 1:
        module.ln_f = torch.nn.Identity()
    step = cleave.compile_step(
        module, gpt.cross_entropy, optimizer_of(module), mesh={"dp": 3 if mode == "wrong_mesh" else 2}, timeout=5,
        passes="--no-such-pass" if mode == "one_fails" and rank == 1 else (),
    )  # fmt: skip
    step(*batch(0))
    if mode == "rank_dies" and rank == 1:
        os._exit(0)
    step(*(part[: rank + 1] for part in batch(1)))


def describe_misuse(mode):
    try:
        misuse(mode)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return "no error"


def main():
    mode, file = sys.argv[1:]
    torch.set_num_threads(1)
    dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=60))
    if mode in MODES or mode == "all":
        results = {}
        for each in [m for m in MODES if m != "one"] if mode == "all" else [mode]:
            results[each], module, optimizer = train(each)
            check_shards(each, module, optimizer)
            dist.barrier()
        if dist.get_rank() == 0:
            pathlib.Path(file).write_text(json.dumps(results))
    else:
        # These leave the ranks in step, so that one job does for all of them.
        together = ["wrong_mesh", "one_fails", "different_models", "different_batches"]
        found = {each: describe_misuse(each) for each in (together if mode == "errors" else [mode])}
        pathlib.Path(f"{file}.{dist.get_rank()}").write_text(json.dumps(found))
        os._exit(0)  # the other rank may not come to the end of the group
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
