dist.mesh @mesh ["cp" = 2]
func.func @annotated(%x: tensor<2x4x3xf32> {dist.placement = #dist.on<@mesh, cp = S(1)>}) -> tensor<8x3xf32> {
  %0 = aten.view(%x, size = [8, 3]) : (tensor<2x4x3xf32>) -> tensor<8x3xf32>
  return %0 : tensor<8x3xf32>
}
