"""Programs laid out on a mesh by placements alone compute what they compute on one device.

`--annotate-placements --propagate-placements --partition`, then evaluated and trained on several
ranks against the program that was exported. Tolerances are those of docs/design.md.
"""

import re
import subprocess

import pytest
from cleave import ColwiseParallel, DataParallel, FSDP, HSDP, Plan, RowwiseParallel, SequenceParallel
from training import ENVIRONMENT, losses, random_batches, save_batches, train

GPT = {
    "h.*.attn.c_attn": ColwiseParallel(),
    "h.*.attn.c_proj": RowwiseParallel(),
    "h.*.mlp.c_fc": ColwiseParallel(),
    "h.*.mlp.c_proj": RowwiseParallel(),
}
LLAMA = {
    "model.layers.*.self_attn.{q,k,v}_proj": ColwiseParallel(),
    "model.layers.*.self_attn.o_proj": RowwiseParallel(),
    "model.layers.*.mlp.{gate,up}_proj": ColwiseParallel(),
    "model.layers.*.mlp.down_proj": RowwiseParallel(),
}
TENSOR = {"gpt_untied": GPT, "gpt_dropout": GPT, "llama": LLAMA}
NORMS = {"gpt_untied": "h.*.ln_*", "gpt_dropout": "h.*.ln_*", "llama": "model.layers.*.*_layernorm"}

LAYOUTS = {
    "dp2": ({"dp": 2}, lambda model: {"": DataParallel()}),
    "tp2": ({"tp": 2}, lambda model: TENSOR[model]),
    "sp2": (
        {"tp": 2},
        lambda model: {**TENSOR[model], NORMS[model]: SequenceParallel()},
    ),
    "dp2_tp2": ({"dp": 2, "tp": 2}, lambda model: {**TENSOR[model], "": DataParallel()}),
    "fsdp2": ({"fsdp": 2}, lambda model: {"": FSDP("fsdp")}),
    "hsdp2x2": ({"dp": 2, "fsdp": 2}, lambda model: {"": HSDP("dp", "fsdp")}),
}


@pytest.fixture(scope="module")
def layout(build_dir, model):
    """The local program of a model in a layout, made once."""
    made = {}

    def get(name, layout_name, options=""):
        key = name, layout_name, options
        if key not in made:
            subject = model(name)
            mesh, plan = LAYOUTS[layout_name]
            stem = subject.program.with_name(f"{name}.{layout_name}{len(made)}")
            Plan(mesh, plan(name)).write(f"{stem}.json")
            local = stem.with_name(stem.name + ".local.mlir")
            subprocess.run(
                [build_dir / "bin" / "cleave-opt", subject.program,
                 f"--annotate-placements=plan={stem}.json", "--propagate-placements",
                 f"--partition={options}", "--mlir-print-debuginfo", "-o", local],
                check=True, env=ENVIRONMENT, timeout=120,
            )  # fmt: skip
            local.with_suffix(".safetensors").symlink_to(subject.weights)
            ranks = 1
            for size in mesh.values():
                ranks *= size
            made[key] = subject, local, ranks
        return made[key]

    return get


def collectives(program, function):
    """How often each communication stands in a function of the program."""
    text = program.read_text()
    body = text[text.index(f"func.func @{function}(") :]
    body = body[: body.index("\n  }")]
    counts = {}
    for name in re.findall(r"= dist\.(all_\w+|reduce_\w+)", body):
        counts[name] = counts.get(name, 0) + 1
    return counts


@pytest.mark.parametrize("layout_name", LAYOUTS)
@pytest.mark.parametrize("name", ["gpt_untied", "llama"])
def test_evaluates_as_on_one_device(cleave_run, layout, example, name, layout_name):
    subject, local, ranks = layout(name, layout_name)
    cleave_run.succeed(
        local, "--against", subject.program, "--inputs", example(subject.spec), "--ranks", ranks,
        "--ranks-as", "threads", "--tolerance", 1e-5,
    )  # fmt: skip


@pytest.mark.parametrize(
    "name, layout_name",
    [("gpt_dropout", "dp2"), ("gpt_untied", "tp2"), ("gpt_dropout", "dp2_tp2"), ("llama", "fsdp2"),
     ("gpt_untied", "sp2"), ("gpt_untied", "hsdp2x2")],
)  # fmt: skip
def test_trains_as_on_one_device(build_dir, tmp_path, layout, name, layout_name):
    subject, local, ranks = layout(name, layout_name)
    data = save_batches(
        subject.spec, random_batches(subject.spec, 20, 2, 11), tmp_path / "data.safetensors"
    )

    def run(program, *options):
        metrics = tmp_path / f"{program.stem}.jsonl"
        train(build_dir, program, "--steps", 20, "--microbatches", 2, "--seed", 3, "--threads", 1,
              "--data", f"safetensors:{data}", "--metrics", metrics, *options)  # fmt: skip
        return losses(metrics)

    expected = run(subject.program)
    found = run(local, "--ranks", ranks, "--ranks-as", "threads")
    assert len(found) == 20
    for step, (a, b) in enumerate(zip(found, expected)):
        assert abs(a - b) <= 1e-5 * abs(b), (step, a, b)


def test_what_types_call_equal_is_equal(cleave_run, layout, example):
    subject, local, ranks = layout("gpt_untied", "dp2_tp2")
    cleave_run.succeed(
        local, "--against", subject.program, "--inputs", example(subject.spec), "--ranks", ranks,
        "--ranks-as", "threads", "--tolerance", 1e-5, "--check", "replicated",
    )  # fmt: skip
