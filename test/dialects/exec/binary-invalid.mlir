// RUN: cleave-opt %s --split-input-file --verify-diagnostics

// expected-error @below {{expects elf for "x86-64-v2", "x86-64-v3" or "x86-64-v4", found "sm_90"}}
exec.binary @b elf for "sm_90" = dense_resource<a0> : tensor<4xi8>
{-# dialect_resources: { builtin: { a0: "0x010000007F454C46" } } #-}

// -----

// expected-error @below {{expects cubin for a chip like "sm_90", found "hopper"}}
exec.binary @b cubin for "hopper" = dense_resource<a1> : tensor<4xi8>
{-# dialect_resources: { builtin: { a1: "0x010000007F454C46" } } #-}

// -----

// expected-error @below {{expects cubin for a chip like "sm_90", found "sm_a"}}
exec.binary @b cubin for "sm_a" = dense_resource<a2> : tensor<4xi8>
{-# dialect_resources: { builtin: { a2: "0x010000007F454C46" } } #-}

// -----

// expected-error @below {{expected ::cleave::exec::BinaryFormat to be one of: elf, cubin}}
// expected-error @below {{failed to parse Exec_BinaryFormatAttr parameter 'value'}}
exec.binary @b ptx for "sm_90" = dense_resource<a3> : tensor<4xi8>

// -----

// expected-error @below {{expects code of a type like tensor<64xi8>, found 'tensor<1xf32>'}}
exec.binary @b elf for "x86-64-v3" = dense_resource<a4> : tensor<1xf32>
{-# dialect_resources: { builtin: { a4: "0x010000007F454C46" } } #-}

// -----

// expected-error @below {{expects code of a type like tensor<64xi8>, found 'tensor<2x2xi8>'}}
exec.binary @b elf for "x86-64-v3" = dense_resource<a5> : tensor<2x2xi8>
{-# dialect_resources: { builtin: { a5: "0x010000007F454C46" } } #-}

// -----

// expected-error @below {{expects 5 bytes of code, found 4}}
exec.binary @b elf for "x86-64-v3" = dense_resource<a6> : tensor<5xi8>
{-# dialect_resources: { builtin: { a6: "0x010000007F454C46" } } #-}

// -----

// expected-error @below {{expects 4 bytes of code, found 0}}
exec.binary @b elf for "x86-64-v3" = dense_resource<not_there> : tensor<4xi8>

// -----

// expected-error @below {{expects code that starts with an ELF header}}
exec.binary @b elf for "x86-64-v3" = dense_resource<a7> : tensor<4xi8>
{-# dialect_resources: { builtin: { a7: "0x0100000074657874" } } #-}

// -----

// expected-note @below {{the first is here}}
exec.binary @a elf for "x86-64-v3" = dense_resource<a8> : tensor<4xi8>
exec.binary @b elf for "x86-64-v4" = dense_resource<a8> : tensor<4xi8>
// expected-error @below {{is a second binary for "x86-64-v3"}}
exec.binary @c elf for "x86-64-v3" = dense_resource<a8> : tensor<4xi8>
{-# dialect_resources: { builtin: { a8: "0x010000007F454C46" } } #-}

// -----

func.func @f() {
  // expected-error @below {{expects parent op 'builtin.module'}}
  exec.binary @b elf for "x86-64-v3" = dense_resource<a9> : tensor<4xi8>
  return
}
{-# dialect_resources: { builtin: { a9: "0x010000007F454C46" } } #-}
