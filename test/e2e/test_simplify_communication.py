"""--simplify-communication keeps what programs compute, and their gradients: each rewrite, run before
and after on four ranks."""

import re
import subprocess

import torch
from cleave_run import CleaveRun
from safetensors.torch import save_file

PLACEMENTS = {
    "R": "dp = R, tp = R",
    "I": "dp = R, tp = I",
    "P": "dp = R, tp = P",
    "V": "dp = R, tp = V",
    "S0": "dp = R, tp = S(0)",
    "S1": "dp = R, tp = S(1)",
    "PP": "dp = P, tp = P",
    "PR": "dp = P, tp = R",
    "XS": "dp = S(1, 0), tp = S(1, 1)",
    "WS": "dp = S(0, 0), tp = S(0, 1)",
}

# (what it shows, its body, the result's shape and type). %p and %q are 4x8 P over tp, %pp over both
# axes, %r is 4x8 R. The whole operands are the same on every mesh.
CASES = [
    ("all_gather of a slice", """
      %0 = dist.convert %r : tensor<4x8xf64, #R> -> tensor<2x8xf64, #S0>
      %1 = dist.all_gather(%0) dim 0 over @mesh ["tp"] : tensor<2x8xf64, #S0> -> tensor<4x8xf64, #I>""",
     "4x8", "I"),
    ("all_gather of a reduce_scatter", """
      %0 = dist.reduce_scatter sum(%p) dim 0 over @mesh ["tp"] : tensor<4x8xf64, #P> -> tensor<2x8xf64, #S0>
      %1 = dist.all_gather(%0) dim 0 over @mesh ["tp"] : tensor<2x8xf64, #S0> -> tensor<4x8xf64, #R>""",
     "4x8", "R"),
    ("all_to_all of its inverse", """
      %0 = dist.convert %r : tensor<4x8xf64, #R> -> tensor<2x8xf64, #S0>
      %2 = dist.all_to_all(%0) split 1 concat 0 over @mesh ["tp"] : tensor<2x8xf64, #S0> -> tensor<4x4xf64, #S1>
      %1 = dist.all_to_all(%2) split 0 concat 1 over @mesh ["tp"] : tensor<4x4xf64, #S1> -> tensor<2x8xf64, #S0>""",
     "2x8", "S0"),
    ("fake_gather of fake_scatter", """
      %i = dist.convert %r : tensor<4x8xf64, #R> -> tensor<4x8xf64, #I>
      %0 = dist.fake_scatter(%i) dim 1 over @mesh ["tp"] : tensor<4x8xf64, #I> -> tensor<4x4xf64, #S1>
      %1 = dist.fake_gather(%0) dim 1 over @mesh ["tp"] : tensor<4x4xf64, #S1> -> tensor<4x8xf64, #I>""",
     "4x8", "I"),
    ("pairs of conversions", """
      %0 = dist.convert %r : tensor<4x8xf64, #R> -> tensor<4x8xf64, #I>
      %2 = dist.convert %0 : tensor<4x8xf64, #I> -> tensor<2x8xf64, #S0>
      %3 = dist.convert %2 : tensor<2x8xf64, #S0> -> tensor<4x8xf64, #P>
      %4 = aten.mul_scalar(%3, other = 2.0) : (tensor<4x8xf64, #P>) -> tensor<4x8xf64, #P>
      %1 = dist.all_reduce sum(%4) over @mesh ["tp"] : tensor<4x8xf64, #P> -> tensor<4x8xf64, #R>""",
     "4x8", "R"),
    ("two reinterprets", """
      %0 = dist.reinterpret %r : tensor<4x8xf64, #R> -> tensor<4x8xf64, #V>
      %2 = dist.reinterpret %0 : tensor<4x8xf64, #V> -> tensor<4x8xf64, #P>
      %1 = dist.all_reduce sum(%2) over @mesh ["tp"] : tensor<4x8xf64, #P> -> tensor<4x8xf64, #R>""",
     "4x8", "R"),
    ("reduce_scatter and all_reduce of a padded slice", """
      %0 = dist.convert %r : tensor<4x8xf64, #R> -> tensor<2x8xf64, #S0>
      %m = aten.mul_scalar(%0, other = 3.0) : (tensor<2x8xf64, #S0>) -> tensor<2x8xf64, #S0>
      %2 = dist.convert %m : tensor<2x8xf64, #S0> -> tensor<4x8xf64, #P>
      %3 = dist.all_reduce sum(%2) over @mesh ["tp"] : tensor<4x8xf64, #P> -> tensor<4x8xf64, #R>
      %4 = dist.reduce_scatter sum(%2) dim 0 over @mesh ["tp"] : tensor<4x8xf64, #P> -> tensor<2x8xf64, #S0>
      %5 = dist.convert %3 : tensor<4x8xf64, #R> -> tensor<2x8xf64, #S0>
      %1 = aten.mul(%4, %5) : (tensor<2x8xf64, #S0>, tensor<2x8xf64, #S0>) -> tensor<2x8xf64, #S0>""",
     "2x8", "S0"),
    ("all_reduce over one axis and the other", """
      %0 = dist.all_reduce sum(%pp) over @mesh ["tp"] : tensor<4x8xf64, #PP> -> tensor<4x8xf64, #PR>
      %1 = dist.all_reduce sum(%0) over @mesh ["dp"] : tensor<4x8xf64, #PR> -> tensor<4x8xf64, #R>""",
     "4x8", "R"),
    ("maximum of a maximum", """
      %2 = dist.reinterpret %r : tensor<4x8xf64, #R> -> tensor<4x8xf64, #V>
      %3 = dist.all_reduce max(%2) over @mesh ["tp"] : tensor<4x8xf64, #V>
      %4 = dist.all_reduce max(%3) over @mesh ["tp"] : tensor<4x8xf64, #V>
      %1 = dist.reinterpret %4 : tensor<4x8xf64, #V> -> tensor<4x8xf64, #S0>""",
     "4x8", "S0"),
    ("slice of an all_reduce", """
      %0 = dist.all_reduce sum(%p) over @mesh ["tp"] : tensor<4x8xf64, #P> -> tensor<4x8xf64, #I>
      %1 = dist.convert %0 : tensor<4x8xf64, #I> -> tensor<4x4xf64, #S1>""",
     "4x4", "S1"),
    ("slice of an all_reduce over two axes", """
      %0 = dist.all_reduce sum(%pp) over @mesh ["dp", "tp"] : tensor<4x8xf64, #PP> -> tensor<4x8xf64, #R>
      %1 = dist.convert %0 : tensor<4x8xf64, #R> -> tensor<2x8xf64, #S0>""",
     "2x8", "S0"),
    ("sum of two all_reduces", """
      %0 = dist.all_reduce sum(%p) over @mesh ["tp"] : tensor<4x8xf64, #P> -> tensor<4x8xf64, #R>
      %2 = dist.all_reduce sum(%q) over @mesh ["tp"] : tensor<4x8xf64, #P> -> tensor<4x8xf64, #R>
      %3 = aten.mul(%0, %r) : (tensor<4x8xf64, #R>, tensor<4x8xf64, #R>) -> tensor<4x8xf64, #R>
      %1 = aten.sub(%3, %2) : (tensor<4x8xf64, #R>, tensor<4x8xf64, #R>) -> tensor<4x8xf64, #R>""",
     "4x8", "R"),
    ("all_reduce through a view, a product and a sum", """
      %0 = dist.all_reduce sum(%p) over @mesh ["tp"] : tensor<4x8xf64, #P> -> tensor<4x8xf64, #R>
      %2 = aten.t(%0) : (tensor<4x8xf64, #R>) -> tensor<8x4xf64, #R>
      %3 = aten.mm(%r, %2) : (tensor<4x8xf64, #R>, tensor<8x4xf64, #R>) -> tensor<4x4xf64, #R>
      %1 = aten.sum_dim_int_list(%3, dim = [0], keepdim = false) : (tensor<4x4xf64, #R>) -> tensor<4xf64, #R>""",
     "4", "R"),
]  # fmt: skip


PARTIALS = """
      %p = aten.mm(%x, %w) : (tensor<4x4xf64, #S1>, tensor<4x8xf64, #S0>) -> tensor<4x8xf64, #P>
      %pp = aten.mm(%y, %v) : (tensor<4x2xf64, #XS>, tensor<2x8xf64, #WS>) -> tensor<4x8xf64, #PP>
      %q = aten.mul_scalar(%p, other = 0.5) : (tensor<4x8xf64, #P>) -> tensor<4x8xf64, #P>"""


def make_program(with_loss):
    """All cases in one program: each a result, or all in one loss, the sum of their squares."""
    lines = [f"#{name} = #dist.on<@mesh, {text}>" for name, text in PLACEMENTS.items()]
    lines.append('dist.mesh @mesh ["dp" = 2, "tp" = 2]')
    types = [f"tensor<{shape}xf64, #{placement}>" for _, _, shape, placement in CASES]
    results = [f'{t} {{train.role = #train.role<output "{i}">}}' for i, t in enumerate(types)]
    if with_loss:
        results = ["tensor<f64, #PP> {train.role = #train.role<loss>}"]
    lines.append(
        f"""func.func @microbatch(
        %x: tensor<4x4xf64, #S1> {{train.role = #train.role<input "x">}},
        %w: tensor<4x8xf64, #S0> {{train.role = #train.role<input "w">}},
        %y: tensor<4x2xf64, #XS> {{train.role = #train.role<input "y">}},
        %v: tensor<2x8xf64, #WS> {{train.role = #train.role<input "v">}},
        %r: tensor<4x8xf64, #R> {{train.role = #train.role<input "r">}})
        -> ({", ".join(results)}) attributes {{train.phase = #train.phase<microbatch>}} {{"""
    )
    for i, (name, body, _, _) in enumerate(CASES):
        lines.append(f"// {name}")
        lines.append(re.sub(r"%(\w+)", lambda m: rename(m[1], i), PARTIALS + body))
    if with_loss:
        lines += make_loss(types)
    else:
        values = ", ".join(rename("1", i) for i in range(len(CASES)))
        lines.append(f"return {values} : {', '.join(types)}")
    return "\n".join(lines) + "\n}\n"


def make_loss(types):
    """The sum of the squares of all results, P over both axes."""
    lines = []
    for i, (type, (_, _, _, placement)) in enumerate(zip(types, CASES)):
        value, total = rename("1", i), f"%total{i}"
        scalar = placement if placement in "RI" else "P"
        lines.append(f"%square{i} = aten.mul({value}, {value}) : ({type}, {type}) -> {type}")
        lines.append(f"%sum{i} = aten.sum(%square{i}) : ({type}) -> tensor<f64, #{scalar}>")
        term = f"%sum{i}"
        if scalar != "P":
            lines.append(f"%term{i} = dist.convert {term} : tensor<f64, #{scalar}> -> tensor<f64, #P>")
            term = f"%term{i}"
        lines.append(f"%part{i} = dist.convert {term} : tensor<f64, #P> -> tensor<f64, #PP>")
        if i == 0:
            lines.append(f"{total} = aten.mul_scalar(%part{i}, other = 1.0) : (tensor<f64, #PP>) -> tensor<f64, #PP>")
        else:
            lines.append(
                f"{total} = aten.add(%total{i - 1}, %part{i}) : (tensor<f64, #PP>, tensor<f64, #PP>) -> tensor<f64, #PP>"
            )
    lines.append(f"return %total{len(types) - 1} : tensor<f64, #PP>")
    return lines


def rename(value, case):
    """A case's values are its own; the arguments are everybody's."""
    return f"%{value}" if value in "xwyvr" else f"%c{value}_{case}"


def count_communication(program):
    """Communications in a program's text, by op."""
    ops = re.findall(r"dist\.(all_\w+|reduce_scatter|fake_gather)\b", program)
    return {op: ops.count(op) for op in sorted(set(ops))}


def compare(build_dir, before, after, names):
    """Both programs give the same on four ranks; every one of `names` is compared."""
    generator = torch.Generator().manual_seed(20261121)
    shapes = {"x": (4, 8), "w": (8, 8), "y": (4, 8), "v": (8, 8), "r": (4, 8)}
    inputs = {
        name: torch.randn(shape, generator=generator, dtype=torch.float64)
        for name, shape in shapes.items()
    }
    path = before.with_suffix(".safetensors")
    save_file(inputs, path)
    output = CleaveRun(build_dir).succeed(
        before, "--against", after, "--inputs", path,
        "--ranks", 4, "--ranks-as", "threads", "--tolerance", 1e-13,
    )  # fmt: skip
    for name in names:
        assert name in output


def optimize(build_dir, program, *passes):
    result = program.with_stem(f"after_{len(passes)}_{program.stem}")
    subprocess.run(
        [build_dir / "bin" / "cleave-opt", program, *passes, "-o", result], check=True
    )
    return result


def test_programs_compute_the_same(build_dir, tmp_path):
    before = tmp_path / "program.mlir"
    before.write_text(make_program(with_loss=False))
    after = optimize(build_dir, before, "--simplify-communication")
    assert count_communication(before.read_text()) == {
        "all_gather": 2, "all_reduce": 12, "all_to_all": 2, "fake_gather": 1, "reduce_scatter": 2,
    }  # fmt: skip
    assert count_communication(after.read_text()) == {"all_reduce": 8, "reduce_scatter": 2}
    compare(build_dir, before, after, [f"output.{i}" for i in range(len(CASES))])


def test_programs_have_the_same_gradients(build_dir, tmp_path):
    program = tmp_path / "loss.mlir"
    program.write_text(make_program(with_loss=True))
    autodiff = "--autodiff=inputs=x,w,y,v,r"
    before = optimize(build_dir, program, autodiff)
    after = optimize(build_dir, program, "--simplify-communication", autodiff)
    assert before.read_text() != after.read_text()
    compare(build_dir, before, after, ["loss", *(f"grad.{name}" for name in "xwyvr")])
    # The backward is a program like any other.
    compare(build_dir, before, optimize(build_dir, before, "--simplify-communication"), ["grad.x"])
