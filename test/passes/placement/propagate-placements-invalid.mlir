// What cannot be placed, and where it was said.
// RUN: cleave-opt %s --split-input-file --propagate-placements --verify-diagnostics

// expected-error @+1 {{has no dist.mesh to place its tensors on; add one, or use the option mesh, such as mesh="dp=2,tp=2"}}
module {
  func.func @f(%x: tensor<4xf32>) -> tensor<4xf32> {
    return %x : tensor<4xf32>
  }
}

// -----

// expected-note @+1 {{the first one is here}}
dist.mesh @a ["x" = 2]
// expected-error @+1 {{expected one mesh, found a second one: tensors are placed on one mesh}}
dist.mesh @b ["x" = 2]

// -----

// expected-error @+1 {{has axis "x" of size ?; placements need the number of ranks along it: write its size}}
dist.mesh @mesh ["x" = ?]

// -----

// expected-note @+1 {{the mesh is here}}
dist.mesh @mesh ["x" = 4, "y" = 2]
func.func @uneven(
    // expected-error @+1 {{the placement of argument 0 of 'uneven' shards dimension 0 of 'tensor<6x8xf32>', of size 6, over the 4 ranks of "x", which do not divide it: all shards must have the same size}}
    %x: tensor<6x8xf32> {dist.placement = #dist.on<@mesh, x = S(0)>},
    // expected-error @+1 {{of size 12, over the 8 ranks of "x" and "y", which do not divide it}}
    %y: tensor<12xf32> {dist.placement = #dist.on<@mesh, x = S(0, 0), y = S(0, 1)>}) {
  return
}

// -----

dist.mesh @mesh ["x" = 2]
func.func @names(
    // expected-error @+1 {{the placement of argument 0 of 'names' refers to mesh @other, expected @mesh}}
    %a: tensor<4xf32> {dist.placement = #dist.on<@other, x = S(0)>},
    // expected-error @+1 {{refers to axis "z", which mesh @mesh does not have}}
    %b: tensor<4xf32> {dist.placement = #dist.on<@mesh, z = S(0)>},
    // expected-error @+1 {{says I on axis "x"; a program for a single device supports R, P and S(dimension)}}
    %c: tensor<4xf32> {dist.placement = #dist.on<@mesh, x = I>},
    // expected-error @+1 {{shards dimension 1 of 'tensor<4xf32>', which has 1 dimensions}}
    %d: tensor<4xf32> {dist.placement = #dist.on<@mesh, x = S(1)>}) {
  // expected-error @+1 {{the placement of result 0 says V on axis "x"}}
  %0 = aten.relu(%a) {dist.results = [#dist.on<@mesh, x = V>]} : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

// Rows of one operand and columns of the other are no way to multiply.
dist.mesh @mesh ["x" = 2]
func.func @mm(%a: tensor<4x4xf32>, %b: tensor<4x4xf32>) {
  // expected-error @+1 {{cannot run along axis "x" as it is annotated (S(0), S(1) -> open); over 2 ranks its strategies are: R, R -> R; S(0), R -> S(0); S(1), S(0) -> P; R, S(1) -> S(1); P, R -> P; R, P -> P}}
  %0 = aten.mm(%a, %b) {dist.operands = [#dist.on<@mesh, x = S(0)>, #dist.on<@mesh, x = S(1)>]} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  return
}

// -----

// A parameter has one placement in all functions.
dist.mesh @mesh ["x" = 2]
func.func @microbatch(
    // expected-note @+1 {{the other annotation is here}}
    %w: tensor<4x4xf32> {train.role = #train.role<parameter "w">, dist.placement = #dist.on<@mesh, x = S(0)>},
    %x: tensor<4x4xf32> {train.role = #train.role<input "x">},
    %s: tensor<f32> {train.role = #train.role<seed>})
    -> (tensor<f32> {train.role = #train.role<loss>}, tensor<4x4xf32> {train.role = #train.role<gradient "w">})
    attributes {train.phase = #train.phase<microbatch>} {
  %l = aten.sum(%w) : (tensor<4x4xf32>) -> tensor<f32>
  %g = aten.expand(%s, size = [4, 4]) : (tensor<f32>) -> tensor<4x4xf32>
  return %l, %g : tensor<f32>, tensor<4x4xf32>
}
func.func @update(
    // expected-error @+1 {{is annotated S(1) on axis "x", but #train.role<parameter "w"> of 'microbatch' is annotated S(0)}}
    %w: tensor<4x4xf32> {train.role = #train.role<parameter "w">, dist.placement = #dist.on<@mesh, x = S(1)>},
    %g: tensor<4x4xf32> {train.role = #train.role<gradient "w">})
    -> (tensor<4x4xf32> {train.role = #train.role<parameter "w">})
    attributes {train.phase = #train.phase<update>} {
  %0 = aten.add(%w, %g) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  return %0 : tensor<4x4xf32>
}

// -----

// The gradient of what is whole is a sum or whole.
dist.mesh @mesh ["x" = 2]
func.func @microbatch(
    // expected-note @+1 {{the other annotation is here}}
    %w: tensor<4x4xf32> {train.role = #train.role<parameter "w">, dist.placement = #dist.on<@mesh, x = R>},
    %s: tensor<f32> {train.role = #train.role<seed>})
    -> (tensor<f32> {train.role = #train.role<loss>},
        tensor<4x4xf32> {train.role = #train.role<gradient "w">, dist.placement = #dist.on<@mesh, x = S(0)>})
    attributes {train.phase = #train.phase<microbatch>} {
  %l = aten.sum(%w) : (tensor<4x4xf32>) -> tensor<f32>
  %g = aten.expand(%s, size = [4, 4]) : (tensor<f32>) -> tensor<4x4xf32>
  // expected-error @+1 {{is annotated S(0) on axis "x", but #train.role<parameter "w"> of 'microbatch' is annotated R: the gradient of S(d) is S(d), that of R is P or R}}
  return %l, %g : tensor<f32>, tensor<4x4xf32>
}

// -----

dist.mesh @mesh ["x" = 2]
func.func @communicates(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error @+1 {{communicates; placements are propagated in programs for a single device, as exported}}
  %0 = dist.all_reduce sum(%x) over @mesh ["x"] : tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

dist.mesh @mesh ["x" = 2]
// expected-error @+1 {{what one rank holds; a program whose placements are propagated declares them in attributes (dist.placement)}}
func.func @typed(%x: tensor<4xf32, #dist.on<@mesh, x = R>>) {
  return
}

// -----

// No rule: replicated, and said so.
dist.mesh @mesh ["x" = 2]
func.func @opaque(%x: tensor<4xf32> {dist.placement = #dist.on<@mesh, x = S(0)>}) -> tensor<4xf32> {
  // expected-remark @+1 {{'aten::roll' runs replicated on all ranks, because Cleave knows only its schema; for 'self' each rank sends 8 bytes (all_gather over x)}}
  %0 = aten.call "aten::roll"(self = %x, shifts = [1], dims = [0]) : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

// No part of a tensor's memory holds what a part of this needs.
dist.mesh @mesh ["x" = 2]
func.func @strided(%x: tensor<4xf32> {dist.placement = #dist.on<@mesh, x = S(0)>}) -> tensor<2xf32> {
  // expected-remark @+1 {{'aten::as_strided' runs replicated on all ranks, because it picks elements by their place in the memory of the whole tensor; for 'self' each rank sends 8 bytes (all_gather over x)}}
  %0 = aten.call "aten::as_strided"(self = %x, size = [2], stride = [3]) : (tensor<4xf32>) -> tensor<2xf32>
  return %0 : tensor<2xf32>
}
