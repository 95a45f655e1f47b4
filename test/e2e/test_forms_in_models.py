"""Models whose layouts need forms: a sharded sequence, a sharded batch's statistics, experts."""

import collections
import re
import subprocess

import pytest
from cleave import ContextParallel, DataParallel, ExpertParallel, Plan

COLLECTIVES = re.compile(r"dist\.(all_reduce|all_gather|reduce_scatter|all_to_all|shift)\b")

# Ranks exchange keys and values, two for each of two layers, in the forward and again with their
# gradients in the backward, where these go a whole round.
RING = 2 * (2 + 2 + 4)

CASES = {
    # model, mesh, plan, whether sequence positions come first, collectives but reductions
    "gpt_context": ("gpt_untied", {"cp": 2}, {"": ContextParallel("cp")}, True, {"shift": RING}),
    "llama_context": ("llama", {"cp": 2}, {"": ContextParallel("cp")}, True, {"shift": RING}),
    # Rows in the order of examples are gathered: right all the same.
    "gpt_rows_gathered": ("gpt_untied", {"cp": 2}, {"": ContextParallel("cp")}, False, None),
    "resnet_batch": ("resnet18", {"dp": 2}, {"": DataParallel("dp")}, False, {"all_gather": 20}),
    # Of each layer: slots and their gradients reduced and scattered to experts, both gathered back,
    # and the counts that give tokens their slots.
    "moe_experts": (
        "moe",
        {"ep": 2},
        {"": DataParallel("ep"), "h.*.experts": ExpertParallel("ep")},
        False,
        {"all_gather": 6, "reduce_scatter": 4},
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_models_compute_what_they_do_on_one_device(
    name, program, example, build_dir, cleave_run, tmp_path
):
    model, mesh, plan, sequence_major, collectives = CASES[name]
    spec, path = program(model)
    Plan(mesh, plan).write(tmp_path / "plan.json")
    local = tmp_path / f"{path.stem}.mlir"
    local.with_suffix(".safetensors").symlink_to(path.with_suffix(".safetensors"))
    subprocess.run(
        [
            build_dir / "bin" / "cleave-opt",
            path,
            *(["--sequence-major"] if sequence_major else []),
            f"--annotate-placements=plan={tmp_path / 'plan.json'}",
            "--propagate-placements",
            "--partition",
            "--check-spmd-types",
            "-o",
            local,
        ],
        check=True,
    )
    found = collections.Counter(COLLECTIVES.findall(local.read_text()))
    found.pop("all_reduce", None)
    assert found if collectives is None else found == collectives
    arguments = ("--ranks", 2, "--ranks-as", "threads", "--inputs", example(spec))
    # Batch norms over few positions multiply rounding.
    tolerance = 1e-5 if model == "resnet18" else 3e-6
    cleave_run.succeed(local, *arguments, "--against", path, "--tolerance", tolerance)
    dump = tmp_path / "dump.safetensors"
    cleave_run.succeed(local, *arguments, "--check", "replicated", "--dump", dump)
