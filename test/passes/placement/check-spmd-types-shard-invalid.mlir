// RUN: cleave-opt %s --check-spmd-types --verify-diagnostics

// Rule 1: shards have to fit the op's sharding rule.

#R = #dist.on<@mesh, dp = R, tp = R>
#V = #dist.on<@mesh, dp = R, tp = V>
#S0 = #dist.on<@mesh, dp = R, tp = S(0)>
#S1 = #dist.on<@mesh, dp = R, tp = S(1)>
#S01 = #dist.on<@mesh, dp = S(0, 0), tp = S(0, 1)>
#S10 = #dist.on<@mesh, dp = S(0, 1), tp = S(0, 0)>

dist.mesh @mesh ["dp" = 2, "tp" = 2]

// expected-note@below {{'self' is argument 0}}
func.func @whole_dimension(%x: tensor<4x8xf32, #S1>) -> tensor<4x8xf32, #S1> {
  // expected-error@below {{'aten._softmax' op needs dimension 1 of 'self' whole, which is sharded on axis "tp", because}}
  %0 = aten._softmax(%x, dim = 1, half_to_float = false) : (tensor<4x8xf32, #S1>) -> tensor<4x8xf32, #S1>
  return %0 : tensor<4x8xf32, #S1>
}

func.func @other_operand_is_whole(
    // expected-note@below {{'self' is argument 0}}
    %x: tensor<4x8xf32, #S1>,
    // expected-note@below {{'mat2' is argument 1}}
    %w: tensor<8x8xf32, #R>) -> tensor<4x8xf32, #R> {
  // expected-error@below {{'aten.mm' op has dimension 1 of 'self' sharded on axis "tp", but not dimension 0 of 'mat2', which corresponds to it; shard both, or gather 'self' first (dist.all_gather dim 1 from S(1) to R)}}
  %0 = aten.mm(%x, %w) : (tensor<4x8xf32, #S1>, tensor<8x8xf32, #R>) -> tensor<4x8xf32, #R>
  return %0 : tensor<4x8xf32, #R>
}

func.func @dimensions_that_do_not_correspond(
    // expected-note@below {{'self' is argument 0}}
    %x: tensor<4x8xf32, #S0>,
    // expected-note@below {{'mat2' is argument 1}}
    %w: tensor<8x8xf32, #S1>) -> tensor<4x8xf32, #S0> {
  // expected-error@below {{'aten.mm' op has dimension 0 of 'self' and dimension 1 of 'mat2' sharded on axis "tp", which do not correspond; gather 'self' first (dist.all_gather dim 0 from S(0) to R)}}
  %0 = aten.mm(%x, %w) : (tensor<4x8xf32, #S0>, tensor<8x8xf32, #S1>) -> tensor<4x8xf32, #S0>
  return %0 : tensor<4x8xf32, #S0>
}

// expected-note@below {{'self' is argument 0}}
func.func @inner_part(%x: tensor<4x8xf32, #S1>) -> tensor<32xf32, #S0> {
  // expected-error@below {{'aten.view' op would make dimension 1 of 'self', sharded on axis "tp", the inner part of a dimension of result 0, whose shards are not contiguous; gather 'self' first (dist.all_gather dim 1 from S(1) to R), or move it in front}}
  %0 = aten.view(%x, size = [32]) : (tensor<4x8xf32, #S1>) -> tensor<32xf32, #S0>
  return %0 : tensor<32xf32, #S0>
}

func.func @orders(
    // expected-note@below {{'self' is argument 0}}
    %x: tensor<4x8xf32, #S01>,
    // expected-note@below {{'other' is argument 1}}
    %y: tensor<4x8xf32, #S10>) -> tensor<4x8xf32, #S01> {
  // expected-error@below {{'aten.add' op has 'self' and 'other' sharded by axis "dp" and another one in orders that do not agree}}
  %0 = aten.add(%x, %y) : (tensor<4x8xf32, #S01>, tensor<4x8xf32, #S10>) -> tensor<4x8xf32, #S01>
  return %0 : tensor<4x8xf32, #S01>
}

// expected-note@below {{'self' is argument 0}}
func.func @order_of_result(%x: tensor<4x8xf32, #S01>) -> tensor<4x8xf32, #S10> {
  // expected-error@below {{'aten.relu' op produces S(0, 0) on axis "dp", found S(0, 1) declared for result 0; the result is}}
  %0 = aten.relu(%x) : (tensor<4x8xf32, #S01>) -> tensor<4x8xf32, #S10>
  return %0 : tensor<4x8xf32, #S10>
}

// expected-note@below {{'self' is argument 0}}
func.func @other_dimension(%x: tensor<8x8xf32, #S0>) -> tensor<8x8xf32, #S0> {
  // expected-error@below {{'aten.t' op produces S(1) on axis "tp", found S(0) declared for result 0; declare S(1) and insert dist.all_to_all split 0 concat 1 from S(1) to S(0)}}
  %0 = aten.t(%x) : (tensor<8x8xf32, #S0>) -> tensor<8x8xf32, #S0>
  return %0 : tensor<8x8xf32, #S0>
}

// V where S would do is not silent, nor the other way round.
// expected-note@below {{'self' is argument 0}}
func.func @forgotten(%x: tensor<4x8xf32, #S0>) -> tensor<4x8xf32, #V> {
  // expected-error@below {{'aten.relu' op produces S(0) on axis "tp", found V declared for result 0; declare S(0) and insert dist.reinterpret from S(0) to V}}
  %0 = aten.relu(%x) : (tensor<4x8xf32, #S0>) -> tensor<4x8xf32, #V>
  return %0 : tensor<4x8xf32, #V>
}

func.func @remembered(
    // expected-note@below {{'self' is argument 0}}
    %x: tensor<4x8xf32, #V>,
    // expected-note@below {{'other' is argument 1}}
    %y: tensor<4x8xf32, #S0>) -> tensor<4x8xf32, #S0> {
  // expected-error@below {{'aten.add' op produces V on axis "tp", found S(0) declared for result 0; declare V and insert dist.reinterpret from V to S(0)}}
  %0 = aten.add(%x, %y) : (tensor<4x8xf32, #V>, tensor<4x8xf32, #S0>) -> tensor<4x8xf32, #S0>
  return %0 : tensor<4x8xf32, #S0>
}

// Constants are R or I, ranks along an axis have them all.
func.func @constant() -> tensor<4xf32, #S0> {
  // expected-error@below {{'aten.full' op produces I on axis "tp", found S(0) declared for result 0; declare I and insert dist.convert from I to S(0)}}
  %0 = aten.full(size = [4], fill_value = 1.0) : () -> tensor<4xf32, #S0>
  return %0 : tensor<4xf32, #S0>
}

// Of what only the schema is known, nothing may be sharded.
// expected-note@below {{'self' is argument 0}}
func.func @call(%x: tensor<4x8xf32, #S0>) -> tensor<4x8xf32, #S0> {
  // expected-error@below {{'aten.call' op calling 'aten::erfinv' needs dimension 0 of 'self' whole, which is sharded on axis "tp", because Cleave knows only its schema; gather 'self' first}}
  %0 = aten.call "aten::erfinv"(self = %x) : (tensor<4x8xf32, #S0>) -> tensor<4x8xf32, #S0>
  return %0 : tensor<4x8xf32, #S0>
}
