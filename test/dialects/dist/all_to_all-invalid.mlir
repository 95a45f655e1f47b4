// RUN: cleave-opt %s --split-input-file --verify-diagnostics

dist.mesh @mesh ["tp" = 2, "cp" = 3]

func.func @no_axis(%a: tensor<4x8xf32>) {
  // expected-error @+1 {{'dist.all_to_all' op expects at least one mesh axis}}
  %0 = dist.all_to_all(%a) split 1 concat 0 over @mesh [] : tensor<4x8xf32> -> tensor<8x4xf32>
  return
}

// -----

dist.mesh @mesh ["tp" = 2, "cp" = 3]

func.func @axis_twice(%a: tensor<4x8xf32>) {
  // expected-error @+1 {{'dist.all_to_all' op lists mesh axis 'tp' twice}}
  %0 = dist.all_to_all(%a) split 1 concat 0 over @mesh ["tp", "tp"] : tensor<4x8xf32> -> tensor<8x4xf32>
  return
}

// -----

dist.mesh @mesh ["tp" = 2, "cp" = 3]

func.func @no_mesh(%a: tensor<4x8xf32>) {
  // expected-error @+1 {{'dist.all_to_all' op refers to mesh @no_mesh, which the module does not define}}
  %0 = dist.all_to_all(%a) split 1 concat 0 over @no_mesh ["tp"] : tensor<4x8xf32> -> tensor<8x4xf32>
  return
}

// -----

dist.mesh @mesh ["tp" = 2, "cp" = 3]

func.func @not_a_mesh(%a: tensor<4x8xf32>) {
  // expected-error @+1 {{'dist.all_to_all' op refers to mesh @not_a_mesh, which the module does not define}}
  %0 = dist.all_to_all(%a) split 1 concat 0 over @not_a_mesh ["tp"] : tensor<4x8xf32> -> tensor<8x4xf32>
  return
}

// -----

// expected-note @+1 {{the mesh is defined here}}
dist.mesh @mesh ["tp" = 2, "cp" = 3]

func.func @unknown_axis(%a: tensor<4x8xf32>) {
  // expected-error @+1 {{'dist.all_to_all' op runs along axis 'dp', which mesh @mesh does not have}}
  %0 = dist.all_to_all(%a) split 1 concat 0 over @mesh ["dp"] : tensor<4x8xf32> -> tensor<8x4xf32>
  return
}

// -----

dist.mesh @mesh ["tp" = 2, "cp" = 3]

func.func @split_out_of_range(%a: tensor<4x8xf32>) {
  // expected-error @+1 {{'dist.all_to_all' op expects `split` to be a dimension of 'tensor<4x8xf32>', found 2}}
  %0 = dist.all_to_all(%a) split 2 concat 0 over @mesh ["tp"] : tensor<4x8xf32> -> tensor<8x4xf32>
  return
}

// -----

dist.mesh @mesh ["tp" = 2, "cp" = 3]

func.func @concat_out_of_range(%a: tensor<4x8xf32>) {
  // expected-error @+1 {{'dist.all_to_all' op expects `concat` to be a dimension of 'tensor<4x8xf32>', found -1}}
  %0 = dist.all_to_all(%a) split 1 concat -1 over @mesh ["tp"] : tensor<4x8xf32> -> tensor<8x4xf32>
  return
}

// -----

dist.mesh @mesh ["tp" = 2, "cp" = 3]

func.func @third_dim(%a: tensor<4x8x2xf32>) {
  // expected-error @+1 {{'dist.all_to_all' op expects a result of shape [?, ?, 2] and element type 'f32', found 'tensor<8x4x4xf32>'}}
  %0 = dist.all_to_all(%a) split 1 concat 0 over @mesh ["tp"] : tensor<4x8x2xf32> -> tensor<8x4x4xf32>
  return
}

// -----

// expected-note @+1 {{the mesh is defined here}}
dist.mesh @mesh ["tp" = 2, "cp" = 3]

func.func @no_chunk(%a: tensor<4x8xf32>) {
  // expected-error @+1 {{'dist.all_to_all' op has no rank that holds 4 of 8 and 3 of 8 elements along ["tp"] of 2 ranks: the first holds 4 and 4}}
  %0 = dist.all_to_all(%a) split 1 concat 0 over @mesh ["tp"] : tensor<4x8xf32> -> tensor<8x3xf32>
  return
}

// -----

// expected-note @+1 {{the mesh is defined here}}
dist.mesh @mesh ["tp" = 2, "cp" = 3]

func.func @chunks_of_two_ranks(%a: tensor<3x7xf32>) {
  // expected-error @+1 {{'dist.all_to_all' op has no rank that holds 3 of 7 and 4 of 7 elements along ["tp"] of 2 ranks: the first holds 4 and 4}}
  %0 = dist.all_to_all(%a) split 1 concat 0 over @mesh ["tp"] : tensor<3x7xf32> -> tensor<7x4xf32>
  return
}

// -----

dist.mesh @mesh ["tp" = 2, "cp" = 3]

func.func @one_dim_of_another_shape(%a: tensor<4x8xf32>) {
  // expected-error @+1 {{'dist.all_to_all' op expects a result of the operand's shape where it splits and concatenates one dimension, found 'tensor<8x8xf32>'}}
  %0 = dist.all_to_all(%a) split 0 concat 0 over @mesh ["tp"] : tensor<4x8xf32> -> tensor<8x8xf32>
  return
}

// -----

dist.mesh @mesh ["tp" = 2, "cp" = 3]

func.func @one_dim_not_divided(%a: tensor<4x8xf32>) {
  // expected-error @+1 {{'dist.all_to_all' op splits and concatenates dimension 0 of 'tensor<4x8xf32>', which its 3 ranks do not divide}}
  %0 = dist.all_to_all(%a) split 0 concat 0 over @mesh ["cp"] : tensor<4x8xf32>
  return
}

// -----

// expected-note @+1 {{the mesh is defined here}}
dist.mesh @mesh ["dp" = ?]

func.func @open_axis(%a: tensor<4x8xf32>) {
  // expected-error @+1 {{'dist.all_to_all' op changes a shape by the size of axis 'dp', which mesh @mesh leaves open ('?'); state the size}}
  %0 = dist.all_to_all(%a) split 1 concat 0 over @mesh ["dp"] : tensor<4x8xf32> -> tensor<8x4xf32>
  return
}

// -----

dist.mesh @mesh ["tp" = 2, "cp" = 3]
#R = #dist.on<@mesh, tp = R>
#S1 = #dist.on<@mesh, tp = S(1)>

func.func @replicated(%a: tensor<4x8xf32, #R>) {
  // expected-error @+1 {{'dist.all_to_all' op cannot take R to S(1) along axis 'tp': use dist.convert, whose result is one rank's part of the operand (dist.all_to_all takes S(d) to S(d); V to V)}}
  %0 = dist.all_to_all(%a) split 1 concat 0 over @mesh ["tp"] : tensor<4x8xf32, #R> -> tensor<8x4xf32, #S1>
  return
}

// -----

dist.mesh @mesh ["tp" = 2, "cp" = 3]
#V = #dist.on<@mesh, tp = V>
#S0 = #dist.on<@mesh, tp = S(0)>

func.func @shard_to_varying(%a: tensor<4x8xf32, #S0>) {
  // expected-error @+1 {{'dist.all_to_all' op cannot take S(0) to V along axis 'tp': use dist.all_to_all to S(d), then dist.reinterpret (dist.all_to_all takes S(d) to S(d); V to V)}}
  %0 = dist.all_to_all(%a) split 1 concat 0 over @mesh ["tp"] : tensor<4x8xf32, #S0> -> tensor<8x4xf32, #V>
  return
}

// -----

dist.mesh @mesh ["tp" = 2, "cp" = 3]
#S1 = #dist.on<@mesh, tp = S(1)>

func.func @wrong_concat(%a: tensor<4x8xf32, #S1>) {
  // expected-error @+1 {{'dist.all_to_all' op works on dimension 0, but axis 'tp' shards dimension 1 of 'tensor<4x8xf32, #dist.on<@mesh, tp = S(1)>>'}}
  %0 = dist.all_to_all(%a) split 1 concat 0 over @mesh ["tp"] : tensor<4x8xf32, #S1> -> tensor<8x4xf32, #S1>
  return
}

// -----

dist.mesh @mesh ["tp" = 2, "cp" = 3]
#S0 = #dist.on<@mesh, tp = S(0)>

func.func @wrong_split(%a: tensor<4x8xf32, #S0>) {
  // expected-error @+1 {{'dist.all_to_all' op works on dimension 1, but axis 'tp' shards dimension 0 of 'tensor<8x4xf32, #dist.on<@mesh, tp = S(0)>>'}}
  %0 = dist.all_to_all(%a) split 1 concat 0 over @mesh ["tp"] : tensor<4x8xf32, #S0> -> tensor<8x4xf32, #S0>
  return
}

// -----

dist.mesh @mesh ["tp" = 2, "cp" = 3]
#S0 = #dist.on<@mesh, tp = S(0)>

func.func @shard_on_one_dim(%a: tensor<4x8xf32, #S0>) {
  // expected-error @+1 {{'dist.all_to_all' op takes one sharded dimension to another, found S(0) to S(0) along axis 'tp'}}
  %0 = dist.all_to_all(%a) split 0 concat 0 over @mesh ["tp"] : tensor<4x8xf32, #S0>
  return
}

// -----

dist.mesh @mesh ["tp" = 2, "cp" = 3]
#S0_S0 = #dist.on<@mesh, cp = S(0, 0), tp = S(0, 1)>
#S1_S1 = #dist.on<@mesh, cp = S(1, 0), tp = S(1, 1)>

func.func @minor_first(%a: tensor<1x6xf32, #S0_S0>) {
  // expected-error @+1 {{'dist.all_to_all' op expects the axes that shard dimension 0 major first: ["cp", "tp"]}}
  %0 = dist.all_to_all(%a) split 1 concat 0 over @mesh ["tp", "cp"] : tensor<1x6xf32, #S0_S0> -> tensor<6x1xf32, #S1_S1>
  return
}
