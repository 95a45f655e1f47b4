"""What Python adds to a step: `cleave.compile_step` and `cleave.Session` beside the same session called from C++.

    .venv/bin/python bench/python_overhead.py [BUILD]      (after: ninja -C BUILD session-steps cleave_native)

A model of one op (a dot product) trained by SGD; rounds of all sides alternate. Then what tracing and compiling
the step of the GPT example takes, by part, and how many copies of its weights there are in memory.
"""

import cProfile
import pathlib
import pstats
import resource
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "python"), str(ROOT / "examples")]

import gpt  # noqa: E402
import torch  # noqa: E402

import cleave  # noqa: E402

STEPS = 10_000
ROUNDS = 5


class Dot(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.w = torch.nn.Parameter(torch.full((4,), 0.25))

    def forward(self, x):
        return torch.dot(self.w, x)


def per_step(body):
    """Microseconds of the processor."""
    start = time.process_time()
    for _ in range(STEPS):
        body()
    return (time.process_time() - start) / STEPS * 1e6


def measure_overhead(build):
    model, x = Dot(), torch.zeros(4)
    step = cleave.compile_step(model, None, torch.optim.SGD(model.parameters(), lr=0.0, fused=True))
    step(x)
    session = cleave.Session(step.program, weights={"w": torch.full((4,), 0.25)})
    eager, optimizer = Dot(), None
    optimizer = torch.optim.SGD(eager.parameters(), lr=0.0, fused=True)

    def run_eagerly():
        optimizer.zero_grad()
        loss = eager(x)
        loss.backward()
        optimizer.step()
        loss.item()

    rows = []
    with tempfile.TemporaryDirectory() as folder:
        path = step.program.save(pathlib.Path(folder, "dot.mlir"))
        for _ in range(ROUNDS):
            command = [build / "bin" / "session-steps", path, str(STEPS), "1"]
            output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
            rows.append(
                {
                    "session, from C++": float(output) / 1e3,
                    "cleave.Session": per_step(lambda: session.step([x])),
                    "cleave.compile_step": per_step(lambda: step(x).loss.item()),
                    "eager mode": per_step(run_eagerly),
                }
            )
    print(f"{STEPS:,} steps of a dot product, one thread, time of the processor, median of {ROUNDS} rounds\n")
    print("| | µs a step | more than from C++ |\n| --- | ---: | ---: |")
    for key in rows[0]:
        more = statistics.median(row[key] - row["session, from C++"] for row in rows)
        print(f"| {key} | {statistics.median(row[key] for row in rows):.1f} | {more:.1f} |")


def measure_compiling():
    """Seconds of the first step of the GPT, of the second, and where the first one's go."""
    spec = gpt.tied()
    step = cleave.compile_step(spec.module, spec.loss, torch.optim.AdamW(spec.module.parameters(), fused=True))
    start = time.process_time()
    step(tuple(spec.args), *spec.targets)
    first = time.process_time() - start
    start = time.process_time()
    step(tuple(spec.args), *spec.targets)
    second = time.process_time() - start
    print(f"GPT: the first step takes {first:.2f} s, the second {second:.4f} s; of the first one, profiled:", end=" ")
    step.close()
    step = cleave.compile_step(spec.module, spec.loss, torch.optim.AdamW(spec.module.parameters(), fused=True))
    profile = cProfile.Profile(time.process_time)
    profile.runcall(step, tuple(spec.args), *spec.targets)
    stats = pstats.Stats(profile)
    shares = {}
    for (file, _, name), (*_, total, _callers) in stats.stats.items():
        if "cleave" in file and name in ("trace_forward", "joint_graph", "settle_strides", "_write"):
            shares[name] = total / stats.total_tt
    print(", ".join(f"{name} {share:.0%}" for name, share in sorted(shares.items(), key=lambda item: -item[1])) + "\n")


def measure_memory():
    """Peak memory of compiling and training a model whose weights are much of it, over them."""
    model = torch.nn.Linear(8192, 8192)  # 256 MiB
    x = torch.randn(1, 8192)
    size = sum(p.nbytes for p in model.parameters())
    step = cleave.compile_step(model, lambda y: y.square().mean(), torch.optim.SGD(model.parameters(), lr=0.0, fused=True))
    cleave.native.native()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    step(x)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    step(x)
    later = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    print(
        f"\nWeights of {size / 2**20:.0f} MiB: the first step's peak is {(peak - before) / size:.2f} of them above what was "
        f"there, their gradient among it; the second adds {(later - peak) / size:.2f}"
    )


def main():
    torch.set_num_threads(1)
    measure_compiling()
    measure_overhead(pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else "build"))
    measure_memory()


if __name__ == "__main__":
    main()
