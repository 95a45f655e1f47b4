// RUN: cleave-opt %s --autodiff --split-input-file --verify-diagnostics

// A loss that is no one number: one per rank, or of unknown meaning.

#R = #dist.on<@mesh, tp = R>
dist.mesh @mesh ["tp" = 2]
// expected-error @below {{has a loss that is R along axis "tp"; expected one value (I) or terms of one (P(sum))}}
func.func @microbatch(%w: tensor<8xf32, #R> {train.role = #train.role<parameter "w">})
    -> (tensor<f32, #R> {train.role = #train.role<loss>})
    attributes {train.phase = #train.phase<microbatch>} {
  // expected-note @below {{produced here, with type 'tensor<f32, #dist.on<@mesh, tp = R>>'; dist.convert takes it to I}}
  %s = aten.sum(%w) : (tensor<8xf32, #R>) -> tensor<f32, #R>
  return %s : tensor<f32, #R>
}

// -----

#I = #dist.on<@mesh, tp = I>
#V = #dist.on<@mesh, tp = V>
dist.mesh @mesh ["tp" = 2]
// expected-error @below {{has a loss that is V along axis "tp"; expected one value (I) or terms of one (P(sum))}}
func.func @microbatch(%w: tensor<8xf32, #I> {train.role = #train.role<parameter "w">})
    -> (tensor<f32, #V> {train.role = #train.role<loss>})
    attributes {train.phase = #train.phase<microbatch>} {
  %x = dist.fake_broadcast(%w) over @mesh ["tp"] : tensor<8xf32, #I> -> tensor<8xf32, #V>
  // expected-note @below {{dist.all_reduce sum takes the ranks' losses to one (I), dist.reinterpret calls them terms of one (P)}}
  %s = aten.sum(%x) : (tensor<8xf32, #V>) -> tensor<f32, #V>
  return %s : tensor<f32, #V>
}

// -----

// A pending maximum has no gradient; a maximum of plain V values does (autodiff-dist-reductions.mlir).

#I = #dist.on<@mesh, tp = I>
#V = #dist.on<@mesh, tp = V>
#M = #dist.on<@mesh, tp = P(max)>
dist.mesh @mesh ["tp" = 2]
func.func @microbatch(%w: tensor<8xf32, #I> {train.role = #train.role<parameter "w">})
    -> (tensor<f32, #I> {train.role = #train.role<loss>})
    attributes {train.phase = #train.phase<microbatch>} {
  %x = dist.fake_broadcast(%w) over @mesh ["tp"] : tensor<8xf32, #I> -> tensor<8xf32, #V>
  %m = dist.reinterpret %x : tensor<8xf32, #V> -> tensor<8xf32, #M>
  // expected-error @below {{'dist.all_reduce' op has no derivative with respect to an operand of type 'tensor<8xf32, #dist.on<@mesh, tp = P(max)>>': no gradient flows through a pending reduction other than a sum; reduce V values instead}}
  %y = dist.all_reduce max(%m) over @mesh ["tp"] : tensor<8xf32, #M> -> tensor<8xf32, #I>
  %s = aten.sum(%y) : (tensor<8xf32, #I>) -> tensor<f32, #I>
  return %s : tensor<f32, #I>
}

// -----

#I = #dist.on<@mesh, tp = I>
#V = #dist.on<@mesh, tp = V>
dist.mesh @mesh ["tp" = 2]
func.func @microbatch(%w: tensor<8xf32, #I> {train.role = #train.role<parameter "w">})
    -> (tensor<f32, #I> {train.role = #train.role<loss>})
    attributes {train.phase = #train.phase<microbatch>} {
  %x = dist.fake_broadcast(%w) over @mesh ["tp"] : tensor<8xf32, #I> -> tensor<8xf32, #V>
  // expected-error @below {{'dist.send' op has no derivative: the order in which ranks would send gradients back is unknown; use dist.permute or dist.shift, or let a pipeline pass insert the sends}}
  dist.send(%x) from 0 to 1 tag 7 over @mesh ["tp"] : tensor<8xf32, #V>
  %s = aten.sum(%w) : (tensor<8xf32, #I>) -> tensor<f32, #I>
  return %s : tensor<f32, #I>
}

// -----

#I = #dist.on<@mesh, tp = I>
#V = #dist.on<@mesh, tp = V>
dist.mesh @mesh ["tp" = 2]
func.func @microbatch(%w: tensor<8xf32, #I> {train.role = #train.role<parameter "w">})
    -> (tensor<f32, #I> {train.role = #train.role<loss>})
    attributes {train.phase = #train.phase<microbatch>} {
  // expected-error @below {{'dist.receive' op has no derivative: the order in which ranks would send gradients back}}
  %x = dist.receive from 0 to 1 tag 7 over @mesh ["tp"] : tensor<8xf32, #V>
  %s = aten.sum(%x) : (tensor<8xf32, #V>) -> tensor<f32, #V>
  %l = dist.fake_reduce(%s) over @mesh ["tp"] : tensor<f32, #V> -> tensor<f32, #I>
  return %l : tensor<f32, #I>
}

// -----

// An average divides by the number of ranks, which is not known here.

dist.mesh @mesh ["tp" = ?]
func.func @microbatch(%w: tensor<8xf32> {train.role = #train.role<parameter "w">})
    -> (tensor<f32> {train.role = #train.role<loss>})
    attributes {train.phase = #train.phase<microbatch>} {
  // expected-error @below {{'dist.all_reduce' op has no derivative of an average over an axis whose size is not known ('?')}}
  %y = dist.all_reduce avg(%w) over @mesh ["tp"] : tensor<8xf32>
  %s = aten.sum(%y) : (tensor<8xf32>) -> tensor<f32>
  return %s : tensor<f32>
}
