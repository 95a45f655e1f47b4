"""Models, meshes and the plan of each pair: what the table of placements and its test run.

Meshes are the usual ways to train on several ranks. A plan is what a user of `cleave.export(plan=...)`
would write; nothing in it knows how Cleave will run it.
"""

import dataclasses
import re

import torch
from cleave import (
    FSDP,
    HSDP,
    ColwiseParallel,
    ContextParallel,
    DataParallel,
    ExpertParallel,
    Plan,
    RowwiseParallel,
    SequenceParallel,
    Shard,
    testing,
)
from exported_models import MODELS as FACTORIES


def _parallel(modules, style):
    return [(module, style()) for module in modules]


def _gpt(prefix="", head=()):
    """Fused queries, keys and values; an embedding that is cut along the vocabulary."""
    h = f"{prefix}h.*."
    return [
        *_parallel([h + "attn.c_attn", h + "mlp.c_fc", *head], ColwiseParallel),
        *_parallel([h + "attn.c_proj", h + "mlp.c_proj", prefix + "wte"], RowwiseParallel),
    ], [h + "ln_*", prefix + "ln_f"]


def _moe():
    rules, norms = _gpt()
    rules = [(module, style) for module, style in rules if "mlp" not in module]
    # Experts are stacked: (experts, width, 4 width) and back.
    experts = [("h.*.experts.up", {"tp": Shard(2)}), ("h.*.experts.down", {"tp": Shard(1)})]
    return rules + experts, norms


def _llama():
    layer = "model.model.layers.*."
    return [
        *_parallel([layer + "self_attn.{q,k,v}_proj", layer + "mlp.{gate,up}_proj", "model.lm_head"],
                   ColwiseParallel),
        *_parallel([layer + "self_attn.o_proj", layer + "mlp.down_proj", "model.model.embed_tokens"],
                   RowwiseParallel),
    ], [layer + "*_layernorm", "model.model.norm"]  # fmt: skip


def _minilm():
    layer = "model.encoder.layer.*."
    return [
        *_parallel([layer + "attention.self.{query,key,value}", layer + "intermediate.dense"], ColwiseParallel),
        *_parallel([layer + "attention.output.dense", layer + "output.dense"], RowwiseParallel),
    ], [layer + "**.LayerNorm"]


def _resnet():
    return [
        *_parallel(["layer*.*.conv1"], ColwiseParallel),
        *_parallel(["layer*.*.conv2"], RowwiseParallel),
    ], ["fc"]  # it has no sequence: the last layer is as good as any


# By model: the rules of tensor parallelism, and the norms that sequence parallelism takes.
TENSOR_PARALLEL = {
    "gpt_tied": lambda: _gpt(),
    "gpt_untied": lambda: _gpt(head=["lm_head"]),
    "gpt_dropout": lambda: _gpt(),
    "gpt_philox": lambda: _gpt(),
    "gpt_checkpointed": lambda: _gpt(),
    "moe": _moe,
    "gpt2": lambda: _gpt("model.transformer."),
    "llama": _llama,
    "minilm": _minilm,
    "resnet18": _resnet,
}
MODELS = list(TENSOR_PARALLEL)
# Of 20 steps, those whose losses can be judged: ResNet-18 on random images magnifies rounding a
# hundredfold a step.
JUDGED_STEPS = {"resnet18": 2}
# Where gradients may differ by more than 1e-5: of batch statistics over 4 images of 2 x 2 positions.
GRADIENTS = {"resnet18": 2e-5}


def tensor_parallel(model):
    return TENSOR_PARALLEL[model]()[0]


def _sequence(model):
    rules, norms = TENSOR_PARALLEL[model]()
    return rules + _parallel(norms, SequenceParallel)


# By name: the mesh, and the rules for a model.
MESHES = {
    "dp2": ({"dp": 2}, lambda model: {"": DataParallel()}),
    "dp4": ({"dp": 4}, lambda model: {"": DataParallel()}),
    "tp2": ({"tp": 2}, tensor_parallel),
    "tp4": ({"tp": 4}, tensor_parallel),
    "dp2 x tp2": ({"dp": 2, "tp": 2}, lambda model: [*tensor_parallel(model), ("", DataParallel())]),
    "fsdp2": ({"dp": 2}, lambda model: {"": FSDP()}),
    "fsdp4": ({"dp": 4}, lambda model: {"": FSDP()}),
    "hsdp 2 x 2": ({"replicas": 2, "shards": 2}, lambda model: {"": HSDP("replicas", "shards")}),
    "tp2, sequence": ({"tp": 2}, _sequence),
    "fsdp2 x tp2": ({"dp": 2, "tp": 2}, lambda model: [*tensor_parallel(model), ("", FSDP())]),
    "ep2": ({"ep": 2}, lambda model: [("h.*.experts", ExpertParallel()), ("", DataParallel("ep"))]),
    "cp2": ({"cp": 2}, lambda model: {"": ContextParallel()}),
    # 3 ranks divide few dimensions of parameters.
    "fsdp3, uneven": ({"dp": 3}, lambda model: {"": FSDP()}),
}
BATCH, UNEVEN_BATCH = 4, 6
# Gradients that are zero by mathematics, so that all of them is rounding: softmax does not see what
# is added to all scores of a query.
ZERO_GRADIENTS = re.compile(r"grad\..*\.key\.bias")


def plan(model, mesh):
    sizes, rules = MESHES[mesh]
    return Plan(sizes, rules(model))


def ranks(mesh):
    product = 1
    for size in MESHES[mesh][0].values():
        product *= size
    return product


def spec(model, batch):
    """The model's spec with `batch` random examples as its microbatch."""
    # Dropout with numbers that are the same on any mesh; a rank draws only its part.
    philox = model == "gpt_philox"
    made = FACTORIES["gpt_dropout" if philox else model]()
    own = next(t.shape[0] for t in (*made.args, *made.targets) if isinstance(t, torch.Tensor))
    generator = torch.Generator().manual_seed(1)
    tensors = testing.random_batch(made, -(-batch // own), generator)
    taken = iter([t[:batch].contiguous() for t in tensors.values()])
    args = tuple(next(taken) for _ in made.args)
    targets = tuple(next(taken) for _ in made.targets)
    source = "philox" if philox else "mt19937"
    return dataclasses.replace(made, args=args, targets=targets, generator=source)


def refusal(model, mesh):
    """What the error says of a pair that makes no sense; None for all that run."""
    if mesh == "ep2" and model != "moe":
        return "matches no module with stacked experts"
    if mesh == "cp2" and model == "resnet18":
        return "which do not divide it"
    if mesh == "tp2, sequence" and model == "resnet18":
        return "activations with a sequence in dimension 1"
    return None
