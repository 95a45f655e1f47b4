// RUN: cleave-opt %s --split-input-file --verify-diagnostics

dist.mesh @mesh ["tp" = 2, "cp" = 3]

func.func @no_axis(%a: tensor<4xf32>) {
  // expected-error @+1 {{'dist.all_gather' op expects at least one mesh axis}}
  %0 = dist.all_gather(%a) dim 0 over @mesh [] : tensor<4xf32> -> tensor<8xf32>
  return
}

// -----

dist.mesh @mesh ["tp" = 2, "cp" = 3]

func.func @axis_twice(%a: tensor<4xf32>) {
  // expected-error @+1 {{'dist.all_gather' op lists mesh axis 'tp' twice}}
  %0 = dist.all_gather(%a) dim 0 over @mesh ["tp", "tp"] : tensor<4xf32> -> tensor<8xf32>
  return
}

// -----

dist.mesh @mesh ["tp" = 2, "cp" = 3]

func.func @no_mesh(%a: tensor<4xf32>) {
  // expected-error @+1 {{'dist.all_gather' op refers to mesh @no_mesh, which the module does not define}}
  %0 = dist.all_gather(%a) dim 0 over @no_mesh ["tp"] : tensor<4xf32> -> tensor<8xf32>
  return
}

// -----

dist.mesh @mesh ["tp" = 2, "cp" = 3]

func.func @not_a_mesh(%a: tensor<4xf32>) {
  // expected-error @+1 {{'dist.all_gather' op refers to mesh @not_a_mesh, which the module does not define}}
  %0 = dist.all_gather(%a) dim 0 over @not_a_mesh ["tp"] : tensor<4xf32> -> tensor<8xf32>
  return
}

// -----

// expected-note @+1 {{the mesh is defined here}}
dist.mesh @mesh ["tp" = 2, "cp" = 3]

func.func @unknown_axis(%a: tensor<4xf32>) {
  // expected-error @+1 {{'dist.all_gather' op runs along axis 'dp', which mesh @mesh does not have}}
  %0 = dist.all_gather(%a) dim 0 over @mesh ["dp"] : tensor<4xf32> -> tensor<8xf32>
  return
}

// -----

dist.mesh @mesh ["tp" = 2, "cp" = 3]

func.func @some_started(%a: tensor<4xf32>) {
  // expected-error @+1 {{'dist.all_gather' op expects futures as all results or as none: the coalesced form is one communication}}
  %0:2 = dist.all_gather(%a, %a) dim 0 over @mesh ["tp"] : tensor<4xf32>, tensor<4xf32> -> tensor<8xf32>, !dist.future<tensor<8xf32>>
  return
}

// -----

dist.mesh @mesh ["tp" = 2, "cp" = 3]

func.func @dim_out_of_range(%a: tensor<4xf32>) {
  // expected-error @+1 {{'dist.all_gather' op expects `dim` to be a dimension of 'tensor<4xf32>', found 1}}
  %0 = dist.all_gather(%a) dim 1 over @mesh ["tp"] : tensor<4xf32> -> tensor<8xf32>
  return
}

// -----

dist.mesh @mesh ["tp" = 2, "cp" = 3]

func.func @negative_dim(%a: tensor<4xf32>) {
  // expected-error @+1 {{'dist.all_gather' op expects `dim` to be a dimension of 'tensor<4xf32>', found -1}}
  %0 = dist.all_gather(%a) dim -1 over @mesh ["tp"] : tensor<4xf32> -> tensor<8xf32>
  return
}

// -----

dist.mesh @mesh ["tp" = 2, "cp" = 3]

func.func @dim_of_one_operand(%a: tensor<4x4xf32>, %b: tensor<4xf32>) {
  // expected-error @+1 {{'dist.all_gather' op expects `dim` to be a dimension of 'tensor<4xf32>', found 1}}
  %0:2 = dist.all_gather(%a, %b) dim 1 over @mesh ["tp"] : tensor<4x4xf32>, tensor<4xf32> -> tensor<4x8xf32>, tensor<8xf32>
  return
}

// -----

dist.mesh @mesh ["tp" = 2, "cp" = 3]

func.func @other_dim(%a: tensor<4x4xf32>) {
  // expected-error @+1 {{'dist.all_gather' op expects a result of shape [?, 4] and element type 'f32', found 'tensor<8x8xf32>'}}
  %0 = dist.all_gather(%a) dim 0 over @mesh ["tp"] : tensor<4x4xf32> -> tensor<8x8xf32>
  return
}

// -----

dist.mesh @mesh ["tp" = 2, "cp" = 3]

func.func @other_element_type(%a: tensor<4xf32>) {
  // expected-error @+1 {{'dist.all_gather' op expects a result of shape [?] and element type 'f32', found 'tensor<8xf64>'}}
  %0 = dist.all_gather(%a) dim 0 over @mesh ["tp"] : tensor<4xf32> -> tensor<8xf64>
  return
}

// -----

// expected-note @+1 {{the mesh is defined here}}
dist.mesh @mesh ["tp" = 2, "cp" = 3]

func.func @too_much(%a: tensor<4xf32>) {
  // expected-error @+1 {{'dist.all_gather' op has no rank that holds 4 of 10 elements along ["tp"] of 2 ranks: the first holds 5}}
  %0 = dist.all_gather(%a) dim 0 over @mesh ["tp"] : tensor<4xf32> -> tensor<10xf32>
  return
}

// -----

// expected-note @+1 {{the mesh is defined here}}
dist.mesh @mesh ["cp" = 4]

func.func @no_chunk(%a: tensor<2xf32>) {
  // expected-error @+1 {{'dist.all_gather' op has no rank that holds 2 of 3 elements along ["cp"] of 4 ranks: the first holds 1}}
  %0 = dist.all_gather(%a) dim 0 over @mesh ["cp"] : tensor<2xf32> -> tensor<3xf32>
  return
}

// -----

// expected-note @+1 {{the mesh is defined here}}
dist.mesh @mesh ["tp" = 2, "cp" = 3]

func.func @no_nested_chunk(%a: tensor<3xf32>) {
  // expected-error @+1 {{'dist.all_gather' op has no rank that holds 3 of 12 elements along ["cp", "tp"] of 3 x 2 ranks: the first holds 2}}
  %0 = dist.all_gather(%a) dim 0 over @mesh ["cp", "tp"] : tensor<3xf32> -> tensor<12xf32>
  return
}

// -----

// expected-note @+1 {{the mesh is defined here}}
dist.mesh @mesh ["dp" = ?]

func.func @open_axis(%a: tensor<4xf32>) {
  // expected-error @+1 {{'dist.all_gather' op changes a shape by the size of axis 'dp', which mesh @mesh leaves open ('?'); state the size}}
  %0 = dist.all_gather(%a) dim 0 over @mesh ["dp"] : tensor<4xf32> -> tensor<8xf32>
  return
}

// -----

dist.mesh @mesh ["tp" = 2, "cp" = 3]
#R = #dist.on<@mesh, tp = R>
#P = #dist.on<@mesh, tp = P>

func.func @partial(%a: tensor<4xf32, #P>) {
  // expected-error @+1 {{'dist.all_gather' op cannot take P to R along axis 'tp': use dist.all_reduce, whose result has the shape of the operand (dist.all_gather takes S(d) to R or I; V to R, I or V)}}
  %0 = dist.all_gather(%a) dim 0 over @mesh ["tp"] : tensor<4xf32, #P> -> tensor<8xf32, #R>
  return
}

// -----

dist.mesh @mesh ["tp" = 2, "cp" = 3]
#R = #dist.on<@mesh, tp = R>

func.func @replicated(%a: tensor<4xf32, #R>) {
  // expected-error @+1 {{'dist.all_gather' op cannot take R to R along axis 'tp': the value is the same on all ranks already (dist.all_gather takes S(d) to R or I; V to R, I or V)}}
  %0 = dist.all_gather(%a) dim 0 over @mesh ["tp"] : tensor<4xf32, #R> -> tensor<8xf32, #R>
  return
}

// -----

dist.mesh @mesh ["tp" = 2, "cp" = 3]
#I = #dist.on<@mesh, tp = I>
#V = #dist.on<@mesh, tp = V>

func.func @invariant_to_varying(%a: tensor<4xf32, #I>) {
  // expected-error @+1 {{'dist.all_gather' op cannot take I to V along axis 'tp': use dist.convert, whose result is one rank's part of the operand (dist.all_gather takes S(d) to R or I; V to R, I or V)}}
  %0 = dist.all_gather(%a) dim 0 over @mesh ["tp"] : tensor<4xf32, #I> -> tensor<8xf32, #V>
  return
}

// -----

dist.mesh @mesh ["tp" = 2, "cp" = 3]
#V = #dist.on<@mesh, tp = V>
#S0 = #dist.on<@mesh, tp = S(0)>

func.func @shard_to_varying(%a: tensor<4xf32, #S0>) {
  // expected-error @+1 {{'dist.all_gather' op cannot take S(0) to V along axis 'tp': use dist.all_gather to R, then dist.reinterpret (dist.all_gather takes S(d) to R or I; V to R, I or V)}}
  %0 = dist.all_gather(%a) dim 0 over @mesh ["tp"] : tensor<4xf32, #S0> -> tensor<8xf32, #V>
  return
}

// -----

dist.mesh @mesh ["tp" = 2, "cp" = 3]
#P = #dist.on<@mesh, tp = P>
#S0 = #dist.on<@mesh, tp = S(0)>

func.func @shard_to_partial(%a: tensor<4xf32, #S0>) {
  // expected-error @+1 {{'dist.all_gather' op cannot take S(0) to P along axis 'tp': use dist.convert (dist.all_gather takes S(d) to R or I; V to R, I or V)}}
  %0 = dist.all_gather(%a) dim 0 over @mesh ["tp"] : tensor<4xf32, #S0> -> tensor<8xf32, #P>
  return
}

// -----

dist.mesh @mesh ["tp" = 2, "cp" = 3]
#R = #dist.on<@mesh, tp = R>
#S1 = #dist.on<@mesh, tp = S(1)>

func.func @another_dim_is_sharded(%a: tensor<4x4xf32, #S1>) {
  // expected-error @+1 {{'dist.all_gather' op works on dimension 0, but axis 'tp' shards dimension 1 of 'tensor<4x4xf32, #dist.on<@mesh, tp = S(1)>>'}}
  %0 = dist.all_gather(%a) dim 0 over @mesh ["tp"] : tensor<4x4xf32, #S1> -> tensor<8x4xf32, #R>
  return
}

// -----

dist.mesh @mesh ["tp" = 2, "cp" = 3]
#R_R = #dist.on<@mesh, cp = R, tp = R>
#S0_S0 = #dist.on<@mesh, cp = S(0, 0), tp = S(0, 1)>

func.func @minor_first(%a: tensor<2xf32, #S0_S0>) {
  // expected-error @+1 {{'dist.all_gather' op expects the axes that shard dimension 0 major first: ["cp", "tp"]}}
  %0 = dist.all_gather(%a) dim 0 over @mesh ["tp", "cp"] : tensor<2xf32, #S0_S0> -> tensor<12xf32, #R_R>
  return
}

// -----

dist.mesh @mesh ["tp" = 2, "cp" = 3]
#S0_S0 = #dist.on<@mesh, cp = S(0, 0), tp = S(0, 1)>
#R_S0 = #dist.on<@mesh, cp = R, tp = S(0)>

func.func @major_axis_alone(%a: tensor<2xf32, #S0_S0>) {
  // expected-error @+1 {{'dist.all_gather' op does not run along axis 'tp', which must stay S(0, 1), found S(0): of axes that shard one dimension the minor one is gathered first and scattered last}}
  %0 = dist.all_gather(%a) dim 0 over @mesh ["cp"] : tensor<2xf32, #S0_S0> -> tensor<6xf32, #R_S0>
  return
}

// -----

// expected-note @+1 {{the mesh is defined here}}
dist.mesh @mesh ["tp" = 2, "cp" = 3]
#S0 = #dist.on<@mesh, tp = S(0)>

func.func @axis_not_in_types(%a: tensor<4xf32, #S0>) {
  // expected-error @+1 {{'dist.all_gather' op runs along axis 'cp', on which a type has no placement: 'tensor<4xf32, #dist.on<@mesh, tp = S(0)>>'}}
  %0 = dist.all_gather(%a) dim 0 over @mesh ["cp"] : tensor<4xf32, #S0> -> tensor<12xf32, #S0>
  return
}
