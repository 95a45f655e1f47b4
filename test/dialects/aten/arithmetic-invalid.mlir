// Sums, products, powers: what their verifiers refuse.
// RUN: cleave-opt %s --split-input-file --verify-diagnostics

func.func @add(%a: tensor<4x8xf32>, %b: tensor<4xf32>) {
  // expected-error @+1 {{'aten.add' op expects operands whose shapes broadcast, found 'tensor<4x8xf32>' and 'tensor<4xf32>'}}
  %0 = aten.add(%a, %b) : (tensor<4x8xf32>, tensor<4xf32>) -> tensor<4x8xf32>
  return
}

// -----

func.func @add_2(%a: tensor<4x8xf32>, %b: tensor<8xf32>) {
  // expected-error @+1 {{'aten.add' op expects a result of type 'tensor<4x8xf32>', found 'tensor<8xf32>'}}
  %0 = aten.add(%a, %b) : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<8xf32>
  return
}

// -----

func.func @add_3(%a: tensor<4xf32>, %b: tensor<f64>) {
  // expected-error @+1 {{'aten.add' op expects a result of type 'tensor<4xf32>', found 'tensor<4xf64>'}}
  %0 = aten.add(%a, %b) : (tensor<4xf32>, tensor<f64>) -> tensor<4xf64>
  return
}

// -----

func.func @add_4(%a: tensor<4xf32>, %b: tensor<1xf64>) {
  // expected-error @+1 {{'aten.add' op expects a result of type 'tensor<4xf64>', found 'tensor<4xf32>'}}
  %0 = aten.add(%a, %b) : (tensor<4xf32>, tensor<1xf64>) -> tensor<4xf32>
  return
}

// -----

func.func @add_5(%a: tensor<4xf16>, %b: tensor<4xbf16>) {
  // expected-error @+1 {{'aten.add' op expects a result of type 'tensor<4xf32>', found 'tensor<4xf16>'}}
  %0 = aten.add(%a, %b) : (tensor<4xf16>, tensor<4xbf16>) -> tensor<4xf16>
  return
}

// -----

func.func @add_6(%a: tensor<4xf32>, %b: tensor<4xf32>) {
  // expected-error @+1 {{custom op 'aten.add' attribute 'alpha' failed to satisfy constraint: int, float, bool or complex number}}
  %0 = aten.add(%a, %b, alpha = "one") : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @add_scalar(%a: tensor<4xi64>) {
  // expected-error @+1 {{'aten.add_scalar' op expects a result of type 'tensor<4xf32>', found 'tensor<4xi64>'}}
  %0 = aten.add_scalar(%a, other = 0.5) : (tensor<4xi64>) -> tensor<4xi64>
  return
}

// -----

func.func @add_scalar_2(%a: tensor<4xf32>) {
  // expected-error @+1 {{'aten.add_scalar' op requires attribute 'other'}}
  %0 = aten.add_scalar(%a) : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @mul_scalar(%a: tensor<4xf32>) {
  // expected-error @+1 {{custom op 'aten.mul_scalar' attribute 'other' failed to satisfy constraint: int, float, bool or complex number}}
  %0 = aten.mul_scalar(%a, other = 2 : i32) : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @div(%a: tensor<4xi64>, %b: tensor<4xi64>) {
  // expected-error @+1 {{'aten.div' op expects a result of type 'tensor<4xf32>', found 'tensor<4xi64>'}}
  %0 = aten.div(%a, %b) : (tensor<4xi64>, tensor<4xi64>) -> tensor<4xi64>
  return
}

// -----

func.func @div_scalar(%a: tensor<4xi64>) {
  // expected-error @+1 {{'aten.div_scalar' op expects a result of type 'tensor<4xf32>', found 'tensor<4xi64>'}}
  %0 = aten.div_scalar(%a, other = 2) : (tensor<4xi64>) -> tensor<4xi64>
  return
}

// -----

func.func @pow_tensor_scalar(%a: tensor<4xf32>) {
  // expected-error @+1 {{'aten.pow_tensor_scalar' op expects a result of type 'tensor<4xf32>', found 'tensor<4xi64>'}}
  %0 = aten.pow_tensor_scalar(%a, exponent = 2) : (tensor<4xf32>) -> tensor<4xi64>
  return
}

// -----

func.func @addcmul(%x: tensor<4x8xf32>, %a: tensor<3xf32>, %b: tensor<8xf32>) {
  // expected-error @+1 {{'aten.addcmul' op expects operands whose shapes broadcast, found 'tensor<4x8xf32>' and 'tensor<3xf32>' and 'tensor<8xf32>'}}
  %0 = aten.addcmul(%x, %a, %b) : (tensor<4x8xf32>, tensor<3xf32>, tensor<8xf32>) -> tensor<4x8xf32>
  return
}

// -----

func.func @neg(%x: tensor<?xf32>) {
  // expected-error @+1 {{'aten.neg' op operand #0 must be statically shaped tensor of a dtype, but got 'tensor<?xf32>'}}
  %0 = aten.neg(%x) : (tensor<?xf32>) -> tensor<?xf32>
  return
}

// -----

func.func @neg_2(%x: tensor<4xi4>) {
  // expected-error @+1 {{'aten.neg' op operand #0 must be statically shaped tensor of a dtype, but got 'tensor<4xi4>'}}
  %0 = aten.neg(%x) : (tensor<4xi4>) -> tensor<4xi4>
  return
}

// -----

func.func @pow_scalar(%x: tensor<4xi64>) {
  // expected-error @+1 {{'aten.pow_scalar' op expects a result of type 'tensor<4xf32>', found 'tensor<4xi64>'}}
  %0 = aten.pow_scalar(self = 2.0, %x) : (tensor<4xi64>) -> tensor<4xi64>
  return
}

// -----

func.func @floor(%x: tensor<4xf32>) {
  // expected-error @+1 {{'aten.floor' op expects a result of type 'tensor<4xf32>', found 'tensor<4xi64>'}}
  %0 = aten.floor(%x) : (tensor<4xf32>) -> tensor<4xi64>
  return
}

// -----

func.func @xlogy(%x: tensor<4xf32>, %y: tensor<3xf32>) {
  // expected-error @+1 {{'aten.xlogy' op expects operands whose shapes broadcast, found 'tensor<4xf32>' and 'tensor<3xf32>'}}
  %0 = aten.xlogy(%x, %y) : (tensor<4xf32>, tensor<3xf32>) -> tensor<4xf32>
  return
}
