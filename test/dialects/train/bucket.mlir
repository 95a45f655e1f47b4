// RUN: cleave-opt %s | cleave-opt | FileCheck %s
// RUN: cleave-opt %s --emit-bytecode | cleave-opt | FileCheck %s

dist.mesh @mesh ["dp" = 2, "cp" = 2]

// CHECK: train.bucket @all of f32 ["a" : tensor<2x3xf32>, "b" : tensor<4xbf16>] over @mesh ["dp", "cp"] accumulations 4
train.bucket @all of f32 ["a" : tensor<2x3xf32>, "b" : tensor<4xbf16>] over @mesh ["dp", "cp"] accumulations 4
// CHECK: train.bucket @local of f64 ["c" : tensor<f64>]{{$}}
train.bucket @local of f64 ["c" : tensor<f64>]

// CHECK-LABEL: func.func @values
func.func @values(%a: tensor<2x3xf32>, %b: tensor<4xbf16>, %0: !train.bucket<@all : tensor<10xf32>>)
    -> (tensor<2x3xf32>, tensor<4xbf16>) {
  // CHECK: %[[A:.*]] = train.contribute %{{.*}} to "a" in %{{.*}} : tensor<2x3xf32>, !train.bucket<@all : tensor<10xf32>>
  %1 = train.contribute %a to "a" in %0 : tensor<2x3xf32>, !train.bucket<@all : tensor<10xf32>>
  %2 = train.contribute %b to "b" in %1 : tensor<4xbf16>, !train.bucket<@all : tensor<10xf32>>
  // CHECK: train.reduce_bucket %{{.*}} : !train.bucket<@all : tensor<10xf32>>
  %3 = train.reduce_bucket %2 : !train.bucket<@all : tensor<10xf32>>
  // CHECK: %{{.*}}:2 = train.wait_bucket %{{.*}} : !train.bucket<@all : tensor<10xf32>> -> tensor<2x3xf32>, tensor<4xbf16>
  %ga, %gb = train.wait_bucket %3 : !train.bucket<@all : tensor<10xf32>> -> tensor<2x3xf32>, tensor<4xbf16>
  return %ga, %gb : tensor<2x3xf32>, tensor<4xbf16>
}

dist.mesh @sharded ["dp" = 2, "fsdp" = 2]
// CHECK: train.bucket @parts of f32 ["a" : tensor<4x3xf32>] over @sharded ["dp"] scatter ["fsdp"]
train.bucket @parts of f32 ["a" : tensor<4x3xf32>] over @sharded ["dp"] scatter ["fsdp"]
// CHECK-LABEL: func.func @part
func.func @part(%0: !train.bucket<@parts : tensor<12xf32>>) -> tensor<2x3xf32> {
  // CHECK: train.wait_bucket %{{.*}} -> tensor<2x3xf32>
  %g = train.wait_bucket %0 : !train.bucket<@parts : tensor<12xf32>> -> tensor<2x3xf32>
  return %g : tensor<2x3xf32>
}

// CHECK: train.bucket @columns of f32 ["a" : tensor<3x4xf32>, "b" : tensor<4xf32>] over @sharded [] scatter ["fsdp"] dims [1, 0]
train.bucket @columns of f32 ["a" : tensor<3x4xf32>, "b" : tensor<4xf32>] over @sharded [] scatter ["fsdp"] dims [1, 0]
// CHECK-LABEL: func.func @columns_part
func.func @columns_part(%0: !train.bucket<@columns : tensor<16xf32>>) -> (tensor<3x2xf32>, tensor<2xf32>) {
  %a, %b = train.wait_bucket %0 : !train.bucket<@columns : tensor<16xf32>> -> tensor<3x2xf32>, tensor<2xf32>
  return %a, %b : tensor<3x2xf32>, tensor<2xf32>
}

// CHECK: train.bucket @typed of f32 ["a" : tensor<4x3xf32, #{{.*}}>] over @sharded ["dp"] scatter ["fsdp"]
train.bucket @typed of f32 ["a" : tensor<4x3xf32, #dist.on<@sharded, dp = P, fsdp = P>>] over @sharded ["dp"] scatter ["fsdp"]
// CHECK-LABEL: func.func @typed_part
func.func @typed_part(%0: !train.bucket<@typed : tensor<12xf32>>) -> tensor<2x3xf32, #dist.on<@sharded, dp = I, fsdp = S(0)>> {
  %g = train.wait_bucket %0 : !train.bucket<@typed : tensor<12xf32>> -> tensor<2x3xf32, #dist.on<@sharded, dp = I, fsdp = S(0)>>
  return %g : tensor<2x3xf32, #dist.on<@sharded, dp = I, fsdp = S(0)>>
}
