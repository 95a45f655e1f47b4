"""Real models by their published layouts, without weights: seconds and memory of each phase, bytes by rank.

    .venv/bin/python bench/large_models.py [--models llama3-8b,llama3-405b] [--layers 32,64,126] [--out DIRECTORY]

Each model is exported from its public configuration on the meta device, laid out, cut into stages, scheduled,
fused, compiled for sm_90 and lowered, each phase by a process of its own, whose peak memory is the one reported.
`--layers` repeats one model at these depths (--depth-model), for the growth of each pass. Prints Markdown.
`--out` keeps the programs; those that are there already are not exported again.
`--mutants` asks cleave-prove about that many changes of one op each in what a rank of --depth-model runs, not staged,
at the largest of these depths.
"""

import argparse
import dataclasses
import json
import math
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable

from layers import ROOT

sys.path[:0] = [str(ROOT / "python"), str(ROOT / "examples")]

from cleave import (  # noqa: E402
    FSDP,
    ColwiseParallel,
    ContextParallel,
    ExpertParallel,
    Plan,
    RowwiseParallel,
    SequenceParallel,
)

LAYER = "model.model.layers.*."
TENSOR = {
    "model.model.embed_tokens": RowwiseParallel(),
    LAYER + "self_attn.{q,k,v}_proj": ColwiseParallel(),
    LAYER + "self_attn.o_proj": RowwiseParallel(),
    LAYER + "mlp.{gate,up}_proj": ColwiseParallel(),
    LAYER + "mlp.down_proj": RowwiseParallel(),
    "model.lm_head": ColwiseParallel(),
}
SEQUENCE = {
    LAYER + "{input,post_attention}_layernorm": SequenceParallel(),
    "model.model.norm": SequenceParallel(),
}


def llama3(**sizes):
    """A function that makes a Llama 3 of that many layers: LlamaForCausalLM with the published numbers."""

    def make(layers, batch, tokens):
        import torch
        from huggingface import NextToken, cross_entropy
        from transformers import LlamaConfig, LlamaForCausalLM

        import cleave

        config = LlamaConfig(
            vocab_size=128256, num_key_value_heads=8, rope_theta=500000.0, rms_norm_eps=1e-5, num_hidden_layers=layers,
            max_position_embeddings=max(tokens, 8192), tie_word_embeddings=False, **sizes,
        )  # fmt: skip
        torch.set_default_dtype(torch.bfloat16)
        with torch.device("meta"):
            module = NextToken(LlamaForCausalLM(config)).train()
            examples = [torch.zeros(batch, tokens, dtype=torch.int64) for _ in range(2)]
        torch.set_default_dtype(torch.float32)
        return cleave.ExportSpec(
            module, (examples[0],), loss=cross_entropy, targets=(examples[1],), name="program",
            optimizer=torch.optim.AdamW(module.parameters(), lr=8e-5, weight_decay=0.1),
        )  # fmt: skip

    return make


def deepseek_v3(layers, batch, tokens, fuses_attention=False):
    """torchtitan's DeepSeek-V3 671B, of that many layers, the first three of them dense.

    Its values are narrower than its keys, for which PyTorch has fused attention on some GPUs only and the exporter has
    products and a softmax. `fuses_attention`: values get the width of keys by zeros, as where attention is fused otherwise.
    """
    import logging

    logging.getLogger("torchtitan").setLevel(logging.ERROR)
    import torch
    from torch.nn.functional import cross_entropy
    from torchtitan.models.deepseek_v3 import DeepSeekV3Model, deepseekv3_args

    import cleave

    arguments = dataclasses.replace(
        deepseekv3_args["671B"], n_layers=layers, attn_type="sdpa", attn_mask_type="causal", max_seq_len=tokens
    )
    arguments.moe_impl = "standard"  # what torchtitan's job configuration sets
    torch.set_default_dtype(torch.bfloat16)
    with torch.device("meta"):
        module = DeepSeekV3Model(arguments).train()
        if fuses_attention:
            for layer in module.layers.values():
                layer.attention.inner_attention = pad_values()
        examples = [torch.zeros(batch, tokens, dtype=torch.int64) for _ in range(2)]
    torch.set_default_dtype(torch.float32)
    return cleave.ExportSpec(
        module, (examples[0],), targets=(examples[1],), name="program",
        loss=lambda logits, targets: cross_entropy(logits.flatten(0, 1).float(), targets.flatten(0, 1)),
        optimizer=torch.optim.AdamW(module.parameters(), lr=2.2e-4, weight_decay=0.1),
    )  # fmt: skip


def pad_values():
    """A module for scaled dot product attention of values that are narrower than keys."""
    import torch
    from torch.nn import functional

    class PaddedAttention(torch.nn.Module):
        def forward(self, q, k, v, *, scale=None):
            padded = functional.pad(v, (0, k.shape[-1] - v.shape[-1]))
            return functional.scaled_dot_product_attention(q, k, padded, scale=scale, is_causal=True)[..., : v.shape[-1]]

    return PaddedAttention()


@dataclasses.dataclass
class Model:
    """make(layers, batch, tokens) gives the spec; `batch` are the examples of one microbatch of the whole mesh."""

    title: str
    make: Callable
    layers: int
    tokens: int
    batch: int
    mesh: dict
    plan: dict | list
    stages: int = 1
    microbatches: int = 1
    published: str = ""
    recompute: str = "cheap"  # what the backward may compute again
    schedule: str = "1f1b"
    chunks: int = 1  # stages of a rank of the pipeline
    gradients: str = ""  # options of --bucket-gradients


LLAMA_405B = llama3(hidden_size=16384, intermediate_size=53248, num_attention_heads=128)
MODELS = {
    "llama3-8b": Model(
        "Llama 3 8B, 8,192 tokens", llama3(hidden_size=4096, intermediate_size=14336, num_attention_heads=32),
        32, 8192, 64, {"dp": 64}, {"": FSDP("dp")}, published="torchtitan: FSDP over 64 devices",
    ),
    "llama3-70b": Model(
        "Llama 3 70B, 8,192 tokens", llama3(hidden_size=8192, intermediate_size=28672, num_attention_heads=64),
        80, 8192, 8, {"dp": 8, "tp": 8}, {**TENSOR, **SEQUENCE, "": FSDP("dp")},
        published="torchtitan: TP 8, FSDP over 8 (64 devices)", recompute="gathers",
    ),
    "llama3-405b": Model(
        "Llama 3 405B, 8,192 tokens", LLAMA_405B, 126, 8192, 128, {"dp": 128, "tp": 8},
        {**TENSOR, **SEQUENCE, "": FSDP("dp")}, 16, 16,
        "The Llama 3 Herd of Models, table 4: TP 8, CP 1, PP 16, DP 128 (16,384 devices), 16 sequences a replica",
        recompute="gathers", schedule="interleaved-1f1b", chunks=2, gradients="reduce-in-fp32",
    ),
    "llama3-405b-long": Model(
        "Llama 3 405B, 131,072 tokens", LLAMA_405B, 126, 131072, 8, {"dp": 8, "cp": 16, "tp": 8},
        [*TENSOR.items(), *SEQUENCE.items(), ("", FSDP("dp")), ("", ContextParallel("cp", shard_parameters=True))],
        16, 16, "the same, table 4: TP 8, CP 16, PP 16, DP 8 (16,384 devices), 16 sequences a replica",
        recompute="gathers", schedule="interleaved-1f1b", chunks=2, gradients="reduce-in-fp32",
    ),
    "deepseek-v3": Model(
        "DeepSeek-V3 671B, 4,096 tokens", deepseek_v3, 61, 4096, 128, {"dp": 2, "ep": 64},
        [("layers.*.moe.experts", ExpertParallel("ep", capacity=1.25)), ("", FSDP("dp")), ("", FSDP("ep"))],
        16, 32,
        "DeepSeek-V3 Technical Report, 3.2: PP 16, EP 64, ZeRO-1 DP (2,048 devices, 128 of which share what is not an expert's)",
        recompute="all", gradients="reduce-in-fp32",
    ),
}  # fmt: skip

TIDY = ["cse", "canonicalize"]


def phases(model, plan):
    """Name to passes, in order: each phase reads what the one before wrote."""
    layout = {
        "annotate": [f"annotate-placements=plan={plan}"],
        "propagate": ["propagate-placements"],
        "partition": ["partition", *TIDY],
    }
    buckets = f"bucket-gradients=bucket-size-mb=512 {model.gradients}".strip()
    gradients = ["split-fsdp-collectives", buckets, "clip-gradients"]
    if model.stages > 1:
        count = model.stages
        parts = {
            "stage": [f"outline-stages=count={count * model.chunks} balance=cost recompute={model.recompute}"],
            "gradients": [*gradients, "overlap-communication"],
            "schedule": [
                f"build-schedule=schedule={model.schedule} ranks={count} microbatches={model.microbatches}",
                "insert-p2p",
                "verify-schedule",
            ],
        }
    else:
        parts = {"stage": [f"partition-joint=recompute={model.recompute}"], "gradients": [*gradients, "overlap-communication"]}
    code = {
        "fuse": ["fuse-kernels"],
        "compile for sm_90": ["compile-kernels=cuda=sm_90 cpu=none"],
        "lower": ["lower-to-exec=target=cuda chip=sm_90", "verify-exec"],
    }
    return {**layout, **parts, **code}


class PhaseFailed(Exception):
    pass


def run(command, statuses=(0,)):
    """Wall seconds, processor seconds and peak bytes of a process; its standard output and error."""
    start = time.perf_counter()
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        process = subprocess.Popen([str(part) for part in command], stdout=out, stderr=err)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        seconds = time.perf_counter() - start
        texts = []
        for file in (out, err):
            file.seek(0)
            texts.append(file.read().decode())
    if process.returncode not in statuses:
        lines = [line for line in texts[1].splitlines() if "error:" in line] or texts[1].splitlines()[-3:]
        raise PhaseFailed(" / ".join(lines[:3]))
    return (seconds, usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024), *texts


@dataclasses.dataclass
class Measured:
    layers: int
    ops: int = 0
    kernels: int = 0
    launches: int = 0
    phases: dict = dataclasses.field(default_factory=dict)  # name: (wall seconds, processor seconds, bytes)
    passes: dict = dataclasses.field(default_factory=dict)  # name: seconds
    ranks: list = dataclasses.field(default_factory=list)  # by rank: what --dry-run says of it
    failure: str = ""


def measure(key, layers, build, folder):
    model, found = MODELS[key], Measured(layers)
    folder.mkdir(parents=True, exist_ok=True)
    plan = folder / "plan.json"
    Plan(model.mesh, model.plan).write(plan)
    try:
        file, kept = folder / "program.mlir", folder / "export.json"
        if not kept.exists():
            export = [sys.executable, __file__, "--export", key, "--layers", layers, "--out", folder]
            kept.write_text(json.dumps(run(export)[0]))
        found.phases["export"] = json.loads(kept.read_text())
        found.ops = len(re.findall(r" = (?:aten|train)\.", file.read_text()))
        for number, (name, passes) in enumerate(phases(model, plan).items()):
            target = folder / f"{number}.mlirbc"
            timing = ["--mlir-timing", "--mlir-timing-display=list"]
            command = [build / "bin/cleave-opt", file, *(f"--{each}" for each in passes), *timing, "-o", target]
            found.phases[name], _, report = run(command)
            # Of nested passes the wall time is the last number before the name.
            for time_, title in re.findall(r"([\d.]+) \(\s*[\d.]+%\)\s+(\w+)$", report, re.MULTILINE):
                if title not in ("Rest", "Total", "root"):
                    found.passes[f"{name}: {title}"] = found.passes.get(f"{name}: {title}", 0.0) + float(time_)
            file = target
            if name == "fuse":
                text = run([build / "bin/cleave-opt", file])[1]
                found.kernels, found.launches = text.count("exec.kernel @"), text.count("exec.launch")
        found.phases["dry run"], report, _ = run([build / "bin/cleave-run", file, "--dry-run"])
        found.ranks = read_ranks(report)
    except PhaseFailed as error:
        found.failure = str(error)
    return found


def read_ranks(report):
    """By rank, bytes of each line of its memory, and what it sends and computes."""
    ranks = []
    for part in report.split("\nmemory of ")[1:]:
        rank = {name.strip(): int(count) for name, count in re.findall(r"^  (\D+?)\s+[\d.]+ \w+\s+(\d+)$", part, re.M)}
        sent = re.search(r"of which a rank sends .*?\((\d+) bytes\)", part)
        rank["sent"] = int(sent[1]) if sent else 0
        rank["flops"] = float(re.search(r"floating-point operations of a step\n\s+(\S+)", part)[1])
        ranks.append(rank)
    return ranks


def gib(count):
    return f"{count / 2**30:.2f}"


def print_phases(key, found):
    model = MODELS[key]
    print(f"## {model.title}\n")
    print(f"Published: {model.published}.\n")
    print(f"{found.layers} layers, {found.ops} ops exported; {found.kernels} kernels, {found.launches} launches\n")
    print("| phase | seconds | of a processor | peak memory, GiB |")
    print("| --- | ---: | ---: | ---: |")
    for name, (seconds, processor, peak) in found.phases.items():
        print(f"| {name} | {seconds:.1f} | {processor:.1f} | {gib(peak)} |")
    if found.failure:
        print(f"\nThe next phase failed: {found.failure}")
    print(flush=True)


# Of --dry-run, by the title of a column.
COLUMNS = {
    "parameters": "parameters", "optimizer state": "optimizer state", "of these in buckets": "gradients",
    "arena": "arena", "frames of microbatches": "frames", "activations, peak": "other activations",
    "peak of a step": "peak", "sent": "sent in a step",
}  # fmt: skip


def print_ranks(found):
    if not found.ranks:
        return
    chosen = sorted({0, len(found.ranks) // 2, len(found.ranks) - 1})
    print("| rank of the pipeline | " + " | ".join(f"{title}, GiB" for title in COLUMNS.values()) + " | TFLOP |")
    print("| ---: |" + " ---: |" * (len(COLUMNS) + 1))
    for place in chosen:
        rank = found.ranks[place]
        cells = [gib(rank.get(name, 0)) for name in COLUMNS]
        print(f"| {place} | " + " | ".join(cells) + f" | {rank['flops'] / 1e12:.0f} |")
    print(flush=True)


def print_growth(key, depths):
    """Processor seconds of each phase and wall seconds of each pass by layers, and the power that they grow with."""
    counts = [found.layers for found in depths]

    def table(title, rows):
        print(f"| {title} | " + " | ".join(f"{n} layers" for n in counts) + " | power |")
        print("| --- |" + " ---: |" * (len(counts) + 1))
        for name, times in rows:
            power = "-"  # shorter times say nothing
            if min(times) > 0.02 and counts[0] != counts[-1]:
                power = f"{math.log(times[-1] / times[0]) / math.log(counts[-1] / counts[0]):.2f}"
            print(f"| {name} | " + " | ".join(f"{seconds:.2f}" for seconds in times) + f" | {power} |")
        print()

    print(f"## Growth: {MODELS[key].title}\n")
    for title, what in (("ops exported", "ops"), ("kernels", "kernels"), ("launches", "launches")):
        print(f"- {title}: " + ", ".join(str(getattr(found, what)) for found in depths))
    print()
    table(
        "phase, processor seconds",
        [(name, [found.phases.get(name, (0, 0))[1] for found in depths]) for name in depths[-1].phases],
    )
    table(
        "phase: pass, wall seconds", [(name, [found.passes.get(name, 0) for found in depths]) for name in depths[-1].passes]
    )
    sys.stdout.flush()


def print_mutants(key, layers, count, build, folder):
    """What cleave-prove says of `count` changed programs, and what each takes."""
    from program_changes import Changes

    model, file = MODELS[key], folder / "program.mlir"
    folder.mkdir(parents=True, exist_ok=True)
    plan, local, wrong = (folder / name for name in ("plan.json", "rank.mlir", "wrong.mlir"))
    Plan(model.mesh, model.plan).write(plan)
    if not file.exists():
        run([sys.executable, __file__, "--export", key, "--layers", layers, "--out", folder])
    passes = [f"annotate-placements=plan={plan}", "propagate-placements", "partition", *TIDY, "partition-joint"]
    run([build / "bin/cleave-opt", file, *(f"--{each}" for each in passes), "-o", local])
    prove = [build / "bin/cleave-prove", file]
    options = ["--assume=exact-casts", "--execute=false", "--json"]

    def ask(local):
        usage, answer, errors = run([*prove, local, *options], statuses=(0, 2, 3))
        return usage, json.loads(answer) if answer else {"answer": "bad input", "findings": [], "reason": errors}

    (_, seconds, peak), answer = ask(local)
    print(f"## Changes of one op: {model.title}, {layers} layers\n")
    print(f"The program itself: {answer['answer']}, {answer['results']} results, {seconds:.1f} s of a processor, {gib(peak)} GiB\n")
    print("| change | answer | named | of a processor, seconds | peak memory, GiB |")
    print("| --- | --- | --- | ---: | ---: |")
    changes, rows, seed = Changes(local.read_text()), [], 0
    while len(rows) < count:
        what, text, lines = changes.draw(seed)
        seed += 1
        wrong.write_text(text)
        (_, seconds, peak), answer = ask(wrong)
        if answer["answer"] == "bad input":  # the op has no such operand
            continue
        named = {int(found.get("location", ":0").rsplit(":", 1)[1].rstrip(")")) for found in answer["findings"]}
        rows.append((answer["answer"] == "proved", bool(named & lines), seconds, peak))
        print(f"| {what} | {answer['answer']} | {'yes' if named & lines else 'no'} | {seconds:.1f} | {gib(peak)} |", flush=True)
    times = sorted(seconds for _, _, seconds, _ in rows)
    print(f"\n{sum(proved for proved, *_ in rows)} proved; {sum(named for _, named, *_ in rows)} of {count} named, or a direct user. "
          f"Seconds of a processor: {times[0]:.1f} to {times[-1]:.1f}, median {statistics.median(times):.1f}; "
          f"at most {gib(max(peak for *_, peak in rows))} GiB.\n")  # fmt: skip


def export_here(key, layers, out):
    """Runs in a process of its own: its peak memory is the export's."""
    import warnings

    import torch

    import cleave

    torch.set_num_threads(1)
    warnings.simplefilter("ignore", cleave.ExportNote)
    model = MODELS[key]
    cleave.export_spec(model.make(layers, model.batch, model.tokens), out)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", default=",".join(MODELS), help="names, or 'none'")
    parser.add_argument("--depth-model", default="llama3-405b", choices=MODELS)
    parser.add_argument("--layers", default="32,64,126")
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    parser.add_argument("--out", type=pathlib.Path)
    parser.add_argument("--mutants", type=int, default=0, help="changed programs that cleave-prove is asked about")
    parser.add_argument("--json", type=pathlib.Path, help="where to write all numbers as well")
    parser.add_argument("--export", choices=MODELS, help=argparse.SUPPRESS)
    options = parser.parse_args()
    depths = [int(part) for part in options.layers.split(",")] if options.layers != "none" else []
    if options.export:
        export_here(options.export, depths[0], options.out)
        return
    results = {}
    with tempfile.TemporaryDirectory() as scratch:
        folder = options.out or pathlib.Path(scratch)

        def measured(key, layers):
            if (key, layers) not in results:
                results[key, layers] = measure(key, layers, options.build, folder / f"{key}-{layers}")
            return results[key, layers]

        if options.mutants:
            key, layers = options.depth_model, max(depths)
            print_mutants(key, layers, options.mutants, options.build, folder / f"{key}-{layers}")
            return
        for key in options.models.split(",") if options.models != "none" else []:
            found = measured(key, MODELS[key].layers)
            print_phases(key, found)
            print_ranks(found)
        if depths:
            print_growth(options.depth_model, [measured(options.depth_model, layers) for layers in depths])
    if options.json:
        options.json.write_text(
            json.dumps([{"model": key, **dataclasses.asdict(found)} for (key, _), found in results.items()], indent=1)
        )


if __name__ == "__main__":
    main()
