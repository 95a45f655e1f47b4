// RUN: cleave-opt %s --split-input-file --verify-diagnostics

dist.mesh @mesh ["tp" = 2, "cp" = 3]

func.func @no_axis(%a: tensor<4xf32>) {
  // expected-error @+1 {{'dist.gather' op expects at least one mesh axis}}
  %0 = dist.gather(%a) dim 0 root 0 over @mesh [] : tensor<4xf32> -> tensor<8xf32>
  return
}

// -----

dist.mesh @mesh ["tp" = 2, "cp" = 3]

func.func @axis_twice(%a: tensor<4xf32>) {
  // expected-error @+1 {{'dist.gather' op lists mesh axis 'tp' twice}}
  %0 = dist.gather(%a) dim 0 root 0 over @mesh ["tp", "tp"] : tensor<4xf32> -> tensor<8xf32>
  return
}

// -----

dist.mesh @mesh ["tp" = 2, "cp" = 3]

func.func @no_mesh(%a: tensor<4xf32>) {
  // expected-error @+1 {{'dist.gather' op refers to mesh @no_mesh, which the module does not define}}
  %0 = dist.gather(%a) dim 0 root 0 over @no_mesh ["tp"] : tensor<4xf32> -> tensor<8xf32>
  return
}

// -----

dist.mesh @mesh ["tp" = 2, "cp" = 3]

func.func @not_a_mesh(%a: tensor<4xf32>) {
  // expected-error @+1 {{'dist.gather' op refers to mesh @not_a_mesh, which the module does not define}}
  %0 = dist.gather(%a) dim 0 root 0 over @not_a_mesh ["tp"] : tensor<4xf32> -> tensor<8xf32>
  return
}

// -----

// expected-note @+1 {{the mesh is defined here}}
dist.mesh @mesh ["tp" = 2, "cp" = 3]

func.func @unknown_axis(%a: tensor<4xf32>) {
  // expected-error @+1 {{'dist.gather' op runs along axis 'dp', which mesh @mesh does not have}}
  %0 = dist.gather(%a) dim 0 root 0 over @mesh ["dp"] : tensor<4xf32> -> tensor<8xf32>
  return
}

// -----

dist.mesh @mesh ["tp" = 2, "cp" = 3]

func.func @root_out_of_range(%a: tensor<4xf32>) {
  // expected-error @+1 {{'dist.gather' op expects `root` to be the index of a rank along ["tp"], 0 to 1, found 2}}
  %0 = dist.gather(%a) dim 0 root 2 over @mesh ["tp"] : tensor<4xf32> -> tensor<8xf32>
  return
}

// -----

dist.mesh @mesh ["tp" = 2, "cp" = 3]

func.func @dim_out_of_range(%a: tensor<4xf32>) {
  // expected-error @+1 {{'dist.gather' op expects `dim` to be a dimension of 'tensor<4xf32>', found 1}}
  %0 = dist.gather(%a) dim 1 root 0 over @mesh ["tp"] : tensor<4xf32> -> tensor<8xf32>
  return
}

// -----

// expected-note @+1 {{the mesh is defined here}}
dist.mesh @mesh ["tp" = 2, "cp" = 3]

func.func @no_chunk(%a: tensor<4xf32>) {
  // expected-error @+1 {{'dist.gather' op has no rank that holds 4 of 6 elements along ["tp"] of 2 ranks: the first holds 3}}
  %0 = dist.gather(%a) dim 0 root 0 over @mesh ["tp"] : tensor<4xf32> -> tensor<6xf32>
  return
}

// -----

dist.mesh @mesh ["tp" = 2, "cp" = 3]
#V = #dist.on<@mesh, tp = V>
#S0 = #dist.on<@mesh, tp = S(0)>

func.func @shard(%a: tensor<4xf32, #S0>) {
  // expected-error @+1 {{'dist.gather' op cannot take S(0) to V along axis 'tp': use dist.reinterpret to V, then dist.gather (dist.gather takes V to V)}}
  %0 = dist.gather(%a) dim 0 root 0 over @mesh ["tp"] : tensor<4xf32, #S0> -> tensor<8xf32, #V>
  return
}

// -----

dist.mesh @mesh ["tp" = 2, "cp" = 3]
#R = #dist.on<@mesh, tp = R>
#V = #dist.on<@mesh, tp = V>

func.func @to_replicated(%a: tensor<4xf32, #V>) {
  // expected-error @+1 {{'dist.gather' op cannot take V to R along axis 'tp': use dist.all_gather (dist.gather takes V to V)}}
  %0 = dist.gather(%a) dim 0 root 0 over @mesh ["tp"] : tensor<4xf32, #V> -> tensor<8xf32, #R>
  return
}
