"""The minimum cut on joint graphs of the dashboards' models: same nodes, gradients of every cut.

A run has two of ten models, another day's run others; `./dev test --all` has all ten. bench/torch_compile.py runs them
in Inductor.
"""

import random

import cleave.partitioner
import combinations_cover
import dashboard_steps
import pytest
import torch
from functorch.compile import make_boxed_func
from torch._dynamo.backends.common import aot_autograd
from torch._functorch.partitioners import default_partition

MODELS = [
    "AlbertForMaskedLM", "BartForCausalLM", "BertForMaskedLM", "DebertaV2ForMaskedLM", "T5Small", "openai/gpt-oss-20b",
    "deit_tiny_patch16_224.fb_in1k", "ghostnet_100", "mobilenetv3_large_100", "swin_base_patch4_window7_224",
]  # fmt: skip


@pytest.mark.usefixtures("one_thread")
@pytest.mark.parametrize(
    "name", MODELS if combinations_cover.run_all() else random.Random(combinations_cover.seed()).sample(MODELS, 2)
)
def test_gradients_are_the_default_partitioners(name, monkeypatch):
    left = []
    monkeypatch.setattr(cleave.partitioner, "min_cut_partition", lambda *args, **options: left.append(args))
    expected, _ = step_with(name, default_partition)
    found, graphs = step_with(name, cleave.partitioner.partition)
    assert not left
    assert dashboard_steps.is_bitwise(found, expected)
    again = 0
    for joint, forward, backward in graphs:
        assert forward | backward == joint
        again += len(forward & backward)
    assert again  # computed twice, in place of saved


def step_with(name, partition):
    """Results of a step with this partition, run by PyTorch; the nodes of each joint graph and of its parts."""
    torch.compiler.reset()
    graphs = []

    def keep(joint, inputs, **options):
        graphs.append([names(joint)])
        parts = partition(joint, inputs, **options)
        graphs[-1] += map(names, parts)
        return parts

    backend = aot_autograd(fw_compiler=lambda graph, _: make_boxed_func(graph.forward), partition_fn=keep)
    results = dashboard_steps.Step(dashboard_steps.make(name), backend=backend).results()
    torch.compiler.reset()
    return {key: value.clone() for key, value in results.items()}, graphs


def names(graph):
    return {node.name for node in graph.graph.nodes if node.op == "call_function"}
