// RUN: cleave-opt %s --split-input-file --verify-diagnostics

dist.mesh @mesh ["tp" = 2, "cp" = 3]

func.func @no_axis(%a: tensor<8xf32>) {
  // expected-error @+1 {{'dist.fake_reduce' op expects at least one mesh axis}}
  %0 = dist.fake_reduce(%a) over @mesh [] : tensor<8xf32>
  return
}

// -----

dist.mesh @mesh ["tp" = 2, "cp" = 3]

func.func @axis_twice(%a: tensor<8xf32>) {
  // expected-error @+1 {{'dist.fake_reduce' op lists mesh axis 'tp' twice}}
  %0 = dist.fake_reduce(%a) over @mesh ["tp", "tp"] : tensor<8xf32>
  return
}

// -----

dist.mesh @mesh ["tp" = 2, "cp" = 3]

func.func @no_mesh(%a: tensor<8xf32>) {
  // expected-error @+1 {{'dist.fake_reduce' op refers to mesh @no_mesh, which the module does not define}}
  %0 = dist.fake_reduce(%a) over @no_mesh ["tp"] : tensor<8xf32>
  return
}

// -----

dist.mesh @mesh ["tp" = 2, "cp" = 3]

func.func @not_a_mesh(%a: tensor<8xf32>) {
  // expected-error @+1 {{'dist.fake_reduce' op refers to mesh @not_a_mesh, which the module does not define}}
  %0 = dist.fake_reduce(%a) over @not_a_mesh ["tp"] : tensor<8xf32>
  return
}

// -----

// expected-note @+1 {{the mesh is defined here}}
dist.mesh @mesh ["tp" = 2, "cp" = 3]

func.func @unknown_axis(%a: tensor<8xf32>) {
  // expected-error @+1 {{'dist.fake_reduce' op runs along axis 'dp', which mesh @mesh does not have}}
  %0 = dist.fake_reduce(%a) over @mesh ["dp"] : tensor<8xf32>
  return
}

// -----

dist.mesh @mesh ["tp" = 2, "cp" = 3]

func.func @sum_of_booleans(%a: tensor<8xi1>) {
  // expected-error @+1 {{'dist.fake_reduce' op cannot reduce values of type 'tensor<8xi1>' by 'sum', which takes numbers; booleans have 'band', 'bor' and 'bxor'}}
  %0 = dist.fake_reduce(%a) over @mesh ["tp"] : tensor<8xi1>
  return
}

// -----

dist.mesh @mesh ["tp" = 2, "cp" = 3]

func.func @other_shape(%a: tensor<8xf32>) {
  // expected-error @+1 {{'dist.fake_reduce' op expects a result of shape [8] and element type 'f32', found 'tensor<4xf32>'}}
  %0 = dist.fake_reduce(%a) over @mesh ["tp"] : tensor<8xf32> -> tensor<4xf32>
  return
}

// -----

dist.mesh @mesh ["tp" = 2, "cp" = 3]
#R = #dist.on<@mesh, tp = R>
#I = #dist.on<@mesh, tp = I>

func.func @replicated(%a: tensor<8xf32, #R>) {
  // expected-error @+1 {{'dist.fake_reduce' op cannot take R to I along axis 'tp': use dist.convert (dist.fake_reduce takes V to I; P to I)}}
  %0 = dist.fake_reduce(%a) over @mesh ["tp"] : tensor<8xf32, #R> -> tensor<8xf32, #I>
  return
}

// -----

dist.mesh @mesh ["tp" = 2, "cp" = 3]
#R = #dist.on<@mesh, tp = R>
#P = #dist.on<@mesh, tp = P>

func.func @to_replicated(%a: tensor<8xf32, #P>) {
  // expected-error @+1 {{'dist.fake_reduce' op cannot take P to R along axis 'tp': use dist.all_reduce (dist.fake_reduce takes V to I; P to I)}}
  %0 = dist.fake_reduce(%a) over @mesh ["tp"] : tensor<8xf32, #P> -> tensor<8xf32, #R>
  return
}

// -----

dist.mesh @mesh ["tp" = 2, "cp" = 3]
#I = #dist.on<@mesh, tp = I>
#Pmax = #dist.on<@mesh, tp = P(max)>

func.func @pending_max(%a: tensor<8xf32, #Pmax>) {
  // expected-error @+1 {{'dist.fake_reduce' op cannot take P(max) to I along axis 'tp': use dist.all_reduce (dist.fake_reduce takes V to I; P to I)}}
  %0 = dist.fake_reduce(%a) over @mesh ["tp"] : tensor<8xf32, #Pmax> -> tensor<8xf32, #I>
  return
}
