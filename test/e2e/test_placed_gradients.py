"""--autodiff of partitioned programs: every rule's gradients on two ranks are those of one device.

All ops with a derivative, exported as one forward-only program (`autodiff_cases`), whose parameters are placed
at random, are laid out, made local and then differentiated.
"""

import random
import re
import subprocess

import autodiff_cases
import cleave
import pytest
import torch
from safetensors.torch import save_file
from test_autodiff import AllCases

# Ranks draw nothing here, and batch statistics over a shard are a form of their own.
CASES = autodiff_cases.CASES
PARAMETER = re.compile(
    r'^(\s*%\S+: tensor<((?:\d+x)*)f64> \{train\.role = #train\.role<parameter "[^"]*">)(\}.*)$'
)


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    """The program of all cases, its weights and its input."""
    folder = tmp_path_factory.mktemp("placed_gradients")
    zero = torch.zeros((), dtype=torch.float64)
    spec = cleave.ExportSpec(AllCases(CASES), (zero,), mode="joint", gradients=False,
                             name="cases", batch_dims={"zero": None})  # fmt: skip
    program = cleave.export_spec(spec, folder)
    save_file({"zero": zero}, folder / "inputs.safetensors")
    return program


def place(text, seed):
    """A mesh of two ranks, and half of the parameters sharded in some even dimension."""
    generator = random.Random(seed)
    lines, sharded = [], 0
    for line in text.splitlines():
        match = PARAMETER.match(line)
        if match:
            sizes = [int(n) for n in match[2].split("x") if n]
            dims = [d for d, n in enumerate(sizes) if n % 2 == 0]
            if dims and generator.random() < 0.7:
                sharded += 1
                dim = generator.choice(dims)
                line = f"{match[1]}, dist.placement = #dist.on<@mesh, tp = S({dim})>{match[3]}"
        lines.append(line)
    assert sharded > 50
    text = "\n".join(lines) + "\n"
    return re.sub(r"^(module [^\n]*\{\n)", r'\1  dist.mesh @mesh ["tp" = 2]\n', text, flags=re.MULTILINE)


@pytest.mark.parametrize("seed", range(3))
def test_gradients_on_two_ranks_are_those_of_one(seed, exported, build_dir, cleave_run, tmp_path):
    placed, joint, local = (tmp_path / f"{name}.mlir" for name in ("placed", "joint", "local"))
    placed.write_text(place(exported.read_text(), seed))
    opt = build_dir / "bin" / "cleave-opt"
    subprocess.run([opt, exported, "--autodiff", "-o", joint], check=True)
    subprocess.run([opt, placed, "--propagate-placements", "--partition", "--autodiff", "-o", local],
                   check=True)  # fmt: skip
    assert "dist.all_reduce" in local.read_text()
    printed = cleave_run.succeed(
        local, "--against", joint, "--inputs", exported.parent / "inputs.safetensors", "--weights",
        exported.with_suffix(".safetensors"), "--ranks", 2, "--ranks-as", "threads",
        "--tolerance", 1e-10,
    )  # fmt: skip
    assert len(re.findall(r"^grad\.", printed, re.MULTILINE)) > 100
