// RUN: cleave-opt %s --split-input-file --verify-diagnostics

func.func @phase_on_op(%a: tensor<2x2xf32>) {
  // expected-error @+1 {{expects 'train.phase' to be a #train.phase on a function}}
  %0 = aten.t(%a) {train.phase = #train.phase<update>} : (tensor<2x2xf32>) -> tensor<2x2xf32>
  return
}

// -----

func.func @draws_on_op(%a: tensor<2x2xf32>) {
  // expected-error @+1 {{expects 'train.draws' to be a count (i64) on a function}}
  %0 = aten.t(%a) {train.draws = 1 : i64} : (tensor<2x2xf32>) -> tensor<2x2xf32>
  return
}

// -----

func.func @checkpoint(%a: tensor<2x2xf32>) {
  // expected-error @+1 {{expects 'train.checkpoint' to be a #train.checkpoint, found 1 : i64}}
  %0 = aten.t(%a) {train.checkpoint = 1 : i64} : (tensor<2x2xf32>) -> tensor<2x2xf32>
  return
}

// -----

func.func @policy(%a: tensor<2x2xf32>) {
  // expected-error @+2 {{expected ::cleave::train::CheckpointPolicy to be one of: must_save, prefer_save, must_recompute, prefer_recompute}}
  // expected-error @+1 {{failed to parse Train_CheckpointAttr parameter 'policy' which is to be a `::cleave::train::CheckpointPolicy`}}
  %0 = aten.t(%a) {train.checkpoint = #train.checkpoint<forget, graph 0>} : (tensor<2x2xf32>) -> tensor<2x2xf32>
  return
}

// -----

func.func @backward(%a: tensor<2x2xf32>) {
  // expected-error @+1 {{expects 'train.backward' to have no value, found 1 : i64}}
  %0 = aten.t(%a) {train.backward = 1 : i64} : (tensor<2x2xf32>) -> tensor<2x2xf32>
  return
}

// -----

func.func @recomputed(%a: tensor<2x2xf32>) {
  // expected-error @+1 {{expects 'train.recomputed' to have no value, found true}}
  %0 = aten.t(%a) {train.recomputed = true} : (tensor<2x2xf32>) -> tensor<2x2xf32>
  return
}

// -----

func.func @activation_gradient(%a: tensor<2x2xf32>) {
  // expected-error @+1 {{expects 'train.activation_gradient' to have no value, found 1 : i64}}
  %0 = aten.t(%a) {train.activation_gradient = 1 : i64} : (tensor<2x2xf32>) -> tensor<2x2xf32>
  return
}

// -----

func.func @stage_type(%a: tensor<2x2xf32>) {
  // expected-error @+1 {{expects 'train.stage' to be a stage's number (i64), found "first"}}
  %0 = aten.t(%a) {train.stage = "first"} : (tensor<2x2xf32>) -> tensor<2x2xf32>
  return
}

// -----

func.func @negative_stage(%a: tensor<2x2xf32>) {
  // expected-error @+1 {{expects 'train.stage' to be a stage's number (i64), found -1 : i64}}
  %0 = aten.t(%a) {train.stage = -1 : i64} : (tensor<2x2xf32>) -> tensor<2x2xf32>
  return
}

// -----

func.func @unknown(%a: tensor<2x2xf32>) {
  // expected-error @+1 {{unknown attribute 'train.checkpiont'}}
  %0 = aten.t(%a) {train.checkpiont = 1 : i64} : (tensor<2x2xf32>) -> tensor<2x2xf32>
  return
}

// -----

func.func @unknown_phase(%a: tensor<2x2xf32>) {
  // expected-error @+2 {{failed to parse Train_PhaseAttr parameter 'value'}}
  // expected-error @+1 {{expected ::cleave::train::Phase to be one of: microbatch, update}}
  %0 = aten.t(%a) {train.phase = #train.phase<warmup>} : (tensor<2x2xf32>) -> tensor<2x2xf32>
  return
}
