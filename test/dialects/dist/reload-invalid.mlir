// RUN: cleave-opt %s --split-input-file --verify-diagnostics

func.func @value_of_another_type(%h: !dist.host<tensor<8xf32>>) {
  // expected-error @+1 {{'dist.reload' op expects a result of the type that the operand is a host copy of, 'tensor<8xf32>', found 'tensor<8xf64>'}}
  %0 = "dist.reload"(%h) : (!dist.host<tensor<8xf32>>) -> tensor<8xf64>
  return
}

// -----

func.func @from_the_device(%x: tensor<8xf32>) {
  // expected-error @+1 {{'dist.reload' op operand #0 must be a copy of a value in host memory, but got 'tensor<8xf32>'}}
  %0 = "dist.reload"(%x) : (tensor<8xf32>) -> tensor<8xf32>
  return
}

// -----

// expected-note @+1 {{prior use here}}
func.func @not_the_type_of_the_copy(%h: !dist.host<tensor<8xf32>>) {
  // expected-error @+1 {{use of value '%h' expects different type than prior uses: '!dist.host<tensor<4xf32>>' vs '!dist.host<tensor<8xf32>>'}}
  %0 = dist.reload %h : tensor<4xf32>
  return
}

// -----

func.func @computed_on_the_host(%h: !dist.host<tensor<8xf32>>) {
  // expected-error @+1 {{'aten.neg' op operand #0 must be}}
  %0 = "aten.neg"(%h) : (!dist.host<tensor<8xf32>>) -> tensor<8xf32>
  return
}
