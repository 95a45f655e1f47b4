"""The Llama of about a billion parameters in bfloat16: tokens per second and MFU, beside eager PyTorch and torch.compile.

MFU is the share of the chip's dense bfloat16 peak that the model's own arithmetic takes:

    MFU = tokens/s x (6 x parameters of matrix products + 12 x layers x width x context) / peak

(PaLM paper, appendix B: forward and backward, attention's products over the whole context, nothing for what is recomputed or for the embedding's look-up).
"""

import json
import re
import subprocess
import sys

import llama
import tensors
import torch
from part import Failure, describe_failure
from part_training import apart, read_losses

# Dense bfloat16 FLOP/s by the manufacturers' data sheets.
PEAKS = {"H200": 989e12, "H100": 989e12, "A100": 312e12, "B200": 2250e12, "GB200": 2500e12}
# The first steps set libraries up and record graphs; they are not timed.
SKIPPED = 4
# Of the first loss, which no update has changed yet: bfloat16's rounding, or float32's sums.
FIRST = {"bfloat16": 2.0**-8, "float32": 1e-5}
# Of all losses. Adam's first updates are the gradients' signs, whatever their size, and weights in bfloat16 round them, so that two
# correct programs part from one another: on an H200, runs of PyTorch's eager mode by up to 1.2 % (its backward of attention adds in no
# fixed order), its eager and its compiled form by up to 2.5 %.
LOSSES = {"bfloat16": 5e-2, "float32": 1e-5}


def median(values):
    return sorted(values)[len(values) // 2]


def write_inputs(part, entry, config):
    """Weights and tokens, made here by fixed seeds."""
    dtype = getattr(torch, entry["dtype"])
    weights, data = part.work / "weights.safetensors", part.work / "tokens.u16"
    model = llama.make_model(config, dtype, part.device)
    with torch.no_grad():
        llama.initialise(dict(model.named_parameters()))
    tensors.save_file({n: t.detach() for n, t in [*model.named_parameters(), *model.named_buffers()]}, weights)
    del model
    if part.device == "cuda":
        torch.cuda.empty_cache()
    count = entry["steps"] * entry["batch"] * config.context + 1
    # Not uniform, so that there is something to learn.
    tokens = (torch.rand(count, generator=torch.Generator().manual_seed(3)) ** 3 * config.vocabulary).long()
    data.write_bytes(bytes(tokens.clamp(max=config.vocabulary - 1).to(torch.uint16).view(torch.uint8).tolist()))
    return weights, data


def run(part):
    entry = part.manifest["llama"]
    config = llama.LlamaConfig(**entry["config"])
    weights, data = write_inputs(part, entry, config)
    tokens = entry["batch"] * config.context
    peak = next((p for name, p in PEAKS.items() if part.device == "cuda" and name in torch.cuda.get_device_name()), None)
    part.note(f"{config.parameters() / 1e9:.3f} billion parameters, {entry['dtype']}, {entry['batch']} x {config.context} tokens a step, "
              f"{config.flops_per_token() / 1e9:.3f} GFLOP a token")  # fmt: skip
    part.note(f"MFU of a peak of {peak / 1e12:.0f} TFLOP/s" if peak else "no peak is known for this chip: no MFU")
    part.note(f"seconds are the median of steps {SKIPPED + 1} to {entry['steps']}")
    table = f"Llama of {config.parameters() / 1e9:.2f} billion parameters"

    def report(name, losses, seconds, memory=None):
        step = median(seconds[SKIPPED:])
        mfu = f"{tokens / step * config.flops_per_token() / peak:.1%}" if peak else "-"
        part.row(table, who=name, **{"ms a step": f"{step * 1e3:.1f}", "tokens/s": f"{tokens / step:.0f}", "MFU": mfu,
                 "first loss": f"{losses[0]:.5f}", "last loss": f"{losses[-1]:.5f}",
                 "GiB": f"{memory / 2**30:.1f}" if memory else "-"})  # fmt: skip
        part.row("Losses by step", who=name, losses=" ".join(f"{loss:.4f}" for loss in losses))

    expected = None
    for mode in ("eager", "compile"):
        command = [sys.executable, part.bundle / "target" / "step_time.py", mode, "--config", json.dumps(entry["config"]),
                   "--weights", weights, "--data", data, "--dtype", entry["dtype"], "--device", part.device,
                   "--batch", entry["batch"], "--steps", entry["steps"]]  # fmt: skip
        try:
            result = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=120)
        except subprocess.TimeoutExpired:
            part.check(f"PyTorch, {mode}", False, "did not end within 120 s")
            continue
        if result.returncode:
            print(result.stderr[-3000:])
            part.check(f"PyTorch, {mode}", False, describe_failure(result))
            continue
        values = json.loads(result.stdout.strip().splitlines()[-1])
        report(f"PyTorch, {mode}", values["losses"], values["seconds"], values["memory"])
        expected = expected or values["losses"]
    if expected is None:
        raise Failure("PyTorch itself gave no losses to compare with")
    forms = [(variant, variant, ["--graphs=off"]) for variant in entry["variants"]]
    if part.device == "cuda":
        forms += [(f"{variant}, captured as a graph", variant, ["--graphs=on"]) for variant in entry["variants"][-2:]]
    for name, variant, options in forms:
        metrics = part.work / "metrics.jsonl"
        metrics.unlink(missing_ok=True)
        result = part.cleave(
            part.bundle / entry["folder"] / f"{variant}.mlirbc", "--weights", weights, "--steps", entry["steps"], "--data",
            f"u16:{data}", "--shuffle=false", "--metrics", metrics, *options, seconds=90)  # fmt: skip
        if result.returncode:
            part.check(f"Cleave, {name}", False, describe_failure(result))
            continue
        refusal = re.search(r"steps are not recorded as graphs: .*", result.stdout + result.stderr)
        if options == ["--graphs=on"] and refusal:
            part.check(f"Cleave, {name}", False, refusal[0])
            continue
        losses = read_losses(metrics)
        lines = [json.loads(line) for line in metrics.read_text().splitlines()]
        memory = max(line.get("memory_bytes", 0) + line.get("workspace_bytes", 0) for line in lines)
        report(f"Cleave, {name}", losses, [line["ms"] / 1e3 for line in lines], memory)
        first, most = FIRST[entry["dtype"]], LOSSES[entry["dtype"]]
        ok = len(losses) == entry["steps"] and apart(losses[:1], expected) <= first and apart(losses, expected) <= most
        part.check(f"Cleave, {name}", ok, f"the first loss {apart(losses[:1], expected):.1e} apart, expected {first:.1e}; losses of "
                   f"{len(losses)} steps at most {apart(losses, expected):.1e}, expected {most:.1e}")  # fmt: skip
