#!/usr/bin/env python3
"""The bubble of published pipeline schedules, simulated from their costs, beside the printed one.

    bench/published_schedules.py DATA [--build build] [--search] [--write]

DATA has schedules/schedules.csv. Each row gets a verdict: the same digits, another value, or why it cannot be
simulated. Schedules that their authors found by a search, or whose order their code adapts to the costs, are not fixed;
--search compares them with what `--schedule=auto` finds in the same memory (up to a minute of a processor for a row,
with EFFORT times its usual effort). Prints Markdown; --write puts it, with the date, into
bench/results/published_schedules.md.
"""

import argparse
import collections
import csv
import datetime
import json
import pathlib
import subprocess

SOURCE = pathlib.Path(__file__).resolve().parent.parent
NAMES = {"1F1B": "1f1b", "ZB-H1": "zb-h1", "ZB-H2": "zb-h2", "1F1B-I": "interleaved-1f1b", "V-Half": "v-half",
         "V-Min": "v-min", "ZB-V": "zbv", "ZB-V heuristic": "zbv"}
EFFORT = 2
SEARCHED = {"ZB-1p", "ZB-2p", "ZB heuristic (not V)", "ZB-V heuristic"}
# What these hold at the most, in microbatches (their README; ZB-V: arXiv 2401.10241); their code adapts their order to
# the costs.
ADAPTED = {"ZB-V": lambda ranks: ranks, "V-Half": lambda ranks: (ranks + 2) // 2, "V-Min": lambda ranks: (ranks + 4) // 3}
# arXiv 2401.10241, table 3: hidden size and heads; sequences of 1024.
SHAPES = {"1.5B": (2304, 24), "6.2B": (4096, 32), "14.6B": (5120, 40), "28.3B": (6144, 48)}


def sim(build, *arguments):
    """The simulation, or the tool's message."""
    done = subprocess.run([build / "bin/cleave-sim", *arguments, "--json"], capture_output=True, text=True, check=False)
    return (json.loads(done.stdout), None) if done.returncode == 0 else (None, done.stderr.strip())


def costs_of(row, chunks):
    """Costs of a stage: a row with costs of one of two chunks has stages of twice the length where there is one."""
    factor = 2 if row["cost_per"].startswith("chunk") and chunks == 1 else 1
    times = [float(row[f"t_{name}_ms"]) * factor for name in "fbw"]
    return ",".join(f"{time:.6g}" for time in times) + f",{row['t_comm_ms'] or 0}"


def search(build, row):
    chunks, ranks = int(row["chunks_per_rank"]), int(row["ranks"])
    if row["memory_limit_pMB"]:
        hidden, heads = SHAPES[row["model"]]
        released = [2 * hidden + 5 * heads * 1024, 32 * hidden]
        limit = float(row["memory_limit_pMB"]) * ranks * chunks * sum(released)
    else:
        # A chunk's activations are held until its weight gradients.
        released = [0, 1]
        limit = ADAPTED[row["schedule"]](ranks) * chunks
    return sim(build, "--schedule=auto", f"--ranks={row['ranks']}", f"--microbatches={row['microbatches']}",
               f"--chunks={chunks}", f"--topology={'v' if chunks == 2 else 'loop'}", f"--costs={costs_of(row, chunks)}",
               f"--activation-memory={sum(released)},{released[0]},{released[1]}", f"--memory-limit={limit:.0f}",
               f"--effort={EFFORT}")


def searched(build, row):
    """What auto finds in the same memory."""
    result, error = search(build, row)
    if error:
        return "", error
    rate, bound = result["bubble_rate_largest_span"], result["lower_bound"]["bubble_rate_largest_span"]
    verdict = "auto: at or below" if rate <= float(row["bubble_rate"]) + 0.5e-4 else "auto: above"
    return f"{rate:.4f}", f"{verdict} (bound {bound:.4f})"


def compare(build, row, searching):
    """Our rate (empty if none), and the verdict."""
    name, published = row["schedule"], row["bubble_rate"]
    if not row["t_f_ms"]:
        return "", "no costs are published with it: throughput or memory only"
    if not published:
        return "", "measured throughput: no bubble rate is published"
    if name in SEARCHED:
        if not searching or not row["memory_limit_pMB"] or row["model"] not in SHAPES:
            return "", "found by its authors' search: not a fixed schedule"
        return searched(build, row)
    chunks = 2 if name in ("V-Half", "V-Min", "ZB-V") else 1
    if name == "1F1B-I":
        if row["chunks_per_rank"] != "layers":
            return "", "the number of chunks is not published"
        chunks, odd = divmod(int(row["layers"]) + 2, int(row["ranks"]))
        if odd:
            return "", "its layers are not divisible by its ranks"
        times = [float(row[f"t_{cost}_ms"]) / chunks for cost in "fbw"]
        costs = ",".join(f"{time:.6g}" for time in times) + f",{row['t_comm_ms']}"
    else:
        costs = costs_of(row, chunks)
    result, error = sim(build, f"--schedule={NAMES[name]}", f"--ranks={row['ranks']}", f"--chunks={chunks}",
                        f"--microbatches={row['microbatches']}", f"--costs={costs}")
    if error:
        return "", error
    digits = len(published.split(".")[1]) if "." in published else 4
    rates = [result["bubble_rate_largest_span"], result["bubble_rate"]]
    # A printed last digit may be rounded or cut.
    if any(abs(rate - float(published)) <= 1.0001 * 10**-digits for rate in rates):
        return f"{min(rates, key=lambda rate: abs(rate - float(published))):.{digits}f}", "same"
    if name == "1F1B-I":
        return f"{rates[0]:.{digits}f}", "exact dependencies; the published model leaves most wrap-around ones out"
    if searching and name in ADAPTED:
        return searched(build, row)
    if name in ADAPTED:
        below = "below" if rates[0] < float(published) else "above"
        return f"{rates[0]:.{digits}f}", f"{below}: its authors' code adapts the order to the costs"
    return f"{rates[0]:.{digits}f}", "differs"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("data", type=pathlib.Path)
    parser.add_argument("--build", type=pathlib.Path, default=SOURCE / "build")
    parser.add_argument("--search", action="store_true", help="search where the published schedule was searched for")
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    with open(options.data / "schedules/schedules.csv", newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(line for line in file if not line.startswith("#")))
    verdicts = collections.Counter()
    details = []
    for row in rows:
        rate, verdict = compare(options.build, row, options.search)
        verdicts[verdict.split(" (")[0]] += 1
        details.append(f"| {row['id']} | {row['schedule']} | {row['ranks']} | {row['microbatches']} | "
                       f"{row['bubble_rate']} | {rate} | {verdict} |")
    lines = [f"{datetime.date.today()}, all {len(rows)} rows.", "", "| verdict | rows |", "| --- | ---: |"]
    lines += [f"| {verdict} | {count} |" for verdict, count in verdicts.most_common()]
    lines += ["", "| row | schedule | ranks | microbatches | published | simulated | verdict |",
              "| --- | --- | ---: | ---: | ---: | ---: | --- |", *details]
    print("\n".join(lines))
    if options.write:
        path = SOURCE / "bench/results/published_schedules.md"
        path.write_text("# Published schedules, simulated\n\n" + "\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
