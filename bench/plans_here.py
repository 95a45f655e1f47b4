#!/usr/bin/env python3
"""Whether the plan that cleave-plan chooses is the fastest on this machine.

    bench/plans_here.py [--build build] [--models gpt,llama] [--ranks 2,4] [--rounds 3] [--steps 10] [--write]

Describes the machine as a cluster: rates of products and copies, and of Gloo, with as many processes at work as there
are cores. Lets cleave-plan simulate all plans of a space of at most 60, carries each of them out by its commands, and times
steps of all of them in turns: medians over steps (the first two left out) and then over rounds. More ranks than cores
share these, and the description of a device says so. Needs an idle machine. --write puts the tables into
bench/results/plans_here.md.
"""

import argparse
import datetime
import json
import multiprocessing
import os
import pathlib
import shlex
import socket
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
for part in ("python", "examples"):
    sys.path.insert(0, str(ROOT / part))
import gpt  # noqa: E402
import llama  # noqa: E402
import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402

import cleave  # noqa: E402

MICROBATCHES, BATCH, CONTEXT, WARM_UP, MOST = 4, 8, 64, 1, 60
# What leaves at most MOST plans: by ranks.
FIXED = {2: "recompute=none,ends=0,neighbours=tp", 4: "recompute=none,ends=0,neighbours=tp,cp=1,chunks=1,sequence=no"}


def export(model, folder):
    if model == "gpt":
        spec = gpt._spec("gpt", gpt.GPTConfig(layers=4, width=256, heads=4, context=CONTEXT), batch=BATCH)
    else:
        config = llama.LlamaConfig(context=CONTEXT, layers=4, width=256, hidden=512)
        spec = llama.make_spec(config, "llama", batch=BATCH)
    cleave.export_spec(spec, folder)
    return folder / f"{model}.mlir"


# The machine as a cluster --------------------------------------------------------------------------


def time_of(work, repetitions=20):
    work()
    begin = time.perf_counter()
    for _ in range(repetitions):
        work()
    return (time.perf_counter() - begin) / repetitions


def measure_core(rank, cores, address, results):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{address}", rank=rank, world_size=cores)
    a, b = torch.randn(512, 512), torch.randn(512, 512)
    source, target, small = torch.randn(1 << 24), torch.empty(1 << 24), torch.zeros(4)
    found = {}
    dist.barrier()
    found["flops"] = 2 * 512**3 / time_of(lambda: torch.mm(a, b))
    found["bytes"] = 2 * source.nbytes / time_of(lambda: target.copy_(source))
    found["kernel"] = time_of(lambda: small.add_(1), 2000)
    if cores > 1:
        found["latency"] = time_of(lambda: dist.all_reduce(small), 200)
        # A ring sends and takes twice what one rank has, less its own part.
        large = torch.zeros(1 << 20)
        found["link"] = 2 * large.nbytes * (cores - 1) / cores / time_of(lambda: dist.all_reduce(large))
    results.put(found)
    dist.barrier()
    dist.destroy_process_group()


def measure_machine(cores, folder):
    context = multiprocessing.get_context("spawn")
    results = context.Queue()
    workers = [context.Process(target=measure_core, args=(rank, cores, folder / "store", results)) for rank in range(cores)]
    for worker in workers:
        worker.start()
    found = [results.get(timeout=300) for _ in workers]
    for worker in workers:
        worker.join()
    return {name: statistics.mean(row[name] for row in found) for name in found[0]}


def describe(machine, ranks, folder):
    """The cluster's file. Ranks that share a core have a part of it each."""
    share = min(1, os.cpu_count() / ranks)
    flops = machine["flops"] * share
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / ranks
    device = {
        "device": "core",
        "facts": {"processors": 0, "memory_bytes": memory, "memory_bandwidth": machine["bytes"] * share, "flops_16bit": flops,
                  "flops_8bit": 0, "flops_4bit": 0, "flops_32bit": flops},
        "constants": {"matrix_efficiency_16bit": 1, "matrix_efficiency_8bit": 1, "matrix_efficiency_4bit": 1, "attention_efficiency": 0.5, "memory_efficiency": 1, "depth_overhead": 0,
                      "kernel_seconds": machine["kernel"] / share, "host_seconds": 0, "step_seconds": 0, "overlap_slowdown": 1, "host_efficiency": 1},
    }  # fmt: skip
    link = {
        "link": "gloo",
        "facts": {"bandwidth": machine.get("link", 1e9) * share, "shared": 0},
        "constants": {"latency": machine.get("latency", 1e-4) / 2 / share, "start_seconds": 0, "efficiency": 1,
                      "point_to_point_efficiency": 1, "all_to_all_efficiency": 1},
    }  # fmt: skip
    cluster = {"cluster": "here", "of": "core", "types": ["core"], "devices_per_node": ranks, "levels": [{"link": "gloo", "size": 0}]}
    for name, content in (("core", device), ("gloo", link), ("here", cluster)):
        (folder / f"{name}.json").write_text(json.dumps(content, indent=1))
    return folder / "here.json"


# Plans ---------------------------------------------------------------------------------------------


def plan(build, program, cluster, ranks, *options):
    command = [build / "bin" / "cleave-plan", program, f"--cluster={cluster}", f"--ranks={ranks}", "--json", "--budgets=0",
               f"--microbatches={MICROBATCHES}", "--time-limit=600", *options]  # fmt: skip
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def words(found):
    """What fixes a plan."""
    return ",".join(f"{word}={value}" for word, value in found["plan"].items() if word not in ("program", "budget", "microbatches"))


def carry_out(build, program, cluster, ranks, found, folder):
    made = plan(build, program, cluster, ranks, f"--fix={words(found)}", "-o", folder)
    assert made["best"]["plan"] == found["plan"], (made["best"]["plan"], found["plan"])
    name, *options = shlex.split(made["commands"][0])
    subprocess.run([build / "bin" / name, *options], check=True, capture_output=True)
    lowered = folder / "lowered.mlir"
    subprocess.run([build / "bin" / "cleave-opt", folder / "program.mlir", "--lower-to-exec", "-o", lowered], check=True)
    return lowered


def free_port():
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        return server.getsockname()[1]


def core_of(rank, ranks):
    """Neighbours share one: they do the same at the same time, so each has its part of the core."""
    return rank * os.cpu_count() // ranks if ranks > os.cpu_count() else rank


def time_steps(build, program, weights, microbatches, ranks, steps, text):
    """Milliseconds of a step. Ranks stay on their cores."""
    metrics, port = program.with_suffix(".jsonl"), free_port()
    command = [build / "bin" / "cleave-run", program, "--weights", weights, "--steps", str(steps), "--threads", "1", "--seed", "0",
               "--quiet", "--data", f"text:{text}", "--metrics", metrics]  # fmt: skip
    if microbatches:
        command += ["--microbatches", str(microbatches)]
    processes = []
    for rank in range(ranks):
        names = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": ranks, "LOCAL_WORLD_SIZE": ranks, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
        environment = os.environ | {name: str(value) for name, value in names.items()} if ranks > 1 else None
        processes.append(subprocess.Popen(["taskset", "-c", str(core_of(rank, ranks)), *command], env=environment, stdout=subprocess.DEVNULL))
    if any([process.wait() for process in processes]):
        sys.exit(f"{program}: a rank failed")
    rows = [json.loads(line) for line in metrics.read_text().splitlines()]
    return statistics.median(row["ms"] for row in rows[WARM_UP:])


def name_of(found):
    """The words that say something."""
    idle = {"dp": "1", "tp": "1", "pp": "1", "cp": "1", "ep": "1", "chunks": "1", "sequence": "no", "offload": "no", "ends": "0", "replicas": "1"}
    chosen = found["plan"]
    alone = chosen["dp"] == chosen["cp"] == "1"
    hidden = {"neighbours", "recompute", "program", "microbatches"} | ({"schedule"} if chosen["pp"] == "1" else set())
    hidden |= {"parameters"} if alone else set()
    return " ".join(f"{word}={value}" for word, value in chosen.items() if word not in hidden and idle.get(word) != value)


def scale_to_step(build, program, weights, machine, options, text, folder):
    """The machine with rates at which a step of one rank takes as long as it does: kernels have other shapes than what the
    rates were measured by."""
    fixed = "--fix=recompute=none"
    found = plan(build, program, describe(machine, 1, folder), 1, fixed)["best"]
    lowered = carry_out(build, program, folder / "here.json", 1, found, folder / "one")
    step = statistics.median(time_steps(build, lowered, weights, MICROBATCHES, 1, options.steps, text) for _ in range(options.rounds))
    scale = step / 1e3 / found["seconds"]
    scaled = machine | {"flops": machine["flops"] / scale, "bytes": machine["bytes"] / scale, "kernel": machine["kernel"] * scale}
    return scaled, step, found["seconds"]


def compare(model, ranks, options, build, machine, folder):
    program = export(model, folder)
    text = folder / "text"
    text.write_bytes(bytes(range(32, 127)) * 400)
    weights = program.with_suffix(".safetensors")
    machine, step, predicted = scale_to_step(build, program, weights, machine, options, text, folder)
    cluster = describe(machine, ranks, folder)
    usual = (f"--fix={FIXED[ranks]}", f"--alternatives={MOST + 1}")
    free = plan(build, program, cluster, ranks, usual[0])["best"]
    whole = plan(build, program, cluster, ranks, *usual, "--exhaustive")
    every = [whole["best"], *whole["alternatives"]]
    assert len(every) <= MOST and every[0]["plan"] == free["plan"], "expected all plans, and the chosen one first"
    programs = [carry_out(build, program, cluster, ranks, found, folder / str(n)) for n, found in enumerate(every)]
    measured = [[] for _ in every]
    for _ in range(options.rounds):
        for n, found in enumerate(every):
            count = 0 if int(found["plan"]["pp"]) > 1 else MICROBATCHES
            measured[n].append(time_steps(build, programs[n], weights, count, ranks, options.steps, text))
    times = [statistics.median(row) for row in measured]
    order = sorted(range(len(every)), key=times.__getitem__)
    lines = [f"## {model} on {ranks} ranks", "",
             f"{len(every)} plans with `--fix={FIXED[ranks]}`. The chosen one, `{name_of(every[0])}`, takes {times[0]:.1f} ms, "
             f"{100 * (times[0] / times[order[0]] - 1):.1f} % more than the fastest; it is number {order.index(0) + 1}. A step of one rank takes "
             f"{step:.1f} ms, {1e3 * predicted:.1f} at the measured rates, which were scaled to it.", "",
             "| plan | measured (ms) | by round | predicted (ms) |", "| --- | ---: | --- | ---: |"]  # fmt: skip
    for n in order:
        mark = " (chosen)" if n == 0 else ""
        lines.append(f"| {name_of(every[n])}{mark} | {times[n]:.1f} | {', '.join(f'{ms:.1f}' for ms in measured[n])} | "
                     f"{1e3 * every[n]['seconds']:.1f} |")  # fmt: skip
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default=ROOT / "build", type=lambda text: pathlib.Path(text).resolve())
    parser.add_argument("--models", default="gpt,llama")
    parser.add_argument("--ranks", default="2,4")
    parser.add_argument("--rounds", default=3, type=int)
    parser.add_argument("--steps", default=10, type=int)
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    os.environ["OMP_NUM_THREADS"] = "1"
    parts = []
    with tempfile.TemporaryDirectory() as name:
        machine = measure_machine(os.cpu_count(), pathlib.Path(name))
        print(machine, file=sys.stderr)
    for model in options.models.split(","):
        for ranks in map(int, options.ranks.split(",")):
            with tempfile.TemporaryDirectory() as name:
                parts.append(compare(model, ranks, options, options.build, machine, pathlib.Path(name)))
            print(parts[-1], flush=True)
    if options.write:
        rates = ", ".join(f"{name} {value:.3g}" for name, value in machine.items())
        head = (f"# Plans timed on this machine\n\n{datetime.date.today()}, {os.cpu_count()} cores, `bench/plans_here.py`: {options.rounds} rounds of "
                f"{options.steps} steps, all plans in turns, one thread a rank, {MICROBATCHES} microbatches of {BATCH} examples. "
                f"The machine, measured with all cores at work: {rates} (operations or bytes a second, seconds).\n\n")  # fmt: skip
        (ROOT / "bench" / "results" / "plans_here.md").write_text(head + "\n".join(parts))


if __name__ == "__main__":
    main()
