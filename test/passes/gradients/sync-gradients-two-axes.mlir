// RUN: cleave-opt %s --sync-gradients="axis=dp" --sync-gradients="axis=ep" | FileCheck %s

// With a mesh in the program, its axes are used; run once for each axis, the sums follow each other.

// CHECK: dist.mesh @ranks ["ep" = 2, "dp" = ?]
// CHECK-NOT: dist.mesh
dist.mesh @ranks ["ep" = 2, "dp" = ?]

// CHECK: #train.role<input "x" batch 0 over ["dp", "ep"]>
func.func @microbatch(%x: tensor<4xf32> {train.role = #train.role<input "x" batch 0>},
                      %w: tensor<4xf32> {train.role = #train.role<parameter "w">})
    -> (tensor<4xf32> {train.role = #train.role<gradient "w">})
    attributes {train.phase = #train.phase<microbatch>} {
  return %x : tensor<4xf32>
}

// CHECK-LABEL: func.func @update
func.func @update(%w: tensor<4xf32> {train.role = #train.role<parameter "w">},
                  %g: tensor<4xf32> {train.role = #train.role<gradient "w">})
    -> (tensor<4xf32> {train.role = #train.role<parameter "w">})
    attributes {train.phase = #train.phase<update>} {
  // CHECK-DAG: %[[E:.*]] = dist.all_reduce sum(%{{.*}}) over @ranks ["ep"]
  // CHECK-DAG: %[[D:.*]] = dist.all_reduce sum(%{{.*}}) over @ranks ["dp"]
  // CHECK: train.accumulate
  %0 = train.accumulate %g into %w : tensor<4xf32>
  return %0 : tensor<4xf32>
}
