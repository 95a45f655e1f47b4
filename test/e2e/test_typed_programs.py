"""Programs with placements are type-checked when they are loaded."""

from cleave_run import CleaveRun

MISSING_REDUCTION = """
#R = #dist.on<@mesh, tp = R>
#S0 = #dist.on<@mesh, tp = S(0)>
#S1 = #dist.on<@mesh, tp = S(1)>
dist.mesh @mesh ["tp" = 1]
func.func @microbatch(
    %x: tensor<2x4xf32, #S1> {train.role = #train.role<input "x">},
    %w: tensor<4x3xf32, #S0> {train.role = #train.role<input "w">})
    -> (tensor<2x3xf32, #RESULT> {train.role = #train.role<output "0">})
    attributes {train.phase = #train.phase<microbatch>} {
  %0 = aten.mm(%x, %w) : (tensor<2x4xf32, #S1>, tensor<4x3xf32, #S0>) -> tensor<2x3xf32, #RESULT>
  return %0 : tensor<2x3xf32, #RESULT>
}
"""


def test_a_program_that_does_not_type_check_is_not_run(build_dir, tmp_path):
    program = tmp_path / "missing.mlir"
    program.write_text(MISSING_REDUCTION.replace("RESULT", "R"))
    message = CleaveRun(build_dir).fail(program, "--dry-run")
    assert "missing.mlir' is not valid" in message
    assert "missing.mlir:11:8: error: 'aten.mm' op produces P on axis \"tp\", found R declared" in message
    assert "insert dist.all_reduce sum from P to R" in message
    assert "missing.mlir:7:5: note: 'self' is argument 0" in message
