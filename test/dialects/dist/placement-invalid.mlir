// RUN: cleave-opt %s --split-input-file --verify-diagnostics

// expected-error @+1 {{lists axis 'dp' twice}}
func.func private @axis_twice(tensor<4xf32, #dist.on<@mesh, dp = R, dp = P>>)

// -----

// expected-error @+1 {{expected a placement: R, P, I, V or S(dimension), found 'Q'}}
func.func private @unknown_kind(tensor<4xf32, #dist.on<@mesh, dp = Q>>)

// -----

// expected-error @+1 {{expected a placement: R, P, I, V or S(dimension)}}
func.func private @no_kind(tensor<4xf32, #dist.on<@mesh, dp = 1>>)

// -----

// expected-error @+1 {{expected a pending reduction (sum, avg, max, min, product), found 'median'}}
func.func private @unknown_reduction(tensor<4xf32, #dist.on<@mesh, dp = P(median)>>)

// -----

// expected-error @+1 {{expected a pending reduction (sum, avg, max, min, product), found 'bxor'}}
func.func private @bitwise_reduction(tensor<4xi64, #dist.on<@mesh, dp = P(bxor)>>)

// -----

// expected-error @+1 {{expected a pending reduction (sum, avg, max, min, product), found 'premul_sum'}}
func.func private @premul_reduction(tensor<4xf32, #dist.on<@mesh, dp = P(premul_sum)>>)

// -----

// expected-error @+1 {{shards dimension -1; dimensions count from 0}}
func.func private @negative_dimension(tensor<4xf32, #dist.on<@mesh, dp = S(-1)>>)

// -----

// expected-error @+1 {{expected non-function type}}
func.func private @no_element_type(tensor< , #dist.on<@mesh, dp = P>>)

// -----

// expected-error @+1 {{axis 'dp' shards dimension 1 of a tensor of 1 dimensions}}
func.func private @dimension_out_of_range(tensor<4xf32, #dist.on<@mesh, dp = S(1)>>)

// -----

// expected-error @+1 {{axis 'dp' shards dimension 0 of a tensor of 0 dimensions}}
func.func private @sharded_scalar(tensor<f32, #dist.on<@mesh, dp = S(0)>>)

// -----

// expected-error @+1 {{shards dimension 0 over axes 'dp' and 'tp': give them the orders S(0, 0) to S(0, 1), major first}}
func.func private @no_order(tensor<4xf32, #dist.on<@mesh, dp = S(0), tp = S(0)>>)

// -----

// expected-error @+1 {{shards dimension 0 over axes 'dp' and 'pp' and 'tp': give them the orders S(0, 0) to S(0, 2), major first}}
func.func private @order_with_a_gap(tensor<4xf32, #dist.on<@mesh, dp = S(0, 0), tp = S(0, 3), pp = S(0, 1)>>)

// -----

// expected-error @+1 {{gives axis 'tp' order 1 on dimension 0, which no other axis shards: use S(0)}}
func.func private @order_alone(tensor<4x4xf32, #dist.on<@mesh, dp = S(1), tp = S(0, 1)>>)

// -----

// expected-error @+1 {{gives axis 'tp' order -1 on dimension 0, which no other axis shards: use S(0)}}
func.func private @negative_order(tensor<4x4xf32, #dist.on<@mesh, tp = S(0, -1)>>)

// -----

// expected-error @+1 {{has a pending 'sum' over axis 'dp' and a pending 'max' over axis 'tp', which do not commute: reduce over one axis first}}
func.func private @sum_of_max(tensor<4xf32, #dist.on<@mesh, dp = P, tp = P(max)>>)

// -----

// expected-error @+1 {{axis 'dp' has a pending 'sum', which values of type 'i1' do not have}}
func.func private @sum_of_booleans(tensor<4xi1, #dist.on<@mesh, dp = P>>)

// -----

// expected-error @+1 {{axis 'dp' has a pending 'avg', which values of type 'i64' do not have}}
func.func private @mean_of_integers(tensor<4xi64, #dist.on<@mesh, dp = P(avg)>>)

// -----

// expected-error @+1 {{expected a statically shaped tensor or none, found 'i32'}}
func.func private @future_of_integer(!dist.future<i32>)

// -----

// expected-error @+1 {{expected a statically shaped tensor or none, found 'tensor<?xf32>'}}
func.func private @future_of_dynamic_shape(!dist.future<tensor<?xf32>>)
