// RUN: cleave-opt %s --split-input-file --verify-diagnostics

dist.mesh @mesh ["tp" = 2, "cp" = 3]

func.func @untyped(%a: tensor<8xf32>) {
  // expected-error @+1 {{'dist.reinterpret' op expects types with placements, found 'tensor<8xf32>' and 'tensor<8xf32>'}}
  %0 = dist.reinterpret %a : tensor<8xf32>
  return
}

// -----

dist.mesh @mesh ["tp" = 2, "cp" = 3]
#V = #dist.on<@mesh, tp = V>

func.func @nothing_changes(%a: tensor<8xf32, #V>) {
  // expected-error @+1 {{'dist.reinterpret' op expects placements that differ on exactly one axis, found two that are equal: 'tensor<8xf32, #dist.on<@mesh, tp = V>>'}}
  %0 = dist.reinterpret %a : tensor<8xf32, #V> -> tensor<8xf32, #V>
  return
}

// -----

dist.mesh @mesh ["tp" = 2, "cp" = 3]
#R_R = #dist.on<@mesh, cp = R, tp = R>
#V_V = #dist.on<@mesh, cp = V, tp = V>

func.func @two_axes(%a: tensor<8xf32, #R_R>) {
  // expected-error @+1 {{'dist.reinterpret' op expects placements that differ on exactly one axis, found 'cp' and 'tp': use one op for each}}
  %0 = dist.reinterpret %a : tensor<8xf32, #R_R> -> tensor<8xf32, #V_V>
  return
}

// -----

dist.mesh @mesh ["tp" = 2, "cp" = 3]
#P = #dist.on<@mesh, tp = P>
#V = #dist.on<@mesh, tp = V>

func.func @partial_to_varying(%a: tensor<8xf32, #P>) {
  // expected-error @+1 {{'dist.reinterpret' op cannot take P to V along axis 'tp': use dist.reduce (dist.reinterpret takes R to V; V to P(k); R to P; V to S(d); S(d) to V)}}
  %0 = dist.reinterpret %a : tensor<8xf32, #P> -> tensor<8xf32, #V>
  return
}

// -----

dist.mesh @mesh ["tp" = 2, "cp" = 3]
#R = #dist.on<@mesh, tp = R>
#P = #dist.on<@mesh, tp = P>

func.func @partial_to_replicated(%a: tensor<8xf32, #P>) {
  // expected-error @+1 {{'dist.reinterpret' op cannot take P to R along axis 'tp': use dist.all_reduce (dist.reinterpret takes R to V; V to P(k); R to P; V to S(d); S(d) to V)}}
  %0 = dist.reinterpret %a : tensor<8xf32, #P> -> tensor<8xf32, #R>
  return
}

// -----

dist.mesh @mesh ["tp" = 2, "cp" = 3]
#R = #dist.on<@mesh, tp = R>
#V = #dist.on<@mesh, tp = V>

func.func @varying_to_replicated(%a: tensor<8xf32, #V>) {
  // expected-error @+1 {{'dist.reinterpret' op cannot take V to R along axis 'tp': use dist.all_reduce or dist.broadcast (dist.reinterpret takes R to V; V to P(k); R to P; V to S(d); S(d) to V)}}
  %0 = dist.reinterpret %a : tensor<8xf32, #V> -> tensor<8xf32, #R>
  return
}

// -----

dist.mesh @mesh ["tp" = 2, "cp" = 3]
#R = #dist.on<@mesh, tp = R>
#I = #dist.on<@mesh, tp = I>

func.func @invariant_to_replicated(%a: tensor<8xf32, #I>) {
  // expected-error @+1 {{'dist.reinterpret' op cannot take I to R along axis 'tp': use dist.convert (dist.reinterpret takes R to V; V to P(k); R to P; V to S(d); S(d) to V)}}
  %0 = dist.reinterpret %a : tensor<8xf32, #I> -> tensor<8xf32, #R>
  return
}

// -----

dist.mesh @mesh ["tp" = 2, "cp" = 3]
#R = #dist.on<@mesh, tp = R>
#Pavg = #dist.on<@mesh, tp = P(avg)>

func.func @replicated_to_pending_mean(%a: tensor<8xf32, #R>) {
  // expected-error @+1 {{'dist.reinterpret' op cannot take R to P(avg) along axis 'tp': use dist.reinterpret to V, then dist.reinterpret (dist.reinterpret takes R to V; V to P(k); R to P; V to S(d); S(d) to V)}}
  %0 = dist.reinterpret %a : tensor<8xf32, #R> -> tensor<8xf32, #Pavg>
  return
}

// -----

dist.mesh @mesh ["tp" = 2, "cp" = 3]
#P = #dist.on<@mesh, tp = P>
#S0 = #dist.on<@mesh, tp = S(0)>

func.func @shard_to_partial(%a: tensor<8xf32, #S0>) {
  // expected-error @+1 {{'dist.reinterpret' op cannot take S(0) to P along axis 'tp': use dist.reinterpret to V, then dist.reinterpret (dist.reinterpret takes R to V; V to P(k); R to P; V to S(d); S(d) to V)}}
  %0 = dist.reinterpret %a : tensor<8xf32, #S0> -> tensor<8xf32, #P>
  return
}

// -----

dist.mesh @mesh ["tp" = 2, "cp" = 3]
#V = #dist.on<@mesh, tp = V>
#S0 = #dist.on<@mesh, tp = S(0)>

func.func @other_shape(%a: tensor<8xf32, #V>) {
  // expected-error @+1 {{'dist.reinterpret' op expects a result of shape [8] and element type 'f32', found 'tensor<4xf32, #dist.on<@mesh, tp = S(0)>>'}}
  %0 = dist.reinterpret %a : tensor<8xf32, #V> -> tensor<4xf32, #S0>
  return
}
