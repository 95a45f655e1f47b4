// RUN: cleave-opt %s --cse | FileCheck %s

// A draw is given by its seed, its offset and its position: the same draw twice is one, another
// position of the stream, another offset or another generator is another draw.

// CHECK-LABEL: func.func @dropout
// CHECK-SAME: (%[[X:.*]]: tensor<4x8xf32>, %[[S:.*]]: tensor<i64>, %[[O:.*]]: tensor<i64>, %[[O2:.*]]: tensor<i64>)
func.func @dropout(%x: tensor<4x8xf32>, %s: tensor<i64>, %o: tensor<i64>, %o2: tensor<i64>)
    -> (tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>) {
  // CHECK: %[[A:.*]], %{{.*}} = aten.rng_native_dropout(%[[X]], %[[S]], %[[O]], p = {{.*}}, position = 0, generator = #aten.generator<mt19937>)
  %a, %ma = aten.rng_native_dropout(%x, %s, %o, p = 0.5, train = true, position = 0, generator = #aten.generator<mt19937>)
      : (tensor<4x8xf32>, tensor<i64>, tensor<i64>) -> (tensor<4x8xf32>, tensor<4x8xi1>)
  %b, %mb = aten.rng_native_dropout(%x, %s, %o, p = 0.5, train = true, position = 0, generator = #aten.generator<mt19937>)
      : (tensor<4x8xf32>, tensor<i64>, tensor<i64>) -> (tensor<4x8xf32>, tensor<4x8xi1>)
  // CHECK: %[[C:.*]], %{{.*}} = aten.rng_native_dropout({{.*}}position = 32, generator = #aten.generator<mt19937>)
  %c, %mc = aten.rng_native_dropout(%x, %s, %o, p = 0.5, train = true, position = 32, generator = #aten.generator<mt19937>)
      : (tensor<4x8xf32>, tensor<i64>, tensor<i64>) -> (tensor<4x8xf32>, tensor<4x8xi1>)
  // CHECK: %[[D:.*]], %{{.*}} = aten.rng_native_dropout(%[[X]], %[[S]], %[[O2]], {{.*}}position = 0, generator = #aten.generator<mt19937>)
  %d, %md = aten.rng_native_dropout(%x, %s, %o2, p = 0.5, train = true, position = 0, generator = #aten.generator<mt19937>)
      : (tensor<4x8xf32>, tensor<i64>, tensor<i64>) -> (tensor<4x8xf32>, tensor<4x8xi1>)
  // CHECK: %[[E:.*]], %{{.*}} = aten.rng_native_dropout({{.*}}position = 0, generator = #aten.generator<philox>)
  %e, %me = aten.rng_native_dropout(%x, %s, %o, p = 0.5, train = true, position = 0, generator = #aten.generator<philox>)
      : (tensor<4x8xf32>, tensor<i64>, tensor<i64>) -> (tensor<4x8xf32>, tensor<4x8xi1>)
  // CHECK: return %[[A]], %[[A]], %[[C]], %[[D]], %[[E]]
  return %a, %b, %c, %d, %e
      : tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>
}
