// RUN: cleave-opt %s --split-input-file --verify-diagnostics

dist.mesh @mesh ["tp" = 2, "cp" = 3]

func.func @no_axis(%a: tensor<8xf32>) {
  // expected-error @+1 {{'dist.broadcast' op expects at least one mesh axis}}
  %0 = dist.broadcast(%a) root 0 over @mesh [] : tensor<8xf32>
  return
}

// -----

dist.mesh @mesh ["tp" = 2, "cp" = 3]

func.func @axis_twice(%a: tensor<8xf32>) {
  // expected-error @+1 {{'dist.broadcast' op lists mesh axis 'tp' twice}}
  %0 = dist.broadcast(%a) root 0 over @mesh ["tp", "tp"] : tensor<8xf32>
  return
}

// -----

dist.mesh @mesh ["tp" = 2, "cp" = 3]

func.func @no_mesh(%a: tensor<8xf32>) {
  // expected-error @+1 {{'dist.broadcast' op refers to mesh @no_mesh, which the module does not define}}
  %0 = dist.broadcast(%a) root 0 over @no_mesh ["tp"] : tensor<8xf32>
  return
}

// -----

dist.mesh @mesh ["tp" = 2, "cp" = 3]

func.func @not_a_mesh(%a: tensor<8xf32>) {
  // expected-error @+1 {{'dist.broadcast' op refers to mesh @not_a_mesh, which the module does not define}}
  %0 = dist.broadcast(%a) root 0 over @not_a_mesh ["tp"] : tensor<8xf32>
  return
}

// -----

// expected-note @+1 {{the mesh is defined here}}
dist.mesh @mesh ["tp" = 2, "cp" = 3]

func.func @unknown_axis(%a: tensor<8xf32>) {
  // expected-error @+1 {{'dist.broadcast' op runs along axis 'dp', which mesh @mesh does not have}}
  %0 = dist.broadcast(%a) root 0 over @mesh ["dp"] : tensor<8xf32>
  return
}

// -----

dist.mesh @mesh ["tp" = 2, "cp" = 3]

func.func @root_out_of_range(%a: tensor<8xf32>) {
  // expected-error @+1 {{'dist.broadcast' op expects `root` to be the index of a rank along ["tp"], 0 to 1, found 2}}
  %0 = dist.broadcast(%a) root 2 over @mesh ["tp"] : tensor<8xf32>
  return
}

// -----

dist.mesh @mesh ["dp" = ?]

func.func @negative_root(%a: tensor<8xf32>) {
  // expected-error @+1 {{'dist.broadcast' op expects `root` to be the index of a rank along ["dp"], found -1}}
  %0 = dist.broadcast(%a) root -1 over @mesh ["dp"] : tensor<8xf32>
  return
}

// -----

dist.mesh @mesh ["tp" = 2, "cp" = 3]

func.func @root_of_two_axes(%a: tensor<8xf32>) {
  // expected-error @+1 {{'dist.broadcast' op expects `root` to be the index of a rank along ["cp", "tp"], 0 to 5, found 6}}
  %0 = dist.broadcast(%a) root 6 over @mesh ["cp", "tp"] : tensor<8xf32>
  return
}

// -----

dist.mesh @mesh ["tp" = 2, "cp" = 3]

func.func @other_shape(%a: tensor<8xf32>) {
  // expected-error @+1 {{'dist.broadcast' op expects a result of shape [8] and element type 'f32', found 'tensor<4xf32>'}}
  %0 = dist.broadcast(%a) root 0 over @mesh ["tp"] : tensor<8xf32> -> tensor<4xf32>
  return
}

// -----

dist.mesh @mesh ["tp" = 2, "cp" = 3]
#R = #dist.on<@mesh, tp = R>

func.func @replicated(%a: tensor<8xf32, #R>) {
  // expected-error @+1 {{'dist.broadcast' op cannot take R to R along axis 'tp': the value is the same on all ranks already (dist.broadcast takes V to V, R or I)}}
  %0 = dist.broadcast(%a) root 0 over @mesh ["tp"] : tensor<8xf32, #R>
  return
}

// -----

dist.mesh @mesh ["tp" = 2, "cp" = 3]
#R = #dist.on<@mesh, tp = R>
#I = #dist.on<@mesh, tp = I>

func.func @invariant_to_replicated(%a: tensor<8xf32, #I>) {
  // expected-error @+1 {{'dist.broadcast' op cannot take I to R along axis 'tp': use dist.convert (dist.broadcast takes V to V, R or I)}}
  %0 = dist.broadcast(%a) root 0 over @mesh ["tp"] : tensor<8xf32, #I> -> tensor<8xf32, #R>
  return
}

// -----

dist.mesh @mesh ["tp" = 2, "cp" = 3]
#P = #dist.on<@mesh, tp = P>
#I = #dist.on<@mesh, tp = I>

func.func @partial(%a: tensor<8xf32, #P>) {
  // expected-error @+1 {{'dist.broadcast' op cannot take P to I along axis 'tp': use dist.all_reduce (dist.broadcast takes V to V, R or I)}}
  %0 = dist.broadcast(%a) root 0 over @mesh ["tp"] : tensor<8xf32, #P> -> tensor<8xf32, #I>
  return
}

// -----

dist.mesh @mesh ["tp" = 2, "cp" = 3]
#R = #dist.on<@mesh, tp = R>
#S0 = #dist.on<@mesh, tp = S(0)>

func.func @shard(%a: tensor<8xf32, #S0>) {
  // expected-error @+1 {{'dist.broadcast' op cannot take S(0) to R along axis 'tp': use dist.reinterpret to V, then dist.broadcast (dist.broadcast takes V to V, R or I)}}
  %0 = dist.broadcast(%a) root 0 over @mesh ["tp"] : tensor<8xf32, #S0> -> tensor<8xf32, #R>
  return
}
