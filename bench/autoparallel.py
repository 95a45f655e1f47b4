"""Placements of Llama 3 8B beside those that autoparallel published, on 64 H100s: collectives, and prices by both cost models.

    .venv/bin/python bench/autoparallel.py CHECKOUT --programs FOLDER [--setting 2d|1d] [--layers 32]

CHECKOUT is a clone of github.com/meta-pytorch/autoparallel; nothing of it is copied. Its published graphs are those of
autoparallel/tools/overlap_simulator, the setting is that of examples/example_llama3.py: two sequences of 8,192 tokens
for each rank of dp, parameters of float32, products of bfloat16, gradients reduced in float32; tokens divided over dp,
logits over dp and, by the vocabulary, over tp. The mesh is dp=8, tp=8, or with --setting=1d dp=64. FOLDER keeps the exported program. Prints Markdown.
"""

import argparse
import collections
import dataclasses
import json
import os
import pathlib
import re
import subprocess
import sys
import warnings

from layers import ROOT

sys.path[:0] = [str(ROOT / "python"), str(ROOT / "examples")]

@dataclasses.dataclass
class Setting:
    mesh: dict
    batch: int


SETTINGS = {"2d": Setting({"dp": 8, "tp": 8}, 16), "1d": Setting({"dp": 64}, 128)}
SIZES = dict(vocabulary=128256, context=8192, heads=32, key_value_heads=8, width=4096, hidden=14336, base=500000.0)
GRAPHS = "autoparallel/tools/overlap_simulator/repro_llama3_8b_{}_64_{}.py"
TITLES = {"published": "by the published plan", "given": "by cost"}
CLUSTER = ROOT / "examples/devices/cluster-dgx-h100.json"
BYTES = {"f32": 4, "bf16": 2, "i64": 8, "i1": 1, "f64": 8, "i32": 4}


def export(folder, sizes, layers, batch):
    """The Llama of examples/llama.py in Llama 3's sizes, whose modules take their weights in bfloat16.

    autoparallel lays out a model without its loss; here the loss is the product with a given gradient of the logits.
    """
    import llama
    import torch
    from torch import nn
    from torch.nn import functional

    import cleave

    def narrow(weight):
        return weight.to(torch.bfloat16)

    class Linear(nn.Linear):
        def forward(self, x):
            return functional.linear(x, narrow(self.weight))

    class Embedding(nn.Embedding):
        def forward(self, tokens):
            return functional.embedding(tokens, narrow(self.weight))

    class RMSNorm(llama.RMSNorm):
        def forward(self, x):
            y = x.float()
            y = y * torch.rsqrt(y.pow(2).mean(-1, keepdim=True) + 1e-5)
            return (narrow(self.weight) * y).to(x.dtype)

    config = llama.LlamaConfig(layers=layers, **sizes)
    kinds = {nn.Linear: Linear, nn.Embedding: Embedding, llama.RMSNorm: RMSNorm}
    with torch.device("meta"):
        model = llama.Llama(config).train()
        tokens = torch.zeros(batch, config.context, dtype=torch.int64)
        gradient = torch.zeros(batch, config.context, config.vocabulary, dtype=torch.bfloat16)
    for module in model.modules():
        module.__class__ = kinds.get(type(module), type(module))
    warnings.simplefilter("ignore", cleave.ExportNote)
    spec = cleave.ExportSpec(
        model, (tokens,), loss=lambda logits, gradient: (logits * gradient).sum(dtype=torch.float32), targets=(gradient,), name="program"
    )
    return pathlib.Path(cleave.export_spec(spec, folder))


def plans(mesh):
    """What is given, and the published plan in our words: FSDP and, along tp, Megatron's, whose norms work on the sequence."""
    from cleave import FSDP, ColwiseParallel, Op, Partial, Plan, Replicate, RowwiseParallel, SequenceParallel, Shard

    layer, narrow = "layers.*.", "tp" in mesh
    # By module: which conversion of the forward is that of the weight, which of the backward that of its gradient.
    norms = (layer + "*_layernorm", "norm")
    weights = {name: (0, 0) for name in (layer + "self_attn.*_proj", layer + "mlp.*_proj", "lm_head", "embed_tokens")}
    weights |= {name: (1, 2) for name in norms}
    logits = {"dp": Shard(0), **({"tp": Shard(2)} if narrow else {})}
    given = [
        ("inputs:tokens", {"dp": Shard(0), **({"tp": Replicate()} if narrow else {})}),
        ("inputs:gradient", logits),
        ("lm_head", Op("_unsafe_view", results=[logits])),
    ]
    # Parameters are gathered once they are bfloat16, gradients reduced once they are float32.
    for name, (forward, backward) in weights.items():
        given.append((name, Op("_to_copy", part="forward", index=forward, operands=[{"dp": Shard(0)}])))
        given.append((name, Op("_to_copy", part="backward", index=backward, operands=[{"dp": Partial()}])))
    published = [("embed_tokens", Op("embedding", operands=[{"dp": Replicate()}, None]))]
    if narrow:
        # Of weights that all ranks of tp have, the gradient is reduced over tp, too: no update follows that would do it.
        given += [(f"gradients:{name}.weight", {"tp": Replicate()}) for name in norms]
        published += [
            ("embed_tokens", RowwiseParallel()),
            (layer + "self_attn.{q,k,v}_proj", ColwiseParallel()),
            (layer + "self_attn.o_proj", RowwiseParallel()),
            (layer + "mlp.{gate,up}_proj", ColwiseParallel()),
            (layer + "mlp.down_proj", RowwiseParallel()),
            ("lm_head", ColwiseParallel()),
            *[(name, SequenceParallel()) for name in norms],
            # The terms of a normalization's gradient are added over tp while they are bfloat16, before those over dp.
            *[(name, Op("_to_copy", part="backward", index=2, operands=[{"tp": Replicate()}])) for name in norms],
        ]
    fsdp = [("", FSDP("dp", dim=0))]
    return {"published": Plan(mesh, published + given + fsdp), "given": Plan(mesh, given + fsdp)}


def run(tool, *arguments):
    build = pathlib.Path(os.environ.get("CLEAVE_BUILD", ROOT / "build"))
    done = subprocess.run([str(build / "bin" / tool), *map(str, arguments)], capture_output=True, text=True)
    if done.returncode:
        sys.exit(next((line for line in done.stderr.splitlines() if "error:" in line), done.stderr))
    return done.stdout, done.stderr


# Ops that only show another part of a tensor, in another shape: neither model counts them.
VIEWS = {
    "aten." + name
    for name in "view _unsafe_view t transpose permute expand slice squeeze_dim unsqueeze detach alias select split".split()
}
COMMUNICATES = {"all_gather": "all-gather", "reduce_scatter": "reduce-scatter", "all_reduce": "all-reduce", "all_to_all": "all-to-all"}


def tensors(text):
    """Shapes and types of the tensors in a piece of a signature."""
    return [
        (tuple(int(size) for size in sizes.split("x")[:-1]), kind)
        for sizes, kind in re.findall(r"tensor<((?:\d+x)*)(\w+)", text)
    ]


def size(tensor):
    count = BYTES[tensor[1]]
    for extent in tensor[0]:
        count *= extent
    return count


def read_local(text, costs):
    """What a rank does in our local program, as a Graph; each op is priced by autoparallel's functions."""
    import torch
    from autoparallel_model import Collective, Graph, Product

    types = {"f32": torch.float32, "bf16": torch.bfloat16, "i64": torch.int64}
    ops, attention = torch.ops.aten, "aten._scaled_dot_product_flash_attention_for_cpu"
    made = Graph([], [], 0, 0.0)

    def typed(tensor):
        return (tensor[0], types[tensor[1]])

    for line in text.splitlines():
        found = re.match(r"\s*(?:%[^=]* = )?((aten|dist)\.(\w+))", line)
        if not found:
            continue
        name, dialect, short = found.groups()
        before, _, after = line.rpartition(" : ")[2].partition(" -> ")
        taken, given = tensors(before), tensors(after) or tensors(before)
        if dialect == "dist":
            if short in COMMUNICATES:
                axes = tuple(re.findall(r'"(\w+)"', line.partition(" over ")[2].partition(" : ")[0]))
                whole = given if short == "all_gather" else taken
                dims = [int(dim) for dim in re.findall(r" (?:dim|split|concat) (\d+)", line)]
                for tensor in whole:
                    made.collectives.append(Collective(COMMUNICATES[short], axes, tensor[1], size(tensor)))
                    # As it prices redistributions: parts along another dimension than the first are copied together.
                    made.seconds += sum(dim != 0 for dim in dims) * costs.move(2 * size(tensor))
            continue
        if name in VIEWS:
            continue
        if name in ("aten.mm", "aten.bmm"):
            made.seconds += costs.call(getattr(ops, short).default, *map(typed, taken))
            (m, k), n = taken[0][0][-2:], taken[1][0][-1]
            made.products.append(Product(m, k, n))
        elif name == attention:
            made.seconds += costs.call(ops._scaled_dot_product_cudnn_attention.default, *map(typed, taken[:3]), None, True, 0.0, True)
            made.layers += 1
        elif name == attention + "_backward":
            gradient, q, k, v, out, sums = map(typed, taken[:6])
            place, length = ((), torch.int64), q[0][2]
            made.seconds += costs.call(
                ops._scaled_dot_product_cudnn_attention_backward.default, gradient, q, k, v, out, (sums[0], torch.float32),
                place, place, None, None, None, length, length, 0.0, True,
            )  # fmt: skip
            made.layers += 1
        else:
            made.seconds += costs.move(sum(map(size, taken)) + sum(map(size, given)))
    return made


UNITS = {"s": 1, "ms": 1e-3, "us": 1e-6}


def lay_out(program, plan, solve):
    """The local program by a plan, and what its step costs by our model: as placed, the bound, and as simulated."""
    cluster = f"microbatches=1 cluster={CLUSTER}"
    local = program.parent / f"{plan.stem}.local.mlir"
    passes = [f"--annotate-placements=plan={plan}", *([] if solve else [f"--propagate-placements={cluster}"])]
    passes += [f"--propagate-placements=solve {cluster}", "--partition", "--cse", "--canonicalize", "--partition-joint=recompute=gathers"]
    _, said = run("cleave-opt", program, *passes, "-o", local)
    cost, bound = (float(n) * UNITS[unit] for n, unit in re.findall(r"(?:step costs|costs less than) ([\d.]+) (\w+)", said))
    simulated = json.loads(run("cleave-sim", local, f"--cluster={CLUSTER}", "--json")[0])["step"]
    return local.read_text(), cost, bound, simulated


def each_layer(what, layers):
    """By what it is: how many for each layer, and how many beside all layers."""
    return {one: divmod(count, layers) for one, count in collections.Counter(what).items()}


def print_counts(columns, head, describe, get):
    """Columns are lists of graphs of which that is added, as of a forward and a backward."""
    counts = {}
    for title, graphs in columns.items():
        by_layers = collections.defaultdict(list)
        for graph in graphs:
            by_layers[graph.layers] += get(graph)
        counts[title] = [each_layer(what, layers) for layers, what in by_layers.items()]
    rows = sorted({one for found in counts.values() for part in found for one in part})
    print(f"| {head} | " + " | ".join(counts) + " |")
    print("| --- |" + " --- |" * head.count("|") + " ---: |" * len(counts))
    for row in rows:
        cells = []
        for found in counts.values():
            each, rest = (sum(part.get(row, (0, 0))[place] for part in found) for place in (0, 1))
            cells.append(" + ".join(([f"{each} a layer"] if each else []) + ([f"{rest}"] if rest else [])))
        print(f"| {describe(row)} | " + " | ".join(cells) + " |")
    print()


def sent(graph, layers, costs):
    """Seconds of its collectives by autoparallel's model, as many layers as that."""
    return sum((each * layers + rest) * costs.communicate(one) for one, (each, rest) in each_layer(graph.collectives, graph.layers).items())


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkout", type=pathlib.Path)
    parser.add_argument("--programs", type=pathlib.Path, required=True)
    parser.add_argument("--setting", choices=SETTINGS, default="2d")
    parser.add_argument("--layers", type=int, default=32)
    options = parser.parse_args()

    import autoparallel_model

    setting = SETTINGS[options.setting]
    costs = autoparallel_model.Costs(options.checkout.resolve(), setting.mesh)
    published = [
        autoparallel_model.read(options.checkout / GRAPHS.format(part, options.setting), setting.mesh, costs)
        for part in ("fw", "bw")
    ]
    program = options.programs / f"llama3-8b-{options.setting}-{options.layers}" / "program.mlir"
    if not program.exists():
        export(program.parent, SIZES, options.layers, setting.batch)
    columns, prices = {"published": published}, {}
    for name, plan in plans(setting.mesh).items():
        path = plan.write(program.parent / f"{name}.json")
        text, *prices[TITLES[name]] = lay_out(program, path, name == "given")
        columns[TITLES[name]] = [read_local(part, costs) for part in re.split(r"(?m)^  func\.func ", text)[1:]]
    print_counts(
        columns, "collective | over | type | MB", lambda one: f"{one.kind} | {', '.join(one.axes)} | {one.dtype} | {one.size / 1e6:.3f}",
        lambda graph: graph.collectives,
    )  # fmt: skip
    print_counts(columns, "product", lambda one: f"{one.m} x {one.k} by {one.k} x {one.n}", lambda graph: graph.products)
    print("| by our model | cost, s | bound, s | simulated, s | parameters, GiB | temporary, GiB | saved, GiB |")
    print("| --- |" + " ---: |" * 6)
    for title, (cost, bound, step) in prices.items():
        memory = step["memory"][0]
        held = [memory["parameters"], memory["temporary"], step["saved_bytes"]]
        print(f"| {title} | {cost:.4f} | {bound:.4f} | {step['seconds']:.4f} | " + " | ".join(f"{size / 2**30:.2f}" for size in held) + " |")
    print("\n| by autoparallel's model | layers | ops of the forward, s | of the backward, s "
          f"| collectives of the forward, {options.layers} layers, s | of the backward, s | sum, s |")  # fmt: skip
    print("| --- |" + " ---: |" * 6)
    for title, graphs in columns.items():
        times = [graph.seconds for graph in graphs] + [sent(graph, options.layers, costs) for graph in graphs]
        same = all(graph.layers == options.layers for graph in graphs)
        print(f"| {title} | {', '.join(str(graph.layers) for graph in graphs)} | " + " | ".join(f"{time:.4f}" for time in times)
              + f" | {f'{sum(times):.4f}' if same else ''} |")  # fmt: skip


if __name__ == "__main__":
    main()
