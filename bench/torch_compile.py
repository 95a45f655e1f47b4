"""Training steps of the dashboards' models by torch.compile: Cleave beside Inductor and eager mode, in one run.

    .venv/bin/python bench/torch_compile.py [--models NAME,...] [--backends cleave,cleave-kernels,inductor]
        [--rounds 5] [--limit 600] [--once] [--log FILE] [--write]

The models are those of docs/models.md, as narrow as there, each in a process of its own. Forward, loss and backward are
compiled; accuracy is the dashboard's criterion (test/python/dashboard_steps.py), and whether the bits are eager mode's.
Rounds of all sides alternate, one thread; times are the processor's, those of compiling with the compilers that
Inductor calls. Dropout is on. For accuracy Inductor draws as eager mode does (fallback_random, as on the dashboard);
what is timed draws by its own, so that it compiles twice what draws. With --once it compiles once: results of models that
draw are not judged then.

With --log rows are kept in FILE, and a later run does the models that have none with these back ends. --write puts the
rows of FILE into bench/results/torch_compile.md; sections that are written by hand stay.
"""

import argparse
import collections
import datetime
import json
import logging
import multiprocessing
import os
import pathlib
import re
import platform
import resource
import statistics
import subprocess
import sys
import tempfile
import time
import unittest.mock
import warnings

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "python"), str(ROOT / "test" / "python")]

import dashboard_steps  # noqa: E402
import timm  # noqa: E402
import torch  # noqa: E402
import torch._inductor.config  # noqa: E402
import transformers.modeling_utils  # noqa: E402
from dashboard_steps import Step  # noqa: E402

import cleave  # noqa: E402
import cleave.partitioner  # noqa: E402
from cleave.export.pytorch_compile import min_cut_partition, partitioner_class  # noqa: E402

ENDED = "its process ended"
RESULTS = ROOT / "bench" / "results" / "torch_compile.md"


def inductor_by_cut(graph, inputs):
    """Inductor by another name: Dynamo gives frames that several steps share to a back end that has compiled them."""
    from torch._inductor.compile_fx import compile_fx

    return compile_fx(graph, inputs)


BACKENDS = {
    "cleave": {"backend": "cleave"},
    "cleave-kernels": {"backend": "cleave", "options": {"passes": "--fuse-kernels --compile-kernels"}},
    "aot-eager": {"backend": "aot_eager"},
    "inductor": {"backend": "inductor"},
    "inductor-min-cut": {"backend": inductor_by_cut},
}
TITLES = {
    "cleave": "cleave", "cleave-kernels": "cleave, compiled kernels", "aot-eager": "aot_eager", "inductor": "inductor",
    "inductor-min-cut": "inductor, cleave's cut",
}  # fmt: skip
_OTHER_CUTS = {"pytorch": "by PyTorch", "other nodes": "with other nodes"}
# Of the page, after both lists by "cleave".
SECTIONS = {
    "With compiled kernels": ["cleave", "cleave-kernels"],
    "Beside Inductor": ["cleave", "cleave-kernels", "inductor"],
    "Beside AOT Autograd alone": ["cleave", "aot-eager"],
    "The minimum cut in Inductor": ["inductor", "inductor-min-cut"],
}


def measure(name, backends, rounds, compiles_once=False):
    """A row: for eager mode and each back end accuracy, seconds to compile, seconds of a step, and how much faster."""
    eager = Step(dashboard_steps.make(name))
    expected, again = clones(eager.results()), eager.results()
    if not dashboard_steps.is_bitwise(again, expected):
        return {"failed": "two runs of eager mode differ"}
    draws = draws_numbers(eager)
    reference = dashboard_steps.in_float64(name)
    steps, rows, results = {"eager": eager}, {"eager": {}}, {}
    for backend in backends:
        try:
            rows[backend], steps[backend], made = compile_step(name, backend, draws, compiles_once)
        except Exception as error:
            rows[backend] = {"accuracy": "fails", "why": reason(error)}
            continue
        if made is None:
            rows[backend]["accuracy"] = "not judged"
            continue
        results[backend] = made
        rows[backend]["accuracy"] = dashboard_steps.judge(name, made, expected, reference)
    if {"inductor", "inductor-min-cut"} <= results.keys():
        is_same = dashboard_steps.is_bitwise(results["inductor-min-cut"], results["inductor"])
        rows["inductor-min-cut"]["as_inductor"] = is_same
    times = {key: [] for key in steps}
    for _ in range(rounds):
        for key, step in steps.items():
            times[key].append(seconds(step))
    for key in steps:
        rows[key]["step"] = statistics.median(times[key])
        rows[key]["speed"] = statistics.median(e / t for e, t in zip(times["eager"], times[key]))
    return {"rows": rows, "draws": draws, "float64": reference is not None}


def compile_step(name, backend, draws, compiles_once):
    """Of a back end: its part of the row, the step that is timed, and the results that are judged, or None."""
    torch._dynamo.utils.counters.clear()
    settings = {"fx_graph_cache": False, "compile_threads": 1}
    if backend == "inductor-min-cut":
        settings["custom_partitioner_fn"] = partitioner = WatchedPartitioner()
    is_inductor = backend.startswith("inductor")
    draws_by_its_own = is_inductor and draws
    patch = torch._inductor.config.patch(settings)
    with warnings.catch_warnings(record=True) as caught, patch, tempfile.TemporaryDirectory() as cache:
        # What one side has compiled is not there for the next one.
        os.environ["TORCHINDUCTOR_CACHE_DIR"] = cache
        warnings.simplefilter("always")
        start = processor_time()
        with torch._inductor.config.patch(fallback_random=is_inductor and not (draws and compiles_once)):
            step = Step(dashboard_steps.make(name), **BACKENDS[backend])
            results = clones(step.results())
        compiled_in = processor_time() - start
        row = {"compile": compiled_in, "graphs": torch._dynamo.utils.counters["stats"]["unique_graphs"]}
        if draws_by_its_own and compiles_once:
            results = None
        elif draws_by_its_own:
            step = Step(dashboard_steps.make(name), **BACKENDS[backend])
            step.run()
    if backend == "inductor-min-cut":
        row["cuts"] = partitioner.cuts
    left = [str(w.message) for w in caught if w.category is cleave.ExportNote]
    if left:
        row["left"], row["why"] = len(left), left[0]
    return row, step, results


class WatchedPartitioner(partitioner_class()):
    """Cleave's, which counts the graphs that it divides, and looks whether their parts have the joint graph's nodes."""

    def __init__(self):
        self._partitioner = cleave.partitioner.inductor_partitioner()
        self.cuts = {"cleave": 0, "pytorch": 0, "other nodes": 0}

    def __call__(self, joint, inputs, **options):
        before = node_names(joint)
        with unittest.mock.patch.object(cleave.partitioner, "min_cut_partition", wraps=min_cut_partition) as by_pytorch:
            parts = self._partitioner(joint, inputs, **options)
        self.cuts["pytorch" if by_pytorch.called else "cleave"] += 1
        self.cuts["other nodes"] += set().union(*map(node_names, parts)) != before
        return parts

    def uuid(self):
        return self._partitioner.uuid()


def node_names(graph):
    return {node.name for node in graph.graph.nodes if node.op == "call_function"}


def clones(results):
    return {key: value.clone() for key, value in results.items()}


def draws_numbers(step):
    before = torch.get_rng_state()
    step.run()
    return not torch.equal(before, torch.get_rng_state())


def seconds(step):
    start = time.process_time()
    step.run()
    return time.process_time() - start


def processor_time():
    """Of this process, and of those that it has called."""
    called = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + called.ru_utime + called.ru_stime


def reason(error):
    return f"{type(error).__name__}: " + next(iter(str(error).strip().splitlines()), "")


def measure_alone(name, backends, options):
    """A row by a process of its own, whatever happens to it. Where one back end ends the process, each has one."""
    row = measure_in_process(name, backends, options)
    if not row.get("failed", "").startswith(ENDED) or len(backends) == 1:
        return row
    rows = {}
    for backend in backends:
        part = measure_in_process(name, [backend], options)
        rows |= part.get("rows", {backend: {"accuracy": "fails", "why": part.get("failed")}})
    return {"rows": rows} if "eager" in rows else row


def measure_in_process(name, backends, options):
    """A row, by a fork, which need not load the libraries again."""
    context = multiprocessing.get_context("fork")
    receiver, sender = context.Pipe(duplex=False)

    def work():
        torch.set_num_threads(1)
        torch._logging.set_logs(dynamo=logging.ERROR)
        try:
            row = measure(name, backends, options.rounds, options.once)
        except Exception as error:
            row = {"failed": reason(error)}
        sender.send(row)

    process = context.Process(target=work)
    process.start()
    sender.close()
    if not receiver.poll(options.limit):
        process.kill()
        process.join()
        return {"failed": f"not finished after {options.limit} s"}
    try:
        return receiver.recv()
    except EOFError:
        process.join()
        return {"failed": f"{ENDED} with status {process.exitcode}"}


def read(log):
    """The rows that there are, oldest first."""
    return [json.loads(line) for line in log.read_text().splitlines()] if log and log.exists() else []


def with_backends(rows, backends):
    """Of each model the last row that has these back ends, or says why it has none."""
    return {row["model"]: row for row in rows if "failed" in row or set(backends) <= row["rows"].keys()}


def cells(row, backends):
    """Of a model's line in the table."""
    if "failed" in row:
        return ["", row["failed"], *[""] * (3 * len(backends) - 1)]
    found = [f"{row['rows']['eager']['step'] * 1e3:.1f}"]
    for backend in backends:
        part = row["rows"][backend]
        accuracy = part["accuracy"] + (f", {part['left']} graphs by PyTorch" if "left" in part else "")
        if "as_inductor" in part:
            accuracy += ", inductor's bits" if part["as_inductor"] else ", not inductor's bits"
        if "cuts" in part:
            accuracy += f", {part['cuts']['cleave']} cuts by cleave"
            accuracy += "".join(f", {part['cuts'][key]} {text}" for key, text in _OTHER_CUTS.items() if part["cuts"][key])
        found.append(accuracy + (": " + part["why"] if "why" in part else ""))
        found += [f"{part['compile']:.1f}", f"{part['speed']:.2f}"] if "speed" in part else ["", ""]
    return found


def table(rows, backends):
    """Lines of Markdown: counts, then the models."""
    text = [f"- {line}" for line in summary(rows.values(), backends)]
    titles = " | ".join(f"{TITLES[backend]} | compiled in, s | speed" for backend in backends)
    text += ["", f"| model | eager, ms | {titles} |"]
    text += ["| --- | ---: |" + " --- | ---: | ---: |" * len(backends)]
    for name, row in rows.items():
        text += ["| " + " | ".join([name, *(cell.replace("|", "\\|") for cell in cells(row, backends))]) + " |"]
    return text


def page(rows, names):
    """Both lists by Cleave, and models that have been run with more beside it."""
    text = []
    for title, models in dashboard_steps.LISTS.items():
        found = with_backends(rows, ["cleave"])
        here = {name: found[name] for name in models.MODELS if name in found and name in names}
        text += ["", f"## {title}", *(["", *table(here, ["cleave"])] if here else ())]
        if absent := [name for name in models.MODELS if name not in here]:
            text += ["", f"Not run: {', '.join(absent)}."]
    for title, backends in SECTIONS.items():
        found = with_backends([row for row in rows if "rows" in row], backends)
        if here := {name: found[name] for name in names if name in found}:
            text += ["", f"## {title}", "", *table(here, backends)]
    return text


def written_by_hand(text):
    """The lines of a page's sections that are not made from rows."""
    made = {*dashboard_steps.LISTS, *SECTIONS}
    sections = re.split(r"^(?=## )", text, flags=re.MULTILINE)[1:]
    kept = "".join(section for section in sections if section.partition("\n")[0].removeprefix("## ") not in made)
    return ["", *kept.strip().splitlines()] if kept else []


def summary(rows, backends):
    """Of each back end how many models are what, and the geometric mean of the speeds."""
    for backend in backends:
        parts = [row["rows"][backend] for row in rows if "rows" in row]
        counts = collections.Counter(part["accuracy"] for part in parts)
        counts["not measured"] = len(rows) - len(parts)
        kinds = ", ".join(f"{count} {kind}" for kind, count in counts.most_common() if count)
        speeds = [part["speed"] for part in parts if "speed" in part]
        mean = f"; speed {statistics.geometric_mean(speeds):.2f} (geometric mean)" if speeds else ""
        yield f"{TITLES[backend]}: {kinds}{mean}"


def head(options):
    compiler = subprocess.run(["g++", "-dumpfullversion"], capture_output=True, text=True).stdout.strip()
    versions = f"torch {torch.__version__}, transformers {transformers.__version__}, timm {timm.__version__}"
    return [
        f"# torch.compile over the dashboards' models, {datetime.date.today()}", "",
        f"{options.machine}, {processor()}; Python {platform.python_version()}, {versions}, Inductor with g++ {compiler}. "
        f"`bench/torch_compile.py`, one thread, medians of {options.rounds} rounds of all sides in turn, each side's time "
        "of the processor: ratios stand for more than times. Forward, loss and backward of the models of "
        "[docs/models.md](../../docs/models.md), as narrow as there: at these sizes a step is calls more than arithmetic.",
        "",
        "- *accuracy*: loss, gradients and buffers of the second of two rounds are eager mode's bit for bit (`bitwise`), or "
        "by the criterion of PyTorch's dashboard (`same`: `torch._dynamo.utils.same` with its tolerances, beside eager mode "
        "in float64)",
        "- *speed*: eager mode's time by the compiled step's. Dropout is on; for accuracy Inductor draws as eager mode does, "
        "what is timed draws by its own",
        "- *compiled in*: time of the processor, to the end of the second round, with Inductor's C++ compiler; its first side in a row also "
        "compiles the headers that it needs once in a process",
    ]  # fmt: skip


def processor():
    lines = pathlib.Path("/proc/cpuinfo").read_text().splitlines()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), platform.machine())


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--models", help="names of docs/models.md, separated by commas; all of them by default")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--backends", default="cleave,cleave-kernels,inductor", help=f"of {', '.join(BACKENDS)}")
    parser.add_argument("--limit", type=int, default=600, help="seconds for a model")
    parser.add_argument("--once", action="store_true", help="Inductor compiles once, and is not judged where models draw numbers")
    parser.add_argument("--log", type=pathlib.Path, help="rows of models, one of JSON a line")
    parser.add_argument("--write", action="store_true", help="write bench/results/torch_compile.md from the log's rows")
    parser.add_argument("--machine", default="A machine", help="what the page says of it")
    options = parser.parse_args()
    names = options.models.split(",") if options.models else dashboard_steps.names()
    backends = options.backends.split(",")
    for kind, given, known in (("model", names, dashboard_steps.names()), ("back end", backends, BACKENDS)):
        if unknown := [each for each in given if each not in known]:
            parser.error(f"unknown {kind} {unknown[0]!r}; expected of {', '.join(known)}")
    rows = read(options.log)
    if options.write:
        kept = written_by_hand(RESULTS.read_text(encoding="utf-8")) if RESULTS.exists() else []
        RESULTS.write_text("\n".join(head(options) + page(rows, names) + kept) + "\n", encoding="utf-8")
        return
    done = with_backends(rows, backends)
    for name in names:
        if name in done:
            continue
        done[name] = {"model": name, **measure_alone(name, backends, options)}
        print("| " + " | ".join([name, *cells(done[name], backends)]) + " |", flush=True)
        if options.log:
            with options.log.open("a") as log:
                log.write(json.dumps(done[name]) + "\n")
    print("\n".join(table({name: done[name] for name in names}, backends)))


if __name__ == "__main__":
    main()
