// Stages of a program with placements stay typed: what crosses keeps its placement, and cuts avoid pending sums.
//
// RUN: cleave-opt %s --autodiff --outline-stages="count=2 balance=cost explain=true" --check-spmd-types -o %t.mlir 2>&1 | FileCheck %s --check-prefix=EXPLAIN
// RUN: FileCheck %s < %t.mlir
// RUN: cleave-opt %s --autodiff --outline-stages="at=g explain=true" --check-spmd-types -o %t.at.mlir 2>&1 | FileCheck %s --check-prefix=CUT
// RUN: FileCheck %s --check-prefix=PENDING < %t.at.mlir
// RUN: sed '1i #V_tp = #dist.on<@mesh, tp = V>' %t.at.mlir | sed '/@forward_1/,/^  }/s/#P_tp/#V_tp/g' > %t.wrong.mlir
// RUN: not cleave-opt %t.wrong.mlir --split-backward 2>&1 | FileCheck %s --check-prefix=DIFFER
// RUN: sed 's/dist.mesh @mesh \["tp"/dist.mesh @mesh ["pp" = 2, "tp"/' %t.at.mlir | cleave-opt --check-spmd-types -o /dev/null
// RUN: sed 's/dist.mesh @mesh \["tp"/dist.mesh @mesh ["dp" = 2, "tp"/' %t.at.mlir | not cleave-opt --check-spmd-types 2>&1 | FileCheck %s --check-prefix=AXIS

// The pipeline's axis is no axis of a stage's values; any other is.
// AXIS: error: {{.*}}expects placements on axis "dp" of mesh @mesh too, since several ranks may lie along it

// Behind the conversion to R, which costs nothing, a cut would balance and send the same, but the gradient would be a
// pending sum there.
// EXPLAIN: to stage 1: 1 values, 64 bytes; back: 1 gradients, 64 bytes{{$}}
// CHECK: func.func @forward_0({{.*}} -> (tensor<4x4xf32, #[[I:[A-Z]*_tp]]> {train.role = #train.role<crossing "in.mm">}
// CHECK: dist.convert
// CHECK: func.func @backward_1({{.*}} -> ({{.*}}tensor<4x4xf32, #[[I]]> {train.role = #train.role<crossing_gradient

// Asked for, a pending sum crosses, and is one at both ends.
// CUT: to stage 1: 1 values, 64 bytes; back: 1 gradients, 64 bytes; 1 of them pending sums
// PENDING: func.func @forward_0({{.*}} -> (tensor<4x4xf32, #P_tp> {train.role = #train.role<crossing "down.mm">}
// PENDING: func.func @forward_1({{.*}}: tensor<4x4xf32, #P_tp> {train.role = #train.role<crossing "down.mm">}
// PENDING: dist.all_reduce sum

// DIFFER: error: takes #train.role<crossing "down.mm"> of type 'tensor<4x4xf32, #dist.on<@mesh, tp = V>>'
// DIFFER: note: stage 0 returns it with type 'tensor<4x4xf32, #dist.on<@mesh, tp = P>>'

#I = #dist.on<@mesh, tp = I>
#R = #dist.on<@mesh, tp = R>
#P = #dist.on<@mesh, tp = P>
#S0 = #dist.on<@mesh, tp = S(0)>
#S1 = #dist.on<@mesh, tp = S(1)>
module @mlp {
  dist.mesh @mesh ["tp" = 2]
  func.func @microbatch(
      %a: tensor<4x4xf32, #S1> {train.role = #train.role<parameter "a">},
      %b: tensor<4x4xf32, #S0> {train.role = #train.role<parameter "b">},
      %c: tensor<4x4xf32, #I> {train.role = #train.role<parameter "c">},
      %d: tensor<4x4xf32, #I> {train.role = #train.role<parameter "d">},
      %x: tensor<4x4xf32, #I> {train.role = #train.role<input "x" batch 0>})
      -> (tensor<f32, #I> {train.role = #train.role<loss>})
      attributes {train.phase = #train.phase<microbatch>} {
    %y0 = aten.mm(%x, %c) : (tensor<4x4xf32, #I>, tensor<4x4xf32, #I>) -> tensor<4x4xf32, #I> loc("in")
    %y1 = aten.mm(%y0, %c) : (tensor<4x4xf32, #I>, tensor<4x4xf32, #I>) -> tensor<4x4xf32, #I> loc("in")
    %y2 = aten.mm(%y1, %c) : (tensor<4x4xf32, #I>, tensor<4x4xf32, #I>) -> tensor<4x4xf32, #I> loc("in")
    %y3 = aten.mm(%y2, %c) : (tensor<4x4xf32, #I>, tensor<4x4xf32, #I>) -> tensor<4x4xf32, #I> loc("in")
    %y = aten.mm(%y3, %c) : (tensor<4x4xf32, #I>, tensor<4x4xf32, #I>) -> tensor<4x4xf32, #I> loc("in")
    %0 = dist.convert %y : tensor<4x4xf32, #I> -> tensor<4x4xf32, #R> loc("f")
    %1 = aten.mm(%0, %a) : (tensor<4x4xf32, #R>, tensor<4x4xf32, #S1>) -> tensor<4x4xf32, #S1> loc("up")
    %2 = aten.relu(%1) : (tensor<4x4xf32, #S1>) -> tensor<4x4xf32, #S1> loc("up")
    %3 = aten.mm(%2, %b) : (tensor<4x4xf32, #S1>, tensor<4x4xf32, #S0>) -> tensor<4x4xf32, #P> loc("down")
    %4 = dist.all_reduce sum(%3) over @mesh ["tp"] : tensor<4x4xf32, #P> -> tensor<4x4xf32, #I> loc("g")
    %5 = aten.relu(%4) : (tensor<4x4xf32, #I>) -> tensor<4x4xf32, #I> loc("out")
    %o = aten.mm(%5, %d) : (tensor<4x4xf32, #I>, tensor<4x4xf32, #I>) -> tensor<4x4xf32, #I> loc("out")
    %6 = aten.mean(%o) : (tensor<4x4xf32, #I>) -> tensor<f32, #I> loc("out")
    return %6 : tensor<f32, #I>
  }
}
