// Reductions, buckets and clipping of a program in pipeline stages: each stage on its own, but for the norm.
//
// RUN: cleave-opt %S/../pipeline/Inputs/chain.mlir --outline-stages="at=b,c" --sync-gradients=axis=dp | FileCheck %s --check-prefix=SYNC
// RUN: cleave-opt %S/../pipeline/Inputs/chain.mlir --outline-stages="at=b,c" --sync-gradients=axis=dp --bucket-gradients -o %t.mlir
// RUN: FileCheck %s --check-prefix=BUCKET < %t.mlir
// RUN: cleave-opt %t.mlir --clip-gradients="max-norm=0.5" -o %t.clip.mlir
// RUN: FileCheck %s --check-prefix=CLIP < %t.clip.mlir
// RUN: cleave-opt %S/../pipeline/Inputs/chain.mlir --outline-stages="at=b,c" --split-backward --sync-gradients=axis=dp --bucket-gradients | FileCheck %s --check-prefix=SPLIT
// RUN: cleave-opt %S/../pipeline/Inputs/chain.mlir --outline-stages="at=b,c" --sync-gradients=axis=dp --clip-gradients | FileCheck %s --check-prefix=WHOLE
// RUN: not cleave-opt %t.clip.mlir --clip-gradients 2>&1 | FileCheck %s --check-prefix=TWICE
// RUN: not cleave-opt %t.mlir --bucket-gradients 2>&1 | FileCheck %s --check-prefix=AGAIN
// RUN: not cleave-opt %t.mlir --sync-gradients=axis=dp 2>&1 | FileCheck %s --check-prefix=LATE
// RUN: not cleave-opt %t.clip.mlir --sync-gradients=axis=dp 2>&1 | FileCheck %s --check-prefix=CLIPPED
// RUN: not cleave-opt %t.clip.mlir --bucket-gradients 2>&1 | FileCheck %s --check-prefix=BEHIND

// Inputs are divided in every stage that takes them, gradients summed in the stage that has them.
// SYNC: dist.mesh @mesh ["dp" = ?]
// SYNC: func.func @forward_0(
// SYNC: input "x" batch 0 over ["dp"]
// SYNC: func.func @backward_0(
// SYNC: input "x" batch 0 over ["dp"]
// SYNC: func.func @update_0(
// SYNC: %[[GA:[a-z0-9]+]]: tensor<4x4xf32> {train.role = #train.role<gradient "a.weight">}
// SYNC: dist.all_reduce sum(%[[GA]]) over @mesh ["dp"]
// SYNC: func.func @update_1(
// SYNC: %[[GB:[a-z0-9]+]]: tensor<4x4xf32> {train.role = #train.role<gradient "b.weight">}
// SYNC: dist.all_reduce sum(%[[GB]]) over @mesh ["dp"]
// SYNC-NOT: @update_2

// BUCKET: train.bucket @bucket1_0 of f32 ["b.weight" : tensor<4x4xf32>] over @mesh ["dp"]
// BUCKET: func.func @backward_1(
// BUCKET: accumulator "bucket1_0"
// BUCKET: train.reduce_bucket
// BUCKET: train.bucket @bucket0_0 of f32 ["a.weight" : tensor<4x4xf32>] over @mesh ["dp"]
// BUCKET: func.func @backward_0(
// BUCKET: accumulator "bucket0_0"
// BUCKET: train.reduce_bucket
// BUCKET: func.func @update_0(
// BUCKET: gradient "bucket0_0"
// BUCKET: train.wait_bucket
// BUCKET-NOT: dist.all_reduce

// The reduce function waits for the buckets and gives the square of the stage's norm.
// CLIP: func.func @reduce_0(
// CLIP: %[[B:.*]]: !train.bucket<@bucket0_0 : tensor<16xf32>> {train.role = #train.role<gradient "bucket0_0">})
// CLIP: tensor<4x4xf32> {train.role = #train.role<gradient "a.weight">}
// CLIP: tensor<f32> {train.role = #train.role<stage_sum "gradient_norm_squared">})
// CLIP: train.phase = #train.phase<reduce>, train.stage = 0 : i64
// CLIP: %[[G:.*]] = train.wait_bucket %[[B]]
// CLIP: %[[ALL:.*]] = aten.stack
// CLIP: %[[NORM:.*]] = aten.linalg_vector_norm(%[[ALL]]
// CLIP: %[[SQUARE:.*]] = aten.mul(%[[NORM]], %[[NORM]])
// CLIP: return %[[G]], %[[SQUARE]]
// CLIP: func.func @update_0(
// CLIP: %[[G:[a-z0-9]+]]: tensor<4x4xf32> {train.role = #train.role<gradient "a.weight">}
// CLIP: %[[SUM:[a-z0-9]+]]: tensor<f32> {train.role = #train.role<stage_sum "gradient_norm_squared">})
// CLIP-NOT: train.wait_bucket
// CLIP: %[[ROOT:.*]] = aten.sqrt(%[[SUM]])
// CLIP: aten.add_scalar(%[[ROOT]]
// CLIP: aten.mul_scalar({{.*}}other = 5.000000e-01
// CLIP: %[[SCALE:.*]] = aten.clamp
// CLIP: %[[SCALED:.*]] = aten.mul(%[[G]], %[[SCALE]])
// CLIP: train.sgd(%{{.*}}, %[[SCALED]],
// CLIP: func.func @reduce_1(
// CLIP: stage_sum "gradient_norm_squared"
// CLIP: func.func @update_1(
// CLIP: stage_sum "gradient_norm_squared"
// CLIP-NOT: @reduce_2

// Weight gradients are made, contributed and reduced in the weight part.
// SPLIT: func.func @backward_1_weight(
// SPLIT: accumulator "bucket1_0"
// SPLIT: train.phase = #train.phase<backward_weight>, train.stage = 1

// Without buckets the all-reduce moves in front of the norm.
// WHOLE: func.func @reduce_0(
// WHOLE: %[[R:.*]] = dist.all_reduce sum
// WHOLE: aten.linalg_vector_norm(%[[R]]
// WHOLE: func.func @update_0(
// WHOLE-NOT: dist.all_reduce
// WHOLE: func.func @reduce_1(

// TWICE: error: already computes the norm of its gradients; clip or measure them once
// AGAIN: error: has the bucket "bucket0_0" already; gradients are bucketed once
// LATE: error: takes the bucket "bucket0_0"; sum gradients over 'dp' before --bucket-gradients
// CLIPPED: error: takes #train.role<input "x" batch 0 over ["dp"]>, which is divided over 'dp' already; a second sum of gradients would scale them
// BEHIND: error: takes #train.role<gradient "a.weight">, which is already in a bucket; gradients are bucketed once, before --clip-gradients
// BEHIND: note: removed from its bucket here
