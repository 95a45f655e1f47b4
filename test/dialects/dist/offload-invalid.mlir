// RUN: cleave-opt %s --split-input-file --verify-diagnostics

func.func @copy_of_another_type(%x: tensor<8xf32>) {
  // expected-error @+1 {{'dist.offload' op expects a result that is a host copy of the operand's type 'tensor<8xf32>', found one of 'tensor<4xf32>'}}
  %0 = "dist.offload"(%x) : (tensor<8xf32>) -> !dist.host<tensor<4xf32>>
  return
}

// -----

func.func @not_to_the_host(%x: tensor<8xf32>) {
  // expected-error @+1 {{'dist.offload' op result #0 must be a copy of a value in host memory, but got 'tensor<8xf32>'}}
  %0 = "dist.offload"(%x) : (tensor<8xf32>) -> tensor<8xf32>
  return
}

// -----

dist.mesh @mesh ["tp" = 2]
#R = #dist.on<@mesh, tp = R>
#P = #dist.on<@mesh, tp = P>

func.func @another_placement(%x: tensor<8xf32, #P>) {
  // expected-error @+1 {{expects a result that is a host copy of the operand's type 'tensor<8xf32, #dist.on<@mesh, tp = P>>', found one of 'tensor<8xf32, #dist.on<@mesh, tp = R>>'}}
  %0 = "dist.offload"(%x) : (tensor<8xf32, #P>) -> !dist.host<tensor<8xf32, #R>>
  return
}

// -----

// expected-error @+1 {{expected a statically shaped tensor of numbers or booleans, found 'tensor<?xf32>'}}
func.func @of_unknown_size(%h: !dist.host<tensor<?xf32>>) {
  return
}

// -----

func.func @of_a_future(%f: !dist.future<tensor<8xf32>>) {
  // expected-error @+1 {{invalid kind of type specified}}
  %0 = dist.offload %f : !dist.future<tensor<8xf32>>
  return
}

// -----

dist.mesh @mesh ["tp" = 2]

// A communication does not write to the host.
func.func @gathered_on_the_host(%x: tensor<4xf32>) {
  // expected-error @+1 {{op result #0 must be variadic of statically shaped tensor of numbers or booleans, or a future of one, but got '!dist.host<tensor<4xf32>>'}}
  %0 = "dist.all_reduce"(%x) {axes = ["tp"], mesh = @mesh, reduction = #dist.reduction<sum>} : (tensor<4xf32>) -> !dist.host<tensor<4xf32>>
  return
}

// -----

// Only what functions save for each other may be on the host.
// expected-error @+1 {{expects a statically shaped tensor for #train.role<parameter "w">, found '!dist.host<tensor<8xf32>>'}}
func.func @microbatch(%w: !dist.host<tensor<8xf32>> {train.role = #train.role<parameter "w">})
    attributes {train.phase = #train.phase<microbatch>} {
  return
}

// -----

// The copy is what it was when it was saved.
// expected-note @below {{produced here with type '!dist.host<tensor<8xf32>>'}}
func.func @forward(%x: tensor<8xf32> {train.role = #train.role<input "x" batch 0>})
    -> (!dist.host<tensor<8xf32>> {train.role = #train.role<saved "h">})
    attributes {train.phase = #train.phase<forward>} {
  %0 = aten.neg(%x) : (tensor<8xf32>) -> tensor<8xf32>
  %1 = dist.offload %0 : tensor<8xf32>
  return %1 : !dist.host<tensor<8xf32>>
}
// expected-error @below {{takes #train.role<saved "h"> of type 'tensor<8xf32>'}}
func.func @backward(%h: tensor<8xf32> {train.role = #train.role<saved "h">})
    -> (tensor<8xf32> {train.role = #train.role<gradient "x">})
    attributes {train.phase = #train.phase<backward>} {
  return %h : tensor<8xf32>
}
train.program
