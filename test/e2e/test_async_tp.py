"""A tensor-parallel block on a sharded sequence, before and after --async-tp."""

import subprocess

import pytest
import torch
from combinations_cover import covered

BATCH, TIME, WIDTH, HIDDEN = 2, 64, 16, 32

PROGRAM = """
#S0 = #dist.on<@mesh, tp = S(0)>
#S1 = #dist.on<@mesh, tp = S(1)>
#R = #dist.on<@mesh, tp = R>
#P = #dist.on<@mesh, tp = P>
module {{
  dist.mesh @mesh ["tp" = {ranks}]
  func.func @microbatch(
      %x: tensor<{b}x{part}x{c}x{type}, #S1> {{train.role = #train.role<input "x">}},
      %w: tensor<{c}x{h}x{type}, #S1> {{train.role = #train.role<input "w">}},
      %bias: tensor<{h}x{type}, #S0> {{train.role = #train.role<input "bias">}},
      %v: tensor<{h}x{c}x{type}, #S0> {{train.role = #train.role<input "v">}})
      -> (tensor<{rows}x{h}x{type}, #S1> {{train.role = #train.role<output "gathered">}},
          tensor<{rows}x{h}x{type}, #S1> {{train.role = #train.role<output "biased">}},
          tensor<{b}x{part}x{c}x{type}, #S1> {{train.role = #train.role<output "scattered">}},
          tensor<{b}x{t}x{c}x{type}, #R> {{train.role = #train.role<output "kept">}})
      attributes {{train.phase = #train.phase<microbatch>}} {{
    %g = dist.all_gather(%x) dim 1 over @mesh ["tp"]
        : tensor<{b}x{part}x{c}x{type}, #S1> -> tensor<{b}x{t}x{c}x{type}, #R>
    %rows = aten.view(%g, size = [{rows}, {c}])
        : (tensor<{b}x{t}x{c}x{type}, #R>) -> tensor<{rows}x{c}x{type}, #R>
    %0 = aten.mm(%rows, %w)
        : (tensor<{rows}x{c}x{type}, #R>, tensor<{c}x{h}x{type}, #S1>) -> tensor<{rows}x{h}x{type}, #S1>
    %1 = aten.addmm(%bias, %rows, %w)
        : (tensor<{h}x{type}, #S0>, tensor<{rows}x{c}x{type}, #R>, tensor<{c}x{h}x{type}, #S1>)
        -> tensor<{rows}x{h}x{type}, #S1>
    %2 = aten.mm(%0, %v)
        : (tensor<{rows}x{h}x{type}, #S1>, tensor<{h}x{c}x{type}, #S0>) -> tensor<{rows}x{c}x{type}, #P>
    %3 = aten.view(%2, size = [{b}, {t}, {c}])
        : (tensor<{rows}x{c}x{type}, #P>) -> tensor<{b}x{t}x{c}x{type}, #P>
    %4 = dist.reduce_scatter sum(%3) dim 1 over @mesh ["tp"]
        : tensor<{b}x{t}x{c}x{type}, #P> -> tensor<{b}x{part}x{c}x{type}, #S1>
    %5 = aten.mul_scalar(%g, other = 2.0) : (tensor<{b}x{t}x{c}x{type}, #R>) -> tensor<{b}x{t}x{c}x{type}, #R>
    return %0, %1, %4, %5 : tensor<{rows}x{h}x{type}, #S1>, tensor<{rows}x{h}x{type}, #S1>,
        tensor<{b}x{part}x{c}x{type}, #S1>, tensor<{b}x{t}x{c}x{type}, #R>
  }}
}}
"""


def write(ranks, dtype):
    def local(text):
        """Sharded dimensions are a rank's part."""
        return text.replace(f"x{HIDDEN}x{dtype}, #S1", f"x{HIDDEN // ranks}x{dtype}, #S1").replace(
            f"<{HIDDEN}x", f"<{HIDDEN // ranks}x"
        )

    sizes = {"b": BATCH, "t": TIME, "c": WIDTH, "h": HIDDEN, "rows": BATCH * TIME}
    return local(PROGRAM.format(ranks=ranks, part=TIME // ranks, type=dtype, **sizes))


@covered(
    {
        "ranks,options": [(2, ""), (2, "chunks=2"), (4, ""), (4, "chunks=2")],
        "dtype,tolerance": [(torch.float64, 1e-10), (torch.float32, 1e-5)],
    },
    strength=1,
)  # fmt: skip
def test_rings_compute_what_the_collectives_do(
    ranks, options, dtype, tolerance, build_dir, cleave_run, tmp_path
):
    name = {torch.float64: "f64", torch.float32: "f32"}[dtype]
    before, after = tmp_path / "before.mlir", tmp_path / "after.mlir"
    before.write_text(write(ranks, name))
    subprocess.run(
        [
            build_dir / "bin" / "cleave-opt",
            before,
            f"--async-tp=min-mb=0 {options}",
            "--check-spmd-types",
            "-o",
            after,
        ],
        check=True,
    )
    text = after.read_text()
    pieces = 2 if options else 1
    assert text.count("dist.shift") == 2 * (ranks - 1) * pieces
    assert text.count("all_gather") == 1 and "reduce_scatter" not in text

    generator = torch.Generator().manual_seed(ranks)
    shapes = {
        "x": (BATCH, TIME, WIDTH),
        "w": (WIDTH, HIDDEN),
        "bias": (HIDDEN,),
        "v": (HIDDEN, WIDTH),
    }
    inputs = {n: torch.randn(s, generator=generator).to(dtype) for n, s in shapes.items()}
    arguments = (inputs, tmp_path, "--ranks", ranks, "--ranks-as", "threads")
    expected = cleave_run.evaluate(before, *arguments)
    found = cleave_run.evaluate(after, *arguments)
    # Gathered rows are multiplied as they were; only sums are in another order.
    for output in ("gathered", "biased", "kept"):
        assert torch.equal(found[f"output.{output}"], expected[f"output.{output}"])
    scattered = expected["output.scattered"]
    error = (found["output.scattered"] - scattered).abs().max() / scattered.abs().max()
    assert error <= tolerance
    whole = (inputs["x"].reshape(-1, WIDTH) @ inputs["w"]) @ inputs["v"]
    assert (scattered.reshape(-1, WIDTH) - whole).abs().max() <= tolerance * whole.abs().max()
