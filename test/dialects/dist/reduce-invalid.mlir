// RUN: cleave-opt %s --split-input-file --verify-diagnostics

dist.mesh @mesh ["tp" = 2, "cp" = 3]

func.func @no_axis(%a: tensor<8xf32>) {
  // expected-error @+1 {{'dist.reduce' op expects at least one mesh axis}}
  %0 = dist.reduce sum(%a) root 0 over @mesh [] : tensor<8xf32>
  return
}

// -----

dist.mesh @mesh ["tp" = 2, "cp" = 3]

func.func @axis_twice(%a: tensor<8xf32>) {
  // expected-error @+1 {{'dist.reduce' op lists mesh axis 'tp' twice}}
  %0 = dist.reduce sum(%a) root 0 over @mesh ["tp", "tp"] : tensor<8xf32>
  return
}

// -----

dist.mesh @mesh ["tp" = 2, "cp" = 3]

func.func @no_mesh(%a: tensor<8xf32>) {
  // expected-error @+1 {{'dist.reduce' op refers to mesh @no_mesh, which the module does not define}}
  %0 = dist.reduce sum(%a) root 0 over @no_mesh ["tp"] : tensor<8xf32>
  return
}

// -----

dist.mesh @mesh ["tp" = 2, "cp" = 3]

func.func @not_a_mesh(%a: tensor<8xf32>) {
  // expected-error @+1 {{'dist.reduce' op refers to mesh @not_a_mesh, which the module does not define}}
  %0 = dist.reduce sum(%a) root 0 over @not_a_mesh ["tp"] : tensor<8xf32>
  return
}

// -----

// expected-note @+1 {{the mesh is defined here}}
dist.mesh @mesh ["tp" = 2, "cp" = 3]

func.func @unknown_axis(%a: tensor<8xf32>) {
  // expected-error @+1 {{'dist.reduce' op runs along axis 'dp', which mesh @mesh does not have}}
  %0 = dist.reduce sum(%a) root 0 over @mesh ["dp"] : tensor<8xf32>
  return
}

// -----

dist.mesh @mesh ["tp" = 2, "cp" = 3]

func.func @root_out_of_range(%a: tensor<8xf32>) {
  // expected-error @+1 {{'dist.reduce' op expects `root` to be the index of a rank along ["tp"], 0 to 1, found 2}}
  %0 = dist.reduce sum(%a) root 2 over @mesh ["tp"] : tensor<8xf32>
  return
}

// -----

dist.mesh @mesh ["tp" = 2, "cp" = 3]

func.func @sum_of_booleans(%a: tensor<8xi1>) {
  // expected-error @+1 {{'dist.reduce' op cannot reduce values of type 'tensor<8xi1>' by 'sum', which takes numbers; booleans have 'band', 'bor' and 'bxor'}}
  %0 = dist.reduce sum(%a) root 0 over @mesh ["tp"] : tensor<8xi1>
  return
}

// -----

dist.mesh @mesh ["tp" = 2, "cp" = 3]

func.func @other_shape(%a: tensor<8xf32>) {
  // expected-error @+1 {{'dist.reduce' op expects a result of shape [8] and element type 'f32', found 'tensor<4xf32>'}}
  %0 = dist.reduce sum(%a) root 0 over @mesh ["tp"] : tensor<8xf32> -> tensor<4xf32>
  return
}

// -----

dist.mesh @mesh ["tp" = 2, "cp" = 3]
#V = #dist.on<@mesh, tp = V>
#Pmax = #dist.on<@mesh, tp = P(max)>

func.func @another_reduction(%a: tensor<8xf32, #Pmax>) {
  // expected-error @+1 {{'dist.reduce' op reduces P(max) by 'sum' along axis 'tp': a pending reduction requires its own, 'max'}}
  %0 = dist.reduce sum(%a) root 0 over @mesh ["tp"] : tensor<8xf32, #Pmax> -> tensor<8xf32, #V>
  return
}

// -----

dist.mesh @mesh ["tp" = 2, "cp" = 3]
#R = #dist.on<@mesh, tp = R>
#P = #dist.on<@mesh, tp = P>

func.func @to_replicated(%a: tensor<8xf32, #P>) {
  // expected-error @+1 {{'dist.reduce' op cannot take P to R along axis 'tp': use dist.all_reduce (dist.reduce takes P(k) to V; V to V)}}
  %0 = dist.reduce sum(%a) root 0 over @mesh ["tp"] : tensor<8xf32, #P> -> tensor<8xf32, #R>
  return
}

// -----

dist.mesh @mesh ["tp" = 2, "cp" = 3]
#I = #dist.on<@mesh, tp = I>
#V = #dist.on<@mesh, tp = V>

func.func @varying_to_invariant(%a: tensor<8xf32, #V>) {
  // expected-error @+1 {{'dist.reduce' op cannot take V to I along axis 'tp': use dist.all_reduce or dist.broadcast (dist.reduce takes P(k) to V; V to V)}}
  %0 = dist.reduce sum(%a) root 0 over @mesh ["tp"] : tensor<8xf32, #V> -> tensor<8xf32, #I>
  return
}
