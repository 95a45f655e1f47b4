// RUN: cleave-opt %s --lower-to-exec | FileCheck %s
// RUN: cleave-opt %s --lower-to-exec="target=cuda chip=sm_90" | FileCheck %s --check-prefix=CUDA
// RUN: cleave-opt %s --lower-to-exec --lower-to-exec | FileCheck %s

dist.mesh @mesh ["dp" = 2]

// CHECK-LABEL: func.func @microbatch
// CHECK-SAME: exec.lowered = #exec.lowered<cpu, arena = 512, alignment = 64>
// CUDA: exec.lowered = #exec.lowered<cuda, chip = "sm_90", arena = 1024, alignment = 512>
func.func @microbatch(
    %w: tensor<8x8xf32> {train.role = #train.role<parameter "w">},
    %a: tensor<8x8xf32> {train.role = #train.role<accumulator "w">},
    %x: tensor<8x8xf32> {train.role = #train.role<input "x" batch 0>},
    %s: tensor<f32> {train.role = #train.role<seed>})
    -> (tensor<f32> {train.role = #train.role<loss>}, tensor<8x8xf32> {train.role = #train.role<gradient "w">})
    attributes {train.phase = #train.phase<microbatch>} {
  // A view of an argument, a value of its own, one over the last use of another.
  // CHECK: %[[T:.*]] = aten.t(%arg0) {exec.memory = [#exec.same<0>]}
  %t = aten.t(%w) : (tensor<8x8xf32>) -> tensor<8x8xf32>
  // CHECK: %[[Y:.*]] = aten.mm(%arg2, %[[T]]) {exec.memory = [#exec.at<[[A:.*]]>]}
  %y = aten.mm(%x, %t) : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  // The gradient still reads %y.
  // CHECK: %[[G:.*]] = aten.gelu(%[[Y]]) {exec.memory = [#exec.at<{{.*}}>]}
  %g = aten.gelu(%y) : (tensor<8x8xf32>) -> tensor<8x8xf32>
  // The loss outlives the function.
  // CHECK: aten.mean(%[[G]]) {exec.memory = [#exec.apart]}
  %loss = aten.mean(%g) : (tensor<8x8xf32>) -> tensor<f32>
  // CHECK: aten.expand({{.*}}) {exec.memory = [#exec.same<0>]}
  %e = aten.expand(%s, size = [8, 8]) : (tensor<f32>) -> tensor<8x8xf32>
  // CHECK: aten.gelu_backward({{.*}}) {exec.memory = [#exec.same<1>]}
  %gy = aten.gelu_backward(%e, %y) : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  // CHECK: aten.mm({{.*}}) {exec.memory = [#exec.at<{{.*}}>]}
  %gw = aten.mm(%gy, %x) : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  // CHECK: train.accumulate {{.*}} {exec.memory = [#exec.same<1>]}
  %sum = train.accumulate %gw into %a : tensor<8x8xf32>
  // CHECK-NOT: exec.record
  return %loss, %sum : tensor<f32>, tensor<8x8xf32>
}

// CHECK-LABEL: func.func @update
// CUDA-LABEL: func.func @update
func.func @update(
    %w: tensor<8x8xf32> {train.role = #train.role<parameter "w">},
    %g: tensor<8x8xf32> {train.role = #train.role<gradient "w">},
    %m: tensor<8x8xf32> {train.role = #train.role<optimizer_state "w" slot "exp_avg">},
    %v: tensor<8x8xf32> {train.role = #train.role<optimizer_state "w" slot "exp_avg_sq">},
    %n: tensor<f32> {train.role = #train.role<step>})
    -> (tensor<8x8xf32> {train.role = #train.role<parameter "w">},
        tensor<8x8xf32> {train.role = #train.role<optimizer_state "w" slot "exp_avg">},
        tensor<8x8xf32> {train.role = #train.role<optimizer_state "w" slot "exp_avg_sq">})
    attributes {train.phase = #train.phase<update>} {
  // The gradient is there on the compute stream.
  // CHECK-NEXT: %[[E0:.*]] = exec.record on compute
  // CHECK-NEXT: exec.wait %[[E0]] on communication
  // CHECK-NEXT: dist.all_reduce sum(%arg1) over @mesh ["dp"] {exec.call = 0 : i64, exec.memory = [#exec.same<0>], exec.stream = #exec.stream<communication>}
  // CHECK-NEXT: %[[E1:.*]] = exec.record on communication
  %r = dist.all_reduce sum(%g) over @mesh ["dp"] : tensor<8x8xf32>
  // A number for the host.
  // CHECK-NEXT: train.learning_rate({{.*}}) {{.*}}exec.memory = [#exec.apart]
  %lr = train.learning_rate(%n) {base = 1.0e-03 : f64, schedule = #train.schedule<constant>} : (tensor<f32>) -> tensor<f64>
  // CHECK-NEXT: exec.wait %[[E1]] on compute
  // CHECK-NEXT: train.adamw({{.*}}) {{.*}}exec.memory = [#exec.same<0>, #exec.same<2>, #exec.same<3>]
  %w1, %m1, %v1 = train.adamw(%w, %r, %m, %v, %n, %lr)
      {beta1 = 0.9 : f64, beta2 = 0.999 : f64, eps = 1.0e-08 : f64, weight_decay = 0.01 : f64} : tensor<8x8xf32>
  // CHECK-NEXT: return
  return %w1, %m1, %v1 : tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>
}
