"""Placements that `--propagate-placements=solve` chooses by itself: executed, they compute what one rank computes, and
by the cost model that chose them they are never more expensive than the plans that users write."""

import dataclasses
import re
import subprocess

import float64
import placement_cases as cases
import pytest
import torch
from cleave import testing
from combinations_cover import part_of_today, run_all
from placement_table import ENVIRONMENT, read_comparison
from safetensors.torch import save_file

import cleave

RANKS = {"x=2": 2, "x=4": 4, "x=2,y=2": 4}


def mlp():
    torch.manual_seed(0)
    module = torch.nn.Sequential(
        torch.nn.Linear(16, 64), torch.nn.GELU(), torch.nn.LayerNorm(64), torch.nn.Linear(64, 8)
    )
    return cleave.ExportSpec(
        module, (torch.randn(4, 16),), loss=torch.nn.functional.mse_loss, targets=(torch.randn(4, 8),), name="mlp",
        optimizer=torch.optim.AdamW(module.parameters(), lr=1e-3),
    )  # fmt: skip


@dataclasses.dataclass
class Program:
    file: object
    inputs: object


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    known = {}

    def export(model):
        if model not in known:
            folder = tmp_path_factory.mktemp(model)
            spec = float64.doubled(mlp() if model == "mlp" else cases.spec(model, 4))
            file = float64.export(spec, folder)
            save_file(testing.example_inputs(spec), folder / "inputs.safetensors")
            known[model] = Program(file, folder / "inputs.safetensors")
        return known[model]

    return export


def run(build_dir, tool, *arguments):
    return subprocess.run(
        [build_dir / "bin" / tool, *map(str, arguments)], capture_output=True, text=True, timeout=300, env=ENVIRONMENT
    )


def solve(build_dir, source, options, *more):
    """Seconds of a step, and the bound."""
    result = run(build_dir, "cleave-opt", source, f"--propagate-placements=solve {options}", *more)
    assert result.returncode == 0, result.stderr
    units = {"s": 1, "ms": 1e-3, "us": 1e-6}
    found = re.findall(r"(?:step costs|costs less than) ([\d.]+) (\w+)", result.stderr)
    cost, bound = (float(number) * units[unit] for number, unit in found)
    return cost, bound


def compare(build_dir, local, whole, ranks):
    local.with_suffix(".safetensors").symlink_to(whole.file.with_suffix(".safetensors"))
    compared = run(
        build_dir, "cleave-run", local, "--against", whole.file, "--inputs", whole.inputs, "--tolerance", 1e-9,
        "--ranks", ranks, "--ranks-as", "threads", "--threads", 1, "--timeout", 60,
    )  # fmt: skip
    assert compared.returncode == 0, compared.stdout + compared.stderr
    differences = read_comparison(compared.stdout)
    assert "loss" in differences and sum(name.startswith("grad.") for name in differences) >= 6


def executed():
    """All pairs of the table of placements: what is chosen depends on the sizes of a mesh, not on what its axes are called."""
    sizes = {",".join(f"{axis}={size}" for axis, size in zip("xy", mesh.values())) for mesh, _ in cases.MESHES.values()}
    assert sizes - {"x=3"} == RANKS.keys()  # 3 divides few dimensions, and shards of different sizes are not available here
    return part_of_today([(model, mesh) for model in ("mlp", *cases.MODELS) for mesh in RANKS])


@pytest.mark.parametrize("model, mesh", executed())
def test_chosen_placements_compute_the_same(build_dir, program, tmp_path, model, mesh):
    whole, local = program(model), tmp_path / "local.mlir"
    cost, bound = solve(build_dir, whole.file, f"mesh={mesh}", "--partition", "-o", local)
    assert 0 < bound <= cost < 1.01 * bound
    text = local.read_text()
    assert re.search(r"= S\(\d", text), "ranks divide the work"
    compare(build_dir, local, whole, RANKS[mesh])


def test_less_memory_costs_time(build_dir, program, tmp_path):
    """Up to the least that there is; below it, one error."""
    whole, local = program("gpt_tied"), tmp_path / "local.mlir"
    free, _ = solve(build_dir, whole.file, "mesh=x=2,y=2 memory=1e12", "-o", tmp_path / "free.mlir")
    cost, bound = solve(build_dir, whole.file, "mesh=x=2,y=2 memory=9e5", "--partition", "-o", local)
    assert free <= cost < 1.02 * bound
    compare(build_dir, local, whole, 4)
    refused = run(build_dir, "cleave-opt", whole.file, "--propagate-placements=solve mesh=x=2,y=2 memory=5e5")
    assert refused.returncode != 0 and refused.stderr.count("error: no placement fits into 488.3 KiB per rank") == 1
    enough = re.search(r"; (\d+) bytes \([\d.]+ KiB\) are enough", refused.stderr)[1]
    least, _ = solve(build_dir, whole.file, f"mesh=x=2,y=2 memory={enough}", "-o", tmp_path / "least.mlir")
    assert cost <= least


def written_plans():
    """All of the table of placements with `./dev test --all`, else each model and each mesh."""
    if run_all():
        return [
            (model, mesh)
            for model in cases.MODELS
            for mesh in cases.MESHES
            if "uneven" not in mesh and not cases.refusal(model, mesh)
        ]
    chosen = [("gpt_tied", mesh) for mesh in ("dp2", "tp2", "fsdp2", "dp2 x tp2", "hsdp 2 x 2", "tp2, sequence")]
    chosen += [("gpt_untied", "tp4"), ("gpt_dropout", "dp4"), ("gpt_philox", "fsdp2 x tp2"), ("moe", "ep2")]
    chosen += [("gpt_checkpointed", "fsdp4"), ("gpt2", "dp2 x tp2"), ("llama", "cp2"), ("llama", "fsdp2 x tp2")]
    return chosen + [("minilm", "tp2, sequence"), ("resnet18", "dp2")]


@pytest.mark.parametrize("model, mesh", part_of_today(written_plans()))
def test_no_written_plan_is_cheaper(build_dir, program, tmp_path, model, mesh):
    whole, placed = program(model), tmp_path / "placed.mlir"
    plan = cases.plan(model, mesh).write(tmp_path / "plan.json")
    done = run(
        build_dir, "cleave-opt", whole.file, "--mlir-print-debuginfo", f"--annotate-placements=plan={plan}",
        "--propagate-placements", "-o", placed,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    written, _ = solve(build_dir, placed, "", "--mlir-print-debuginfo", "-o", tmp_path / "again.mlir")
    sizes = ",".join(f"{name}={size}" for name, size in cases.MESHES[mesh][0].items())
    chosen, bound = solve(build_dir, whole.file, f"mesh={sizes}", "-o", tmp_path / "chosen.mlir")
    assert bound <= chosen <= written
    # A placed program leaves nothing open.
    assert (tmp_path / "again.mlir").read_text() == placed.read_text()
