// RUN: cleave-opt %s --split-input-file --verify-diagnostics

// expected-error @below {{expects argument 0 to be a statically shaped tensor without placement, found 'tensor<?xf32>'}}
exec.kernel @k(%x: tensor<?xf32>) -> tensor<4xf32> {
  %0 = aten.zeros(size = [4]) : () -> tensor<4xf32>
  exec.return %0 : tensor<4xf32>
}

// -----

dist.mesh @mesh ["dp" = 2]
// expected-error @below {{expects result 0 to be a statically shaped tensor without placement}}
exec.kernel @k(%x: tensor<4xf32>) -> tensor<4xf32, #dist.on<@mesh, dp = R>> {
  %0 = dist.convert %x : tensor<4xf32> -> tensor<4xf32, #dist.on<@mesh, dp = R>>
  exec.return %0 : tensor<4xf32, #dist.on<@mesh, dp = R>>
}

// -----

// expected-error @below {{expects a result}}
exec.kernel @k(%x: tensor<4xf32>) {
  exec.return
}

// -----

dist.mesh @mesh ["dp" = 2]
// expected-error @below {{expects ops that only compute}}
exec.kernel @k(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-note @below {{'dist.all_reduce' has other effects}}
  %0 = dist.all_reduce sum(%x) over @mesh ["dp"] : tensor<4xf32>
  exec.return %0 : tensor<4xf32>
}

// -----

exec.kernel @k(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = aten.zeros(size = [5]) : () -> tensor<5xf32>
  // expected-error @below {{expects operands of types ('tensor<4xf32>'), found ('tensor<5xf32>')}}
  exec.return %0 : tensor<5xf32>
}

// -----

// expected-error @below {{expects a body}}
exec.kernel @k(tensor<4xf32>) -> tensor<4xf32>

// -----

func.func @f(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error @below {{expects the name of an exec.kernel, found @f}}
  %0 = exec.launch @f(%x) : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

// expected-note @below {{the kernel is here}}
exec.kernel @k(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = aten.exp(%x) : (tensor<4xf32>) -> tensor<4xf32>
  exec.return %0 : tensor<4xf32>
}
func.func @f(%x: tensor<5xf32>) -> tensor<4xf32> {
  // expected-error @below {{expects operands of types ('tensor<4xf32>'), found ('tensor<5xf32>')}}
  %0 = exec.launch @k(%x) : (tensor<5xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

// expected-note @below {{the kernel is here}}
exec.kernel @k(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = aten.exp(%x) : (tensor<4xf32>) -> tensor<4xf32>
  exec.return %0 : tensor<4xf32>
}
func.func @f(%x: tensor<4xf32>) -> tensor<4xf16> {
  // expected-error @below {{expects results of types ('tensor<4xf32>'), found ('tensor<4xf16>')}}
  %0 = exec.launch @k(%x) : (tensor<4xf32>) -> tensor<4xf16>
  return %0 : tensor<4xf16>
}
