// RUN: cleave-opt %s --bucket-gradients --split-input-file --verify-diagnostics
// RUN: not cleave-opt %S/bucket-gradients.mlir --bucket-gradients="bucket-size-mb=0" 2>&1 | FileCheck %s
// RUN: not cleave-opt %S/bucket-gradients.mlir --bucket-gradients="bucket-size-mb=nan" 2>&1 | FileCheck %s --check-prefix=NAN
// RUN: not cleave-opt %S/bucket-gradients.mlir --bucket-gradients="first-bucket-mb=nan" 2>&1 | FileCheck %s --check-prefix=FIRST
// NAN: error: expects positive bucket sizes and a nonnegative number of accumulations, found bucket-size-mb=nan
// FIRST: error: expects positive bucket sizes and a nonnegative number of accumulations, found bucket-size-mb=2.500000e+01 first-bucket-mb=nan
// CHECK: error: expects positive bucket sizes and a nonnegative number of accumulations, found bucket-size-mb=0.000000e+00 first-bucket-mb=1.000000e+00 require-accumulations=0

// expected-error @below {{has neither an update nor a reduce function, so there are no gradients to bucket; run --sync-gradients first}}
module {
func.func @microbatch(%w: tensor<4xf32> {train.role = #train.role<parameter "w">})
    -> (tensor<4xf32> {train.role = #train.role<gradient "w">})
    attributes {train.phase = #train.phase<microbatch>} {
  return %w : tensor<4xf32>
}
}

// -----

// The sum is used a second time: the bucket would have it only after the step.
// expected-error @below {{makes #train.role<gradient "w">, which cannot be bucketed: it is not exactly one `train.accumulate` into its accumulator}}
func.func @microbatch(%w: tensor<4xf32> {train.role = #train.role<parameter "w">},
                      %a: tensor<4xf32> {train.role = #train.role<accumulator "w">})
    -> (tensor<4xf32> {train.role = #train.role<gradient "w">},
        tensor<4xf32> {train.role = #train.role<output "0">})
    attributes {train.phase = #train.phase<microbatch>} {
  // expected-note @below {{produced here}}
  %s = train.accumulate %w into %a : tensor<4xf32>
  // expected-note @below {{the sum is used here}}
  %n = aten.neg(%s) : (tensor<4xf32>) -> tensor<4xf32>
  return %s, %n : tensor<4xf32>, tensor<4xf32>
}
func.func @update(%w: tensor<4xf32> {train.role = #train.role<parameter "w">},
                  %g: tensor<4xf32> {train.role = #train.role<gradient "w">})
    -> (tensor<4xf32> {train.role = #train.role<parameter "w">})
    attributes {train.phase = #train.phase<update>} {
  return %g : tensor<4xf32>
}

// -----

dist.mesh @mesh ["dp" = 2]
func.func @microbatch(%w: tensor<4xf32> {train.role = #train.role<parameter "w">})
    -> (tensor<4xf32> {train.role = #train.role<gradient "w">})
    attributes {train.phase = #train.phase<microbatch>} {
  return %w : tensor<4xf32>
}
func.func @update(%w: tensor<4xf32> {train.role = #train.role<parameter "w">},
                  %g: tensor<4xf32> {train.role = #train.role<gradient "w">})
    -> (tensor<4xf32> {train.role = #train.role<parameter "w">})
    attributes {train.phase = #train.phase<update>} {
  // expected-note @below {{first reduced here}}
  %0 = dist.all_reduce sum(%g) over @mesh ["dp"] : tensor<4xf32>
  // expected-error @below {{reduces #train.role<gradient "w"> over "dp" again}}
  %1 = dist.all_reduce sum(%0) over @mesh ["dp"] : tensor<4xf32>
  return %1 : tensor<4xf32>
}

// -----

dist.mesh @mesh ["dp" = 2]
func.func @microbatch(%w: tensor<4xf32> {train.role = #train.role<parameter "w">})
    -> (tensor<4xf32> {train.role = #train.role<gradient "w">})
    attributes {train.phase = #train.phase<microbatch>} {
  return %w : tensor<4xf32>
}
// expected-error @below {{takes #train.role<gradient "w">, which cannot be bucketed: its reduction is not a sum, or not its only use}}
func.func @update(%w: tensor<4xf32> {train.role = #train.role<parameter "w">},
                  %g: tensor<4xf32> {train.role = #train.role<gradient "w">})
    -> (tensor<4xf32> {train.role = #train.role<parameter "w">})
    attributes {train.phase = #train.phase<update>} {
  // expected-note @below {{reduced here}}
  %0 = dist.all_reduce sum(%g) over @mesh ["dp"] : tensor<4xf32>
  %1 = aten.add(%0, %g) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return %1 : tensor<4xf32>
}

// -----

func.func @microbatch(%w: tensor<4xi64> {train.role = #train.role<parameter "w">})
    -> (tensor<4xi64> {train.role = #train.role<gradient "w">})
    attributes {train.phase = #train.phase<microbatch>} {
  return %w : tensor<4xi64>
}
// expected-error @below {{takes #train.role<gradient "w"> of type 'tensor<4xi64>', which cannot be bucketed: it is not of a floating-point or complex type}}
func.func @update(%w: tensor<4xi64> {train.role = #train.role<parameter "w">},
                  %g: tensor<4xi64> {train.role = #train.role<gradient "w">})
    -> (tensor<4xi64> {train.role = #train.role<parameter "w">})
    attributes {train.phase = #train.phase<update>} {
  return %g : tensor<4xi64>
}

// -----

train.bucket @bucket0 of f32 ["w" : tensor<4xf32>]
func.func @microbatch(%w: tensor<4xf32> {train.role = #train.role<parameter "w">},
                      %b: !train.bucket<@bucket0 : tensor<4xf32>> {train.role = #train.role<accumulator "bucket0">})
    -> (!train.bucket<@bucket0 : tensor<4xf32>> {train.role = #train.role<gradient "bucket0">})
    attributes {train.phase = #train.phase<microbatch>} {
  %0 = train.contribute %w to "w" in %b : tensor<4xf32>, !train.bucket<@bucket0 : tensor<4xf32>>
  %1 = train.reduce_bucket %0 : !train.bucket<@bucket0 : tensor<4xf32>>
  return %1 : !train.bucket<@bucket0 : tensor<4xf32>>
}
// expected-error @below {{has the bucket "bucket0" already; gradients are bucketed once}}
func.func @update(%w: tensor<4xf32> {train.role = #train.role<parameter "w">},
                  %b: !train.bucket<@bucket0 : tensor<4xf32>> {train.role = #train.role<gradient "bucket0">})
    -> (tensor<4xf32> {train.role = #train.role<parameter "w">})
    attributes {train.phase = #train.phase<update>} {
  %g = train.wait_bucket %b : !train.bucket<@bucket0 : tensor<4xf32>> -> tensor<4xf32>
  return %g : tensor<4xf32>
}

// -----

// The reduce function does more than a bucket can.
dist.mesh @mesh ["fsdp" = 2]
func.func @microbatch(%w: tensor<2xf32> {train.role = #train.role<parameter "w">},
                      %x: tensor<4xf32> {train.role = #train.role<input "x">})
    -> (tensor<4xf32> {train.role = #train.role<gradient "w">})
    attributes {train.phase = #train.phase<microbatch>} {
  return %x : tensor<4xf32>
}
// expected-error @below {{takes #train.role<gradient "w">, which cannot be bucketed: a bucket sums over mesh axes and scatters once, but the gradient has further communication here}}
func.func @reduce(%g: tensor<4xf32> {train.role = #train.role<gradient "w">})
    -> (tensor<2xf32> {train.role = #train.role<gradient "w">})
    attributes {train.phase = #train.phase<reduce>} {
  // expected-note @below {{it is used here}}
  %0 = aten.neg(%g) : (tensor<4xf32>) -> tensor<4xf32>
  %1 = dist.reduce_scatter sum(%0) dim 0 over @mesh ["fsdp"] : tensor<4xf32> -> tensor<2xf32>
  return %1 : tensor<2xf32>
}
func.func @update(%w: tensor<2xf32> {train.role = #train.role<parameter "w">},
                  %g: tensor<2xf32> {train.role = #train.role<gradient "w">})
    -> (tensor<2xf32> {train.role = #train.role<parameter "w">})
    attributes {train.phase = #train.phase<update>} {
  return %g : tensor<2xf32>
}

// -----

// All ranks make the same gradient: a sum over them would only multiply it.
dist.mesh @mesh ["dp" = 2, "cp" = 2]
func.func @microbatch(%w: tensor<4xf32> {train.role = #train.role<parameter "w">},
                      %x: tensor<4xf32> {train.role = #train.role<input "x" batch 0 over ["dp"]>})
    -> (tensor<4xf32> {train.role = #train.role<gradient "w">})
    attributes {train.phase = #train.phase<microbatch>} {
  // expected-note @below {{the gradient is produced here}}
  %0 = aten.neg(%x) : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
func.func @update(%w: tensor<4xf32> {train.role = #train.role<parameter "w">},
                  %g: tensor<4xf32> {train.role = #train.role<gradient "w">})
    -> (tensor<4xf32> {train.role = #train.role<parameter "w">})
    attributes {train.phase = #train.phase<update>} {
  // expected-error @below {{reduces #train.role<gradient "w"> over "cp", on which it does not vary: no input is divided over that axis, so the sum would only scale it}}
  %0 = dist.all_reduce sum(%g) over @mesh ["dp", "cp"] : tensor<4xf32>
  return %0 : tensor<4xf32>
}
