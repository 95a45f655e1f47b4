"""Data-parallel runs of cleave-run against DistributedDataParallel, on 2 and 4 ranks over Gloo.

Tolerances are those of docs/design.md: both sum the same numbers, but not in the same order.
"""

import re
import statistics

import ddp_reference
import pytest
import torch
from combinations_cover import cover, name, seed
from safetensors.torch import load_file
from training import checkpoint_tensors, losses, random_batches, save_batches, train

# ResNet-18 on random images and labels magnifies rounding a hundredfold a step (losses agree to 1e-8
# in the second step, 1e-5 in the third, 1e-3 in the fourth): two steps are what can be judged.
STEPS = {"resnet18": 2}
GRADIENTS = 1e-5
LOSSES = 1e-5
FIRST_LOSS = 1e-6


def distance(found, expected, floor):
    """The measure of docs/design.md for one tensor."""
    return float((found - expected).abs().max() / max(float(expected.abs().max()), floor))


def reference(name, subject, case, steps, data):
    """What DistributedDataParallel makes of the same run."""
    draws = re.search(r"train\.draws = (\d+)", subject.program.read_text())
    return ddp_reference.train(ddp_reference.Options(
        model=name, ranks=case["ranks"], microbatches=case["microbatches"], steps=steps,
        draws=int(draws[1]) if draws else 0, seed=3, data=str(data),
    ))  # fmt: skip


@pytest.mark.parametrize(
    "case",
    cover({
        "model": ["gpt_tied", "gpt_dropout", "moe", "llama", "resnet18"],
        "ranks": [2, 4],
        "microbatches": [1, 2],
        "ranks_as": ["processes", "threads"],
    }),
    ids=name,
)  # fmt: skip
def test_data_parallel_is_distributed_data_parallel(build_dir, tmp_path, model, case):
    subject = model(case["model"])
    steps = STEPS.get(case["model"], 20)
    batches = random_batches(subject.spec, steps, case["ranks"] * case["microbatches"], seed())
    data = save_batches(subject.spec, batches, tmp_path / "data.safetensors")
    expected = reference(case["model"], subject, case, steps, data)
    train(build_dir, subject.for_ranks(build_dir), "--ranks", case["ranks"], "--ranks-as",
          case["ranks_as"], "--microbatches", case["microbatches"], "--steps", steps, "--seed", 3,
          "--threads", 1, "--data", f"safetensors:{data}", "--metrics", tmp_path / "metrics.jsonl",
          "--checkpoint", tmp_path / "run", "--checkpoint-every", 1, "--keep-last", 0)  # fmt: skip
    checkpoints = sorted((tmp_path / "run").glob("step-*"))
    assert len(checkpoints) == steps
    after_one, after_all = (checkpoint_tensors(each) for each in (checkpoints[0], checkpoints[-1]))
    text = subject.program.read_text()
    weights = load_file(subject.weights)
    beta = re.search(r"beta1 = ([0-9.e+-]+)", text)
    decay = float(re.search(r"weight_decay = ([0-9.e+-]+)", text)[1])

    def gradient_of_first_step(parameter):
        """Adam's exp_avg is then (1 - beta1) g, SGD's momentum buffer g + weight_decay p."""
        if beta:
            return after_one[f"optim.{parameter}.exp_avg"] / (1 - float(beta[1]))
        return after_one[f"optim.{parameter}.momentum_buffer"] - decay * weights[parameter]

    floor = 1e-3 * statistics.median(
        float(t.abs().max()) for n, t in expected.items() if n.startswith("grad.")
    )
    checked = 0
    for key, gradient in expected.items():
        if key.startswith("grad."):
            assert distance(gradient_of_first_step(key[5:]), gradient, floor) <= GRADIENTS, key
            checked += 1
    assert checked

    found = losses(tmp_path / "metrics.jsonl")
    wanted = expected["loss"].tolist()
    assert abs(found[0] - wanted[0]) <= FIRST_LOSS * abs(wanted[0])
    worst = max(abs(a - b) / abs(b) for a, b in zip(found, wanted, strict=True))
    assert worst <= LOSSES, f"losses differ by {worst}"
    for key, buffer in expected.items():
        if key[7:] not in subject.spec.module.state_dict():
            continue
        if key.startswith("buffer.") and buffer.is_floating_point():
            assert distance(after_all[f"state.{key[7:]}"], buffer, 1e-3) <= GRADIENTS, key
        elif key.startswith("buffer."):
            assert torch.equal(after_all[f"state.{key[7:]}"], buffer), key
