"""NCCL with one rank: its kernels on the communication stream, in order. Several ranks need several GPUs."""

from part import Skip
from part_gloo import reference
from part_training import compare_losses, train


def run(part):
    if part.device != "cuda":
        raise Skip("NCCL needs a GPU")
    part.note("One rank: that streams are ordered, not that ranks agree. Several ranks were not run: they need several GPUs.")
    ranks, file, data, expected = reference(part)
    for variant in ranks["variants"]:
        program = part.bundle / ranks["folder"] / f"data.{variant}.mlirbc"
        launcher = {"RANK": "0", "WORLD_SIZE": "1", "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1"}
        losses, problem = train(part, program, file, data, ranks["steps"], "--microbatches", ranks["microbatches"],
                                "--device-communication", "nccl", environment=launcher)  # fmt: skip
        name = f"data parallel with one rank, {variant}"
        if losses is None:
            part.check(name, False, problem)
            continue
        compare_losses(part, "NCCL with one rank", name, losses, expected, lowering=variant)
