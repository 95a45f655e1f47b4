// RUN: cleave-opt %s --split-input-file --verify-diagnostics

dist.mesh @mesh ["tp" = 2, "cp" = 3]

func.func @no_axis(%a: tensor<8xf32>) {
  // expected-error @+1 {{'dist.scatter' op expects at least one mesh axis}}
  %0 = dist.scatter(%a) dim 0 root 0 over @mesh [] : tensor<8xf32> -> tensor<4xf32>
  return
}

// -----

dist.mesh @mesh ["tp" = 2, "cp" = 3]

func.func @axis_twice(%a: tensor<8xf32>) {
  // expected-error @+1 {{'dist.scatter' op lists mesh axis 'tp' twice}}
  %0 = dist.scatter(%a) dim 0 root 0 over @mesh ["tp", "tp"] : tensor<8xf32> -> tensor<4xf32>
  return
}

// -----

dist.mesh @mesh ["tp" = 2, "cp" = 3]

func.func @no_mesh(%a: tensor<8xf32>) {
  // expected-error @+1 {{'dist.scatter' op refers to mesh @no_mesh, which the module does not define}}
  %0 = dist.scatter(%a) dim 0 root 0 over @no_mesh ["tp"] : tensor<8xf32> -> tensor<4xf32>
  return
}

// -----

dist.mesh @mesh ["tp" = 2, "cp" = 3]

func.func @not_a_mesh(%a: tensor<8xf32>) {
  // expected-error @+1 {{'dist.scatter' op refers to mesh @not_a_mesh, which the module does not define}}
  %0 = dist.scatter(%a) dim 0 root 0 over @not_a_mesh ["tp"] : tensor<8xf32> -> tensor<4xf32>
  return
}

// -----

// expected-note @+1 {{the mesh is defined here}}
dist.mesh @mesh ["tp" = 2, "cp" = 3]

func.func @unknown_axis(%a: tensor<8xf32>) {
  // expected-error @+1 {{'dist.scatter' op runs along axis 'dp', which mesh @mesh does not have}}
  %0 = dist.scatter(%a) dim 0 root 0 over @mesh ["dp"] : tensor<8xf32> -> tensor<4xf32>
  return
}

// -----

dist.mesh @mesh ["tp" = 2, "cp" = 3]

func.func @root_out_of_range(%a: tensor<8xf32>) {
  // expected-error @+1 {{'dist.scatter' op expects `root` to be the index of a rank along ["tp"], 0 to 1, found 2}}
  %0 = dist.scatter(%a) dim 0 root 2 over @mesh ["tp"] : tensor<8xf32> -> tensor<4xf32>
  return
}

// -----

dist.mesh @mesh ["tp" = 2, "cp" = 3]

func.func @dim_out_of_range(%a: tensor<8xf32>) {
  // expected-error @+1 {{'dist.scatter' op expects `dim` to be a dimension of 'tensor<8xf32>', found 1}}
  %0 = dist.scatter(%a) dim 1 root 0 over @mesh ["tp"] : tensor<8xf32> -> tensor<4xf32>
  return
}

// -----

// expected-note @+1 {{the mesh is defined here}}
dist.mesh @mesh ["tp" = 2, "cp" = 3]

func.func @no_chunk(%a: tensor<8xf32>) {
  // expected-error @+1 {{'dist.scatter' op has no rank that holds 5 of 8 elements along ["tp"] of 2 ranks: the first holds 4}}
  %0 = dist.scatter(%a) dim 0 root 0 over @mesh ["tp"] : tensor<8xf32> -> tensor<5xf32>
  return
}

// -----

dist.mesh @mesh ["tp" = 2, "cp" = 3]
#R = #dist.on<@mesh, tp = R>
#S0 = #dist.on<@mesh, tp = S(0)>

func.func @replicated_to_shard(%a: tensor<8xf32, #R>) {
  // expected-error @+1 {{'dist.scatter' op cannot take R to S(0) along axis 'tp': use dist.convert (dist.scatter takes V to V)}}
  %0 = dist.scatter(%a) dim 0 root 0 over @mesh ["tp"] : tensor<8xf32, #R> -> tensor<4xf32, #S0>
  return
}

// -----

dist.mesh @mesh ["tp" = 2, "cp" = 3]
#V = #dist.on<@mesh, tp = V>
#S0 = #dist.on<@mesh, tp = S(0)>

func.func @varying_to_shard(%a: tensor<8xf32, #V>) {
  // expected-error @+1 {{'dist.scatter' op cannot take V to S(0) along axis 'tp': use dist.scatter to V, then dist.reinterpret (dist.scatter takes V to V)}}
  %0 = dist.scatter(%a) dim 0 root 0 over @mesh ["tp"] : tensor<8xf32, #V> -> tensor<4xf32, #S0>
  return
}
