// RUN: cleave-opt %s --split-input-file --verify-diagnostics

dist.mesh @mesh ["tp" = 2, "cp" = 3]

func.func @value_of_another_type(%a: !dist.future<tensor<8xf32>>) {
  // expected-error @+1 {{'dist.wait' op expects a result of the future's type 'tensor<8xf32>', found 'tensor<4xf32>'}}
  %0 = "dist.wait"(%a) : (!dist.future<tensor<8xf32>>) -> tensor<4xf32>
  return
}

// -----

dist.mesh @mesh ["tp" = 2, "cp" = 3]

// expected-note @+1 {{prior use here}}
func.func @not_the_type_of_the_future(%a: !dist.future<tensor<8xf32>>) {
  // expected-error @+1 {{use of value '%a' expects different type than prior uses: '!dist.future<tensor<4xf32>>' vs '!dist.future<tensor<8xf32>>'}}
  %0 = dist.wait %a : tensor<4xf32>
  return
}

// -----

dist.mesh @mesh ["tp" = 2, "cp" = 3]

func.func @no_tensor(%a: !dist.future<tensor<8xf32>>) {
  // expected-error @+1 {{expected a statically shaped tensor or none, found 'i32'}}
  %0 = dist.wait %a : i32
  return
}

// -----

dist.mesh @mesh ["tp" = 2, "cp" = 3]
#R = #dist.on<@mesh, tp = R>
#P = #dist.on<@mesh, tp = P>

// expected-note @+1 {{prior use here}}
func.func @placement_of_another_type(%a: !dist.future<tensor<8xf32, #R>>) {
  // expected-error @+1 {{use of value '%a' expects different type than prior uses: '!dist.future<tensor<8xf32, #dist.on<@mesh, tp = P>>>' vs '!dist.future<tensor<8xf32, #dist.on<@mesh, tp = R>>>'}}
  %0 = dist.wait %a : tensor<8xf32, #P>
  return
}
