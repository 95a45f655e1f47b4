// RUN: cleave-opt %s --split-input-file --verify-diagnostics

dist.mesh @mesh ["ep" = 2]

func.func @no_axis(%a: tensor<8x4xf32>, %n: tensor<2xi64>) {
  // expected-error @+1 {{'dist.ragged_all_to_all' op expects at least one mesh axis}}
  %0 = dist.ragged_all_to_all(%a, %n, %n) over @mesh [] : (tensor<8x4xf32>, tensor<2xi64>, tensor<2xi64>) -> tensor<8x4xf32>
  return
}

// -----

func.func @no_mesh(%a: tensor<8x4xf32>, %n: tensor<2xi64>) {
  // expected-error @+1 {{'dist.ragged_all_to_all' op refers to mesh @mesh, which the module does not define}}
  %0 = dist.ragged_all_to_all(%a, %n, %n) over @mesh ["ep"] : (tensor<8x4xf32>, tensor<2xi64>, tensor<2xi64>) -> tensor<8x4xf32>
  return
}

// -----

dist.mesh @mesh ["ep" = 2]

func.func @no_rows(%a: tensor<f32>, %n: tensor<2xi64>) {
  // expected-error @+1 {{'dist.ragged_all_to_all' op expects an operand with rows, found 'tensor<f32>'}}
  %0 = dist.ragged_all_to_all(%a, %n, %n) over @mesh ["ep"] : (tensor<f32>, tensor<2xi64>, tensor<2xi64>) -> tensor<f32>
  return
}

// -----

dist.mesh @mesh ["ep" = 2]

func.func @other_rows(%a: tensor<8x4xf32>, %n: tensor<2xi64>) {
  // expected-error @+1 {{'dist.ragged_all_to_all' op expects a result of the operand's type but for the number of rows, found 'tensor<8x4xf32>' and 'tensor<8x2xf32>'}}
  %0 = dist.ragged_all_to_all(%a, %n, %n) over @mesh ["ep"] : (tensor<8x4xf32>, tensor<2xi64>, tensor<2xi64>) -> tensor<8x2xf32>
  return
}

// -----

dist.mesh @mesh ["ep" = 2]

func.func @other_type(%a: tensor<8x4xf32>, %n: tensor<2xi64>) {
  // expected-error @+1 {{'dist.ragged_all_to_all' op expects a result of the operand's type but for the number of rows, found 'tensor<8x4xf32>' and 'tensor<8x4xf64>'}}
  %0 = dist.ragged_all_to_all(%a, %n, %n) over @mesh ["ep"] : (tensor<8x4xf32>, tensor<2xi64>, tensor<2xi64>) -> tensor<8x4xf64>
  return
}

// -----

dist.mesh @mesh ["ep" = 2]

func.func @numbers_of_other_type(%a: tensor<8x4xf32>, %n: tensor<2xi32>, %r: tensor<2xi64>) {
  // expected-error @+1 {{'dist.ragged_all_to_all' op expects `sends` to have one dimension and dtype i64, found 'tensor<2xi32>'}}
  %0 = dist.ragged_all_to_all(%a, %n, %r) over @mesh ["ep"] : (tensor<8x4xf32>, tensor<2xi32>, tensor<2xi64>) -> tensor<8x4xf32>
  return
}

// -----

dist.mesh @mesh ["ep" = 2]

func.func @too_many_numbers(%a: tensor<8x4xf32>, %n: tensor<2xi64>, %r: tensor<3xi64>) {
  // expected-error @+1 {{'dist.ragged_all_to_all' op expects `receives` to have an element for each of 2 ranks, found 3}}
  %0 = dist.ragged_all_to_all(%a, %n, %r) over @mesh ["ep"] : (tensor<8x4xf32>, tensor<2xi64>, tensor<3xi64>) -> tensor<8x4xf32>
  return
}

// -----

dist.mesh @mesh ["ep" = 2]
#V = #dist.on<@mesh, ep = V>
#R = #dist.on<@mesh, ep = R>

func.func @replicated(%a: tensor<8x4xf32, #R>, %n: tensor<2xi64, #V>) {
  // expected-error @+1 {{'dist.ragged_all_to_all' op expects V along axis 'ep', found 'tensor<8x4xf32, #dist.on<@mesh, ep = R>>'}}
  %0 = dist.ragged_all_to_all(%a, %n, %n) over @mesh ["ep"] : (tensor<8x4xf32, #R>, tensor<2xi64, #V>, tensor<2xi64, #V>) -> tensor<8x4xf32, #V>
  return
}

// -----

dist.mesh @mesh ["ep" = 2]
#V = #dist.on<@mesh, ep = V>

func.func @untyped_numbers(%a: tensor<8x4xf32, #V>, %n: tensor<2xi64>) {
  // expected-error @+1 {{'dist.ragged_all_to_all' op expects placements on all operands or on none, found 'tensor<8x4xf32, #dist.on<@mesh, ep = V>>' and 'tensor<2xi64>'}}
  %0 = dist.ragged_all_to_all(%a, %n, %n) over @mesh ["ep"] : (tensor<8x4xf32, #V>, tensor<2xi64>, tensor<2xi64>) -> tensor<8x4xf32, #V>
  return
}

// -----

dist.mesh @mesh ["ep" = 2, "tp" = 2]
#VR = #dist.on<@mesh, ep = V, tp = R>
#VV = #dist.on<@mesh, ep = V, tp = V>

func.func @another_axis_changes(%a: tensor<8x4xf32, #VR>, %n: tensor<2xi64, #VR>) {
  // expected-error @+1 {{'dist.ragged_all_to_all' op does not run along axis 'tp', which must stay R, found V}}
  %0 = dist.ragged_all_to_all(%a, %n, %n) over @mesh ["ep"] : (tensor<8x4xf32, #VR>, tensor<2xi64, #VR>, tensor<2xi64, #VR>) -> tensor<8x4xf32, #VV>
  return
}

// -----

dist.mesh @mesh ["ep" = 2, "tp" = 2]
#VR = #dist.on<@mesh, ep = V, tp = R>
#VV = #dist.on<@mesh, ep = V, tp = V>

func.func @numbers_differ(%a: tensor<8x4xf32, #VR>, %n: tensor<2xi64, #VV>) {
  // expected-error @+1 {{'dist.ragged_all_to_all' op expects `sends` to be the same on all ranks along axis 'tp', found 'tensor<2xi64, #dist.on<@mesh, ep = V, tp = V>>'}}
  %0 = dist.ragged_all_to_all(%a, %n, %n) over @mesh ["ep"] : (tensor<8x4xf32, #VR>, tensor<2xi64, #VV>, tensor<2xi64, #VV>) -> tensor<8x4xf32, #VR>
  return
}

// -----

dist.mesh @mesh ["ep" = 2, "tp" = 2]
#VS0 = #dist.on<@mesh, ep = V, tp = S(0)>
#VR = #dist.on<@mesh, ep = V, tp = R>

func.func @rows_of_another_axis(%a: tensor<8x4xf32, #VS0>, %n: tensor<2xi64, #VR>) {
  // expected-error @+1 {{'dist.ragged_all_to_all' op expects whole rows along axis 'tp', found 'tensor<8x4xf32, #dist.on<@mesh, ep = V, tp = S(0)>>'}}
  %0 = dist.ragged_all_to_all(%a, %n, %n) over @mesh ["ep"] : (tensor<8x4xf32, #VS0>, tensor<2xi64, #VR>, tensor<2xi64, #VR>) -> tensor<8x4xf32, #VS0>
  return
}
