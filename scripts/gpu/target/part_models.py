"""Every example model on one rank in float32 against PyTorch on the same device: loss, gradients, buffers."""

import json

import compare
import tensors
from part import describe_failure
from reference import Reference


def load(part, entry):
    """A model's weights and inputs, and the files that cleave-run reads."""
    folder = part.bundle / "models" / entry["folder"]
    weights = tensors.load_file(folder / "weights.safetensors")
    file = folder / "weights.safetensors"
    if entry["drawn"]:
        weights |= tensors.draw(entry["drawn"], seed=1)
        file = part.work / f"{entry['folder']}.safetensors"
        tensors.save_file(weights, file)
    return folder, weights, file, tensors.load_file(folder / "inputs.safetensors")


def evaluate(part, entry, variant, folder, file):
    """Cleave's results by name, or what it said instead."""
    dump = part.work / "dump.safetensors"
    dump.unlink(missing_ok=True)
    result = part.cleave(
        folder / f"{variant}.mlirbc", "--weights", file, "--inputs", folder / "inputs.safetensors", "--dump", dump)  # fmt: skip
    if result.returncode:
        return None, describe_failure(result)
    return tensors.load_file(dump), ""


def get_reference(part, folder):
    return Reference(json.loads((folder / "reference.json").read_text()), part.device)


def run(part):
    for entry in part.manifest["models"]:
        if entry["dtype"] != "fp32":
            continue
        folder, weights, file, inputs = load(part, entry)
        try:
            expected = get_reference(part, folder).evaluate(weights, inputs)
        except RuntimeError as error:  # its other models can still be shown
            part.check(f"{entry['model']}, PyTorch", False, str(error).splitlines()[0])
            continue
        for variant in entry["variants"]:
            name = f"{entry['model']}, {variant}"
            values, problem = evaluate(part, entry, variant, folder, file)
            if values is None:
                part.check(name, False, problem)
                part.row("Models in float32 against PyTorch", model=entry["model"], form=variant, loss=problem)
                continue
            # PyTorch's reference has no names for buffers that a forward changes.
            values = {n: v for n, v in values.items() if n in expected or n.startswith("grad.")}
            apart = compare.differences(values, expected, entry["ignored"])
            worst, distance = compare.worst(apart)
            ok = distance <= entry["tolerance"]
            part.check(name, ok, f"at most {distance:.1e} ({worst}), expected {entry['tolerance']:.0e}")
            part.row(
                "Models in float32 against PyTorch", model=entry["model"], form=variant, loss=f"{apart['loss']:.1e}",
                **{"worst value": f"{distance:.1e}", "which": worst, "tolerance": f"{entry['tolerance']:.0e}"})  # fmt: skip
