// RUN: cleave-opt %s --check-spmd-types --split-input-file --verify-diagnostics

// What is reduced may not be reduced again: the op's own types say so.

#R = #dist.on<@mesh, tp = R>
#P = #dist.on<@mesh, tp = P>

dist.mesh @mesh ["tp" = 2]

func.func @doubled(%x: tensor<4x8xf32, #P>) -> tensor<4x8xf32, #R> {
  %0 = dist.all_reduce sum(%x) over @mesh ["tp"] : tensor<4x8xf32, #P> -> tensor<4x8xf32, #R>
  // expected-error@below {{'dist.all_reduce' op cannot take R to R along axis 'tp': the value is the same on all ranks already}}
  %1 = dist.all_reduce sum(%0) over @mesh ["tp"] : tensor<4x8xf32, #R> -> tensor<4x8xf32, #R>
  return %1 : tensor<4x8xf32, #R>
}

// -----

// Nor hidden in a declaration: the first reduction's result is not P.

#R = #dist.on<@mesh, tp = R>
#P = #dist.on<@mesh, tp = P>

dist.mesh @mesh ["tp" = 2]

func.func @doubled_after_op(%x: tensor<4x8xf32, #P>) -> tensor<4x8xf32, #R> {
  // expected-note@below {{'self' is made by 'dist.all_reduce'}}
  %0 = dist.all_reduce sum(%x) over @mesh ["tp"] : tensor<4x8xf32, #P> -> tensor<4x8xf32, #R>
  // expected-error@below {{'aten.mul_scalar' op produces R on axis "tp", found P declared for result 0}}
  %1 = aten.mul_scalar(%0, other = 2.0) : (tensor<4x8xf32, #R>) -> tensor<4x8xf32, #P>
  %2 = dist.all_reduce sum(%1) over @mesh ["tp"] : tensor<4x8xf32, #P> -> tensor<4x8xf32, #R>
  return %2 : tensor<4x8xf32, #R>
}
