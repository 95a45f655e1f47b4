// Fits y = w x by gradient descent on mean((w x - y)^2): a training program small enough to read.
module @line {
  func.func @microbatch(
      %w: tensor<f32> {train.role = #train.role<parameter "w">},
      %a: tensor<f32> {train.role = #train.role<accumulator "w">},
      %x: tensor<4xf32> {train.role = #train.role<input "x" batch 0>},
      %y: tensor<4xf32> {train.role = #train.role<target "y" batch 0>},
      %seed: tensor<f32> {train.role = #train.role<seed>})
      -> (tensor<f32> {train.role = #train.role<loss>},
          tensor<f32> {train.role = #train.role<gradient "w">})
      attributes {train.phase = #train.phase<microbatch>} {
    %p = aten.mul(%x, %w) : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
    %d = aten.sub(%p, %y) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %dd = aten.mul(%d, %d) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %loss = aten.mean(%dd) : (tensor<4xf32>) -> tensor<f32>
    // The derivative of the loss by w is mean(2 d x).
    %dx = aten.mul(%d, %x) {train.backward} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %m = aten.mean(%dx) {train.backward} : (tensor<4xf32>) -> tensor<f32>
    %m2 = aten.mul_scalar(%m, other = 2.0) {train.backward} : (tensor<f32>) -> tensor<f32>
    %g = aten.mul(%m2, %seed) {train.backward} : (tensor<f32>, tensor<f32>) -> tensor<f32>
    %sum = train.accumulate %g into %a : tensor<f32>
    return %loss, %sum : tensor<f32>, tensor<f32>
  }

  func.func @update(
      %w: tensor<f32> {train.role = #train.role<parameter "w">},
      %g: tensor<f32> {train.role = #train.role<gradient "w">},
      %step: tensor<f32> {train.role = #train.role<step>})
      -> (tensor<f32> {train.role = #train.role<parameter "w">})
      attributes {train.phase = #train.phase<update>} {
    %lr = train.learning_rate(%step) {base = 0.05 : f64, schedule = #train.schedule<constant>}
        : (tensor<f32>) -> tensor<f64>
    %w1 = train.sgd(%w, %g, %step, %lr)
        {momentum = 0.0 : f64, dampening = 0.0 : f64, nesterov = false, weight_decay = 0.0 : f64} : tensor<f32>
    return %w1 : tensor<f32>
  }
}
