// RUN: cleave-opt %s --split-input-file --verify-diagnostics

dist.mesh @mesh ["tp" = 2, "cp" = 3]

func.func @no_axis(%a: tensor<8xf32>) {
  // expected-error @+1 {{'dist.permute' op expects at least one mesh axis}}
  %0 = dist.permute(%a) [0 -> 1] over @mesh [] : tensor<8xf32>
  return
}

// -----

dist.mesh @mesh ["tp" = 2, "cp" = 3]

func.func @axis_twice(%a: tensor<8xf32>) {
  // expected-error @+1 {{'dist.permute' op lists mesh axis 'tp' twice}}
  %0 = dist.permute(%a) [0 -> 1] over @mesh ["tp", "tp"] : tensor<8xf32>
  return
}

// -----

dist.mesh @mesh ["tp" = 2, "cp" = 3]

func.func @no_mesh(%a: tensor<8xf32>) {
  // expected-error @+1 {{'dist.permute' op refers to mesh @no_mesh, which the module does not define}}
  %0 = dist.permute(%a) [0 -> 1] over @no_mesh ["tp"] : tensor<8xf32>
  return
}

// -----

dist.mesh @mesh ["tp" = 2, "cp" = 3]

func.func @not_a_mesh(%a: tensor<8xf32>) {
  // expected-error @+1 {{'dist.permute' op refers to mesh @not_a_mesh, which the module does not define}}
  %0 = dist.permute(%a) [0 -> 1] over @not_a_mesh ["tp"] : tensor<8xf32>
  return
}

// -----

// expected-note @+1 {{the mesh is defined here}}
dist.mesh @mesh ["tp" = 2, "cp" = 3]

func.func @unknown_axis(%a: tensor<8xf32>) {
  // expected-error @+1 {{'dist.permute' op runs along axis 'dp', which mesh @mesh does not have}}
  %0 = dist.permute(%a) [0 -> 1] over @mesh ["dp"] : tensor<8xf32>
  return
}

// -----

dist.mesh @mesh ["tp" = 2, "cp" = 3]

func.func @lengths(%a: tensor<8xf32>) {
  // expected-error @+1 {{'dist.permute' op expects as many sources as destinations, found 1 and 0}}
  %0 = "dist.permute"(%a) {sources = array<i64: 0>, destinations = array<i64>, mesh = @mesh, axes = ["tp"]} : (tensor<8xf32>) -> tensor<8xf32>
  return
}

// -----

dist.mesh @mesh ["tp" = 2, "cp" = 3]

func.func @source_twice(%a: tensor<8xf32>) {
  // expected-error @+1 {{'dist.permute' op lists rank 0 twice among the sources}}
  %0 = dist.permute(%a) [0 -> 1, 0 -> 0] over @mesh ["tp"] : tensor<8xf32>
  return
}

// -----

dist.mesh @mesh ["tp" = 2, "cp" = 3]

func.func @destination_twice(%a: tensor<8xf32>) {
  // expected-error @+1 {{'dist.permute' op lists rank 1 twice among the destinations}}
  %0 = dist.permute(%a) [0 -> 1, 1 -> 1] over @mesh ["tp"] : tensor<8xf32>
  return
}

// -----

dist.mesh @mesh ["tp" = 2, "cp" = 3]

func.func @source_out_of_range(%a: tensor<8xf32>) {
  // expected-error @+1 {{'dist.permute' op expects `sources` to be the index of a rank along ["tp"], 0 to 1, found 2}}
  %0 = dist.permute(%a) [2 -> 1] over @mesh ["tp"] : tensor<8xf32>
  return
}

// -----

dist.mesh @mesh ["tp" = 2, "cp" = 3]

func.func @destination_out_of_range(%a: tensor<8xf32>) {
  // expected-error @+1 {{'dist.permute' op expects `destinations` to be the index of a rank along ["tp"], 0 to 1, found -1}}
  %0 = dist.permute(%a) [0 -> -1] over @mesh ["tp"] : tensor<8xf32>
  return
}

// -----

dist.mesh @mesh ["tp" = 2, "cp" = 3]

func.func @other_shape(%a: tensor<8xf32>) {
  // expected-error @+1 {{'dist.permute' op expects a result of shape [8] and element type 'f32', found 'tensor<4xf32>'}}
  %0 = dist.permute(%a) [0 -> 1] over @mesh ["tp"] : tensor<8xf32> -> tensor<4xf32>
  return
}

// -----

dist.mesh @mesh ["tp" = 2, "cp" = 3]
#R = #dist.on<@mesh, tp = R>
#V = #dist.on<@mesh, tp = V>

func.func @replicated(%a: tensor<8xf32, #R>) {
  // expected-error @+1 {{'dist.permute' op cannot take R to V along axis 'tp': use dist.reinterpret (dist.permute takes V to V)}}
  %0 = dist.permute(%a) [0 -> 1] over @mesh ["tp"] : tensor<8xf32, #R> -> tensor<8xf32, #V>
  return
}

// -----

dist.mesh @mesh ["tp" = 2, "cp" = 3]
#S0 = #dist.on<@mesh, tp = S(0)>

func.func @shard(%a: tensor<8xf32, #S0>) {
  // expected-error @+1 {{'dist.permute' op cannot take S(0) to S(0) along axis 'tp' (dist.permute takes V to V)}}
  %0 = dist.permute(%a) [0 -> 1] over @mesh ["tp"] : tensor<8xf32, #S0>
  return
}
