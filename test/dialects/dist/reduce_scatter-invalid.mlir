// RUN: cleave-opt %s --split-input-file --verify-diagnostics

dist.mesh @mesh ["tp" = 2, "cp" = 3]

func.func @no_axis(%a: tensor<8xf32>) {
  // expected-error @+1 {{'dist.reduce_scatter' op expects at least one mesh axis}}
  %0 = dist.reduce_scatter sum(%a) dim 0 over @mesh [] : tensor<8xf32> -> tensor<4xf32>
  return
}

// -----

dist.mesh @mesh ["tp" = 2, "cp" = 3]

func.func @axis_twice(%a: tensor<8xf32>) {
  // expected-error @+1 {{'dist.reduce_scatter' op lists mesh axis 'tp' twice}}
  %0 = dist.reduce_scatter sum(%a) dim 0 over @mesh ["tp", "tp"] : tensor<8xf32> -> tensor<4xf32>
  return
}

// -----

dist.mesh @mesh ["tp" = 2, "cp" = 3]

func.func @no_mesh(%a: tensor<8xf32>) {
  // expected-error @+1 {{'dist.reduce_scatter' op refers to mesh @no_mesh, which the module does not define}}
  %0 = dist.reduce_scatter sum(%a) dim 0 over @no_mesh ["tp"] : tensor<8xf32> -> tensor<4xf32>
  return
}

// -----

dist.mesh @mesh ["tp" = 2, "cp" = 3]

func.func @not_a_mesh(%a: tensor<8xf32>) {
  // expected-error @+1 {{'dist.reduce_scatter' op refers to mesh @not_a_mesh, which the module does not define}}
  %0 = dist.reduce_scatter sum(%a) dim 0 over @not_a_mesh ["tp"] : tensor<8xf32> -> tensor<4xf32>
  return
}

// -----

// expected-note @+1 {{the mesh is defined here}}
dist.mesh @mesh ["tp" = 2, "cp" = 3]

func.func @unknown_axis(%a: tensor<8xf32>) {
  // expected-error @+1 {{'dist.reduce_scatter' op runs along axis 'dp', which mesh @mesh does not have}}
  %0 = dist.reduce_scatter sum(%a) dim 0 over @mesh ["dp"] : tensor<8xf32> -> tensor<4xf32>
  return
}

// -----

dist.mesh @mesh ["tp" = 2, "cp" = 3]

func.func @bitwise_on_floats(%a: tensor<8xf32>) {
  // expected-error @+1 {{'dist.reduce_scatter' op cannot reduce values of type 'tensor<8xf32>' by 'bor', which takes integers and booleans}}
  %0 = dist.reduce_scatter bor(%a) dim 0 over @mesh ["tp"] : tensor<8xf32> -> tensor<4xf32>
  return
}

// -----

dist.mesh @mesh ["tp" = 2, "cp" = 3]

func.func @dim_out_of_range(%a: tensor<8xf32>) {
  // expected-error @+1 {{'dist.reduce_scatter' op expects `dim` to be a dimension of 'tensor<8xf32>', found 1}}
  %0 = dist.reduce_scatter sum(%a) dim 1 over @mesh ["tp"] : tensor<8xf32> -> tensor<4xf32>
  return
}

// -----

// expected-note @+1 {{the mesh is defined here}}
dist.mesh @mesh ["tp" = 2, "cp" = 3]

func.func @no_chunk(%a: tensor<8xf32>) {
  // expected-error @+1 {{'dist.reduce_scatter' op has no rank that holds 3 of 8 elements along ["tp"] of 2 ranks: the first holds 4}}
  %0 = dist.reduce_scatter sum(%a) dim 0 over @mesh ["tp"] : tensor<8xf32> -> tensor<3xf32>
  return
}

// -----

dist.mesh @mesh ["tp" = 2, "cp" = 3]

func.func @other_rank(%a: tensor<8xf32>) {
  // expected-error @+1 {{'dist.reduce_scatter' op expects a result of shape [?] and element type 'f32', found 'tensor<4x1xf32>'}}
  %0 = dist.reduce_scatter sum(%a) dim 0 over @mesh ["tp"] : tensor<8xf32> -> tensor<4x1xf32>
  return
}

// -----

// expected-note @+1 {{the mesh is defined here}}
dist.mesh @mesh ["dp" = ?]

func.func @open_axis(%a: tensor<8xf32>) {
  // expected-error @+1 {{'dist.reduce_scatter' op changes a shape by the size of axis 'dp', which mesh @mesh leaves open ('?'); state the size}}
  %0 = dist.reduce_scatter sum(%a) dim 0 over @mesh ["dp"] : tensor<8xf32> -> tensor<4xf32>
  return
}

// -----

dist.mesh @mesh ["tp" = 2, "cp" = 3]
#R = #dist.on<@mesh, tp = R>
#S0 = #dist.on<@mesh, tp = S(0)>

func.func @replicated(%a: tensor<8xf32, #R>) {
  // expected-error @+1 {{'dist.reduce_scatter' op cannot take R to S(0) along axis 'tp': use dist.convert (dist.reduce_scatter takes P(k) to S(d) or V; V to V)}}
  %0 = dist.reduce_scatter sum(%a) dim 0 over @mesh ["tp"] : tensor<8xf32, #R> -> tensor<4xf32, #S0>
  return
}

// -----

dist.mesh @mesh ["tp" = 2, "cp" = 3]
#V = #dist.on<@mesh, tp = V>
#S0 = #dist.on<@mesh, tp = S(0)>

func.func @varying_to_shard(%a: tensor<8xf32, #V>) {
  // expected-error @+1 {{'dist.reduce_scatter' op cannot take V to S(0) along axis 'tp': use dist.reduce_scatter to V, then dist.reinterpret (dist.reduce_scatter takes P(k) to S(d) or V; V to V)}}
  %0 = dist.reduce_scatter sum(%a) dim 0 over @mesh ["tp"] : tensor<8xf32, #V> -> tensor<4xf32, #S0>
  return
}

// -----

dist.mesh @mesh ["tp" = 2, "cp" = 3]
#R = #dist.on<@mesh, tp = R>
#P = #dist.on<@mesh, tp = P>

func.func @partial_to_replicated(%a: tensor<8xf32, #P>) {
  // expected-error @+1 {{'dist.reduce_scatter' op cannot take P to R along axis 'tp': use dist.all_reduce, whose result has the shape of the operand (dist.reduce_scatter takes P(k) to S(d) or V; V to V)}}
  %0 = dist.reduce_scatter sum(%a) dim 0 over @mesh ["tp"] : tensor<8xf32, #P> -> tensor<4xf32, #R>
  return
}

// -----

dist.mesh @mesh ["tp" = 2, "cp" = 3]
#P = #dist.on<@mesh, tp = P>
#S0 = #dist.on<@mesh, tp = S(0)>

func.func @another_reduction(%a: tensor<8xf32, #P>) {
  // expected-error @+1 {{'dist.reduce_scatter' op reduces P by 'avg' along axis 'tp': a pending reduction requires its own, 'sum'}}
  %0 = dist.reduce_scatter avg(%a) dim 0 over @mesh ["tp"] : tensor<8xf32, #P> -> tensor<4xf32, #S0>
  return
}

// -----

dist.mesh @mesh ["tp" = 2, "cp" = 3]
#P = #dist.on<@mesh, tp = P>
#S1 = #dist.on<@mesh, tp = S(1)>

func.func @another_dim(%a: tensor<8x8xf32, #P>) {
  // expected-error @+1 {{'dist.reduce_scatter' op works on dimension 0, but axis 'tp' shards dimension 1 of 'tensor<4x8xf32, #dist.on<@mesh, tp = S(1)>>'}}
  %0 = dist.reduce_scatter sum(%a) dim 0 over @mesh ["tp"] : tensor<8x8xf32, #P> -> tensor<4x8xf32, #S1>
  return
}

// -----

dist.mesh @mesh ["tp" = 2, "cp" = 3]
#P_P = #dist.on<@mesh, cp = P, tp = P>
#S0_S0 = #dist.on<@mesh, cp = S(0, 0), tp = S(0, 1)>

func.func @minor_first(%a: tensor<12xf32, #P_P>) {
  // expected-error @+1 {{'dist.reduce_scatter' op expects the axes that shard dimension 0 major first: ["cp", "tp"]}}
  %0 = dist.reduce_scatter sum(%a) dim 0 over @mesh ["tp", "cp"] : tensor<12xf32, #P_P> -> tensor<2xf32, #S0_S0>
  return
}

// -----

dist.mesh @mesh ["tp" = 2, "cp" = 3]

func.func @above_another_axis(%a: tensor<6xf32, #dist.on<@mesh, cp = S(0), tp = P>>) {
  // expected-error @+1 {{'dist.reduce_scatter' op does not run along axis 'cp', which must stay S(0), found S(0, 1): of axes that shard one dimension the minor one is gathered first and scattered last}}
  %0 = dist.reduce_scatter sum(%a) dim 0 over @mesh ["tp"] : tensor<6xf32, #dist.on<@mesh, cp = S(0), tp = P>> -> tensor<3xf32, #dist.on<@mesh, cp = S(0, 1), tp = S(0, 0)>>
  return
}
