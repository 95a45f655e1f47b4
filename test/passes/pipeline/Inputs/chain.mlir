// Three layers of the modules a, b and c, and a skip connection from the first to the last.
module @chain {
  func.func @microbatch(
      %x: tensor<2x4xf32> {train.role = #train.role<input "x" batch 0>},
      %u: tensor<4x4xf32> {train.role = #train.role<parameter "a.weight">},
      %v: tensor<4x4xf32> {train.role = #train.role<parameter "b.weight">},
      %au: tensor<4x4xf32> {train.role = #train.role<accumulator "a.weight">},
      %av: tensor<4x4xf32> {train.role = #train.role<accumulator "b.weight">},
      %s: tensor<f32> {train.role = #train.role<seed>})
      -> (tensor<f32> {train.role = #train.role<loss>},
          tensor<4x4xf32> {train.role = #train.role<gradient "a.weight">},
          tensor<4x4xf32> {train.role = #train.role<gradient "b.weight">})
      attributes {train.phase = #train.phase<microbatch>} {
    %0 = aten.mm(%x, %u) : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32> loc("a")
    %1 = aten.mm(%0, %v) : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32> loc("b")
    %2 = aten.mul(%1, %0) : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32> loc("c")
    %3 = aten.sum(%2) : (tensor<2x4xf32>) -> tensor<f32> loc("c")
    %g = aten.expand(%s, size = [2, 4]) : (tensor<f32>) -> tensor<2x4xf32> loc("c")
    %g1 = aten.mul(%g, %0) : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32> loc("c")
    %g0 = aten.mul(%g, %1) : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32> loc("c")
    %t0 = aten.t(%0) : (tensor<2x4xf32>) -> tensor<4x2xf32> loc("b")
    %gv = aten.mm(%t0, %g1) : (tensor<4x2xf32>, tensor<2x4xf32>) -> tensor<4x4xf32> loc("b")
    %tv = aten.t(%v) : (tensor<4x4xf32>) -> tensor<4x4xf32> loc("b")
    %h0 = aten.mm(%g1, %tv) : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32> loc("b")
    %g00 = aten.add(%g0, %h0) : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32> loc("b")
    %tx = aten.t(%x) : (tensor<2x4xf32>) -> tensor<4x2xf32> loc("a")
    %gu = aten.mm(%tx, %g00) : (tensor<4x2xf32>, tensor<2x4xf32>) -> tensor<4x4xf32> loc("a")
    %su = train.accumulate %gu into %au : tensor<4x4xf32>
    %sv = train.accumulate %gv into %av : tensor<4x4xf32>
    return %3, %su, %sv : tensor<f32>, tensor<4x4xf32>, tensor<4x4xf32>
  }

  func.func @update(
      %u: tensor<4x4xf32> {train.role = #train.role<parameter "a.weight">},
      %v: tensor<4x4xf32> {train.role = #train.role<parameter "b.weight">},
      %gu: tensor<4x4xf32> {train.role = #train.role<gradient "a.weight">},
      %gv: tensor<4x4xf32> {train.role = #train.role<gradient "b.weight">},
      %t: tensor<f32> {train.role = #train.role<step>})
      -> (tensor<4x4xf32> {train.role = #train.role<parameter "a.weight">},
          tensor<4x4xf32> {train.role = #train.role<parameter "b.weight">})
      attributes {train.phase = #train.phase<update>} {
    %lr = train.learning_rate(%t) {base = 1.0e-01 : f64, schedule = #train.schedule<constant>} : (tensor<f32>) -> tensor<f64>
    %u1 = train.sgd(%u, %gu, %t, %lr) {momentum = 0.0 : f64, dampening = 0.0 : f64, weight_decay = 0.0 : f64, nesterov = false} : tensor<4x4xf32>, tensor<f32>, tensor<f64>
    %v1 = train.sgd(%v, %gv, %t, %lr) {momentum = 0.0 : f64, dampening = 0.0 : f64, weight_decay = 0.0 : f64, nesterov = false} : tensor<4x4xf32>, tensor<f32>, tensor<f64>
    return %u1, %v1 : tensor<4x4xf32>, tensor<4x4xf32>
  }
}
