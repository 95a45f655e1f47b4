"""Joint graphs as --partition-joint=policy=budget sees them, and what a partition of one comes to: for oracles.

The sizes, times and shared memory of values are what `graph=FILE` says; the walk is the one that docs/backward.md
describes, written again: each value that the backward needs and that is not saved is recomputed once, right before its
first use, in the order of the forward.
"""

import json
import subprocess


class Graph:
    def __init__(self, described):
        self.values, self.ops, self.step = described["values"], described["ops"], described["step"]
        assert not self.step["lowered"] and not self.step["offload"] and self.step["microbatches"] == 1
        self.saved = described["saved"]
        self.forward_results, self.backward_results = described["forward_results"], described["backward_results"]
        self.maker = {value: number for number, op in enumerate(self.ops) for value in op["results"]}
        self.tangents = [number for number, op in enumerate(self.ops) if op["of"] == "backward"]
        self.others = [number for number, op in enumerate(self.ops) if op["of"] != "backward"]
        self.choices = [number for number, value in enumerate(self.values) if value["fate"] == "choice"]

    def fate(self, value):
        return self.values[value]["fate"]

    def is_needed(self, value):
        """Whether a backward that uses this must save or compute it."""
        return self.fate(value) not in ("there", "own")

    def step_peak(self, peak):
        step = self.step
        return step["state_bytes"] + max(step["once_peak_bytes"], step["unsharded_bytes"] + peak)

    def room(self, step_peak):
        """The most that the values of a microbatch may take; None if no partition is within the peak."""
        step = self.step
        if step["state_bytes"] + step["once_peak_bytes"] > step_peak:
            return None
        return step_peak - step["state_bytes"] - step["unsharded_bytes"]


class Walk:
    """What a partition that keeps these choices saves, recomputes and needs."""

    def __init__(self, graph, kept):
        self.graph, kept = graph, set(kept)
        self.saved, again, self.steps = set(), set(), []

        def compute(roots):
            missing, todo = [], list(roots)
            while todo:
                value = todo.pop()
                if not graph.is_needed(value) or value in self.saved:
                    continue
                if graph.fate(value) == "saved" or value in kept:
                    self.saved.add(value)
                    continue
                op = graph.maker[value]
                if op not in again:
                    again.add(op)
                    missing.append(op)
                    todo += graph.ops[op]["operands"]
            return sorted(missing)

        backward = []
        for group, op in enumerate(graph.tangents):
            backward += [(group, each) for each in compute(graph.ops[op]["operands"])] + [(group, op)]
        backward += [(len(graph.tangents), each)
                     for each in compute(result["value"] for result in graph.backward_results)]
        needed, todo = set(), [graph.maker[value] for value in self.saved if value in graph.maker]
        while todo:
            op = todo.pop()
            if op not in needed:
                needed.add(op)
                todo += [graph.maker[value] for value in graph.ops[op]["operands"] if value in graph.maker]
        forward = [op for op in graph.others if graph.ops[op]["of"] == "forward" or op in needed]
        self.recomputed = {op for op in again if graph.ops[op]["of"] == "forward" or op in needed}
        self.time = sum(graph.ops[op]["time"] for op in self.recomputed)
        self._again = again
        self._measure(forward, backward)

    def _instance(self, value, is_backward):
        graph = self.graph
        if is_backward and value in graph.maker and value not in self.saved:
            op = graph.maker[value]
            if graph.ops[op]["of"] == "backward" or op in self._again:
                return value, True
        return value, False

    def _measure(self, forward, backward):
        graph = self.graph
        root, last, stays, used = {}, {}, set(), []
        sequence = [(False, None, op) for op in forward] + [(False, None, None)]
        sequence += [(True, group, op) for group, op in backward] + [(True, len(graph.tangents), None)]

        def find(instance):
            return root.setdefault(instance, instance)

        for place, (is_backward, _, op) in enumerate(sequence):
            if op is None:
                results = graph.backward_results if is_backward else graph.forward_results
                held = [find(self._instance(result["value"], is_backward)) for result in results]
                stays.update(each for each, result in zip(held, results, strict=True) if result["stays"])
                if not is_backward:
                    held += [find((value, False)) for value in self.saved]
            else:
                for value in graph.ops[op]["results"]:
                    entry, own = graph.values[value], (value, is_backward)
                    root[own] = own
                    if entry["shares_at_first"] is None:
                        continue
                    source = self._instance(entry["shares_at_first"], is_backward)
                    if not entry["takes_own"] or (source[1] and find(source) == source):
                        root[own] = find(source)
                held = [find(self._instance(value, is_backward)) for value in graph.ops[op]["operands"]]
            used.append(held)
            for each in held:
                last[each] = place
        live, self.peak, living = 0, 0, set()
        self.trace = []
        for place, (is_backward, group, op) in enumerate(sequence):
            made = [] if op is None else [(value, is_backward) for value in graph.ops[op]["results"]
                                          if root[value, is_backward] == (value, is_backward)]
            live += sum(graph.values[value]["bytes"] for value, _ in made)
            living.update(made)
            if op is not None:
                self.trace.append((live, is_backward, group, op))
                self.peak = max(self.peak, live)
            for each in set(used[place]) | set(made):
                if each in living and each not in stays and last.get(each, -1) <= place:
                    living.remove(each)
                    live -= graph.values[each[0]]["bytes"]


def partition(opt, program, memory, folder, result="/dev/null", **options):
    """The graph in numbers, and what the budget came to."""
    graph, report = folder / "graph.json", folder / "report.json"
    text = " ".join(f"{name}={value}" for name, value in options.items())
    subprocess.run([opt, program, f"--partition-joint=policy=budget memory={memory} graph={graph} json={report} {text}",
                    "-o", result], check=True)
    return Graph(json.loads(graph.read_text())), json.loads(report.read_text())["budget"]


def random_program(draw, count):
    """A forward of products, pointwise ops, sums and normalizations of several widths, and a backward that uses some of its values."""
    widths, body, values = (4, 16, 64), [], [("%x", 16)]
    kind = "tensor<8x{}xf32>".format

    def pick(width=None):
        known = [value for value in values if width is None or value[1] == width]
        near = known[-3:]
        return draw.choice(near if draw.random() < 0.75 else known)

    for number in range(count):
        (name, width), result = pick(), f"%v{number}"
        what = draw.choice(("exp", "mm", "mm", "mul", "mul", "add", "norm"))
        if what == "mm":
            wide = draw.choice(widths)
            body.append(f"{result} = aten.mm({name}, %w{width}_{wide}) : ({kind(width)}, tensor<{width}x{wide}xf32>) -> {kind(wide)}")
            width = wide
        elif what == "exp":
            body.append(f"{result} = aten.exp({name}) : ({kind(width)}) -> {kind(width)}")
        elif what == "norm":
            small = "tensor<8x1xf32>"
            body.append(f"{result}, {result}_m, {result}_r = aten.native_layer_norm({name}, normalized_shape = [{width}], "
                        f"eps = 1.0e-05) : ({kind(width)}) -> ({kind(width)}, {small}, {small})")
        else:
            body.append(f"{result} = aten.{what}({name}, {pick(width)[0]}) : ({kind(width)}, {kind(width)}) -> {kind(width)}")
        values.append((result, width))
    name, width = values[-1]
    body.append(f"%loss = aten.mean({name}) : ({kind(width)}) -> tensor<f32>")
    body.append(f"%g = aten.expand(%s, size = [8, {width}]) : (tensor<f32>) -> {kind(width)}")
    gradient, gradients = ("%g", width), 0
    for name, width in reversed(values):
        if draw.random() < 0.25:
            continue
        if gradient[1] != width:
            body.append(f"%c{gradients} = aten.mm({gradient[0]}, %w{gradient[1]}_{width}) : "
                        f"({kind(gradient[1])}, tensor<{gradient[1]}x{width}xf32>) -> {kind(width)}")
            gradient = (f"%c{gradients}", width)
        body.append(f"%g{gradients} = aten.mul({gradient[0]}, {name}) : ({kind(width)}, {kind(width)}) -> {kind(width)}")
        gradient, gradients = (f"%g{gradients}", width), gradients + 1
    weights = ", ".join(f'%w{a}_{b}: tensor<{a}x{b}xf32> {{train.role = #train.role<parameter "w{a}_{b}">}}'
                        for a in widths for b in widths)
    if gradient[1] != 16:
        body.append(f"%last = aten.mm({gradient[0]}, %w{gradient[1]}_16) : ({kind(gradient[1])}, tensor<{gradient[1]}x16xf32>) -> {kind(16)}")
        gradient = ("%last", 16)
    body.append("%xt = aten.t(%x) : (tensor<8x16xf32>) -> tensor<16x8xf32>")
    body.append(f"%dw = aten.mm(%xt, {gradient[0]}) : (tensor<16x8xf32>, tensor<8x16xf32>) -> tensor<16x16xf32>")
    lines = "\n    ".join(body)
    return f"""module {{
  func.func @microbatch({weights},
      %x: tensor<8x16xf32> {{train.role = #train.role<input "x">}}, %s: tensor<f32> {{train.role = #train.role<seed>}})
      -> (tensor<f32> {{train.role = #train.role<loss>}}, tensor<16x16xf32> {{train.role = #train.role<gradient "w16_16">}})
      attributes {{train.phase = #train.phase<microbatch>}} {{
    {lines}
    return %loss, %dw : tensor<f32>, tensor<16x16xf32>
  }}
}}
"""
