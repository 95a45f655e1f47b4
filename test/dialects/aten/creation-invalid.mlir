// Tensors made from numbers and sizes: what their verifiers refuse.
// RUN: cleave-opt %s --split-input-file --verify-diagnostics

func.func @zeros() {
  // expected-error @+1 {{'aten.zeros' op expects non-negative sizes in `size`, found [4, -1]}}
  %0 = aten.zeros(size = [4, -1]) : () -> tensor<4x1xf32>
  return
}

// -----

func.func @zeros_2() {
  // expected-error @+1 {{'aten.zeros' op expects a result of type 'tensor<4xf32>', found 'tensor<4xi64>'}}
  %0 = aten.zeros(size = [4]) : () -> tensor<4xi64>
  return
}

// -----

func.func @ones() {
  // expected-error @+1 {{'aten.ones' op expects `dtype` to be a PyTorch dtype, found 'i4'}}
  %0 = aten.ones(size = [4], dtype = i4) : () -> tensor<4xf32>
  return
}

// -----

func.func @ones_2() {
  // expected-error @+1 {{'aten.ones' op expects a result of type 'tensor<4xi1>', found 'tensor<5xi1>'}}
  %0 = aten.ones(size = [4], dtype = i1) : () -> tensor<5xi1>
  return
}

// -----

func.func @full() {
  // expected-error @+1 {{'aten.full' op expects a result of type 'tensor<4xi64>', found 'tensor<4xf32>'}}
  %0 = aten.full(size = [4], fill_value = 1) : () -> tensor<4xf32>
  return
}

// -----

func.func @scalar_tensor() {
  // expected-error @+1 {{'aten.scalar_tensor' op expects a result of type 'tensor<f32>', found 'tensor<i64>'}}
  %0 = aten.scalar_tensor(s = 1) : () -> tensor<i64>
  return
}

// -----

func.func @scalar_tensor_2() {
  // expected-error @+1 {{'aten.scalar_tensor' op expects a result of type 'tensor<i64>', found 'tensor<1xi64>'}}
  %0 = aten.scalar_tensor(s = 1, dtype = i64) : () -> tensor<1xi64>
  return
}

// -----

func.func @arange() {
  // expected-error @+1 {{'aten.arange' op expects finite numbers, found 0x7FF0000000000000 : f64}}
  %0 = aten.arange(end = 0x7FF0000000000000 : f64) : () -> tensor<4xf32>
  return
}

// -----

func.func @arange_2() {
  // expected-error @+1 {{'aten.arange' op expects a `step` that leads from 0.000000e+00 to -4.000000e+00, found 1.000000e+00}}
  %0 = aten.arange(end = -4) : () -> tensor<0xi64>
  return
}

// -----

func.func @arange_3() {
  // expected-error @+1 {{'aten.arange' op expects a result of type 'tensor<4xi64>', found 'tensor<5xi64>'}}
  %0 = aten.arange(end = 4) : () -> tensor<5xi64>
  return
}

// -----

func.func @arange_4() {
  // expected-error @+1 {{'aten.arange' op expects a result of type 'tensor<4xf32>', found 'tensor<4xi64>'}}
  %0 = aten.arange(end = 4.0) : () -> tensor<4xi64>
  return
}

// -----

func.func @arange_start() {
  // expected-error @+1 {{'aten.arange_start' op expects a `step` that leads from 4.000000e+00 to 2.000000e+00, found 1.000000e+00}}
  %0 = aten.arange_start(start = 4, end = 2) : () -> tensor<2xi64>
  return
}

// -----

func.func @arange_start_step() {
  // expected-error @+1 {{'aten.arange_start_step' op expects a `step` that leads from 0.000000e+00 to 4.000000e+00, found 0.000000e+00}}
  %0 = aten.arange_start_step(start = 0, end = 4, step = 0) : () -> tensor<4xi64>
  return
}

// -----

func.func @arange_start_step_2() {
  // expected-error @+1 {{'aten.arange_start_step' op expects a result of type 'tensor<2xi64>', found 'tensor<1xi64>'}}
  %0 = aten.arange_start_step(start = 0, end = 4, step = 3) : () -> tensor<1xi64>
  return
}

// -----

func.func @zeros_like(%x: tensor<4xf32>) {
  // expected-error @+1 {{'aten.zeros_like' op expects `memory_format` to be "contiguous_format", "preserve_format", "channels_last" or "channels_last_3d", found "dense"}}
  %0 = aten.zeros_like(%x, memory_format = "dense") : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @zeros_like_2(%x: tensor<4xf32>) {
  // expected-error @+1 {{'aten.zeros_like' op expects `dtype` to be a PyTorch dtype, found 'none'}}
  %0 = aten.zeros_like(%x, dtype = none) : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @ones_like(%x: tensor<4xf32>) {
  // expected-error @+1 {{'aten.ones_like' op expects a result of type 'tensor<4xi64>', found 'tensor<4xf32>'}}
  %0 = aten.ones_like(%x, dtype = i64) : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @full_like(%x: tensor<4xf32>) {
  // expected-error @+1 {{'aten.full_like' op expects a result of type 'tensor<4xf32>', found 'tensor<4xi64>'}}
  %0 = aten.full_like(%x, fill_value = 1) : (tensor<4xf32>) -> tensor<4xi64>
  return
}

// -----

func.func @new_zeros(%x: tensor<4xbf16>) {
  // expected-error @+1 {{'aten.new_zeros' op expects a result of type 'tensor<2xbf16>', found 'tensor<2xf32>'}}
  %0 = aten.new_zeros(%x, size = [2]) : (tensor<4xbf16>) -> tensor<2xf32>
  return
}

// -----

func.func @new_ones(%x: tensor<4xf32>) {
  // expected-error @+1 {{'aten.new_ones' op expects non-negative sizes in `size`, found [-2]}}
  %0 = aten.new_ones(%x, size = [-2]) : (tensor<4xf32>) -> tensor<2xf32>
  return
}

// -----

func.func @new_full(%x: tensor<4xi64>) {
  // expected-error @+1 {{'aten.new_full' op expects a result of type 'tensor<2xi64>', found 'tensor<2xf32>'}}
  %0 = aten.new_full(%x, size = [2], fill_value = 0.5) : (tensor<4xi64>) -> tensor<2xf32>
  return
}

// -----

func.func @arange_5() {
  // expected-error @+1 {{'aten.arange' op expects at most 2147483647 numbers, found 1.000000e+300}}
  %0 = aten.arange(end = 1.0e+300) : () -> tensor<4xf32>
  return
}

// -----

func.func @empty() {
  // expected-error @+1 {{'aten.empty_memory_format' op expects non-negative sizes in `size`, found [-1]}}
  %0 = aten.empty_memory_format(size = [-1]) : () -> tensor<1xf32>
  return
}

// -----

func.func @empty_2() {
  // expected-error @+1 {{'aten.empty_memory_format' op expects `memory_format` to be "contiguous_format", "preserve_format", "channels_last" or "channels_last_3d", found "rows"}}
  %0 = aten.empty_memory_format(size = [1], memory_format = "rows") : () -> tensor<1xf32>
  return
}

// -----

func.func @zero(%x: tensor<4xf32>) {
  // expected-error @+1 {{'aten.zero' op expects a result of type 'tensor<4xf32>', found 'tensor<5xf32>'}}
  %0 = aten.zero(%x) : (tensor<4xf32>) -> tensor<5xf32>
  return
}

// -----

func.func @fill_scalar(%x: tensor<4xf32>) {
  // expected-error @+1 {{'aten.fill_scalar' op expects a result of type 'tensor<4xf32>', found 'tensor<4xf64>'}}
  %0 = aten.fill_scalar(%x, value = 1) : (tensor<4xf32>) -> tensor<4xf64>
  return
}

// -----

func.func @new_empty_strided(%x: tensor<4xf32>) {
  // expected-error @+1 {{'aten.new_empty_strided' op expects in `stride` a non-negative number for each of [2, 4], found [1]}}
  %0 = aten.new_empty_strided(%x, size = [2, 4], stride = [1]) : (tensor<4xf32>) -> tensor<2x4xf32>
  return
}
