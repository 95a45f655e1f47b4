"""Training steps of the dashboards' models by torch.compile: Cleave beside Inductor and eager mode, in one run.

    .venv/bin/python bench/torch_compile.py [--models NAME,...] [--rounds 5] [--backends cleave,inductor]

The models are those of docs/models.md, as narrow as there. Forward, loss and backward are compiled; rounds of all sides
alternate; times are the processor's. Accuracy is PyTorch's own criterion for back ends (torch._dynamo.utils.same, as
benchmarks/dynamo calls it: loss, gradients and buffers, beside eager mode and eager mode in float64), and whether the
bits are eager mode's. Dropout is on; Inductor draws by eager mode's functions (fallback_random).
"""

import argparse
import copy
import pathlib
import statistics
import sys
import time
import warnings

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "python"), str(ROOT / "test" / "python")]

import hugging_face  # noqa: E402
import timm_models  # noqa: E402
import torch  # noqa: E402
import torch._dynamo  # noqa: E402
import torch._inductor.config  # noqa: E402

import cleave  # noqa: E402

LISTS = {"Hugging Face": hugging_face, "TIMM": timm_models}
TOLERANCE = 1e-3  # of the dashboard, for training
OPTIONS = {
    "cleave": {"backend": "cleave"},
    "cleave, kernels": {"backend": "cleave", "options": {"passes": "--fuse-kernels --compile-kernels"}},
    "inductor": {"backend": "inductor"},
}


class Step:
    """Forward, loss and backward of a model from the same state each time."""

    def __init__(self, spec, **compiler):
        self.module, self.spec = spec.module, spec
        self.state = copy.deepcopy(spec.module.state_dict())
        self.loss = torch.compile(self._loss, **compiler) if compiler else self._loss

    def _loss(self, *args, **kwargs):
        outputs = self.module(*args, **kwargs)
        return self.spec.loss(outputs, *self.spec.targets) if self.spec.loss else outputs.loss

    def run(self):
        self.module.zero_grad()
        loss = self.loss(*self.spec.args, **self.spec.kwargs)
        loss.backward()
        return loss

    def results(self):
        """Of one step from the beginning: loss, gradients, buffers."""
        self.module.load_state_dict(self.state)
        torch.manual_seed(1)
        loss = self.run().detach()
        gradients = {name: p.grad for name, p in self.module.named_parameters() if p.grad is not None}
        return {"loss": loss, **gradients, **dict(self.module.named_buffers())}

    def seconds(self):
        start = time.process_time()
        self.run()
        return time.process_time() - start


def in_float64(make, name):
    """Eager mode's results in float64; None for a model that does not compute in it."""
    spec = make(name)
    spec.module.double()
    for values in (spec.kwargs, dict(enumerate(spec.args))):
        for key, value in values.items():
            if isinstance(value, torch.Tensor) and value.is_floating_point():
                values[key] = value.double()
    spec.args = tuple(v.double() if torch.is_tensor(v) and v.is_floating_point() else v for v in spec.args)
    try:
        return Step(spec).results()
    except (RuntimeError, NotImplementedError):
        return None


def judge(found, expected, reference):
    """"bitwise", "same" by PyTorch's criterion, or "differs"."""
    if found.keys() != expected.keys():
        return "differs"
    if all(torch.equal(found[name], expected[name]) for name in expected):
        return "bitwise"
    same = torch._dynamo.utils.same(
        expected, found, reference if reference and reference.keys() == expected.keys() else None, tol=TOLERANCE,
        equal_nan=True, log_error=lambda *text: None,
    )  # fmt: skip
    return "same" if same else "differs"


def measure(make, name, backends, rounds):
    """For eager mode and each back end: accuracy, seconds to compile, seconds of a step."""
    torch.compiler.reset()
    eager = Step(make(name))
    expected = {key: value.clone() for key, value in eager.results().items()}
    reference = in_float64(make, name)
    steps, rows = {"eager": eager}, {"eager": {"accuracy": "", "compile": 0.0}}
    for backend in backends:
        start = time.process_time()
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                steps[backend] = Step(make(name), **OPTIONS[backend])
                found = steps[backend].results()
            except Exception as error:
                del steps[backend]
                print(f"{name}, {backend}: {type(error).__name__}: {str(error).splitlines()[0]}", file=sys.stderr)
                rows[backend] = {"accuracy": "fails", "compile": 0.0}
                continue
        rows[backend] = {"accuracy": judge(found, expected, reference), "compile": time.process_time() - start}
        left = [str(w.message) for w in caught if w.category is cleave.ExportNote]
        if left:
            rows[backend]["accuracy"] += f", {len(left)} graphs by PyTorch"
            print(f"{name}, {backend}: {left[0]}", file=sys.stderr)
    times = {key: [] for key in steps}
    for _ in range(rounds):
        for key, step in steps.items():
            times[key].append(step.seconds())
    for key in steps:
        rows[key]["step"] = statistics.median(times[key])
        rows[key]["ratio"] = statistics.median(e / t for e, t in zip(times["eager"], times[key]))
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--models", help="names of docs/models.md, separated by commas; all of them by default")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--backends", default=",".join(["cleave", "inductor"]), help=f"of {', '.join(OPTIONS)}")
    options = parser.parse_args()
    wanted = options.models.split(",") if options.models else None
    backends = options.backends.split(",")
    torch.set_num_threads(1)
    torch._inductor.config.fallback_random = True
    print("| model | eager, ms | " + " | ".join(f"{b} | compiled in, s | speed" for b in backends) + " |")
    print("| --- | ---: |" + " --- | ---: | ---: |" * len(backends))
    counts = {backend: {} for backend in backends}
    for module in LISTS.values():
        for name in module.MODELS:
            if wanted is not None and name not in wanted:
                continue
            rows = measure(module.make, name, backends, options.rounds)
            cells = [name, f"{rows['eager']['step'] * 1e3:.1f}"]
            for backend in backends:
                row = rows[backend]
                counts[backend][row["accuracy"]] = counts[backend].get(row["accuracy"], 0) + 1
                ratio = f"{row['ratio']:.2f}" if "ratio" in row else ""
                cells += [row["accuracy"], f"{row['compile']:.1f}", ratio]
            print("| " + " | ".join(cells) + " |", flush=True)
    for backend in backends:
        print(f"\n{backend}: " + ", ".join(f"{count} {kind}" for kind, count in counts[backend].items()))


if __name__ == "__main__":
    main()
