// Matrix products: what their verifiers refuse.
// RUN: cleave-opt %s --split-input-file --verify-diagnostics

func.func @mm(%a: tensor<2x4x8xf32>, %b: tensor<8x16xf32>) {
  // expected-error @+1 {{'aten.mm' op expects `self` to have 2 dimensions, found 'tensor<2x4x8xf32>'}}
  %0 = aten.mm(%a, %b) : (tensor<2x4x8xf32>, tensor<8x16xf32>) -> tensor<4x16xf32>
  return
}

// -----

func.func @mm_2(%a: tensor<4x8xf32>, %b: tensor<16xf32>) {
  // expected-error @+1 {{'aten.mm' op expects `mat2` to have 2 dimensions, found 'tensor<16xf32>'}}
  %0 = aten.mm(%a, %b) : (tensor<4x8xf32>, tensor<16xf32>) -> tensor<4x16xf32>
  return
}

// -----

func.func @mm_3(%a: tensor<4x8xf32>, %b: tensor<4x16xf32>) {
  // expected-error @+1 {{'aten.mm' op cannot multiply `self` and `mat2`, found 'tensor<4x8xf32>' and 'tensor<4x16xf32>'}}
  %0 = aten.mm(%a, %b) : (tensor<4x8xf32>, tensor<4x16xf32>) -> tensor<4x16xf32>
  return
}

// -----

func.func @mm_4(%a: tensor<4x8xf32>, %b: tensor<8x16xf64>) {
  // expected-error @+1 {{'aten.mm' op expects operands of the same dtype, found 'tensor<8x16xf64>' and 'tensor<4x8xf32>'}}
  %0 = aten.mm(%a, %b) : (tensor<4x8xf32>, tensor<8x16xf64>) -> tensor<4x16xf32>
  return
}

// -----

func.func @mm_5(%a: tensor<4x8xf32>, %b: tensor<8x16xf32>) {
  // expected-error @+1 {{'aten.mm' op expects a result of type 'tensor<4x16xf32>', found 'tensor<16x4xf32>'}}
  %0 = aten.mm(%a, %b) : (tensor<4x8xf32>, tensor<8x16xf32>) -> tensor<16x4xf32>
  return
}

// -----

func.func @bmm(%a: tensor<2x4x8xf32>, %b: tensor<3x8x16xf32>) {
  // expected-error @+1 {{'aten.bmm' op cannot multiply `self` and `mat2`, found 'tensor<2x4x8xf32>' and 'tensor<3x8x16xf32>'}}
  %0 = aten.bmm(%a, %b) : (tensor<2x4x8xf32>, tensor<3x8x16xf32>) -> tensor<2x4x16xf32>
  return
}

// -----

func.func @addmm(%c: tensor<4xf32>, %a: tensor<4x8xf32>, %b: tensor<8x16xf32>) {
  // expected-error @+1 {{'aten.addmm' op expects `self` to broadcast to 'tensor<4x16xf32>', found 'tensor<4xf32>'}}
  %0 = aten.addmm(%c, %a, %b) : (tensor<4xf32>, tensor<4x8xf32>, tensor<8x16xf32>) -> tensor<4x16xf32>
  return
}

// -----

func.func @addmm_2(%c: tensor<16xf64>, %a: tensor<4x8xf32>, %b: tensor<8x16xf32>) {
  // expected-error @+1 {{'aten.addmm' op expects operands of the same dtype, found 'tensor<16xf64>' and 'tensor<4x8xf32>'}}
  %0 = aten.addmm(%c, %a, %b) : (tensor<16xf64>, tensor<4x8xf32>, tensor<8x16xf32>) -> tensor<4x16xf32>
  return
}

// -----

func.func @addmm_3(%c: tensor<2x4x16xf32>, %a: tensor<4x8xf32>, %b: tensor<8x16xf32>) {
  // expected-error @+1 {{'aten.addmm' op expects `self` to broadcast to 'tensor<4x16xf32>', found 'tensor<2x4x16xf32>'}}
  %0 = aten.addmm(%c, %a, %b) : (tensor<2x4x16xf32>, tensor<4x8xf32>, tensor<8x16xf32>) -> tensor<4x16xf32>
  return
}

// -----

func.func @baddbmm(%c: tensor<3x4x16xf32>, %a: tensor<2x4x8xf32>, %b: tensor<2x8x16xf32>) {
  // expected-error @+1 {{'aten.baddbmm' op expects `self` to broadcast to 'tensor<2x4x16xf32>', found 'tensor<3x4x16xf32>'}}
  %0 = aten.baddbmm(%c, %a, %b) : (tensor<3x4x16xf32>, tensor<2x4x8xf32>, tensor<2x8x16xf32>) -> tensor<2x4x16xf32>
  return
}

// -----

func.func @mv(%a: tensor<4x8xf32>, %b: tensor<4xf32>) {
  // expected-error @+1 {{'aten.mv' op cannot multiply `self` and `vec`, found 'tensor<4x8xf32>' and 'tensor<4xf32>'}}
  %0 = aten.mv(%a, %b) : (tensor<4x8xf32>, tensor<4xf32>) -> tensor<8xf32>
  return
}

// -----

func.func @dot(%a: tensor<4xf32>, %b: tensor<8xf32>) {
  // expected-error @+1 {{'aten.dot' op cannot multiply `self` and `tensor`, found 'tensor<4xf32>' and 'tensor<8xf32>'}}
  %0 = aten.dot(%a, %b) : (tensor<4xf32>, tensor<8xf32>) -> tensor<f32>
  return
}

// -----

func.func @dot_2(%a: tensor<4xf32>, %b: tensor<4xf32>) {
  // expected-error @+1 {{'aten.dot' op expects a result of type 'tensor<f32>', found 'tensor<4xf32>'}}
  %0 = aten.dot(%a, %b) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return
}
