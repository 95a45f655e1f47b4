// The same two blocks in the source's last form, in which f and g are all_reduces both ways: f averages forward
// and sums backward, g sums forward and averages backward. Each average is of equal values, which is why
// Megatron leaves it out. Here they are carried out: between the blocks is the invariant region of the norm.
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
    %va1 = dist.reinterpret %a1 : tensor<5x3xf64, #S1> -> tensor<5x3xf64, #V>
    %vb1 = dist.reinterpret %b1 : tensor<3x5xf64, #S0> -> tensor<3x5xf64, #V>
    %va2 = dist.reinterpret %a2 : tensor<5x3xf64, #S1> -> tensor<5x3xf64, #V>
    %vb2 = dist.reinterpret %b2 : tensor<3x5xf64, #S0> -> tensor<3x5xf64, #V>
    // f: the average of what every rank has.
    %x1 = dist.fake_broadcast(%x) over @mesh ["tp"] : tensor<4x5xf64, #I> -> tensor<4x5xf64, #V>
    %f1 = dist.all_reduce avg(%x1) over @mesh ["tp"] : tensor<4x5xf64, #V>
    %h1 = aten.mm(%f1, %va1) : (tensor<4x5xf64, #V>, tensor<5x3xf64, #V>) -> tensor<4x3xf64, #V>
    %g1 = aten.gelu(%h1) : (tensor<4x3xf64, #V>) -> tensor<4x3xf64, #V>
    %p1 = aten.mm(%g1, %vb1) : (tensor<4x3xf64, #V>, tensor<3x5xf64, #V>) -> tensor<4x5xf64, #V>
    // g: the sum, and the average of it on the way back.
    %s1 = dist.all_reduce sum(%p1) over @mesh ["tp"] : tensor<4x5xf64, #V>
    %z1 = dist.all_reduce avg(%s1) over @mesh ["tp"] : tensor<4x5xf64, #V> -> tensor<4x5xf64, #I>
    %o1 = aten.add(%z1, %bias) : (tensor<4x5xf64, #I>, tensor<5xf64, #I>) -> tensor<4x5xf64, #I>
    %n:3 = aten.native_layer_norm(%o1, normalized_shape = [5], %norm.weight, %norm.bias, eps = 1.0e-05) : (tensor<4x5xf64, #I>, tensor<5xf64, #I>, tensor<5xf64, #I>) -> (tensor<4x5xf64, #I>, tensor<4x1xf64, #I>, tensor<4x1xf64, #I>)
    %x2 = dist.fake_broadcast(%n#0) over @mesh ["tp"] : tensor<4x5xf64, #I> -> tensor<4x5xf64, #V>
    %f2 = dist.all_reduce avg(%x2) over @mesh ["tp"] : tensor<4x5xf64, #V>
    %h2 = aten.mm(%f2, %va2) : (tensor<4x5xf64, #V>, tensor<5x3xf64, #V>) -> tensor<4x3xf64, #V>
    %g2 = aten.gelu(%h2) : (tensor<4x3xf64, #V>) -> tensor<4x3xf64, #V>
    %p2 = aten.mm(%g2, %vb2) : (tensor<4x3xf64, #V>, tensor<3x5xf64, #V>) -> tensor<4x5xf64, #V>
    %s2 = dist.all_reduce sum(%p2) over @mesh ["tp"] : tensor<4x5xf64, #V>
    %z2 = dist.all_reduce avg(%s2) over @mesh ["tp"] : tensor<4x5xf64, #V> -> tensor<4x5xf64, #I>
    %l = aten.mul(%z2, %y) : (tensor<4x5xf64, #I>, tensor<4x5xf64, #I>) -> tensor<4x5xf64, #I>
    %loss = aten.sum(%l) : (tensor<4x5xf64, #I>) -> tensor<f64, #I>
    return %loss : tensor<f64, #I>
  }
}
