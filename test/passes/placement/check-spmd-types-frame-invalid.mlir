// RUN: cleave-opt %s --check-spmd-types --split-input-file --verify-diagnostics

// All tensors of a typed function are placed on one mesh and set of axes.

dist.mesh @mesh ["tp" = 2]

func.func @argument_without_placement(
    // expected-note@below {{another tensor is argument 0: 'tensor<4xf32, #dist.on<@mesh, tp = R>>'}}
    %x: tensor<4xf32, #dist.on<@mesh, tp = R>>,
    // expected-error@below {{argument 1 of 'argument_without_placement' expects a placement, as other tensors of the function have, found 'tensor<4xf32>'}}
    %y: tensor<4xf32>) {
  // No second error where it is used.
  %0 = aten.relu(%y) : (tensor<4xf32>) -> tensor<4xf32, #dist.on<@mesh, tp = R>>
  return
}

// expected-note@below {{another tensor is argument 0}}
func.func @result_without_placement(%x: tensor<4xf32, #dist.on<@mesh, tp = R>>) {
  // expected-error@below {{'aten.relu' op expects a placement, as other tensors of the function have, found 'tensor<4xf32>'}}
  %0 = aten.relu(%x) : (tensor<4xf32, #dist.on<@mesh, tp = R>>) -> tensor<4xf32>
  return
}

func.func @untyped(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = aten.relu(%x) : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

dist.mesh @mesh ["dp" = 2, "tp" = 2]

// expected-error@below {{'axis_is_missing' expects placements on axis "dp" of mesh @mesh too, since several ranks may lie along it}}
func.func @axis_is_missing(
    // expected-note@below {{a tensor without one is argument 0}}
    %x: tensor<4xf32, #dist.on<@mesh, tp = R>>) {
  return
}

func.func @other_axes(
    // expected-note@below {{another tensor is argument 0}}
    %x: tensor<4xf32, #dist.on<@mesh, dp = S(0), tp = R>>,
    // expected-error@below {{argument 1 of 'other_axes' expects a placement on the mesh and axes of the function's other tensors, found 'tensor<4xf32, #dist.on<@mesh, tp = R>>'}}
    %y: tensor<4xf32, #dist.on<@mesh, tp = R>>) {
  return
}

// -----

// An axis of size 1 needs no mention, one that is left open does.
// expected-note@below {{the mesh is here}}
dist.mesh @mesh ["dp" = ?, "tp" = 2, "pp" = 1]

func.func @axis_of_size_one(%x: tensor<4xf32, #dist.on<@mesh, dp = R, tp = R>>) {
  return
}

// expected-error@below {{'open_axis' expects placements on axis "dp" of mesh @mesh too}}
func.func @open_axis(
    // expected-note@below {{a tensor without one is argument 0}}
    %x: tensor<4xf32, #dist.on<@mesh, tp = R>>) {
  return
}

// expected-error@below {{'unknown_axis' places tensors on axis "ep", which mesh @mesh does not have}}
func.func @unknown_axis(
    // expected-note@below {{a tensor on it is argument 0}}
    %x: tensor<4xf32, #dist.on<@mesh, dp = R, ep = R, tp = R>>) {
  return
}

// -----

// expected-error@below {{'no_mesh' expects a dist.mesh @mesh, on which its tensors are placed}}
func.func @no_mesh(
    // expected-note@below {{a tensor on it is argument 0}}
    %x: tensor<4xf32, #dist.on<@mesh, tp = R>>) {
  return
}
