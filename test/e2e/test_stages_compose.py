"""Pipeline stages with data, tensor and fully sharded parallelism: each stage's buckets, clipping, split
collectives and overlap compute what the whole program does.

Stages run one after another, in one process or on each of several ranks. Everything is bitwise but what
docs/design.md, section 7, leaves open: a norm that stages add up, sums that change places with ranks.
"""

import json
import re
import subprocess

import pytest
import torch
import typed_gpt
from cleave import testing
from combinations_cover import covered
from safetensors.torch import load_file, save_file
from training import checkpoint_group

SYNC = "--sync-gradients=axis=dp"
BUCKETS = "--bucket-gradients=bucket-size-mb=0.02 first-bucket-mb=0.01"
CLIP = "--clip-gradients=max-norm=0.05"
SPLIT = "--split-backward"
SPLIT_FSDP = "--split-fsdp-collectives"
OVERLAP = "--overlap-communication"


@pytest.fixture(scope="module")
def opt(build_dir):
    """Transforms a program into FOLDER/NAME.mlir, beside a link to its weights."""

    def run(path, folder, name, *passes):
        output = folder / f"{name}.mlir"
        result = subprocess.run(
            [build_dir / "bin" / "cleave-opt", path, *passes, "--mlir-print-debuginfo", "-o", output],
            capture_output=True, text=True)  # fmt: skip
        assert result.returncode == 0, result.stderr
        weights = output.with_suffix(".safetensors")
        if not weights.exists():
            weights.symlink_to(path.with_suffix(".safetensors"))
        return output

    return run


def outline(stages):
    return f"--outline-stages=count={stages} balance=cost"


@pytest.fixture(scope="module")
def exported(program, tmp_path_factory):
    """An exported model's path, and a file with data for 2 steps of 2 microbatches on 2 ranks."""
    cache = {}

    def get(name):
        if name not in cache:
            spec, path = program(name)
            batch = testing.random_batch(spec, 8, torch.Generator().manual_seed(1))
            data = tmp_path_factory.mktemp("data") / "data.safetensors"
            save_file({n: t.contiguous() for n, t in batch.items()}, data)
            cache[name] = path, data
        return cache[name]

    return get


STEPS = ["--steps", 2, "--microbatches", 2, "--seed", 5]


# Data parallelism of real models: what the stages run, and what the whole program does.
@covered(
    {
        "model,stages,passes": {
            "tied-buckets": ("gpt_tied", 4, [SPLIT, SYNC, BUCKETS]),
            "dropout-buckets": ("gpt_untied_dropout", 2, [SYNC, BUCKETS, OVERLAP]),
            "llama-overlap": ("llama", 4, [SPLIT, SYNC, OVERLAP]),
        },
        "ranks": [1, 2],
    },
    strength=1,
)  # fmt: skip
def test_stages_of_data_parallel_ranks(
    model, stages, passes, ranks, exported, opt, cleave_run, tmp_path
):
    path, data = exported(model)
    whole = opt(path, tmp_path, "whole", SYNC)
    staged = opt(path, tmp_path, "staged", outline(stages), *passes)
    text = staged.read_text()
    if BUCKETS in passes:
        assert len(set(re.findall(r"train\.bucket @(bucket\d+_\d+)", text))) >= stages
    cleave_run.succeed(
        whole, "--against", staged, "--ranks", ranks, "--data", f"safetensors:{data}", *STEPS)  # fmt: skip


@pytest.mark.parametrize("ranks", [1, 2])
def test_the_norm_that_clips_is_of_all_stages(ranks, exported, opt, cleave_run, tmp_path):
    """AdamW's first moments show the clipped gradients."""
    path, data = exported("gpt_tied")
    moments = {}
    for name, passes in {
        "plain": [SYNC],
        "whole": [SYNC, CLIP],
        "staged": [outline(4), SYNC, CLIP],
        "buckets": [outline(4), SPLIT, SYNC, BUCKETS, CLIP],
    }.items():
        folder = tmp_path / f"{name}.checkpoint"
        cleave_run.succeed(
            opt(path, tmp_path, name, *passes), "--data", f"safetensors:{data}", "--ranks", ranks,
            "--checkpoint", folder, "--steps", 1, "--microbatches", 2)  # fmt: skip
        state = checkpoint_group(max(folder.glob("step-*")), "optimizer")
        moments[name] = {n: t for n, t in state.items() if n.endswith(".exp_avg")}
    floor = 1e-3 * sorted(float(t.abs().max()) for t in moments["whole"].values())[len(moments["whole"]) // 2]
    for name, whole in moments["whole"].items():
        largest = max(float(whole.abs().max()), floor)
        for staged in ("staged", "buckets"):
            assert float((moments[staged][name] - whole).abs().max()) <= 1e-6 * largest, (staged, name)
        assert float(whole.abs().max()) < 0.9 * float(moments["plain"][name].abs().max()), name


def test_clipped_parameters_of_stages(opt, cleave_run, build_dir, tmp_path):
    """By plain SGD, whose step shows the gradient: as clipped by the whole program's norm."""
    path = typed_gpt.write(build_dir, tmp_path, layers=3)
    whole = opt(path, tmp_path, "whole", CLIP)
    staged = opt(path, tmp_path, "staged", outline(3), SPLIT, BUCKETS, CLIP)
    assert staged.read_text().count('stage_sum "gradient_norm_squared"') == 6
    data = f"safetensors:{tmp_path / 'data.safetensors'}"
    after = {}
    for program in (path, whole, staged):
        folder = tmp_path / f"{program.stem}.checkpoint"
        cleave_run.succeed(program, "--data", data, "--steps", 1, "--microbatches", 2, "--checkpoint", folder)
        after[program.stem] = checkpoint_group(max(folder.glob("step-*")))
    before = load_file(path.with_suffix(".safetensors"))
    squares = 0.0
    for name, start in before.items():
        step = start - after["whole"][name]
        squares += step.double().square().sum()
        # The norm is summed in another order, and each new parameter is rounded once.
        rounding = torch.finfo(step.dtype).eps * after["whole"][name].abs()
        difference = (after["staged"][name] - after["whole"][name]).abs()
        assert (difference <= 1e-6 * step.abs().max() + rounding).all(), name
        assert step.abs().max() < 0.9 * (start - after["program"][name]).abs().max(), name
    # A learning rate of 0.1 times the norm that the gradients were scaled to.
    assert squares.sqrt() == pytest.approx(0.1 * 0.05, rel=1e-4)


# Tensor and data parallelism in the types; the stages stay typed.
TYPED = {
    "typed": ({"dp": 2, "tp": 2}, [], []),
    "overlap": ({"dp": 1, "tp": 2}, [], [SPLIT, OVERLAP]),
    "buckets": ({"dp": 2, "tp": 2}, [], [SPLIT, BUCKETS]),
    "clip": ({"dp": 2, "tp": 2}, [CLIP], [SPLIT, BUCKETS, CLIP]),
    "sharded": ({"dp": 2, "tp": 2, "sharded": True}, [SPLIT_FSDP], [SPLIT, SPLIT_FSDP]),
    "sharded-buckets": (
        {"dp": 2, "tp": 1, "sharded": True}, [SPLIT_FSDP],
        [SPLIT, SPLIT_FSDP, BUCKETS, OVERLAP],
    ),
    "sharded-clip": (
        {"dp": 2, "tp": 2, "sharded": True}, [SPLIT_FSDP, CLIP],
        [SPLIT, SPLIT_FSDP, BUCKETS, CLIP],
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", TYPED)
def test_stages_of_typed_programs(case, build_dir, opt, cleave_run, tmp_path):
    mesh, whole_passes, passes = TYPED[case]
    path = typed_gpt.write(build_dir, tmp_path, **mesh)
    check = "--check-spmd-types"
    whole = opt(path, tmp_path, "whole", *whole_passes, check)
    staged = opt(path, tmp_path, "staged", outline(2), *passes, check)
    text = staged.read_text()
    # What crosses has its placements, between the blocks and the same in all ranks of "tp".
    crossing = re.findall(r"(tensor<[^>]*>) \{train\.role = #train\.role<crossing(?:_gradient)? ", text)
    assert crossing and all("_tp" in kind and "P_tp" not in kind for kind in crossing)
    if SPLIT_FSDP in passes:
        for stage in (0, 1):
            assert f"func.func @unshard_{stage}(" in text
        assert not re.search(r"@(forward|backward)\w*\([^\n]*\n(    [^\n]*\n)*    %\S+ = dist\.(all_gather|reduce_scatter)", text)
    ranks = mesh["dp"] * mesh["tp"]
    tolerance = ["--tolerance", 1e-6] if CLIP in passes else []
    cleave_run.succeed(
        whole, "--against", staged, "--ranks", ranks, "--data", f"safetensors:{tmp_path / 'data.safetensors'}",
        *STEPS, *tolerance)  # fmt: skip


SCHEDULES = ["1f1b ranks=4", "zb-h1 ranks=4", "interleaved-zero-bubble ranks=2", "zbv ranks=2", "offline ranks=1"]  # fmt: skip


def test_schedules_have_what_runs_once_a_step(exported, opt, tmp_path):
    """Reductions behind the last contribution, the sum over stages before the steps; all of it proved."""
    path, _ = exported("gpt_tied")
    staged = opt(path, tmp_path, "staged", outline(4), SPLIT, SYNC, BUCKETS, CLIP)
    buckets = re.findall(r"train\.bucket @bucket(\d)_\d", staged.read_text())
    for schedule in SCHEDULES:
        passes = [f"--build-schedule=schedule={schedule} microbatches=4", "--insert-p2p", "--verify-schedule"]
        text = opt(staged, tmp_path, "scheduled", *passes).read_text()
        lists = re.findall(r"rank \d+: ([^r]*(?:r(?!ank \d+:)[^r]*)*)", text[text.index("pipeline.schedule"):])
        assert len(lists) == int(schedule[-1])
        for entries in lists:
            actions = [a for a in entries.split("}")[0].split() if not a.startswith(("send", "recv"))]
            sums = [i for i, a in enumerate(actions) if a.startswith('"stage_sum.')]
            steps = [i for i, a in enumerate(actions) if a.startswith("step")]
            if not steps:
                continue  # only the last stage, which has no parameters
            assert len(sums) == 1 and sums[0] < min(steps)
            for step in (actions[i] for i in steps):
                stage = step.removeprefix("step")
                last = max(i for i, a in enumerate(actions) if re.fullmatch(rf"[BW]{stage}\.\d+", a))
                reduced = [i for i, a in enumerate(actions) if a.startswith(f"reduce{stage}.")]
                # One for each bucket, right there, and the function that waits for them.
                count = buckets.count(stage)
                assert reduced[:count] == list(range(last + 1, last + 1 + count))
                assert len(reduced) == count + 1 and reduced[-1] < sums[0]


def losses(cleave_run, program, folder, *options):
    metrics = folder / f"{program.stem}.jsonl"
    cleave_run.succeed(program, "--steps", 2, "--seed", 5, "--metrics", metrics, *options)
    return [json.loads(line)["loss"] for line in metrics.read_text().splitlines()]


@pytest.mark.parametrize("schedule,ranks", [("zbv ranks=2", 2), ("1f1b ranks=2", 4), ("zb-h1 ranks=4", 4)])  # fmt: skip
def test_pipeline_and_data_parallel_ranks(schedule, ranks, exported, opt, cleave_run, tmp_path):
    """Several ranks by a schedule, with buckets and a norm over all, as data-parallel ranks run all stages."""
    path, data = exported("gpt_tied")
    places = int(schedule[-1])
    stages = 4 if "zbv" in schedule else places
    staged = opt(path, tmp_path, "staged", outline(stages), SPLIT, SYNC, BUCKETS, CLIP)
    scheduled = opt(
        staged, tmp_path, "scheduled", f"--build-schedule=schedule={schedule} microbatches=2", "--insert-p2p")  # fmt: skip
    at = ["--data", f"safetensors:{data}", "--ranks-as", "threads"]
    together = losses(cleave_run, staged, tmp_path, *at, "--microbatches", 2, "--ranks", ranks // places)
    assert losses(cleave_run, scheduled, tmp_path, *at, "--ranks", ranks) == together


@pytest.mark.parametrize("case", ["clip", "sharded-clip"])
def test_pipeline_and_typed_ranks(case, build_dir, opt, cleave_run, tmp_path):
    """Stages on two ranks each: tensor-parallel, or fully sharded with unshard and reshard in the schedule."""
    mesh = {"clip": {"tp": 2}, "sharded-clip": {"dp": 2, "sharded": True}}[case]
    path = typed_gpt.write(build_dir, tmp_path, **mesh)
    staged = opt(path, tmp_path, "staged", outline(2), *TYPED[case][2], "--check-spmd-types")
    # The pipeline's axis may stand in the mesh.
    meshed = tmp_path / "meshed.mlir"
    meshed.write_text(staged.read_text().replace('dist.mesh @mesh ["dp"', 'dist.mesh @mesh ["pp" = 2, "dp"'))
    meshed.with_suffix(".safetensors").symlink_to(path.with_suffix(".safetensors"))
    scheduled = opt(
        meshed, tmp_path, "scheduled", "--build-schedule=schedule=zb-h1 ranks=2 microbatches=2", "--insert-p2p",
        "--check-spmd-types")  # fmt: skip
    assert ("unshard0" in scheduled.read_text()) == (case == "sharded-clip")
    at = ["--data", f"safetensors:{tmp_path / 'data.safetensors'}", "--ranks-as", "threads"]
    together = losses(cleave_run, staged, tmp_path, *at, "--microbatches", 2, "--ranks", 2)
    assert losses(cleave_run, scheduled, tmp_path, *at, "--ranks", 4) == together


def test_stages_come_before_what_joins_them(exported, build_dir, tmp_path):
    path, _ = exported("gpt_tied")
    for passes, message in [
        ([SYNC, BUCKETS, outline(2)], "gathers gradients in a bucket"),
        ([SYNC, CLIP, outline(2)], "outline stages before passes that join gradients"),
        ([outline(2), SYNC, BUCKETS, SYNC], "takes the bucket"),
        ([outline(2), SYNC, CLIP, CLIP], "already computes the norm of its gradients"),
        ([outline(2), SYNC, CLIP, SYNC], "which is divided over 'dp' already"),
        ([outline(2), SYNC, BUCKETS, CLIP, BUCKETS], "which is already in a bucket"),
        ([outline(2), SYNC, CLIP, SPLIT_FSDP], "already exists"),
        ([outline(2), outline(2)], "expected the whole program"),
    ]:
        result = subprocess.run(
            [build_dir / "bin" / "cleave-opt", path, *passes, "-o", tmp_path / "out.mlir"],
            capture_output=True, text=True)  # fmt: skip
        assert result.returncode == 1 and message in result.stderr, (passes, result.stderr[:2000])
