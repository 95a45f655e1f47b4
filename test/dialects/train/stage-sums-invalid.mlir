// RUN: cleave-opt %s --split-backward --split-input-file --verify-diagnostics

// A program without stages has the one term.
func.func @microbatch(%w: tensor<4xf32> {train.role = #train.role<parameter "w">})
    -> (tensor<4xf32> {train.role = #train.role<gradient "w">})
    attributes {train.phase = #train.phase<microbatch>} {
  return %w : tensor<4xf32>
}
// expected-error @below {{takes the sum over stages "n", for which no stage returns a term}}
func.func @update(%w: tensor<4xf32> {train.role = #train.role<parameter "w">},
                  %n: tensor<f32> {train.role = #train.role<stage_sum "n">})
    -> (tensor<4xf32> {train.role = #train.role<parameter "w">})
    attributes {train.phase = #train.phase<update>} {
  return %w : tensor<4xf32>
}

// -----

// Terms come from reduce functions.
// expected-error @below {{of phase backward returns #train.role<stage_sum "n">, but reduce functions return the terms of a sum over stages, and updates take the sum}}
func.func @b0(%s: tensor<f32> {train.role = #train.role<seed>}, %a: tensor<f32> {train.role = #train.role<accumulator "w">})
    -> (tensor<f32> {train.role = #train.role<gradient "w">}, tensor<f32> {train.role = #train.role<stage_sum "n">})
    attributes {train.phase = #train.phase<backward>, train.stage = 0 : i64} {
  return %a, %s : tensor<f32>, tensor<f32>
}
func.func @f0(%w: tensor<f32> {train.role = #train.role<parameter "w">}) -> (tensor<f32> {train.role = #train.role<loss>})
    attributes {train.phase = #train.phase<forward>, train.stage = 0 : i64} {
  return %w : tensor<f32>
}

// -----

// One type, whatever the stage.
func.func @f0(%w: tensor<4xf32> {train.role = #train.role<parameter "w">}) -> (tensor<4xf32> {train.role = #train.role<output "0">})
    attributes {train.phase = #train.phase<forward>, train.stage = 0 : i64} {
  return %w : tensor<4xf32>
}
func.func @b0(%a: tensor<4xf32> {train.role = #train.role<accumulator "w">}) -> (tensor<4xf32> {train.role = #train.role<gradient "w">})
    attributes {train.phase = #train.phase<backward>, train.stage = 0 : i64} {
  return %a : tensor<4xf32>
}
// expected-note @below {{this function has it with type 'tensor<4xf32>'}}
func.func @r0(%g: tensor<4xf32> {train.role = #train.role<gradient "w">})
    -> (tensor<4xf32> {train.role = #train.role<gradient "w">}, tensor<4xf32> {train.role = #train.role<stage_sum "n">})
    attributes {train.phase = #train.phase<reduce>, train.stage = 0 : i64} {
  return %g, %g : tensor<4xf32>, tensor<4xf32>
}
// expected-error @below {{takes #train.role<stage_sum "n"> of type 'tensor<2xf32>'}}
func.func @u0(%w: tensor<4xf32> {train.role = #train.role<parameter "w">}, %n: tensor<2xf32> {train.role = #train.role<stage_sum "n">})
    -> (tensor<4xf32> {train.role = #train.role<parameter "w">})
    attributes {train.phase = #train.phase<update>, train.stage = 0 : i64} {
  return %w : tensor<4xf32>
}

// -----

// A sum needs terms ...
func.func @f0(%w: tensor<4xf32> {train.role = #train.role<parameter "w">}) -> (tensor<4xf32> {train.role = #train.role<output "0">})
    attributes {train.phase = #train.phase<forward>, train.stage = 0 : i64} {
  return %w : tensor<4xf32>
}
// expected-error @below {{takes the sum over stages "n", for which no stage returns a term}}
func.func @u0(%w: tensor<4xf32> {train.role = #train.role<parameter "w">}, %n: tensor<2xf32> {train.role = #train.role<stage_sum "n">})
    -> (tensor<4xf32> {train.role = #train.role<parameter "w">})
    attributes {train.phase = #train.phase<update>, train.stage = 0 : i64} {
  return %w : tensor<4xf32>
}

// -----

// ... and somebody who takes it.
func.func @f0(%w: tensor<4xf32> {train.role = #train.role<parameter "w">}) -> (tensor<4xf32> {train.role = #train.role<output "0">})
    attributes {train.phase = #train.phase<forward>, train.stage = 0 : i64} {
  return %w : tensor<4xf32>
}
func.func @b0(%a: tensor<4xf32> {train.role = #train.role<accumulator "w">}) -> (tensor<4xf32> {train.role = #train.role<gradient "w">})
    attributes {train.phase = #train.phase<backward>, train.stage = 0 : i64} {
  return %a : tensor<4xf32>
}
// expected-error @below {{returns a term of the sum over stages "n", which no update takes}}
func.func @r0(%g: tensor<4xf32> {train.role = #train.role<gradient "w">})
    -> (tensor<4xf32> {train.role = #train.role<gradient "w">}, tensor<4xf32> {train.role = #train.role<stage_sum "n">})
    attributes {train.phase = #train.phase<reduce>, train.stage = 0 : i64} {
  return %g, %g : tensor<4xf32>, tensor<4xf32>
}

// -----

// A bucket that is awaited before the update is given back as all of its members.
train.bucket @b of f32 ["v" : tensor<2xf32>, "w" : tensor<2xf32>]
func.func @f0(%v: tensor<2xf32> {train.role = #train.role<parameter "v">}, %w: tensor<2xf32> {train.role = #train.role<parameter "w">})
    -> (tensor<2xf32> {train.role = #train.role<output "0">})
    attributes {train.phase = #train.phase<forward>, train.stage = 0 : i64} {
  return %w : tensor<2xf32>
}
func.func @b0(%b: !train.bucket<@b : tensor<4xf32>> {train.role = #train.role<accumulator "b">}, %s: tensor<2xf32> {train.role = #train.role<parameter "w">})
    -> (!train.bucket<@b : tensor<4xf32>> {train.role = #train.role<gradient "b">})
    attributes {train.phase = #train.phase<backward>, train.stage = 0 : i64} {
  %1 = train.contribute %s to "w" in %b : tensor<2xf32>, !train.bucket<@b : tensor<4xf32>>
  %2 = train.contribute %s to "v" in %1 : tensor<2xf32>, !train.bucket<@b : tensor<4xf32>>
  %3 = train.reduce_bucket %2 : !train.bucket<@b : tensor<4xf32>>
  return %3 : !train.bucket<@b : tensor<4xf32>>
}
// expected-error @below {{takes #train.role<gradient "b"> and does not return the gradient of "w", which is in that bucket}}
func.func @r0(%b: !train.bucket<@b : tensor<4xf32>> {train.role = #train.role<gradient "b">})
    -> (tensor<2xf32> {train.role = #train.role<gradient "v">})
    attributes {train.phase = #train.phase<reduce>, train.stage = 0 : i64} {
  %v, %w = train.wait_bucket %b : !train.bucket<@b : tensor<4xf32>> -> tensor<2xf32>, tensor<2xf32>
  return %v : tensor<2xf32>
}
