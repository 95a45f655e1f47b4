// RUN: cleave-opt %s --split-input-file --verify-diagnostics

// expected-error @below {{expects a role for argument 0}}
func.func @f(%a: tensor<f32>) attributes {train.phase = #train.phase<microbatch>} {
  return
}

// -----

// expected-error @below {{expects a role for result 0}}
func.func @f(%a: tensor<f32> {train.role = #train.role<seed>}) -> tensor<f32> attributes {train.phase = #train.phase<microbatch>} {
  return %a : tensor<f32>
}

// -----

// expected-error @below {{has two arguments with #train.role<seed>}}
func.func @f(%a: tensor<f32> {train.role = #train.role<seed>},
                 %b: tensor<f32> {train.role = #train.role<seed>}) attributes {train.phase = #train.phase<microbatch>} {
  return
}

// -----

// expected-error @below {{has two results with #train.role<loss>}}
func.func @f(%a: tensor<f32> {train.role = #train.role<seed>})
    -> (tensor<f32> {train.role = #train.role<loss>}, tensor<f32> {train.role = #train.role<loss>})
    attributes {train.phase = #train.phase<microbatch>} {
  return %a, %a : tensor<f32>, tensor<f32>
}

// -----

// expected-error @below {{expects an argument that result 0, #train.role<buffer "b">, is the new value of}}
func.func @f(%a: tensor<f32> {train.role = #train.role<seed>})
    -> (tensor<f32> {train.role = #train.role<buffer "b">}) attributes {train.phase = #train.phase<microbatch>} {
  return %a : tensor<f32>
}

// -----

// expected-error @below {{expects #train.role<buffer "b"> to keep its type 'tensor<f32>', found 'tensor<2xf32>'}}
func.func @f(%a: tensor<f32> {train.role = #train.role<buffer "b">},
                 %b: tensor<2xf32> {train.role = #train.role<input "x">})
    -> (tensor<2xf32> {train.role = #train.role<buffer "b">}) attributes {train.phase = #train.phase<microbatch>} {
  return %b : tensor<2xf32>
}

// -----

// expected-error @below {{expects #train.role<gradient "w"> to keep its type 'tensor<f32>', found 'tensor<2xf32>'}}
func.func @f(%a: tensor<f32> {train.role = #train.role<accumulator "w">},
                 %b: tensor<2xf32> {train.role = #train.role<input "x">})
    -> (tensor<2xf32> {train.role = #train.role<gradient "w">}) attributes {train.phase = #train.phase<microbatch>} {
  return %b : tensor<2xf32>
}

// -----

// expected-error @below {{expects a gradient result for the accumulator of "w"}}
func.func @f(%a: tensor<f32> {train.role = #train.role<accumulator "w">}) attributes {train.phase = #train.phase<microbatch>} {
  return
}

// -----

// expected-error @below {{expects a body of one block, as part of a program}}
func.func private @f(tensor<f32> {train.role = #train.role<seed>}) attributes {train.phase = #train.phase<microbatch>}

// -----

// expected-error @below {{expects 'train.phase' to be a #train.phase on a function}}
func.func @f() attributes {train.phase = "microbatch"} {
  return
}

// -----

// expected-error @below {{expects 'train.draws' to be a count (i64) on a function}}
func.func @f() attributes {train.draws = -1 : i64} {
  return
}

// -----

// expected-error @below {{expects argument attribute array to have the same number of elements as the number of function arguments, got 0, but expected 1}}
"func.func"() <{arg_attrs = [], function_type = (tensor<f32>) -> (), sym_name = "f"}> ({
^bb0(%a: tensor<f32>):
  "func.return"() : () -> ()
}) {train.phase = #train.phase<microbatch>} : () -> ()

// -----

// expected-error @below {{requires attribute 'function_type'}}
"func.func"() <{sym_name = "f"}> ({
  "func.return"() : () -> ()
}) {train.phase = #train.phase<microbatch>} : () -> ()
