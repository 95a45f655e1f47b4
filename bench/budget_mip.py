#!/usr/bin/env python3
"""--partition-joint=policy=budget beside a MIP solver: the least recomputation within a budget, on small graphs.

    bench/budget_mip.py [--build build] [--graphs 20] [--ops 15 30 45] [--seed 1] [--time-limit 60] [--store FILE]

Needs HiGHS (`pip install highspy`), which Cleave itself does not. The MIP decides of each value whether it is saved or
recomputed where it is needed, and so has all partitions that the pass may choose. It gets rows for the memory at the
backward's own ops, and for others where the walk over its solution exceeds the budget, until none does. Of each graph
four budgets are tried, and then the least memory. Fails if the pass is faster than the optimum, needs less than the
least, or if its peak is not what the walk finds. Prints Markdown. --store writes what was found for some graphs to a
file that a test reads, which needs no HiGHS.
"""

import argparse
import collections
import json
import pathlib
import random
import sys
import tempfile
import time

from budget_graphs import Walk, partition, random_program
from layers import ROOT


class Unsupported(Exception):
    """What the MIP cannot say: a choice in the memory of another value."""


class Model:
    """The MIP of a graph and a budget: all that is 0 or 1 follows from what is kept."""

    def __init__(self, graph, room, at_most, limit):
        import highspy

        self.highspy, self.graph, self.room = highspy, graph, room
        self.model = highspy.Highs()
        self.model.silent()
        for name, value in (("threads", 1), ("time_limit", limit), ("mip_rel_gap", 0.0), ("mip_abs_gap", 0.5),
                            ("mip_feasibility_tolerance", 1e-9), ("primal_feasibility_tolerance", 1e-9)):
            self.model.setOptionValue(name, value)
        self._share()
        self._need()
        self._cost(at_most)
        self.known = set()

    def variable(self, integer=False):
        kind = self.highspy.HighsVarType
        return self.model.addVariable(0, 1, 0, kind.kInteger if integer else kind.kContinuous)

    def _share(self):
        """Whose memory a value of the forward has, and which tangents hold which memory from where to where."""
        graph = self.graph
        self.users = collections.defaultdict(list)
        for number, op in enumerate(graph.ops):
            for value in set(op["operands"]):
                self.users[value].append(number)
        self.root = {}
        for number, value in enumerate(graph.values):
            shared = value["shares_at_first"]
            is_tangent = number in graph.maker and graph.ops[graph.maker[number]]["of"] == "backward"
            if shared is not None and not is_tangent and value["fate"] in ("choice", "saved"):
                raise Unsupported
            if shared is not None and is_tangent and value["takes_own"] and graph.fate(shared) != "own":
                raise Unsupported
            if shared is not None and value["takes_own"] and self.root[shared] != shared:
                shared = None
            self.root[number] = number if shared is None else self.root[shared]
            if is_tangent and self.root[number] in graph.maker and graph.ops[graph.maker[self.root[number]]]["of"] != "backward":
                raise Unsupported
        self.members = collections.defaultdict(list)
        for value, root in self.root.items():
            if root in graph.maker:
                self.members[root].append(value)
        self.place = {op: group for group, op in enumerate(graph.tangents)}
        end = len(graph.tangents)
        self.own_bytes = [0] * (end + 1)  # of tangents, while the group's last op runs
        self.waiting = [0] * (end + 1)  # of tangents, before it runs
        results = {self.root[result["value"]] for result in graph.backward_results}
        for root, members in self.members.items():
            if graph.ops[graph.maker[root]]["of"] != "backward":
                continue
            first = self.place[graph.maker[root]]
            last = max([first] + [self.place[user] for value in members for user in self.users[value]])
            last = end if root in results else last
            for group in range(first, last + 1):
                self.own_bytes[group] += graph.values[root]["bytes"]
                self.waiting[group] += graph.values[root]["bytes"] if group > first else 0
        self.at_end = {self.root[result["value"]] for result in graph.backward_results}
        self.staying = {self.root[result["value"]] for result in graph.forward_results if result["stays"]}

    def _need(self):
        """What is needed, and recomputed, up to each group: what precedes one of the backward's own ops, and that op."""
        graph, add = self.graph, self.model.addConstr
        direct = [graph.ops[op]["operands"] for op in graph.tangents]
        direct.append([result["value"] for result in graph.backward_results])
        self.kept = {value: self.variable(integer=True) for value in graph.choices}
        needed = collections.defaultdict(int)  # by value, up to the group at hand: a variable, 0 or 1
        again = collections.defaultdict(int)  # by op
        missing = collections.defaultdict(int)  # by value: needed, and not kept
        self.again = []
        for values in direct:
            asked = {value for value in values if graph.is_needed(value)}
            reach, todo = set(), list(asked)
            while todo:
                value = todo.pop()
                if value in reach:
                    continue
                reach.add(value)
                if graph.fate(value) != "saved":
                    todo += [each for each in graph.ops[graph.maker[value]]["operands"] if graph.is_needed(each)]
            # Users come before what they use.
            for op in sorted({graph.maker.get(value, -1) for value in reach}, reverse=True):
                made = graph.ops[op]["results"] if op >= 0 else [value for value in reach if value not in graph.maker]
                for value in made:
                    if value in reach and (not isinstance(needed[value], int) or needed[value] == 0):
                        before = needed[value]
                        if value in asked:
                            needed[value] = 1
                        else:
                            by = [again[user] for user in self.users[value] if not is_zero(again[user])]
                            if is_zero(before) and not by:
                                continue
                            needed[value] = self.variable()
                            for each in [before] * (not is_zero(before)) + by:
                                add(needed[value] >= each)
                            add(needed[value] <= sum(by) + before)
                    if value in reach:
                        missing[value] = self._miss(value, needed[value])
                if op < 0 or not any(graph.fate(value) in ("choice", "again") for value in made):
                    continue
                parts = [missing[value] for value in made if not is_zero(missing[value])]
                if len(parts) < 2:
                    again[op] = parts[0] if parts else 0
                    continue
                again[op] = self.variable()
                for each in parts:
                    add(again[op] >= each)
                add(again[op] <= sum(parts))
            self.again.append(dict(again))
        self.needed = needed

    def _miss(self, value, needed):
        fate = self.graph.fate(value)
        if fate == "saved" or is_zero(needed):
            return 0
        if fate == "again":
            return needed
        if isinstance(needed, int):
            return 1 - self.kept[value]
        result = self.variable()
        self.model.addConstr(result >= needed - self.kept[value])
        self.model.addConstr(result <= needed)
        self.model.addConstr(result <= 1 - self.kept[value])
        return result

    def _cost(self, at_most):
        graph, add = self.graph, self.model.addConstr
        self.saved = {}
        for value in range(len(graph.values)):
            needed = self.needed.get(value, 0)
            if graph.fate(value) == "saved":
                self.saved[value] = needed
            elif graph.fate(value) == "choice" and not is_zero(needed):
                self.saved[value] = self.kept[value]
                if not isinstance(needed, int):
                    self.saved[value] = self.variable()
                    add(self.saved[value] >= self.kept[value] + needed - 1)
        # Ops that the forward runs only for what it saves.
        self.extra = {op: self.variable() for op in graph.others if graph.ops[op]["of"] == "either"}
        for op, runs in self.extra.items():
            for value in graph.ops[op]["results"]:
                if not is_zero(self.saved.get(value, 0)):
                    add(runs >= self.saved[value])
            for value in graph.ops[op]["operands"]:
                if graph.maker.get(value) in self.extra:
                    add(self.extra[graph.maker[value]] >= runs)
        self.cost = 0
        for op, again in self.again[-1].items():
            if is_zero(again) or graph.ops[op]["time"] == 0:
                continue
            if op in self.extra:
                twice = self.variable()
                add(twice >= again + self.extra[op] - 1)
                again = twice
            self.cost += graph.ops[op]["time"] * again
        if not isinstance(self.cost, int):
            add(self.cost <= at_most)

    def _live(self, *reasons):
        """At least each of them."""
        reasons = [each for each in reasons if not is_zero(each)]
        if not reasons or any(isinstance(each, int) for each in reasons):
            return 1 if reasons else 0
        live = self.variable()
        for each in reasons:
            self.model.addConstr(live >= each)
        return live

    def add_row(self, is_backward, group, op):
        """Bounds what is live while this op of a walk runs."""
        if (is_backward, group, op) in self.known:
            return False
        self.known.add((is_backward, group, op))
        total = self._backward_bytes(group, op) if is_backward else self._forward_bytes(op)
        if isinstance(total, int):
            return False
        self.model.addConstr(total <= self.room)
        return True

    def _forward_bytes(self, op):
        graph, total = self.graph, 0
        results = {self.root[result["value"]] for result in graph.forward_results}
        for root, members in self.members.items():
            maker = graph.maker[root]
            if graph.ops[maker]["of"] == "backward" or maker > op:
                continue
            runs = self.extra.get(maker, 1)
            users = [user for value in members for user in self.users[value] if user >= op]
            if maker == op or root in results or any(graph.ops[user]["of"] == "forward" for user in users):
                live = runs
            else:
                live = self._live(self.saved.get(root, 0), *(self.extra[user] for user in users if user in self.extra))
            total += graph.values[root]["bytes"] * live
        return total

    def _backward_bytes(self, group, op):
        graph = self.graph
        is_own = op in self.place
        total = self.own_bytes[group] if is_own else self.waiting[group]
        before = self.again[group - 1] if group else {}
        now, whole = self.again[group], self.again[-1]
        for root, members in self.members.items():
            maker, fate = graph.maker[root], graph.fate(root)
            if graph.ops[maker]["of"] == "backward":
                continue
            size, stays = graph.values[root]["bytes"], root in self.staying
            if not is_own and maker == op:
                total += size * (now.get(op, 0) - before.get(op, 0))
            if stays:
                total += size
            if fate not in ("choice", "saved", "again"):
                continue
            there = (now if is_own or maker < op else before).get(maker, 0)
            if fate == "saved":
                there = 0
            users = {user for value in members for user in self.users[value]}
            is_used = root in self.at_end or any(user in self.place and self.place[user] >= group for user in users)
            kept = 0 if stays or fate == "again" else self.kept.get(root, self.saved.get(root, 0))
            if len(graph.ops[maker]["results"]) == 1 or is_zero(there) or fate == "again":
                has = [kept + there]
            else:
                has = [kept, there - self.kept[root]]
            has = [each for each in has if not is_zero(each)]
            if is_used:
                # What is used later is needed.
                live = self._live(*has)
            else:
                uses = []
                for user in users - set(self.place):
                    last = whole.get(user, 0)
                    done = (now if is_own or user < op else before).get(user, 0)
                    if not is_zero(last) and last is not done:
                        uses.append(last - done)
                live = self._live(*(each + use - 1 for each in has for use in uses))
            total += size * live
        return total

    def solve(self):
        """Time and choices that are kept; None if the budget is too small."""
        if isinstance(self.cost, int):
            return Walk(self.graph, []).time, []
        self.model.minimize(self.cost)
        status = self.model.getModelStatus()
        if status == self.highspy.HighsModelStatus.kInfeasible:
            return None
        if status != self.highspy.HighsModelStatus.kOptimal:
            raise TimeoutError
        solution = self.model.getSolution().col_value
        kept = [value for value, variable in self.kept.items() if solution[variable.index] > 0.5]
        return round(self.model.getObjectiveValue()), kept


def is_zero(value):
    return isinstance(value, int) and value == 0


def find_optimum(graph, step_peak, at_most, limit):
    """The least time within the budget and a set of choices that has it; the walk confirms both."""
    room = graph.room(step_peak)
    model = Model(graph, room, at_most, limit)
    deadline = time.monotonic() + limit
    for group, op in enumerate(graph.tangents):
        model.add_row(True, group, op)
    while True:
        model.model.setOptionValue("time_limit", model.model.getRunTime() + max(0.1, deadline - time.monotonic()))
        found = model.solve()
        if found is None:
            return None
        least, kept = found
        walk = Walk(graph, kept)
        assert walk.time == least, f"a MIP that says {least} is a walk of {walk.time}"
        above = sorted((bytes_, place) for bytes_, *place in walk.trace if bytes_ > room)
        if not above:
            return least, kept
        worst = [place for _, place in above[-4:]]
        assert any([model.add_row(*place) for place in worst]), f"no row excludes a walk of {walk.peak} bytes in {room}"


def find_least(graph, from_peak, limit):
    """The least that a step needs, whatever is recomputed, and a set of choices that needs it; none if that is where it starts."""
    slowest, least, kept = sum(op["time"] for op in graph.ops), from_peak, None
    while found := find_optimum(graph, least - 1, slowest, limit):
        kept = found[1]
        least = graph.step_peak(Walk(graph, kept).peak)
    return least, kept


def judge(opt, program, folder, limit):
    """The graph's choices; by budget the time that was chosen, the least, and what keeps it; the least memory likewise."""
    graph, whole = partition(opt, program, "1TiB", folder)
    low, high = whole["frontier"][0]["step_peak_bytes"], whole["frontier"][-1]["step_peak_bytes"]
    points = []
    for budget in (high - (high - low) * part // 4 for part in range(1, 5)):
        chosen_graph, chosen = partition(opt, program, budget, folder)
        walk = Walk(chosen_graph, chosen_graph.saved)
        time_ = chosen["recompute_bytes"]
        assert (graph.step_peak(walk.peak), walk.time) == (chosen["step_peak_bytes"], time_), f"{budget}: {chosen}"
        try:
            found = find_optimum(graph, budget, time_, limit)
        except TimeoutError:
            points.append({"budget": budget, "chosen": time_, "least": None})
            continue
        assert found, f"{budget}: the choice, of {time_}, is better than what the MIP can find"
        points.append({"budget": budget, "chosen": time_, "least": found[0], "kept": found[1]})
    try:
        least, kept = find_least(graph, low, limit)
    except TimeoutError:
        least, kept = None, None
    return {"choices": len(graph.choices), "points": points, "low": low, "least": least, "kept": kept}


def describe(name, cases):
    """A row of the table."""
    points = [point for case in cases for point in case["points"]]
    proved = [point for point in points if point["least"] is not None]
    ratios = [point["chosen"] / point["least"] if point["least"] else 1.0 for point in proved]
    lows = [case["low"] / case["least"] - 1 for case in cases if case["least"]]
    choices = [case["choices"] for case in cases]
    return (f"| {name} | {len(cases)} | {min(choices)} to {max(choices)} | {len(proved)} of {len(points)} "
            f"| {sum(ratio == 1 for ratio in ratios)} | {max(ratios, default=0):.3f} "
            f"| {sum(low == 0 for low in lows)} of {len(lows)} | {100 * max(lows, default=0):.1f} % |")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default="build", type=pathlib.Path)
    parser.add_argument("--graphs", default=20, type=int)
    parser.add_argument("--ops", default=[15, 30, 45], type=int, nargs="*")
    parser.add_argument("--seed", default=1, type=int)
    parser.add_argument("--time-limit", default=60, type=float)
    parser.add_argument("--store", type=pathlib.Path)
    options = parser.parse_args()
    opt, stored = options.build / "bin" / "cleave-opt", {}
    print("| graphs | number | choices | budgets with a proved optimum | of them met | worst ratio | least memory met | at most above it |")
    print("| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |")
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        for count in options.ops:
            cases = []
            for number in range(options.graphs):
                key, program = f"{count}.{options.seed}.{number}", folder / "graph.mlir"
                program.write_text(random_program(random.Random(key), count))
                cases.append(judge(opt, program, folder, options.time_limit))
                if number < 2:
                    stored[key] = cases[-1]
            print(describe(f"random, {count} ops forward", cases), flush=True)
        sys.path[:0] = [str(ROOT / "python")]
        from budget_models import MODELS

        from cleave.export import export_spec

        for name, spec in MODELS.items():
            stored[name] = judge(opt, pathlib.Path(export_spec(spec(), folder)), folder, options.time_limit)
            print(describe(name, [stored[name]]), flush=True)
    if options.store:
        lines = (f"{json.dumps(name)}: {json.dumps(case)}" for name, case in stored.items())
        options.store.write_text("{\n" + ",\n".join(lines) + "\n}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
