"""Simulated beside measured step time of every pipeline schedule.

    .venv/bin/python bench/pipeline_simulation.py [BUILD] [--rounds 3] [--steps 12] [--write]

Each schedule trains a GPT on ranks of one thread; `cleave-run --profile` measures its actions.
cleave-sim predicts the step twice: from the profile of the same run (is the model of execution
right?) and from that of another schedule, run just before or after (are costs of one schedule those
of another?). Measured is the median time from a step's first action to its last.
"""

import argparse
import datetime
import json
import os
import pathlib
import statistics
import tempfile

from pipeline_programs import ROOT, SCHEDULES, Programs

RESULTS = ROOT / "bench" / "results" / "pipeline_simulation.md"
# Whose profile predicts a schedule: one of as many stages, with the backward alike in halves or not.
OTHERS = {
    "gpipe": "1f1b", "1f1b": "gpipe", "zb-h1": "zb-h2", "zb-h2": "zb-h1",
    "looped-bfs": "interleaved-1f1b", "interleaved-1f1b": "looped-bfs",
    "interleaved-zero-bubble": "zbv", "zbv": "dualpipev", "dualpipev": "zbv", "v-half": "v-min",
    "v-min": "v-half", "offline": "gpipe",
}  # fmt: skip


def fill_transfers(profile):
    """A profile for a schedule in which other stages are on one rank: transfers it lacks are like
    those it has."""
    table = json.loads(profile.read_text())
    stages = table["stages"]
    for field, missing in (("send_forward", stages[-1]), ("send_backward", stages[0])):
        known = [stage[field] for stage in stages if field in stage]
        for stage in stages:
            if stage is not missing and known:
                stage.setdefault(field, statistics.mean(known))
    filled = profile.with_suffix(".filled.json")
    filled.write_text(json.dumps(table))
    return filled


def run_round(programs, paths, options, round_number):
    measured, profiles = {}, {}
    for name, path in paths.items():
        profiles[name] = programs.folder / f"{name}.{round_number}.json"
        ranks = 1 if name == "offline" else options.ranks
        programs.train(path, ranks, options.steps, "--profile", profiles[name])
        measured[name] = json.loads(profiles[name].read_text())["measured"]["step_ms"]
    rows = {}
    for name, path in paths.items():
        own = programs.simulate(path, profiles[name])
        other = programs.simulate(path, fill_transfers(profiles[OTHERS[name]]))
        rows[name] = (measured[name], own["makespan"], other["makespan"], own["bubble_rate"])
    return rows


def describe(options, table, medians):
    load = os.getloadavg()[0]
    return f"""# Simulated and measured step time of pipeline schedules

{datetime.date.today()}, {os.cpu_count()} cores (shared with other work: load {load:.1f} at the end; run at nice {os.nice(0)}), no GPU, torch 2.11.0,
Gloo, {options.ranks} ranks of one thread on one machine ("offline": one rank); a GPT of 4 layers (0.9 M
parameters, 512 tokens a microbatch), {options.microbatches} microbatches.
`bench/pipeline_simulation.py --steps={options.steps} --rounds={options.rounds}`: medians over rounds. "Same run": predicted from the
costs that the measured run had; "other schedule": from those of the schedule named, run in the same
round. Errors are the medians over rounds of |predicted / measured - 1|.

{table}

Median error {medians[0]:.1f} % from the same run's costs, {medians[1]:.1f} % from another schedule's. The second has the
machine in it: where other work comes and goes, costs of a minute ago are those of another machine; and
one rank alone (offline) is faster at the same work than two at once.

{options.ranks} ranks are what 2 cores can run without sharing them; Gloo's own threads, and whatever else the
machine does, share them still, which is in the costs. More ranks than cores are not compared: the simulator
takes ranks for independent.
"""


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("build", nargs="?", type=pathlib.Path, default=ROOT / "build")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--microbatches", type=int, default=8)
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--write", action="store_true", help=f"write {RESULTS.relative_to(ROOT)}")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        programs = Programs(options.build, folder)
        paths = {name: programs.make(name, options.ranks, options.microbatches) for name in SCHEDULES}
        rounds = [run_round(programs, paths, options, number) for number in range(options.rounds)]
    lines = ["| schedule | measured | same run | error | other schedule | | error | bubbles (simulated) |",
             "| --- | --- | --- | --- | --- | --- | --- | --- |"]  # fmt: skip
    errors = [[], []]
    for name in SCHEDULES:
        rows = [each[name] for each in rounds]
        measured, own, other, bubbles = (statistics.median(column) for column in zip(*rows))
        off = [
            100 * statistics.median(abs(row[index] / row[0] - 1) for row in rows) for index in (1, 2)
        ]
        for index in (0, 1):
            errors[index].append(off[index])
        lines.append(f"| {name} | {measured:.1f} ms | {own:.1f} ms | {off[0]:.1f} % | {other:.1f} ms | "
                     f"{OTHERS[name]} | {off[1]:.1f} % | {100 * bubbles:.1f} % |")  # fmt: skip
    text = describe(options, "\n".join(lines), [statistics.median(each) for each in errors])
    print(text)
    if options.write:
        RESULTS.write_text(text)


if __name__ == "__main__":
    main()
