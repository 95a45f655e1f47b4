// RUN: cleave-opt %s --split-input-file --verify-diagnostics

dist.mesh @mesh ["dp" = 2]

func.func @no_axis(%x: tensor<8xf32>) {
  // expected-error @+1 {{'dist.all_reduce' op expects at least one mesh axis}}
  %0 = dist.all_reduce sum(%x) over @mesh [] : tensor<8xf32>
  return
}

// -----

dist.mesh @mesh ["dp" = 2]

func.func @axis_twice(%x: tensor<8xf32>) {
  // expected-error @+1 {{'dist.all_reduce' op names mesh axis 'dp' twice}}
  %0 = dist.all_reduce sum(%x) over @mesh ["dp", "dp"] : tensor<8xf32>
  return
}

// -----

dist.mesh @mesh ["dp" = 2]

func.func @sum_of_booleans(%x: tensor<8xi1>) {
  // expected-error @+1 {{'dist.all_reduce' op cannot reduce values of type 'tensor<8xi1>' by 'sum', which takes numbers; booleans have 'band', 'bor' and 'bxor'}}
  %0 = dist.all_reduce sum(%x) over @mesh ["dp"] : tensor<8xi1>
  return
}

// -----

func.func @no_mesh(%x: tensor<8xf32>) {
  // expected-error @+1 {{'dist.all_reduce' op refers to mesh @mesh, which the module does not define}}
  %0 = dist.all_reduce sum(%x) over @mesh ["dp"] : tensor<8xf32>
  return
}

// -----

func.func @not_a_mesh(%x: tensor<8xf32>) {
  // expected-error @+1 {{'dist.all_reduce' op refers to mesh @not_a_mesh, which the module does not define}}
  %0 = dist.all_reduce sum(%x) over @not_a_mesh ["dp"] : tensor<8xf32>
  return
}

// -----

// expected-note @+1 {{the mesh is defined here}}
dist.mesh @mesh ["dp" = 2]

func.func @unknown_axis(%x: tensor<8xf32>) {
  // expected-error @+1 {{'dist.all_reduce' op runs along axis 'tp', which mesh @mesh does not have}}
  %0 = dist.all_reduce sum(%x) over @mesh ["tp"] : tensor<8xf32>
  return
}

// -----

dist.mesh @mesh ["dp" = 2]

func.func @unknown_reduction(%x: tensor<8xf32>) {
  // expected-error @+1 {{expected a reduction (sum, avg, premul_sum, max, min, product, band, bor, bxor), found 'median'}}
  %0 = dist.all_reduce median(%x) over @mesh ["dp"] : tensor<8xf32>
  return
}

// -----

dist.mesh @mesh ["dp" = 2]

func.func @dynamic_shape(%x: tensor<?xf32>) {
  // expected-error @+1 {{operand #0 must be variadic of statically shaped tensor}}
  %0 = dist.all_reduce sum(%x) over @mesh ["dp"] : tensor<?xf32>
  return
}
