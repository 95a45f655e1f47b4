// What the pass says of its work, and options that it refuses.

// RUN: cleave-opt %s --partition-joint="explain=true json=%t.json" -o /dev/null 2>&1 | FileCheck %s --check-prefix=TABLE
// RUN: FileCheck %s --check-prefix=JSON < %t.json
// RUN: not cleave-opt %s --partition-joint="policy=most" 2>&1 | FileCheck %s --check-prefix=POLICY
// RUN: not cleave-opt %s --partition-joint="json=%t.none/e.json" 2>&1 | FileCheck %s --check-prefix=FILE

// 64 floats for the product, a number for the loss; the view of the input is the input's memory.
// TABLE: function             ops  recomputed   peak memory          held
// TABLE-NEXT: (joint) 516 B
// TABLE-NEXT: forward                3           0         516 B         256 B
// TABLE-NEXT: backward               6           0         516 B           0 B
// TABLE: saved values (1, 256 B)
// TABLE-NEXT: 256 B  proj.mm  tensor<8x8xf32>  forward -> backward  at proj (model.py:3)

// JSON: "functions": [
// JSON: "held_bytes": 256,
// JSON: "phase": "forward",
// JSON: "joint_peak_bytes": 516,
// JSON: "saved": [
// JSON: "bytes": 256,
// JSON: "location": "proj (model.py:3)",
// JSON: "name": "proj.mm",

// POLICY: Cannot find option named 'most'
// FILE: error: cannot write the explanation to '{{.*}}e.json': No such file or directory
module {
  func.func @microbatch(
      %w: tensor<8x8xf32> {train.role = #train.role<parameter "w">},
      %x: tensor<8x8xf32> {train.role = #train.role<input "x" batch 0>},
      %s: tensor<f32> {train.role = #train.role<seed>})
      -> (tensor<f32> {train.role = #train.role<loss>},
          tensor<8x8xf32> {train.role = #train.role<gradient "w">})
      attributes {train.phase = #train.phase<microbatch>} {
    %xt = aten.t(%x) : (tensor<8x8xf32>) -> tensor<8x8xf32>
    %h = aten.mm(%x, %w) : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32> loc("proj"("model.py":3:0))
    %c = aten.cos(%h) : (tensor<8x8xf32>) -> tensor<8x8xf32>
    %loss = aten.mean(%c) : (tensor<8x8xf32>) -> tensor<f32>
    %0 = aten.sin(%h) : (tensor<8x8xf32>) -> tensor<8x8xf32>
    %1 = aten.neg(%0) : (tensor<8x8xf32>) -> tensor<8x8xf32>
    %2 = aten.expand(%s, size = [8, 8]) : (tensor<f32>) -> tensor<8x8xf32>
    %3 = aten.mul(%2, %1) : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
    %4 = aten.mm(%xt, %3) : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
    return %loss, %4 : tensor<f32>, tensor<8x8xf32>
  }
}
