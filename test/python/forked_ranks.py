"""Runs a script on ranks of this machine, as torchrun does: `forked_ranks.py RANKS SCRIPT ARGUMENTS...`.

The ranks are forks of a process that has imported what takes seconds in each of torchrun's. Where one fails the others are
ended, and the exit status is 1. The tutorial and test_cluster_examples.py are under torchrun itself.
"""

import os
import pathlib
import runpy
import signal
import subprocess
import sys

IMPORTS = ["torch._dynamo", "torch._functorch.aot_autograd", "torch.distributed.tensor", "cleave.export.capture"]


def run(ranks, script, *arguments, environment=None, timeout=480):
    """The completed process; `environment` are variables beside those that are there."""
    command = [sys.executable, __file__, str(ranks), script, *arguments]
    return subprocess.run(
        command, env={**os.environ, **(environment or {})}, capture_output=True, text=True, timeout=timeout, check=False
    )


def become_rank(rank, ranks, ports, script, arguments):
    # A shell that runs tests in the background has interrupts ignored, and so would the ranks.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    port = os.read(ports, 16).decode()
    size = {"WORLD_SIZE": str(ranks), "LOCAL_WORLD_SIZE": str(ranks), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    # The store is the parent's, so that no port is chosen before it is bound.
    store = {"TORCHELASTIC_USE_AGENT_STORE": "True", "TORCHELASTIC_RESTART_COUNT": "0"}
    os.environ.update(size, RANK=str(rank), LOCAL_RANK=str(rank), **store)
    sys.argv = [script, *arguments]
    sys.path[0] = str(pathlib.Path(script).parent)
    runpy.run_path(script, run_name="__main__")


def main():
    ranks, script, *arguments = sys.argv[1:]
    ranks = int(ranks)
    sys.path.insert(1, str(pathlib.Path(__file__).resolve().parents[2] / "python"))
    for module in IMPORTS:
        __import__(module)
    import torch.distributed as dist

    children = {}
    for rank in range(ranks):
        ports, port_of_store = os.pipe()
        if not (child := os.fork()):
            return become_rank(rank, ranks, ports, script, arguments)
        os.close(ports)
        children[child] = port_of_store
    store = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    for port_of_store in children.values():
        os.write(port_of_store, str(store.port).encode())
    failed = False
    while children:
        child, status = os.wait()
        del children[child]
        if status and not failed:
            failed = True
            for other in children:
                os.kill(other, signal.SIGKILL)
    sys.exit(failed)


if __name__ == "__main__":
    main()
