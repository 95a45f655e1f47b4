// RUN: cleave-opt %s --annotate-placements=plan=%S/Inputs/annotate.json | FileCheck %s
// RUN: cleave-opt %s --annotate-placements=plan=%S/Inputs/annotate.json | cleave-opt | FileCheck %s

// `up` has a Linear's weight, [out, in], and `down` one of Hugging Face's Conv1D, [in, out]. Column
// parallel cuts the output, row parallel the input, in the forward and in both products of the
// backward. FSDP is a default: it takes dimension 0, the minor cut where tp has it already, but not
// `scale`, which another rule places.

// CHECK: dist.mesh @mesh ["dp" = 2, "tp" = 4]
// CHECK-LABEL: func.func @microbatch
func.func @microbatch(
    // CHECK: dist.placement = #S0o1_dp_S0o0_tp, train.role = #train.role<parameter "h.0.up.weight">
    %up: tensor<16x8xf32> {train.role = #train.role<parameter "h.0.up.weight">},
    // CHECK: dist.placement = #S0o1_dp_S0o0_tp, train.role = #train.role<parameter "h.0.down.weight">
    %down: tensor<16x8xf32> {train.role = #train.role<parameter "h.0.down.weight">},
    // CHECK: dist.placement = #dist.on<@mesh, dp = S(0), tp = R>, train.role = #train.role<parameter "h.0.down.bias">
    %bias: tensor<8xf32> {train.role = #train.role<parameter "h.0.down.bias">},
    // CHECK: dist.placement = #dist.on<@mesh, dp = S(0), tp = R>, train.role = #train.role<parameter "norm.weight">
    %norm: tensor<8xf32> {train.role = #train.role<parameter "norm.weight">},
    // CHECK: dist.placement = #dist.on<@mesh, dp = S(1)>, train.role = #train.role<parameter "scale">
    %scale: tensor<8x8xf32> {train.role = #train.role<parameter "scale">},
    // No dimension of it divides evenly.
    // CHECK: dist.placement = #R_dp, train.role = #train.role<parameter "odd">
    %odd: tensor<3xf32> {train.role = #train.role<parameter "odd">},
    // CHECK: dist.placement = #dist.on<@mesh, dp = S(0)>, train.role = #train.role<input "x" batch 0>
    %x: tensor<2x8x8xf32> {train.role = #train.role<input "x" batch 0>},
    // CHECK: tensor<f32> {train.role = #train.role<seed>}
    %s: tensor<f32> {train.role = #train.role<seed>})
    -> (tensor<f32> {train.role = #train.role<loss>},
        tensor<16x8xf32> {train.role = #train.role<gradient "h.0.up.weight">})
    attributes {train.phase = #train.phase<microbatch>} {
  // CHECK: aten.native_layer_norm
  // CHECK-SAME: {dist.operands = [#S1_tp, #R_dp_R_tp], dist.results = [#S1_tp, #S1_tp, #S1_tp]}
  %n:3 = aten.native_layer_norm(%x, normalized_shape = [8], %norm, none, eps = 1.0e-05)
      : (tensor<2x8x8xf32>, tensor<8xf32>) -> (tensor<2x8x8xf32>, tensor<2x8x1xf32>, tensor<2x8x1xf32>) loc("norm")
  // CHECK: aten.view(%{{[^)]*}}) : (tensor<2x8x8xf32>)
  %flat = aten.view(%n#0, size = [16, 8]) : (tensor<2x8x8xf32>) -> tensor<16x8xf32>
  // CHECK: aten.t(%arg0) {dist.operands = [#R_dp]}
  %t = aten.t(%up) : (tensor<16x8xf32>) -> tensor<8x16xf32> loc("h.0.up")
  // CHECK: aten.mm{{.*}} {dist.operands = [#R_tp, #S1_tp], dist.results = [#S1_tp]}
  %h = aten.mm(%flat, %t) : (tensor<16x8xf32>, tensor<8x16xf32>) -> tensor<16x16xf32> loc("h.0.up")
  // The bias joins the sum as one of its terms, so how it is taken stays open on tp.
  // CHECK: aten.addmm{{.*}} {dist.operands = [#R_dp, #S1_tp, #R_dp_S0_tp], dist.results = [#P_tp]}
  %y = aten.addmm(%bias, %h, %down) : (tensor<8xf32>, tensor<16x16xf32>, tensor<16x8xf32>) -> tensor<16x8xf32> loc("h.0.down")
  // Not a module of the plan: only FSDP's gathers.
  // CHECK: aten.mm{{.*}} : (tensor<16x8xf32>, tensor<8x8xf32>)
  %z = aten.mm(%y, %scale) : (tensor<16x8xf32>, tensor<8x8xf32>) -> tensor<16x8xf32> loc("other")
  // CHECK: aten.sum
  %loss = aten.sum(%z) : (tensor<16x8xf32>) -> tensor<f32>
  %g = aten.expand(%s, size = [16, 8]) {train.backward} : (tensor<f32>) -> tensor<16x8xf32>
  %dt = aten.t(%down) {train.backward} : (tensor<16x8xf32>) -> tensor<8x16xf32> loc("h.0.down")
  // CHECK: aten.mm{{.*}} {dist.operands = [#R_tp, #S1_tp], dist.results = [#S1_tp], train.backward}
  %dh = aten.mm(%g, %dt) {train.backward} : (tensor<16x8xf32>, tensor<8x16xf32>) -> tensor<16x16xf32> loc("h.0.down")
  // The activation's gradient is a partial sum, the weight's is cut as the weight is.
  // CHECK: aten.mm{{.*}} {dist.operands = [#S1_tp, #S0_tp], dist.results = [#P_tp], train.backward}
  %ut = aten.t(%t) {train.backward} : (tensor<8x16xf32>) -> tensor<16x8xf32> loc("h.0.up")
  %dx = aten.mm(%dh, %ut) {train.backward} : (tensor<16x16xf32>, tensor<16x8xf32>) -> tensor<16x8xf32> loc("h.0.up")
  %dht = aten.t(%dh) {train.backward} : (tensor<16x16xf32>) -> tensor<16x16xf32> loc("h.0.up")
  // CHECK: aten.mm{{.*}} {dist.operands = [#S0_tp, #R_tp], dist.results = [#P_dp_S0_tp], train.backward}
  %dw = aten.mm(%dht, %flat) {train.backward} : (tensor<16x16xf32>, tensor<16x8xf32>) -> tensor<16x8xf32> loc("h.0.up")
  return %loss, %dw : tensor<f32>, tensor<16x8xf32>
}

// CHECK-LABEL: func.func @update
// CHECK-SAME: dist.placement = #S0o1_dp_S0o0_tp, train.role = #train.role<parameter "h.0.up.weight">
// CHECK-SAME: -> (tensor<16x8xf32> {dist.placement = #S0o1_dp_S0o0_tp, train.role = #train.role<parameter "h.0.up.weight">})
func.func @update(
    %w: tensor<16x8xf32> {train.role = #train.role<parameter "h.0.up.weight">},
    %g: tensor<16x8xf32> {train.role = #train.role<gradient "h.0.up.weight">},
    %n: tensor<f32> {train.role = #train.role<step>})
    -> (tensor<16x8xf32> {train.role = #train.role<parameter "h.0.up.weight">})
    attributes {train.phase = #train.phase<update>} {
  %lr = train.learning_rate(%n) {base = 0.1 : f64, schedule = #train.schedule<constant>}
      : (tensor<f32>) -> tensor<f64>
  // CHECK: train.sgd
  // CHECK-NOT: dist.
  %w1 = train.sgd(%w, %g, %n, %lr)
      {momentum = 0.0 : f64, dampening = 0.0 : f64, nesterov = false, weight_decay = 0.0 : f64} : tensor<16x8xf32>
  return %w1 : tensor<16x8xf32>
}
