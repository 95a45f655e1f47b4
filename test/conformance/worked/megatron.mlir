// Two tensor-parallel blocks with a norm between them, by f (convert I to R) and g (all_reduce P to I). The norm
// and its weights are invariant: their gradients are right on every rank without any reduction.
#I  = #dist.on<@mesh, tp = I>
#R  = #dist.on<@mesh, tp = R>
#P  = #dist.on<@mesh, tp = P>
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
    %f1 = dist.convert %x : tensor<4x5xf64, #I> -> tensor<4x5xf64, #R>
    %h1 = aten.mm(%f1, %a1) : (tensor<4x5xf64, #R>, tensor<5x3xf64, #S1>) -> tensor<4x3xf64, #S1>
    %g1 = aten.gelu(%h1) : (tensor<4x3xf64, #S1>) -> tensor<4x3xf64, #S1>
    %p1 = aten.mm(%g1, %b1) : (tensor<4x3xf64, #S1>, tensor<3x5xf64, #S0>) -> tensor<4x5xf64, #P>
    %z1 = dist.all_reduce sum(%p1) over @mesh ["tp"] : tensor<4x5xf64, #P> -> tensor<4x5xf64, #I>
    %o1 = aten.add(%z1, %bias) : (tensor<4x5xf64, #I>, tensor<5xf64, #I>) -> tensor<4x5xf64, #I>
    %n:3 = aten.native_layer_norm(%o1, normalized_shape = [5], %norm.weight, %norm.bias, eps = 1.0e-05) : (tensor<4x5xf64, #I>, tensor<5xf64, #I>, tensor<5xf64, #I>) -> (tensor<4x5xf64, #I>, tensor<4x1xf64, #I>, tensor<4x1xf64, #I>)
    %f2 = dist.convert %n#0 : tensor<4x5xf64, #I> -> tensor<4x5xf64, #R>
    %h2 = aten.mm(%f2, %a2) : (tensor<4x5xf64, #R>, tensor<5x3xf64, #S1>) -> tensor<4x3xf64, #S1>
    %g2 = aten.gelu(%h2) : (tensor<4x3xf64, #S1>) -> tensor<4x3xf64, #S1>
    %p2 = aten.mm(%g2, %b2) : (tensor<4x3xf64, #S1>, tensor<3x5xf64, #S0>) -> tensor<4x5xf64, #P>
    %z2 = dist.all_reduce sum(%p2) over @mesh ["tp"] : tensor<4x5xf64, #P> -> tensor<4x5xf64, #I>
    %l = aten.mul(%z2, %y) : (tensor<4x5xf64, #I>, tensor<4x5xf64, #I>) -> tensor<4x5xf64, #I>
    %loss = aten.sum(%l) : (tensor<4x5xf64, #I>) -> tensor<f64, #I>
    return %loss : tensor<f64, #I>
  }
}
