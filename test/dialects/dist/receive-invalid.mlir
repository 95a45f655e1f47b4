// RUN: cleave-opt %s --split-input-file --verify-diagnostics

dist.mesh @mesh ["tp" = 2, "cp" = 3]

func.func @no_axis() {
  // expected-error @+1 {{'dist.receive' op expects at least one mesh axis}}
  %0 = dist.receive from 0 to 1 tag 0 over @mesh [] : tensor<8xf32>
  return
}

// -----

dist.mesh @mesh ["tp" = 2, "cp" = 3]

func.func @axis_twice() {
  // expected-error @+1 {{'dist.receive' op lists mesh axis 'tp' twice}}
  %0 = dist.receive from 0 to 1 tag 0 over @mesh ["tp", "tp"] : tensor<8xf32>
  return
}

// -----

dist.mesh @mesh ["tp" = 2, "cp" = 3]

func.func @no_mesh() {
  // expected-error @+1 {{'dist.receive' op refers to mesh @no_mesh, which the module does not define}}
  %0 = dist.receive from 0 to 1 tag 0 over @no_mesh ["tp"] : tensor<8xf32>
  return
}

// -----

dist.mesh @mesh ["tp" = 2, "cp" = 3]

func.func @not_a_mesh() {
  // expected-error @+1 {{'dist.receive' op refers to mesh @not_a_mesh, which the module does not define}}
  %0 = dist.receive from 0 to 1 tag 0 over @not_a_mesh ["tp"] : tensor<8xf32>
  return
}

// -----

// expected-note @+1 {{the mesh is defined here}}
dist.mesh @mesh ["tp" = 2, "cp" = 3]

func.func @unknown_axis() {
  // expected-error @+1 {{'dist.receive' op runs along axis 'dp', which mesh @mesh does not have}}
  %0 = dist.receive from 0 to 1 tag 0 over @mesh ["dp"] : tensor<8xf32>
  return
}

// -----

dist.mesh @mesh ["tp" = 2, "cp" = 3]

func.func @from_itself() {
  // expected-error @+1 {{'dist.receive' op expects two different ranks, found 0 twice}}
  %0 = dist.receive from 0 to 0 tag 0 over @mesh ["tp"] : tensor<8xf32>
  return
}

// -----

dist.mesh @mesh ["tp" = 2, "cp" = 3]

func.func @from_out_of_range() {
  // expected-error @+1 {{'dist.receive' op expects `from` to be the index of a rank along ["tp"], 0 to 1, found -1}}
  %0 = dist.receive from -1 to 1 tag 0 over @mesh ["tp"] : tensor<8xf32>
  return
}

// -----

dist.mesh @mesh ["tp" = 2, "cp" = 3]

func.func @to_out_of_range() {
  // expected-error @+1 {{'dist.receive' op expects `to` to be the index of a rank along ["cp", "tp"], 0 to 5, found 6}}
  %0 = dist.receive from 0 to 6 tag 0 over @mesh ["cp", "tp"] : tensor<8xf32>
  return
}

// -----

dist.mesh @mesh ["tp" = 2, "cp" = 3]

func.func @negative_tag() {
  // expected-error @+1 {{'dist.receive' op expects a non-negative tag, found -7}}
  %0 = dist.receive from 0 to 1 tag -7 over @mesh ["tp"] : tensor<8xf32>
  return
}

// -----

dist.mesh @mesh ["tp" = 2, "cp" = 3]
#R = #dist.on<@mesh, tp = R>

func.func @replicated() {
  // expected-error @+1 {{'dist.receive' op expects V along axis 'tp', found 'tensor<8xf32, #dist.on<@mesh, tp = R>>'}}
  %0 = dist.receive from 0 to 1 tag 0 over @mesh ["tp"] : tensor<8xf32, #R>
  return
}

// -----

dist.mesh @mesh ["tp" = 2, "cp" = 3]

func.func @completion() {
  // expected-error @+1 {{'dist.receive' op result #0 must be statically shaped tensor of numbers or booleans, or a future of one, but got '!dist.future<none>'}}
  %0 = dist.receive from 0 to 1 tag 0 over @mesh ["tp"] : !dist.future<none>
  return
}
