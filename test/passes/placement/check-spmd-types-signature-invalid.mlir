// RUN: cleave-opt %s --check-spmd-types --verify-diagnostics

// Rules 6 and 7: the types that a program's arguments and results have by their roles.

#R = #dist.on<@mesh, tp = R>
#I = #dist.on<@mesh, tp = I>
#P = #dist.on<@mesh, tp = P>
#A = #dist.on<@mesh, tp = P(avg)>
#V = #dist.on<@mesh, tp = V>
#S0 = #dist.on<@mesh, tp = S(0)>
#S1 = #dist.on<@mesh, tp = S(1)>

dist.mesh @mesh ["tp" = 2]

//===----------------------------------------------------------------------===//
// Losses
//===----------------------------------------------------------------------===//

func.func @replicated_loss(
    %x: tensor<4xf32, #R> {train.role = #train.role<input "x" batch 0>})
    -> (tensor<f32, #R> {train.role = #train.role<loss>})
    attributes {train.phase = #train.phase<microbatch>} {
  // expected-note@below {{the loss is made by 'aten.sum': 'tensor<f32, #dist.on<@mesh, tp = R>>'}}
  %0 = aten.sum(%x) : (tensor<4xf32, #R>) -> tensor<f32, #R>
  // expected-error@below {{'replicated_loss' returns #train.role<loss> as R on axis "tp", expected I or P: the backward would start on every rank and count each gradient once per rank; insert dist.convert from R to I where all ranks compute one loss, or dist.convert from R to P; the loss is 'tensor<f32, #dist.on<@mesh, tp = R>>'}}
  return %0 : tensor<f32, #R>
}

func.func @averaged_loss(
    %x: tensor<4xf32, #S0> {train.role = #train.role<input "x" batch 0>})
    -> (tensor<f32, #A> {train.role = #train.role<loss>})
    attributes {train.phase = #train.phase<microbatch>} {
  // expected-note@below {{the loss is made by 'aten.mean'}}
  %0 = aten.mean(%x) : (tensor<4xf32, #S0>) -> tensor<f32, #A>
  // expected-error@below {{'averaged_loss' returns #train.role<loss> as P(avg) on axis "tp", expected I or P: no gradient flows through the pending reduction; insert dist.all_reduce avg from P(avg) to I, or divide and sum instead}}
  return %0 : tensor<f32, #A>
}

func.func @varying_loss(
    %x: tensor<f32, #R> {train.role = #train.role<input "x">})
    -> (tensor<f32, #V> {train.role = #train.role<loss>})
    attributes {train.phase = #train.phase<microbatch>} {
  // expected-note@below {{the loss is made by 'dist.reinterpret'}}
  %0 = dist.reinterpret %x : tensor<f32, #R> -> tensor<f32, #V>
  // expected-error@below {{'varying_loss' returns #train.role<loss> as V on axis "tp", expected I or P; insert dist.reinterpret from V to P where the loss is the ranks' sum}}
  return %0 : tensor<f32, #V>
}

//===----------------------------------------------------------------------===//
// Gradients, in functions that hold their own
//===----------------------------------------------------------------------===//

// Megatron's f is missing: in the backward its sum is, and the parameter's gradient is one rank's term.
func.func @backward_of_missing_f(
    // expected-note@below {{the value it is the gradient of is argument 0, #train.role<parameter "norm">: 'tensor<8xf32, #dist.on<@mesh, tp = I>>'}}
    %norm: tensor<8xf32, #I> {train.role = #train.role<parameter "norm">},
    %w: tensor<8x8xf32, #S1> {train.role = #train.role<parameter "up">},
    %x: tensor<4x8xf32, #I> {train.role = #train.role<input "x" batch 0>},
    %dy: tensor<4x8xf32, #S1> {train.role = #train.role<input "dy" batch 0>})
    -> (tensor<8xf32, #P> {train.role = #train.role<gradient "norm">},
        tensor<8x8xf32, #S1> {train.role = #train.role<gradient "up">})
    attributes {train.phase = #train.phase<microbatch>} {
  %0 = aten.mul(%x, %norm) : (tensor<4x8xf32, #I>, tensor<8xf32, #I>) -> tensor<4x8xf32, #I>
  // In a function that holds its own gradients, I joins S: the forward alone is right.
  %xt = aten.t(%0) : (tensor<4x8xf32, #I>) -> tensor<8x4xf32, #I>
  %dw = aten.mm(%xt, %dy) : (tensor<8x4xf32, #I>, tensor<4x8xf32, #S1>) -> tensor<8x8xf32, #S1>
  %wt = aten.t(%w) : (tensor<8x8xf32, #S1>) -> tensor<8x8xf32, #S0>
  %dx = aten.mm(%dy, %wt) : (tensor<4x8xf32, #S1>, tensor<8x8xf32, #S0>) -> tensor<4x8xf32, #P>
  %dn = aten.mul(%dx, %x) : (tensor<4x8xf32, #P>, tensor<4x8xf32, #I>) -> tensor<4x8xf32, #P>
  // expected-note@below {{the gradient is made by 'aten.sum_dim_int_list'}}
  %dnorm = aten.sum_dim_int_list(%dn, dim = [0], keepdim = false) : (tensor<4x8xf32, #P>) -> tensor<8xf32, #P>
  // expected-error@below {{'backward_of_missing_f' returns #train.role<gradient "norm"> as P on axis "tp", expected I, the type of the gradient of a value that is I; insert dist.all_reduce sum from P to I, the backward of a dist.convert from I to R (Megatron's f); the types are 'tensor<8xf32, #dist.on<@mesh, tp = P>>' and 'tensor<8xf32, #dist.on<@mesh, tp = I>>'}}
  return %dnorm, %dw : tensor<8xf32, #P>, tensor<8x8xf32, #S1>
}

func.func @gradient_reduced_too_early(
    // expected-note@below {{the value it is the gradient of is argument 0}}
    %w: tensor<8xf32, #R> {train.role = #train.role<parameter "w">},
    %x: tensor<8xf32, #S0> {train.role = #train.role<input "x" batch 0>},
    // expected-note@below {{the gradient is argument 2}}
    %g: tensor<8xf32, #R> {train.role = #train.role<input "g">})
    -> (tensor<8xf32, #R> {train.role = #train.role<gradient "w">},
        tensor<8xf32, #S0> {train.role = #train.role<gradient "x">})
    attributes {train.phase = #train.phase<microbatch>} {
  // expected-error@below {{'gradient_reduced_too_early' returns #train.role<gradient "w"> as R on axis "tp", expected P, the type of the gradient of a value that is R; leave out the reduction that made it R, or insert dist.convert from R to P}}
  return %g, %x : tensor<8xf32, #R>, tensor<8xf32, #S0>
}

// The update takes what the microbatch function gives.
func.func @update_takes_reduced(
    // expected-note@below {{the value it is the gradient of is argument 0}}
    %w: tensor<8xf32, #R> {train.role = #train.role<parameter "w">},
    // expected-error@below {{'update_takes_reduced' takes #train.role<gradient "w"> as R on axis "tp", expected P, the type of the gradient of a value that is R; the types are}}
    %g: tensor<8xf32, #R> {train.role = #train.role<gradient "w">},
    %t: tensor<f32, #I> {train.role = #train.role<step>})
    -> (tensor<8xf32, #R> {train.role = #train.role<parameter "w">})
    attributes {train.phase = #train.phase<update>} {
  %lr = train.learning_rate(%t) {base = 1.0e-03 : f64, schedule = #train.schedule<constant>} : (tensor<f32, #I>) -> tensor<f64, #I>
  %0 = train.sgd(%w, %g, %t, %lr) {momentum = 0.0 : f64, dampening = 0.0 : f64, nesterov = false, weight_decay = 0.0 : f64}
      : tensor<8xf32, #R>, tensor<f32, #I>, tensor<f64, #I>
  return %0 : tensor<8xf32, #R>
}

//===----------------------------------------------------------------------===//
// Seeds, and what varies
//===----------------------------------------------------------------------===//

func.func @seed_of_partial_loss(
    // expected-error@below {{'seed_of_partial_loss' takes #train.role<seed> as I on axis "tp", expected R, the seed of a loss that is P; the types are 'tensor<f32, #dist.on<@mesh, tp = I>>' and 'tensor<f32, #dist.on<@mesh, tp = P>>'}}
    %seed: tensor<f32, #I> {train.role = #train.role<seed>},
    %x: tensor<4xf32, #S0> {train.role = #train.role<input "x" batch 0>})
    -> (tensor<f32, #P> {train.role = #train.role<loss>})
    attributes {train.phase = #train.phase<microbatch>} {
  // expected-note@below {{the loss is made by 'aten.sum'}}
  %0 = aten.sum(%x) : (tensor<4xf32, #S0>) -> tensor<f32, #P>
  return %0 : tensor<f32, #P>
}

func.func @seed_of_invariant_loss(
    // expected-error@below {{'seed_of_invariant_loss' takes #train.role<seed> as R on axis "tp", expected I, the seed of a loss that is I}}
    %seed: tensor<f32, #R> {train.role = #train.role<seed>},
    // expected-note@below {{the loss is argument 1}}
    %x: tensor<f32, #I> {train.role = #train.role<input "x">})
    -> (tensor<f32, #I> {train.role = #train.role<loss>})
    attributes {train.phase = #train.phase<microbatch>} {
  return %x : tensor<f32, #I>
}

func.func @varying_crosses(
    // expected-error@below {{'varying_crosses' takes #train.role<input "x" batch 0> as V on axis "tp", which does not say how the ranks' values combine; declare S(d), R, I or P, and insert dist.reinterpret to V where it is used; its type is 'tensor<4xf32, #dist.on<@mesh, tp = V>>'}}
    %x: tensor<4xf32, #V> {train.role = #train.role<input "x" batch 0>},
    // The runtime computes each rank's offset.
    %offset: tensor<i64, #V> {train.role = #train.role<rng_offset>})
    -> (tensor<4xf32, #V> {train.role = #train.role<output "0">})
    attributes {train.phase = #train.phase<microbatch>} {
  // expected-note@below {{it is made by 'aten.relu'}}
  %0 = aten.relu(%x) : (tensor<4xf32, #V>) -> tensor<4xf32, #V>
  // expected-error@below {{'varying_crosses' returns #train.role<output "0"> as V on axis "tp", which does not say how the ranks' values combine; insert dist.reinterpret from V to S(d) or P, or dist.all_gather}}
  return %0 : tensor<4xf32, #V>
}
