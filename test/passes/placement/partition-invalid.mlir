// RUN: cleave-opt %s --partition --split-input-file --verify-diagnostics

// expected-error @+1 {{expects a program with placements on one mesh, found no placements}}
module {
  func.func @f(%x: tensor<4xf32>) -> tensor<4xf32> {
    return %x : tensor<4xf32>
  }
}

// -----

#R = #dist.on<@mesh, tp = R>
// expected-error @+1 {{expects a program with placements on one mesh, found no mesh}}
module {
  func.func @f(%x: tensor<4xf32> {dist.placement = #R}) {
    return
  }
}

// -----

#R = #dist.on<@mesh, tp = R>
// expected-error @+1 {{expects a known size of axis "tp" for --partition: local shapes depend on it, found '?'}}
dist.mesh @mesh ["tp" = ?]
func.func @f(%x: tensor<4xf32> {dist.placement = #R}) {
  return
}

// -----

#R = #dist.on<@mesh, dp = R>
dist.mesh @mesh ["dp" = 2, "tp" = 2]
// expected-error @+1 {{'f' argument 0 has no placement on axis "tp", only #dist.on<@mesh, dp = R>; run --propagate-placements first}}
func.func @f(%x: tensor<4xf32> {dist.placement = #R}) {
  return
}

// -----

#R = #dist.on<@mesh, tp = R>
dist.mesh @mesh ["tp" = 2]
// expected-error @+1 {{'f' argument 1 has no placement; run --propagate-placements first}}
func.func @f(%x: tensor<4xf32> {dist.placement = #R}, %y: tensor<4xf32>) {
  return
}

// -----

#R = #dist.on<@mesh, tp = R>
dist.mesh @mesh ["tp" = 2]
// expected-error @+2 {{'f' argument 1 has no placement; run --propagate-placements first}}
// expected-note @+1 {{neither have 2 more arguments and results of the program}}
func.func @f(%x: tensor<4xf32> {dist.placement = #R}, %y: tensor<4xf32>, %z: tensor<4xf32>) -> tensor<4xf32> {
  return %y : tensor<4xf32>
}

// -----

#I = #dist.on<@mesh, tp = I>
dist.mesh @mesh ["tp" = 2]
// expected-error @+1 {{'f' argument 0 is placed as I on axis "tp", expected R, P or S(d) in a single-device program}}
func.func @f(%x: tensor<4xf32> {dist.placement = #I}) {
  return
}

// -----

#S = #dist.on<@mesh, dp = S(0, 0), tp = S(0, 1)>
dist.mesh @mesh ["dp" = 2, "tp" = 4]
func.func @f(
// expected-error @+1 {{'f' argument 0, #train.role<parameter "w">, has dimension 0 of size 12 sharded on axis "tp", whose 4 ranks do not divide the 6 that the axes before it leave; several axes need shards of the same size}}
    %x: tensor<12xf32> {train.role = #train.role<parameter "w">, dist.placement = #S}) {
  return
}

// -----

#R = #dist.on<@mesh, tp = R>
#S0 = #dist.on<@mesh, tp = S(0)>
dist.mesh @mesh ["tp" = 2]
func.func @f(%x: tensor<4x4xf32> {dist.placement = #S0}) -> (tensor<4x4xf32> {dist.placement = #R}) {
  // expected-error @+2 {{'aten._softmax' op does not run on axis "tp" with operands placed as (S(0)) and results as (R)}}
  // expected-note @+1 {{it runs as (R) to (R), (S(0)) to (S(0))}}
  %0 = aten._softmax(%x, dim = 1, half_to_float = false) {dist.operands = [#S0], dist.results = [#R]}
      : (tensor<4x4xf32>) -> tensor<4x4xf32>
  return %0 : tensor<4x4xf32>
}

// -----

#R = #dist.on<@mesh, tp = R>
dist.mesh @mesh ["tp" = 2]
func.func @f(%x: tensor<4x4xf32> {dist.placement = #R}) -> (tensor<4x4xf32> {dist.placement = #R}) {
  // expected-error @+2 {{'aten.relu' op operand 0 has no placement; run --propagate-placements first}}
  // expected-error @+1 {{'aten.relu' op result 0 has no placement; run --propagate-placements first}}
  %0 = aten.relu(%x) : (tensor<4x4xf32>) -> tensor<4x4xf32>
  return %0 : tensor<4x4xf32>
}

// -----

#R = #dist.on<@mesh, tp = R>
dist.mesh @mesh ["tp" = 2]
func.func @f(%x: tensor<4x4xf32> {dist.placement = #R}) -> (tensor<4x4xf32> {dist.placement = #R}) {
  // expected-error @+1 {{'dist.all_reduce' op communicates: expected a single-device program; --partition inserts the communication}}
  %0 = dist.all_reduce sum(%x) over @mesh ["tp"] {dist.operands = [#R], dist.results = [#R]} : tensor<4x4xf32>
  return %0 : tensor<4x4xf32>
}

// -----

#R = #dist.on<@mesh, tp = R>
#S0 = #dist.on<@mesh, tp = S(0)>
dist.mesh @mesh ["tp" = 2]
// expected-error @+1 {{'f' argument 0, #train.role<input "x" batch 0 over ["tp"]>, is divided over ["tp"] already (--sync-gradients); partition the program without that}}
func.func @f(%x: tensor<4xf32> {train.role = #train.role<input "x" batch 0 over ["tp"]>, dist.placement = #S0}) {
  return
}

// -----

#R = #dist.on<@mesh, tp = R>
#S0 = #dist.on<@mesh, tp = S(0)>
dist.mesh @mesh ["tp" = 2]
func.func @microbatch(%w: tensor<4xf32> {train.role = #train.role<parameter "w">, dist.placement = #S0})
    -> (tensor<4xf32> {train.role = #train.role<gradient "w">, dist.placement = #R})
    attributes {train.phase = #train.phase<microbatch>} {
  // expected-error @+1 {{'microbatch' result 0, #train.role<gradient "w">, is placed as R on axis "tp", expected S(0): it is the gradient of a value that is S(0)}}
  return %w : tensor<4xf32>
}

// -----

#R = #dist.on<@mesh, tp = R>
#S0 = #dist.on<@mesh, tp = S(0)>
dist.mesh @mesh ["tp" = 2]
// expected-note @+1 {{'forward' has it as argument 0}}
func.func @forward(%w: tensor<4xf32> {train.role = #train.role<parameter "w">, dist.placement = #S0})
    attributes {train.phase = #train.phase<forward>} {
  return
}
// expected-error @+1 {{'backward' argument 0, #train.role<parameter "w">, is placed as (R), expected (S(0)) as elsewhere in the program}}
func.func @backward(%w: tensor<4xf32> {train.role = #train.role<parameter "w">, dist.placement = #R})
    attributes {train.phase = #train.phase<backward>} {
  return
}

// -----

#R = #dist.on<@other, tp = R>
dist.mesh @mesh ["tp" = 2]
// expected-error @+1 {{'f' argument 0 is placed on @other, expected the program's mesh @mesh}}
func.func @f(%x: tensor<4xf32> {dist.placement = #R}) {
  return
}

// -----

#R = #dist.on<@mesh, pp = R, tp = R>
dist.mesh @mesh ["tp" = 2]
// expected-error @+1 {{'f' argument 0 is placed on axis "pp", which mesh @mesh does not have}}
func.func @f(%x: tensor<4xf32> {dist.placement = #R}) {
  return
}

// -----

#P = #dist.on<@mesh, tp = P>
dist.mesh @mesh ["tp" = 2]
// expected-error-re @+1 {{'f' argument 0 is placed as (P): {{.*}}i1}}
func.func @f(%x: tensor<4xi1> {dist.placement = #P}) {
  return
}

// -----

#S2 = #dist.on<@mesh, tp = S(2)>
dist.mesh @mesh ["tp" = 2]
// expected-error @+1 {{'f' argument 0 is placed as S(2) on axis "tp", but has 1 dimensions}}
func.func @f(%x: tensor<4xf32> {dist.placement = #S2}) {
  return
}

// -----

#R = #dist.on<@mesh, tp = R>
#S0 = #dist.on<@mesh, tp = S(0)>
dist.mesh @mesh ["tp" = 2]
func.func @f(%x: tensor<3xf32> {dist.placement = #R}) -> (tensor<3xf32> {dist.placement = #R}) {
  // expected-error @+1 {{'aten.relu' op does not run on axis "tp" with operands placed as (S(0)) and results as (S(0))}}
  %0 = aten.relu(%x) {dist.operands = [#S0], dist.results = [#S0]} : (tensor<3xf32>) -> tensor<3xf32> // expected-note {{it runs as (R) to (R)}}
  return %0 : tensor<3xf32>
}

// -----

#R = #dist.on<@mesh, tp = R>
#S0 = #dist.on<@mesh, tp = S(0)>
dist.mesh @mesh ["tp" = 2]
func.func @f(%g: tensor<4xf32> {dist.placement = #S0}, %a: tensor<4xf32> {dist.placement = #R})
    -> (tensor<4xf32> {dist.placement = #S0}) {
  // expected-error @+1 {{'train.accumulate' op takes its accumulator as (S(0)), which is made as (R); it is empty for the first microbatch, so it cannot be redistributed}}
  %0 = train.accumulate %g into %a {dist.operands = [#S0, #S0], dist.results = [#S0]} : tensor<4xf32>
  return %0 : tensor<4xf32>
}
