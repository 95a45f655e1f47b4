// RUN: cleave-opt %s --partition --split-input-file | FileCheck %s

#R = #dist.on<@mesh, tp = R>
#P = #dist.on<@mesh, tp = P>
#S0 = #dist.on<@mesh, tp = S(0)>
#S1 = #dist.on<@mesh, tp = S(1)>

dist.mesh @mesh ["tp" = 2]

// What was reduced and scattered for one use is gathered for another, not reduced again.
// CHECK-LABEL: func.func @shared(
// CHECK:      %[[P:.*]] = aten.mm({{.*}}) : (tensor<4x4xf32, #S1_tp>, tensor<4x6xf32, #S0_tp>) -> tensor<4x6xf32, #P_tp>
// CHECK-NEXT: %[[S:.*]] = dist.reduce_scatter sum(%[[P]]) dim 0
// CHECK-NEXT: %[[V:.*]] = aten.view(%[[S]], size = [12])
// CHECK-NEXT: %[[N:.*]] = aten.neg(%[[S]])
// CHECK-NEXT: %[[G:.*]] = dist.all_gather(%[[S]]) dim 0
// CHECK-NEXT: return %[[G]], %[[V]], %[[N]]
func.func @shared(%x: tensor<4x8xf32> {dist.placement = #S1}, %w: tensor<8x6xf32> {dist.placement = #S0})
    -> (tensor<4x6xf32> {dist.placement = #R}, tensor<24xf32> {dist.placement = #S0},
        tensor<4x6xf32> {dist.placement = #S0}) {
  %0 = aten.mm(%x, %w) {dist.operands = [#S1, #S0], dist.results = [#P]}
      : (tensor<4x8xf32>, tensor<8x6xf32>) -> tensor<4x6xf32>
  %1 = aten.view(%0, size = [24]) {dist.operands = [#S0], dist.results = [#S0]} : (tensor<4x6xf32>) -> tensor<24xf32>
  %2 = aten.neg(%0) {dist.operands = [#S0], dist.results = [#S0]} : (tensor<4x6xf32>) -> tensor<4x6xf32>
  return %0, %1, %2 : tensor<4x6xf32>, tensor<24xf32>, tensor<4x6xf32>
}

// Sums of partial values are reduced once; what is added to them is a term on one rank only.
// CHECK-LABEL: func.func @partial(
// CHECK:      %[[A:.*]] = aten.mm
// CHECK-NEXT: %[[B:.*]] = aten.mm
// CHECK-NEXT: %[[C:.*]] = aten.add(%[[A]], %[[B]]) {{.*}} -> tensor<4x6xf32, #P_tp>
// CHECK-NEXT: %[[T:.*]] = dist.convert {{.*}} : tensor<6xf32, #R_tp> -> tensor<6xf32, #P_tp>
// CHECK-NEXT: %[[D:.*]] = aten.add(%[[C]], %[[T]])
// CHECK-NEXT: %[[E:.*]] = dist.all_reduce sum(%[[D]])
// CHECK-NEXT: %[[F:.*]] = aten.relu(%[[E]])
// CHECK-NEXT: return %[[F]], %[[E]]
func.func @partial(%x: tensor<4x8xf32> {dist.placement = #S1}, %w: tensor<8x6xf32> {dist.placement = #S0},
    %b: tensor<6xf32> {dist.placement = #R})
    -> (tensor<4x6xf32> {dist.placement = #R}, tensor<4x6xf32> {dist.placement = #R}) {
  %0 = aten.mm(%x, %w) {dist.operands = [#S1, #S0], dist.results = [#P]}
      : (tensor<4x8xf32>, tensor<8x6xf32>) -> tensor<4x6xf32>
  %1 = aten.mm(%x, %w) {dist.operands = [#S1, #S0], dist.results = [#P]}
      : (tensor<4x8xf32>, tensor<8x6xf32>) -> tensor<4x6xf32>
  %2 = aten.add(%0, %1) {dist.operands = [#P, #P], dist.results = [#P]}
      : (tensor<4x6xf32>, tensor<4x6xf32>) -> tensor<4x6xf32>
  %3 = aten.add(%2, %b) {dist.operands = [#P, #P], dist.results = [#P]}
      : (tensor<4x6xf32>, tensor<6xf32>) -> tensor<4x6xf32>
  %4 = aten.relu(%3) {dist.operands = [#R], dist.results = [#R]} : (tensor<4x6xf32>) -> tensor<4x6xf32>
  return %4, %3 : tensor<4x6xf32>, tensor<4x6xf32>
}

// The source of a view moves, not what it is expanded to; all its views share what came.
// CHECK-LABEL: func.func @views(
// CHECK-SAME: %[[X:[a-z0-9]+]]: tensor<1x4xf32, #S1_tp>
// CHECK-NEXT: %[[G:.*]] = dist.all_gather(%[[X]]) dim 1
// CHECK-NEXT: %[[E:.*]] = aten.expand(%[[G]], size = [16, 8])
// CHECK-NEXT: %[[T:.*]] = aten.t(%[[G]])
// CHECK-NEXT: return %[[E]], %[[T]]
func.func @views(%x: tensor<1x8xf32> {dist.placement = #S1})
    -> (tensor<16x8xf32> {dist.placement = #R}, tensor<8x1xf32> {dist.placement = #R}) {
  %0 = aten.expand(%x, size = [16, 8]) {dist.operands = [#S1], dist.results = [#S1]} : (tensor<1x8xf32>) -> tensor<16x8xf32>
  %1 = aten.t(%x) {dist.operands = [#S1], dist.results = [#S0]} : (tensor<1x8xf32>) -> tensor<8x1xf32>
  return %0, %1 : tensor<16x8xf32>, tensor<8x1xf32>
}

// What a gather puts together is contiguous: the view that the transposed tensor had needs a copy.
// CHECK-LABEL: func.func @memory(
// CHECK: %[[G:.*]] = dist.all_gather
// CHECK: %[[C:.*]] = aten.clone(%{{.*}}, memory_format = "contiguous_format")
// CHECK: aten.view(%[[C]], size = [48])
func.func @memory(%x: tensor<8x6xf32> {dist.placement = #R}) -> (tensor<48xf32> {dist.placement = #R}) {
  %0 = aten.t(%x) {dist.operands = [#S0], dist.results = [#S1]} : (tensor<8x6xf32>) -> tensor<6x8xf32>
  %1 = aten.neg(%0) {dist.operands = [#S1], dist.results = [#S1]} : (tensor<6x8xf32>) -> tensor<6x8xf32>
  %2 = aten.t(%1) {dist.operands = [#R], dist.results = [#R]} : (tensor<6x8xf32>) -> tensor<8x6xf32>
  %3 = aten.view(%2, size = [48]) {dist.operands = [#R], dist.results = [#R]} : (tensor<8x6xf32>) -> tensor<48xf32>
  return %3 : tensor<48xf32>
}

// Each rank draws the whole tensor, in the memory order of the input on one device, and takes its part.
// CHECK-LABEL: func.func @dropout(
// CHECK-SAME: %[[X:[a-z0-9]+]]: tensor<4x8xf32, #S0_tp>
// CHECK:      %[[T:.*]] = aten.t(%[[X]])
// CHECK-NEXT: %[[F:.*]] = aten.full(size = [8, 8], fill_value = 1.000000e+00, dtype = f32)
// CHECK-NEXT: %[[O:.*]] = aten.permute(%[[F]], dims = [1, 0])
// CHECK-NEXT: %[[D:.*]], %[[M:.*]] = aten.rng_native_dropout(%[[O]], {{.*}} : (tensor<8x8xf32, #R_tp>
// CHECK-NEXT: %[[A:.*]] = dist.convert %[[D]] : tensor<8x8xf32, #R_tp> -> tensor<8x4xf32, #S1_tp>
// CHECK-NEXT: %[[B:.*]] = dist.convert %[[M]] : tensor<8x8xi1, #R_tp> -> tensor<8x4xi1, #S1_tp>
// CHECK-NEXT: %[[R:.*]] = aten.mul(%[[T]], %[[A]])
// CHECK-NEXT: return %[[R]], %[[B]]
func.func @dropout(%x: tensor<8x8xf32> {dist.placement = #S0}, %seed: tensor<i64> {dist.placement = #R},
    %offset: tensor<i64> {dist.placement = #R})
    -> (tensor<8x8xf32> {dist.placement = #S1}, tensor<8x8xi1> {dist.placement = #S1}) {
  %0 = aten.t(%x) {dist.operands = [#S0], dist.results = [#S1]} : (tensor<8x8xf32>) -> tensor<8x8xf32>
  %1:2 = aten.rng_native_dropout(%0, %seed, %offset, p = 0.1, train = true, position = 0, generator = #aten.generator<mt19937>)
      {dist.operands = [#S1, #R, #R], dist.results = [#S1, #S1]}
      : (tensor<8x8xf32>, tensor<i64>, tensor<i64>) -> (tensor<8x8xf32>, tensor<8x8xi1>)
  return %1#0, %1#1 : tensor<8x8xf32>, tensor<8x8xi1>
}

// -----

// Two axes: hybrid sharding sums the part of a gradient, and sums over both axes are one.

#RR = #dist.on<@mesh, dp = R, fsdp = R>
#PP = #dist.on<@mesh, dp = P, fsdp = P>
#RS = #dist.on<@mesh, dp = R, fsdp = S(0)>
#B0 = #dist.on<@mesh, dp = S(0, 0), fsdp = S(0, 1)>
#B1 = #dist.on<@mesh, dp = S(1, 0), fsdp = S(1, 1)>

dist.mesh @mesh ["dp" = 2, "fsdp" = 2]

// CHECK-LABEL: func.func @hybrid(
// CHECK-SAME: %[[X:[a-z0-9]+]]: tensor<2x8xf32, #S0o0_dp_S0o1_fsdp>
// CHECK:      %[[W:.*]] = aten.mm({{.*}}) : (tensor<8x2xf32, #S1o0_dp_S1o1_fsdp>, tensor<2x8xf32, #S0o0_dp_S0o1_fsdp>) -> tensor<8x8xf32, #P_dp_P_fsdp>
// CHECK-NEXT: %[[L:.*]] = aten.sum(%[[X]]) {{.*}} -> tensor<f32, #P_dp_P_fsdp>
// CHECK-NEXT: %[[S:.*]] = dist.reduce_scatter sum(%[[W]]) dim 0 over @mesh ["fsdp"]
// CHECK-NEXT: %[[A:.*]] = dist.all_reduce sum(%[[S]]) over @mesh ["dp"]
// CHECK-NEXT: %[[B:.*]] = dist.all_reduce sum(%[[L]]) over @mesh ["dp", "fsdp"]
// CHECK-NEXT: %[[G:.*]] = dist.all_gather(%[[X]]) dim 0 over @mesh ["dp", "fsdp"] : tensor<2x8xf32, #S0o0_dp_S0o1_fsdp> -> tensor<8x8xf32, #R_dp_R_fsdp>
// CHECK-NEXT: return %[[A]], %[[B]], %[[G]]
func.func @hybrid(%x: tensor<8x8xf32> {dist.placement = #B0})
    -> (tensor<8x8xf32> {dist.placement = #RS}, tensor<f32> {dist.placement = #RR},
        tensor<8x8xf32> {dist.placement = #RR}) {
  %0 = aten.t(%x) {dist.operands = [#B0], dist.results = [#B1]} : (tensor<8x8xf32>) -> tensor<8x8xf32>
  %1 = aten.mm(%0, %x) {dist.operands = [#B1, #B0], dist.results = [#PP]}
      : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %2 = aten.sum(%x) {dist.operands = [#B0], dist.results = [#PP]} : (tensor<8x8xf32>) -> tensor<f32>
  return %1, %2, %x : tensor<8x8xf32>, tensor<f32>, tensor<8x8xf32>
}
