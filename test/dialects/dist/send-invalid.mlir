// RUN: cleave-opt %s --split-input-file --verify-diagnostics

dist.mesh @mesh ["tp" = 2, "cp" = 3]

func.func @no_axis(%a: tensor<8xf32>) {
  // expected-error @+1 {{'dist.send' op expects at least one mesh axis}}
  dist.send(%a) from 0 to 1 tag 0 over @mesh [] : tensor<8xf32>
  return
}

// -----

dist.mesh @mesh ["tp" = 2, "cp" = 3]

func.func @axis_twice(%a: tensor<8xf32>) {
  // expected-error @+1 {{'dist.send' op lists mesh axis 'tp' twice}}
  dist.send(%a) from 0 to 1 tag 0 over @mesh ["tp", "tp"] : tensor<8xf32>
  return
}

// -----

dist.mesh @mesh ["tp" = 2, "cp" = 3]

func.func @no_mesh(%a: tensor<8xf32>) {
  // expected-error @+1 {{'dist.send' op refers to mesh @no_mesh, which the module does not define}}
  dist.send(%a) from 0 to 1 tag 0 over @no_mesh ["tp"] : tensor<8xf32>
  return
}

// -----

dist.mesh @mesh ["tp" = 2, "cp" = 3]

func.func @not_a_mesh(%a: tensor<8xf32>) {
  // expected-error @+1 {{'dist.send' op refers to mesh @not_a_mesh, which the module does not define}}
  dist.send(%a) from 0 to 1 tag 0 over @not_a_mesh ["tp"] : tensor<8xf32>
  return
}

// -----

// expected-note @+1 {{the mesh is defined here}}
dist.mesh @mesh ["tp" = 2, "cp" = 3]

func.func @unknown_axis(%a: tensor<8xf32>) {
  // expected-error @+1 {{'dist.send' op runs along axis 'dp', which mesh @mesh does not have}}
  dist.send(%a) from 0 to 1 tag 0 over @mesh ["dp"] : tensor<8xf32>
  return
}

// -----

dist.mesh @mesh ["tp" = 2, "cp" = 3]

func.func @to_itself(%a: tensor<8xf32>) {
  // expected-error @+1 {{'dist.send' op expects two different ranks, found 1 twice}}
  dist.send(%a) from 1 to 1 tag 0 over @mesh ["tp"] : tensor<8xf32>
  return
}

// -----

dist.mesh @mesh ["tp" = 2, "cp" = 3]

func.func @from_out_of_range(%a: tensor<8xf32>) {
  // expected-error @+1 {{'dist.send' op expects `from` to be the index of a rank along ["tp"], 0 to 1, found 2}}
  dist.send(%a) from 2 to 1 tag 0 over @mesh ["tp"] : tensor<8xf32>
  return
}

// -----

dist.mesh @mesh ["tp" = 2, "cp" = 3]

func.func @to_out_of_range(%a: tensor<8xf32>) {
  // expected-error @+1 {{'dist.send' op expects `to` to be the index of a rank along ["tp"], 0 to 1, found 2}}
  dist.send(%a) from 0 to 2 tag 0 over @mesh ["tp"] : tensor<8xf32>
  return
}

// -----

dist.mesh @mesh ["tp" = 2, "cp" = 3]

func.func @negative_tag(%a: tensor<8xf32>) {
  // expected-error @+1 {{'dist.send' op expects a non-negative tag, found -1}}
  dist.send(%a) from 0 to 1 tag -1 over @mesh ["tp"] : tensor<8xf32>
  return
}

// -----

dist.mesh @mesh ["tp" = 2, "cp" = 3]
#R = #dist.on<@mesh, tp = R>

func.func @replicated(%a: tensor<8xf32, #R>) {
  // expected-error @+1 {{'dist.send' op expects V along axis 'tp', found 'tensor<8xf32, #dist.on<@mesh, tp = R>>'}}
  dist.send(%a) from 0 to 1 tag 0 over @mesh ["tp"] : tensor<8xf32, #R>
  return
}

// -----

dist.mesh @mesh ["tp" = 2, "cp" = 3]

func.func @future_of_value(%a: tensor<8xf32>) {
  // expected-error @+1 {{'dist.send' op result #0 must be future of none, but got '!dist.future<tensor<8xf32>>'}}
  %0 = dist.send(%a) from 0 to 1 tag 0 over @mesh ["tp"] : tensor<8xf32> -> !dist.future<tensor<8xf32>>
  return
}
