"""Models in bfloat16: no farther from float32 than PyTorch's own bfloat16 is.

Distances are ||a - b|| / ||b|| over all gradients together, b being PyTorch in float32 with the same weights. Two correct
programs round differently, so their distances scatter: Cleave's may be 1.25 times PyTorch's. The loss alone is one
number; its distance may be that of a rounding of bfloat16 (2^-8) where that is more.
"""

import compare
from part_models import evaluate, get_reference, load

SLACK, ROUNDING = 1.25, 2.0**-8


def run(part):
    folders = {e["folder"]: e for e in part.manifest["models"]}
    for entry in part.manifest["models"]:
        if entry["dtype"] != "bf16":
            continue
        folder, weights, file, inputs = load(part, entry)
        other = folders[entry["exact"]]
        whole_folder, whole_weights, _, whole_inputs = load(part, other)
        exact = get_reference(part, whole_folder).evaluate(whole_weights, whole_inputs)
        eager = get_reference(part, folder).evaluate(weights, inputs)
        loss, gradients = compare.distance(eager, exact, entry["ignored"])
        for variant in entry["variants"]:
            name = f"{entry['model']}, {variant}"
            values, problem = evaluate(part, entry, variant, folder, file)
            row = {"model": entry["model"], "form": variant}
            if values is None:
                part.check(name, False, problem)
                part.row("bfloat16 against float32", **row, loss=problem)
                continue
            our_loss, ours = compare.distance(values, exact, entry["ignored"])
            ok = ours <= SLACK * gradients and our_loss <= max(SLACK * loss, ROUNDING)
            part.check(
                name, ok, f"gradients {ours:.2e}, PyTorch's {gradients:.2e}; loss {our_loss:.1e}, PyTorch's {loss:.1e}")  # fmt: skip
            part.row("bfloat16 against float32", **row, loss=f"{our_loss:.1e}", gradients=f"{ours:.2e}",
                     **{"PyTorch's loss": f"{loss:.1e}", "PyTorch's gradients": f"{gradients:.2e}"})  # fmt: skip
