// RUN: cleave-opt %s --split-input-file --verify-diagnostics

dist.mesh @mesh ["tp" = 2, "cp" = 3]

func.func @untyped(%a: tensor<8xf32>) {
  // expected-error @+1 {{'dist.convert' op expects types with placements, found 'tensor<8xf32>' and 'tensor<8xf32>'}}
  %0 = dist.convert %a : tensor<8xf32>
  return
}

// -----

dist.mesh @mesh ["tp" = 2, "cp" = 3]
#I = #dist.on<@mesh, tp = I>

func.func @half_typed(%a: tensor<8xf32, #I>) {
  // expected-error @+1 {{'dist.convert' op expects types with placements, found 'tensor<8xf32, #dist.on<@mesh, tp = I>>' and 'tensor<8xf32>'}}
  %0 = dist.convert %a : tensor<8xf32, #I> -> tensor<8xf32>
  return
}

// -----

dist.mesh @mesh ["tp" = 2, "cp" = 3]
#V = #dist.on<@mesh, tp = V>
#other = #dist.on<@other, tp = V>

func.func @other_mesh(%a: tensor<8xf32, #other>) {
  // expected-error @+1 {{'dist.convert' op expects placements on the same mesh, found 'tensor<8xf32, #dist.on<@other, tp = V>>' and 'tensor<8xf32, #dist.on<@mesh, tp = V>>'}}
  %0 = dist.convert %a : tensor<8xf32, #other> -> tensor<8xf32, #V>
  return
}

// -----

dist.mesh @mesh ["tp" = 2, "cp" = 3]
#I = #dist.on<@mesh, tp = I>
#R_R = #dist.on<@mesh, cp = R, tp = R>

func.func @other_axes(%a: tensor<8xf32, #I>) {
  // expected-error @+1 {{'dist.convert' op expects placements on the same axes, found 'tensor<8xf32, #dist.on<@mesh, tp = I>>' and 'tensor<8xf32, #dist.on<@mesh, cp = R, tp = R>>'}}
  %0 = dist.convert %a : tensor<8xf32, #I> -> tensor<8xf32, #R_R>
  return
}

// -----

dist.mesh @mesh ["tp" = 2, "cp" = 3]
#R = #dist.on<@mesh, tp = R>

func.func @nothing_changes(%a: tensor<8xf32, #R>) {
  // expected-error @+1 {{'dist.convert' op expects placements that differ on exactly one axis, found two that are equal: 'tensor<8xf32, #dist.on<@mesh, tp = R>>'}}
  %0 = dist.convert %a : tensor<8xf32, #R> -> tensor<8xf32, #R>
  return
}

// -----

dist.mesh @mesh ["tp" = 2, "cp" = 3]
#R_R = #dist.on<@mesh, cp = R, tp = R>
#I_I = #dist.on<@mesh, cp = I, tp = I>

func.func @two_axes(%a: tensor<8xf32, #I_I>) {
  // expected-error @+1 {{'dist.convert' op expects placements that differ on exactly one axis, found 'cp' and 'tp': use one op for each}}
  %0 = dist.convert %a : tensor<8xf32, #I_I> -> tensor<8xf32, #R_R>
  return
}

// -----

dist.mesh @mesh ["tp" = 2, "cp" = 3]

func.func @no_mesh(%a: tensor<8xf32, #dist.on<@no_mesh, tp = I>>) {
  // expected-error @+1 {{'dist.convert' op refers to mesh @no_mesh, which the module does not define}}
  %0 = dist.convert %a : tensor<8xf32, #dist.on<@no_mesh, tp = I>> -> tensor<8xf32, #dist.on<@no_mesh, tp = R>>
  return
}

// -----

// expected-note @+1 {{the mesh is defined here}}
dist.mesh @mesh ["tp" = 2, "cp" = 3]

func.func @unknown_axis(%a: tensor<8xf32, #dist.on<@mesh, dp = I>>) {
  // expected-error @+1 {{'dist.convert' op runs along axis 'dp', which mesh @mesh does not have}}
  %0 = dist.convert %a : tensor<8xf32, #dist.on<@mesh, dp = I>> -> tensor<8xf32, #dist.on<@mesh, dp = R>>
  return
}

// -----

dist.mesh @mesh ["tp" = 2, "cp" = 3]
#R = #dist.on<@mesh, tp = R>
#P = #dist.on<@mesh, tp = P>

func.func @partial_to_replicated(%a: tensor<8xf32, #P>) {
  // expected-error @+1 {{'dist.convert' op cannot take P to R along axis 'tp': use dist.all_reduce (dist.convert takes I to R, V, S(d) or P; R to V, S(d), P or I; V to P; S(d) to P)}}
  %0 = dist.convert %a : tensor<8xf32, #P> -> tensor<8xf32, #R>
  return
}

// -----

dist.mesh @mesh ["tp" = 2, "cp" = 3]
#P = #dist.on<@mesh, tp = P>
#I = #dist.on<@mesh, tp = I>

func.func @partial_to_invariant(%a: tensor<8xf32, #P>) {
  // expected-error @+1 {{'dist.convert' op cannot take P to I along axis 'tp': use dist.all_reduce (dist.convert takes I to R, V, S(d) or P; R to V, S(d), P or I; V to P; S(d) to P)}}
  %0 = dist.convert %a : tensor<8xf32, #P> -> tensor<8xf32, #I>
  return
}

// -----

dist.mesh @mesh ["tp" = 2, "cp" = 3]
#P = #dist.on<@mesh, tp = P>
#S0 = #dist.on<@mesh, tp = S(0)>

func.func @partial_to_shard(%a: tensor<8xf32, #P>) {
  // expected-error @+1 {{'dist.convert' op cannot take P to S(0) along axis 'tp': use dist.reduce_scatter, whose result is one rank's part of the operand (dist.convert takes I to R, V, S(d) or P; R to V, S(d), P or I; V to P; S(d) to P)}}
  %0 = dist.convert %a : tensor<8xf32, #P> -> tensor<4xf32, #S0>
  return
}

// -----

dist.mesh @mesh ["tp" = 2, "cp" = 3]
#R = #dist.on<@mesh, tp = R>
#S0 = #dist.on<@mesh, tp = S(0)>

func.func @shard_to_replicated(%a: tensor<4xf32, #S0>) {
  // expected-error @+1 {{'dist.convert' op cannot take S(0) to R along axis 'tp': use dist.all_gather, whose result is all ranks' parts together (dist.convert takes I to R, V, S(d) or P; R to V, S(d), P or I; V to P; S(d) to P)}}
  %0 = dist.convert %a : tensor<4xf32, #S0> -> tensor<8xf32, #R>
  return
}

// -----

dist.mesh @mesh ["tp" = 2, "cp" = 3]
#R = #dist.on<@mesh, tp = R>
#V = #dist.on<@mesh, tp = V>

func.func @varying_to_replicated(%a: tensor<4xf32, #V>) {
  // expected-error @+1 {{'dist.convert' op cannot take V to R along axis 'tp': use dist.all_reduce or dist.broadcast (dist.convert takes I to R, V, S(d) or P; R to V, S(d), P or I; V to P; S(d) to P)}}
  %0 = dist.convert %a dim 0 : tensor<4xf32, #V> -> tensor<8xf32, #R>
  return
}

// -----

dist.mesh @mesh ["tp" = 2, "cp" = 3]
#V = #dist.on<@mesh, tp = V>
#S0 = #dist.on<@mesh, tp = S(0)>

func.func @varying_to_shard(%a: tensor<4xf32, #V>) {
  // expected-error @+1 {{'dist.convert' op cannot take V to S(0) along axis 'tp': use dist.reinterpret (dist.convert takes I to R, V, S(d) or P; R to V, S(d), P or I; V to P; S(d) to P)}}
  %0 = dist.convert %a : tensor<4xf32, #V> -> tensor<4xf32, #S0>
  return
}

// -----

dist.mesh @mesh ["tp" = 2, "cp" = 3]
#R = #dist.on<@mesh, tp = R>
#Pmax = #dist.on<@mesh, tp = P(max)>

func.func @replicated_to_pending_max(%a: tensor<8xf32, #R>) {
  // expected-error @+1 {{'dist.convert' op cannot take R to P(max) along axis 'tp': use dist.reinterpret to V, then dist.reinterpret (dist.convert takes I to R, V, S(d) or P; R to V, S(d), P or I; V to P; S(d) to P)}}
  %0 = dist.convert %a : tensor<8xf32, #R> -> tensor<8xf32, #Pmax>
  return
}

// -----

dist.mesh @mesh ["tp" = 2, "cp" = 3]
#S0 = #dist.on<@mesh, tp = S(0)>
#S1 = #dist.on<@mesh, tp = S(1)>

func.func @shard_to_shard(%a: tensor<4x8xf32, #S0>) {
  // expected-error @+1 {{'dist.convert' op cannot take S(0) to S(1) along axis 'tp': use dist.all_to_all, whose result is divided along another dimension (dist.convert takes I to R, V, S(d) or P; R to V, S(d), P or I; V to P; S(d) to P)}}
  %0 = dist.convert %a : tensor<4x8xf32, #S0> -> tensor<8x4xf32, #S1>
  return
}

// -----

dist.mesh @mesh ["tp" = 2, "cp" = 3]
#R = #dist.on<@mesh, tp = R>
#Pmax = #dist.on<@mesh, tp = P(max)>

func.func @pending_max_to_replicated(%a: tensor<8xf32, #Pmax>) {
  // expected-error @+1 {{'dist.convert' op cannot take P(max) to R along axis 'tp': use dist.all_reduce (dist.convert takes I to R, V, S(d) or P; R to V, S(d), P or I; V to P; S(d) to P)}}
  %0 = dist.convert %a : tensor<8xf32, #Pmax> -> tensor<8xf32, #R>
  return
}

// -----

dist.mesh @mesh ["tp" = 2, "cp" = 3]
#R = #dist.on<@mesh, tp = R>
#V = #dist.on<@mesh, tp = V>

func.func @varying_without_dim(%a: tensor<8xf32, #R>) {
  // expected-error @+1 {{'dist.convert' op expects `dim`, the dimension of which V is a rank's part: from R to V}}
  %0 = dist.convert %a : tensor<8xf32, #R> -> tensor<4xf32, #V>
  return
}

// -----

dist.mesh @mesh ["tp" = 2, "cp" = 3]
#R = #dist.on<@mesh, tp = R>
#S0 = #dist.on<@mesh, tp = S(0)>

func.func @shard_with_dim(%a: tensor<8xf32, #R>) {
  // expected-error @+1 {{'dist.convert' op expects no `dim` from R to S(0), where no type is V}}
  %0 = dist.convert %a dim 0 : tensor<8xf32, #R> -> tensor<4xf32, #S0>
  return
}

// -----

dist.mesh @mesh ["tp" = 2, "cp" = 3]
#R = #dist.on<@mesh, tp = R>
#V = #dist.on<@mesh, tp = V>

func.func @dim_out_of_range(%a: tensor<8xf32, #R>) {
  // expected-error @+1 {{'dist.convert' op expects `dim` to be a dimension of 'tensor<8xf32, #dist.on<@mesh, tp = R>>', found 1}}
  %0 = dist.convert %a dim 1 : tensor<8xf32, #R> -> tensor<4xf32, #V>
  return
}

// -----

dist.mesh @mesh ["tp" = 2, "cp" = 3]
#R = #dist.on<@mesh, tp = R>
#I = #dist.on<@mesh, tp = I>

func.func @other_shape(%a: tensor<8xf32, #I>) {
  // expected-error @+1 {{'dist.convert' op expects a result of shape [8] and element type 'f32', found 'tensor<4xf32, #dist.on<@mesh, tp = R>>'}}
  %0 = dist.convert %a : tensor<8xf32, #I> -> tensor<4xf32, #R>
  return
}

// -----

dist.mesh @mesh ["tp" = 2, "cp" = 3]
#R = #dist.on<@mesh, tp = R>
#I = #dist.on<@mesh, tp = I>

func.func @other_element_type(%a: tensor<8xf32, #I>) {
  // expected-error @+1 {{'dist.convert' op expects a result of shape [8] and element type 'f32', found 'tensor<8xf64, #dist.on<@mesh, tp = R>>'}}
  %0 = dist.convert %a : tensor<8xf32, #I> -> tensor<8xf64, #R>
  return
}

// -----

// expected-note @+1 {{the mesh is defined here}}
dist.mesh @mesh ["tp" = 2, "cp" = 3]
#R = #dist.on<@mesh, tp = R>
#S0 = #dist.on<@mesh, tp = S(0)>

func.func @no_chunk(%a: tensor<8xf32, #R>) {
  // expected-error @+1 {{'dist.convert' op has no rank that holds 3 of 8 elements along ["tp"] of 2 ranks: the first holds 4}}
  %0 = dist.convert %a : tensor<8xf32, #R> -> tensor<3xf32, #S0>
  return
}

// -----

// expected-note @+1 {{the mesh is defined here}}
dist.mesh @mesh ["tp" = 2, "cp" = 3]
#P = #dist.on<@mesh, tp = P>
#S0 = #dist.on<@mesh, tp = S(0)>

func.func @no_chunk_of_padded(%a: tensor<4xf32, #S0>) {
  // expected-error @+1 {{'dist.convert' op has no rank that holds 4 of 6 elements along ["tp"] of 2 ranks: the first holds 3}}
  %0 = dist.convert %a : tensor<4xf32, #S0> -> tensor<6xf32, #P>
  return
}

// -----

// expected-note @+1 {{the mesh is defined here}}
dist.mesh @mesh ["dp" = ?]

func.func @open_axis(%a: tensor<8xf32, #dist.on<@mesh, dp = R>>) {
  // expected-error @+1 {{'dist.convert' op changes a shape by the size of axis 'dp', which mesh @mesh leaves open ('?'); state the size}}
  %0 = dist.convert %a : tensor<8xf32, #dist.on<@mesh, dp = R>> -> tensor<4xf32, #dist.on<@mesh, dp = S(0)>>
  return
}

// -----

dist.mesh @mesh ["tp" = 2, "cp" = 3]

func.func @above_another_axis(%a: tensor<4xf32, #dist.on<@mesh, cp = R, tp = S(0)>>) {
  // expected-error @+1 {{'dist.convert' op expects placements that differ on exactly one axis, found 'cp' and 'tp': use one op for each}}
  %0 = dist.convert %a : tensor<4xf32, #dist.on<@mesh, cp = R, tp = S(0)>> -> tensor<2xf32, #dist.on<@mesh, cp = S(0, 0), tp = S(0, 1)>>
  return
}
