// RUN: cleave-opt %s --propagate-placements --partition | FileCheck %s
// RUN: sed -e 's/<philox>/<mt19937>/' %s | cleave-opt --propagate-placements --partition | FileCheck %s --check-prefix=STREAM

// With Philox a rank draws its part and nothing else; PyTorch's generator has to draw the whole.

dist.mesh @mesh ["dp" = 2, "tp" = 2]
// CHECK-LABEL: func.func @microbatch
// STREAM-LABEL: func.func @microbatch
func.func @microbatch(
    %x: tensor<4x8xf32> {dist.placement = #dist.on<@mesh, dp = S(0), tp = S(1)>, train.role = #train.role<input "x" batch 0>},
    %s: tensor<i64> {train.role = #train.role<rng_seed>},
    %o: tensor<i64> {train.role = #train.role<rng_offset>})
    -> (tensor<4x8xf32> {train.role = #train.role<output "0">}, tensor<4x8xf32> {train.role = #train.role<output "1">})
    attributes {train.draws = 128 : i64, train.phase = #train.phase<microbatch>} {
  // CHECK: aten.rng_native_dropout(%arg0, %arg1, %arg2, p = 1.000000e-01, train = true, position = 0, generator = #aten.generator<philox>) : (tensor<2x4xf32, #[[S:[a-zA-Z0-9_]+]]>, {{.*}}) -> (tensor<2x4xf32, #[[S]]>, tensor<2x4xi1, #[[S]]>)
  // STREAM: aten.rng_native_dropout({{.*}}) -> (tensor<4x8xf32, #{{[a-zA-Z0-9_]+}}>, tensor<4x8xi1, #{{[a-zA-Z0-9_]+}}>)
  %y, %m = aten.rng_native_dropout(%x, %s, %o, p = 0.1, train = true, position = 0, generator = #aten.generator<philox>)
      : (tensor<4x8xf32>, tensor<i64>, tensor<i64>) -> (tensor<4x8xf32>, tensor<4x8xi1>)
  // CHECK: aten.rng_normal({{.*}}) : (tensor<2x4xf32, #[[S]]>, {{.*}}) -> tensor<2x4xf32, #[[S]]>
  // STREAM: aten.rng_normal({{.*}}) -> tensor<4x8xf32, #{{[a-zA-Z0-9_]+}}>
  %n = aten.rng_normal(%y, %s, %o, mean = 0.0, std = 1.0, position = 64, generator = #aten.generator<philox>)
      : (tensor<4x8xf32>, tensor<i64>, tensor<i64>) -> tensor<4x8xf32>
  return %y, %n : tensor<4x8xf32>, tensor<4x8xf32>
}
