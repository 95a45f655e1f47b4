"""Forward and backward of a 32-layer Llama training graph: time and saved bytes, beside PyTorch's partitioners.

Both sides take the same joint graph and run in one go, in turn; the best of several runs counts. Saved
bytes are those of distinct memory that neither a parameter nor an input has.

    .venv/bin/python bench/partition.py [--runs 3] [--layers 32,126]
"""

import copy
import json
import re
import subprocess
import sys
import tempfile
import time

from layers import ROOT, llama, parse_options

sys.path[:0] = [str(ROOT / "python"), str(ROOT / "examples")]

import torch  # noqa: E402
from torch._functorch import partitioners  # noqa: E402
from torch._functorch._aot_autograd.descriptors import GradAOTOutput, ParamAOTInput  # noqa: E402

torch.set_num_threads(1)


def count_forward_outputs(graph):
    """Outputs that are not gradients; they come first."""
    output = next(node for node in graph.nodes if node.op == "output")
    is_gradient = [isinstance(d, GradAOTOutput) for d in output.meta["desc"]]
    return is_gradient.index(True)


def storage(node):
    return node.meta["val"].untyped_storage()._cdata


def saved_bytes(forward, outputs):
    """Bytes of the forward module's results behind its own outputs, arguments' memory left out."""
    arguments = {storage(n) for n in forward.graph.nodes if n.op == "placeholder"}
    output = next(node for node in forward.graph.nodes if node.op == "output")
    sizes = {}
    for value in output.args[0][outputs:]:
        if isinstance(value, torch.fx.Node) and storage(value) not in arguments:
            sizes[storage(value)] = value.meta["val"].untyped_storage().nbytes()
    return sum(sizes.values()), len(output.args[0]) - outputs


def run_pytorch(joint, outputs, partition):
    """Seconds and saved bytes of one of PyTorch's partitioners on a copy of the graph."""
    graph = copy.deepcopy(joint)
    parameters = [
        i for i, node in enumerate(n for n in graph.graph.nodes if n.op == "placeholder")
        if isinstance(node.meta["desc"], ParamAOTInput)
    ]
    start = time.perf_counter()
    forward, _ = partition(
        graph, None, num_fwd_outputs=outputs, static_lifetime_input_indices=parameters)
    seconds = time.perf_counter() - start
    return seconds, *saved_bytes(forward, outputs)


def run_cleave(opt, program, options):
    """Seconds of the pass (from --mlir-timing), of the whole process, and saved bytes."""
    with tempfile.NamedTemporaryFile(suffix=".json") as file:
        start = time.perf_counter()
        report = subprocess.run(
            [opt, program, f"--partition-joint={options}", "--mlir-timing", "-o", "/dev/null"],
            check=True, capture_output=True, text=True).stderr
        whole = time.perf_counter() - start
        subprocess.run(
            [opt, program, f"--partition-joint={options} json={file.name}", "-o", "/dev/null"], check=True)
        explained = json.load(open(file.name))
    seconds = float(re.search(r"([\d.]+) \(\s*[\d.]+%\)\s+PartitionJoint", report).group(1))
    saved = explained["saved"]
    return seconds, sum(value["bytes"] for value in saved), len(saved), whole


def measure(layers, options):
    from cleave.export import export_spec
    from cleave.export.capture import capture

    joint = capture(llama(layers)).graph
    outputs = count_forward_outputs(joint.graph)
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        program = str(export_spec(llama(layers), folder))
        ours = {"save-all": [], "min-cut": []}
        theirs = {"save-all": [], "min-cut": []}
        for _ in range(options.runs):
            for policy in ours:
                ours[policy].append(run_cleave(options.opt, program, f"policy={policy}"))
            theirs["save-all"].append(run_pytorch(joint, outputs, partitioners.default_partition))
            theirs["min-cut"].append(
                run_pytorch(joint, outputs, partitioners.min_cut_rematerialization_partition))
        for policy in ours:
            a, b = min(ours[policy]), min(theirs[policy])
            rows.append((policy, a, b))
    print(f"\n{layers} layers, {len(joint.graph.nodes)} FX nodes\n")
    print("| policy | cleave: pass (s) | cleave-opt, whole (s) | PyTorch (s) | PyTorch / pass "
          "| saved bytes (values) | PyTorch: saved bytes (values) |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for policy, a, b in rows:
        print(f"| {policy} | {a[0]:.4f} | {a[3]:.2f} | {b[0]:.2f} | {b[0] / a[0]:.0f} "
              f"| {a[1]} ({a[2]}) | {b[1]} ({b[2]}) |", flush=True)


def main():
    options = parse_options(__doc__)
    print(f"torch {torch.__version__}; best of {options.runs}")
    for layers in options.layers:
        measure(layers, options)


if __name__ == "__main__":
    main()
