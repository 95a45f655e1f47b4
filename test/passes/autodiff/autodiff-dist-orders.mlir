// RUN: cleave-opt %s --check-spmd-types --autodiff --check-spmd-types | FileCheck %s

// Two axes shard a dimension of the parameter; in the product one of them varies, so that the gradient has the
// other as its only one. It is called by its order in the parameter again, the major axis first.
#xy = #dist.on<@mesh, dp = S(0), tp = S(0, 1)>
#v = #dist.on<@mesh, dp = V, tp = R>
#vs = #dist.on<@mesh, dp = V, tp = S(0)>
#vp = #dist.on<@mesh, dp = V, tp = P>
#pp = #dist.on<@mesh, dp = P, tp = P>
module {
  dist.mesh @mesh ["dp" = 2, "tp" = 2]
  // CHECK-LABEL: func.func @microbatch
  // CHECK: %[[G:.*]] = aten.mm(%{{.*}}, %{{.*}}) {train.backward} {{.*}} -> tensor<1x2xf64, #[[VS:.*]]>
  // CHECK: %[[V:.*]] = dist.reinterpret %[[G]] {train.backward} : tensor<1x2xf64, #[[VS]]> -> tensor<1x2xf64, #[[VV:.*]]>
  // CHECK: %[[S:.*]] = dist.reinterpret %[[V]] {train.backward} : tensor<1x2xf64, #[[VV]]> -> tensor<1x2xf64, #[[SV:.*]]>
  // CHECK: %[[D:.*]] = dist.reinterpret %[[S]] {train.backward} : tensor<1x2xf64, #[[SV]]> -> tensor<1x2xf64, #[[SS:.*]]>
  // CHECK: return %{{.*}}, %[[D]]
  func.func @microbatch(
      %x: tensor<1x2xf64, #xy> {train.role = #train.role<parameter "x">},
      %y: tensor<2x1xf64, #dist.on<@mesh, dp = S(0), tp = R>> {train.role = #train.role<input "y">})
      -> (tensor<f64, #pp> {train.role = #train.role<loss>})
      attributes {train.phase = #train.phase<microbatch>} {
    %v = dist.reinterpret %y : tensor<2x1xf64, #dist.on<@mesh, dp = S(0), tp = R>> -> tensor<2x1xf64, #v>
    %m = aten.mm(%x, %v) : (tensor<1x2xf64, #xy>, tensor<2x1xf64, #v>) -> tensor<1x1xf64, #vs>
    %s = aten.sum(%m) : (tensor<1x1xf64, #vs>) -> tensor<f64, #vp>
    %l = dist.reinterpret %s : tensor<f64, #vp> -> tensor<f64, #pp>
    return %l : tensor<f64, #pp>
  }
}
