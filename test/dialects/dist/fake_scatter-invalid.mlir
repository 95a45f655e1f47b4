// RUN: cleave-opt %s --split-input-file --verify-diagnostics

dist.mesh @mesh ["tp" = 2, "cp" = 3]

func.func @no_axis(%a: tensor<8xf32>) {
  // expected-error @+1 {{'dist.fake_scatter' op expects at least one mesh axis}}
  %0 = dist.fake_scatter(%a) dim 0 over @mesh [] : tensor<8xf32> -> tensor<4xf32>
  return
}

// -----

dist.mesh @mesh ["tp" = 2, "cp" = 3]

func.func @axis_twice(%a: tensor<8xf32>) {
  // expected-error @+1 {{'dist.fake_scatter' op lists mesh axis 'tp' twice}}
  %0 = dist.fake_scatter(%a) dim 0 over @mesh ["tp", "tp"] : tensor<8xf32> -> tensor<4xf32>
  return
}

// -----

dist.mesh @mesh ["tp" = 2, "cp" = 3]

func.func @no_mesh(%a: tensor<8xf32>) {
  // expected-error @+1 {{'dist.fake_scatter' op refers to mesh @no_mesh, which the module does not define}}
  %0 = dist.fake_scatter(%a) dim 0 over @no_mesh ["tp"] : tensor<8xf32> -> tensor<4xf32>
  return
}

// -----

dist.mesh @mesh ["tp" = 2, "cp" = 3]

func.func @not_a_mesh(%a: tensor<8xf32>) {
  // expected-error @+1 {{'dist.fake_scatter' op refers to mesh @not_a_mesh, which the module does not define}}
  %0 = dist.fake_scatter(%a) dim 0 over @not_a_mesh ["tp"] : tensor<8xf32> -> tensor<4xf32>
  return
}

// -----

// expected-note @+1 {{the mesh is defined here}}
dist.mesh @mesh ["tp" = 2, "cp" = 3]

func.func @unknown_axis(%a: tensor<8xf32>) {
  // expected-error @+1 {{'dist.fake_scatter' op runs along axis 'dp', which mesh @mesh does not have}}
  %0 = dist.fake_scatter(%a) dim 0 over @mesh ["dp"] : tensor<8xf32> -> tensor<4xf32>
  return
}

// -----

dist.mesh @mesh ["tp" = 2, "cp" = 3]

func.func @dim_out_of_range(%a: tensor<8xf32>) {
  // expected-error @+1 {{'dist.fake_scatter' op expects `dim` to be a dimension of 'tensor<8xf32>', found 1}}
  %0 = dist.fake_scatter(%a) dim 1 over @mesh ["tp"] : tensor<8xf32> -> tensor<4xf32>
  return
}

// -----

// expected-note @+1 {{the mesh is defined here}}
dist.mesh @mesh ["tp" = 2, "cp" = 3]

func.func @no_chunk(%a: tensor<8xf32>) {
  // expected-error @+1 {{'dist.fake_scatter' op has no rank that holds 3 of 8 elements along ["tp"] of 2 ranks: the first holds 4}}
  %0 = dist.fake_scatter(%a) dim 0 over @mesh ["tp"] : tensor<8xf32> -> tensor<3xf32>
  return
}

// -----

dist.mesh @mesh ["tp" = 2, "cp" = 3]
#R = #dist.on<@mesh, tp = R>
#S0 = #dist.on<@mesh, tp = S(0)>

func.func @replicated(%a: tensor<8xf32, #R>) {
  // expected-error @+1 {{'dist.fake_scatter' op cannot take R to S(0) along axis 'tp': use dist.convert (dist.fake_scatter takes I to V or S(d))}}
  %0 = dist.fake_scatter(%a) dim 0 over @mesh ["tp"] : tensor<8xf32, #R> -> tensor<4xf32, #S0>
  return
}

// -----

dist.mesh @mesh ["tp" = 2, "cp" = 3]
#R = #dist.on<@mesh, tp = R>
#I = #dist.on<@mesh, tp = I>

func.func @to_replicated(%a: tensor<8xf32, #I>) {
  // expected-error @+1 {{'dist.fake_scatter' op cannot take I to R along axis 'tp': use dist.convert, whose result has the shape of the operand (dist.fake_scatter takes I to V or S(d))}}
  %0 = dist.fake_scatter(%a) dim 0 over @mesh ["tp"] : tensor<8xf32, #I> -> tensor<4xf32, #R>
  return
}

// -----

dist.mesh @mesh ["tp" = 2, "cp" = 3]
#I = #dist.on<@mesh, tp = I>
#S1 = #dist.on<@mesh, tp = S(1)>

func.func @another_dim(%a: tensor<8x8xf32, #I>) {
  // expected-error @+1 {{'dist.fake_scatter' op works on dimension 0, but axis 'tp' shards dimension 1 of 'tensor<4x8xf32, #dist.on<@mesh, tp = S(1)>>'}}
  %0 = dist.fake_scatter(%a) dim 0 over @mesh ["tp"] : tensor<8x8xf32, #I> -> tensor<4x8xf32, #S1>
  return
}
