"""--overlap-communication changes when communications start, not what they give."""

import random
import subprocess

import pytest
import torch
from combinations_cover import seed
from safetensors.torch import save_file
from training import run

ROLE = "train.role = #train.role"


def on(shape, placement):
    return f"tensor<{shape}xf32, #dist.on<@mesh, dp = {placement}>>"


def random_program(generator, length):
    """Straight-line code of compute and collectives over replicated 8x4 tensors."""
    lines, values = [], ["%w", "%x"]
    whole, partial, shard = on("8x4", "R"), on("8x4", "P"), on("4x4", "S(0)")
    varying = on("8x4", "V")
    over = 'over @mesh ["dp"]'
    for i in range(length):
        a, b = (generator.choice(values[-6:]) for _ in range(2))
        kind = generator.choice(["add", "cos", "sum", "max", "gather", "scatter", "shard"])
        if kind == "add":
            lines.append(f"%m{i} = aten.add({a}, {b}) : ({whole}, {whole}) -> {whole}")
        elif kind == "cos":
            lines.append(f"%m{i} = aten.cos({a}) : ({whole}) -> {whole}")
        elif kind == "sum":
            lines.append(f"%p{i} = dist.reinterpret {a} : {whole} -> {partial}")
            lines.append(f"%m{i} = dist.all_reduce sum(%p{i}) {over} : {partial} -> {whole}")
        elif kind == "max":
            lines.append(f"%p{i} = dist.reinterpret {a} : {whole} -> {varying}")
            lines.append(f"%m{i} = dist.all_reduce max(%p{i}) {over} : {varying} -> {whole}")
        elif kind == "shard":
            lines.append(f"%m{i} = dist.all_gather(%s) dim 0 {over} : {shard} -> {whole}")
        elif kind == "gather":
            lines.append(f"%p{i} = dist.convert {a} : {whole} -> {shard}")
            lines.append(f"%m{i} = dist.all_gather(%p{i}) dim 0 {over} : {shard} -> {whole}")
        else:
            lines.append(f"%p{i} = dist.reinterpret {a} : {whole} -> {partial}")
            lines.append(f"%r{i} = dist.reduce_scatter sum(%p{i}) dim 0 {over} : {partial} -> {shard}")
            lines.append(f"%m{i} = dist.all_gather(%r{i}) dim 0 {over} : {shard} -> {whole}")
        # Used a while later, and bounded, whatever is summed.
        if i >= 3:
            lines.append(f"%v{i - 3} = aten.sin(%m{i - 3}) : ({whole}) -> {whole}")
            values.append(f"%v{i - 3}")
    body = "\n    ".join(lines)
    outputs = values[-3:]
    results = ", ".join(f'{whole} {{{ROLE}<output "{n}">}}' for n in range(3))
    return f"""
module @overlap {{
  dist.mesh @mesh ["dp" = 2]
  func.func @microbatch(%w: {whole} {{{ROLE}<parameter "w">}}, %s: {shard} {{{ROLE}<parameter "s">}},
      %x: {whole} {{{ROLE}<input "x">}})
      -> ({results}) attributes {{train.phase = #train.phase<microbatch>}} {{
    {body}
    return {", ".join(outputs)} : {whole}, {whole}, {whole}
  }}
}}
"""


@pytest.mark.parametrize("ahead", ["false", "true"])
@pytest.mark.parametrize("bound", ["256", "0.0002"])
def test_overlapped_programs_compute_the_same(build_dir, tmp_path, bound, ahead):
    generator = random.Random(seed())
    torch.manual_seed(seed())
    program, overlapped = tmp_path / "a.mlir", tmp_path / "b.mlir"
    program.write_text(random_program(generator, 120))
    subprocess.run(
        [build_dir / "bin" / "cleave-opt", program, "-o", overlapped,
         f"--overlap-communication=max-in-flight-mb={bound} arguments-ahead={ahead}"],
        check=True,
    )  # fmt: skip
    assert overlapped.read_text().count("dist.wait") > 10
    save_file({"w": torch.randn(8, 4), "s": torch.randn(8, 4)}, tmp_path / "weights.safetensors")
    save_file({"x": torch.randn(8, 4)}, tmp_path / "inputs.safetensors")
    result = run(
        build_dir, overlapped, "--against", program, "--ranks", 2, "--ranks-as", "threads",
        "--weights", tmp_path / "weights.safetensors", "--inputs", tmp_path / "inputs.safetensors",
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    assert "3 of 3 values are bitwise equal" in result.stdout
