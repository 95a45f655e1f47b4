"""Buckets of exported programs start their reductions while most of the backward is still to run."""

import dataclasses
import json
import re
import subprocess

import cleave_run  # noqa: F401
import placement_cases
import pytest
import torch
from cleave import export_spec, overlap, testing
from combinations_cover import covered, seed
from safetensors.torch import save_file
from training import MODELS, random_batches, save_batches, train

BUCKETS = "--bucket-gradients=bucket-size-mb=0.02 first-bucket-mb=0.02"
SYNC = "--sync-gradients"

# What stands between the export and --bucket-gradients, and behind it.
FORMS = {
    "joint": ([SYNC], []),
    "cleaned": (["--cse", "--canonicalize", SYNC], []),
    "partitioned": ([SYNC, "--partition-joint"], []),
    "split": ([SYNC, "--partition-joint", "--split-backward"], []),
    "lowered": ([SYNC, "--partition-joint"], ["--fuse-kernels", "--lower-to-exec=target=cpu"]),
}
PRODUCT = re.compile(r"= (aten\.(mm|addmm|bmm|baddbmm|linear)\b|train\.contribute_mm\b)")


def shares(text):
    """By function: which part of its products of the backward stands behind its first bucket's
    start."""
    found = {}
    for function in re.split(r"\n  func\.func @", text)[1:]:
        products, start = [], None
        for number, line in enumerate(function.splitlines()):
            if PRODUCT.search(line) and "train.backward" in line:
                products.append(number)
            if "train.reduce_bucket" in line and start is None:
                start = number
        if start is not None:
            behind = sum(number > start for number in products)
            found[re.match(r"\w+", function)[0]] = behind / len(products)
    assert found
    return found


@pytest.fixture(scope="module")
def opt(build_dir):
    def run(program, output, *passes):
        result = subprocess.run(
            [build_dir / "bin" / "cleave-opt", program, *passes, "-o", output],
            capture_output=True, text=True,
        )  # fmt: skip
        assert result.returncode == 0, result.stderr
        return output

    return run


@covered({"name": ["gpt_untied", "llama"], "form": list(FORMS)}, strength=1)
def test_most_of_the_backward_stands_behind_the_first_start(name, form, model, opt, tmp_path):
    before, behind = FORMS[form]
    text = opt(model(name).program, tmp_path / "p.mlir", *before, BUCKETS, *behind).read_text()
    (share,) = shares(text).values()
    assert share >= 0.5


@pytest.mark.parametrize("name", ["gpt_untied", "llama"])
def test_each_stage_starts_early(name, model, opt, tmp_path):
    program = opt(model(name).program, tmp_path / "p.mlir", SYNC,
                  "--outline-stages=count=2 balance=cost", BUCKETS)  # fmt: skip
    found = shares(program.read_text())
    assert len(found) == 2 and min(found.values()) >= 0.4, found


@covered({"mesh": ["dp2", "dp2 x tp2"], "name": ["gpt_untied", "llama"]}, strength=1)
def test_a_program_with_placements_starts_early(name, mesh, model, opt, tmp_path):
    placement_cases.plan(name, mesh).write(tmp_path / "plan.json")
    program = opt(
        model(name).program, tmp_path / "p.mlir",
        f"--annotate-placements=plan={tmp_path / 'plan.json'}", "--propagate-placements",
        "--partition", "--partition-joint", BUCKETS, "--overlap-communication",
    )  # fmt: skip
    (share,) = shares(program.read_text()).values()
    assert share >= 0.5


def test_derived_gradients_are_reduced_early(opt, tmp_path):
    spec = dataclasses.replace(MODELS["gpt_untied"](), gradients=False)
    program = opt(export_spec(spec, tmp_path), tmp_path / "p.mlir", "--autodiff", SYNC, BUCKETS)
    (share,) = shares(program.read_text()).values()
    assert share >= 0.5


def test_the_update_takes_what_is_reduced_first(model, opt, tmp_path):
    """Steps of the first bucket's parameters run while the last bucket is reduced."""
    text = opt(model("gpt_untied").program, tmp_path / "p.mlir", SYNC, BUCKETS).read_text()
    update = text[text.index("func.func @update") :]
    order = re.findall(r"train\.(wait_bucket|adamw)", update)
    waits = [i for i, op in enumerate(order) if op == "wait_bucket"]
    assert len(waits) > 2 and all("adamw" in order[a:b] for a, b in zip(waits, waits[1:]))
    numbers = [int(n) for n in re.findall(r"!train\.bucket<@bucket(\d+)[^\n]*-> tensor", update)]
    assert numbers == sorted(numbers)


def test_computation_covers_reductions(build_dir, model, opt, tmp_path):
    subject = model("gpt_untied")
    program = opt(subject.program, tmp_path / "p.mlir", SYNC, BUCKETS)
    batches = random_batches(subject.spec, 3, 2, seed())
    data = save_batches(subject.spec, batches, tmp_path / "data.safetensors")
    trace = tmp_path / "trace.json"
    train(build_dir, program, "--weights", subject.weights, "--ranks", 2, "--steps", 3, "--threads",
          1, "--data", f"safetensors:{data}", "--trace", trace, "--trace-steps", 3)  # fmt: skip
    events = json.loads(trace.read_text())["traceEvents"]
    reductions = [e for e in events if e.get("cat") == "reduction"]
    buckets = len(re.findall(r"train\.bucket @", program.read_text()))
    assert len(reductions) == 2 * 3 * buckets
    found = overlap.measure(events)
    assert found.keys() == {0, 1}
    assert all(0 < rank.covered < rank.total for rank in found.values())


def test_sums_over_replicas_start_before_the_update_waits(build_dir, opt, tmp_path):
    """With hybrid sharding: when the shards have arrived, in the middle of the backward."""
    steps, spec = 3, placement_cases.spec("gpt_untied", placement_cases.BATCH)
    source = export_spec(spec, tmp_path)
    placement_cases.plan("gpt_untied", "hsdp 2 x 2").write(tmp_path / "plan.json")
    program = opt(
        source, tmp_path / "p.mlir", f"--annotate-placements=plan={tmp_path / 'plan.json'}",
        "--propagate-placements", "--partition", "--split-fsdp-collectives", BUCKETS,
    )  # fmt: skip
    batches = testing.random_batch(spec, steps, torch.Generator().manual_seed(seed()))
    save_file({name: t.contiguous() for name, t in batches.items()}, tmp_path / "data.safetensors")
    trace = tmp_path / "trace.json"
    train(build_dir, program, "--weights", source.with_suffix(".safetensors"), "--ranks", 4, "--ranks-as",
          "threads", "--steps", steps, "--threads", 1, "--data", f"safetensors:{tmp_path / 'data.safetensors'}",
          "--trace", trace, "--trace-steps", steps)  # fmt: skip
    events = json.loads(trace.read_text())["traceEvents"]
    buckets = len(re.findall(r"train\.bucket @", program.read_text()))
    early = 0
    for rank in range(4):
        mine = sorted((e for e in events if e.get("ph") == "X" and e["pid"] == rank), key=lambda e: e["ts"])
        waits = [e["ts"] for e in mine if e["name"] == "train.wait_bucket"]
        # The first bucket's shards, then their sum, step by step.
        sums = [e["ts"] for e in mine if e.get("cat") == "reduction" and e["name"] == "bucket0"][1::2]
        assert len(waits) == steps * buckets and len(sums) == steps
        early += sum(start < wait for start, wait in zip(sums, waits[::buckets]))
    assert early > 0
