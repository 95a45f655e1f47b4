"""What a user can ask of a run on the device: each leaves the losses of the steps as they are."""

import json
import re

import tensors
from part import describe_failure
from part_models import get_reference, load
from part_training import batches, compare_losses, read_losses, train

TABLE = "Options of a run, against PyTorch's losses"


def run(part):
    entry = next(e for e in part.manifest["models"] if e["folder"] == "gpt_tied.fp32")
    folder, weights, file, _ = load(part, entry)
    data, steps, microbatches = folder / "data.safetensors", entry["steps"], entry["microbatches"]
    reference, all_batches = get_reference(part, folder), batches(entry, tensors.load_file(data), steps, microbatches)
    expected = reference.train(weights, all_batches, entry["optimizer"])
    state = reference.prepare(weights)
    unchanged = [float(reference.loss(state, inputs).detach()) for step in all_batches for inputs in step]
    trace = part.work / "trace.json"
    options = {
        "--graphs=off": ["--graphs=off"],
        "--stop-on-nan": ["--stop-on-nan"],
        "--trace": ["--trace", trace],
        "--check memory": ["--check", "memory"],
        "--kernels none": ["--kernels", "none"],
    }
    if part.device == "cuda":
        options["--nvtx"] = ["--nvtx"]
    for variant in entry["variants"]:
        program = folder / f"{variant}.mlirbc"
        for option, given in options.items():
            if option == "--check memory" and variant != "exec" or option == "--kernels none" and variant == "ops":
                continue
            name = f"{option}, {variant}"
            losses, problem = train(part, program, file, data, steps, "--microbatches", microbatches, *given)
            if losses is None:
                part.check(name, False, problem)
                continue
            compare_losses(part, TABLE, name, losses, expected, option=option, form=variant)
            if option == "--trace":
                events = json.loads(trace.read_text())["traceEvents"]
                part.check(f"slices of {name}", len(events) > 100, f"{len(events)} events")
        resume(part, program, file, data, microbatches, expected, variant)
        evaluate(part, program, file, data, sum(unchanged) / len(unchanged), variant)


def resume(part, program, file, data, microbatches, expected, variant):
    """Half of the steps, and the others from the checkpoint."""
    checkpoint, metrics, half = part.work / f"checkpoint-{variant}", part.work / "resumed.jsonl", len(expected) // 2
    metrics.unlink(missing_ok=True)
    common = [program, "--weights", file, "--data", f"safetensors:{data}", "--metrics", metrics, "--quiet", "--microbatches",
              microbatches, "--checkpoint", checkpoint]  # fmt: skip
    for steps, more in ((half, []), (len(expected), ["--resume"])):
        result = part.cleave(*common, "--steps", steps, *more)
        if result.returncode:
            part.check(f"--resume, {variant}", False, describe_failure(result))
            return
    compare_losses(part, TABLE, f"--resume, {variant}", read_losses(metrics), expected, option="--resume", form=variant)


def evaluate(part, program, file, data, expected, variant):
    """--evaluate gives PyTorch's mean loss over all of the data."""
    result = part.cleave(program, "--weights", file, "--data", f"safetensors:{data}", "--evaluate")
    found = re.search(r"^loss (\S+)$", result.stdout, re.MULTILINE)
    name = f"--evaluate, {variant}"
    if result.returncode or not found:
        part.check(name, False, describe_failure(result))
        return
    compare_losses(part, TABLE, name, [float(found[1])], [expected], option="--evaluate", form=variant)
