"""No pass of the road from an export to a lowered program grows much faster than the program: what a pass takes of the
processor for an exported Llama of 32 layers, beside 8. Four times the layers cost four times as much, with n log n five
and a half, quadratic sixteen times; times that depend on the machine cancel."""

import dataclasses
import pathlib
import sys
import warnings

import cleave
import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "bench"))
import large_models  # noqa: E402

FEW, FACTOR = 8, 4
# Between n log n and n², in the middle of their logarithms.
BOUND = 9.4
# Below this a pass's time at the larger size says nothing, and nobody waits for it.
SHORT = 0.05
MOST_RUNS = 27
# By so much may the smaller time be off, which is the difference of what two processes take that start for 0.07 s each.
NOISE = 0.005

LLAMA = dataclasses.replace(
    large_models.MODELS["llama3-405b"], batch=4, tokens=16, mesh={"dp": 2, "tp": 2}, stages=2, microbatches=4,
    make=large_models.llama3(hidden_size=64, intermediate_size=96, num_attention_heads=8),
)  # fmt: skip


def processor_seconds(command, runs):
    """The least of several runs: other work only adds."""
    return min(large_models.run(command)[0][1] for _ in range(runs))


def grows_too_fast(few, many):
    return many > max(SHORT, BOUND * (few + NOISE))


def growth(commands, empty=None):
    """Seconds of the commands at both sizes, less those of the empty ones. What seems to grow too fast is measured
    again and again, for other work on the machine may have come between the two."""
    runs = 1
    while True:
        empties = [processor_seconds(each, runs) for each in empty] if empty else [0, 0]
        times = [max(processor_seconds(each, runs) - less, 0.0) for each, less in zip(commands, empties)]
        if not grows_too_fast(*times) or runs == MOST_RUNS:
            return times
        runs *= 3


@pytest.fixture(scope="module")
def measured(build_dir, tmp_path_factory):
    """By phase: seconds of its passes alone, without reading and writing, at both sizes."""
    folder = tmp_path_factory.mktemp("growth")
    plan = folder / "plan.json"
    cleave.Plan(LLAMA.mesh, LLAMA.plan).write(plan)
    opt = build_dir / "bin" / "cleave-opt"
    sizes = (FEW, FACTOR * FEW)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", cleave.ExportNote)
        files = [cleave.export_spec(LLAMA.make(each, LLAMA.batch, LLAMA.tokens), folder / str(each)) for each in sizes]
    seconds = {}
    for name, passes in large_models.phases(LLAMA, plan).items():
        targets = [folder / f"{each}.{name}.mlirbc" for each in sizes]
        flags = [f"--{each}" for each in passes]
        seconds[name] = growth(
            [[opt, file, *flags, "-o", target] for file, target in zip(files, targets)],
            [[opt, file, "-o", folder / "unchanged.mlirbc"] for file in files],
        )
        files = targets
    seconds["dry run"] = growth([[build_dir / "bin" / "cleave-run", file, "--dry-run"] for file in files])
    return seconds


def test_passes_grow_as_the_program_does(measured):
    print("\n".join(f"{name}: {few:.3f} {many:.3f}" for name, (few, many) in measured.items()))
    assert len(measured) > 8
    # Else nothing is measured at all.
    assert sum(many > SHORT for _, many in measured.values()) > 2
    assert {name: times for name, times in measured.items() if grows_too_fast(*times)} == {}


def test_quadratic_growth_is_seen(measured):
    """If each pass did for each of the layers what it does for all of them, so many times would be found too long. Those
    of a constant cost, and those that the noise of a start hides, would not."""
    seen = [name for name, (few, many) in measured.items() if many > SHORT and grows_too_fast(few, FACTOR * many)]
    assert len(seen) > 1, measured
