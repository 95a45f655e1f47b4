// Data parallelism as a fake broadcast of the parameters: it moves nothing, and its derivative is the
// all-reduce of the gradients. Each rank has 4 examples; the loss is the sum over all of them.
#I  = #dist.on<@mesh, dp = I>
#V  = #dist.on<@mesh, dp = V>
#S0 = #dist.on<@mesh, dp = S(0)>
#P  = #dist.on<@mesh, dp = P>
module {
  dist.mesh @mesh ["dp" = 2]
  func.func @microbatch(
      %a: tensor<5x3xf64, #I> {train.role = #train.role<parameter "a">},
      %b: tensor<3xf64, #I> {train.role = #train.role<parameter "b">},
      %x: tensor<4x5xf64, #S0> {train.role = #train.role<input "x">},
      %y: tensor<4x3xf64, #S0> {train.role = #train.role<target "y">})
      -> (tensor<f64, #P> {train.role = #train.role<loss>})
      attributes {train.phase = #train.phase<microbatch>} {
    %va = dist.fake_broadcast(%a) over @mesh ["dp"] : tensor<5x3xf64, #I> -> tensor<5x3xf64, #V>
    %vb = dist.fake_broadcast(%b) over @mesh ["dp"] : tensor<3xf64, #I> -> tensor<3xf64, #V>
    %h = aten.mm(%x, %va) : (tensor<4x5xf64, #S0>, tensor<5x3xf64, #V>) -> tensor<4x3xf64, #V>
    %o = aten.add(%h, %vb) : (tensor<4x3xf64, #V>, tensor<3xf64, #V>) -> tensor<4x3xf64, #V>
    %g = aten.tanh(%o) : (tensor<4x3xf64, #V>) -> tensor<4x3xf64, #V>
    %l = aten.mul(%g, %y) : (tensor<4x3xf64, #V>, tensor<4x3xf64, #S0>) -> tensor<4x3xf64, #V>
    %each = aten.sum(%l) : (tensor<4x3xf64, #V>) -> tensor<f64, #V>
    %loss = dist.reinterpret %each : tensor<f64, #V> -> tensor<f64, #P>
    return %loss : tensor<f64, #P>
  }
}
