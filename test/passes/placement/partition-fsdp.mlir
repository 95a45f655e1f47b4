// RUN: cleave-opt %s --partition | FileCheck %s
// RUN: cleave-opt %s --partition="fsdp-reshard=false" | FileCheck %s --check-prefix=KEEP
// RUN: cleave-opt %s --partition="prefetch=1" | FileCheck %s --check-prefix=AHEAD

// Fully sharded data parallelism: one gather of the parameter for the forward and one for the
// backward, whatever views of it are used; one reduce_scatter of its gradient; the optimizer works
// on shards.

#R = #dist.on<@mesh, fsdp = R>
#P = #dist.on<@mesh, fsdp = P>
#S0 = #dist.on<@mesh, fsdp = S(0)>
#S1 = #dist.on<@mesh, fsdp = S(1)>

dist.mesh @mesh ["fsdp" = 2]

// CHECK-LABEL: func.func @microbatch(
// CHECK-SAME: %[[W:[a-z0-9]+]]: tensor<4x8xf32, #S0_fsdp> {train.role = #train.role<parameter "w">}
// CHECK-SAME: %[[A:[a-z0-9]+]]: tensor<4x8xf32, #S0_fsdp> {train.role = #train.role<accumulator "w">}
// CHECK-SAME: %[[X:[a-z0-9]+]]: tensor<2x8xf32, #S0_fsdp>
// CHECK-SAME: %[[S:[a-z0-9]+]]: tensor<f32, #R_fsdp> {train.role = #train.role<seed>}
// CHECK-SAME: -> (tensor<f32, #P_fsdp> {train.role = #train.role<loss>},
// CHECK-SAME: tensor<4x8xf32, #S0_fsdp> {train.role = #train.role<gradient "w">},
// CHECK-SAME: tensor<2x8xf32, #S0_fsdp> {train.role = #train.role<output "0" batch 0>})
// CHECK:      %[[G:.*]] = dist.all_gather(%[[W]]) dim 0
// CHECK-NEXT: aten.t(%[[G]])
// CHECK-NOT:  dist.all_gather
// CHECK:      dist.convert {{.*}} {train.backward} : tensor<4x8xf32, #R_fsdp> -> tensor<2x8xf32, #S0_fsdp>
// CHECK:      %[[B:.*]] = dist.all_gather(%[[W]]) dim 0 over @mesh ["fsdp"] {train.backward}
// CHECK-NEXT: aten.t(%[[B]])
// CHECK:      aten.mm({{.*}}, %[[B]])
// CHECK-NOT:  dist.all_gather
// CHECK:      %[[D:.*]] = dist.reduce_scatter sum
// CHECK-NEXT: %[[SUM:.*]] = train.accumulate %[[D]] into %[[A]]
// CHECK-NOT:  dist.
// CHECK:      return

// KEEP-LABEL: func.func @microbatch(
// KEEP-COUNT-1: dist.all_gather
// KEEP-NOT:     dist.all_gather
// KEEP-COUNT-1: dist.reduce_scatter
// KEEP-NOT:     dist.{{all|reduce}}
// KEEP-LABEL: func.func @update(

// Both starts are in front of the first wait: the second one's is its place.
// AHEAD-LABEL: func.func @microbatch(
// AHEAD-SAME: %[[W:[a-z0-9]+]]: tensor<4x8xf32, #S0_fsdp> {train.role = #train.role<parameter "w">}
// AHEAD-NEXT: %[[F:.*]] = dist.all_gather(%[[W]]) {{.*}} -> !dist.future<tensor<8x8xf32, #R_fsdp>>
// AHEAD-NEXT: %[[B:.*]] = dist.all_gather(%[[W]]) {{.*}} -> !dist.future<tensor<8x8xf32, #R_fsdp>>
// AHEAD-NEXT: dist.wait %[[F]]
// AHEAD:      aten.mm
// AHEAD:      dist.wait %[[B]]
func.func @microbatch(
    %w: tensor<8x8xf32> {train.role = #train.role<parameter "w">, dist.placement = #S0},
    %a: tensor<8x8xf32> {train.role = #train.role<accumulator "w">, dist.placement = #S0},
    %x: tensor<4x8xf32> {train.role = #train.role<input "x" batch 0>, dist.placement = #S0},
    %seed: tensor<f32> {train.role = #train.role<seed>, dist.placement = #R})
    -> (tensor<f32> {train.role = #train.role<loss>, dist.placement = #P},
        tensor<8x8xf32> {train.role = #train.role<gradient "w">, dist.placement = #S0},
        tensor<4x8xf32> {train.role = #train.role<output "0" batch 0>, dist.placement = #S0})
    attributes {train.phase = #train.phase<microbatch>} {
  %wt = aten.t(%w) {dist.operands = [#S0], dist.results = [#S1]} : (tensor<8x8xf32>) -> tensor<8x8xf32>
  %y = aten.mm(%x, %wt) {dist.operands = [#S0, #R], dist.results = [#S0]}
      : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  %loss = aten.sum(%y) {dist.operands = [#S0], dist.results = [#P]} : (tensor<4x8xf32>) -> tensor<f32>
  %g = aten.expand(%seed, size = [4, 8]) {train.backward, dist.operands = [#R], dist.results = [#R]}
      : (tensor<f32>) -> tensor<4x8xf32>
  %wtt = aten.t(%wt) {train.backward, dist.operands = [#S1], dist.results = [#S0]}
      : (tensor<8x8xf32>) -> tensor<8x8xf32>
  %dx = aten.mm(%g, %wtt) {train.backward, dist.operands = [#S0, #R], dist.results = [#S0]}
      : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  %dx2 = aten.mm(%dx, %w) {train.backward, dist.operands = [#S0, #R], dist.results = [#S0]}
      : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  %gt = aten.t(%g) {train.backward, dist.operands = [#S0], dist.results = [#S1]}
      : (tensor<4x8xf32>) -> tensor<8x4xf32>
  %dw = aten.mm(%gt, %x) {train.backward, dist.operands = [#S1, #S0], dist.results = [#P]}
      : (tensor<8x4xf32>, tensor<4x8xf32>) -> tensor<8x8xf32>
  %sum = train.accumulate %dw into %a {dist.operands = [#S0, #S0], dist.results = [#S0]} : tensor<8x8xf32>
  return %loss, %sum, %dx2 : tensor<f32>, tensor<8x8xf32>, tensor<4x8xf32>
}

// CHECK-LABEL: func.func @update(
// CHECK-NOT: dist.
// CHECK: train.sgd({{.*}}) {{.*}} : tensor<4x8xf32, #S0_fsdp>, tensor<f32, #R_fsdp>, tensor<f64, #R_fsdp>
// CHECK-NOT: dist.
func.func @update(
    %w: tensor<8x8xf32> {train.role = #train.role<parameter "w">, dist.placement = #S0},
    %g: tensor<8x8xf32> {train.role = #train.role<gradient "w">, dist.placement = #S0},
    %t: tensor<f32> {train.role = #train.role<step>, dist.placement = #R})
    -> (tensor<8x8xf32> {train.role = #train.role<parameter "w">, dist.placement = #S0})
    attributes {train.phase = #train.phase<update>} {
  %lr = train.learning_rate(%t) {base = 1.0e-03 : f64, schedule = #train.schedule<constant>,
      dist.operands = [#R], dist.results = [#R]} : (tensor<f32>) -> tensor<f64>
  %n = train.sgd(%w, %g, %t, %lr) {momentum = 0.0 : f64, dampening = 0.0 : f64, nesterov = false, weight_decay = 0.0 : f64,
      dist.operands = [#S0, #S0, #R, #R], dist.results = [#S0]} : tensor<8x8xf32>
  return %n : tensor<8x8xf32>
}
