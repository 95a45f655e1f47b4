// RUN: cleave-opt %s --split-input-file --verify-diagnostics

dist.mesh @mesh ["tp" = 2, "cp" = 3]

func.func @no_axis() {
  // expected-error @+1 {{'dist.axis_index' op expects at least one mesh axis}}
  %0 = dist.axis_index over @mesh [] : tensor<i64>
  return
}

// -----

dist.mesh @mesh ["tp" = 2, "cp" = 3]

func.func @axis_twice() {
  // expected-error @+1 {{'dist.axis_index' op lists mesh axis 'tp' twice}}
  %0 = dist.axis_index over @mesh ["tp", "tp"] : tensor<i64>
  return
}

// -----

dist.mesh @mesh ["tp" = 2, "cp" = 3]

func.func @no_mesh() {
  // expected-error @+1 {{'dist.axis_index' op refers to mesh @no_mesh, which the module does not define}}
  %0 = dist.axis_index over @no_mesh ["tp"] : tensor<i64>
  return
}

// -----

dist.mesh @mesh ["tp" = 2, "cp" = 3]

func.func @not_a_mesh() {
  // expected-error @+1 {{'dist.axis_index' op refers to mesh @not_a_mesh, which the module does not define}}
  %0 = dist.axis_index over @not_a_mesh ["tp"] : tensor<i64>
  return
}

// -----

// expected-note @+1 {{the mesh is defined here}}
dist.mesh @mesh ["tp" = 2, "cp" = 3]

func.func @unknown_axis() {
  // expected-error @+1 {{'dist.axis_index' op runs along axis 'dp', which mesh @mesh does not have}}
  %0 = dist.axis_index over @mesh ["dp"] : tensor<i64>
  return
}

// -----

dist.mesh @mesh ["tp" = 2, "cp" = 3]

func.func @not_a_scalar() {
  // expected-error @+1 {{'dist.axis_index' op expects a result of type tensor<i64>, found 'tensor<1xi64>'}}
  %0 = dist.axis_index over @mesh ["tp"] : tensor<1xi64>
  return
}

// -----

dist.mesh @mesh ["tp" = 2, "cp" = 3]

func.func @not_i64() {
  // expected-error @+1 {{'dist.axis_index' op expects a result of type tensor<i64>, found 'tensor<i32>'}}
  %0 = dist.axis_index over @mesh ["tp"] : tensor<i32>
  return
}

// -----

dist.mesh @mesh ["tp" = 2, "cp" = 3]
#R = #dist.on<@mesh, tp = R>

func.func @replicated() {
  // expected-error @+1 {{'dist.axis_index' op expects V along axis 'tp', found 'tensor<i64, #dist.on<@mesh, tp = R>>'}}
  %0 = dist.axis_index over @mesh ["tp"] : tensor<i64, #R>
  return
}

// -----

dist.mesh @mesh ["tp" = 2, "cp" = 3]
#V_V = #dist.on<@mesh, cp = V, tp = V>

func.func @varies_elsewhere() {
  // expected-error @+1 {{'dist.axis_index' op expects R or I along axis 'cp', along which the index is the same, found 'tensor<i64, #dist.on<@mesh, cp = V, tp = V>>'}}
  %0 = dist.axis_index over @mesh ["tp"] : tensor<i64, #V_V>
  return
}
