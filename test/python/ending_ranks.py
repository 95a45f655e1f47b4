"""What the two ranks of test_compile_step_stops.py do that come to their end: `ending_ranks.py RANK LAYOUT FOLDER`.

Each makes a step, destroys the process group and ends. Which threads of process groups there are after the step, and once
all handlers of the interpreter's end but this one have run, goes to FOLDER/RANK.json.
"""

import atexit
import json
import pathlib
import sys

FOUND = []


def note_threads():
    """PyTorch names them."""
    names = [path.read_text().strip() for path in pathlib.Path("/proc/self/task").glob("*/comm")]
    FOUND.append(sum(name == "pt_gloo_runloop" for name in names))


@atexit.register  # what is registered first runs last
def write():
    note_threads()
    pathlib.Path(sys.argv[3], f"{sys.argv[1]}.json").write_text(json.dumps(FOUND))


import step_ranks  # which finds cleave, too  # noqa: E402
import cleave  # noqa: E402
import gpt  # noqa: E402
import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402

if __name__ == "__main__":
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{sys.argv[3]}/store", rank=int(sys.argv[1]), world_size=2)
    module = step_ranks.model()
    layouts = {
        "data": {"mesh": {"dp": 2}},
        "pipeline": {"pipeline": cleave.Pipeline("1f1b", stages=2, microbatches=2)},
    }
    step = cleave.compile_step(module, gpt.cross_entropy, step_ranks.optimizer_of(module), **layouts[sys.argv[2]])
    step(*step_ranks.batch(0))
    note_threads()
    dist.destroy_process_group()
