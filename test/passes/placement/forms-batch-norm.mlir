// RUN: cleave-opt %s --partition --check-spmd-types | FileCheck %s

#R = #dist.on<@mesh, dp = R>
#P = #dist.on<@mesh, dp = P>
#S0 = #dist.on<@mesh, dp = S(0)>
dist.mesh @mesh ["dp" = 2]

// One gathering of two numbers per channel, then the kernel that takes statistics as they are, in a
// function that has its gradients.
// CHECK-LABEL: func @batch_norm
// CHECK: aten.mean_dim
// CHECK: aten.var_correction
// CHECK: dist.all_gather({{.*}}) dim 0 over @mesh ["dp"]{{.*}} : tensor<1x2x3xf32, #V_dp> -> tensor<2x2x3xf32, #R_dp>
// CHECK-NOT: dist.all
// CHECK: aten._native_batch_norm_legit_no_training
// CHECK: return {{.*}} : tensor<4x3x5x5xf32, #S0_dp>, tensor<3xf32, #R_dp>, tensor<3xf32, #R_dp>
func.func @batch_norm(%x: tensor<8x3x5x5xf32> {dist.placement = #S0},
                      %m: tensor<3xf32> {dist.placement = #R}, %v: tensor<3xf32> {dist.placement = #R})
    -> (tensor<8x3x5x5xf32> {dist.placement = #S0}, tensor<3xf32> {dist.placement = #R},
        tensor<3xf32> {dist.placement = #R}) {
  %0:5 = aten._native_batch_norm_legit_functional(
      %x, none, none, %m, %v, training = true, momentum = 0.1, eps = 1.0e-05)
      {train.backward, dist.operands = [#S0, #R, #R], dist.results = [#S0, #R, #R, #R, #R]}
      : (tensor<8x3x5x5xf32>, tensor<3xf32>, tensor<3xf32>)
      -> (tensor<8x3x5x5xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>)
  return %0#0, %0#3, %0#4 : tensor<8x3x5x5xf32>, tensor<3xf32>, tensor<3xf32>
}

// Where gradients are yet to be made, they also flow through the statistics, which that kernel takes
// as constants; none flows to the running ones.
// CHECK-LABEL: func @batch_norm_to_differentiate
// CHECK: aten.mean_dim
// CHECK: aten.var_correction
// CHECK: dist.all_gather({{.*}}) dim 0 over @mesh ["dp"] : tensor<1x2x3xf32, #V_dp> -> tensor<2x2x3xf32, #R_dp>
// CHECK-NOT: no_training
// CHECK: aten.rsqrt
// CHECK-COUNT-2: aten.detach
// CHECK: return {{.*}} : tensor<4x3x5x5xf32, #S0_dp>, tensor<3xf32, #R_dp>, tensor<3xf32, #R_dp>
func.func @batch_norm_to_differentiate(%x: tensor<8x3x5x5xf32> {dist.placement = #S0},
                      %m: tensor<3xf32> {dist.placement = #R}, %v: tensor<3xf32> {dist.placement = #R})
    -> (tensor<8x3x5x5xf32> {dist.placement = #S0}, tensor<3xf32> {dist.placement = #R},
        tensor<3xf32> {dist.placement = #R}) {
  %0:5 = aten._native_batch_norm_legit_functional(
      %x, none, none, %m, %v, training = true, momentum = 0.1, eps = 1.0e-05)
      {dist.operands = [#S0, #R, #R], dist.results = [#S0, #R, #R, #R, #R]}
      : (tensor<8x3x5x5xf32>, tensor<3xf32>, tensor<3xf32>)
      -> (tensor<8x3x5x5xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>)
  return %0#0, %0#3, %0#4 : tensor<8x3x5x5xf32>, tensor<3xf32>, tensor<3xf32>
}

// The sums that each input's gradient needs are also the parameters' gradients, whose terms stay
// pending where the strategy says so.
// CHECK-LABEL: func @batch_norm_backward
// CHECK: dist.all_reduce sum({{.*}}) over @mesh ["dp"] : tensor<2x3xf32, #P_dp> -> tensor<2x3xf32, #R_dp>
// CHECK-NOT: dist.all
// CHECK: return {{.*}} : tensor<4x3x5x5xf32, #S0_dp>, tensor<3xf32, #P_dp>, tensor<3xf32, #P_dp>
func.func @batch_norm_backward(
    %g: tensor<8x3x5x5xf32> {dist.placement = #S0}, %x: tensor<8x3x5x5xf32> {dist.placement = #S0},
    %m: tensor<3xf32> {dist.placement = #R}, %i: tensor<3xf32> {dist.placement = #R})
    -> (tensor<8x3x5x5xf32> {dist.placement = #S0}, tensor<3xf32> {dist.placement = #P},
        tensor<3xf32> {dist.placement = #P}) {
  %0:3 = aten.native_batch_norm_backward(
      %g, %x, none, none, none, %m, %i, train = true, eps = 1.0e-05, output_mask = [true, true, true])
      {dist.operands = [#S0, #S0, #R, #R], dist.results = [#S0, #P, #P]}
      : (tensor<8x3x5x5xf32>, tensor<8x3x5x5xf32>, tensor<3xf32>, tensor<3xf32>)
      -> (tensor<8x3x5x5xf32>, tensor<3xf32>, tensor<3xf32>)
  return %0#0, %0#1, %0#2 : tensor<8x3x5x5xf32>, tensor<3xf32>, tensor<3xf32>
}
