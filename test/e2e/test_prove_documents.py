"""Every pipeline of cleave-opt that the documents print is proved on an exported GPT, which is placed first where the document
neither places it nor divides its inputs: what it leaves, of one function or of stages by their schedule, is the step of one device."""

import json
import subprocess

import documented_proofs
import pytest
from documented_proofs import MODEL, RECIPES


@pytest.fixture(scope="module")
def forward_only(tmp_path_factory):
    return documented_proofs.export_forward(tmp_path_factory.mktemp("forward"))


def test_recipes_are_found():
    """Stages with schedules, halves of backwards, rings, and data parallelism by roles are among them."""
    options = " ".join(option for recipe in RECIPES.values() for option in recipe.options)
    for name in ("build-schedule", "split-backward", "split-fsdp-collectives", "sequence-major", "autodiff", "sync-gradients", "scale-loss"):
        assert f"--{name}" in options


@pytest.mark.parametrize("where", RECIPES)
def test_documented_pipeline(build_dir, model, forward_only, tmp_path, where):
    program = forward_only if documented_proofs.starts_forward(where) else model(MODEL).program
    whole, part = documented_proofs.make_programs(build_dir, where, program, tmp_path)
    answer = subprocess.run(
        [build_dir / "bin" / "cleave-prove", whole, part, "--json", "--execute=false"],
        capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert answer.returncode == 0, (answer.stderr, answer.stdout[:2000])
    assert json.loads(answer.stdout)["results"] > 80
