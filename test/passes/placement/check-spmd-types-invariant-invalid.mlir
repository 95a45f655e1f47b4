// RUN: cleave-opt %s --check-spmd-types --verify-diagnostics

// Rule 3: an I that carries a gradient joins only I, and R that carries none.

#R = #dist.on<@mesh, tp = R>
#I = #dist.on<@mesh, tp = I>
#P = #dist.on<@mesh, tp = P>
#V = #dist.on<@mesh, tp = V>
#S0 = #dist.on<@mesh, tp = S(0)>
#S1 = #dist.on<@mesh, tp = S(1)>

dist.mesh @mesh ["tp" = 2]

// Without Megatron's f the gradient of the norm's weight would be one rank's part.
func.func @missing_f(
    %norm: tensor<8xf32, #I> {train.role = #train.role<parameter "norm">},
    // expected-note@below {{'mat2' is argument 1, #train.role<parameter "up">: 'tensor<8x8xf32, #dist.on<@mesh, tp = S(1)>>'}}
    %w: tensor<8x8xf32, #S1> {train.role = #train.role<parameter "up">},
    %x: tensor<4x8xf32, #I>) -> tensor<4x8xf32, #S1> {
  // expected-note@below {{'self' is made by 'aten.mul': 'tensor<4x8xf32, #dist.on<@mesh, tp = I>>'}}
  %0 = aten.mul(%x, %norm) : (tensor<4x8xf32, #I>, tensor<8xf32, #I>) -> tensor<4x8xf32, #I>
  // expected-error@below {{'aten.mm' op mixes I and S(1) on axis "tp": 'self' carries a gradient of which each rank would compute only a part, and nothing would sum the parts; insert dist.convert of 'self' from I to R (Megatron's f); operands are 'tensor<4x8xf32, #dist.on<@mesh, tp = I>>', 'tensor<8x8xf32, #dist.on<@mesh, tp = S(1)>>'}}
  %1 = aten.mm(%0, %w) : (tensor<4x8xf32, #I>, tensor<8x8xf32, #S1>) -> tensor<4x8xf32, #S1>
  return %1 : tensor<4x8xf32, #S1>
}

// An R without a gradient is like an I; one with a gradient is used by each rank in its own way.
func.func @with_replicate(
    // expected-note@below {{'other' is argument 0}}
    %w: tensor<8xf32, #I> {train.role = #train.role<parameter "w">},
    // expected-note@below {{'self' is argument 1}}
    %x: tensor<4x8xf32, #R> {train.role = #train.role<parameter "x">}) -> tensor<4x8xf32, #R> {
  // expected-error@below {{'aten.mul' op mixes I and R on axis "tp": 'other' carries a gradient}}
  %0 = aten.mul(%x, %w) : (tensor<4x8xf32, #R>, tensor<8xf32, #I>) -> tensor<4x8xf32, #R>
  return %0 : tensor<4x8xf32, #R>
}

func.func @with_varying(
    // expected-note@below {{'other' is argument 0}}
    %w: tensor<8xf32, #I> {train.role = #train.role<parameter "w">},
    // expected-note@below {{'self' is argument 1}}
    %x: tensor<4x8xf32, #V>) -> tensor<4x8xf32, #V> {
  // expected-error@below {{'aten.mul' op mixes I and V on axis "tp": 'other' carries a gradient}}
  %0 = aten.mul(%x, %w) : (tensor<4x8xf32, #V>, tensor<8xf32, #I>) -> tensor<4x8xf32, #V>
  return %0 : tensor<4x8xf32, #V>
}

func.func @with_partial(
    // expected-note@below {{'other' is argument 0}}
    %w: tensor<8xf32, #I> {train.role = #train.role<parameter "w">},
    // expected-note@below {{'self' is argument 1}}
    %x: tensor<4x8xf32, #P>) -> tensor<4x8xf32, #P> {
  // expected-error@below {{'aten.mul' op mixes I and P on axis "tp": 'other' carries a gradient}}
  %0 = aten.mul(%x, %w) : (tensor<4x8xf32, #P>, tensor<8xf32, #I>) -> tensor<4x8xf32, #P>
  return %0 : tensor<4x8xf32, #P>
}

// Communication carries the gradient on, also when it is only started.
func.func @behind_communication(
    %w: tensor<8xf32, #S0> {train.role = #train.role<parameter "w">},
    // expected-note@below {{'self' is argument 1}}
    %x: tensor<4x8xf32, #V>) -> tensor<4x8xf32, #V> {
  %0 = dist.all_gather(%w) dim 0 over @mesh ["tp"] : tensor<8xf32, #S0> -> !dist.future<tensor<16xf32, #I>>
  %1 = dist.wait %0 : tensor<16xf32, #I>
  // expected-note@below {{'other' is made by 'aten.slice'}}
  %2 = aten.slice(%1, dim = 0, start = 0, end = 8) : (tensor<16xf32, #I>) -> tensor<8xf32, #I>
  // expected-error@below {{'aten.mul' op mixes I and V on axis "tp": 'other' carries a gradient}}
  %3 = aten.mul(%x, %2) : (tensor<4x8xf32, #V>, tensor<8xf32, #I>) -> tensor<4x8xf32, #V>
  return %3 : tensor<4x8xf32, #V>
}

// The parameter of a convert is I for all I know; its result is not, and what is declared is checked.
func.func @declared(
    // expected-note@below {{'self' is argument 0}}
    %w: tensor<8xf32, #I> {train.role = #train.role<parameter "w">}) -> tensor<8xf32, #R> {
  // expected-error@below {{'aten.relu' op produces I on axis "tp", found R declared for result 0; declare I and insert dist.convert from I to R}}
  %0 = aten.relu(%w) : (tensor<8xf32, #I>) -> tensor<8xf32, #R>
  return %0 : tensor<8xf32, #R>
}

// What each rank would use in its own way has to be said where it begins.
func.func @declared_replicated(
    // expected-note@below {{'other' is argument 0}}
    %w: tensor<8xf32, #I> {train.role = #train.role<parameter "w">},
    // expected-note@below {{'self' is argument 1}}
    %x: tensor<4x8xf32, #R>) -> tensor<4x8xf32, #R> {
  // expected-error@below {{'aten.mul' op produces I on axis "tp", found R declared for result 0; declare I and insert dist.convert from I to R}}
  %0 = aten.mul(%x, %w) : (tensor<4x8xf32, #R>, tensor<8xf32, #I>) -> tensor<4x8xf32, #R>
  return %0 : tensor<4x8xf32, #R>
}
