// RUN: cleave-opt %s --split-input-file --verify-diagnostics

// 1.
// expected-error @+1 {{expects a placement (#dist.on) for 'dist.placement' of argument 0, found "R"}}
func.func @f(%x: tensor<4xf32> {dist.placement = "R"}) {
  return
}

// -----

// expected-error @+1 {{expects a placement (#dist.on) for 'dist.placement' of result 0, found unit}}
func.func @f(%x: tensor<4xf32>) -> (tensor<4xf32> {dist.placement}) {
  return %x : tensor<4xf32>
}

// -----

// expected-error @+1 {{expects 'dist.placement' on tensors only, found argument 1 of type 'i64'}}
func.func @f(%x: tensor<4xf32>, %i: i64 {dist.placement = #dist.on<@mesh, dp = R>}) {
  return
}

// -----

func.func @f(%x: tensor<4xf32>) {
  // expected-error @+1 {{expects 'dist.placement' on arguments and results of functions only; ops have 'dist.operands' and 'dist.results'}}
  %0 = aten.relu(%x) {dist.placement = #dist.on<@mesh, dp = R>} : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

// expected-error @+1 {{unknown attribute 'dist.placements'}}
func.func @f(%x: tensor<4xf32> {dist.placements = #dist.on<@mesh, dp = R>}) {
  return
}

// -----

// expected-error @+1 {{unknown attribute 'dist.place'}}
func.func private @f() -> (tensor<4xf32> {dist.place = #dist.on<@mesh, dp = R>})

// -----

// 2.
func.func @f(%x: tensor<4xf32>) {
  // expected-error @+1 {{expects a list for 'dist.operands', found #dist.on<@mesh, dp = R>}}
  %0 = aten.relu(%x) {dist.operands = #dist.on<@mesh, dp = R>} : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @f(%x: tensor<4xf32>) {
  // expected-error @+1 {{expects 1 entries in 'dist.operands', one for each operand, found 2}}
  %0 = aten.relu(%x) {dist.operands = [unit, unit]} : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @f(%x: tensor<4xf32>) {
  // expected-error @+1 {{expects 1 entries in 'dist.results', one for each result, found 0}}
  %0 = aten.relu(%x) {dist.results = []} : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @f(%x: tensor<4xf32>) {
  // expected-error @+1 {{expects a placement (#dist.on) or unit for result 0 in 'dist.results', found "S(0)"}}
  %0 = aten.relu(%x) {dist.operands = [unit], dist.results = ["S(0)"]} : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @f(%x: tensor<4xf32>) {
  // expected-error @+1 {{unknown attribute 'dist.result'}}
  %0 = aten.relu(%x) {dist.result = [unit]} : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

// 3.
func.func @f(%x: tensor<4xf32>) {
  // expected-error @+1 {{expects a list of sizes (array<i64>) for 'dist.whole_shape', found [4]}}
  %0 = aten.relu(%x) {dist.whole_shape = [4]} : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @f(%x: tensor<4xf32>) {
  // expected-error @+1 {{expects a list of sizes (array<i64>) for 'dist.whole_shape', found array<i64: -4>}}
  %0 = aten.relu(%x) {dist.whole_shape = array<i64: -4>} : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @f(%x: tensor<4xf32>, %i: tensor<2xi64>) {
  // expected-error @+1 {{expects a positive number of parts (i64) for 'dist.parts', found 0 : i64}}
  %0 = aten.index(%x, [%i]) {dist.parts = 0 : i64} : (tensor<4xf32>, tensor<2xi64>) -> tensor<2xf32>
  return
}

// -----

func.func @f(%x: tensor<4xf32>) {
  // expected-error @+1 {{expects 'dist.parts' on aten.index_put, aten.index and aten._grouped_mm only}}
  %0 = aten.relu(%x) {dist.parts = 2 : i64} : (tensor<4xf32>) -> tensor<4xf32>
  return
}
