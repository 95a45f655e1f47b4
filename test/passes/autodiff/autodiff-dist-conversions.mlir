// RUN: cleave-opt %s --autodiff --split-input-file | FileCheck %s

// Conversions, reinterpretations and the fake pairs.

#R = #dist.on<@mesh, tp = R>
#I = #dist.on<@mesh, tp = I>

// CHECK-LABEL: module @convert_I_R {
module @convert_I_R {
dist.mesh @mesh ["tp" = 2]
func.func @microbatch(%w: tensor<8xf32, #I> {train.role = #train.role<parameter "w">})
    -> (tensor<f32, #I> {train.role = #train.role<loss>})
    attributes {train.phase = #train.phase<microbatch>} {
  %x = aten.exp(%w) : (tensor<8xf32, #I>) -> tensor<8xf32, #I>
  %y = dist.convert %x : tensor<8xf32, #I> -> tensor<8xf32, #R>
  %s = aten.sum(%y) : (tensor<8xf32, #R>) -> tensor<f32, #R>
  %l = dist.convert %s : tensor<f32, #R> -> tensor<f32, #I>
  // CHECK: dist.all_reduce sum(%{{.*}}) over @mesh ["tp"] {train.backward} : tensor<8xf32, #P_tp> -> tensor<8xf32, #I_tp>
  // CHECK-NEXT: %{{.*}} = aten.mul(%{{.*}}, %{{.*}}) {train.backward} : (tensor<8xf32, #I_tp>, tensor<8xf32, #I_tp>) -> tensor<8xf32, #I_tp>
  return %l : tensor<f32, #I>
}
}

// -----

#I = #dist.on<@mesh, tp = I>
#V = #dist.on<@mesh, tp = V>

// CHECK-LABEL: module @convert_I_V {
module @convert_I_V {
dist.mesh @mesh ["tp" = 2]
func.func @microbatch(%w: tensor<8xf32, #I> {train.role = #train.role<parameter "w">})
    -> (tensor<f32, #I> {train.role = #train.role<loss>})
    attributes {train.phase = #train.phase<microbatch>} {
  %x = aten.exp(%w) : (tensor<8xf32, #I>) -> tensor<8xf32, #I>
  %y = dist.convert %x dim 0 : tensor<8xf32, #I> -> tensor<4xf32, #V>
  %s = aten.sum(%y) : (tensor<4xf32, #V>) -> tensor<f32, #V>
  %l = dist.fake_reduce(%s) over @mesh ["tp"] : tensor<f32, #V> -> tensor<f32, #I>
  // CHECK: dist.all_gather(%{{.*}}) dim 0 over @mesh ["tp"] {train.backward} : tensor<4xf32, #V_tp> -> tensor<8xf32, #I_tp>
  // CHECK-NEXT: %{{.*}} = aten.mul(%{{.*}}, %{{.*}}) {train.backward} : (tensor<8xf32, #I_tp>, tensor<8xf32, #I_tp>) -> tensor<8xf32, #I_tp>
  return %l : tensor<f32, #I>
}
}

// -----

#P = #dist.on<@mesh, tp = P>
#I = #dist.on<@mesh, tp = I>
#S = #dist.on<@mesh, tp = S(0)>

// CHECK-LABEL: module @convert_I_S {
module @convert_I_S {
dist.mesh @mesh ["tp" = 2]
func.func @microbatch(%w: tensor<8xf32, #I> {train.role = #train.role<parameter "w">})
    -> (tensor<f32, #I> {train.role = #train.role<loss>})
    attributes {train.phase = #train.phase<microbatch>} {
  %x = aten.exp(%w) : (tensor<8xf32, #I>) -> tensor<8xf32, #I>
  %y = dist.convert %x : tensor<8xf32, #I> -> tensor<4xf32, #S>
  %s = aten.sum(%y) : (tensor<4xf32, #S>) -> tensor<f32, #P>
  %l = dist.all_reduce sum(%s) over @mesh ["tp"] : tensor<f32, #P> -> tensor<f32, #I>
  // CHECK: dist.reinterpret %{{.*}} {train.backward} : tensor<4xf32, #R_tp> -> tensor<4xf32, #V_tp>
  // CHECK-NEXT: %{{.*}} = dist.reinterpret %{{.*}} {train.backward} : tensor<4xf32, #V_tp> -> tensor<4xf32, #S0_tp>
  // CHECK-NEXT: %{{.*}} = dist.all_gather(%{{.*}}) dim 0 over @mesh ["tp"] {train.backward} : tensor<4xf32, #S0_tp> -> tensor<8xf32, #I_tp>
  // CHECK-NEXT: %{{.*}} = aten.mul(%{{.*}}, %{{.*}}) {train.backward} : (tensor<8xf32, #I_tp>, tensor<8xf32, #I_tp>) -> tensor<8xf32, #I_tp>
  return %l : tensor<f32, #I>
}
}

// -----

#P = #dist.on<@mesh, tp = P>
#I = #dist.on<@mesh, tp = I>

// CHECK-LABEL: module @convert_I_P {
module @convert_I_P {
dist.mesh @mesh ["tp" = 2]
func.func @microbatch(%w: tensor<8xf32, #I> {train.role = #train.role<parameter "w">})
    -> (tensor<f32, #I> {train.role = #train.role<loss>})
    attributes {train.phase = #train.phase<microbatch>} {
  %x = aten.exp(%w) : (tensor<8xf32, #I>) -> tensor<8xf32, #I>
  %y = dist.convert %x : tensor<8xf32, #I> -> tensor<8xf32, #P>
  %s = aten.sum(%y) : (tensor<8xf32, #P>) -> tensor<f32, #P>
  %l = dist.all_reduce sum(%s) over @mesh ["tp"] : tensor<f32, #P> -> tensor<f32, #I>
  // CHECK: dist.convert %{{.*}} {train.backward} : tensor<8xf32, #R_tp> -> tensor<8xf32, #I_tp>
  // CHECK-NEXT: %{{.*}} = aten.mul(%{{.*}}, %{{.*}}) {train.backward} : (tensor<8xf32, #I_tp>, tensor<8xf32, #I_tp>) -> tensor<8xf32, #I_tp>
  return %l : tensor<f32, #I>
}
}

// -----

#R = #dist.on<@mesh, tp = R>
#I = #dist.on<@mesh, tp = I>
#V = #dist.on<@mesh, tp = V>

// CHECK-LABEL: module @convert_R_V {
module @convert_R_V {
dist.mesh @mesh ["tp" = 2]
func.func @microbatch(%w: tensor<8xf32, #I> {train.role = #train.role<parameter "w">})
    -> (tensor<f32, #I> {train.role = #train.role<loss>})
    attributes {train.phase = #train.phase<microbatch>} {
  %x = dist.convert %w : tensor<8xf32, #I> -> tensor<8xf32, #R>
  %y = dist.convert %x dim 0 : tensor<8xf32, #R> -> tensor<4xf32, #V>
  %s = aten.sum(%y) : (tensor<4xf32, #V>) -> tensor<f32, #V>
  %l = dist.fake_reduce(%s) over @mesh ["tp"] : tensor<f32, #V> -> tensor<f32, #I>
  // CHECK: dist.convert %{{.*}} dim 0 {train.backward} : tensor<4xf32, #V_tp> -> tensor<8xf32, #P_tp>
  // CHECK-NEXT: %{{.*}} = dist.all_reduce sum(%{{.*}}) over @mesh ["tp"] {train.backward} : tensor<8xf32, #P_tp> -> tensor<8xf32, #I_tp>
  return %l : tensor<f32, #I>
}
}

// -----

#R = #dist.on<@mesh, tp = R>
#P = #dist.on<@mesh, tp = P>
#I = #dist.on<@mesh, tp = I>
#S = #dist.on<@mesh, tp = S(0)>

// CHECK-LABEL: module @convert_R_S {
module @convert_R_S {
dist.mesh @mesh ["tp" = 2]
func.func @microbatch(%w: tensor<8xf32, #I> {train.role = #train.role<parameter "w">})
    -> (tensor<f32, #I> {train.role = #train.role<loss>})
    attributes {train.phase = #train.phase<microbatch>} {
  %x = dist.convert %w : tensor<8xf32, #I> -> tensor<8xf32, #R>
  %y = dist.convert %x : tensor<8xf32, #R> -> tensor<4xf32, #S>
  %s = aten.sum(%y) : (tensor<4xf32, #S>) -> tensor<f32, #P>
  %l = dist.all_reduce sum(%s) over @mesh ["tp"] : tensor<f32, #P> -> tensor<f32, #I>
  // CHECK: dist.reinterpret %{{.*}} {train.backward} : tensor<4xf32, #R_tp> -> tensor<4xf32, #V_tp>
  // CHECK-NEXT: %{{.*}} = dist.reinterpret %{{.*}} {train.backward} : tensor<4xf32, #V_tp> -> tensor<4xf32, #S0_tp>
  // CHECK-NEXT: %{{.*}} = dist.convert %{{.*}} {train.backward} : tensor<4xf32, #S0_tp> -> tensor<8xf32, #P_tp>
  // CHECK-NEXT: %{{.*}} = dist.all_reduce sum(%{{.*}}) over @mesh ["tp"] {train.backward} : tensor<8xf32, #P_tp> -> tensor<8xf32, #I_tp>
  return %l : tensor<f32, #I>
}
}

// -----

#R = #dist.on<@mesh, tp = R>
#P = #dist.on<@mesh, tp = P>
#I = #dist.on<@mesh, tp = I>

// CHECK-LABEL: module @convert_R_P {
module @convert_R_P {
dist.mesh @mesh ["tp" = 2]
func.func @microbatch(%w: tensor<8xf32, #I> {train.role = #train.role<parameter "w">})
    -> (tensor<f32, #I> {train.role = #train.role<loss>})
    attributes {train.phase = #train.phase<microbatch>} {
  %x = dist.convert %w : tensor<8xf32, #I> -> tensor<8xf32, #R>
  %y = dist.convert %x : tensor<8xf32, #R> -> tensor<8xf32, #P>
  %s = aten.sum(%y) : (tensor<8xf32, #P>) -> tensor<f32, #P>
  %l = dist.all_reduce sum(%s) over @mesh ["tp"] : tensor<f32, #P> -> tensor<f32, #I>
  // CHECK: dist.convert %{{.*}} {train.backward} : tensor<8xf32, #R_tp> -> tensor<8xf32, #P_tp>
  // CHECK-NEXT: %{{.*}} = dist.all_reduce sum(%{{.*}}) over @mesh ["tp"] {train.backward} : tensor<8xf32, #P_tp> -> tensor<8xf32, #I_tp>
  return %l : tensor<f32, #I>
}
}

// -----

#R = #dist.on<@mesh, tp = R>
#I = #dist.on<@mesh, tp = I>

// CHECK-LABEL: module @convert_R_I {
module @convert_R_I {
dist.mesh @mesh ["tp" = 2]
func.func @microbatch(%w: tensor<8xf32, #I> {train.role = #train.role<parameter "w">})
    -> (tensor<f32, #I> {train.role = #train.role<loss>})
    attributes {train.phase = #train.phase<microbatch>} {
  %x = dist.convert %w : tensor<8xf32, #I> -> tensor<8xf32, #R>
  %y = dist.convert %x : tensor<8xf32, #R> -> tensor<8xf32, #I>
  %s = aten.sum(%y) : (tensor<8xf32, #I>) -> tensor<f32, #I>
  // CHECK: dist.convert %{{.*}} {train.backward} : tensor<8xf32, #I_tp> -> tensor<8xf32, #P_tp>
  // CHECK-NEXT: %{{.*}} = dist.all_reduce sum(%{{.*}}) over @mesh ["tp"] {train.backward} : tensor<8xf32, #P_tp> -> tensor<8xf32, #I_tp>
  return %s : tensor<f32, #I>
}
}

// -----

#P = #dist.on<@mesh, tp = P>
#I = #dist.on<@mesh, tp = I>
#V = #dist.on<@mesh, tp = V>

// CHECK-LABEL: module @convert_V_P {
module @convert_V_P {
dist.mesh @mesh ["tp" = 2]
func.func @microbatch(%w: tensor<8xf32, #I> {train.role = #train.role<parameter "w">})
    -> (tensor<f32, #I> {train.role = #train.role<loss>})
    attributes {train.phase = #train.phase<microbatch>} {
  %x = dist.fake_scatter(%w) dim 0 over @mesh ["tp"] : tensor<8xf32, #I> -> tensor<4xf32, #V>
  %y = dist.convert %x dim 0 : tensor<4xf32, #V> -> tensor<8xf32, #P>
  %s = aten.sum(%y) : (tensor<8xf32, #P>) -> tensor<f32, #P>
  %l = dist.all_reduce sum(%s) over @mesh ["tp"] : tensor<f32, #P> -> tensor<f32, #I>
  // CHECK: dist.convert %{{.*}} dim 0 {train.backward} : tensor<8xf32, #R_tp> -> tensor<4xf32, #V_tp>
  // CHECK-NEXT: %{{.*}} = dist.fake_gather(%{{.*}}) dim 0 over @mesh ["tp"] {train.backward} : tensor<4xf32, #V_tp> -> tensor<8xf32, #I_tp>
  return %l : tensor<f32, #I>
}
}

// -----

#P = #dist.on<@mesh, tp = P>
#I = #dist.on<@mesh, tp = I>
#S = #dist.on<@mesh, tp = S(0)>

// CHECK-LABEL: module @convert_S_P {
module @convert_S_P {
dist.mesh @mesh ["tp" = 2]
func.func @microbatch(%w: tensor<8xf32, #I> {train.role = #train.role<parameter "w">})
    -> (tensor<f32, #I> {train.role = #train.role<loss>})
    attributes {train.phase = #train.phase<microbatch>} {
  %x = dist.fake_scatter(%w) dim 0 over @mesh ["tp"] : tensor<8xf32, #I> -> tensor<4xf32, #S>
  %y = dist.convert %x : tensor<4xf32, #S> -> tensor<8xf32, #P>
  %s = aten.sum(%y) : (tensor<8xf32, #P>) -> tensor<f32, #P>
  %l = dist.all_reduce sum(%s) over @mesh ["tp"] : tensor<f32, #P> -> tensor<f32, #I>
  // CHECK: dist.convert %{{.*}} {train.backward} : tensor<8xf32, #R_tp> -> tensor<4xf32, #S0_tp>
  // CHECK-NEXT: %{{.*}} = dist.fake_gather(%{{.*}}) dim 0 over @mesh ["tp"] {train.backward} : tensor<4xf32, #S0_tp> -> tensor<8xf32, #I_tp>
  return %l : tensor<f32, #I>
}
}

// -----

#R = #dist.on<@mesh, tp = R>
#I = #dist.on<@mesh, tp = I>
#V = #dist.on<@mesh, tp = V>

// CHECK-LABEL: module @reinterpret_R_V {
module @reinterpret_R_V {
dist.mesh @mesh ["tp" = 2]
func.func @microbatch(%w: tensor<8xf32, #I> {train.role = #train.role<parameter "w">})
    -> (tensor<f32, #I> {train.role = #train.role<loss>})
    attributes {train.phase = #train.phase<microbatch>} {
  %x = dist.convert %w : tensor<8xf32, #I> -> tensor<8xf32, #R>
  %y = dist.reinterpret %x : tensor<8xf32, #R> -> tensor<8xf32, #V>
  %s = aten.sum(%y) : (tensor<8xf32, #V>) -> tensor<f32, #V>
  %l = dist.fake_reduce(%s) over @mesh ["tp"] : tensor<f32, #V> -> tensor<f32, #I>
  // CHECK: dist.reinterpret %{{.*}} {train.backward} : tensor<8xf32, #V_tp> -> tensor<8xf32, #P_tp>
  // CHECK-NEXT: %{{.*}} = dist.all_reduce sum(%{{.*}}) over @mesh ["tp"] {train.backward} : tensor<8xf32, #P_tp> -> tensor<8xf32, #I_tp>
  return %l : tensor<f32, #I>
}
}

// -----

#P = #dist.on<@mesh, tp = P>
#I = #dist.on<@mesh, tp = I>
#V = #dist.on<@mesh, tp = V>

// CHECK-LABEL: module @reinterpret_V_P {
module @reinterpret_V_P {
dist.mesh @mesh ["tp" = 2]
func.func @microbatch(%w: tensor<8xf32, #I> {train.role = #train.role<parameter "w">})
    -> (tensor<f32, #I> {train.role = #train.role<loss>})
    attributes {train.phase = #train.phase<microbatch>} {
  %x = dist.fake_broadcast(%w) over @mesh ["tp"] : tensor<8xf32, #I> -> tensor<8xf32, #V>
  %y = dist.reinterpret %x : tensor<8xf32, #V> -> tensor<8xf32, #P>
  %s = aten.sum(%y) : (tensor<8xf32, #P>) -> tensor<f32, #P>
  %l = dist.all_reduce sum(%s) over @mesh ["tp"] : tensor<f32, #P> -> tensor<f32, #I>
  // CHECK: dist.reinterpret %{{.*}} {train.backward} : tensor<8xf32, #R_tp> -> tensor<8xf32, #V_tp>
  // CHECK-NEXT: %{{.*}} = dist.fake_reduce(%{{.*}}) over @mesh ["tp"] {train.backward} : tensor<8xf32, #V_tp> -> tensor<8xf32, #I_tp>
  return %l : tensor<f32, #I>
}
}

// -----

#R = #dist.on<@mesh, tp = R>
#P = #dist.on<@mesh, tp = P>
#I = #dist.on<@mesh, tp = I>

// CHECK-LABEL: module @reinterpret_R_P {
module @reinterpret_R_P {
dist.mesh @mesh ["tp" = 2]
func.func @microbatch(%w: tensor<8xf32, #I> {train.role = #train.role<parameter "w">})
    -> (tensor<f32, #I> {train.role = #train.role<loss>})
    attributes {train.phase = #train.phase<microbatch>} {
  %x = dist.convert %w : tensor<8xf32, #I> -> tensor<8xf32, #R>
  %y = dist.reinterpret %x : tensor<8xf32, #R> -> tensor<8xf32, #P>
  %s = aten.sum(%y) : (tensor<8xf32, #P>) -> tensor<f32, #P>
  %l = dist.all_reduce sum(%s) over @mesh ["tp"] : tensor<f32, #P> -> tensor<f32, #I>
  // CHECK: dist.reinterpret %{{.*}} {train.backward} : tensor<8xf32, #R_tp> -> tensor<8xf32, #P_tp>
  // CHECK-NEXT: %{{.*}} = dist.all_reduce sum(%{{.*}}) over @mesh ["tp"] {train.backward} : tensor<8xf32, #P_tp> -> tensor<8xf32, #I_tp>
  return %l : tensor<f32, #I>
}
}

// -----

#P = #dist.on<@mesh, tp = P>
#I = #dist.on<@mesh, tp = I>
#V = #dist.on<@mesh, tp = V>
#S = #dist.on<@mesh, tp = S(0)>

// CHECK-LABEL: module @reinterpret_V_S {
module @reinterpret_V_S {
dist.mesh @mesh ["tp" = 2]
func.func @microbatch(%w: tensor<8xf32, #I> {train.role = #train.role<parameter "w">})
    -> (tensor<f32, #I> {train.role = #train.role<loss>})
    attributes {train.phase = #train.phase<microbatch>} {
  %x = dist.fake_broadcast(%w) over @mesh ["tp"] : tensor<8xf32, #I> -> tensor<8xf32, #V>
  %y = dist.reinterpret %x : tensor<8xf32, #V> -> tensor<8xf32, #S>
  %s = aten.sum(%y) : (tensor<8xf32, #S>) -> tensor<f32, #P>
  %l = dist.all_reduce sum(%s) over @mesh ["tp"] : tensor<f32, #P> -> tensor<f32, #I>
  // CHECK: dist.reinterpret %{{.*}} {train.backward} : tensor<8xf32, #R_tp> -> tensor<8xf32, #V_tp>
  // CHECK-NEXT: %{{.*}} = dist.reinterpret %{{.*}} {train.backward} : tensor<8xf32, #V_tp> -> tensor<8xf32, #S0_tp>
  // CHECK-NEXT: %{{.*}} = dist.reinterpret %{{.*}} {train.backward} : tensor<8xf32, #S0_tp> -> tensor<8xf32, #V_tp>
  // CHECK-NEXT: %{{.*}} = dist.fake_reduce(%{{.*}}) over @mesh ["tp"] {train.backward} : tensor<8xf32, #V_tp> -> tensor<8xf32, #I_tp>
  return %l : tensor<f32, #I>
}
}

// -----

#I = #dist.on<@mesh, tp = I>
#V = #dist.on<@mesh, tp = V>
#S = #dist.on<@mesh, tp = S(0)>

// CHECK-LABEL: module @reinterpret_S_V {
module @reinterpret_S_V {
dist.mesh @mesh ["tp" = 2]
func.func @microbatch(%w: tensor<8xf32, #I> {train.role = #train.role<parameter "w">})
    -> (tensor<f32, #I> {train.role = #train.role<loss>})
    attributes {train.phase = #train.phase<microbatch>} {
  %v = dist.fake_broadcast(%w) over @mesh ["tp"] : tensor<8xf32, #I> -> tensor<8xf32, #V>
  %x = dist.reinterpret %v : tensor<8xf32, #V> -> tensor<8xf32, #S>
  %y = dist.reinterpret %x : tensor<8xf32, #S> -> tensor<8xf32, #V>
  %s = aten.sum(%y) : (tensor<8xf32, #V>) -> tensor<f32, #V>
  %l = dist.fake_reduce(%s) over @mesh ["tp"] : tensor<f32, #V> -> tensor<f32, #I>
  // CHECK: dist.reinterpret %{{.*}} {train.backward} : tensor<8xf32, #V_tp> -> tensor<8xf32, #S0_tp>
  // CHECK-NEXT: %{{.*}} = dist.reinterpret %{{.*}} {train.backward} : tensor<8xf32, #S0_tp> -> tensor<8xf32, #V_tp>
  // CHECK-NEXT: %{{.*}} = dist.fake_reduce(%{{.*}}) over @mesh ["tp"] {train.backward} : tensor<8xf32, #V_tp> -> tensor<8xf32, #I_tp>
  return %l : tensor<f32, #I>
}
}

// -----

#I = #dist.on<@mesh, tp = I>
#V = #dist.on<@mesh, tp = V>

// CHECK-LABEL: module @fake_broadcast_V {
module @fake_broadcast_V {
dist.mesh @mesh ["tp" = 2]
func.func @microbatch(%w: tensor<8xf32, #I> {train.role = #train.role<parameter "w">})
    -> (tensor<f32, #I> {train.role = #train.role<loss>})
    attributes {train.phase = #train.phase<microbatch>} {
  %x = aten.exp(%w) : (tensor<8xf32, #I>) -> tensor<8xf32, #I>
  %y = dist.fake_broadcast(%x) over @mesh ["tp"] : tensor<8xf32, #I> -> tensor<8xf32, #V>
  %s = aten.sum(%y) : (tensor<8xf32, #V>) -> tensor<f32, #V>
  %l = dist.fake_reduce(%s) over @mesh ["tp"] : tensor<f32, #V> -> tensor<f32, #I>
  // CHECK: dist.fake_reduce(%{{.*}}) over @mesh ["tp"] {train.backward} : tensor<8xf32, #V_tp> -> tensor<8xf32, #I_tp>
  // CHECK-NEXT: %{{.*}} = aten.mul(%{{.*}}, %{{.*}}) {train.backward} : (tensor<8xf32, #I_tp>, tensor<8xf32, #I_tp>) -> tensor<8xf32, #I_tp>
  return %l : tensor<f32, #I>
}
}

// -----

#R = #dist.on<@mesh, tp = R>
#I = #dist.on<@mesh, tp = I>

// CHECK-LABEL: module @fake_broadcast_R {
module @fake_broadcast_R {
dist.mesh @mesh ["tp" = 2]
func.func @microbatch(%w: tensor<8xf32, #I> {train.role = #train.role<parameter "w">})
    -> (tensor<f32, #I> {train.role = #train.role<loss>})
    attributes {train.phase = #train.phase<microbatch>} {
  %x = aten.exp(%w) : (tensor<8xf32, #I>) -> tensor<8xf32, #I>
  %y = dist.fake_broadcast(%x) over @mesh ["tp"] : tensor<8xf32, #I> -> tensor<8xf32, #R>
  %s = aten.sum(%y) : (tensor<8xf32, #R>) -> tensor<f32, #R>
  %l = dist.convert %s : tensor<f32, #R> -> tensor<f32, #I>
  // CHECK: dist.fake_reduce(%{{.*}}) over @mesh ["tp"] {train.backward} : tensor<8xf32, #P_tp> -> tensor<8xf32, #I_tp>
  // CHECK-NEXT: %{{.*}} = aten.mul(%{{.*}}, %{{.*}}) {train.backward} : (tensor<8xf32, #I_tp>, tensor<8xf32, #I_tp>) -> tensor<8xf32, #I_tp>
  return %l : tensor<f32, #I>
}
}

// -----

#I = #dist.on<@mesh, tp = I>
#V = #dist.on<@mesh, tp = V>

// CHECK-LABEL: module @fake_reduce_V {
module @fake_reduce_V {
dist.mesh @mesh ["tp" = 2]
func.func @microbatch(%w: tensor<8xf32, #I> {train.role = #train.role<parameter "w">})
    -> (tensor<f32, #I> {train.role = #train.role<loss>})
    attributes {train.phase = #train.phase<microbatch>} {
  %x = dist.fake_broadcast(%w) over @mesh ["tp"] : tensor<8xf32, #I> -> tensor<8xf32, #V>
  %y = dist.fake_reduce(%x) over @mesh ["tp"] : tensor<8xf32, #V> -> tensor<8xf32, #I>
  %s = aten.sum(%y) : (tensor<8xf32, #I>) -> tensor<f32, #I>
  // CHECK: dist.fake_broadcast(%{{.*}}) over @mesh ["tp"] {train.backward} : tensor<8xf32, #I_tp> -> tensor<8xf32, #V_tp>
  // CHECK-NEXT: %{{.*}} = dist.fake_reduce(%{{.*}}) over @mesh ["tp"] {train.backward} : tensor<8xf32, #V_tp> -> tensor<8xf32, #I_tp>
  return %s : tensor<f32, #I>
}
}

// -----

#R = #dist.on<@mesh, tp = R>
#P = #dist.on<@mesh, tp = P>
#I = #dist.on<@mesh, tp = I>

// CHECK-LABEL: module @fake_reduce_P {
module @fake_reduce_P {
dist.mesh @mesh ["tp" = 2]
func.func @microbatch(%w: tensor<8xf32, #I> {train.role = #train.role<parameter "w">})
    -> (tensor<f32, #I> {train.role = #train.role<loss>})
    attributes {train.phase = #train.phase<microbatch>} {
  %r = dist.convert %w : tensor<8xf32, #I> -> tensor<8xf32, #R>
  %x = dist.convert %r : tensor<8xf32, #R> -> tensor<8xf32, #P>
  %y = dist.fake_reduce(%x) over @mesh ["tp"] : tensor<8xf32, #P> -> tensor<8xf32, #I>
  %s = aten.sum(%y) : (tensor<8xf32, #I>) -> tensor<f32, #I>
  // CHECK: dist.fake_broadcast(%{{.*}}) over @mesh ["tp"] {train.backward} : tensor<8xf32, #I_tp> -> tensor<8xf32, #R_tp>
  // CHECK-NEXT: %{{.*}} = dist.convert %{{.*}} {train.backward} : tensor<8xf32, #R_tp> -> tensor<8xf32, #P_tp>
  // CHECK-NEXT: %{{.*}} = dist.all_reduce sum(%{{.*}}) over @mesh ["tp"] {train.backward} : tensor<8xf32, #P_tp> -> tensor<8xf32, #I_tp>
  return %s : tensor<f32, #I>
}
}

// -----

#P = #dist.on<@mesh, tp = P>
#I = #dist.on<@mesh, tp = I>
#S = #dist.on<@mesh, tp = S(0)>

// CHECK-LABEL: module @fake_scatter {
module @fake_scatter {
dist.mesh @mesh ["tp" = 2]
func.func @microbatch(%w: tensor<8xf32, #I> {train.role = #train.role<parameter "w">})
    -> (tensor<f32, #I> {train.role = #train.role<loss>})
    attributes {train.phase = #train.phase<microbatch>} {
  %x = aten.exp(%w) : (tensor<8xf32, #I>) -> tensor<8xf32, #I>
  %y = dist.fake_scatter(%x) dim 0 over @mesh ["tp"] : tensor<8xf32, #I> -> tensor<4xf32, #S>
  %s = aten.sum(%y) : (tensor<4xf32, #S>) -> tensor<f32, #P>
  %l = dist.all_reduce sum(%s) over @mesh ["tp"] : tensor<f32, #P> -> tensor<f32, #I>
  // CHECK: dist.reinterpret %{{.*}} {train.backward} : tensor<4xf32, #R_tp> -> tensor<4xf32, #V_tp>
  // CHECK-NEXT: %{{.*}} = dist.reinterpret %{{.*}} {train.backward} : tensor<4xf32, #V_tp> -> tensor<4xf32, #S0_tp>
  // CHECK-NEXT: %{{.*}} = dist.fake_gather(%{{.*}}) dim 0 over @mesh ["tp"] {train.backward} : tensor<4xf32, #S0_tp> -> tensor<8xf32, #I_tp>
  // CHECK-NEXT: %{{.*}} = aten.mul(%{{.*}}, %{{.*}}) {train.backward} : (tensor<8xf32, #I_tp>, tensor<8xf32, #I_tp>) -> tensor<8xf32, #I_tp>
  return %l : tensor<f32, #I>
}
}

// -----

#I = #dist.on<@mesh, tp = I>
#S = #dist.on<@mesh, tp = S(0)>

// CHECK-LABEL: module @fake_gather {
module @fake_gather {
dist.mesh @mesh ["tp" = 2]
func.func @microbatch(%w: tensor<8xf32, #I> {train.role = #train.role<parameter "w">})
    -> (tensor<f32, #I> {train.role = #train.role<loss>})
    attributes {train.phase = #train.phase<microbatch>} {
  %x = dist.fake_scatter(%w) dim 0 over @mesh ["tp"] : tensor<8xf32, #I> -> tensor<4xf32, #S>
  %y = dist.fake_gather(%x) dim 0 over @mesh ["tp"] : tensor<4xf32, #S> -> tensor<8xf32, #I>
  %s = aten.sum(%y) : (tensor<8xf32, #I>) -> tensor<f32, #I>
  // CHECK: dist.fake_scatter(%{{.*}}) dim 0 over @mesh ["tp"] {train.backward} : tensor<8xf32, #I_tp> -> tensor<4xf32, #S0_tp>
  // CHECK-NEXT: %{{.*}} = dist.fake_gather(%{{.*}}) dim 0 over @mesh ["tp"] {train.backward} : tensor<4xf32, #S0_tp> -> tensor<8xf32, #I_tp>
  return %s : tensor<f32, #I>
}
}

// -----

// Each rank holds one of two heads. Of the dimensions to which the gradient's S(1) may go back, the one of
// size 1 is the operand's.

#I = #dist.on<@mesh, tp = I>
#P = #dist.on<@mesh, tp = P>
#S1 = #dist.on<@mesh, tp = S(1)>
#S2 = #dist.on<@mesh, tp = S(2)>

// CHECK-LABEL: module @heads {
module @heads {
dist.mesh @mesh ["tp" = 2]
func.func @microbatch(%w: tensor<2x4x1x8xf32, #S2> {train.role = #train.role<parameter "w">})
    -> (tensor<f32, #I> {train.role = #train.role<loss>})
    attributes {train.phase = #train.phase<microbatch>} {
  %x = aten.view(%w, size = [8, 8]) : (tensor<2x4x1x8xf32, #S2>) -> tensor<8x8xf32, #S1>
  %s = aten.sum(%x) : (tensor<8x8xf32, #S1>) -> tensor<f32, #P>
  %l = dist.all_reduce sum(%s) over @mesh ["tp"] : tensor<f32, #P> -> tensor<f32, #I>
  // CHECK: aten.view({{.*}}) {train.backward} : (tensor<8x8xf32, #S1_tp>) -> tensor<2x4x1x8xf32, #S2_tp>
  // CHECK-NEXT: return
  return %l : tensor<f32, #I>
}
}
