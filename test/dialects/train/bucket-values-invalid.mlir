// RUN: cleave-opt %s --split-input-file --verify-diagnostics
// What train.contribute, train.reduce_bucket and train.wait_bucket share comes first.

func.func @f(%0: !train.bucket<@b : tensor<4xf32>>) -> !train.bucket<@b : tensor<4xf32>> {
  // expected-error @below {{refers to bucket @b, which the module does not define}}
  %1 = train.reduce_bucket %0 : !train.bucket<@b : tensor<4xf32>>
  return %1 : !train.bucket<@b : tensor<4xf32>>
}

// -----

// expected-note @below {{the bucket's values have type '!train.bucket<@b : tensor<8xf32>>'}}
train.bucket @b of f32 ["a" : tensor<8xf32>]
func.func @f(%0: !train.bucket<@b : tensor<4xf32>>) -> !train.bucket<@b : tensor<4xf32>> {
  // expected-error @below {{has a bucket of type '!train.bucket<@b : tensor<4xf32>>'}}
  %1 = train.reduce_bucket %0 : !train.bucket<@b : tensor<4xf32>>
  return %1 : !train.bucket<@b : tensor<4xf32>>
}

// -----

train.bucket @b of f32 ["a" : tensor<4xf32>]
func.func @f(%0: !train.bucket<@b : tensor<4xf32>>, %g: tensor<4xf32>)
    -> (!train.bucket<@b : tensor<4xf32>>, !train.bucket<@b : tensor<4xf32>>) {
  // expected-error @below {{uses a bucket value that another op uses too; a bucket value has exactly one user}}
  %1 = train.contribute %g to "a" in %0 : tensor<4xf32>, !train.bucket<@b : tensor<4xf32>>
  // expected-note @below {{taken here}}
  %2 = train.contribute %g to "a" in %0 : tensor<4xf32>, !train.bucket<@b : tensor<4xf32>>
  return %1, %2 : !train.bucket<@b : tensor<4xf32>>, !train.bucket<@b : tensor<4xf32>>
}

// -----

// expected-note @below {{the bucket has no member with that name}}
train.bucket @b of f32 ["a" : tensor<4xf32>]
func.func @f(%0: !train.bucket<@b : tensor<4xf32>>, %g: tensor<4xf32>) -> !train.bucket<@b : tensor<4xf32>> {
  // expected-error @below {{contributes 'tensor<4xf32>' to 'c'}}
  %1 = train.contribute %g to "c" in %0 : tensor<4xf32>, !train.bucket<@b : tensor<4xf32>>
  return %1 : !train.bucket<@b : tensor<4xf32>>
}

// -----

// expected-note @below {{the bucket has it with type 'tensor<4xf32>'}}
train.bucket @b of f32 ["a" : tensor<4xf32>]
func.func @f(%0: !train.bucket<@b : tensor<4xf32>>, %g: tensor<2x2xf32>) -> !train.bucket<@b : tensor<4xf32>> {
  // expected-error @below {{contributes 'tensor<2x2xf32>' to 'a'}}
  %1 = train.contribute %g to "a" in %0 : tensor<2x2xf32>, !train.bucket<@b : tensor<4xf32>>
  return %1 : !train.bucket<@b : tensor<4xf32>>
}

// -----

// expected-note @below {{the bucket is defined here}}
train.bucket @b of f32 ["a" : tensor<4xf32>]
func.func @f(%0: !train.bucket<@b : tensor<4xf32>>) -> tensor<2x2xf32> {
  // expected-error @below {{expects a result for each of the bucket's 1 members, found types 'tensor<2x2xf32>'}}
  %1 = train.wait_bucket %0 : !train.bucket<@b : tensor<4xf32>> -> tensor<2x2xf32>
  return %1 : tensor<2x2xf32>
}

// -----

// expected-error @below {{expects the name of @b, found #train.role<accumulator "c">}}
func.func @f(%0: !train.bucket<@b : tensor<4xf32>> {train.role = #train.role<accumulator "c">}) {
  return
}

// -----

// expected-error @below {{expects a statically shaped tensor for #train.role<parameter "b">, found '!train.bucket<@b : tensor<4xf32>>'}}
func.func @f(%0: !train.bucket<@b : tensor<4xf32>> {train.role = #train.role<parameter "b">}) {
  return
}

// -----

dist.mesh @mesh ["dp" = 2]
// expected-note @below {{the bucket is defined here}}
train.bucket @b of f32 ["a" : tensor<4xf32, #dist.on<@mesh, dp = P>>] over @mesh ["dp"]
func.func @f(%0: !train.bucket<@b : tensor<4xf32>>) -> tensor<4xf32, #dist.on<@mesh, dp = P>> {
  // expected-error @below {{expects a result for each of the bucket's 1 members}}
  %1 = train.wait_bucket %0 : !train.bucket<@b : tensor<4xf32>> -> tensor<4xf32, #dist.on<@mesh, dp = P>>
  return %1 : tensor<4xf32, #dist.on<@mesh, dp = P>>
}

// -----

dist.mesh @mesh ["dp" = 2]
// expected-note @below {{the bucket has it with type}}
train.bucket @b of f32 ["a" : tensor<4xf32, #dist.on<@mesh, dp = P>>] over @mesh ["dp"]
func.func @f(%0: !train.bucket<@b : tensor<4xf32>>, %g: tensor<4xf32, #dist.on<@mesh, dp = R>>) -> !train.bucket<@b : tensor<4xf32>> {
  // expected-error @below {{to 'a'}}
  %1 = train.contribute %g to "a" in %0 : tensor<4xf32, #dist.on<@mesh, dp = R>>, !train.bucket<@b : tensor<4xf32>>
  return %1 : !train.bucket<@b : tensor<4xf32>>
}
