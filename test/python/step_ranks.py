"""What each rank of test_compile_step_ranks.py does: `step_ranks.py MODE FILE`.

MODE `all` trains a small GPT in each way that this number of ranks has and writes the losses to FILE, from rank 0; from
FSDP on two ranks a checkpoint of torch.distributed.checkpoint to the folder FILE.checkpoint.
`errors` and `rank_dies` write what each misuse ends in, and after how many seconds, to FILE.RANK.

With CLEAVE_STEP_DEVICE set to `shared` or `own`, steps compute on the fake device over the host's memory that
CLEAVE_DEVICE_PLUGIN names: all ranks on one, or each on its own. CLEAVE_STEPS are fewer steps.
"""

import datetime
import json
import os
import pathlib
import signal
import sys
import threading
import time

sys.path[:0] = [str(pathlib.Path(__file__).parents[2] / folder) for folder in ("python", "examples", "test")]

import cleave
import combinations_cover
import gpt
import torch
import torch.distributed as dist
from cleave import training_step

STEPS, EXAMPLES = int(os.environ.get("CLEAVE_STEPS", 20)), 8
# Before these steps the loss of two batches is evaluated.
EVALUATED = (0, 12)


if "CLEAVE_STEP_DEVICE" in os.environ:
    # A device whose tensors are the processor's.
    own = os.environ["CLEAVE_STEP_DEVICE"] == "own"
    training_step.for_native = lambda device: ("cuda", int(os.environ["RANK"]) if own else 0, "")


def batch(step, two_sizes=True):
    """Of all ranks; some are smaller, as a DataLoader's last one is."""
    generator = torch.Generator().manual_seed(step)
    examples = EXAMPLES // 2 if two_sizes and step in (7, 15) else EXAMPLES
    return [torch.randint(256, (examples, 32), generator=generator) for _ in range(2)]


def model(**options):
    torch.manual_seed(0)
    return gpt.GPT(gpt.GPTConfig(layers=2, heads=4, width=32, vocabulary=256, context=32, tied=False, **options))


def optimizer_of(module):
    return torch.optim.AdamW(module.parameters(), lr=1e-3, fused=True)


TP = {
    "h.*.attn.c_attn": cleave.ColwiseParallel(),
    "h.*.mlp.c_fc": cleave.ColwiseParallel(),
    "h.*.mlp.c_proj": cleave.RowwiseParallel(),
}
# Ways of other numbers of stages, whose evaluation has a schedule of its own.
V = cleave.Pipeline("zbv", stages=4, microbatches=2)
LOOP = cleave.Pipeline("interleaved-1f1b", stages=4, microbatches=2)
# By the number of ranks.
MODES = {
    2: {
        "dp": {"mesh": {"dp": 2}},
        "fsdp": {"mesh": {"dp": 2}, "plan": {"": cleave.FSDP("dp")}},
        "tp": {"mesh": {"tp": 2}, "plan": TP},
        "pp": {"pipeline": cleave.Pipeline("1f1b", stages=2, microbatches=2)},
        "v": {"pipeline": V},
        "loop": {"pipeline": LOOP},
    },
    4: {
        "dp": {"mesh": {"dp": 4}},
        "fsdp": {"mesh": {"dp": 4}, "plan": {"": cleave.FSDP("dp")}},
        "tp": {"mesh": {"tp": 4}, "plan": TP},
        "pp": {"pipeline": cleave.Pipeline("1f1b", stages=4, microbatches=4)},
    },
}


def has_two_sizes(ranks, mode):
    """Whether batches of a training differ in size, which takes as many programs again: on four ranks in one of the ways,
    another by the run's seed."""
    ways = list(MODES[ranks])
    return ranks == 2 or combinations_cover.run_all() or mode == ways[combinations_cover.seed() % len(ways)]


CHECKPOINT_STEP = 10


def save_checkpoint(folder, module, optimizer, scheduler):
    import torch.distributed.checkpoint as dcp
    from torch.distributed.checkpoint.state_dict import get_state_dict

    weights, state = get_state_dict(module, optimizer)
    dcp.save({"model": weights, "optimizer": state, "scheduler": scheduler.state_dict()}, checkpoint_id=folder)


def train(mode, checkpoint):
    ranks = dist.get_world_size()
    module = model()
    optimizer = optimizer_of(module)
    divides = mode in ("dp", "fsdp")
    step = cleave.compile_step(module, gpt.cross_entropy, optimizer, clip_norm=1.0, timeout=60, outputs=True, **MODES[ranks][mode])
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda number: 1 / (1 + number))
    losses, evaluations = [], []

    def mine(number):
        parts = batch(number, has_two_sizes(ranks, mode))
        return [part.chunk(ranks)[dist.get_rank()] if divides else part for part in parts]

    for number in range(STEPS):
        if number in EVALUATED:
            # Of the other batch size, too.
            module.eval()
            evaluations += [step.evaluate(*mine(each)).loss.item() for each in (7, 0)]
            module.train()
        parts = mine(number)
        out = step(*parts)
        if number == 0:
            check_outputs(mode, out.outputs, parts[0])
        scheduler.step()
        # A rank of a pipeline without parameters has no norm; rank 0 has some.
        losses.append((out.loss.item(), None if out.grad_norm is None else out.grad_norm.item()))
        if number + 1 == CHECKPOINT_STEP and mode == "fsdp" and ranks == 2:
            save_checkpoint(checkpoint, module, optimizer, scheduler)
    return losses + evaluations, module, optimizer


def check_outputs(mode, outputs, tokens):
    """Logits of this rank's examples, on the ranks that make them."""
    from torch.distributed.tensor import DTensor

    last = {"pp": dist.get_world_size() - 1, "loop": 1, "v": 0}
    if dist.get_rank() != last.get(mode, dist.get_rank()):
        assert outputs is None
        return
    if isinstance(outputs, DTensor):
        outputs = outputs.full_tensor()
    with torch.no_grad():
        torch.testing.assert_close(outputs, model()(tokens), rtol=1e-5, atol=1e-5)


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


def compiled(mode, group=None):
    rank, module = dist.get_rank(), model()
    if mode == "different_models" and rank == 1:
        module.ln_f = torch.nn.Identity()
    if mode == "different_weights" and rank == 1:
        torch.nn.init.ones_(module.wte.weight)
    layout = {"mesh": {"dp": 3 if mode == "wrong_mesh" else 2}}
    if mode.startswith("different_draws"):
        module = model(dropout=0.1)
        layout = {"mesh": {"tp": 2}, "plan": TP}
    if mode == "interrupted_in_receive":
        layout = {"pipeline": cleave.Pipeline("1f1b", stages=2, microbatches=2)}
    optimizer = optimizer_of(module)
    if mode == "different_states":
        for parameter in module.parameters():
            parameter.grad = torch.full_like(parameter, 1e-9 * (1 + rank))
        optimizer.param_groups[0]["lr"] = 0.0
        optimizer.step()
        optimizer.zero_grad()
        optimizer.param_groups[0]["lr"] = 1e-3
    return cleave.compile_step(
        module, gpt.cross_entropy, optimizer, **layout, timeout=5,
        passes="--no-such-pass" if mode == "one_fails" and rank == 1 else (), group=group,
    )  # fmt: skip


def misuse(mode):
    """Ends in an error on every rank that stays."""
    rank = dist.get_rank()
    # Ranks that one of these leaves out of step have other groups for the next one.
    draws = mode.startswith("different_draws")
    step = compiled(mode, None if draws else dist.new_group(backend="gloo"))
    if mode == "different_draws":
        torch.manual_seed(rank)
    step(*batch(0))
    if mode == "different_draws_later":
        torch.rand(rank)
    if mode == "rank_dies" and rank == 1:
        os._exit(0)
    if mode == "loader_fails" and rank == 1:
        raise OSError("a file that is not there")
    if mode == "late" and rank == 1:
        time.sleep(7)
    if mode.startswith("interrupted"):
        if rank == 0:
            threading.Timer(1, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
        else:
            if mode in ("interrupted_in_step", "interrupted_in_receive"):
                # This rank begins the step and does not go on.
                step._ranks.check_same(", ".join(f"int64 [{EXAMPLES}, 32] on cpu" for _ in range(2)), "0.001", None)
            time.sleep(4)
            raise OSError("slept")
    if mode == "replaced_on_one" and rank == 1:
        step._model.ln_f.weight = torch.nn.Parameter(torch.ones(32))
    if mode == "swapped_steps":
        other = compiled(mode, step._options["group"])
        other(*batch(0))
        (step, other)[rank](*batch(1))
    if mode == "different_rates" and rank == 1:
        step._optimizers[0].param_groups[0]["lr"] /= 2
    if mode == "different_batches":
        step(*(part[: rank + 1] for part in batch(1)))
    step(*batch(1))


def describe_misuse(mode):
    begin = time.monotonic()
    try:
        misuse(mode)
        found = "no error"
    except BaseException as error:
        found = f"{type(error).__name__}: {error}"
    return found, time.monotonic() - begin


# These leave both ranks there, so that one job does for all of them.
MISUSE = [
    "wrong_mesh", "one_fails", "different_models", "different_batches", "loader_fails", "late", "interrupted",
    "interrupted_in_step", "interrupted_in_receive", "replaced_on_one", "different_weights", "different_draws",
    "different_draws_later", "different_rates", "different_states", "swapped_steps",
]  # fmt: skip


def main():
    mode, file = sys.argv[1:3]
    torch.set_num_threads(1)
    dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=60))
    if mode == "all":
        results = {}
        for each in sys.argv[3:] or MODES[dist.get_world_size()]:
            results[each], module, optimizer = train(each, f"{file}.checkpoint")
            check_shards(each, module, optimizer)
            dist.barrier()
        if dist.get_rank() == 0:
            pathlib.Path(file).write_text(json.dumps(results))
    else:
        found = {}
        for each in MISUSE if mode == "errors" else [mode]:
            found[each] = describe_misuse(each)
            if mode == "errors":
                dist.barrier()
        pathlib.Path(f"{file}.{dist.get_rank()}").write_text(json.dumps(found))
        os._exit(0)  # the other rank may not come to the end of the group
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
