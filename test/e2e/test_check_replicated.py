"""--check replicated: what types call equal is equal, or the first op where it is not is named.

The program is data-parallel over two pairs of ranks and tensor-parallel within them. Faults are put
in with --inject-fault.
"""

import pytest
import torch
from combinations_cover import covered
from safetensors.torch import save_file

PROGRAM = """
!X = tensor<2x4xf32, #dist.on<@mesh, dp = S(0), tp = I>>
!XR = tensor<2x4xf32, #dist.on<@mesh, dp = S(0), tp = R>>
!W = tensor<4x3xf32, #dist.on<@mesh, dp = R, tp = S(1)>>
!V = tensor<3x5xf32, #dist.on<@mesh, dp = R, tp = S(0)>>
!H = tensor<2x3xf32, #dist.on<@mesh, dp = S(0), tp = S(1)>>
!P = tensor<2x5xf32, #dist.on<@mesh, dp = S(0), tp = P>>
!Y = tensor<2x5xf32, #dist.on<@mesh, dp = S(0), tp = I>>
!L = tensor<f32, #dist.on<@mesh, dp = P, tp = I>>
module @block {
  dist.mesh @mesh ["dp" = 2, "tp" = 2]
  func.func @microbatch(%x: !X {train.role = #train.role<input "x" batch 0>},
                        %w: !W {train.role = #train.role<parameter "w">},
                        %v: !V {train.role = #train.role<parameter "v">})
      -> (!L {train.role = #train.role<loss>}, !Y {train.role = #train.role<output "0">})
      attributes {train.phase = #train.phase<microbatch>} {
    %r = dist.convert %x : !X -> !XR loc("f")
    %h = aten.mm(%r, %w) : (!XR, !W) -> !H loc("up")
    %p = aten.mm(%h, %v) : (!H, !V) -> !P loc("down")
    %y = dist.all_reduce sum(%p) over @mesh ["tp"] : !P -> !Y loc("g")
    %l = aten.sum(%y) : (!Y) -> !L loc("loss")
    return %l, %y : !L, !Y
  }
}
"""


@pytest.fixture
def run(cleave_run, tmp_path):
    """Runs the program on four ranks with more options; the process that has ended."""
    torch.manual_seed(0)
    save_file({"w": torch.randn(4, 6), "v": torch.randn(6, 5)}, tmp_path / "block.safetensors")
    save_file({"x": torch.randn(4, 4)}, tmp_path / "in.safetensors")

    def run(*options, text=PROGRAM):
        (tmp_path / "block.mlir").write_text(text)
        return cleave_run(
            tmp_path / "block.mlir", "--inputs", tmp_path / "in.safetensors",
            "--ranks", 4, "--timeout", 20, *options, timeout=60,
        )  # fmt: skip

    return run


@pytest.mark.parametrize("kind", ["processes", "threads"])
def test_equal_values_pass(run, kind):
    checked = run("--check", "replicated", "--ranks-as", kind)
    assert checked.returncode == 0, checked.stderr
    assert checked.stdout == run().stdout


# Op, rank, what the message says. Ranks 2 and 3 are the second pair of data-parallel ones.
FAULTS = {
    "convert": (0, 1, 'op 0, dist.convert at f: result 0 is R along "tp", but ranks 0 and 1'),
    "all_reduce": (3, 2, 'op 3, dist.all_reduce at g: result 0 is I along "tp", but ranks 2 and 3'),
    "loss": (4, 3, 'op 4, aten.sum at loss: result 0 is I along "tp", but ranks 2 and 3'),
}


@covered({"name": list(FAULTS), "kind": ["processes", "threads"]}, strength=1)
def test_one_wrong_bit_is_found(run, name, kind):
    op, rank, expected = FAULTS[name]
    result = run("--check", "replicated", "--ranks-as", kind, "--inject-fault", f"rank={rank},op={op}")
    assert result.returncode == 1, result.stderr
    assert "--check replicated: microbatch, " + expected + " differ: " in result.stderr
    assert result.stderr.count("--check replicated") == 1
    # One element, with both values and their bits.
    where = "it is " if name == "loss" else "element [0, 0] is "
    assert where in result.stderr and "(1 of " in result.stderr and "(0x" in result.stderr


def test_a_fault_in_a_shard_is_no_difference(run):
    """The first product varies over the ranks: what is wrong in it is wrong on all of them alike."""
    result = run("--check", "replicated", "--inject-fault", "rank=1,op=1")
    assert result.returncode == 0, result.stderr


def test_options_that_do_not_fit(run):
    assert "--inject-fault is for --check replicated" in run("--inject-fault", "rank=0,op=0").stderr
    for text in ("rank=0", "op=1,rank=0", "rank=-1,op=0", "rank=x,op=0"):
        result = run("--check", "replicated", "--inject-fault", text)
        assert result.returncode == 1
        assert f"expected rank=R,op=N, found '{text}'" in result.stderr
    result = run("--check", "replicated", "--inject-fault", "rank=4,op=0")
    assert result.returncode == 1
    assert "there are 4 ranks and 5 ops" in result.stderr
    untyped = """
      module { dist.mesh @mesh ["dp" = 4]
        func.func @microbatch(%x: tensor<4x4xf32> {train.role = #train.role<input "x">})
            -> (tensor<4x4xf32> {train.role = #train.role<output "0">})
            attributes {train.phase = #train.phase<microbatch>} { return %x : tensor<4x4xf32> } }"""
    result = run("--check", "replicated", text=untyped)
    assert result.returncode == 1
    assert "expects a typed program" in result.stderr
