"""Programs laid out on a mesh by placements alone compute what they compute on one device.

`--annotate-placements --propagate-placements --partition`, then evaluated and trained on several
ranks against the program that was exported. Tolerances are those of docs/design.md.
"""

import re
import subprocess

import placement_cases
import pytest
from cleave import ColwiseParallel, DataParallel, FSDP, Plan, RowwiseParallel, SequenceParallel
from training import ENVIRONMENT, losses, random_batches, save_batches, train

GPT = {
    "h.*.attn.c_attn": ColwiseParallel(),
    "h.*.attn.c_proj": RowwiseParallel(),
    "h.*.mlp.c_fc": ColwiseParallel(),
    "h.*.mlp.c_proj": RowwiseParallel(),
}
LLAMA = {
    "model.model.layers.*.self_attn.{q,k,v}_proj": ColwiseParallel(),
    "model.model.layers.*.self_attn.o_proj": RowwiseParallel(),
    "model.model.layers.*.mlp.{gate,up}_proj": ColwiseParallel(),
    "model.model.layers.*.mlp.down_proj": RowwiseParallel(),
}
TENSOR = {"gpt_untied": GPT, "gpt_dropout": GPT, "llama": LLAMA}

LAYOUTS = {
    "dp2": ({"dp": 2}, lambda model: {"": DataParallel()}),
    "tp2": ({"tp": 2}, lambda model: TENSOR[model]),
    "sp2": ({"tp": 2}, lambda model: {**TENSOR[model], "h.*.ln_*": SequenceParallel()}),
    "dp2_tp2": ({"dp": 2, "tp": 2}, lambda model: {**TENSOR[model], "": DataParallel()}),
    "fsdp2": ({"fsdp": 2}, lambda model: {"": FSDP("fsdp")}),
}


@pytest.fixture(scope="module")
def layout(build_dir, model):
    """The local program of a model in a layout, made once."""
    made = {}

    def get(name, layout_name, options="", partitioned=True):
        key = name, layout_name, options, partitioned
        if key not in made:
            subject = model(name)
            mesh, plan = LAYOUTS[layout_name]
            stem = subject.program.with_name(f"{name}.{layout_name}{len(made)}")
            Plan(mesh, plan(name)).write(f"{stem}.json")
            local = stem.with_name(stem.name + ".local.mlir")
            subprocess.run(
                [build_dir / "bin" / "cleave-opt", subject.program,
                 f"--annotate-placements=plan={stem}.json", "--propagate-placements",
                 *([f"--partition={options}"] if partitioned else []),
                 "--mlir-print-debuginfo", "-o", local],
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
    """How often each communication stands in the forward and in the backward of a function."""
    text = program.read_text()
    body = text[text.index(f"func.func @{function}(") :]
    body = body[: body.index("\n  }")]
    counts = {"forward": {}, "backward": {}}
    for line in body.splitlines():
        if found := re.search(r"= dist\.(all_\w+|reduce_\w+)", line):
            part = counts["backward" if "train.backward" in line else "forward"]
            part[found[1]] = part.get(found[1], 0) + 1
    return counts


def parameters(program):
    return len(set(re.findall(r'role<gradient "([^"]+)"', program.read_text())))


def test_megatron_reduces_twice_a_block_and_way(layout):
    subject, local, _ = layout("llama", "tp2")
    blocks = 2
    assert collectives(local, "microbatch") == {
        "forward": {"all_reduce": 2 * blocks},
        "backward": {"all_reduce": 2 * blocks},
    }
    assert collectives(local, "update") == {"forward": {}, "backward": {}}


def test_data_parallelism_reduces_each_gradient_once_a_step(layout):
    subject, local, _ = layout("llama", "dp2")
    # How many targets count is a sum over all ranks.
    assert collectives(local, "microbatch") == {"forward": {"all_reduce": 1}, "backward": {}}
    assert collectives(local, "update")["forward"] == {"all_reduce": parameters(local)}


def test_fsdp_gathers_each_parameter_once_a_use_and_scatters_each_gradient_once(layout):
    subject, local, _ = layout("llama", "fsdp2")
    counts, count = collectives(local, "microbatch"), parameters(local)

    def scattered(counts):
        # What is scattered where the gradient is accumulated bears no mark of the backward.
        return sum(part.pop("reduce_scatter", 0) for part in counts.values())

    assert scattered(counts) == count
    assert counts["forward"] == {"all_gather": count, "all_reduce": 1}
    # Not all parameters have a use in the backward.
    assert list(counts["backward"]) == ["all_gather"] and counts["backward"]["all_gather"] < count
    assert collectives(local, "update") == {"forward": {}, "backward": {}}
    _, kept, _ = layout("llama", "fsdp2", "fsdp-reshard=false")
    kept_counts = collectives(kept, "microbatch")
    assert scattered(kept_counts) == count
    assert kept_counts == {"forward": counts["forward"], "backward": {}}


def test_sequence_parallelism_gathers_and_scatters_twice_a_block_and_way(
    build_dir, model, tmp_path
):
    """Two blocks, each with two gathers and two scatters a way; the embedding's sum is scattered
    and the head's input gathered, and their gradients the other way. The softmax over the sharded
    vocabulary reduces maximum, sum and the targets' logits; each of the five norms' gradients is
    reduced once per step."""
    plan = placement_cases.plan("llama", "tp2, sequence").write(tmp_path / "plan.json")
    local, parted = tmp_path / "local.mlir", tmp_path / "parted.mlir"
    opt = build_dir / "bin" / "cleave-opt"
    subprocess.run(
        [opt, model("llama").program, f"--annotate-placements=plan={plan}", "--propagate-placements",
         "--partition", "--mlir-print-debuginfo", "-o", local],
        check=True, env=ENVIRONMENT, timeout=120,
    )  # fmt: skip
    once = {"all_gather": 2 * 2 + 1, "reduce_scatter": 2 * 2 + 1}
    assert collectives(local, "microbatch") == {
        "forward": {**once, "all_reduce": 3},
        "backward": {**once, "all_reduce": 1},
    }
    assert collectives(local, "update")["forward"] == {"all_reduce": 5}
    # Where activations are saved sharded, the backward gathers them again: two more a block.
    subprocess.run(
        [opt, local, "--partition-joint=policy=min-cut recompute=all", "-o", parted],
        check=True, env=ENVIRONMENT, timeout=120,
    )  # fmt: skip
    assert collectives(parted, "forward")["forward"]["all_gather"] == 5
    gathers = collectives(parted, "backward")
    assert sum(part["all_gather"] for part in gathers.values()) == 5 + 5


@pytest.mark.parametrize(
    "name, layout_name",
    [(name, layout_name) for layout_name in LAYOUTS for name in ("gpt_untied", "llama")
     if (name, layout_name) != ("llama", "sp2")],
)  # fmt: skip
def test_evaluates_as_on_one_device(cleave_run, layout, example, name, layout_name):
    subject, local, ranks = layout(name, layout_name)
    cleave_run.succeed(
        local, "--against", subject.program, "--inputs", example(subject.spec), "--ranks", ranks,
        "--ranks-as", "threads", "--tolerance", 3e-6,
    )  # fmt: skip


@pytest.mark.parametrize(
    "name, layout_name",
    [("gpt_dropout", "dp2"), ("gpt_untied", "tp2"), ("gpt_dropout", "dp2_tp2"), ("llama", "fsdp2"),
     ("gpt_untied", "sp2")],
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


def test_what_types_call_equal_is_equal(cleave_run, layout, example, tmp_path):
    subject, local, ranks = layout("gpt_untied", "dp2_tp2")
    cleave_run.succeed(
        local, "--inputs", example(subject.spec), "--dump", tmp_path / "out.safetensors", "--ranks",
        ranks, "--ranks-as", "threads", "--check", "replicated",
    )  # fmt: skip


def test_a_placed_program_is_one_for_one_device(cleave_run, layout, example):
    subject, placed, _ = layout("gpt_untied", "dp2_tp2", partitioned=False)
    cleave_run.succeed(placed, "--against", subject.program, "--inputs", example(subject.spec))
