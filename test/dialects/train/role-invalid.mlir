// RUN: cleave-opt %s --split-input-file --verify-diagnostics

// expected-error @below {{expects a #train.role for 'train.role', found 1 : i64}}
func.func @not_a_role(%a: tensor<f32> {train.role = 1 : i64}) {
  return
}

// -----

// expected-error @below {{expects a #train.role for 'train.role', found "loss"}}
func.func @not_a_role_result(%a: tensor<f32>) -> (tensor<f32> {train.role = "loss"}) {
  return %a : tensor<f32>
}

// -----

// expected-error @below {{expects a statically shaped tensor for #train.role<seed>, found 'f32'}}
func.func @not_a_tensor(%a: f32 {train.role = #train.role<seed>}) {
  return
}

// -----

// expected-error @below {{expects a statically shaped tensor for #train.role<input "x">, found 'tensor<?xf32>'}}
func.func @dynamic_shape(%a: tensor<?xf32> {train.role = #train.role<input "x">}) {
  return
}

// -----

// expected-error @below {{expects #train.role<output "0"> only on a result}}
func.func @output_argument(%a: tensor<f32> {train.role = #train.role<output "0">}) {
  return
}

// -----

// expected-error @below {{expects #train.role<loss> only on a result}}
func.func @loss_argument(%a: tensor<f32> {train.role = #train.role<loss>}) {
  return
}

// -----

// expected-error @below {{expects #train.role<constant "c"> only on an argument}}
func.func @constant_result(%a: tensor<f32>) -> (tensor<f32> {train.role = #train.role<constant "c">}) {
  return %a : tensor<f32>
}

// -----

// expected-error @below {{expects #train.role<input "x"> only on an argument}}
func.func @input_result(%a: tensor<f32>) -> (tensor<f32> {train.role = #train.role<input "x">}) {
  return %a : tensor<f32>
}

// -----

// expected-error @below {{expects #train.role<target "y"> only on an argument}}
func.func @target_result(%a: tensor<f32>) -> (tensor<f32> {train.role = #train.role<target "y">}) {
  return %a : tensor<f32>
}

// -----

// expected-error @below {{expects #train.role<accumulator "w"> only on an argument}}
func.func @accumulator_result(%a: tensor<f32>) -> (tensor<f32> {train.role = #train.role<accumulator "w">}) {
  return %a : tensor<f32>
}

// -----

// expected-error @below {{expects #train.role<seed> only on an argument}}
func.func @seed_result(%a: tensor<f32>) -> (tensor<f32> {train.role = #train.role<seed>}) {
  return %a : tensor<f32>
}

// -----

// expected-error @below {{expects #train.role<step> only on an argument}}
func.func @step_result(%a: tensor<f32>) -> (tensor<f32> {train.role = #train.role<step>}) {
  return %a : tensor<f32>
}

// -----

// expected-error @below {{expects #train.role<rng_seed> only on an argument}}
func.func @rng_seed_result(%a: tensor<i64>) -> (tensor<i64> {train.role = #train.role<rng_seed>}) {
  return %a : tensor<i64>
}

// -----

// expected-error @below {{expects #train.role<rng_offset> only on an argument}}
func.func @rng_offset_result(%a: tensor<i64>) -> (tensor<i64> {train.role = #train.role<rng_offset>}) {
  return %a : tensor<i64>
}

// -----

// expected-error @below {{expects #train.role<parameter> to have a name}}
func.func @parameter_without_name(%a: tensor<f32> {train.role = #train.role<parameter>}) {
  return
}

// -----

// expected-error @below {{expects #train.role<buffer> to have a name}}
func.func @buffer_without_name(%a: tensor<f32> {train.role = #train.role<buffer>}) {
  return
}

// -----

// expected-error @below {{expects #train.role<constant> to have a name}}
func.func @constant_without_name(%a: tensor<f32> {train.role = #train.role<constant>}) {
  return
}

// -----

// expected-error @below {{expects #train.role<input> to have a name}}
func.func @input_without_name(%a: tensor<f32> {train.role = #train.role<input>}) {
  return
}

// -----

// expected-error @below {{expects #train.role<target> to have a name}}
func.func @target_without_name(%a: tensor<f32> {train.role = #train.role<target>}) {
  return
}

// -----

// expected-error @below {{expects #train.role<accumulator> to have a name}}
func.func @accumulator_without_name(%a: tensor<f32> {train.role = #train.role<accumulator>}) {
  return
}

// -----

// expected-error @below {{expects #train.role<gradient> to have a name}}
func.func @gradient_without_name(%a: tensor<f32> {train.role = #train.role<gradient>}) {
  return
}

// -----

// expected-error @below {{expects #train.role<seed "s"> to have no name}}
func.func @named_seed(%a: tensor<f32> {train.role = #train.role<seed "s">}) {
  return
}

// -----

// expected-error @below {{expects a slot for optimizer state only, found #train.role<optimizer_state "w">}}
func.func @state_without_slot(%a: tensor<f32> {train.role = #train.role<optimizer_state "w">}) {
  return
}

// -----

// expected-error @below {{expects a slot for optimizer state only, found #train.role<parameter "w" slot "s">}}
func.func @slot_of_parameter(%a: tensor<f32> {train.role = #train.role<parameter "w" slot "s">}) {
  return
}

// -----

// expected-error @below {{expects a 0-d tensor for #train.role<seed>, found 'tensor<1xf32>'}}
func.func @seed_of_rank_1(%a: tensor<1xf32> {train.role = #train.role<seed>}) {
  return
}

// -----

// expected-error @below {{expects elements of type 'f32' for #train.role<step>, found 'tensor<i64>'}}
func.func @step_type(%a: tensor<i64> {train.role = #train.role<step>}) {
  return
}

// -----

// expected-error @below {{expects elements of type 'i64' for #train.role<rng_seed>, found 'tensor<f32>'}}
func.func @rng_seed_type(%a: tensor<f32> {train.role = #train.role<rng_seed>}) {
  return
}

// -----

// expected-error @below {{expects the batch dimension of #train.role<input "x" batch 1> to be one of 'tensor<4xf32>'}}
func.func @batch_out_of_range(%a: tensor<4xf32> {train.role = #train.role<input "x" batch 1>}) {
  return
}

// -----

// expected-error @below {{expects the batch dimension of #train.role<input "x" batch -1> to be one of 'tensor<4xf32>'}}
func.func @negative_batch(%a: tensor<4xf32> {train.role = #train.role<input "x" batch -1>}) {
  return
}

// -----

// expected-error @below {{expects a batch dimension on inputs, targets and outputs only, found #train.role<parameter "w" batch 0>}}
func.func @batch_of_parameter(%a: tensor<4xf32> {train.role = #train.role<parameter "w" batch 0>}) {
  return
}

// -----

// expected-error @below {{expects a batch dimension to be divided, found #train.role<input "x" over ["dp"]>}}
func.func @over_without_batch(%a: tensor<4xf32> {train.role = #train.role<input "x" over ["dp"]>}) {
  return
}

// -----

// expected-error @below {{lists a mesh axis twice in #train.role<input "x" batch 0 over ["dp", "dp"]>}}
func.func @over_twice(%a: tensor<4xf32> {train.role = #train.role<input "x" batch 0 over ["dp", "dp"]>}) {
  return
}

// -----

// expected-error @below {{expects aliases on parameters and buffers only, found #train.role<constant "x" aliases ["y"]>}}
func.func @aliases_of_constant(%a: tensor<4xf32> {train.role = #train.role<constant "x" aliases ["y"]>}) {
  return
}

// -----

// expected-error @below {{expects 'train.transient' to be a list of buffers' names on a module}}
module attributes {train.transient = [1]} {}

// -----

// expected-error @below {{expects 'train.loss_state' to be a list of names that begin with 'loss.' on a module}}
module attributes {train.loss_state = ["weight"]} {}

// -----

// expected-error @below {{expects 'frozen' on parameters only, found #train.role<input "x" frozen>}}
func.func @frozen_input(%a: tensor<4xf32> {train.role = #train.role<input "x" frozen>}) {
  return
}

// -----

// expected-error @below {{unknown argument attribute "train.rolle"}}
func.func @unknown_argument_attribute(%a: tensor<f32> {train.rolle = 1 : i64}) {
  return
}

// -----

// expected-error @below {{unknown result attribute "train.rolle"}}
func.func @unknown_result_attribute(%a: tensor<f32>) -> (tensor<f32> {train.rolle = 1 : i64}) {
  return %a : tensor<f32>
}

// -----

// expected-error @below {{unknown role 'weight'}}
func.func @unknown_role(%a: tensor<f32> {train.role = #train.role<weight "w">}) {
  return
}

// -----

// expected-error @below {{a role has no field 'dim'}}
func.func @unknown_field(%a: tensor<f32> {train.role = #train.role<parameter "w" dim 0>}) {
  return
}

// -----

// expected-error @below {{expected a list of strings, found [1]}}
func.func @aliases_not_strings(%a: tensor<f32> {train.role = #train.role<parameter "w" aliases [1]>}) {
  return
}
