"""PyTorch's memory budget and Cleave's on the model of pytorch#197838, whose peak rises where PyTorch's budget falls.

A Llama of 4 layers and 128 tokens for each unit of `--scale`, the sum of its last hidden states as loss. Of the graphs that
torch.compile's partitioner makes at each `activation_memory_budget`, what is saved is summed up, and the peak is that of
running their ops in order, each storage freed after its last use: parameters are not counted, gradients are. Of Cleave
it is the planned peak without the parameters. Prints Markdown.

    .venv/bin/python bench/torch_budget.py [--scale 1] [--build build]
"""

import argparse
import pathlib
import sys
import tempfile

import torch
from budget_graphs import partition
from layers import ROOT
from torch._dynamo.backends.common import aot_autograd
from torch._functorch import config
from torch._functorch.aot_autograd import make_boxed_func
from torch._functorch.partitioners import min_cut_rematerialization_partition
from torch.multiprocessing.reductions import StorageWeakRef

sys.path[:0] = [str(ROOT / "python")]
MIB = 2**20
BUDGETS = (0.05, 0.1, 0.15, 0.2, 0.3, 0.4)


def tensors(value):
    return [each for each in torch.utils._pytree.tree_leaves(value) if isinstance(each, torch.Tensor)]


def storages(node):
    """What a node's value lies in, with the bytes."""
    found = {}
    for tensor in tensors(node.meta.get("val")):
        storage = tensor.untyped_storage()
        found[StorageWeakRef(storage)] = storage.nbytes()
    return found


def walk(graph, held):
    """The peak while the graph's ops run in order, and what its results lie in. `held`: bytes by argument that is counted."""
    nodes = list(graph.nodes)
    last, home, live = {}, {}, {}
    for place, node in enumerate(nodes):
        for each in node.all_input_nodes:
            for storage in storages(each):
                last[storage] = place
    for node in nodes:
        if node.op == "placeholder":
            for storage, size in storages(node).items():
                home[storage] = node
                if node.name in held:
                    live[storage] = size
    peak = sum(live.values())
    for place, node in enumerate(nodes):
        if node.op == "call_function":
            for storage, size in storages(node).items():
                if storage not in home:
                    home[storage] = node
                    live[storage] = size
            peak = max(peak, sum(live.values()))
        for storage in [each for each in live if last.get(each, -1) <= place and place < len(nodes) - 1
                        and (home[each].op != "placeholder" or each in last)]:
            del live[storage]
    return peak, live


def partition_in_torch(model, arguments, budget):
    """Bytes that are saved, and the peak."""
    graphs = []

    def keep(module, _):
        graphs.append(module.graph)
        return make_boxed_func(module.forward)

    torch._dynamo.reset()
    with config.patch(activation_memory_budget=budget):
        compiled = torch.compile(model, dynamic=False, backend=aot_autograd(
            fw_compiler=keep, bw_compiler=keep, partition_fn=min_cut_rematerialization_partition))
        compiled(*arguments).backward()
    forward, backward = graphs
    peak, results = walk(forward, set())
    output = next(node for node in forward.nodes if node.op == "output")
    given = {node.name for node in forward.nodes if node.op == "placeholder"}
    saved = {node.name for node in output.all_input_nodes[1:]} - given
    # Views of parameters are saved too, and take nothing.
    counted = {node.name for node in backward.nodes if node.op == "placeholder" and node.name in saved
               and set(storages(next(each for each in forward.nodes if each.name == node.name))) & set(results)}
    sizes = {storage: size for node in backward.nodes if node.name in counted for storage, size in storages(node).items()}
    return sum(sizes.values()), max(peak, walk(backward, counted)[0])


def export(scale, folder):
    from budget_models import llama

    from cleave.export import export_spec

    return pathlib.Path(export_spec(llama(scale), folder))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scale", default=1, type=int)
    parser.add_argument("--build", default="build", type=pathlib.Path)
    options = parser.parse_args()
    from budget_models import Summed, llama

    spec = llama(options.scale)
    print(f"{4 * options.scale} layers, {128 * options.scale} tokens\n")
    print("| budget | PyTorch: saved (MiB) | peak (MiB) | Cleave: peak (MiB) | recomputed (MiB of traffic) |")
    print("| --- | ---: | ---: | ---: | ---: |")
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        program, opt = export(options.scale, folder), options.build / "bin" / "cleave-opt"
        graph, whole = partition(opt, program, "1TiB", folder)
        low, high = whole["frontier"][0]["step_peak_bytes"], whole["frontier"][-1]["step_peak_bytes"]
        state = graph.step["state_bytes"]
        for budget in BUDGETS:
            saved, peak = partition_in_torch(Summed(spec.module), spec.args, budget)
            _, chosen = partition(opt, program, low + int((high - low) * budget), folder)
            print(f"| {budget:.2f} | {saved / MIB:.2f} | {peak / MIB:.2f} | {(chosen['step_peak_bytes'] - state) / MIB:.2f} "
                  f"| {chosen['recompute_bytes'] / MIB:.1f} |", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
