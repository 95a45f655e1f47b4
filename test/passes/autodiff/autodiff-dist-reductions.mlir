// RUN: cleave-opt %s --autodiff --split-input-file | FileCheck %s

// Collectives that reduce: the gradient begins with the total over ranks. `_P_R`: from P to R, and so on.

#R = #dist.on<@mesh, tp = R>
#P = #dist.on<@mesh, tp = P>
#I = #dist.on<@mesh, tp = I>

// CHECK-LABEL: module @all_reduce_P_R {
module @all_reduce_P_R {
dist.mesh @mesh ["tp" = 2]
func.func @microbatch(%w: tensor<8xf32, #I> {train.role = #train.role<parameter "w">})
    -> (tensor<f32, #I> {train.role = #train.role<loss>})
    attributes {train.phase = #train.phase<microbatch>} {
  %r = dist.convert %w : tensor<8xf32, #I> -> tensor<8xf32, #R>
  %x = dist.convert %r : tensor<8xf32, #R> -> tensor<8xf32, #P>
  %y = dist.all_reduce sum(%x) over @mesh ["tp"] : tensor<8xf32, #P> -> tensor<8xf32, #R>
  %s = aten.sum(%y) : (tensor<8xf32, #R>) -> tensor<f32, #R>
  %l = dist.convert %s : tensor<f32, #R> -> tensor<f32, #I>
  // CHECK: dist.all_reduce sum(%{{.*}}) over @mesh ["tp"] {train.backward} : tensor<8xf32, #P_tp> -> tensor<8xf32, #R_tp>
  // CHECK-NEXT: %{{.*}} = dist.convert %{{.*}} {train.backward} : tensor<8xf32, #R_tp> -> tensor<8xf32, #P_tp>
  // CHECK-NEXT: %{{.*}} = dist.all_reduce sum(%{{.*}}) over @mesh ["tp"] {train.backward} : tensor<8xf32, #P_tp> -> tensor<8xf32, #I_tp>
  return %l : tensor<f32, #I>
}
}

// -----

#R = #dist.on<@mesh, tp = R>
#P = #dist.on<@mesh, tp = P>
#I = #dist.on<@mesh, tp = I>

// CHECK-LABEL: module @all_reduce_P_I {
module @all_reduce_P_I {
dist.mesh @mesh ["tp" = 2]
func.func @microbatch(%w: tensor<8xf32, #I> {train.role = #train.role<parameter "w">})
    -> (tensor<f32, #I> {train.role = #train.role<loss>})
    attributes {train.phase = #train.phase<microbatch>} {
  %r = dist.convert %w : tensor<8xf32, #I> -> tensor<8xf32, #R>
  %x = dist.convert %r : tensor<8xf32, #R> -> tensor<8xf32, #P>
  %y = dist.all_reduce sum(%x) over @mesh ["tp"] : tensor<8xf32, #P> -> tensor<8xf32, #I>
  %s = aten.sum(%y) : (tensor<8xf32, #I>) -> tensor<f32, #I>
  // CHECK: dist.convert %{{.*}} {train.backward} : tensor<8xf32, #I_tp> -> tensor<8xf32, #R_tp>
  // CHECK-NEXT: %{{.*}} = dist.convert %{{.*}} {train.backward} : tensor<8xf32, #R_tp> -> tensor<8xf32, #P_tp>
  // CHECK-NEXT: %{{.*}} = dist.all_reduce sum(%{{.*}}) over @mesh ["tp"] {train.backward} : tensor<8xf32, #P_tp> -> tensor<8xf32, #I_tp>
  return %s : tensor<f32, #I>
}
}

// -----

#I = #dist.on<@mesh, tp = I>
#V = #dist.on<@mesh, tp = V>

// CHECK-LABEL: module @all_reduce_V_V {
module @all_reduce_V_V {
dist.mesh @mesh ["tp" = 2]
func.func @microbatch(%w: tensor<8xf32, #I> {train.role = #train.role<parameter "w">})
    -> (tensor<f32, #I> {train.role = #train.role<loss>})
    attributes {train.phase = #train.phase<microbatch>} {
  %x = dist.fake_broadcast(%w) over @mesh ["tp"] : tensor<8xf32, #I> -> tensor<8xf32, #V>
  %y = dist.all_reduce sum(%x) over @mesh ["tp"] : tensor<8xf32, #V>
  %s = aten.sum(%y) : (tensor<8xf32, #V>) -> tensor<f32, #V>
  %l = dist.fake_reduce(%s) over @mesh ["tp"] : tensor<f32, #V> -> tensor<f32, #I>
  // CHECK: dist.all_reduce sum(%{{.*}}) over @mesh ["tp"] {train.backward} : tensor<8xf32, #V_tp>
  // CHECK-NEXT: %{{.*}} = dist.fake_reduce(%{{.*}}) over @mesh ["tp"] {train.backward} : tensor<8xf32, #V_tp> -> tensor<8xf32, #I_tp>
  return %l : tensor<f32, #I>
}
}

// -----

#R = #dist.on<@mesh, tp = R>
#I = #dist.on<@mesh, tp = I>
#V = #dist.on<@mesh, tp = V>

// CHECK-LABEL: module @all_reduce_V_R {
module @all_reduce_V_R {
dist.mesh @mesh ["tp" = 2]
func.func @microbatch(%w: tensor<8xf32, #I> {train.role = #train.role<parameter "w">})
    -> (tensor<f32, #I> {train.role = #train.role<loss>})
    attributes {train.phase = #train.phase<microbatch>} {
  %x = dist.fake_broadcast(%w) over @mesh ["tp"] : tensor<8xf32, #I> -> tensor<8xf32, #V>
  %y = dist.all_reduce sum(%x) over @mesh ["tp"] : tensor<8xf32, #V> -> tensor<8xf32, #R>
  %s = aten.sum(%y) : (tensor<8xf32, #R>) -> tensor<f32, #R>
  %l = dist.convert %s : tensor<f32, #R> -> tensor<f32, #I>
  // CHECK: dist.all_reduce sum(%{{.*}}) over @mesh ["tp"] {train.backward} : tensor<8xf32, #P_tp> -> tensor<8xf32, #R_tp>
  // CHECK-NEXT: %{{.*}} = dist.reinterpret %{{.*}} {train.backward} : tensor<8xf32, #R_tp> -> tensor<8xf32, #V_tp>
  // CHECK-NEXT: %{{.*}} = dist.fake_reduce(%{{.*}}) over @mesh ["tp"] {train.backward} : tensor<8xf32, #V_tp> -> tensor<8xf32, #I_tp>
  return %l : tensor<f32, #I>
}
}

// -----

#I = #dist.on<@mesh, tp = I>
#V = #dist.on<@mesh, tp = V>

// CHECK-LABEL: module @all_reduce_V_I {
module @all_reduce_V_I {
dist.mesh @mesh ["tp" = 2]
func.func @microbatch(%w: tensor<8xf32, #I> {train.role = #train.role<parameter "w">})
    -> (tensor<f32, #I> {train.role = #train.role<loss>})
    attributes {train.phase = #train.phase<microbatch>} {
  %x = dist.fake_broadcast(%w) over @mesh ["tp"] : tensor<8xf32, #I> -> tensor<8xf32, #V>
  %y = dist.all_reduce sum(%x) over @mesh ["tp"] : tensor<8xf32, #V> -> tensor<8xf32, #I>
  %s = aten.sum(%y) : (tensor<8xf32, #I>) -> tensor<f32, #I>
  // CHECK: dist.convert %{{.*}} {train.backward} : tensor<8xf32, #I_tp> -> tensor<8xf32, #R_tp>
  // CHECK-NEXT: %{{.*}} = dist.reinterpret %{{.*}} {train.backward} : tensor<8xf32, #R_tp> -> tensor<8xf32, #V_tp>
  // CHECK-NEXT: %{{.*}} = dist.fake_reduce(%{{.*}}) over @mesh ["tp"] {train.backward} : tensor<8xf32, #V_tp> -> tensor<8xf32, #I_tp>
  return %s : tensor<f32, #I>
}
}

// -----

#I = #dist.on<@mesh, tp = I>
#V = #dist.on<@mesh, tp = V>

// CHECK-LABEL: module @all_reduce_avg {
module @all_reduce_avg {
dist.mesh @mesh ["tp" = 2]
func.func @microbatch(%w: tensor<8xf32, #I> {train.role = #train.role<parameter "w">})
    -> (tensor<f32, #I> {train.role = #train.role<loss>})
    attributes {train.phase = #train.phase<microbatch>} {
  %x = dist.fake_broadcast(%w) over @mesh ["tp"] : tensor<8xf32, #I> -> tensor<8xf32, #V>
  %y = dist.all_reduce avg(%x) over @mesh ["tp"] : tensor<8xf32, #V>
  %s = aten.sum(%y) : (tensor<8xf32, #V>) -> tensor<f32, #V>
  %l = dist.fake_reduce(%s) over @mesh ["tp"] : tensor<f32, #V> -> tensor<f32, #I>
  // CHECK: dist.all_reduce sum(%{{.*}}) over @mesh ["tp"] {train.backward} : tensor<8xf32, #V_tp>
  // CHECK-NEXT: %{{.*}} = aten.div_scalar(%{{.*}}, other = 2) {train.backward} : (tensor<8xf32, #V_tp>) -> tensor<8xf32, #V_tp>
  // CHECK-NEXT: %{{.*}} = dist.fake_reduce(%{{.*}}) over @mesh ["tp"] {train.backward} : tensor<8xf32, #V_tp> -> tensor<8xf32, #I_tp>
  return %l : tensor<f32, #I>
}
}

// -----

#I = #dist.on<@mesh, tp = I>
#V = #dist.on<@mesh, tp = V>

// CHECK-LABEL: module @all_reduce_avg_I {
module @all_reduce_avg_I {
dist.mesh @mesh ["tp" = 2]
func.func @microbatch(%w: tensor<8xf32, #I> {train.role = #train.role<parameter "w">})
    -> (tensor<f32, #I> {train.role = #train.role<loss>})
    attributes {train.phase = #train.phase<microbatch>} {
  %x = dist.fake_broadcast(%w) over @mesh ["tp"] : tensor<8xf32, #I> -> tensor<8xf32, #V>
  %y = dist.all_reduce avg(%x) over @mesh ["tp"] : tensor<8xf32, #V> -> tensor<8xf32, #I>
  %s = aten.sum(%y) : (tensor<8xf32, #I>) -> tensor<f32, #I>
  // CHECK: aten.div_scalar(%{{.*}}, other = 2) {train.backward} : (tensor<8xf32, #I_tp>) -> tensor<8xf32, #I_tp>
  // CHECK-NEXT: %{{.*}} = dist.convert %{{.*}} {train.backward} : tensor<8xf32, #I_tp> -> tensor<8xf32, #R_tp>
  // CHECK-NEXT: %{{.*}} = dist.reinterpret %{{.*}} {train.backward} : tensor<8xf32, #R_tp> -> tensor<8xf32, #V_tp>
  // CHECK-NEXT: %{{.*}} = dist.fake_reduce(%{{.*}}) over @mesh ["tp"] {train.backward} : tensor<8xf32, #V_tp> -> tensor<8xf32, #I_tp>
  return %s : tensor<f32, #I>
}
}

// -----

#R = #dist.on<@mesh, tp = R>
#I = #dist.on<@mesh, tp = I>
#V = #dist.on<@mesh, tp = V>

// CHECK-LABEL: module @all_reduce_premul {
module @all_reduce_premul {
dist.mesh @mesh ["tp" = 2]
func.func @microbatch(%w: tensor<8xf32, #I> {train.role = #train.role<parameter "w">})
    -> (tensor<f32, #I> {train.role = #train.role<loss>})
    attributes {train.phase = #train.phase<microbatch>} {
  %x = dist.fake_broadcast(%w) over @mesh ["tp"] : tensor<8xf32, #I> -> tensor<8xf32, #V>
  %y = dist.all_reduce premul_sum<0.5>(%x) over @mesh ["tp"] : tensor<8xf32, #V> -> tensor<8xf32, #R>
  %s = aten.sum(%y) : (tensor<8xf32, #R>) -> tensor<f32, #R>
  %l = dist.convert %s : tensor<f32, #R> -> tensor<f32, #I>
  // CHECK: dist.all_reduce sum(%{{.*}}) over @mesh ["tp"] {train.backward} : tensor<8xf32, #P_tp> -> tensor<8xf32, #R_tp>
  // CHECK-NEXT: %{{.*}} = aten.mul_scalar(%{{.*}}, other = 5.000000e-01) {train.backward} : (tensor<8xf32, #R_tp>) -> tensor<8xf32, #R_tp>
  // CHECK-NEXT: %{{.*}} = dist.reinterpret %{{.*}} {train.backward} : tensor<8xf32, #R_tp> -> tensor<8xf32, #V_tp>
  // CHECK-NEXT: %{{.*}} = dist.fake_reduce(%{{.*}}) over @mesh ["tp"] {train.backward} : tensor<8xf32, #V_tp> -> tensor<8xf32, #I_tp>
  return %l : tensor<f32, #I>
}
}

// -----

#R = #dist.on<@mesh, tp = R>
#I = #dist.on<@mesh, tp = I>
#V = #dist.on<@mesh, tp = V>

// CHECK-LABEL: module @all_reduce_max {
module @all_reduce_max {
dist.mesh @mesh ["tp" = 2]
func.func @microbatch(%w: tensor<8xf32, #I> {train.role = #train.role<parameter "w">})
    -> (tensor<f32, #I> {train.role = #train.role<loss>})
    attributes {train.phase = #train.phase<microbatch>} {
  %x = dist.fake_broadcast(%w) over @mesh ["tp"] : tensor<8xf32, #I> -> tensor<8xf32, #V>
  %y = dist.all_reduce max(%x) over @mesh ["tp"] : tensor<8xf32, #V> -> tensor<8xf32, #R>
  %s = aten.sum(%y) : (tensor<8xf32, #R>) -> tensor<f32, #R>
  %l = dist.convert %s : tensor<f32, #R> -> tensor<f32, #I>
  // CHECK: dist.all_reduce sum(%{{.*}}) over @mesh ["tp"] {train.backward} : tensor<8xf32, #P_tp> -> tensor<8xf32, #R_tp>
  // CHECK-NEXT: %{{.*}} = aten.eq(%{{.*}}, %{{.*}}) {train.backward} : (tensor<8xf32, #V_tp>, tensor<8xf32, #R_tp>) -> tensor<8xi1, #V_tp>
  // CHECK-NEXT: %{{.*}} = aten._to_copy(%{{.*}}, dtype = i64) {train.backward} : (tensor<8xi1, #V_tp>) -> tensor<8xi64, #V_tp>
  // CHECK-NEXT: %{{.*}} = dist.all_reduce sum(%{{.*}}) over @mesh ["tp"] {train.backward} : tensor<8xi64, #V_tp>
  // CHECK-NEXT: %{{.*}} = aten.div(%{{.*}}, %{{.*}}) {train.backward} : (tensor<8xf32, #R_tp>, tensor<8xi64, #V_tp>) -> tensor<8xf32, #V_tp>
  // CHECK-NEXT: %{{.*}} = aten.mul(%{{.*}}, %{{.*}}) {train.backward} : (tensor<8xf32, #V_tp>, tensor<8xi1, #V_tp>) -> tensor<8xf32, #V_tp>
  // CHECK-NEXT: %{{.*}} = dist.fake_reduce(%{{.*}}) over @mesh ["tp"] {train.backward} : tensor<8xf32, #V_tp> -> tensor<8xf32, #I_tp>
  return %l : tensor<f32, #I>
}
}

// -----

#I = #dist.on<@mesh, tp = I>
#V = #dist.on<@mesh, tp = V>

// CHECK-LABEL: module @all_reduce_min_I {
module @all_reduce_min_I {
dist.mesh @mesh ["tp" = 2]
func.func @microbatch(%w: tensor<8xf32, #I> {train.role = #train.role<parameter "w">})
    -> (tensor<f32, #I> {train.role = #train.role<loss>})
    attributes {train.phase = #train.phase<microbatch>} {
  %x = dist.fake_broadcast(%w) over @mesh ["tp"] : tensor<8xf32, #I> -> tensor<8xf32, #V>
  %y = dist.all_reduce min(%x) over @mesh ["tp"] : tensor<8xf32, #V> -> tensor<8xf32, #I>
  %s = aten.sum(%y) : (tensor<8xf32, #I>) -> tensor<f32, #I>
  // CHECK: aten.eq(%{{.*}}, %{{.*}}) {train.backward} : (tensor<8xf32, #V_tp>, tensor<8xf32, #I_tp>) -> tensor<8xi1, #V_tp>
  // CHECK-NEXT: %{{.*}} = aten._to_copy(%{{.*}}, dtype = i64) {train.backward} : (tensor<8xi1, #V_tp>) -> tensor<8xi64, #V_tp>
  // CHECK-NEXT: %{{.*}} = dist.all_reduce sum(%{{.*}}) over @mesh ["tp"] {train.backward} : tensor<8xi64, #V_tp>
  // CHECK-NEXT: %{{.*}} = aten.div(%{{.*}}, %{{.*}}) {train.backward} : (tensor<8xf32, #I_tp>, tensor<8xi64, #V_tp>) -> tensor<8xf32, #V_tp>
  // CHECK-NEXT: %{{.*}} = aten.mul(%{{.*}}, %{{.*}}) {train.backward} : (tensor<8xf32, #V_tp>, tensor<8xi1, #V_tp>) -> tensor<8xf32, #V_tp>
  // CHECK-NEXT: %{{.*}} = dist.fake_reduce(%{{.*}}) over @mesh ["tp"] {train.backward} : tensor<8xf32, #V_tp> -> tensor<8xf32, #I_tp>
  return %s : tensor<f32, #I>
}
}

// -----

#I = #dist.on<@mesh, tp = I>
#V = #dist.on<@mesh, tp = V>

// CHECK-LABEL: module @all_reduce_product {
module @all_reduce_product {
dist.mesh @mesh ["tp" = 2]
func.func @microbatch(%w: tensor<8xf32, #I> {train.role = #train.role<parameter "w">})
    -> (tensor<f32, #I> {train.role = #train.role<loss>})
    attributes {train.phase = #train.phase<microbatch>} {
  %x = dist.fake_broadcast(%w) over @mesh ["tp"] : tensor<8xf32, #I> -> tensor<8xf32, #V>
  %y = dist.all_reduce product(%x) over @mesh ["tp"] : tensor<8xf32, #V>
  %s = aten.sum(%y) : (tensor<8xf32, #V>) -> tensor<f32, #V>
  %l = dist.fake_reduce(%s) over @mesh ["tp"] : tensor<f32, #V> -> tensor<f32, #I>
  // CHECK: dist.all_reduce sum(%{{.*}}) over @mesh ["tp"] {train.backward} : tensor<8xf32, #V_tp>
  // CHECK-NEXT: %{{.*}} = aten.eq_scalar(%{{.*}}, other = 0) {train.backward} : (tensor<8xf32, #V_tp>) -> tensor<8xi1, #V_tp>
  // CHECK-NEXT: %{{.*}} = aten._to_copy(%{{.*}}, dtype = i64) {train.backward} : (tensor<8xi1, #V_tp>) -> tensor<8xi64, #V_tp>
  // CHECK-NEXT: %{{.*}} = dist.all_reduce sum(%{{.*}}) over @mesh ["tp"] {train.backward} : tensor<8xi64, #V_tp>
  // CHECK-NEXT: %{{.*}} = aten.sub(%{{.*}}, %{{.*}}) {train.backward} : (tensor<8xi64, #V_tp>, tensor<8xi64, #V_tp>) -> tensor<8xi64, #V_tp>
  // CHECK-NEXT: %{{.*}} = aten.masked_fill_scalar(%{{.*}}, %{{.*}}, value = 1) {train.backward} : (tensor<8xf32, #V_tp>, tensor<8xi1, #V_tp>) -> tensor<8xf32, #V_tp>
  // CHECK-NEXT: %{{.*}} = dist.all_reduce product(%{{.*}}) over @mesh ["tp"] {train.backward} : tensor<8xf32, #V_tp>
  // CHECK-NEXT: %{{.*}} = aten.ne_scalar(%{{.*}}, other = 0) {train.backward} : (tensor<8xi64, #V_tp>) -> tensor<8xi1, #V_tp>
  // CHECK-NEXT: %{{.*}} = aten.div(%{{.*}}, %{{.*}}) {train.backward} : (tensor<8xf32, #V_tp>, tensor<8xf32, #V_tp>) -> tensor<8xf32, #V_tp>
  // CHECK-NEXT: %{{.*}} = aten.masked_fill_scalar(%{{.*}}, %{{.*}}, value = 0) {train.backward} : (tensor<8xf32, #V_tp>, tensor<8xi1, #V_tp>) -> tensor<8xf32, #V_tp>
  // CHECK-NEXT: %{{.*}} = aten.mul(%{{.*}}, %{{.*}}) {train.backward} : (tensor<8xf32, #V_tp>, tensor<8xf32, #V_tp>) -> tensor<8xf32, #V_tp>
  // CHECK-NEXT: %{{.*}} = dist.fake_reduce(%{{.*}}) over @mesh ["tp"] {train.backward} : tensor<8xf32, #V_tp> -> tensor<8xf32, #I_tp>
  return %l : tensor<f32, #I>
}
}

// -----

#R = #dist.on<@mesh, tp = R>
#P = #dist.on<@mesh, tp = P>
#I = #dist.on<@mesh, tp = I>
#S = #dist.on<@mesh, tp = S(0)>

// CHECK-LABEL: module @reduce_scatter_P_S {
module @reduce_scatter_P_S {
dist.mesh @mesh ["tp" = 2]
func.func @microbatch(%w: tensor<8xf32, #I> {train.role = #train.role<parameter "w">})
    -> (tensor<f32, #I> {train.role = #train.role<loss>})
    attributes {train.phase = #train.phase<microbatch>} {
  %r = dist.convert %w : tensor<8xf32, #I> -> tensor<8xf32, #R>
  %x = dist.convert %r : tensor<8xf32, #R> -> tensor<8xf32, #P>
  %y = dist.reduce_scatter sum(%x) dim 0 over @mesh ["tp"] : tensor<8xf32, #P> -> tensor<4xf32, #S>
  %s = aten.sum(%y) : (tensor<4xf32, #S>) -> tensor<f32, #P>
  %l = dist.all_reduce sum(%s) over @mesh ["tp"] : tensor<f32, #P> -> tensor<f32, #I>
  // CHECK: dist.reinterpret %{{.*}} {train.backward} : tensor<4xf32, #R_tp> -> tensor<4xf32, #V_tp>
  // CHECK-NEXT: %{{.*}} = dist.reinterpret %{{.*}} {train.backward} : tensor<4xf32, #V_tp> -> tensor<4xf32, #S0_tp>
  // CHECK-NEXT: %{{.*}} = dist.all_gather(%{{.*}}) dim 0 over @mesh ["tp"] {train.backward} : tensor<4xf32, #S0_tp> -> tensor<8xf32, #R_tp>
  // CHECK-NEXT: %{{.*}} = dist.convert %{{.*}} {train.backward} : tensor<8xf32, #R_tp> -> tensor<8xf32, #P_tp>
  // CHECK-NEXT: %{{.*}} = dist.all_reduce sum(%{{.*}}) over @mesh ["tp"] {train.backward} : tensor<8xf32, #P_tp> -> tensor<8xf32, #I_tp>
  return %l : tensor<f32, #I>
}
}

// -----

#R = #dist.on<@mesh, tp = R>
#P = #dist.on<@mesh, tp = P>
#I = #dist.on<@mesh, tp = I>
#V = #dist.on<@mesh, tp = V>

// CHECK-LABEL: module @reduce_scatter_P_V {
module @reduce_scatter_P_V {
dist.mesh @mesh ["tp" = 2]
func.func @microbatch(%w: tensor<8xf32, #I> {train.role = #train.role<parameter "w">})
    -> (tensor<f32, #I> {train.role = #train.role<loss>})
    attributes {train.phase = #train.phase<microbatch>} {
  %r = dist.convert %w : tensor<8xf32, #I> -> tensor<8xf32, #R>
  %x = dist.convert %r : tensor<8xf32, #R> -> tensor<8xf32, #P>
  %y = dist.reduce_scatter sum(%x) dim 0 over @mesh ["tp"] : tensor<8xf32, #P> -> tensor<4xf32, #V>
  %s = aten.sum(%y) : (tensor<4xf32, #V>) -> tensor<f32, #V>
  %l = dist.fake_reduce(%s) over @mesh ["tp"] : tensor<f32, #V> -> tensor<f32, #I>
  // CHECK: dist.all_gather(%{{.*}}) dim 0 over @mesh ["tp"] {train.backward} : tensor<4xf32, #V_tp> -> tensor<8xf32, #R_tp>
  // CHECK-NEXT: %{{.*}} = dist.convert %{{.*}} {train.backward} : tensor<8xf32, #R_tp> -> tensor<8xf32, #P_tp>
  // CHECK-NEXT: %{{.*}} = dist.all_reduce sum(%{{.*}}) over @mesh ["tp"] {train.backward} : tensor<8xf32, #P_tp> -> tensor<8xf32, #I_tp>
  return %l : tensor<f32, #I>
}
}

// -----

#I = #dist.on<@mesh, tp = I>
#V = #dist.on<@mesh, tp = V>

// CHECK-LABEL: module @reduce_scatter_V_V_avg {
module @reduce_scatter_V_V_avg {
dist.mesh @mesh ["tp" = 2]
func.func @microbatch(%w: tensor<8xf32, #I> {train.role = #train.role<parameter "w">})
    -> (tensor<f32, #I> {train.role = #train.role<loss>})
    attributes {train.phase = #train.phase<microbatch>} {
  %x = dist.fake_broadcast(%w) over @mesh ["tp"] : tensor<8xf32, #I> -> tensor<8xf32, #V>
  %y = dist.reduce_scatter avg(%x) dim 0 over @mesh ["tp"] : tensor<8xf32, #V> -> tensor<4xf32, #V>
  %s = aten.sum(%y) : (tensor<4xf32, #V>) -> tensor<f32, #V>
  %l = dist.fake_reduce(%s) over @mesh ["tp"] : tensor<f32, #V> -> tensor<f32, #I>
  // CHECK: dist.all_gather(%{{.*}}) dim 0 over @mesh ["tp"] {train.backward} : tensor<4xf32, #V_tp> -> tensor<8xf32, #V_tp>
  // CHECK-NEXT: %{{.*}} = aten.div_scalar(%{{.*}}, other = 2) {train.backward} : (tensor<8xf32, #V_tp>) -> tensor<8xf32, #V_tp>
  // CHECK-NEXT: %{{.*}} = dist.fake_reduce(%{{.*}}) over @mesh ["tp"] {train.backward} : tensor<8xf32, #V_tp> -> tensor<8xf32, #I_tp>
  return %l : tensor<f32, #I>
}
}

// -----

#I = #dist.on<@mesh, tp = I>
#V = #dist.on<@mesh, tp = V>

// CHECK-LABEL: module @reduce_scatter_V_V_max {
module @reduce_scatter_V_V_max {
dist.mesh @mesh ["tp" = 2]
func.func @microbatch(%w: tensor<8xf32, #I> {train.role = #train.role<parameter "w">})
    -> (tensor<f32, #I> {train.role = #train.role<loss>})
    attributes {train.phase = #train.phase<microbatch>} {
  %x = dist.fake_broadcast(%w) over @mesh ["tp"] : tensor<8xf32, #I> -> tensor<8xf32, #V>
  %y = dist.reduce_scatter max(%x) dim 0 over @mesh ["tp"] : tensor<8xf32, #V> -> tensor<4xf32, #V>
  %s = aten.sum(%y) : (tensor<4xf32, #V>) -> tensor<f32, #V>
  %l = dist.fake_reduce(%s) over @mesh ["tp"] : tensor<f32, #V> -> tensor<f32, #I>
  // CHECK: dist.all_gather(%{{.*}}) dim 0 over @mesh ["tp"] {train.backward} : tensor<4xf32, #V_tp> -> tensor<8xf32, #V_tp>
  // CHECK-NEXT: %{{.*}} = dist.all_gather(%{{.*}}) dim 0 over @mesh ["tp"] {train.backward} : tensor<4xf32, #V_tp> -> tensor<8xf32, #V_tp>
  // CHECK-NEXT: %{{.*}} = aten.eq(%{{.*}}, %{{.*}}) {train.backward} : (tensor<8xf32, #V_tp>, tensor<8xf32, #V_tp>) -> tensor<8xi1, #V_tp>
  // CHECK-NEXT: %{{.*}} = aten._to_copy(%{{.*}}, dtype = i64) {train.backward} : (tensor<8xi1, #V_tp>) -> tensor<8xi64, #V_tp>
  // CHECK-NEXT: %{{.*}} = dist.all_reduce sum(%{{.*}}) over @mesh ["tp"] {train.backward} : tensor<8xi64, #V_tp>
  // CHECK-NEXT: %{{.*}} = aten.div(%{{.*}}, %{{.*}}) {train.backward} : (tensor<8xf32, #V_tp>, tensor<8xi64, #V_tp>) -> tensor<8xf32, #V_tp>
  // CHECK-NEXT: %{{.*}} = aten.mul(%{{.*}}, %{{.*}}) {train.backward} : (tensor<8xf32, #V_tp>, tensor<8xi1, #V_tp>) -> tensor<8xf32, #V_tp>
  // CHECK-NEXT: %{{.*}} = dist.fake_reduce(%{{.*}}) over @mesh ["tp"] {train.backward} : tensor<8xf32, #V_tp> -> tensor<8xf32, #I_tp>
  return %l : tensor<f32, #I>
}
}

// -----

#R = #dist.on<@mesh, tp = R>
#P = #dist.on<@mesh, tp = P>
#I = #dist.on<@mesh, tp = I>
#V = #dist.on<@mesh, tp = V>

// CHECK-LABEL: module @reduce_P {
module @reduce_P {
dist.mesh @mesh ["tp" = 2]
func.func @microbatch(%w: tensor<8xf32, #I> {train.role = #train.role<parameter "w">})
    -> (tensor<f32, #I> {train.role = #train.role<loss>})
    attributes {train.phase = #train.phase<microbatch>} {
  %r = dist.convert %w : tensor<8xf32, #I> -> tensor<8xf32, #R>
  %x = dist.convert %r : tensor<8xf32, #R> -> tensor<8xf32, #P>
  %y = dist.reduce sum(%x) root 1 over @mesh ["tp"] : tensor<8xf32, #P> -> tensor<8xf32, #V>
  %s = aten.sum(%y) : (tensor<8xf32, #V>) -> tensor<f32, #V>
  %l = dist.fake_reduce(%s) over @mesh ["tp"] : tensor<f32, #V> -> tensor<f32, #I>
  // CHECK: dist.broadcast(%{{.*}}) root 1 over @mesh ["tp"] {train.backward} : tensor<8xf32, #V_tp> -> tensor<8xf32, #R_tp>
  // CHECK-NEXT: %{{.*}} = dist.convert %{{.*}} {train.backward} : tensor<8xf32, #R_tp> -> tensor<8xf32, #P_tp>
  // CHECK-NEXT: %{{.*}} = dist.all_reduce sum(%{{.*}}) over @mesh ["tp"] {train.backward} : tensor<8xf32, #P_tp> -> tensor<8xf32, #I_tp>
  return %l : tensor<f32, #I>
}
}

// -----

#I = #dist.on<@mesh, tp = I>
#V = #dist.on<@mesh, tp = V>

// CHECK-LABEL: module @reduce_max {
module @reduce_max {
dist.mesh @mesh ["tp" = 2]
func.func @microbatch(%w: tensor<8xf32, #I> {train.role = #train.role<parameter "w">})
    -> (tensor<f32, #I> {train.role = #train.role<loss>})
    attributes {train.phase = #train.phase<microbatch>} {
  %x = dist.fake_broadcast(%w) over @mesh ["tp"] : tensor<8xf32, #I> -> tensor<8xf32, #V>
  %y = dist.reduce max(%x) root 1 over @mesh ["tp"] : tensor<8xf32, #V>
  %s = aten.sum(%y) : (tensor<8xf32, #V>) -> tensor<f32, #V>
  %l = dist.fake_reduce(%s) over @mesh ["tp"] : tensor<f32, #V> -> tensor<f32, #I>
  // CHECK: dist.broadcast(%{{.*}}) root 1 over @mesh ["tp"] {train.backward} : tensor<8xf32, #V_tp>
  // CHECK-NEXT: %{{.*}} = dist.broadcast(%{{.*}}) root 1 over @mesh ["tp"] {train.backward} : tensor<8xf32, #V_tp>
  // CHECK-NEXT: %{{.*}} = aten.eq(%{{.*}}, %{{.*}}) {train.backward} : (tensor<8xf32, #V_tp>, tensor<8xf32, #V_tp>) -> tensor<8xi1, #V_tp>
  // CHECK-NEXT: %{{.*}} = aten._to_copy(%{{.*}}, dtype = i64) {train.backward} : (tensor<8xi1, #V_tp>) -> tensor<8xi64, #V_tp>
  // CHECK-NEXT: %{{.*}} = dist.all_reduce sum(%{{.*}}) over @mesh ["tp"] {train.backward} : tensor<8xi64, #V_tp>
  // CHECK-NEXT: %{{.*}} = aten.div(%{{.*}}, %{{.*}}) {train.backward} : (tensor<8xf32, #V_tp>, tensor<8xi64, #V_tp>) -> tensor<8xf32, #V_tp>
  // CHECK-NEXT: %{{.*}} = aten.mul(%{{.*}}, %{{.*}}) {train.backward} : (tensor<8xf32, #V_tp>, tensor<8xi1, #V_tp>) -> tensor<8xf32, #V_tp>
  // CHECK-NEXT: %{{.*}} = dist.fake_reduce(%{{.*}}) over @mesh ["tp"] {train.backward} : tensor<8xf32, #V_tp> -> tensor<8xf32, #I_tp>
  return %l : tensor<f32, #I>
}
}

// -----

#I = #dist.on<@mesh, tp = I>
#V = #dist.on<@mesh, tp = V>

// CHECK-LABEL: module @started {
module @started {
dist.mesh @mesh ["tp" = 2]
func.func @microbatch(%w: tensor<8xf32, #I> {train.role = #train.role<parameter "w">})
    -> (tensor<f32, #I> {train.role = #train.role<loss>})
    attributes {train.phase = #train.phase<microbatch>} {
  %x = dist.fake_broadcast(%w) over @mesh ["tp"] : tensor<8xf32, #I> -> tensor<8xf32, #V>
  %f = dist.all_reduce max(%x) over @mesh ["tp"] : tensor<8xf32, #V> -> !dist.future<tensor<8xf32, #V>>
  %y = dist.wait %f : tensor<8xf32, #V>
  %s = aten.sum(%y) : (tensor<8xf32, #V>) -> tensor<f32, #V>
  %l = dist.fake_reduce(%s) over @mesh ["tp"] : tensor<f32, #V> -> tensor<f32, #I>
  // CHECK: dist.all_reduce sum(%{{.*}}) over @mesh ["tp"] {train.backward} : tensor<8xf32, #V_tp>
  // CHECK-NEXT: %{{.*}} = aten.eq(%{{.*}}, %{{.*}}) {train.backward} : (tensor<8xf32, #V_tp>, tensor<8xf32, #V_tp>) -> tensor<8xi1, #V_tp>
  // CHECK-NEXT: %{{.*}} = aten._to_copy(%{{.*}}, dtype = i64) {train.backward} : (tensor<8xi1, #V_tp>) -> tensor<8xi64, #V_tp>
  // CHECK-NEXT: %{{.*}} = dist.all_reduce sum(%{{.*}}) over @mesh ["tp"] {train.backward} : tensor<8xi64, #V_tp>
  // CHECK-NEXT: %{{.*}} = aten.div(%{{.*}}, %{{.*}}) {train.backward} : (tensor<8xf32, #V_tp>, tensor<8xi64, #V_tp>) -> tensor<8xf32, #V_tp>
  // CHECK-NEXT: %{{.*}} = aten.mul(%{{.*}}, %{{.*}}) {train.backward} : (tensor<8xf32, #V_tp>, tensor<8xi1, #V_tp>) -> tensor<8xf32, #V_tp>
  // CHECK-NEXT: %{{.*}} = dist.fake_reduce(%{{.*}}) over @mesh ["tp"] {train.backward} : tensor<8xf32, #V_tp> -> tensor<8xf32, #I_tp>
  return %l : tensor<f32, #I>
}
}

// -----

#I = #dist.on<@mesh, tp = I>
#V = #dist.on<@mesh, tp = V>

// CHECK-LABEL: module @coalesced {
module @coalesced {
dist.mesh @mesh ["tp" = 2]
func.func @microbatch(%w: tensor<8xf32, #I> {train.role = #train.role<parameter "w">})
    -> (tensor<f32, #I> {train.role = #train.role<loss>})
    attributes {train.phase = #train.phase<microbatch>} {
  %x = dist.fake_broadcast(%w) over @mesh ["tp"] : tensor<8xf32, #I> -> tensor<8xf32, #V>
  %e = aten.exp(%x) : (tensor<8xf32, #V>) -> tensor<8xf32, #V>
  %y:2 = dist.all_reduce sum(%x, %e) over @mesh ["tp"] : tensor<8xf32, #V>, tensor<8xf32, #V>
  %m = aten.mul(%y#0, %y#1) : (tensor<8xf32, #V>, tensor<8xf32, #V>) -> tensor<8xf32, #V>
  %s = aten.sum(%m) : (tensor<8xf32, #V>) -> tensor<f32, #V>
  %l = dist.fake_reduce(%s) over @mesh ["tp"] : tensor<f32, #V> -> tensor<f32, #I>
  // CHECK: aten.mul(%{{.*}}, %{{.*}}) {train.backward} : (tensor<8xf32, #V_tp>, tensor<8xf32, #V_tp>) -> tensor<8xf32, #V_tp>
  // CHECK-NEXT: %{{.*}} = aten.mul(%{{.*}}, %{{.*}}) {train.backward} : (tensor<8xf32, #V_tp>, tensor<8xf32, #V_tp>) -> tensor<8xf32, #V_tp>
  // CHECK-NEXT: %{{.*}} = dist.all_reduce sum(%{{.*}}, %{{.*}}) over @mesh ["tp"] {train.backward} : tensor<8xf32, #V_tp>, tensor<8xf32, #V_tp>
  // CHECK-NEXT: %{{.*}} = aten.mul(%{{.*}}, %{{.*}}) {train.backward} : (tensor<8xf32, #V_tp>, tensor<8xf32, #V_tp>) -> tensor<8xf32, #V_tp>
  // CHECK-NEXT: %{{.*}} = aten.add(%{{.*}}, %{{.*}}) {train.backward} : (tensor<8xf32, #V_tp>, tensor<8xf32, #V_tp>) -> tensor<8xf32, #V_tp>
  // CHECK-NEXT: %{{.*}} = dist.fake_reduce(%{{.*}}) over @mesh ["tp"] {train.backward} : tensor<8xf32, #V_tp> -> tensor<8xf32, #I_tp>
  return %l : tensor<f32, #I>
}
}
