#!/usr/bin/env python3
"""Why vTrain's plans on one node are not all ranked as they were measured: what of a step the model gets wrong.

    bench/ranking.py DATA [--build build] [--write]

Of plans with one hidden size, number of tensor-parallel ranks and micro-batch, steps are taken for linear: each
microbatch passes the layers of the longest stage and, on the last one, the head; a step updates the layers' weights.
Least squares of the measured seconds, and of the predicted ones, give both their layers and heads. Then the plans are
ranked again with the measured layers, or layers and heads, in place of the predicted ones. Last, how far plans without
data and tensor parallelism are from such a sum, and what a transfer takes in it. Prints Markdown; --write puts it, with
the date, into bench/results/ranking.md.
"""

import argparse
import collections
import datetime
import pathlib

import numpy
from prediction import SOURCE, Bench, calibrate, compare

FAMILY = "vtrain_single"
LEAST = 5  # plans of a combination
SUMS = ("Plans of one replica on one tensor-parallel rank, as sums of layers, heads, transfers, updates and a constant. "
        "Runs differ from each other by more than millionths, and devices of one node transfer many times as fast: "
        "these were put together from profiles.")


def cell(row):
    return int(row["hidden"]), int(row["tp"]), int(row["micro_batch"])


def terms(row):
    """What a step's seconds are linear in: passes through a layer, microbatches, layers, 1, passes of a boundary."""
    microbatches, stages, layers = int(row["microbatches"]), int(row["pp"]), int(row["layers"])
    passes = microbatches + stages - 1
    return passes * layers / stages, microbatches, layers / stages, 1, passes * (stages > 1)


def exact_terms(row):
    """The same, of one replica on one tensor-parallel rank: layers of the last stage and of those before it apart."""
    microbatches, stages, layers = int(row["microbatches"]), int(row["pp"]), int(row["layers"])
    each = layers / stages
    return microbatches * each, (stages - 1) * each, microbatches, stages - 1, each, 1


def transfer(row):
    """Seconds of a forward and a backward transfer between stages by vTrain's formula (src/predictor.py): twice the
    bytes of 16 bits each, at a quarter of 800 Gbit/s."""
    return 2 * 2 * 2 * int(row["micro_batch"]) * int(row["seq"]) * int(row["hidden"]) / (800 * 2**30 / 8 / 4)


def describe_sums(rows):
    """How exactly plans of one profile are sums, where there are more of them than terms."""
    cells = collections.defaultdict(list)
    for row in rows:
        if row["dp"] == row["tp"] == "1":
            cells[cell(row)].append(row)
    lines = ["| hidden | micro-batch | plans | furthest from a sum (millionths) | transfer there (ms) | by vTrain's formula (ms) |",
             "| ---: | ---: | ---: | ---: | ---: | ---: |"]
    for (hidden, _, micro), plans in sorted(cells.items()):
        seconds = numpy.array([float(row["step_time_s"]) for row in plans])
        matrix = numpy.array([exact_terms(row) for row in plans])
        found, _, rank, _ = numpy.linalg.lstsq(matrix / seconds[:, None], numpy.ones(len(plans)), rcond=None)
        if rank == matrix.shape[1] < len(plans):
            off = 1e6 * max(abs(matrix @ found / seconds - 1))
            lines.append(f"| {hidden} | {micro} | {len(plans)} | {off:.1f} | {1e3 * found[3]:.4f} | "
                         f"{1e3 * transfer(plans[0]):.4f} |")
    return lines


def fit(rows, seconds):
    """Seconds of each term, and by how much the sum is off in the median."""
    matrix = numpy.array([terms(row) for row in rows])
    found, *_ = numpy.linalg.lstsq(matrix / seconds[:, None], numpy.ones(len(rows)), rcond=None)
    return found, float(numpy.median(abs(matrix @ found / seconds - 1)))


def kendall(rows, seconds):
    """Over all pairs of a group that were measured more than 5 % apart, as the page of predictions has it."""
    groups = collections.defaultdict(list)
    for row in rows:
        key = tuple(row[name] for name in ("layers", "hidden", "global_batch", "gpus"))
        groups[key].append((float(row["step_time_s"]), seconds[row["id"]]))
    signs = [sign for plans in groups.values() if len(plans) >= 4 for sign in compare(plans)]
    return sum(signs) / len(signs)


def describe(data, build):
    bench = Bench(data, build)
    rows = [row for row in bench.rows if row["source"] == FAMILY]
    done = calibrate.predict(bench.tool, data / "measured/iterations.csv", SOURCE / "examples/devices", bench.options)
    predicted = {row["id"]: float(row["predicted_step_time_s"]) for row in done if row["source"] == FAMILY}
    cells = collections.defaultdict(list)
    for row in rows:
        cells[cell(row)].append(row)
    lines = ["| hidden | tp | micro-batch | plans | layer, measured (ms) | predicted (ms) | head, measured (ms) "
             "| predicted (ms) | residual (%) |",
             "| ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |"]
    replaced = {1: dict(predicted), 2: dict(predicted)}
    alone = []
    for key, plans in sorted(cells.items()):
        if len(plans) < LEAST:
            continue
        ours = numpy.array([predicted[row["id"]] for row in plans])
        measured, residual = fit(plans, numpy.array([float(row["step_time_s"]) for row in plans]))
        model, _ = fit(plans, ours)
        lines.append("| {} | {} | {} | {} | {:.2f} | {:.2f} | {:.2f} | {:.2f} | {:.1f} |".format(
            *key, len(plans), 1e3 * measured[0], 1e3 * model[0], 1e3 * measured[1], 1e3 * model[1], 100 * residual))
        for parts, seconds in replaced.items():
            for row in plans:
                seconds[row["id"]] += numpy.dot(terms(row)[:parts], (measured - model)[:parts])
        alone.append((key, {row["id"]: predicted[row["id"]] + terms(row)[0] * (measured[0] - model[0]) for row in plans}))
    summary = ["| ranked by | Kendall, all pairs |", "| --- | ---: |",
               f"| the model | {kendall(rows, predicted):.3f} |",
               f"| it, with the measured layers | {kendall(rows, replaced[1]):.3f} |",
               f"| it, with the measured layers and heads | {kendall(rows, replaced[2]):.4f} |"]
    best = sorted(((kendall(rows, predicted | seconds), key) for key, seconds in alone), reverse=True)[:3]
    summary += [f"| it, with the measured layer of hidden {key[0]}, tp {key[1]}, micro-batch {key[2]} alone | {tau:.3f} |"
                for tau, key in best]
    return [*summary, "", *lines, "", SUMS, "", *describe_sums(rows)]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", type=pathlib.Path)
    parser.add_argument("--build", type=pathlib.Path, default=SOURCE / "build")
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    text = "\n".join(describe(options.data, options.build))
    print(text)
    if options.write:
        path = SOURCE / "bench/results/ranking.md"
        path.write_text(f"# What vTrain's plans are ranked by\n\n{datetime.date.today()}, `bench/ranking.py DATA --write`: "
                        "960 plans on one node of A100s.\n\n" + text + "\n")


if __name__ == "__main__":
    main()
