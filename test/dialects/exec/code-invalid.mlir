// RUN: cleave-opt %s --split-input-file --verify-diagnostics

// At least one phase.
// expected-error @below {{expected '<'}}
// expected-error @below {{failed to parse Exec_CodeAttr parameter 'phases'}}
func.func private @f() attributes {code = #exec.code<cpu, phases = []>}

// -----

// expected-error @below {{expects the name of a function of the binary, found ""}}
func.func private @f() attributes {code = #exec.kernel_phase<"", chunks = 1>}

// -----

// expected-error @below {{expects chunks to be from 1 to 2147483647, found 0}}
// expected-error @below {{failed to parse Exec_CodeAttr parameter 'phases'}}
func.func private @f() attributes {code = #exec.code<cpu, phases = [<"k", chunks = 0>]>}

// -----

// expected-error @below {{expects chunks to be from 1 to 2147483647, found 2147483648}}
func.func private @f() attributes {code = #exec.kernel_phase<"k", chunks = 2147483648>}

// -----

// expected-error @below {{expects threads to be from 1 to 1024, found -1}}
func.func private @f() attributes {code = #exec.kernel_phase<"k", chunks = 1, threads = -1>}

// -----

// expected-error @below {{expects threads to be from 1 to 1024, found 1025}}
func.func private @f() attributes {code = #exec.kernel_phase<"k", chunks = 1, threads = 1025>}

// -----

// expected-error @below {{expects phases without threads for cpu, found #exec.kernel_phase<"k", chunks = 2, threads = 32>}}
func.func private @f() attributes {code = #exec.code<cpu, phases = [<"k", chunks = 2, threads = 32>]>}

// -----

// expected-error @below {{expects phases with threads for cuda, found #exec.kernel_phase<"k", chunks = 2>}}
func.func private @f() attributes {code = #exec.code<cuda, phases = [<"k", chunks = 2>]>}

// -----

// expected-error @below {{expects scratch to be 0 or more bytes, found -1}}
func.func private @f() attributes {code = #exec.code<cpu, phases = [<"k", chunks = 2>], scratch = -1>}

// -----

// expected-error @below {{expects partials to be 0 or more bytes, found -64}}
func.func private @f() attributes {code = #exec.code<cpu, phases = [<"k", chunks = 2>], partials = -64>}

// -----

// expected-error @below {{expects no scratch for cuda, found 8 bytes}}
func.func private @f() attributes {code = #exec.code<cuda, phases = [<"k", chunks = 2, threads = 32>], scratch = 8>}

// -----

// expected-error @below {{expected ::cleave::exec::Family to be one of: cpu, cuda}}
// expected-error @below {{failed to parse Exec_CodeAttr parameter 'family'}}
func.func private @f() attributes {code = #exec.code<rocm, phases = [<"k", chunks = 2>]>}

// -----

// expected-error @below {{has code for cpu, but the module has no exec.binary for it}}
exec.kernel @k(%x: tensor<4xf32>) -> tensor<4xf32> attributes {code = [#exec.code<cpu, phases = [<"k", chunks = 2>]>]} {
  %0 = aten.exp(%x) : (tensor<4xf32>) -> tensor<4xf32>
  exec.return %0 : tensor<4xf32>
}

// -----

exec.binary @b elf for "x86-64-v3" = dense_resource<b0> : tensor<4xi8>
// expected-error @below {{has code for cuda, but the module has no exec.binary for it}}
exec.kernel @k(%x: tensor<4xf32>) -> tensor<4xf32> attributes {code = [#exec.code<cpu, phases = [<"k", chunks = 2>]>,
    #exec.code<cuda, phases = [<"k", chunks = 2, threads = 32>]>]} {
  %0 = aten.exp(%x) : (tensor<4xf32>) -> tensor<4xf32>
  exec.return %0 : tensor<4xf32>
}
{-# dialect_resources: { builtin: { b0: "0x010000007F454C46" } } #-}

// -----

exec.binary @b elf for "x86-64-v3" = dense_resource<b1> : tensor<4xi8>
// expected-error @below {{has code for cpu twice}}
exec.kernel @k(%x: tensor<4xf32>) -> tensor<4xf32> attributes {code = [#exec.code<cpu, phases = [<"k", chunks = 2>]>, #exec.code<cpu, phases = [<"k", chunks = 2>]>]} {
  %0 = aten.exp(%x) : (tensor<4xf32>) -> tensor<4xf32>
  exec.return %0 : tensor<4xf32>
}
{-# dialect_resources: { builtin: { b1: "0x010000007F454C46" } } #-}

// -----

exec.binary @b elf for "x86-64-v3" = dense_resource<b2> : tensor<4xi8>
// expected-error @below {{attribute 'code' failed to satisfy constraint: how each target kind runs the kernel}}
exec.kernel @k(%x: tensor<4xf32>) -> tensor<4xf32> attributes {code = [1 : i64]} {
  %0 = aten.exp(%x) : (tensor<4xf32>) -> tensor<4xf32>
  exec.return %0 : tensor<4xf32>
}
{-# dialect_resources: { builtin: { b2: "0x010000007F454C46" } } #-}
