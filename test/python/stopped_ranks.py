"""What the two ranks of test_compile_step_stops.py do: `stopped_ranks.py MODE FOLDER`. The process is rank 0, and rank 1 its
child; nobody watches them, as torchrun would, which ends all where one is killed.

Both ranks make a step; then rank 1 is killed or stops, as MODE says, and rank 0 makes another one. Rank 0 writes what that
ends in, and after how many seconds, to FOLDER/found.json.
"""

import json
import os
import pathlib
import signal
import sys
import threading
import time

import step_ranks  # which finds cleave, too
import cleave
import gpt
import torch
import torch.distributed as dist

TIMEOUT = 10
LAYOUTS = {
    "fsdp": {"mesh": {"dp": 2}, "plan": {"": cleave.FSDP("dp")}},
    "pipeline": {"pipeline": cleave.Pipeline("1f1b", stages=2, microbatches=2)},
}


def stop(way, folder, step):
    """Of rank 1."""
    if way == "killed":
        # Between what ranks compare before a step and the step, where the other one waits for what this one would send.
        step._ranks.check_same(", ".join(f"int64 [{step_ranks.EXAMPLES}, 32] on cpu" for _ in range(2)), "0.001", None)
        os.kill(os.getpid(), signal.SIGKILL)
    os.kill(os.getpid(), signal.SIGSTOP)


def main():
    layout, way = sys.argv[1].split("-", 1)
    folder, child = pathlib.Path(sys.argv[2]), os.fork()
    rank = 0 if child else 1
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=2)
    module = step_ranks.model()
    step = cleave.compile_step(
        module, gpt.cross_entropy, step_ranks.optimizer_of(module), timeout=TIMEOUT, **LAYOUTS[layout]
    )
    step(*step_ranks.batch(0))
    if rank == 1:
        stop(way.split("-")[0], folder, step)
    if way.endswith("interrupted"):
        signal.signal(signal.SIGINT, signal.default_int_handler)  # which a shell's background jobs ignore
        threading.Timer(1, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
    begin = time.monotonic()
    try:
        step(*step_ranks.batch(1))
        found = "no error"
    except BaseException as error:
        found = f"{type(error).__name__}: {error}"
    seconds = time.monotonic() - begin
    (folder / "found.json").write_text(json.dumps([found, seconds]))
    os.kill(child, signal.SIGKILL)
    os._exit(0)  # the group does not come to its end


if __name__ == "__main__":
    main()
