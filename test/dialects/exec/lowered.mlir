// RUN: cleave-opt %s | cleave-opt | FileCheck %s
// RUN: cleave-opt %s --emit-bytecode | cleave-opt | FileCheck %s

// CHECK-LABEL: dist.mesh
dist.mesh @mesh ["dp" = 2]

// CHECK: exec.lowered = #exec.lowered<cpu, arena = 256, frame = 64, alignment = 64>
func.func @microbatch(
    %x: tensor<4x8xf32> {train.role = #train.role<input "x" batch 0>},
    %b: tensor<4x8xf32> {train.role = #train.role<buffer "b">})
    -> (tensor<f32> {train.role = #train.role<loss>}, tensor<4x8xf32> {train.role = #train.role<buffer "b">})
    attributes {train.phase = #train.phase<microbatch>,
                exec.lowered = #exec.lowered<cpu, arena = 256, frame = 64, alignment = 64>} {
  // CHECK: aten.add({{.*}}) {exec.memory = [#exec.at<0>]}
  %0 = aten.add(%x, %b) {exec.memory = [#exec.at<0>]} : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  // CHECK: %[[E:.*]] = exec.record on compute
  %e = exec.record on compute
  // CHECK: exec.wait %[[E]] on communication
  exec.wait %e on communication
  // CHECK: dist.all_reduce {{.*}} {exec.memory = [#exec.same<0>], exec.stream = #exec.stream<communication>}
  %1 = dist.all_reduce sum(%0) over @mesh ["dp"] {exec.memory = [#exec.same<0>], exec.stream = #exec.stream<communication>} : tensor<4x8xf32>
  %f = exec.record on communication
  exec.wait %f on compute
  // CHECK: exec.memory = [#exec.frame<0>]
  %2 = aten.sum_dim_int_list(%1, dim = [0, 1]) {exec.memory = [#exec.frame<0>]} : (tensor<4x8xf32>) -> tensor<f32>
  // CHECK: exec.memory = [#exec.apart]
  %3 = aten.mul(%1, %1) {exec.memory = [#exec.apart]} : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  return %2, %3 : tensor<f32>, tensor<4x8xf32>
}

// CHECK: exec.lowered = #exec.lowered<cuda, chip = "sm_90", arena = 0, alignment = 512>
func.func @update(%s: tensor<f32> {train.role = #train.role<step>})
    attributes {train.phase = #train.phase<update>,
                exec.lowered = #exec.lowered<cuda, chip = "sm_90", arena = 0, alignment = 512>} {
  return
}
