// RUN: cleave-opt %s --check-spmd-types --split-input-file --verify-diagnostics

// The body is typed with the placements of the launch: gelu is not linear.
dist.mesh @mesh ["tp" = 2]
exec.kernel @add_gelu(%x: tensor<4xf32>, %y: tensor<4xf32>) -> tensor<4xf32> {
  %0 = aten.add(%x, %y) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  // expected-note @below {{the op of the kernel is here}}
  %1 = aten.gelu(%0) : (tensor<4xf32>) -> tensor<4xf32>
  exec.return %1 : tensor<4xf32>
}
func.func @f(%x: tensor<4xf32, #dist.on<@mesh, tp = P>>) -> tensor<4xf32, #dist.on<@mesh, tp = P>> {
  // expected-error @below {{runs a kernel in which 'aten.gelu' must not combine operands with these placements: #dist.on<@mesh, tp = P>}}
  %0 = exec.launch @add_gelu(%x, %x)
      : (tensor<4xf32, #dist.on<@mesh, tp = P>>, tensor<4xf32, #dist.on<@mesh, tp = P>>)
      -> tensor<4xf32, #dist.on<@mesh, tp = P>>
  return %0 : tensor<4xf32, #dist.on<@mesh, tp = P>>
}

// -----

dist.mesh @mesh ["tp" = 2]
exec.kernel @neg_exp(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = aten.neg(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %1 = aten.exp(%0) : (tensor<4xf32>) -> tensor<4xf32>
  exec.return %1 : tensor<4xf32>
}
// expected-note @below {{operand 0 is argument 0: 'tensor<4xf32, #dist.on<@mesh, tp = S(0)>>'}}
func.func @f(%x: tensor<4xf32, #dist.on<@mesh, tp = S(0)>>) -> tensor<4xf32, #dist.on<@mesh, tp = R>> {
  // expected-error @below {{produces S(0) on axis "tp", found R declared}}
  %0 = exec.launch @neg_exp(%x) : (tensor<4xf32, #dist.on<@mesh, tp = S(0)>>) -> tensor<4xf32, #dist.on<@mesh, tp = R>>
  return %0 : tensor<4xf32, #dist.on<@mesh, tp = R>>
}
