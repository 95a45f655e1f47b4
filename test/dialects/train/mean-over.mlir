// RUN: cleave-opt %s | cleave-opt | FileCheck %s
// RUN: cleave-opt %s --emit-bytecode | cleave-opt | FileCheck %s

// CHECK: module attributes {train.mean_over = #train.targets<"labels" except -100 from [0, 1] to [2, 64]>}
module attributes {train.mean_over = #train.targets<"labels" except -100 from [0, 1] to [2, 64]>} {
  // CHECK: attributes {train.mean_over = #train.targets<"odd \22name\22" except 0 from [0] to [1]>}
  module attributes {train.mean_over = #train.targets<"odd \"name\"" except 0 from [0] to [1]>} {
  }
}
