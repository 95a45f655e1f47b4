// RUN: cleave-opt %s --lower-to-exec | FileCheck %s
// RUN: cleave-opt %s --lower-to-exec="target=cuda chip=sm_90" | FileCheck %s --check-prefix=CUDA
// RUN: cleave-opt %s --lower-to-exec --lower-to-exec | FileCheck %s
// RUN: cleave-opt %s --lower-to-exec="explain=true plot=%t.svg" -o /dev/null 2>&1 | FileCheck %s --check-prefix=EXPLAIN
// RUN: FileCheck %s --check-prefix=PLOT --input-file %t.svg

// EXPLAIN: remark: forward: arena 0 B, {{.*}}; frame 768 B, 0.0 % more; 2 results in it; on the heap: 2 that outlive the function
// EXPLAIN: remark: backward_input: {{.*}}; frame 768 B, 0.0 % more; 1 results in it; on the heap: 0
// PLOT: forward, backward_input, backward_weight: frame of 768 B, at most 768 B in use
// PLOT: <title>backward_input begins</title>
// PLOT: <title>backward_weight begins</title>

dist.mesh @mesh ["dp" = 2]

// What only the backward-input reads gives its place to what that saves for the backward-weight.

// CHECK-LABEL: func.func @forward
// CHECK-SAME: exec.lowered = #exec.lowered<cpu, arena = 0, frame = 768, alignment = 64>
// CUDA-LABEL: func.func @forward
// CUDA-SAME: frame = 1536, alignment = 512
func.func @forward(
    %w: tensor<8x8xf32> {train.role = #train.role<parameter "w">},
    %x: tensor<8x8xf32> {train.role = #train.role<input "x" batch 0>})
    -> (tensor<f32> {train.role = #train.role<loss>},
        tensor<8x8xf32> {train.role = #train.role<saved "long">},
        tensor<8x8xf32> {train.role = #train.role<saved "short">},
        tensor<8x8xf32> {train.role = #train.role<saved "shown">},
        tensor<8x8xf32> {train.role = #train.role<output "shown">},
        tensor<8x8xf32> {train.role = #train.role<saved "given">})
    attributes {train.phase = #train.phase<forward>} {
  // CHECK: aten.mm({{.*}}) {exec.memory = [#exec.frame<[[LONG:.*]]>]}
  %long = aten.mm(%x, %w) : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  // CHECK: aten.gelu({{.*}}) {exec.memory = [#exec.frame<[[SHORT:.*]]>]}
  %short = aten.gelu(%long) : (tensor<8x8xf32>) -> tensor<8x8xf32>
  // Others than the backward see it.
  // CHECK: aten.relu({{.*}}) {exec.memory = [#exec.apart]}
  %shown = aten.relu(%short) : (tensor<8x8xf32>) -> tensor<8x8xf32>
  // CHECK: aten.mean({{.*}}) {exec.memory = [#exec.apart]}
  %loss = aten.mean(%shown) : (tensor<8x8xf32>) -> tensor<f32>
  return %loss, %long, %short, %shown, %shown, %x
      : tensor<f32>, tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>
}

// CHECK-LABEL: func.func @backward_input
// CHECK-SAME: frame = 768
func.func @backward_input(
    %w: tensor<8x8xf32> {train.role = #train.role<parameter "w">},
    %s: tensor<f32> {train.role = #train.role<seed>},
    %shown: tensor<8x8xf32> {train.role = #train.role<saved "shown">},
    %given: tensor<8x8xf32> {train.role = #train.role<saved "given">},
    %short: tensor<8x8xf32> {train.role = #train.role<saved "short">})
    -> (tensor<8x8xf32> {train.role = #train.role<saved "g">},
        tensor<8x8xf32> {train.role = #train.role<saved "again">},
        tensor<8x8xf32> {train.role = #train.role<saved "given again">})
    attributes {train.phase = #train.phase<backward_input>} {
  // CHECK: aten.mm({{.*}}) {exec.memory = [#exec.at<
  %0 = aten.mm(%short, %w) : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  // CHECK: aten.t({{.*}}) {exec.memory = [#exec.same<0>]}
  %again = aten.t(%short) : (tensor<8x8xf32>) -> tensor<8x8xf32>
  // CHECK: aten.mm({{.*}}) {exec.memory = [#exec.frame<
  %g = aten.mm(%0, %shown) : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  return %g, %again, %given : tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>
}

func.func @backward_weight(
    %a: tensor<8x8xf32> {train.role = #train.role<accumulator "w">},
    %long: tensor<8x8xf32> {train.role = #train.role<saved "long">},
    %g: tensor<8x8xf32> {train.role = #train.role<saved "g">},
    %again: tensor<8x8xf32> {train.role = #train.role<saved "again">},
    %given: tensor<8x8xf32> {train.role = #train.role<saved "given again">})
    -> (tensor<8x8xf32> {train.role = #train.role<gradient "w">})
    attributes {train.phase = #train.phase<backward_weight>} {
  %0 = aten.mm(%long, %g) : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %1 = aten.addmm(%0, %again, %given) : (tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %sum = train.accumulate %1 into %a : tensor<8x8xf32>
  return %sum : tensor<8x8xf32>
}

// The next stage has a frame of its own, and there what the backward-input has read last gives its
// place to what it saves.

// CHECK-LABEL: func.func @forward_1
// CHECK-SAME: frame = 256
func.func @forward_1(%x: tensor<8x8xf32> {train.role = #train.role<input "x" batch 0>})
    -> (tensor<8x8xf32> {train.role = #train.role<saved "p">})
    attributes {train.phase = #train.phase<forward>, train.stage = 1 : i64} {
  // CHECK: aten.relu({{.*}}) {exec.memory = [#exec.frame<0>]}
  %p = aten.relu(%x) : (tensor<8x8xf32>) -> tensor<8x8xf32>
  return %p : tensor<8x8xf32>
}
// CHECK-LABEL: func.func @backward_input_1
func.func @backward_input_1(%p: tensor<8x8xf32> {train.role = #train.role<saved "p">})
    -> (tensor<8x8xf32> {train.role = #train.role<saved "q">})
    attributes {train.phase = #train.phase<backward_input>, train.stage = 1 : i64} {
  // CHECK: aten.neg({{.*}}) {exec.memory = [#exec.at<0>]}
  %0 = aten.neg(%p) : (tensor<8x8xf32>) -> tensor<8x8xf32>
  // CHECK: aten.mm({{.*}}) {exec.memory = [#exec.frame<0>]}
  %q = aten.mm(%0, %0) : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  return %q : tensor<8x8xf32>
}
func.func @backward_weight_1(%q: tensor<8x8xf32> {train.role = #train.role<saved "q">})
    -> (tensor<8x8xf32> {train.role = #train.role<gradient "v">})
    attributes {train.phase = #train.phase<backward_weight>, train.stage = 1 : i64} {
  %0 = aten.neg(%q) : (tensor<8x8xf32>) -> tensor<8x8xf32>
  return %0 : tensor<8x8xf32>
}

// While communication reads what the backward-input was given, another stream's ops do not write
// there, or wait.

// CHECK-LABEL: func.func @forward_2
func.func @forward_2(%x: tensor<8x8xf32> {train.role = #train.role<input "x" batch 0>})
    -> (tensor<8x8xf32> {train.role = #train.role<saved "r">})
    attributes {train.phase = #train.phase<forward>, train.stage = 2 : i64} {
  %r = aten.relu(%x) : (tensor<8x8xf32>) -> tensor<8x8xf32>
  return %r : tensor<8x8xf32>
}
// CHECK-LABEL: func.func @backward_input_2
// CHECK-SAME: frame = 256
// CUDA-LABEL: func.func @backward_input_2
// CUDA-SAME: frame = 1024
func.func @backward_input_2(%r: tensor<8x8xf32> {train.role = #train.role<saved "r">}, %x: tensor<8x8xf32> {train.role = #train.role<input "x" batch 0>})
    -> (tensor<8x8xf32> {train.role = #train.role<saved "s">})
    attributes {train.phase = #train.phase<backward_input>, train.stage = 2 : i64} {
  // CHECK: exec.record on compute
  // CHECK: dist.shift
  // CHECK-NEXT: %[[E:.*]] = exec.record on communication
  // CHECK-NEXT: exec.wait %[[E]] on compute
  // CHECK-NEXT: aten.mm({{.*}}) {exec.memory = [#exec.frame<0>]}
  %0 = dist.shift(%r) by 1 wrap over @mesh ["dp"] : tensor<8x8xf32>
  %s = aten.mm(%x, %x) : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  // CUDA: aten.mm({{.*}}) {exec.memory = [#exec.frame<512>]}
  %t = aten.mm(%0, %x) : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  return %s : tensor<8x8xf32>
}
func.func @backward_weight_2(%s: tensor<8x8xf32> {train.role = #train.role<saved "s">})
    -> (tensor<8x8xf32> {train.role = #train.role<gradient "u">})
    attributes {train.phase = #train.phase<backward_weight>, train.stage = 2 : i64} {
  %0 = aten.neg(%s) : (tensor<8x8xf32>) -> tensor<8x8xf32>
  return %0 : tensor<8x8xf32>
}
