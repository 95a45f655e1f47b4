// The same two blocks with the collectives' own derivatives and no f: everything varies (V), g is an all_reduce
// from V to V, whose backward is another one. The replicated parameters enter by a fake broadcast, so that the
// gradients of the norm are reduced; the loss, which every rank computes, is averaged.
#I  = #dist.on<@mesh, tp = I>
#V  = #dist.on<@mesh, tp = V>
#S0 = #dist.on<@mesh, tp = S(0)>
#S1 = #dist.on<@mesh, tp = S(1)>
module {
  dist.mesh @mesh ["tp" = 2]
  func.func @microbatch(
      %norm.weight: tensor<5xf64, #I> {train.role = #train.role<parameter "norm.weight">},
      %norm.bias: tensor<5xf64, #I> {train.role = #train.role<parameter "norm.bias">},
      %a1: tensor<5x3xf64, #S1> {train.role = #train.role<parameter "a1">},
      %b1: tensor<3x5xf64, #S0> {train.role = #train.role<parameter "b1">},
      %bias: tensor<5xf64, #I> {train.role = #train.role<parameter "bias">},
      %a2: tensor<5x3xf64, #S1> {train.role = #train.role<parameter "a2">},
      %b2: tensor<3x5xf64, #S0> {train.role = #train.role<parameter "b2">},
      %x: tensor<4x5xf64, #I> {train.role = #train.role<input "x">},
      %y: tensor<4x5xf64, #I> {train.role = #train.role<target "y">})
      -> (tensor<f64, #I> {train.role = #train.role<loss>})
      attributes {train.phase = #train.phase<microbatch>} {
    %nw = dist.fake_broadcast(%norm.weight) over @mesh ["tp"] : tensor<5xf64, #I> -> tensor<5xf64, #V>
    %nb = dist.fake_broadcast(%norm.bias) over @mesh ["tp"] : tensor<5xf64, #I> -> tensor<5xf64, #V>
    %ob = dist.fake_broadcast(%bias) over @mesh ["tp"] : tensor<5xf64, #I> -> tensor<5xf64, #V>
    %va1 = dist.reinterpret %a1 : tensor<5x3xf64, #S1> -> tensor<5x3xf64, #V>
    %vb1 = dist.reinterpret %b1 : tensor<3x5xf64, #S0> -> tensor<3x5xf64, #V>
    %va2 = dist.reinterpret %a2 : tensor<5x3xf64, #S1> -> tensor<5x3xf64, #V>
    %vb2 = dist.reinterpret %b2 : tensor<3x5xf64, #S0> -> tensor<3x5xf64, #V>
    %h1 = aten.mm(%x, %va1) : (tensor<4x5xf64, #I>, tensor<5x3xf64, #V>) -> tensor<4x3xf64, #V>
    %g1 = aten.gelu(%h1) : (tensor<4x3xf64, #V>) -> tensor<4x3xf64, #V>
    %p1 = aten.mm(%g1, %vb1) : (tensor<4x3xf64, #V>, tensor<3x5xf64, #V>) -> tensor<4x5xf64, #V>
    %z1 = dist.all_reduce sum(%p1) over @mesh ["tp"] : tensor<4x5xf64, #V>
    %o1 = aten.add(%z1, %ob) : (tensor<4x5xf64, #V>, tensor<5xf64, #V>) -> tensor<4x5xf64, #V>
    %n:3 = aten.native_layer_norm(%o1, normalized_shape = [5], %nw, %nb, eps = 1.0e-05) : (tensor<4x5xf64, #V>, tensor<5xf64, #V>, tensor<5xf64, #V>) -> (tensor<4x5xf64, #V>, tensor<4x1xf64, #V>, tensor<4x1xf64, #V>)
    %h2 = aten.mm(%n#0, %va2) : (tensor<4x5xf64, #V>, tensor<5x3xf64, #V>) -> tensor<4x3xf64, #V>
    %g2 = aten.gelu(%h2) : (tensor<4x3xf64, #V>) -> tensor<4x3xf64, #V>
    %p2 = aten.mm(%g2, %vb2) : (tensor<4x3xf64, #V>, tensor<3x5xf64, #V>) -> tensor<4x5xf64, #V>
    %z2 = dist.all_reduce sum(%p2) over @mesh ["tp"] : tensor<4x5xf64, #V>
    %l = aten.mul(%z2, %y) : (tensor<4x5xf64, #V>, tensor<4x5xf64, #I>) -> tensor<4x5xf64, #V>
    %each = aten.sum(%l) : (tensor<4x5xf64, #V>) -> tensor<f64, #V>
    %loss = dist.all_reduce avg(%each) over @mesh ["tp"] : tensor<f64, #V> -> tensor<f64, #I>
    return %loss : tensor<f64, #I>
  }
}
