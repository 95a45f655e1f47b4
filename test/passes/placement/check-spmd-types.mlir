// RUN: cleave-opt %s --check-spmd-types --split-input-file | FileCheck %s

// Megatron's block: f is a convert from I to R, g an all_reduce from P to I. Norm weights and the bias behind g are I, so
// their gradients need no reduction. It is still to be differentiated.

#R = #dist.on<@mesh, tp = R>
#I = #dist.on<@mesh, tp = I>
#P = #dist.on<@mesh, tp = P>
#S0 = #dist.on<@mesh, tp = S(0)>
#S1 = #dist.on<@mesh, tp = S(1)>

dist.mesh @mesh ["tp" = 2]

// CHECK-LABEL: func.func @megatron
func.func @megatron(
    %norm: tensor<8xf32, #I> {train.role = #train.role<parameter "norm.weight">},
    %up: tensor<8x8xf32, #S1> {train.role = #train.role<parameter "up.weight">},
    %down: tensor<8x8xf32, #S0> {train.role = #train.role<parameter "down.weight">},
    %bias: tensor<8xf32, #I> {train.role = #train.role<parameter "down.bias">},
    %x: tensor<4x8xf32, #I> {train.role = #train.role<input "x" batch 0>})
    -> (tensor<f32, #I> {train.role = #train.role<loss>})
    attributes {train.phase = #train.phase<microbatch>} {
  %0 = aten.mul(%x, %norm) : (tensor<4x8xf32, #I>, tensor<8xf32, #I>) -> tensor<4x8xf32, #I>
  %f = dist.convert %0 : tensor<4x8xf32, #I> -> tensor<4x8xf32, #R>
  %1 = aten.mm(%f, %up) : (tensor<4x8xf32, #R>, tensor<8x8xf32, #S1>) -> tensor<4x8xf32, #S1>
  %2 = aten.relu(%1) : (tensor<4x8xf32, #S1>) -> tensor<4x8xf32, #S1>
  %3 = aten.mm(%2, %down) : (tensor<4x8xf32, #S1>, tensor<8x8xf32, #S0>) -> tensor<4x8xf32, #P>
  %g = dist.all_reduce sum(%3) over @mesh ["tp"] : tensor<4x8xf32, #P> -> tensor<4x8xf32, #I>
  %4 = aten.add(%g, %bias) : (tensor<4x8xf32, #I>, tensor<8xf32, #I>) -> tensor<4x8xf32, #I>
  %5 = aten.sum(%4) : (tensor<4x8xf32, #I>) -> tensor<f32, #I>
  return %5 : tensor<f32, #I>
}

// The same without f: parameters beside the sharded ones are R, general all_reduces between, and the gradients of the
// R ones are P, to be reduced in the update.
// CHECK-LABEL: func.func @general_all_reduces
func.func @general_all_reduces(
    %norm: tensor<8xf32, #R> {train.role = #train.role<parameter "norm.weight">},
    %up: tensor<8x8xf32, #S1> {train.role = #train.role<parameter "up.weight">},
    %down: tensor<8x8xf32, #S0> {train.role = #train.role<parameter "down.weight">},
    %x: tensor<4x8xf32, #R> {train.role = #train.role<input "x" batch 0>})
    -> (tensor<f32, #P> {train.role = #train.role<loss>})
    attributes {train.phase = #train.phase<microbatch>} {
  %0 = aten.mul(%x, %norm) : (tensor<4x8xf32, #R>, tensor<8xf32, #R>) -> tensor<4x8xf32, #R>
  %1 = aten.mm(%0, %up) : (tensor<4x8xf32, #R>, tensor<8x8xf32, #S1>) -> tensor<4x8xf32, #S1>
  %2 = aten.mm(%1, %down) : (tensor<4x8xf32, #S1>, tensor<8x8xf32, #S0>) -> tensor<4x8xf32, #P>
  %3 = dist.all_reduce sum(%2) over @mesh ["tp"] : tensor<4x8xf32, #P> -> tensor<4x8xf32, #R>
  %4 = aten.sum(%3) : (tensor<4x8xf32, #R>) -> tensor<f32, #R>
  %5 = dist.convert %4 : tensor<f32, #R> -> tensor<f32, #P>
  return %5 : tensor<f32, #P>
}

// What carries no gradient joins anything as I: constants, masks, random numbers of an I seed, a frozen parameter, what
// is detached.
// CHECK-LABEL: func.func @without_gradient
func.func @without_gradient(
    %w: tensor<8xf32, #I> {train.role = #train.role<parameter "w">},
    %frozen: tensor<8xf32, #I> {train.role = #train.role<parameter "frozen" frozen>},
    %x: tensor<4x8xf32, #S0>,
    %seed: tensor<i64, #I>, %offset: tensor<i64, #I>) -> tensor<4x8xf32, #S0> {
  %0 = aten.mul(%x, %frozen) : (tensor<4x8xf32, #S0>, tensor<8xf32, #I>) -> tensor<4x8xf32, #S0>
  %1 = aten.detach(%w) : (tensor<8xf32, #I>) -> tensor<8xf32, #I>
  %2 = aten.mul(%0, %1) : (tensor<4x8xf32, #S0>, tensor<8xf32, #I>) -> tensor<4x8xf32, #S0>
  %3 = aten.gt_scalar(%w, other = 0.0) : (tensor<8xf32, #I>) -> tensor<8xi1, #I>
  %4 = aten.full(size = [8], fill_value = 1.0) : () -> tensor<8xf32, #I>
  %5 = aten.where(%3, %2, %4) : (tensor<8xi1, #I>, tensor<4x8xf32, #S0>, tensor<8xf32, #I>) -> tensor<4x8xf32, #S0>
  %6 = aten.zeros_like(%w) : (tensor<8xf32, #I>) -> tensor<8xf32, #R>
  %7 = aten.add(%5, %6) : (tensor<4x8xf32, #S0>, tensor<8xf32, #R>) -> tensor<4x8xf32, #S0>
  %8 = aten.zeros_like(%7) : (tensor<4x8xf32, #S0>) -> tensor<4x8xf32, #S0>
  %9 = aten.add(%7, %8) : (tensor<4x8xf32, #S0>, tensor<4x8xf32, #S0>) -> tensor<4x8xf32, #S0>
  return %9 : tensor<4x8xf32, #S0>
}

// Sums of terms, scaled and viewed, are terms.
// CHECK-LABEL: func.func @partial
func.func @partial(%a: tensor<4x8xf32, #P>, %b: tensor<4x8xf32, #P>, %r: tensor<4x8xf32, #R>,
                   %bias: tensor<8xf32, #P>, %x: tensor<4x8xf32, #S1>, %w: tensor<8x8xf32, #S0>) -> tensor<8x4xf32, #P> {
  %0 = aten.add(%a, %b) : (tensor<4x8xf32, #P>, tensor<4x8xf32, #P>) -> tensor<4x8xf32, #P>
  %1 = aten.mul(%r, %0) : (tensor<4x8xf32, #R>, tensor<4x8xf32, #P>) -> tensor<4x8xf32, #P>
  %2 = aten.addmm(%bias, %x, %w) : (tensor<8xf32, #P>, tensor<4x8xf32, #S1>, tensor<8x8xf32, #S0>) -> tensor<4x8xf32, #P>
  %3 = aten.sub(%1, %2) : (tensor<4x8xf32, #P>, tensor<4x8xf32, #P>) -> tensor<4x8xf32, #P>
  %4 = aten.view(%3, size = [8, 4]) : (tensor<4x8xf32, #P>) -> tensor<8x4xf32, #P>
  return %4 : tensor<8x4xf32, #P>
}

// -----

// Data parallelism as a fake broadcast of the parameters: the gradient, a fake_reduce, is I.

#I = #dist.on<@mesh, dp = I>
#P = #dist.on<@mesh, dp = P>
#V = #dist.on<@mesh, dp = V>
#S0 = #dist.on<@mesh, dp = S(0)>

dist.mesh @mesh ["dp" = 2]

// CHECK-LABEL: func.func @data_parallel
func.func @data_parallel(
    %w: tensor<8x4xf32, #I> {train.role = #train.role<parameter "w">},
    %x: tensor<2x8xf32, #S0> {train.role = #train.role<input "x" batch 0>})
    -> (tensor<f32, #P> {train.role = #train.role<loss>})
    attributes {train.phase = #train.phase<microbatch>} {
  %0 = dist.fake_broadcast(%w) over @mesh ["dp"] : tensor<8x4xf32, #I> -> tensor<8x4xf32, #V>
  %1 = dist.reinterpret %x : tensor<2x8xf32, #S0> -> tensor<2x8xf32, #V>
  %2 = aten.mm(%1, %0) : (tensor<2x8xf32, #V>, tensor<8x4xf32, #V>) -> tensor<2x4xf32, #V>
  %3 = aten.mean(%2) : (tensor<2x4xf32, #V>) -> tensor<f32, #V>
  %4 = dist.reinterpret %3 : tensor<f32, #V> -> tensor<f32, #P>
  return %4 : tensor<f32, #P>
}

// -----

// A program that holds its own gradients: R has P, S has S; the update reduces.

#R = #dist.on<@mesh, dp = R>
#I = #dist.on<@mesh, dp = I>
#P = #dist.on<@mesh, dp = P>
#S0 = #dist.on<@mesh, dp = S(0)>
#S1 = #dist.on<@mesh, dp = S(1)>

dist.mesh @mesh ["dp" = 2]

// CHECK-LABEL: func.func @microbatch
func.func @microbatch(
    %w: tensor<8x4xf32, #R> {train.role = #train.role<parameter "w">},
    %acc: tensor<8x4xf32, #P> {train.role = #train.role<accumulator "w">},
    %x: tensor<2x8xf32, #S0> {train.role = #train.role<input "x" batch 0>},
    %seed: tensor<f32, #R> {train.role = #train.role<seed>},
    %offset: tensor<i64, #dist.on<@mesh, dp = V>> {train.role = #train.role<rng_offset>})
    -> (tensor<f32, #P> {train.role = #train.role<loss>},
        tensor<8x4xf32, #P> {train.role = #train.role<gradient "w">},
        tensor<2x8xf32, #S0> {train.role = #train.role<gradient "x">})
    attributes {train.phase = #train.phase<microbatch>} {
  %0 = aten.mm(%x, %w) : (tensor<2x8xf32, #S0>, tensor<8x4xf32, #R>) -> tensor<2x4xf32, #S0>
  %1 = aten.sum(%0) : (tensor<2x4xf32, #S0>) -> tensor<f32, #P>
  %2 = aten.ones_like(%0) : (tensor<2x4xf32, #S0>) -> tensor<2x4xf32, #S0>
  %3 = aten.mul(%2, %seed) : (tensor<2x4xf32, #S0>, tensor<f32, #R>) -> tensor<2x4xf32, #S0>
  %4 = aten.t(%x) : (tensor<2x8xf32, #S0>) -> tensor<8x2xf32, #S1>
  %5 = aten.mm(%4, %3) : (tensor<8x2xf32, #S1>, tensor<2x4xf32, #S0>) -> tensor<8x4xf32, #P>
  %6 = aten.t(%w) : (tensor<8x4xf32, #R>) -> tensor<4x8xf32, #R>
  %7 = aten.mm(%3, %6) : (tensor<2x4xf32, #S0>, tensor<4x8xf32, #R>) -> tensor<2x8xf32, #S0>
  %8 = train.accumulate %5 into %acc : tensor<8x4xf32, #P>
  return %1, %8, %7 : tensor<f32, #P>, tensor<8x4xf32, #P>, tensor<2x8xf32, #S0>
}

// CHECK-LABEL: func.func @update
func.func @update(
    %w: tensor<8x4xf32, #R> {train.role = #train.role<parameter "w">},
    %g: tensor<8x4xf32, #P> {train.role = #train.role<gradient "w">},
    %m: tensor<8x4xf32, #R> {train.role = #train.role<optimizer_state "w" slot "exp_avg">},
    %v: tensor<8x4xf32, #R> {train.role = #train.role<optimizer_state "w" slot "exp_avg_sq">},
    %t: tensor<f32, #I> {train.role = #train.role<step>})
    -> (tensor<8x4xf32, #R> {train.role = #train.role<parameter "w">},
        tensor<8x4xf32, #R> {train.role = #train.role<optimizer_state "w" slot "exp_avg">},
        tensor<8x4xf32, #R> {train.role = #train.role<optimizer_state "w" slot "exp_avg_sq">})
    attributes {train.phase = #train.phase<update>} {
  %lr = train.learning_rate(%t) {base = 1.0e-03 : f64, schedule = #train.schedule<constant>} : (tensor<f32, #I>) -> tensor<f64, #I>
  %f = dist.all_reduce sum(%g) over @mesh ["dp"] : tensor<8x4xf32, #P> -> !dist.future<tensor<8x4xf32, #R>>
  %r = dist.wait %f : tensor<8x4xf32, #R>
  %w1, %m1, %v1 = train.adamw(%w, %r, %m, %v, %t, %lr)
      {beta1 = 0.9 : f64, beta2 = 0.999 : f64, eps = 1.0e-08 : f64, weight_decay = 0.01 : f64}
      : tensor<8x4xf32, #R>, tensor<f32, #I>, tensor<f64, #I>
  return %w1, %m1, %v1 : tensor<8x4xf32, #R>, tensor<8x4xf32, #R>, tensor<8x4xf32, #R>
}

// -----

// A microbatch in parts: a saved value may vary, the seed's loss and the gradient's parameter are in the forward, and what
// the reduce function gives the update has a type of its own.

#R = #dist.on<@mesh, dp = R>
#P = #dist.on<@mesh, dp = P>
#V = #dist.on<@mesh, dp = V>
#S0 = #dist.on<@mesh, dp = S(0)>

dist.mesh @mesh ["dp" = 2]

// CHECK-LABEL: func.func @forward
func.func @forward(
    %w: tensor<8xf32, #R> {train.role = #train.role<parameter "w">},
    %x: tensor<8xf32, #S0> {train.role = #train.role<input "x" batch 0>})
    -> (tensor<f32, #P> {train.role = #train.role<loss>}, tensor<8xf32, #V> {train.role = #train.role<saved "x">})
    attributes {train.phase = #train.phase<forward>} {
  %0 = dist.reinterpret %x : tensor<8xf32, #S0> -> tensor<8xf32, #V>
  %1 = aten.mul(%0, %w) : (tensor<8xf32, #V>, tensor<8xf32, #R>) -> tensor<8xf32, #V>
  %2 = aten.sum(%1) : (tensor<8xf32, #V>) -> tensor<f32, #V>
  %3 = dist.reinterpret %2 : tensor<f32, #V> -> tensor<f32, #P>
  return %3, %0 : tensor<f32, #P>, tensor<8xf32, #V>
}

// CHECK-LABEL: func.func @backward
func.func @backward(
    %seed: tensor<f32, #R> {train.role = #train.role<seed>},
    %x: tensor<8xf32, #V> {train.role = #train.role<saved "x">})
    -> (tensor<8xf32, #P> {train.role = #train.role<gradient "w">})
    attributes {train.phase = #train.phase<backward>} {
  %0 = aten.mul(%x, %seed) : (tensor<8xf32, #V>, tensor<f32, #R>) -> tensor<8xf32, #V>
  %1 = dist.reinterpret %0 : tensor<8xf32, #V> -> tensor<8xf32, #P>
  return %1 : tensor<8xf32, #P>
}

// CHECK-LABEL: func.func @reduce
func.func @reduce(%g: tensor<8xf32, #P> {train.role = #train.role<gradient "w">})
    -> (tensor<8xf32, #R> {train.role = #train.role<gradient "w">})
    attributes {train.phase = #train.phase<reduce>} {
  %0 = dist.all_reduce sum(%g) over @mesh ["dp"] : tensor<8xf32, #P> -> tensor<8xf32, #R>
  return %0 : tensor<8xf32, #R>
}

// CHECK-LABEL: func.func @update_of_reduced
func.func @update_of_reduced(
    %w: tensor<8xf32, #R> {train.role = #train.role<parameter "w">},
    %g: tensor<8xf32, #R> {train.role = #train.role<gradient "w">},
    %t: tensor<f32, #R> {train.role = #train.role<step>})
    -> (tensor<8xf32, #R> {train.role = #train.role<parameter "w">})
    attributes {train.phase = #train.phase<update>} {
  %lr = train.learning_rate(%t) {base = 1.0e-03 : f64, schedule = #train.schedule<constant>} : (tensor<f32, #R>) -> tensor<f64, #R>
  %0 = train.sgd(%w, %g, %t, %lr) {momentum = 0.0 : f64, dampening = 0.0 : f64, nesterov = false, weight_decay = 0.0 : f64}
      : tensor<8xf32, #R>, tensor<f32, #R>, tensor<f64, #R>
  return %0 : tensor<8xf32, #R>
}

// -----

// Two axes shard one dimension: their order goes with the dimension, splits with a view, and joins again.

#A = #dist.on<@mesh, dp = S(0, 0), tp = S(0, 1)>
#B = #dist.on<@mesh, dp = S(0, 1), tp = S(0, 0)>
#T = #dist.on<@mesh, dp = S(1, 0), tp = S(1, 1)>
#D = #dist.on<@mesh, dp = S(0), tp = S(1)>
#PP = #dist.on<@mesh, dp = P, tp = P>
#PS = #dist.on<@mesh, dp = P, tp = S(1)>

dist.mesh @mesh ["dp" = 2, "tp" = 2]

// CHECK-LABEL: func.func @orders
func.func @orders(%a: tensor<4x8xf32, #A>, %b: tensor<4x8xf32, #B>, %d: tensor<1x4x8xf32, #D>)
    -> (tensor<8x4xf32, #T>, tensor<8xf32, #PP>, tensor<4x8xf32, #B>, tensor<4x8xf32, #A>, tensor<1x4x8xf32, #D>) {
  %0 = aten.t(%a) : (tensor<4x8xf32, #A>) -> tensor<8x4xf32, #T>
  %1 = aten.sum_dim_int_list(%a, dim = [0], keepdim = false) : (tensor<4x8xf32, #A>) -> tensor<8xf32, #PP>
  %2 = aten.relu(%b) : (tensor<4x8xf32, #B>) -> tensor<4x8xf32, #B>
  // One rank along dp has one of the two rows: the rest of the dimension is tp's.
  %3 = aten.view(%d, size = [4, 8]) : (tensor<1x4x8xf32, #D>) -> tensor<4x8xf32, #A>
  %4 = aten.view(%a, size = [1, 4, 8]) : (tensor<4x8xf32, #A>) -> tensor<1x4x8xf32, #D>
  return %0, %1, %2, %3, %4 : tensor<8x4xf32, #T>, tensor<8xf32, #PP>, tensor<4x8xf32, #B>, tensor<4x8xf32, #A>, tensor<1x4x8xf32, #D>
}

// CHECK-LABEL: func.func @product
func.func @product(%x: tensor<8x4xf32, #T>, %w: tensor<4x2xf32, #A>, %y: tensor<4x8xf32, #D>) -> (tensor<8x2xf32, #PP>, tensor<8x8xf32, #PS>) {
  %0 = aten.mm(%x, %w) : (tensor<8x4xf32, #T>, tensor<4x2xf32, #A>) -> tensor<8x2xf32, #PP>
  %1 = aten.sum_dim_int_list(%y, dim = [0], keepdim = true) : (tensor<4x8xf32, #D>) -> tensor<1x8xf32, #PS>
  %2 = aten.expand(%1, size = [8, 8]) : (tensor<1x8xf32, #PS>) -> tensor<8x8xf32, #PS>
  return %0, %2 : tensor<8x2xf32, #PP>, tensor<8x8xf32, #PS>
}
