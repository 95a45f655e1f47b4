// RUN: cleave-opt %s --split-input-file --verify-diagnostics

dist.mesh @mesh ["tp" = 2, "cp" = 3]

func.func @no_axis(%a: tensor<8xf32>) {
  // expected-error @+1 {{'dist.fake_broadcast' op expects at least one mesh axis}}
  %0 = dist.fake_broadcast(%a) over @mesh [] : tensor<8xf32>
  return
}

// -----

dist.mesh @mesh ["tp" = 2, "cp" = 3]

func.func @axis_twice(%a: tensor<8xf32>) {
  // expected-error @+1 {{'dist.fake_broadcast' op lists mesh axis 'tp' twice}}
  %0 = dist.fake_broadcast(%a) over @mesh ["tp", "tp"] : tensor<8xf32>
  return
}

// -----

dist.mesh @mesh ["tp" = 2, "cp" = 3]

func.func @no_mesh(%a: tensor<8xf32>) {
  // expected-error @+1 {{'dist.fake_broadcast' op refers to mesh @no_mesh, which the module does not define}}
  %0 = dist.fake_broadcast(%a) over @no_mesh ["tp"] : tensor<8xf32>
  return
}

// -----

dist.mesh @mesh ["tp" = 2, "cp" = 3]

func.func @not_a_mesh(%a: tensor<8xf32>) {
  // expected-error @+1 {{'dist.fake_broadcast' op refers to mesh @not_a_mesh, which the module does not define}}
  %0 = dist.fake_broadcast(%a) over @not_a_mesh ["tp"] : tensor<8xf32>
  return
}

// -----

// expected-note @+1 {{the mesh is defined here}}
dist.mesh @mesh ["tp" = 2, "cp" = 3]

func.func @unknown_axis(%a: tensor<8xf32>) {
  // expected-error @+1 {{'dist.fake_broadcast' op runs along axis 'dp', which mesh @mesh does not have}}
  %0 = dist.fake_broadcast(%a) over @mesh ["dp"] : tensor<8xf32>
  return
}

// -----

dist.mesh @mesh ["tp" = 2, "cp" = 3]

func.func @other_shape(%a: tensor<8xf32>) {
  // expected-error @+1 {{'dist.fake_broadcast' op expects a result of shape [8] and element type 'f32', found 'tensor<4xf32>'}}
  %0 = dist.fake_broadcast(%a) over @mesh ["tp"] : tensor<8xf32> -> tensor<4xf32>
  return
}

// -----

dist.mesh @mesh ["tp" = 2, "cp" = 3]
#R = #dist.on<@mesh, tp = R>
#V = #dist.on<@mesh, tp = V>

func.func @replicated(%a: tensor<8xf32, #R>) {
  // expected-error @+1 {{'dist.fake_broadcast' op cannot take R to V along axis 'tp': use dist.reinterpret (dist.fake_broadcast takes I to V or R)}}
  %0 = dist.fake_broadcast(%a) over @mesh ["tp"] : tensor<8xf32, #R> -> tensor<8xf32, #V>
  return
}

// -----

dist.mesh @mesh ["tp" = 2, "cp" = 3]
#P = #dist.on<@mesh, tp = P>
#I = #dist.on<@mesh, tp = I>

func.func @invariant_to_partial(%a: tensor<8xf32, #I>) {
  // expected-error @+1 {{'dist.fake_broadcast' op cannot take I to P along axis 'tp': use dist.convert (dist.fake_broadcast takes I to V or R)}}
  %0 = dist.fake_broadcast(%a) over @mesh ["tp"] : tensor<8xf32, #I> -> tensor<8xf32, #P>
  return
}

// -----

dist.mesh @mesh ["tp" = 2, "cp" = 3]
#R = #dist.on<@mesh, tp = R>
#V = #dist.on<@mesh, tp = V>

func.func @varying_to_replicated(%a: tensor<8xf32, #V>) {
  // expected-error @+1 {{'dist.fake_broadcast' op cannot take V to R along axis 'tp': use dist.all_reduce or dist.broadcast (dist.fake_broadcast takes I to V or R)}}
  %0 = dist.fake_broadcast(%a) over @mesh ["tp"] : tensor<8xf32, #V> -> tensor<8xf32, #R>
  return
}

// -----

dist.mesh @mesh ["tp" = 2, "cp" = 3]
#R = #dist.on<@mesh, tp = R>
#I = #dist.on<@mesh, tp = I>

func.func @started(%a: tensor<8xf32, #I>) {
  // expected-error @+1 {{'dist.fake_broadcast' op result #0 must be statically shaped tensor of numbers or booleans, but got '!dist.future<tensor<8xf32, #dist.on<@mesh, tp = R>>>'}}
  %0 = dist.fake_broadcast(%a) over @mesh ["tp"] : tensor<8xf32, #I> -> !dist.future<tensor<8xf32, #R>>
  return
}
