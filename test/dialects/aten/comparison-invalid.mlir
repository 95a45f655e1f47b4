// Comparisons, logic and selection: what their verifiers refuse.
// RUN: cleave-opt %s --split-input-file --verify-diagnostics

func.func @eq(%a: tensor<4xf32>, %b: tensor<4xf32>) {
  // expected-error @+1 {{'aten.eq' op expects a result of type 'tensor<4xi1>', found 'tensor<4xf32>'}}
  %0 = aten.eq(%a, %b) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @eq_2(%a: tensor<4xf32>, %b: tensor<5xf32>) {
  // expected-error @+1 {{'aten.eq' op expects operands whose shapes broadcast, found 'tensor<4xf32>' and 'tensor<5xf32>'}}
  %0 = aten.eq(%a, %b) : (tensor<4xf32>, tensor<5xf32>) -> tensor<4xi1>
  return
}

// -----

func.func @lt_scalar(%a: tensor<4xf32>) {
  // expected-error @+1 {{'aten.lt_scalar' op expects a result of type 'tensor<4xi1>', found 'tensor<1x4xi1>'}}
  %0 = aten.lt_scalar(%a, other = 1) : (tensor<4xf32>) -> tensor<1x4xi1>
  return
}

// -----

func.func @logical_not(%a: tensor<4xi64>) {
  // expected-error @+1 {{'aten.logical_not' op expects a result of type 'tensor<4xi1>', found 'tensor<4xi64>'}}
  %0 = aten.logical_not(%a) : (tensor<4xi64>) -> tensor<4xi64>
  return
}

// -----

func.func @bitwise_and(%a: tensor<4xf32>, %b: tensor<4xi1>) {
  // expected-error @+1 {{'aten.bitwise_and' op expects integers or bool, found 'tensor<4xf32>'}}
  %0 = aten.bitwise_and(%a, %b) : (tensor<4xf32>, tensor<4xi1>) -> tensor<4xi1>
  return
}

// -----

func.func @bitwise_or(%a: tensor<4xi1>, %b: tensor<5xi1>) {
  // expected-error @+1 {{'aten.bitwise_or' op expects operands whose shapes broadcast, found 'tensor<4xi1>' and 'tensor<5xi1>'}}
  %0 = aten.bitwise_or(%a, %b) : (tensor<4xi1>, tensor<5xi1>) -> tensor<4xi1>
  return
}

// -----

func.func @bitwise_and_2(%a: tensor<4xi32>, %b: tensor<4xi64>) {
  // expected-error @+1 {{'aten.bitwise_and' op expects a result of type 'tensor<4xi64>', found 'tensor<4xi32>'}}
  %0 = aten.bitwise_and(%a, %b) : (tensor<4xi32>, tensor<4xi64>) -> tensor<4xi32>
  return
}

// -----

func.func @bitwise_not(%a: tensor<4xf32>) {
  // expected-error @+1 {{'aten.bitwise_not' op expects integers or bool, found 'tensor<4xf32>'}}
  %0 = aten.bitwise_not(%a) : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @maximum(%a: tensor<4xf32>, %b: tensor<4xf64>) {
  // expected-error @+1 {{'aten.maximum' op expects a result of type 'tensor<4xf64>', found 'tensor<4xf32>'}}
  %0 = aten.maximum(%a, %b) : (tensor<4xf32>, tensor<4xf64>) -> tensor<4xf32>
  return
}

// -----

func.func @clamp(%a: tensor<4xi64>) {
  // expected-error @+1 {{'aten.clamp' op expects a result of type 'tensor<4xf32>', found 'tensor<4xi64>'}}
  %0 = aten.clamp(%a, min = 0.5) : (tensor<4xi64>) -> tensor<4xi64>
  return
}

// -----

func.func @clamp_min(%a: tensor<4xf32>) {
  // expected-error @+1 {{'aten.clamp_min' op requires attribute 'min'}}
  %0 = aten.clamp_min(%a) : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @where(%c: tensor<4xf32>, %a: tensor<4xf32>, %b: tensor<4xf32>) {
  // expected-error @+1 {{'aten.where' op expects `condition` of dtype i1 or ui8, found 'tensor<4xf32>'}}
  %0 = aten.where(%c, %a, %b) : (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @where_2(%c: tensor<4xi1>, %a: tensor<3xf32>, %b: tensor<f32>) {
  // expected-error @+1 {{'aten.where' op expects operands whose shapes broadcast, found 'tensor<4xi1>' and 'tensor<3xf32>' and 'tensor<f32>'}}
  %0 = aten.where(%c, %a, %b) : (tensor<4xi1>, tensor<3xf32>, tensor<f32>) -> tensor<4xf32>
  return
}

// -----

func.func @where_3(%c: tensor<4xi1>, %a: tensor<4xf32>, %b: tensor<4xi64>) {
  // expected-error @+1 {{'aten.where' op expects a result of type 'tensor<4xf32>', found 'tensor<4xi64>'}}
  %0 = aten.where(%c, %a, %b) : (tensor<4xi1>, tensor<4xf32>, tensor<4xi64>) -> tensor<4xi64>
  return
}

// -----

func.func @masked_fill_scalar(%x: tensor<4xf32>, %m: tensor<4xi64>) {
  // expected-error @+1 {{'aten.masked_fill_scalar' op expects `mask` of dtype i1, found 'tensor<4xi64>'}}
  %0 = aten.masked_fill_scalar(%x, %m, value = 0) : (tensor<4xf32>, tensor<4xi64>) -> tensor<4xf32>
  return
}

// -----

func.func @masked_fill_scalar_2(%x: tensor<4xf32>, %m: tensor<5xi1>) {
  // expected-error @+1 {{'aten.masked_fill_scalar' op expects operands whose shapes broadcast, found 'tensor<4xf32>' and 'tensor<5xi1>'}}
  %0 = aten.masked_fill_scalar(%x, %m, value = 0) : (tensor<4xf32>, tensor<5xi1>) -> tensor<4xf32>
  return
}

// -----

func.func @masked_fill_scalar_3(%x: tensor<4xi64>, %m: tensor<4xi1>) {
  // expected-error @+1 {{'aten.masked_fill_scalar' op expects a result of type 'tensor<4xi64>', found 'tensor<4xf32>'}}
  %0 = aten.masked_fill_scalar(%x, %m, value = 0.5) : (tensor<4xi64>, tensor<4xi1>) -> tensor<4xf32>
  return
}

// -----

func.func @masked_fill(%x: tensor<4xf32>, %m: tensor<4xi1>, %v: tensor<1xf32>) {
  // expected-error @+1 {{'aten.masked_fill' op expects `value` to have 0 dimensions, found 'tensor<1xf32>'}}
  %0 = aten.masked_fill(%x, %m, %v) : (tensor<4xf32>, tensor<4xi1>, tensor<1xf32>) -> tensor<4xf32>
  return
}
