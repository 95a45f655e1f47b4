"""Typed programs read and write whole tensors: each rank takes its part, dumps put them together.

A column- and row-parallel pair of matrix products on data-parallel ranks computes, trains and
resumes as the one-device program does on the same files.
"""

import re

import pytest
import torch
from safetensors.torch import load_file, save_file
from training import checkpoint_group

ONE_DEVICE = """
module @whole {
  func.func @microbatch(
      %x: tensor<BATCHx4xf32> {train.role = #train.role<input "x" batch 0>},
      %w: tensor<4xHIDDENxf32> {train.role = #train.role<parameter "w">},
      %v: tensor<HIDDENx2xf32> {train.role = #train.role<parameter "v">},
      %s: tensor<f32> {train.role = #train.role<seed>})
      -> (tensor<f32> {train.role = #train.role<loss>},
          tensor<BATCHx2xf32> {train.role = #train.role<output "0">},
          tensor<4xHIDDENxf32> {train.role = #train.role<gradient "w">},
          tensor<HIDDENx2xf32> {train.role = #train.role<gradient "v">})
      attributes {train.phase = #train.phase<microbatch>} {
    %h = aten.mm(%x, %w) : (tensor<BATCHx4xf32>, tensor<4xHIDDENxf32>) -> tensor<BATCHxHIDDENxf32>
    %y = aten.mm(%h, %v) : (tensor<BATCHxHIDDENxf32>, tensor<HIDDENx2xf32>) -> tensor<BATCHx2xf32>
    %l = aten.sum(%y) : (tensor<BATCHx2xf32>) -> tensor<f32>
    %dy = aten.expand(%s, size = [BATCH, 2]) : (tensor<f32>) -> tensor<BATCHx2xf32>
    %vt = aten.t(%v) : (tensor<HIDDENx2xf32>) -> tensor<2xHIDDENxf32>
    %ht = aten.t(%h) : (tensor<BATCHxHIDDENxf32>) -> tensor<HIDDENxBATCHxf32>
    %xt = aten.t(%x) : (tensor<BATCHx4xf32>) -> tensor<4xBATCHxf32>
    %dv = aten.mm(%ht, %dy) : (tensor<HIDDENxBATCHxf32>, tensor<BATCHx2xf32>) -> tensor<HIDDENx2xf32>
    %dh = aten.mm(%dy, %vt) : (tensor<BATCHx2xf32>, tensor<2xHIDDENxf32>) -> tensor<BATCHxHIDDENxf32>
    %dw = aten.mm(%xt, %dh) : (tensor<4xBATCHxf32>, tensor<BATCHxHIDDENxf32>) -> tensor<4xHIDDENxf32>
    return %l, %y, %dw, %dv : tensor<f32>, tensor<BATCHx2xf32>, tensor<4xHIDDENxf32>, tensor<HIDDENx2xf32>
  }
  func.func @update(
      %w: tensor<4xHIDDENxf32> {train.role = #train.role<parameter "w">},
      %v: tensor<HIDDENx2xf32> {train.role = #train.role<parameter "v">},
      %dw: tensor<4xHIDDENxf32> {train.role = #train.role<gradient "w">},
      %dv: tensor<HIDDENx2xf32> {train.role = #train.role<gradient "v">})
      -> (tensor<4xHIDDENxf32> {train.role = #train.role<parameter "w">},
          tensor<HIDDENx2xf32> {train.role = #train.role<parameter "v">})
      attributes {train.phase = #train.phase<update>} {
    %w1 = aten.sub(%w, %dw, alpha = 1.0e-02) : (tensor<4xHIDDENxf32>, tensor<4xHIDDENxf32>) -> tensor<4xHIDDENxf32>
    %v1 = aten.sub(%v, %dv, alpha = 1.0e-02) : (tensor<HIDDENx2xf32>, tensor<HIDDENx2xf32>) -> tensor<HIDDENx2xf32>
    return %w1, %v1 : tensor<4xHIDDENxf32>, tensor<HIDDENx2xf32>
  }
}
"""


def one_device(batch, hidden):
    """The program for one device, with this many examples and hidden features."""
    return ONE_DEVICE.replace("BATCH", str(batch)).replace("HIDDEN", str(hidden))


WHOLE = one_device(4, 6)

# The batch over dp, the hidden dimension over tp; gradients are terms of a sum over dp.
PARTS = """
!X = tensor<2x4xf32, #dist.on<@mesh, dp = S(0), tp = R>>
!XT = tensor<4x2xf32, #dist.on<@mesh, dp = S(1), tp = R>>
!W = tensor<4x3xf32, #dist.on<@mesh, dp = R, tp = S(1)>>
!WG = tensor<4x3xf32, #dist.on<@mesh, dp = P, tp = S(1)>>
!V = tensor<3x2xf32, #dist.on<@mesh, dp = R, tp = S(0)>>
!VT = tensor<2x3xf32, #dist.on<@mesh, dp = R, tp = S(1)>>
!VG = tensor<3x2xf32, #dist.on<@mesh, dp = P, tp = S(0)>>
!H = tensor<2x3xf32, #dist.on<@mesh, dp = S(0), tp = S(1)>>
!HT = tensor<3x2xf32, #dist.on<@mesh, dp = S(1), tp = S(0)>>
!YP = tensor<2x2xf32, #dist.on<@mesh, dp = S(0), tp = P>>
!Y = tensor<2x2xf32, #dist.on<@mesh, dp = S(0), tp = R>>
!L = tensor<f32, #dist.on<@mesh, dp = P, tp = R>>
!LI = tensor<f32, #dist.on<@mesh, dp = P, tp = I>>
!SI = tensor<f32, #dist.on<@mesh, dp = R, tp = I>>
!S = tensor<f32, #dist.on<@mesh, dp = R, tp = R>>
!D = tensor<4x2xf32, #dist.on<@mesh, dp = R, tp = R>>
module @parts {
  dist.mesh @mesh ["dp" = 2, "tp" = 2]
  func.func @microbatch(
      %x: !X {train.role = #train.role<input "x" batch 0>},
      %w: !W {train.role = #train.role<parameter "w">},
      %v: !V {train.role = #train.role<parameter "v">},
      %s: !SI {train.role = #train.role<seed>})
      -> (!LI {train.role = #train.role<loss>}, !Y {train.role = #train.role<output "0">},
          !WG {train.role = #train.role<gradient "w">}, !VG {train.role = #train.role<gradient "v">})
      attributes {train.phase = #train.phase<microbatch>} {
    %h = aten.mm(%x, %w) : (!X, !W) -> !H
    %p = aten.mm(%h, %v) : (!H, !V) -> !YP
    %y = dist.all_reduce sum(%p) over @mesh ["tp"] : !YP -> !Y
    %r = aten.sum(%y) : (!Y) -> !L
    %l = dist.convert %r : !L -> !LI
    %sr = dist.convert %s : !SI -> !S
    %d = aten.expand(%sr, size = [4, 2]) : (!S) -> !D
    %dy = dist.convert %d : !D -> !Y
    %vt = aten.t(%v) : (!V) -> !VT
    %ht = aten.t(%h) : (!H) -> !HT
    %xt = aten.t(%x) : (!X) -> !XT
    %dv = aten.mm(%ht, %dy) : (!HT, !Y) -> !VG
    %dh = aten.mm(%dy, %vt) : (!Y, !VT) -> !H
    %dw = aten.mm(%xt, %dh) : (!XT, !H) -> !WG
    return %l, %y, %dw, %dv : !LI, !Y, !WG, !VG
  }
  func.func @update(
      %w: !W {train.role = #train.role<parameter "w">},
      %v: !V {train.role = #train.role<parameter "v">},
      %dw: !WG {train.role = #train.role<gradient "w">},
      %dv: !VG {train.role = #train.role<gradient "v">})
      -> (!W {train.role = #train.role<parameter "w">}, !V {train.role = #train.role<parameter "v">})
      attributes {train.phase = #train.phase<update>} {
    %rw = dist.all_reduce sum(%dw) over @mesh ["dp"] : !WG -> !W
    %rv = dist.all_reduce sum(%dv) over @mesh ["dp"] : !VG -> !V
    %w1 = aten.sub(%w, %rw, alpha = 1.0e-02) : (!W, !W) -> !W
    %v1 = aten.sub(%v, %rv, alpha = 1.0e-02) : (!V, !V) -> !V
    return %w1, %v1 : !W, !V
  }
}
"""


def write_files(folder, whole, parts, batch, hidden):
    """Both programs, their weights, one microbatch, and data for four steps."""
    torch.manual_seed(0)
    for name, text in (("whole", whole), ("parts", parts)):
        (folder / f"{name}.mlir").write_text(text)
    save_file({"w": torch.randn(4, hidden), "v": torch.randn(hidden, 2)}, folder / "parts.safetensors")
    (folder / "whole.safetensors").symlink_to(folder / "parts.safetensors")
    save_file({"x": torch.randn(batch, 4)}, folder / "in.safetensors")
    save_file({"x": torch.randn(4 * batch, 4)}, folder / "data.safetensors")
    return folder


@pytest.fixture
def files(tmp_path):
    return write_files(tmp_path, WHOLE, PARTS, 4, 6)


def expect_same_results(cleave_run, files, kind):
    printed = cleave_run.succeed(
        files / "parts.mlir", "--against", files / "whole.mlir", "--inputs",
        files / "in.safetensors", "--ranks", 4, "--ranks-as", kind, "--tolerance", 1e-6,
    )  # fmt: skip
    for name in ("loss", "output.0", "grad.w", "grad.v"):
        assert re.search(rf"^{re.escape(name)} ", printed, re.MULTILINE), printed


@pytest.mark.parametrize("kind", ["processes", "threads"])
def test_results_are_those_of_the_whole_program(cleave_run, files, kind):
    expect_same_results(cleave_run, files, kind)
    whole = cleave_run.succeed(files / "whole.mlir", "--inputs", files / "in.safetensors")
    parts = cleave_run.succeed(
        files / "parts.mlir", "--inputs", files / "in.safetensors", "--ranks", 4,
        "--dump", files / "out.safetensors",
    )  # fmt: skip
    assert float(parts.split()[1]) == pytest.approx(float(whole.split()[1]), rel=1e-6)
    assert load_file(files / "out.safetensors")["grad.w"].shape == (4, 6)


def test_a_difference_fails_on_all_ranks_with_one_message(cleave_run, files):
    other = WHOLE.replace("aten.mm(%h, %v)", "aten.mm(%h, %v2)").replace(
        "    %y = ", "    %v2 = aten.relu(%v) : (tensor<6x2xf32>) -> tensor<6x2xf32>\n    %y = "
    )
    (files / "other.mlir").write_text(other)
    result = cleave_run(
        files / "parts.mlir", "--against", files / "other.mlir", "--inputs",
        files / "in.safetensors", "--ranks", 4, "--tolerance", 1e-6,
    )  # fmt: skip
    assert result.returncode == 1
    assert result.stderr.count("compute different values") == 1


def test_training_checkpoints_and_resuming(cleave_run, files):
    data = ("--data", f"safetensors:{files}/data.safetensors", "--quiet")
    printed = cleave_run.succeed(
        files / "parts.mlir", "--against", files / "whole.mlir", "--steps", 4, *data,
        "--ranks", 4, "--ranks-as", "threads", "--tolerance", 1e-6,
    )  # fmt: skip
    assert "loss of step 4" in printed and "param.w" in printed
    ranks = ("--ranks", 4, "--check", "replicated")
    saved = ("--checkpoint", files / "parts")
    cleave_run.succeed(files / "parts.mlir", "--steps", 2, *data, *ranks, *saved)
    cleave_run.succeed(files / "parts.mlir", "--steps", 4, *data, *ranks, *saved, "--resume")
    cleave_run.succeed(
        files / "whole.mlir", "--steps", 4, *data, "--checkpoint", files / "whole"
    )
    newest = [max((files / name).glob("step-*")) for name in ("parts", "whole")]
    parts, whole = map(checkpoint_group, newest)
    for name in ("w", "v"):
        torch.testing.assert_close(parts[name], whole[name], rtol=1e-6, atol=1e-6)


def test_files_with_other_shapes(cleave_run, files):
    save_file({"w": torch.randn(4, 5), "v": torch.randn(6, 2)}, files / "other.safetensors")
    message = cleave_run.fail(
        files / "parts.mlir", "--inputs", files / "in.safetensors", "--ranks", 4,
        "--weights", files / "other.safetensors",
    )  # fmt: skip
    assert "'w': the program has F32 [4, 6], 1 x 2 parts of F32 [4, 3], the file F32 [4, 5]" in message
    save_file({"x": torch.randn(2, 4)}, files / "in.safetensors")
    message = cleave_run.fail(
        files / "parts.mlir", "--inputs", files / "in.safetensors", "--ranks", 4
    )
    assert "'x': the program has F32 [4, 4], 2 x 1 parts of F32 [2, 4]" in message


def test_ranks_whose_parts_are_of_another_size(cleave_run, tmp_path):
    """Of five elements the second of two ranks holds two: it needs a function of its own."""
    (tmp_path / "uneven.mlir").write_text("""
      module @uneven {
        dist.mesh @mesh ["tp" = 2]
        func.func @microbatch(
            %x: tensor<5xf32, #dist.on<@mesh, tp = R>> {train.role = #train.role<input "x">})
            -> (tensor<5xf32, #dist.on<@mesh, tp = R>> {train.role = #train.role<output "0">})
            attributes {train.phase = #train.phase<microbatch>} {
          %s = dist.convert %x
              : tensor<5xf32, #dist.on<@mesh, tp = R>> -> tensor<3xf32, #dist.on<@mesh, tp = S(0)>>
          %y = dist.all_gather(%s) dim 0 over @mesh ["tp"]
              : tensor<3xf32, #dist.on<@mesh, tp = S(0)>> -> tensor<5xf32, #dist.on<@mesh, tp = R>>
          return %y : tensor<5xf32, #dist.on<@mesh, tp = R>>
        }
      }""")
    save_file({"x": torch.randn(5)}, tmp_path / "in.safetensors")
    result = cleave_run(
        tmp_path / "uneven.mlir", "--inputs", tmp_path / "in.safetensors", "--ranks", 2, timeout=60
    )
    assert result.returncode == 1
    assert "rank 1: program" in result.stderr
    expected = "of the 5 elements of dimension 0, rank 1 holds 2; the function is for ranks that hold 3"
    assert "cannot bind dist.convert" in result.stderr and expected in result.stderr


def test_a_value_that_varies_cannot_leave(cleave_run, tmp_path):
    (tmp_path / "varying.mlir").write_text("""
      module @varying {
        dist.mesh @mesh ["tp" = 2]
        func.func @microbatch(
            %x: tensor<4xf32, #dist.on<@mesh, tp = V>> {train.role = #train.role<input "x">})
            -> (tensor<4xf32, #dist.on<@mesh, tp = V>> {train.role = #train.role<output "0">})
            attributes {train.phase = #train.phase<microbatch>} {
          return %x : tensor<4xf32, #dist.on<@mesh, tp = V>>
        }
      }""")
    save_file({"x": torch.randn(4)}, tmp_path / "in.safetensors")
    message = cleave_run.fail(
        tmp_path / "varying.mlir", "--inputs", tmp_path / "in.safetensors", "--ranks", 2
    )
    assert "V" in message and "'microbatch' takes #train.role<input \"x\">" in message
