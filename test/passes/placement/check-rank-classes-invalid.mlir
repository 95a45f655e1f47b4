// RUN: cleave-opt %s --split-input-file --check-spmd-types --verify-diagnostics

// Classes of ranks have functions of their own, which have to be one program.

// A value that is R, in the size of a shard.
#S0 = #dist.on<@mesh, tp = S(0)>
#R = #dist.on<@mesh, tp = R>
#P = #dist.on<@mesh, tp = P>
dist.mesh @mesh ["tp" = 2]
func.func @m0(%w: tensor<3xf64, #S0> {train.role = #train.role<parameter "w">}) -> (tensor<f64, #P> {train.role = #train.role<loss>})
   attributes {train.phase = #train.phase<microbatch>, train.ranks = {tp = array<i64: 0>}} {
  %a = aten.sum(%w) : (tensor<3xf64, #S0>) -> tensor<f64, #P>
  // expected-note @+1 {{theirs is here}}
  %z = aten.ones_like(%w) : (tensor<3xf64, #S0>) -> tensor<3xf64, #R>
  %s = aten.sum(%z) : (tensor<3xf64, #R>) -> tensor<f64, #R>
  %b = aten.mul(%a, %s) : (tensor<f64, #P>, tensor<f64, #R>) -> tensor<f64, #P>
  return %b : tensor<f64, #P>
}
func.func @m1(%w: tensor<2xf64, #S0> {train.role = #train.role<parameter "w">}) -> (tensor<f64, #P> {train.role = #train.role<loss>})
   attributes {train.phase = #train.phase<microbatch>, train.ranks = {tp = array<i64: 1>}} {
  %a = aten.sum(%w) : (tensor<2xf64, #S0>) -> tensor<f64, #P>
  // expected-error @+1 {{'aten.ones_like' op produces 'tensor<2xf64, #dist.on<@mesh, tp = R>>', but 'tensor<3xf64, #dist.on<@mesh, tp = R>>' on other ranks: only the sizes of sharded dimensions may differ}}
  %z = aten.ones_like(%w) : (tensor<2xf64, #S0>) -> tensor<2xf64, #R>
  %s = aten.sum(%z) : (tensor<2xf64, #R>) -> tensor<f64, #R>
  %b = aten.mul(%a, %s) : (tensor<f64, #P>, tensor<f64, #R>) -> tensor<f64, #P>
  return %b : tensor<f64, #P>
}

// -----

// A constant that is not the same.
#S0 = #dist.on<@mesh, tp = S(0)>
#R = #dist.on<@mesh, tp = R>
#P = #dist.on<@mesh, tp = P>
dist.mesh @mesh ["tp" = 2]
func.func @m0(%w: tensor<3xf64, #S0> {train.role = #train.role<parameter "w">}) -> (tensor<f64, #P> {train.role = #train.role<loss>})
   attributes {train.phase = #train.phase<microbatch>, train.ranks = {tp = array<i64: 0>}} {
  %a = aten.sum(%w) : (tensor<3xf64, #S0>) -> tensor<f64, #P>
  // expected-note @+1 {{what other ranks compute is here}}
  %s = aten.full(size = [], fill_value = 1.0, dtype = f64) : () -> tensor<f64, #R>
  %b = aten.mul(%a, %s) : (tensor<f64, #P>, tensor<f64, #R>) -> tensor<f64, #P>
  return %b : tensor<f64, #P>
}
func.func @m1(%w: tensor<2xf64, #S0> {train.role = #train.role<parameter "w">}) -> (tensor<f64, #P> {train.role = #train.role<loss>})
   attributes {train.phase = #train.phase<microbatch>, train.ranks = {tp = array<i64: 1>}} {
  %a = aten.sum(%w) : (tensor<2xf64, #S0>) -> tensor<f64, #P>
  // expected-error @+1 {{'aten.full' op has fill_value = 2.000000e+00 : f64, but 1.000000e+00 : f64 on other ranks}}
  %s = aten.full(size = [], fill_value = 2.0, dtype = f64) : () -> tensor<f64, #R>
  %b = aten.mul(%a, %s) : (tensor<f64, #P>, tensor<f64, #R>) -> tensor<f64, #P>
  return %b : tensor<f64, #P>
}

// -----

// Ranks would reduce what is not of one size.
#S0 = #dist.on<@mesh, tp = S(0)>
#R = #dist.on<@mesh, tp = R>
#P = #dist.on<@mesh, tp = P>
dist.mesh @mesh ["tp" = 2]
func.func @m0(%w: tensor<3xf64, #S0> {train.role = #train.role<parameter "w">}) -> (tensor<f64, #P> {train.role = #train.role<loss>})
   attributes {train.phase = #train.phase<microbatch>, train.ranks = {tp = array<i64: 0>}} {
  %a = aten.sum(%w) : (tensor<3xf64, #S0>) -> tensor<f64, #P>
  // expected-note @+1 {{theirs is here}}
  %z = aten.ones_like(%w) : (tensor<3xf64, #S0>) -> tensor<3xf64, #R>
  %p = dist.convert %z : tensor<3xf64, #R> -> tensor<3xf64, #P>
  %q = dist.all_reduce sum(%p) over @mesh ["tp"] : tensor<3xf64, #P> -> tensor<3xf64, #R>
  %s = aten.sum(%q) : (tensor<3xf64, #R>) -> tensor<f64, #R>
  %b = aten.mul(%a, %s) : (tensor<f64, #P>, tensor<f64, #R>) -> tensor<f64, #P>
  return %b : tensor<f64, #P>
}
func.func @m1(%w: tensor<2xf64, #S0> {train.role = #train.role<parameter "w">}) -> (tensor<f64, #P> {train.role = #train.role<loss>})
   attributes {train.phase = #train.phase<microbatch>, train.ranks = {tp = array<i64: 1>}} {
  %a = aten.sum(%w) : (tensor<2xf64, #S0>) -> tensor<f64, #P>
  // expected-error @+1 {{'aten.ones_like' op produces 'tensor<2xf64, #dist.on<@mesh, tp = R>>', but 'tensor<3xf64, #dist.on<@mesh, tp = R>>' on other ranks}}
  %z = aten.ones_like(%w) : (tensor<2xf64, #S0>) -> tensor<2xf64, #R>
  %p = dist.convert %z : tensor<2xf64, #R> -> tensor<2xf64, #P>
  %q = dist.all_reduce sum(%p) over @mesh ["tp"] : tensor<2xf64, #P> -> tensor<2xf64, #R>
  %s = aten.sum(%q) : (tensor<2xf64, #R>) -> tensor<f64, #R>
  %b = aten.mul(%a, %s) : (tensor<f64, #P>, tensor<f64, #R>) -> tensor<f64, #P>
  return %b : tensor<f64, #P>
}

// -----

// Another op.
#S0 = #dist.on<@mesh, tp = S(0)>
#R = #dist.on<@mesh, tp = R>
#P = #dist.on<@mesh, tp = P>
dist.mesh @mesh ["tp" = 2]
func.func @m0(%w: tensor<3xf64, #S0> {train.role = #train.role<parameter "w">}) -> (tensor<f64, #P> {train.role = #train.role<loss>})
   attributes {train.phase = #train.phase<microbatch>, train.ranks = {tp = array<i64: 0>}} {
  %a = aten.sum(%w) : (tensor<3xf64, #S0>) -> tensor<f64, #P>
  %s = aten.full(size = [], fill_value = 2.0, dtype = f64) : () -> tensor<f64, #R>
  // expected-note @+1 {{what other ranks compute is here}}
  %b = aten.mul(%a, %s) : (tensor<f64, #P>, tensor<f64, #R>) -> tensor<f64, #P>
  return %b : tensor<f64, #P>
}
func.func @m1(%w: tensor<2xf64, #S0> {train.role = #train.role<parameter "w">}) -> (tensor<f64, #P> {train.role = #train.role<loss>})
   attributes {train.phase = #train.phase<microbatch>, train.ranks = {tp = array<i64: 1>}} {
  %a = aten.sum(%w) : (tensor<2xf64, #S0>) -> tensor<f64, #P>
  %s = aten.full(size = [], fill_value = 2.0, dtype = f64) : () -> tensor<f64, #R>
  // expected-error @+1 {{'aten.div' op is where other ranks run 'aten.mul'}}
  %b = aten.div(%a, %s) : (tensor<f64, #P>, tensor<f64, #R>) -> tensor<f64, #P>
  return %b : tensor<f64, #P>
}

// -----

// Ranks would gather elements of different types.
#S0 = #dist.on<@mesh, tp = S(0)>
#R = #dist.on<@mesh, tp = R>
#P = #dist.on<@mesh, tp = P>
dist.mesh @mesh ["tp" = 2]
// expected-note @+1 {{what other ranks compute is here}}
func.func @m0(%w: tensor<3xf64, #S0> {train.role = #train.role<parameter "w">}) -> (tensor<f64, #P> {train.role = #train.role<loss>})
   attributes {train.phase = #train.phase<microbatch>, train.ranks = {tp = array<i64: 0>}} {
  %a = aten.sum(%w) : (tensor<3xf64, #S0>) -> tensor<f64, #P>
  %c = aten._to_copy(%w, dtype = f64) : (tensor<3xf64, #S0>) -> tensor<3xf64, #S0>
  %g = dist.all_gather(%c) dim 0 over @mesh ["tp"] : tensor<3xf64, #S0> -> tensor<5xf64, #R>
  %d = aten._to_copy(%g, dtype = f64) : (tensor<5xf64, #R>) -> tensor<5xf64, #R>
  %s = aten.sum(%d) : (tensor<5xf64, #R>) -> tensor<f64, #R>
  %b = aten.mul(%a, %s) : (tensor<f64, #P>, tensor<f64, #R>) -> tensor<f64, #P>
  return %b : tensor<f64, #P>
}
func.func @m1(%w: tensor<2xf64, #S0> {train.role = #train.role<parameter "w">}) -> (tensor<f64, #P> {train.role = #train.role<loss>})
   attributes {train.phase = #train.phase<microbatch>, train.ranks = {tp = array<i64: 1>}} {
  %a = aten.sum(%w) : (tensor<2xf64, #S0>) -> tensor<f64, #P>
  %c = aten._to_copy(%w, dtype = f32) : (tensor<2xf64, #S0>) -> tensor<2xf32, #S0>
  // expected-error @+1 {{'dist.all_gather' op uses another value than on other ranks, where it is argument 0}}
  %g = dist.all_gather(%c) dim 0 over @mesh ["tp"] : tensor<2xf32, #S0> -> tensor<5xf32, #R>
  %d = aten._to_copy(%g, dtype = f64) : (tensor<5xf32, #R>) -> tensor<5xf64, #R>
  %s = aten.sum(%d) : (tensor<5xf64, #R>) -> tensor<f64, #R>
  %b = aten.mul(%a, %s) : (tensor<f64, #P>, tensor<f64, #R>) -> tensor<f64, #P>
  return %b : tensor<f64, #P>
}

// -----

// The gathered value is one thing, of one size.
#S0 = #dist.on<@mesh, tp = S(0)>
#R = #dist.on<@mesh, tp = R>
#P = #dist.on<@mesh, tp = P>
dist.mesh @mesh ["tp" = 2]
func.func @m0(%w: tensor<3xf64, #S0> {train.role = #train.role<parameter "w">}) -> (tensor<f64, #P> {train.role = #train.role<loss>})
   attributes {train.phase = #train.phase<microbatch>, train.ranks = {tp = array<i64: 0>}} {
  %a = aten.sum(%w) : (tensor<3xf64, #S0>) -> tensor<f64, #P>
  // expected-note @+1 {{theirs is here}}
  %g = dist.all_gather(%w) dim 0 over @mesh ["tp"] : tensor<3xf64, #S0> -> tensor<5xf64, #R>
  %s = aten.sum(%g) : (tensor<5xf64, #R>) -> tensor<f64, #R>
  %b = aten.mul(%a, %s) : (tensor<f64, #P>, tensor<f64, #R>) -> tensor<f64, #P>
  return %b : tensor<f64, #P>
}
func.func @m1(%w: tensor<2xf64, #S0> {train.role = #train.role<parameter "w">}) -> (tensor<f64, #P> {train.role = #train.role<loss>})
   attributes {train.phase = #train.phase<microbatch>, train.ranks = {tp = array<i64: 1>}} {
  %a = aten.sum(%w) : (tensor<2xf64, #S0>) -> tensor<f64, #P>
  // expected-error @+1 {{'dist.all_gather' op produces 'tensor<4xf64, #dist.on<@mesh, tp = R>>', but 'tensor<5xf64, #dist.on<@mesh, tp = R>>' on other ranks}}
  %g = dist.all_gather(%w) dim 0 over @mesh ["tp"] : tensor<2xf64, #S0> -> tensor<4xf64, #R>
  %s = aten.sum(%g) : (tensor<4xf64, #R>) -> tensor<f64, #R>
  %b = aten.mul(%a, %s) : (tensor<f64, #P>, tensor<f64, #R>) -> tensor<f64, #P>
  return %b : tensor<f64, #P>
}

// -----

// Reduced to what has another gradient.
#S0 = #dist.on<@mesh, tp = S(0)>
#R = #dist.on<@mesh, tp = R>
#I = #dist.on<@mesh, tp = I>
#P = #dist.on<@mesh, tp = P>
dist.mesh @mesh ["tp" = 2]
func.func @m0(%w: tensor<3xf64, #S0> {train.role = #train.role<parameter "w">}) -> (tensor<f64, #P> {train.role = #train.role<loss>})
   attributes {train.phase = #train.phase<microbatch>, train.ranks = {tp = array<i64: 0>}} {
  %a = aten.sum(%w) : (tensor<3xf64, #S0>) -> tensor<f64, #P>
  // expected-note @+1 {{theirs is here}}
  %q = dist.all_reduce sum(%a) over @mesh ["tp"] : tensor<f64, #P> -> tensor<f64, #R>
  %b = dist.convert %q : tensor<f64, #R> -> tensor<f64, #P>
  return %b : tensor<f64, #P>
}
func.func @m1(%w: tensor<2xf64, #S0> {train.role = #train.role<parameter "w">}) -> (tensor<f64, #P> {train.role = #train.role<loss>})
   attributes {train.phase = #train.phase<microbatch>, train.ranks = {tp = array<i64: 1>}} {
  %a = aten.sum(%w) : (tensor<2xf64, #S0>) -> tensor<f64, #P>
  // expected-error @+1 {{'dist.all_reduce' op produces 'tensor<f64, #dist.on<@mesh, tp = I>>', but 'tensor<f64, #dist.on<@mesh, tp = R>>' on other ranks}}
  %q = dist.all_reduce sum(%a) over @mesh ["tp"] : tensor<f64, #P> -> tensor<f64, #I>
  %b = dist.convert %q : tensor<f64, #I> -> tensor<f64, #P>
  return %b : tensor<f64, #P>
}
