// RUN: cleave-opt %s --check-spmd-types --verify-diagnostics

// Rule 4: a pending sum passes linear ops only.

#R = #dist.on<@mesh, tp = R>
#I = #dist.on<@mesh, tp = I>
#P = #dist.on<@mesh, tp = P>
#M = #dist.on<@mesh, tp = P(max)>
#V = #dist.on<@mesh, tp = V>
#S0 = #dist.on<@mesh, tp = S(0)>
#S1 = #dist.on<@mesh, tp = S(1)>

dist.mesh @mesh ["tp" = 2]

// The bias of a row-parallel layer, added to terms of a sum.
func.func @bias_of_row_parallel(
    %x: tensor<4x8xf32, #S1>,
    %w: tensor<8x8xf32, #S0>,
    // expected-note@below {{'other' is argument 2: 'tensor<8xf32, #dist.on<@mesh, tp = R>>'}}
    %bias: tensor<8xf32, #R>) -> tensor<4x8xf32, #P> {
  // expected-note@below {{'self' is made by 'aten.mm': 'tensor<4x8xf32, #dist.on<@mesh, tp = P>>'}}
  %0 = aten.mm(%x, %w) : (tensor<4x8xf32, #S1>, tensor<8x8xf32, #S0>) -> tensor<4x8xf32, #P>
  // expected-error@below {{'aten.add' op adds P and R on axis "tp": 'other' would be added once per rank; reduce 'self' first (dist.all_reduce sum from P to R), or insert dist.convert of 'other' from R to P; operands are 'tensor<4x8xf32, #dist.on<@mesh, tp = P>>', 'tensor<8xf32, #dist.on<@mesh, tp = R>>'}}
  %1 = aten.add(%0, %bias) : (tensor<4x8xf32, #P>, tensor<8xf32, #R>) -> tensor<4x8xf32, #P>
  return %1 : tensor<4x8xf32, #P>
}

// The same in one op.
func.func @bias_of_row_parallel_addmm(
    // expected-note@below {{'self' is argument 0}}
    %bias: tensor<8xf32, #I>,
    // expected-note@below {{'mat1' is argument 1}}
    %x: tensor<4x8xf32, #S1>,
    %w: tensor<8x8xf32, #S0>) -> tensor<4x8xf32, #P> {
  // expected-error@below {{'aten.addmm' op adds I to a product that is P on axis "tp", as dimension 1 of 'mat1' is sharded and summed: 'self' would be added once per rank; reduce the product's sum before adding 'self' (dist.all_reduce sum from P to R), or insert dist.convert of 'self' from I to P}}
  %0 = aten.addmm(%bias, %x, %w) : (tensor<8xf32, #I>, tensor<4x8xf32, #S1>, tensor<8x8xf32, #S0>) -> tensor<4x8xf32, #P>
  return %0 : tensor<4x8xf32, #P>
}

func.func @product_of_partials(
    // expected-note@below {{'self' is argument 0}}
    %a: tensor<4x8xf32, #P>,
    // expected-note@below {{'other' is argument 1}}
    %b: tensor<4x8xf32, #P>) -> tensor<4x8xf32, #P> {
  // expected-error@below {{'aten.mul' op multiplies P by P on axis "tp" ('self' and 'other'): the product of two sums is not the sum of the products; reduce 'self' first (dist.all_reduce sum from P to R)}}
  %0 = aten.mul(%a, %b) : (tensor<4x8xf32, #P>, tensor<4x8xf32, #P>) -> tensor<4x8xf32, #P>
  return %0 : tensor<4x8xf32, #P>
}

// P times itself is no better, and has one origin for two operands.
// expected-note@below {{'self' is argument 0}}
// expected-note@below {{'other' is argument 0}}
func.func @square(%a: tensor<4x8xf32, #P>) -> tensor<4x8xf32, #P> {
  // expected-error@below {{'aten.mul' op multiplies P by P}}
  %0 = aten.mul(%a, %a) : (tensor<4x8xf32, #P>, tensor<4x8xf32, #P>) -> tensor<4x8xf32, #P>
  return %0 : tensor<4x8xf32, #P>
}

func.func @nonlinear(%x: tensor<4x8xf32, #S1>, %w: tensor<8x8xf32, #S0>) -> tensor<4x8xf32, #P> {
  // expected-note@below {{'self' is made by 'aten.mm'}}
  %0 = aten.mm(%x, %w) : (tensor<4x8xf32, #S1>, tensor<8x8xf32, #S0>) -> tensor<4x8xf32, #P>
  // expected-error@below {{'aten.gelu' op is not linear in 'self', which is P on axis "tp"; reduce 'self' first (dist.all_reduce sum from P to R); operands are 'tensor<4x8xf32, #dist.on<@mesh, tp = P>>'}}
  %1 = aten.gelu(%0) : (tensor<4x8xf32, #P>) -> tensor<4x8xf32, #P>
  return %1 : tensor<4x8xf32, #P>
}

func.func @divided_by_partial(
    %a: tensor<4x8xf32, #R>,
    // expected-note@below {{'other' is argument 1}}
    %b: tensor<4x8xf32, #P>) -> tensor<4x8xf32, #P> {
  // expected-error@below {{'aten.div' op is not linear in 'other', which is P on axis "tp"}}
  %0 = aten.div(%a, %b) : (tensor<4x8xf32, #R>, tensor<4x8xf32, #P>) -> tensor<4x8xf32, #P>
  return %0 : tensor<4x8xf32, #P>
}

// Adding a number adds it on each rank.
// expected-note@below {{'self' is argument 0}}
func.func @plus_number(%a: tensor<4x8xf32, #P>) -> tensor<4x8xf32, #P> {
  // expected-error@below {{'aten.add_scalar' op is not linear in 'self', which is P on axis "tp"}}
  %0 = aten.add_scalar(%a, other = 1.0) : (tensor<4x8xf32, #P>) -> tensor<4x8xf32, #P>
  return %0 : tensor<4x8xf32, #P>
}

func.func @partial_and_shard(
    // expected-note@below {{'self' is argument 0}}
    %a: tensor<4x8xf32, #P>,
    // expected-note@below {{'other' is argument 1}}
    %b: tensor<4x8xf32, #S1>) -> tensor<4x8xf32, #S1> {
  // expected-error@below {{'aten.add' op joins P and S(1) on axis "tp" ('self' and 'other'): each rank would combine its term with different data; insert dist.reduce_scatter sum dim 1 of 'self' from P to S(1)}}
  %0 = aten.add(%a, %b) : (tensor<4x8xf32, #P>, tensor<4x8xf32, #S1>) -> tensor<4x8xf32, #S1>
  return %0 : tensor<4x8xf32, #S1>
}

func.func @partial_and_varying(
    // expected-note@below {{'self' is argument 0}}
    %a: tensor<4x8xf32, #P>,
    // expected-note@below {{'other' is argument 1}}
    %b: tensor<4x8xf32, #V>) -> tensor<4x8xf32, #V> {
  // expected-error@below {{'aten.mul' op joins P and V on axis "tp" ('self' and 'other'): each rank would combine its term with different data; reduce 'self' first (dist.all_reduce sum from P to R)}}
  %0 = aten.mul(%a, %b) : (tensor<4x8xf32, #P>, tensor<4x8xf32, #V>) -> tensor<4x8xf32, #V>
  return %0 : tensor<4x8xf32, #V>
}

// Other pending reductions pass views only, and do not mix with sums.
func.func @maximum(
    // expected-note@below {{'self' is argument 0}}
    %a: tensor<4x8xf32, #M>,
    // expected-note@below {{'other' is argument 1}}
    %b: tensor<4x8xf32, #P>) -> tensor<4x8xf32, #M> {
  %0 = aten.view(%a, size = [8, 4]) : (tensor<4x8xf32, #M>) -> tensor<8x4xf32, #M>
  // expected-error@below {{'aten.mul_scalar' op computes with 'self', which is P(max) on axis "tp" and passes through views only; reduce 'self' first (dist.all_reduce max from P(max) to R)}}
  %1 = aten.mul_scalar(%a, other = -1.0) : (tensor<4x8xf32, #M>) -> tensor<4x8xf32, #M>
  // expected-error@below {{'aten.add' op joins P(max) and P on axis "tp" ('self' and 'other'); reduce 'self' first (dist.all_reduce max from P(max) to R)}}
  %2 = aten.add(%a, %b) : (tensor<4x8xf32, #M>, tensor<4x8xf32, #P>) -> tensor<4x8xf32, #M>
  return %1 : tensor<4x8xf32, #M>
}

// The sum that is there, and not declared; and the one that is declared, and not there.
func.func @missing_all_reduce(
    // expected-note@below {{'self' is argument 0}}
    %x: tensor<4x8xf32, #S1>,
    // expected-note@below {{'mat2' is argument 1}}
    %w: tensor<8x8xf32, #S0>) -> tensor<4x8xf32, #R> {
  // expected-error@below {{'aten.mm' op produces P on axis "tp", found R declared for result 0; declare P and insert dist.all_reduce sum from P to R; the result is 'tensor<4x8xf32, #dist.on<@mesh, tp = R>>', operands are 'tensor<4x8xf32, #dist.on<@mesh, tp = S(1)>>', 'tensor<8x8xf32, #dist.on<@mesh, tp = S(0)>>'}}
  %0 = aten.mm(%x, %w) : (tensor<4x8xf32, #S1>, tensor<8x8xf32, #S0>) -> tensor<4x8xf32, #R>
  return %0 : tensor<4x8xf32, #R>
}

// expected-note@below {{'self' is argument 0}}
func.func @invented_sum(%x: tensor<4x8xf32, #R>) -> tensor<4x8xf32, #R> {
  // expected-error@below {{'aten.relu' op produces R on axis "tp", found P declared for result 0; declare R and insert dist.convert from R to P}}
  %0 = aten.relu(%x) : (tensor<4x8xf32, #R>) -> tensor<4x8xf32, #P>
  %1 = dist.all_reduce sum(%0) over @mesh ["tp"] : tensor<4x8xf32, #P> -> tensor<4x8xf32, #R>
  return %1 : tensor<4x8xf32, #R>
}
