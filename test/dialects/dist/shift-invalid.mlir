// RUN: cleave-opt %s --split-input-file --verify-diagnostics

dist.mesh @mesh ["tp" = 2, "cp" = 3]

func.func @no_axis(%a: tensor<8xf32>) {
  // expected-error @+1 {{'dist.shift' op expects at least one mesh axis}}
  %0 = dist.shift(%a) by 1 over @mesh [] : tensor<8xf32>
  return
}

// -----

dist.mesh @mesh ["tp" = 2, "cp" = 3]

func.func @axis_twice(%a: tensor<8xf32>) {
  // expected-error @+1 {{'dist.shift' op lists mesh axis 'tp' twice}}
  %0 = dist.shift(%a) by 1 over @mesh ["tp", "tp"] : tensor<8xf32>
  return
}

// -----

dist.mesh @mesh ["tp" = 2, "cp" = 3]

func.func @no_mesh(%a: tensor<8xf32>) {
  // expected-error @+1 {{'dist.shift' op refers to mesh @no_mesh, which the module does not define}}
  %0 = dist.shift(%a) by 1 over @no_mesh ["tp"] : tensor<8xf32>
  return
}

// -----

dist.mesh @mesh ["tp" = 2, "cp" = 3]

func.func @not_a_mesh(%a: tensor<8xf32>) {
  // expected-error @+1 {{'dist.shift' op refers to mesh @not_a_mesh, which the module does not define}}
  %0 = dist.shift(%a) by 1 over @not_a_mesh ["tp"] : tensor<8xf32>
  return
}

// -----

// expected-note @+1 {{the mesh is defined here}}
dist.mesh @mesh ["tp" = 2, "cp" = 3]

func.func @unknown_axis(%a: tensor<8xf32>) {
  // expected-error @+1 {{'dist.shift' op runs along axis 'dp', which mesh @mesh does not have}}
  %0 = dist.shift(%a) by 1 over @mesh ["dp"] : tensor<8xf32>
  return
}

// -----

dist.mesh @mesh ["tp" = 2, "cp" = 3]

func.func @other_shape(%a: tensor<8xf32>) {
  // expected-error @+1 {{'dist.shift' op expects a result of shape [8] and element type 'f32', found 'tensor<4xf32>'}}
  %0 = dist.shift(%a) by 1 over @mesh ["tp"] : tensor<8xf32> -> tensor<4xf32>
  return
}

// -----

dist.mesh @mesh ["tp" = 2, "cp" = 3]
#P = #dist.on<@mesh, tp = P>

func.func @partial(%a: tensor<8xf32, #P>) {
  // expected-error @+1 {{'dist.shift' op cannot take P to P along axis 'tp' (dist.shift takes V to V)}}
  %0 = dist.shift(%a) by 1 over @mesh ["tp"] : tensor<8xf32, #P>
  return
}
