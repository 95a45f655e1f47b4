// RUN: cleave-opt %s --split-input-file --verify-diagnostics

dist.mesh @mesh ["tp" = 2, "cp" = 3]

func.func @no_axis(%a: tensor<4xf32>) {
  // expected-error @+1 {{'dist.fake_gather' op expects at least one mesh axis}}
  %0 = dist.fake_gather(%a) dim 0 over @mesh [] : tensor<4xf32> -> tensor<8xf32>
  return
}

// -----

dist.mesh @mesh ["tp" = 2, "cp" = 3]

func.func @axis_twice(%a: tensor<4xf32>) {
  // expected-error @+1 {{'dist.fake_gather' op lists mesh axis 'tp' twice}}
  %0 = dist.fake_gather(%a) dim 0 over @mesh ["tp", "tp"] : tensor<4xf32> -> tensor<8xf32>
  return
}

// -----

dist.mesh @mesh ["tp" = 2, "cp" = 3]

func.func @no_mesh(%a: tensor<4xf32>) {
  // expected-error @+1 {{'dist.fake_gather' op refers to mesh @no_mesh, which the module does not define}}
  %0 = dist.fake_gather(%a) dim 0 over @no_mesh ["tp"] : tensor<4xf32> -> tensor<8xf32>
  return
}

// -----

dist.mesh @mesh ["tp" = 2, "cp" = 3]

func.func @not_a_mesh(%a: tensor<4xf32>) {
  // expected-error @+1 {{'dist.fake_gather' op refers to mesh @not_a_mesh, which the module does not define}}
  %0 = dist.fake_gather(%a) dim 0 over @not_a_mesh ["tp"] : tensor<4xf32> -> tensor<8xf32>
  return
}

// -----

// expected-note @+1 {{the mesh is defined here}}
dist.mesh @mesh ["tp" = 2, "cp" = 3]

func.func @unknown_axis(%a: tensor<4xf32>) {
  // expected-error @+1 {{'dist.fake_gather' op runs along axis 'dp', which mesh @mesh does not have}}
  %0 = dist.fake_gather(%a) dim 0 over @mesh ["dp"] : tensor<4xf32> -> tensor<8xf32>
  return
}

// -----

dist.mesh @mesh ["tp" = 2, "cp" = 3]

func.func @dim_out_of_range(%a: tensor<4xf32>) {
  // expected-error @+1 {{'dist.fake_gather' op expects `dim` to be a dimension of 'tensor<4xf32>', found -1}}
  %0 = dist.fake_gather(%a) dim -1 over @mesh ["tp"] : tensor<4xf32> -> tensor<8xf32>
  return
}

// -----

// expected-note @+1 {{the mesh is defined here}}
dist.mesh @mesh ["tp" = 2, "cp" = 3]

func.func @no_chunk(%a: tensor<4xf32>) {
  // expected-error @+1 {{'dist.fake_gather' op has no rank that holds 4 of 10 elements along ["tp"] of 2 ranks: the first holds 5}}
  %0 = dist.fake_gather(%a) dim 0 over @mesh ["tp"] : tensor<4xf32> -> tensor<10xf32>
  return
}

// -----

dist.mesh @mesh ["tp" = 2, "cp" = 3]
#R = #dist.on<@mesh, tp = R>
#S0 = #dist.on<@mesh, tp = S(0)>

func.func @to_replicated(%a: tensor<4xf32, #S0>) {
  // expected-error @+1 {{'dist.fake_gather' op cannot take S(0) to R along axis 'tp': use dist.all_gather (dist.fake_gather takes V to I; S(d) to I)}}
  %0 = dist.fake_gather(%a) dim 0 over @mesh ["tp"] : tensor<4xf32, #S0> -> tensor<8xf32, #R>
  return
}

// -----

dist.mesh @mesh ["tp" = 2, "cp" = 3]
#P = #dist.on<@mesh, tp = P>
#I = #dist.on<@mesh, tp = I>

func.func @partial(%a: tensor<4xf32, #P>) {
  // expected-error @+1 {{'dist.fake_gather' op cannot take P to I along axis 'tp': use dist.all_reduce, whose result has the shape of the operand (dist.fake_gather takes V to I; S(d) to I)}}
  %0 = dist.fake_gather(%a) dim 0 over @mesh ["tp"] : tensor<4xf32, #P> -> tensor<8xf32, #I>
  return
}

// -----

dist.mesh @mesh ["tp" = 2, "cp" = 3]
#I = #dist.on<@mesh, tp = I>
#S1 = #dist.on<@mesh, tp = S(1)>

func.func @another_dim(%a: tensor<4x8xf32, #S1>) {
  // expected-error @+1 {{'dist.fake_gather' op works on dimension 0, but axis 'tp' shards dimension 1 of 'tensor<4x8xf32, #dist.on<@mesh, tp = S(1)>>'}}
  %0 = dist.fake_gather(%a) dim 0 over @mesh ["tp"] : tensor<4x8xf32, #S1> -> tensor<8x8xf32, #I>
  return
}
