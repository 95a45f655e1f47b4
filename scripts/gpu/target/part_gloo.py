"""Two ranks that share the device and communicate over Gloo, against PyTorch on the whole batch: data parallel, a pipeline,
fully sharded, and tensor parallel."""

import tensors
from part_models import get_reference, load
from part_training import batches, compare_losses, train


def reference(part):
    """The entry, and the losses, of the model that runs on two ranks."""
    ranks = part.manifest["ranks"]
    entry = next(e for e in part.manifest["models"] if e["folder"] == ranks["model"])
    folder, weights, file, _ = load(part, entry)
    data = folder / "data.safetensors"
    expected = get_reference(part, folder).train(
        weights, batches(entry, tensors.load_file(data), ranks["steps"], ranks["microbatches"]), entry["optimizer"])
    return ranks, file, data, expected


def run(part):
    ranks, file, data, expected = reference(part)
    for form in ranks["forms"]:
        for variant in ranks["variants"]:
            program = part.bundle / ranks["folder"] / f"{form}.{variant}.mlirbc"
            options = ["--ranks", 2]
            if form != "pipeline":  # whose schedule says how many
                options += ["--microbatches", ranks["microbatches"] // 2 if form == "data" else ranks["microbatches"]]
            if part.device == "cuda":
                options += ["--device-communication", "host"]
            losses, problem = train(part, program, file, data, ranks["steps"], *options)
            name = f"{form} on two ranks, {variant}"
            if losses is None:
                part.check(name, False, problem)
                continue
            compare_losses(part, "Two ranks over Gloo, against PyTorch on one", name, losses, expected,
                           form=form, lowering=variant)  # fmt: skip
