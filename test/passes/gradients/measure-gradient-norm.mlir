// RUN: cleave-opt %s --measure-gradient-norm | FileCheck %s
// RUN: not cleave-opt %s --measure-gradient-norm --clip-gradients 2>&1 | FileCheck %s --check-prefix=TWICE
// RUN: cleave-opt %S/../pipeline/Inputs/chain.mlir --outline-stages="at=b,c" --sync-gradients=axis=dp --measure-gradient-norm -o %t.mlir
// RUN: FileCheck %s --check-prefix=STAGES --input-file=%t.mlir
// RUN: cleave-opt %t.mlir | FileCheck %s --check-prefix=STAGES

// TWICE: error: already computes the norm of its gradients; clip or measure them once

func.func @microbatch(%a: tensor<8xf32> {train.role = #train.role<parameter "a">},
                      %b: tensor<4xf32> {train.role = #train.role<parameter "b">})
    -> (tensor<8xf32> {train.role = #train.role<gradient "a">},
        tensor<4xf32> {train.role = #train.role<gradient "b">})
    attributes {train.phase = #train.phase<microbatch>} {
  return %a, %b : tensor<8xf32>, tensor<4xf32>
}

// CHECK-LABEL: func.func @update
// CHECK-SAME: train.role = #train.role<output "gradient_norm">
func.func @update(%a: tensor<8xf32> {train.role = #train.role<parameter "a">},
                  %b: tensor<4xf32> {train.role = #train.role<parameter "b">},
                  %ga: tensor<8xf32> {train.role = #train.role<gradient "a">},
                  %gb: tensor<4xf32> {train.role = #train.role<gradient "b">},
                  %t: tensor<f32> {train.role = #train.role<step>})
    -> (tensor<8xf32> {train.role = #train.role<parameter "a">},
        tensor<4xf32> {train.role = #train.role<parameter "b">})
    attributes {train.phase = #train.phase<update>} {
  %lr = train.learning_rate(%t) {base = 0.1 : f64, schedule = #train.schedule<constant>}
      : (tensor<f32>) -> tensor<f64>
  // CHECK-DAG: %[[NA:.*]] = aten.linalg_vector_norm(%[[GA:[^,]*]], ord = 2.000000e+00) : (tensor<8xf32>) -> tensor<f32>
  // CHECK-DAG: %[[NB:.*]] = aten.linalg_vector_norm(%[[GB:[^,]*]], ord = 2.000000e+00) : (tensor<4xf32>) -> tensor<f32>
  // CHECK: %[[ALL:.*]] = aten.stack([%[[NA]], %[[NB]]])
  // CHECK: %[[NORM:.*]] = aten.linalg_vector_norm(%[[ALL]], ord = 2.000000e+00)
  // The optimizer takes gradients as they are.
  // CHECK-NOT: aten.mul
  // CHECK: train.sgd(%{{.*}}, %[[GA]],
  // CHECK: train.sgd(%{{.*}}, %[[GB]],
  // CHECK: return %{{.*}}, %{{.*}}, %[[NORM]]
  %a1 = train.sgd(%a, %ga, %t, %lr)
      {momentum = 0.0 : f64, dampening = 0.0 : f64, nesterov = false, weight_decay = 0.0 : f64} : tensor<8xf32>
  %b1 = train.sgd(%b, %gb, %t, %lr)
      {momentum = 0.0 : f64, dampening = 0.0 : f64, nesterov = false, weight_decay = 0.0 : f64} : tensor<4xf32>
  return %a1, %b1 : tensor<8xf32>, tensor<4xf32>
}

// Each stage gives a term of the sum, and each update its root.
// STAGES-COUNT-3: #train.role<stage_sum "gradient_norm_squared">
// STAGES-NOT: aten.clamp
// STAGES: aten.sqrt
