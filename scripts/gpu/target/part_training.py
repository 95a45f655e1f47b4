"""Training steps with the optimizer on one rank, against PyTorch's fused optimizer on the same data."""

import json

import tensors
from part import describe_failure
from part_models import get_reference, load

LOSSES = 1e-5


def read_losses(path):
    return [json.loads(line)["loss"] for line in path.read_text().splitlines()]


def batches(entry, data, steps, microbatches):
    """The microbatches of each step, in the order in which cleave-run reads them."""
    result = []
    for step in range(steps):
        parts = []
        for index in range(microbatches):
            part = {}
            for name, value in data.items():
                dim = entry["batch"][name]
                if dim is not None:
                    rows = entry["rows"][name]
                    value = value.narrow(dim, (step * microbatches + index) * rows, rows)
                part[name] = value
            parts.append(part)
        result.append(parts)
    return result


def apart(losses, expected):
    """The largest relative difference of two runs' losses; infinite if one is not a number."""
    return max(abs(a - b) / abs(b) if a == a else float("inf") for a, b in zip(losses, expected))


def compare_losses(part, table, name, losses, expected, **row):
    """Losses of all steps, relative to PyTorch's."""
    if len(losses) != len(expected):
        part.check(name, False, f"{len(losses)} steps, expected {len(expected)}")
        return
    most = apart(losses, expected)
    part.check(name, most <= LOSSES, f"losses at most {most:.1e} apart in {len(losses)} steps, expected {LOSSES:.0e}")
    part.row(table, **row, steps=len(losses), first=f"{losses[0]:.6f}", last=f"{losses[-1]:.6f}", apart=f"{most:.1e}")


def train(part, program, file, data, steps, *options, environment=None):
    """Losses of cleave-run, or what it said instead."""
    metrics = part.work / "metrics.jsonl"
    metrics.unlink(missing_ok=True)
    result = part.cleave(
        program, "--weights", file, "--steps", steps, "--data", f"safetensors:{data}", "--metrics", metrics, "--quiet",
        *options, environment=environment)  # fmt: skip
    return (None, describe_failure(result)) if result.returncode else (read_losses(metrics), "")


def run(part):
    for entry in part.manifest["models"]:
        if entry["dtype"] != "fp32":
            continue
        folder, weights, file, _ = load(part, entry)
        data = folder / "data.safetensors"
        steps, microbatches = entry["steps"], entry["microbatches"]
        if steps == 0:
            part.note(f"{entry['model']}: the last bits of weights change so much that not even the first step's loss is judged")
            continue
        expected = get_reference(part, folder).train(
            weights, batches(entry, tensors.load_file(data), steps, microbatches), entry["optimizer"])
        variant = entry["variants"][-1]
        losses, problem = train(part, folder / f"{variant}.mlirbc", file, data, steps, "--microbatches", microbatches)
        if losses is None:
            part.check(entry["model"], False, problem)
            continue
        compare_losses(part, "Training against PyTorch", entry["model"], losses, expected,
                       model=entry["model"], form=variant, optimizer=entry["optimizer"][0])  # fmt: skip
