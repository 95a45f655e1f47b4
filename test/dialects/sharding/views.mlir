// The sharding rules of views: dimensions that merge and split, and those that must be whole.
// RUN: cleave-opt %s --print-sharding-rules -o /dev/null --verify-diagnostics

func.func @merge_and_split(%x: tensor<2x16x32xf32>, %y: tensor<8x4xf32>, %z: tensor<32x48xf32>) {
  // expected-remark@+1 {{rule: [a, b, c] -> [a b, c]; a = 2, b = 16, c = 32; moves {0}; `size` is the shape of result 0; view}}
  %0 = aten.view(%x, size = [32, 32]) : (tensor<2x16x32xf32>) -> tensor<32x32xf32>
  // expected-remark@+1 {{rule: [a b, c] -> [a, b c]; a = 2, b = 4, c = 4;}}
  %1 = aten.view(%y, size = [2, 16]) : (tensor<8x4xf32>) -> tensor<2x16xf32>
  // Heads: the part of each rank is a run of them.
  // expected-remark@+1 {{rule: [a, b c] -> [a, b, c]; a = 32, b = 6, c = 8;}}
  %2 = aten.view(%z, size = [32, 6, 8]) : (tensor<32x48xf32>) -> tensor<32x6x8xf32>
  return
}

func.func @mixed(%x: tensor<6x4xf32>, %y: tensor<3x4x5xf32>) {
  // The halves are at the same elements, thirds and quarters are not.
  // expected-remark@+1 {{rule: [a b, e] -> [a c, d]; a = 2, b = 3, c = 2, d = 6, e = 4; whole b c d e because the view mixes}}
  %0 = aten.view(%x, size = [4, 6]) : (tensor<6x4xf32>) -> tensor<4x6xf32>
  // The first dimensions may be what is left of larger ones: a part of 6x4x5 to 8x3x5.
  // expected-remark@+1 {{rule: [a b, d, f] -> [a c, e, f]; a = 1, b = 3, c = 4, d = 4, e = 3, f = 5; whole b c d e because}}
  %1 = aten.view(%y, size = [4, 3, 5]) : (tensor<3x4x5xf32>) -> tensor<4x3x5xf32>
  return
}

func.func @ones(%x: tensor<1x8xf32>, %y: tensor<4x1x8xf32>, %z: tensor<1x4xf32>) {
  // expected-remark@+1 {{rule: [a, b] -> [a b]; a = 1, b = 8;}}
  %0 = aten.view(%x, size = [8]) : (tensor<1x8xf32>) -> tensor<8xf32>
  // expected-remark@+1 {{rule: [a, b, c] -> [a, b c]; a = 4, b = 1, c = 8;}}
  %1 = aten.view(%y, size = [4, 8]) : (tensor<4x1x8xf32>) -> tensor<4x8xf32>
  // A part of 2x4 to 2x4, or of 2x4 to 1x8, or of 1x8 to 2x4.
  // expected-remark@+1 {{rule: [a b, c d] -> [a c, b d]; a = 1, b = 1, c = 1, d = 4;}}
  %2 = aten.view(%z, size = [1, 4]) : (tensor<1x4xf32>) -> tensor<1x4xf32>
  // expected-remark@+1 {{[a, b, c] -> [a, c]; a = 4, b = 1, c = 8; whole b because it is dropped where its size is 1}}
  %3 = aten.squeeze_dim(%y, dim = 1) : (tensor<4x1x8xf32>) -> tensor<4x8xf32>
  // expected-remark@+1 {{[a, b] -> [a, c, b]; a = 1, b = 8, c = 1; whole c because it is new, of size 1}}
  %4 = aten.unsqueeze(%x, dim = 1) : (tensor<1x8xf32>) -> tensor<1x1x8xf32>
  // expected-remark@+1 {{[1, b] -> [a, b]; a = 3, b = 8;}}
  %5 = aten.expand(%x, size = [3, 8]) : (tensor<1x8xf32>) -> tensor<3x8xf32>
  // A part of 1x8 to 2x8, or of 2x8 to 2x8.
  // expected-remark@+1 {{[b, c] -> [a b, c]; a = 1, b = 1, c = 8;}}
  %6 = aten.expand(%x, size = [1, 8]) : (tensor<1x8xf32>) -> tensor<1x8xf32>
  return
}

func.func @empty(%x: tensor<0x4xf32>) {
  // expected-remark@+1 {{[a, b] -> [a, c]; a = 0, b = 4, c = 8; whole b c because an empty tensor}}
  %0 = aten.view(%x, size = [0, 8]) : (tensor<0x4xf32>) -> tensor<0x8xf32>
  return
}

func.func @parts(%x: tensor<4x8xf32>) {
  // expected-remark@+1 {{[b, a] -> [a, b]; a = 8, b = 4; moves {0}; view}}
  %0 = aten.t(%x) : (tensor<4x8xf32>) -> tensor<8x4xf32>
  // expected-remark@+1 {{[a, b] -> [a, c]; a = 4, b = 8, c = 3; whole b c because the part is taken by positions in the whole dimension; moves {0}; view}}
  %1 = aten.slice(%x, dim = 1, start = 0, end = 3) : (tensor<4x8xf32>) -> tensor<4x3xf32>
  // expected-remark@+1 {{[a, b] -> [a, b]; a = 4, b = 8; moves {0}; view}}
  %2 = aten.slice(%x, dim = 1, start = 0, end = 9223372036854775807) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  // expected-remark@+1 {{[a, b] -> [a, c], [a, d]; a = 4, b = 8, c = 5, d = 3; whole b c d because}}
  %3:2 = aten.split(%x, split_size = 5, dim = 1) : (tensor<4x8xf32>) -> (tensor<4x5xf32>, tensor<4x3xf32>)
  // expected-remark@+1 {{[a, c], [a, d] -> [a, b]; a = 4, b = 16, c = 8, d = 8; whole b c d because parts of it would be put together in another order; moves {0, 1}}}
  %4 = aten.cat([%x, %x], dim = 1) : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x16xf32>
  // expected-remark@+1 {{[a, c] -> [a, b c]; a = 4, b = 2, c = 8; whole b because `repeats` counts them; moves {0}}}
  %5 = aten.repeat(%x, repeats = [1, 2]) : (tensor<4x8xf32>) -> tensor<4x16xf32>
  return
}
