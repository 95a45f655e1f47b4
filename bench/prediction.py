#!/usr/bin/env python3
"""Predicted against measured step times and memory, by family, with constants fitted on other rows.

    bench/prediction.py DATA [--build build] [--parts all,leave-out,folds,ablation] [--write]

A processor needs some ten minutes for all of it, one for all rows alone.

DATA has measured/iterations.csv, measured/plans.json and measured/profiles. Constants are fitted by `cleave.calibrate`:
on all rows; on all but one family; on four fifths of vTrain's models; with the profiles' single kernels each time.
Folds follow from the rows alone. Beside it stands a roofline with five constants, fitted on the same rows in the same
way. Prints Markdown; --write puts each part, with the date, into bench/results/prediction.md, with the error of every row (no measured value is copied); other parts stay. With
the fit to all rows it writes examples/devices, as `cleave.calibrate` does: the page has the digest of the constants
that it was made with, and a test compares.
"""

import argparse
import collections
import csv
import datetime
import gzip
import hashlib
import itertools
import math
import pathlib
import statistics
import sys
import tempfile

import numpy

SOURCE = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(SOURCE / "python"))
from cleave import calibrate  # noqa: E402

# What a family's median and 90th percentile are to be at most, in percent.
TARGETS = {"vtrain_single": (5, 15), "vtrain_multi": (5, 15), "megatron_sc21": (5, 15), "korthikanti22": (5, 15),
           "mlperf": (6, None), "megatron_bridge": (8, None), "megatron_bridge_moe": (12, None), "aceso": (10, None),
           "megatron_in_mist_logs": (10, None), "mist": (10, None), "torchtitan": (10, None)}
# Families whose GPU no other family has.
ALONE = {"aceso", "megatron_in_mist_logs", "mist", "torchtitan"}
# Correlations of plans as a naive model ranks them, on one node and on several, beside which the aim was set.
NAIVE = 0.83, 0.81
TERMS = ("tiles", "bytes", "launches", "latency", "starts", "strided", "slots", "contention", "bubble", "optimizer")
FOLDS = 5


# The devices of profiles, as their sources call them.
PROFILED = {"l4": "l4", "a10g": "a10g", "a100-sxm4-40gb": "a100-40gb"}
# Of Aceso's ops: products with one weight, by the columns that it has, in hidden sizes. Pointwise kernels say little:
# the softmax is faster than its device's memory, as some of it stays in the cache.
PRODUCTS = {"enc-attention-dense": 1, "enc-attention-qkv": 3, "enc-MLP-GEMM-1": 4, "enc-MLP-GEMM-2": 1}
MIB = 2**20


def read_profile(path):
    with gzip.open(path, "rt", newline="", encoding="utf-8") as file:
        return [row for row in csv.DictReader(line for line in file if not line.startswith("#"))
                if row["gpu"] in PROFILED]


def product(row, m, n, k, seconds):
    return {"device": PROFILED[row["gpu"]], "kind": "product", "m": round(m), "n": round(n), "k": round(k),
            "seconds": seconds}


def read_kernels(folder):
    """Products of 16 bits that were measured by themselves: in Mist's tables of interference, and of one device's
    forward, in Aceso's op times, whose sizes give the shapes."""
    for row in read_profile(folder / "mist_interference.csv.gz"):
        if float(row["gemm_n"]) and not any(float(row[name]) for name in ("gpu_gpu_mb", "cpu_gpu_mb", "gpu_cpu_mb")):
            yield product(row, *(float(row[name]) for name in ("gemm_n", "gemm_m", "gemm_k")),
                          float(row["latency_ms"]) / 1e3)
    ops = [row for row in read_profile(folder / "aceso_op_times.csv.gz") if row["tp"] == "1"]
    hidden = {(row["gpu"], row["model"]): math.isqrt(round(float(row["weights_mb"]) * MIB / 2)) for row in ops
              if row["op_name"] == "enc-attention-dense"}
    for row in ops:
        seconds, kept = float(row["forward_us"]) / 1e6, float(row["activations_mb"]) * MIB
        if row["op_name"] in PRODUCTS:
            columns = PRODUCTS[row["op_name"]] * hidden[row["gpu"], row["model"]]
            yield product(row, kept / 2 / columns, columns, float(row["weights_mb"]) * MIB / 2 / columns, seconds)


def merge(kernels):
    """One of each kind and shape on a device, with the median of what was measured."""
    seconds = collections.defaultdict(list)
    for kernel in kernels:
        seconds[tuple(sorted((name, value) for name, value in kernel.items() if name != "seconds"))].append(
            kernel["seconds"])
    return [dict.fromkeys(calibrate.KERNEL_COLUMNS, "") | dict(key) | {"seconds": statistics.median(values)}
            for key, values in seconds.items()]


class Bench:
    """Rows, the tool, and where a fit begins."""

    def __init__(self, data, build):
        self.tool = build / "bin/cleave-sim"
        self.options = [f"--plans={data / 'measured/plans.json'}",
                        f"--defaults={SOURCE / 'examples/devices/defaults/runs.json'}"]
        self.header, every = calibrate.read_rows(data / "measured/iterations.csv")
        self.every = every
        self.rows = calibrate.newest(every)
        self.files = calibrate.Files(SOURCE / "examples/devices")
        self.kernels = merge(read_kernels(data / "measured/profiles"))
        # Of Aceso's plans: what the allocator held on the rank that held most, in GiB.
        self.held = collections.defaultdict(float)
        with open(data / "measured/aceso_rank_breakdown.csv", newline="", encoding="utf-8") as file:
            for row in csv.DictReader(line for line in file if not line.startswith("#")):
                if row["max_reserved"]:
                    plan = f"{row['system']}-{row['gpu']}-{row['plan']}"
                    self.held[plan] = max(self.held[plan], float(row["max_reserved"]) / 1024)

    def write(self, fit):
        """The devices' files, with the constants of a fit to all rows."""
        self.files.write(SOURCE / "examples/devices", fit.positions, fit.errors())

    def digest(self, positions):
        """Of constants as they are written."""
        with tempfile.TemporaryDirectory() as folder:
            self.files.write(folder, positions)
            return calibrate.Files(folder).digest()

    def fit(self, rows, options=(), positions=None):
        return calibrate.Fit(self.files, self.header, rows, self.tool, [*self.options, *options], positions,
                             self.kernels)

    def predict(self, positions, rows, options=()):
        """Predictions of rows with these constants, by id."""
        with tempfile.TemporaryDirectory() as scratch:
            folder = pathlib.Path(scratch)
            with open(folder / "rows.csv", "w", newline="", encoding="utf-8") as file:
                writer = csv.DictWriter(file, self.header, extrasaction="ignore")
                writer.writeheader()
                writer.writerows(rows)
            self.files.write(folder, positions)
            done = calibrate.predict(self.tool, folder / "rows.csv", folder, [*self.options, *options])
        return {row["id"]: row for row in done}


def thin(rows):
    """Every fourth of vTrain's 960 rows on one node: fits of folds then take a third of the time."""
    single = [row for row in rows if row["source"] == "vtrain_single"]
    kept = {row["id"] for row in single[::4]}
    return [row for row in rows if row["source"] != "vtrain_single" or row["id"] in kept]


def number(text):
    return float(text) if text else None


def errors_of(predictions, rows, predicted="predicted_step_time_s", measured="step_time_s"):
    """Relative errors by id, where both are known."""
    result = {}
    for row in rows:
        value, truth = number(predictions[row["id"]][predicted]), number(row[measured])
        if value and truth:
            result[row["id"]] = value / truth - 1
    return result


def summary(errors):
    sizes = sorted(abs(error) for error in errors)
    if not sizes:
        return None
    return (100 * statistics.median(sizes), 100 * float(numpy.quantile(sizes, 0.9)), 100 * statistics.median(errors))


def by_family(errors, rows):
    groups = collections.defaultdict(list)
    for row in rows:
        if row["id"] in errors:
            groups[calibrate.family(row)].append(errors[row["id"]])
    return groups


# The baseline: operations, bytes, two kinds of links and a launch, each with one constant for all devices.
def baseline_terms(row, item):
    """Seconds of each kind at the data sheet's rates; nothing if the row has no layout."""
    try:
        integer = {name: int(float(row[name])) for name in ("layers", "hidden", "ffn", "seq", "global_batch", "gpus")}
        tensor, data, pipeline = (int(float(row[name] or 1)) for name in ("tp", "dp", "pp"))
        micro = int(float(row["micro_batch"] or 1))
    except ValueError:
        return None
    facts = item["facts"]
    active = row["arch"].partition("top")[2]
    matrices = 3 if row["model"].upper().startswith(("LLAMA", "QWEN", "DEEPSEEK", "KIMI", "GPT OSS")) else 2
    chosen = int(active) if active else 1
    hidden, layers = integer["hidden"], integer["layers"]
    vocabulary = int(row["vocab"] or 51200)
    parameters = layers * (4 * hidden**2 + chosen * matrices * hidden * integer["ffn"]) + hidden * vocabulary
    tokens = integer["global_batch"] * integer["seq"]
    passes = 8 if row["recompute"] == "full" else 6
    flops = passes * tokens * (parameters + layers * integer["seq"] * hidden) / integer["gpus"]
    peak = facts["flops_16bit"]
    if row["precision"].startswith(("fp8", "mxfp8")):
        peak = facts["flops_8bit"] or peak
    elif row["precision"].startswith("nvfp4"):
        peak = facts["flops_4bit"] or facts["flops_8bit"] or peak
    traffic = passes / 6 * 40 * 2 * tokens * hidden * layers / integer["gpus"]
    steps = max(integer["global_batch"] // data // micro, 1)
    stretch = 1 + (pipeline - 1) / max(steps, 1) / max(int(float(row["vpp"] or 1)), 1)
    inner = passes / 2 * 2 * 2 * tokens / data * hidden * layers / pipeline * (tensor - 1) / tensor
    outer = 4 * parameters / tensor / pipeline * (data - 1) / data
    return numpy.array([flops / peak * stretch, traffic / facts["memory_bandwidth"] * stretch, inner / 3e11 * stretch,
                        outer / 2.5e10, layers / pipeline * steps * 1e-3 * stretch])


def fit_baseline(bench, rows):
    """Five factors, one for each kind of time, by the same robust least squares on logarithms."""
    items, truths, weights = [], [], []
    timed = [row for row in rows if row["step_time_s"]]
    for row, weight in zip(timed, calibrate.weigh(timed)):
        terms = baseline_of(bench, row)
        if terms is not None:
            items.append(terms)
            truths.append(math.log(float(row["step_time_s"])))
            weights.append(weight)
    items, truths, weights = numpy.array(items), numpy.array(truths), numpy.array(weights)
    position = numpy.log(numpy.array([2.0, 1.5, 1.5, 1.5, 1.0]))
    for _ in range(60):
        parts = items * numpy.exp(position)
        total = parts.sum(1)
        residuals = numpy.log(total) - truths
        slopes = parts / total[:, None]
        now = weights / numpy.sqrt(1 + (residuals / calibrate.SCALE) ** 2)
        matrix = slopes.T @ (now[:, None] * slopes) + 1e-4 * numpy.eye(5)
        position = numpy.clip(position - 0.5 * numpy.linalg.solve(matrix, slopes.T @ (now * residuals)), -6, 4)
    return position


def baseline_of(bench, row):
    cluster = bench.files.cluster(row)
    return baseline_terms(row, bench.files.named[cluster["of"]]) if cluster else None


def baseline_errors(bench, position, rows):
    result = {}
    for row in rows:
        terms = baseline_of(bench, row)
        if terms is not None and row["step_time_s"]:
            result[row["id"]] = float((terms * numpy.exp(position)).sum()) / float(row["step_time_s"]) - 1
    return result


def print_families(groups, others):
    lines = ["| family | rows | median (%) | p90 (%) | bias (%) | baseline median / p90 | goal median / p90 |",
             "| --- | ---: | ---: | ---: | ---: | ---: | ---: |"]
    for family, errors in groups.items():
        median, high, bias = summary(errors)
        other = summary(others.get(family, []))
        goal = TARGETS.get(family)
        lines.append(f"| {family} | {len(errors)} | {median:.1f} | {high:.1f} | {bias:+.1f} | "
                     + (f"{other[0]:.1f} / {other[1]:.1f}" if other else "") + " | "
                     + (f"{goal[0]} / {goal[1] or ''}" if goal else "") + " |")
    return lines


def compare(plans):
    """Of each pair of measured and predicted seconds whose measured ones are more than 5 % apart: 1 where both are in
    the same order, else -1."""
    return [1 if (a[0] - b[0]) * (a[1] - b[1]) > 0 else -1 for a, b in itertools.combinations(plans, 2)
            if abs(a[0] - b[0]) > 0.05 * min(a[0], b[0])]


def kendall(groups):
    """Of groups of at least four plans: how many, the correlation over all their pairs, and its mean over them."""
    signs = [signs for signs in (compare(plans) for plans in groups if len(plans) >= 4) if signs]
    pairs = [sign for each in signs for sign in each]
    return len(signs), statistics.mean(pairs), statistics.mean(statistics.mean(each) for each in signs)


def ranking(rows, seconds, baseline):
    """Kendall correlation of pairs that were measured more than 5 % apart, as predicted (by id) and of the baseline,
    and how much slower than the fastest plan the one predicted fastest is, by groups of at least four plans of one
    model, batch and number of GPUs."""
    def group(source, predicted):
        groups = collections.defaultdict(list)
        for row in rows:
            if row["source"] == source and row["step_time_s"] and row["id"] in seconds and row["id"] in baseline:
                key = tuple(row[name] for name in ("layers", "hidden", "global_batch", "gpus"))
                groups[key].append((float(row["step_time_s"]), predicted[row["id"]]))
        return groups.values()

    lines = ["| rows | groups | Kendall, all pairs | of the baseline | Kendall, mean of groups | of the baseline "
             "| slower than the fastest, median (%) | at the most (%) |",
             "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |"]
    known = []
    for source in ("vtrain_single", "vtrain_multi"):
        groups = group(source, seconds)
        count, pairs, means = kendall(groups)
        _, base_pairs, base_means = kendall(group(source, baseline))
        chosen = [(min(plans, key=lambda plan: plan[1])[0], min(plans)[0]) for plans in groups if len(plans) >= 4]
        regrets = [100 * (chosen / fastest - 1) for chosen, fastest in chosen]
        lines.append(f"| {source} | {count} | {pairs:.3f} | {base_pairs:.3f} | {means:.3f} | {base_means:.3f} | "
                     f"{statistics.median(regrets):.1f} | {max(regrets):.1f} |")
        known.append((base_pairs, base_means))
    return [*lines, "", describe_aim(*zip(*known))]


def describe_aim(pairs, means):
    """Which correlation of the baseline, on one node and on several, is what the aim was set beside."""
    def distance(values):
        return sum(abs(value - naive) for value, naive in zip(values, NAIVE))

    nearer = "over all pairs" if distance(pairs) <= distance(means) else "as the mean of groups"
    return (f"The aim, 0.92 on one node, was set beside a naive model's {NAIVE[0]:.2f}, and {NAIVE[1]:.2f} on several "
            f"nodes. Over all pairs the baseline has {pairs[0]:.3f} and {pairs[1]:.3f}, as the mean of groups "
            f"{means[0]:.3f} and {means[1]:.3f}: nearer to that are those {nearer}.")


def model_of(row):
    return "/".join(row[name] for name in ("source", "layers", "hidden", "heads", "seq"))


def folds_of(rows):
    """One of five for each model, from the models alone: by the order of their hashes, in turn."""
    models = sorted({model_of(row) for row in rows}, key=lambda model: hashlib.sha256(model.encode()).hexdigest())
    return {model: index % FOLDS for index, model in enumerate(models)}


def leave_out(bench):
    lines = ["| family left out | rows | median (%) | p90 (%) | bias (%) | baseline median / p90 | goal, median |",
             "| --- | ---: | ---: | ---: | ---: | ---: | ---: |"]
    for family in TARGETS:
        rest = [row for row in bench.rows if calibrate.family(row) != family]
        judged = [row for row in bench.rows if calibrate.family(row) == family]
        left = bench.fit(thin(rest))
        errors = errors_of(bench.predict(left.positions, judged), judged)
        median, high, bias = summary(list(errors.values()))
        other = baseline_errors(bench, fit_baseline(bench, rest), judged)
        low = summary([other[row["id"]] for row in judged if row["id"] in other and row["id"] in errors])
        lines.append(f"| {family} | {len(errors)} | {median:.1f} | {high:.1f} | {bias:+.1f} | "
                     + (f"{low[0]:.1f} / {low[1]:.1f}" if low else "") + f" | {20 if family in ALONE else 10} |")
        print(lines[-1], file=sys.stderr, flush=True)
    return lines


def folds(bench):
    lines = ["| fold | rows of vTrain judged | median (%) | p90 (%) |", "| --- | ---: | ---: | ---: |"]
    every = []
    vtrain = [row for row in bench.rows if row["source"].startswith("vtrain")]
    fold = folds_of(vtrain)
    for part in range(FOLDS):
        judged = [row for row in vtrain if fold[model_of(row)] == part]
        ids = {row["id"] for row in judged}
        left = bench.fit(thin([row for row in bench.rows if row["id"] not in ids]))
        errors = list(errors_of(bench.predict(left.positions, judged), judged).values())
        every += errors
        lines.append(f"| {part} | {len(errors)} | {summary(errors)[0]:.1f} | {summary(errors)[1]:.1f} |")
        print(lines[-1], file=sys.stderr, flush=True)
    lines.append(f"| all | {len(every)} | {summary(every)[0]:.1f} | {summary(every)[1]:.1f} |")
    return lines


def ablation(bench, full, positions):
    """Median and 90th percentile by family with a term left out and the constants fitted again, on the same thinned
    rows."""
    def cells(groups):
        return " | ".join(f"{summary(groups[family])[0]:.1f} / {summary(groups[family])[1]:.1f}"
                          for family in families) + " |"

    fit = bench.fit(thin(bench.rows), positions=positions)
    full = by_family(errors_of(bench.predict(fit.positions, bench.rows), bench.rows), bench.rows)
    families = list(full)
    lines = ["| without | " + " | ".join(families) + " |", "| --- |" + " ---: |" * len(families),
             "| nothing | " + cells(full)]
    for term in TERMS:
        fit = bench.fit(thin(bench.rows), [f"--without={term}"], positions)
        predictions = bench.predict(fit.positions, bench.rows, [f"--without={term}"])
        groups = by_family(errors_of(predictions, bench.rows), bench.rows)
        lines.append(f"| {term} | " + cells(groups))
        print(lines[-1], file=sys.stderr, flush=True)
    return lines


def reserved(bench, row):
    """What the allocator held at the most, in GiB, where the source has it beside what tensors took."""
    extra = dict(part.split("=", 1) for part in row["extra"].split(";") if "=" in part)
    if "stage_peak_reserved_mb" in extra:
        return max(map(float, extra["stage_peak_reserved_mb"].split("/"))) / 1024
    return bench.held.get(extra.get("plan"))


def memory(bench, predictions):
    groups = collections.defaultdict(list)
    for row in bench.rows:
        predicted = predictions[row["id"]]
        truth, value = number(row["peak_memory_gib"]), number(predicted["predicted_peak_memory_gib"])
        if truth and value:
            means = "reserved" if "what the allocator holds" in predicted["note"] else "allocated"
            groups[row["source"], means].append(value / truth - 1)
        held, value = reserved(bench, row), number(predicted.get("predicted_reserved_gib", ""))
        if held and value:
            groups[row["source"], "reserved"].append(value / held - 1)
    return ["Allocated: what tensors take; reserved: what the allocator holds for them.", "",
            "| source | of memory | rows | median (%) | p90 (%) | bias (%) |", "| --- | --- | ---: | ---: | ---: | ---: |",
            *(f"| {source} | {means} | {len(values)} | " + " | ".join(f"{value:.1f}" for value in summary(values)) + " |"
              for (source, means), values in groups.items())]


def noise(bench):
    """How far the newest and the older releases of one layout are apart."""
    kept = {row["id"] for row in bench.rows}

    def key(row):
        return tuple(value for name, value in row.items() if name not in calibrate.IGNORED | {"extra"})

    newest = {key(row): row for row in bench.rows}
    apart = [abs(float(row["step_time_s"]) / float(newest[key(row)]["step_time_s"]) - 1) for row in bench.every
             if row["id"] not in kept and row["step_time_s"] and newest[key(row)]["step_time_s"]]
    return summary(apart) if apart else None


def all_rows(bench, fit):
    """Sections on the fit to all rows, by title."""
    predictions = bench.predict(fit.positions, bench.rows, ["--details"])
    errors = errors_of(predictions, bench.rows)
    groups = by_family(errors, bench.rows)
    baseline = baseline_errors(bench, fit_baseline(bench, bench.rows), bench.rows)
    others = by_family(baseline, bench.rows)
    measured = {row["id"]: number(row["step_time_s"]) for row in bench.rows}
    seconds, naive = ({key: (1 + error) * measured[key] for key, error in each.items()} for each in (errors, baseline))
    predicted = sum(bool(row["predicted_step_time_s"]) for row in bench.predict(fit.positions, bench.every).values())
    lines = [f"{predicted} of {len(bench.every)} rows are predicted, {len(errors)} judged, with the constants of "
             f"`examples/devices` (digest {bench.digest(fit.positions)}).", "",
             *print_families(groups, others)]
    apart = noise(bench)
    if apart:
        lines += ["", "Of Bridge's layouts measured in several releases the newest counts; the older ones are "
                  f"{apart[0]:.1f} % apart in the median, {apart[1]:.1f} % at the 90th percentile."]
    furthest = sorted(errors, key=lambda key: -abs(math.log(1 + errors[key])))[:10]
    reasons = collections.Counter(
        (row["source"], predictions[row["id"]]["note"].removeprefix("not predicted: ")) for row in bench.rows
        if not predictions[row["id"]]["predicted_step_time_s"])
    return {
        "All rows in one fit": lines,
        "Ranking of plans": ranking(bench.rows, seconds, naive),
        "Memory": memory(bench, predictions),
        "Furthest off": ["| row | error (%) | note |", "| --- | ---: | --- |",
                         *(f"| {key} | {100 * errors[key]:+.0f} | {predictions[key]['note']} |" for key in furthest)],
        "Not predicted": ["| source | rows | reason |", "| --- | ---: | --- |",
                          *(f"| {source} | {count} | {reason} |" for (source, reason), count in reasons.most_common())],
        "Every row": ["Error of the predicted step time in percent.", "", "```text",
                      *(f"{key} {100 * error:+.1f}" for key, error in errors.items()), "```"],
    }


def never_fitted(bench, fit):
    """Runs that others published elsewhere, of layouts that no row of the fit has."""
    _, rows = calibrate.read_rows(SOURCE / "bench/runs/bridge_cards.csv")
    predictions = bench.predict(fit.positions, rows)
    errors = errors_of(predictions, rows)
    middle, _, bias = summary(list(errors.values()))
    lines = ["Runs of Megatron Bridge's verification cards and performance notes (`bench/runs/bridge_cards.csv`): "
             f"median {middle:.1f} %, bias {bias:+.1f} %.", "",
             "| run | measured (s) | predicted (s) | error (%) |", "| --- | ---: | ---: | ---: |"]
    for row in rows:
        predicted = float(predictions[row["id"]]["predicted_step_time_s"])
        lines.append(f"| {row['id']} | {float(row['step_time_s']):.2f} | {predicted:.2f} | "
                     f"{100 * errors[row['id']]:+.1f} |")
    return lines


HEAD = "Each section has its date: those of an earlier one were computed with the model and the constants of that day."
TITLES = ("All rows in one fit", "Never in a fit", "Ranking of plans", "Memory", "One family left out of the fit",
          "vTrain, five folds over models", "Without a term", "Furthest off", "Not predicted", "Every row")


def read_page(path):
    """The sections that a page has, by title."""
    if not path.exists():
        return {}
    _, *sections = path.read_text(encoding="utf-8").split("\n## ")
    pairs = (section.split("\n", 1) for section in sections)
    return {title: text.strip().split("\n") for title, text in pairs}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("data", type=pathlib.Path)
    parser.add_argument("--build", type=pathlib.Path, default=SOURCE / "build")
    parser.add_argument("--parts", default="all,leave-out,folds,ablation", help="what is fitted")
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    parts = set(filter(None, options.parts.split(",")))
    bench = Bench(options.data, options.build)
    fit = bench.fit(bench.rows) if parts & {"all", "ablation"} else None
    sections = all_rows(bench, fit) if "all" in parts else {}
    if "all" in parts:
        sections["Never in a fit"] = never_fitted(bench, fit)
    if "leave-out" in parts:
        sections["One family left out of the fit"] = ["Fits take every fourth row of vtrain_single.", "",
                                                      *leave_out(bench)]
    if "folds" in parts:
        sections["vTrain, five folds over models"] = folds(bench)
    if "ablation" in parts:
        errors = errors_of(bench.predict(fit.positions, bench.rows), bench.rows)
        sections["Without a term"] = ["Median and 90th percentile of the error in percent, constants fitted again.", "",
                                      *ablation(bench, by_family(errors, bench.rows), fit.positions)]
    today = f"{datetime.date.today()}."
    sections = {title: [today, "", *lines] for title, lines in sections.items()}
    path = SOURCE / "bench/results/prediction.md"
    if options.write:
        sections = {**read_page(path), **sections}
    text = "\n".join("\n".join(["", f"## {title}", "", *sections[title]]) for title in TITLES if title in sections)
    if options.write:
        if "all" in parts:
            bench.write(fit)
        path.write_text(f"# Predicted step times\n\n{HEAD}\n{text}\n", encoding="utf-8")
    else:
        print(text.strip())


if __name__ == "__main__":
    main()
