// Sharding rules that programs give to calls.
// RUN: cleave-opt %s --print-sharding-rules -o /dev/null 2>&1 | FileCheck %s
// RUN: cleave-opt %s | cleave-opt | FileCheck %s --check-prefix=TEXT
// RUN: cleave-opt %s --emit-bytecode | cleave-opt | FileCheck %s --check-prefix=TEXT

// CHECK: [a, b] -> [a, b]; a = 4, b = 8; linear {0}
// TEXT: aten.call "mine::twice" "(Tensor x) -> Tensor" sharded "ab -> ab; linear 0"(x = %{{.*}}) :
func.func @kept(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %0 = aten.call "mine::twice" "(Tensor x) -> Tensor" sharded "ab -> ab; linear 0"(x = %x) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  return %0 : tensor<4x8xf32>
}

// CHECK: [n, c], [] -> [n]; n = 4, c = 8 (max)
func.func @reduced(%x: tensor<4x8xf32>, %k: tensor<f32>) -> tensor<4xf32> {
  %0 = aten.call "mine::most" "(Tensor x, Tensor k) -> Tensor" sharded "nc, -> n; max c"(x = %x, k = %k)
      : (tensor<4x8xf32>, tensor<f32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// An absent tensor has a place; those of a list have one each.
// CHECK: [a, b], [a, c] -> [a, d], [a, b]; a = 4, b = 8, c = 2, d = 10; whole b c d because its rule says so
func.func @lists(%x: tensor<4x8xf32>, %y: tensor<4x2xf32>) -> tensor<4x10xf32> {
  %0:2 = aten.call "mine::join" "(Tensor? bias, Tensor[] xs) -> (Tensor, Tensor)"
      sharded ", ab, ac -> ad, ab; whole b c d"(xs = [%x, %y])
      : (tensor<4x8xf32>, tensor<4x2xf32>) -> (tensor<4x10xf32>, tensor<4x8xf32>)
  return %0#0 : tensor<4x10xf32>
}

// An operator of PyTorch that has no typed op.
// CHECK: [a, b] -> [a, b]; a = 4, b = 8; whole b because its rule says so
func.func @of_pytorch(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %0 = aten.call "aten::logcumsumexp" sharded "ab -> ab; whole b"(self = %x, dim = 1) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  return %0 : tensor<4x8xf32>
}
