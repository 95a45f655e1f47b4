// RUN: cleave-opt %s --split-input-file --verify-diagnostics

// 1.
// expected-error @below {{expects at least one member}}
train.bucket @b of f32 []

// -----

// expected-error @below {{has a member without a name}}
train.bucket @b of f32 ["" : tensor<4xf32>]

// -----

// expected-error @below {{has two members named 'a'}}
train.bucket @b of f32 ["a" : tensor<4xf32>, "a" : tensor<4xf32>]

// -----

// 2.
// expected-error @below {{expects statically shaped tensors of a floating-point or complex type, found tensor<4xi64> for "a"}}
train.bucket @b of f32 ["a" : tensor<4xi64>]

// -----

// expected-error @below {{expects statically shaped tensors of a floating-point or complex type, found tensor<?xf32> for "a"}}
train.bucket @b of f32 ["a" : tensor<?xf32>]

// -----

// expected-error @below {{expects a floating-point or complex element type, found 'i32'}}
train.bucket @b of i32 ["a" : tensor<4xf32>]

// -----

// 3.
// expected-error @below {{refers to mesh @mesh, which the module does not define}}
train.bucket @b of f32 ["a" : tensor<4xf32>] over @mesh ["dp"]

// -----

// expected-note @below {{the mesh is defined here}}
dist.mesh @mesh ["dp" = 2]
// expected-error @below {{reduces over axis 'tp', which mesh @mesh does not have}}
train.bucket @b of f32 ["a" : tensor<4xf32>] over @mesh ["tp"]

// -----

dist.mesh @mesh ["dp" = 2]
// expected-error @below {{expects at least one mesh axis}}
train.bucket @b of f32 ["a" : tensor<4xf32>] over @mesh []

// -----

dist.mesh @mesh ["dp" = 2]
// expected-error @below {{lists mesh axis 'dp' twice}}
train.bucket @b of f32 ["a" : tensor<4xf32>] over @mesh ["dp", "dp"]

// -----

// expected-error @below {{expects a mesh together with axes of it}}
"train.bucket"() {sym_name = "b", element = f32, names = ["a"], types = [tensor<4xf32>], axes = ["dp"]} : () -> ()

// -----

// expected-error @below {{expects a type for each member, found 1 for 2}}
"train.bucket"() {sym_name = "b", element = f32, names = ["a", "c"], types = [tensor<4xf32>]} : () -> ()

// -----

dist.mesh @mesh ["dp" = 2]
// expected-error @below {{lists mesh axis 'dp' twice}}
train.bucket @b of f32 ["a" : tensor<4xf32>] over @mesh ["dp"] scatter ["dp"]

// -----

// 4.
// expected-note @below {{the mesh is defined here}}
dist.mesh @mesh ["fsdp" = ?]
// expected-error @below {{scatters over axes ["fsdp"], one of which has an open size}}
train.bucket @b of f32 ["a" : tensor<4xf32>] over @mesh [] scatter ["fsdp"]

// -----

// expected-note @below {{the mesh is defined here}}
dist.mesh @mesh ["fsdp" = 4]
// expected-error @below {{cannot divide dimension 0 of "a", 'tensor<6xf32>', into 4 parts}}
train.bucket @b of f32 ["a" : tensor<6xf32>] over @mesh [] scatter ["fsdp"]

// -----

// expected-note @below {{the mesh is defined here}}
dist.mesh @mesh ["fsdp" = 4]
// expected-error @below {{cannot divide dimension 1 of "b", 'tensor<4x6xf32>', into 4 parts}}
train.bucket @b of f32 ["a" : tensor<4xf32>, "b" : tensor<4x6xf32>] over @mesh [] scatter ["fsdp"] dims [0, 1]

// -----

dist.mesh @mesh ["fsdp" = 4]
// expected-error @below {{expects `dims` with `scatter`, with a dimension for each of 2 members, found [1]}}
train.bucket @b of f32 ["a" : tensor<4xf32>, "b" : tensor<4x8xf32>] over @mesh [] scatter ["fsdp"] dims [1]

// -----

dist.mesh @mesh ["fsdp" = 4]
// expected-error @below {{expects `dims` with `scatter`}}
train.bucket @b of f32 ["a" : tensor<4x4xf32>] over @mesh ["fsdp"] dims [1]

// -----

// 5.
dist.mesh @mesh ["dp" = 2]
// expected-error @below {{reduces over axis "dp", on which "a" is I, not a pending sum}}
train.bucket @b of f32 ["a" : tensor<4xf32, #dist.on<@mesh, dp = I>>] over @mesh ["dp"]

// -----

// 6.
// expected-error @below {{expects a positive number of accumulations, found 0}}
train.bucket @b of f32 ["a" : tensor<4xf32>] accumulations 0

// -----

// The type.
// expected-error @below {{expects a flat, statically shaped tensor of a floating-point or complex type for @b, found 'tensor<2x2xf32>'}}
func.func @f(%b: !train.bucket<@b : tensor<2x2xf32>>) {
  return
}
