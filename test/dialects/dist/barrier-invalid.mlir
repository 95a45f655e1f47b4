// RUN: cleave-opt %s --split-input-file --verify-diagnostics

dist.mesh @mesh ["tp" = 2, "cp" = 3]

func.func @no_axis() {
  // expected-error @+1 {{'dist.barrier' op expects at least one mesh axis}}
  dist.barrier over @mesh []
  return
}

// -----

dist.mesh @mesh ["tp" = 2, "cp" = 3]

func.func @axis_twice() {
  // expected-error @+1 {{'dist.barrier' op lists mesh axis 'tp' twice}}
  dist.barrier over @mesh ["tp", "tp"]
  return
}

// -----

dist.mesh @mesh ["tp" = 2, "cp" = 3]

func.func @no_mesh() {
  // expected-error @+1 {{'dist.barrier' op refers to mesh @no_mesh, which the module does not define}}
  dist.barrier over @no_mesh ["tp"]
  return
}

// -----

// expected-note @+1 {{the mesh is defined here}}
dist.mesh @mesh ["tp" = 2, "cp" = 3]

func.func @unknown_axis() {
  // expected-error @+1 {{'dist.barrier' op runs along axis 'dp', which mesh @mesh does not have}}
  dist.barrier over @mesh ["dp"]
  return
}

// -----

dist.mesh @mesh ["tp" = 2, "cp" = 3]

func.func @future_of_value() {
  // expected-error @+1 {{'dist.barrier' op result #0 must be future of none, but got '!dist.future<tensor<8xf32>>'}}
  %0 = dist.barrier over @mesh ["tp"] -> !dist.future<tensor<8xf32>>
  return
}
