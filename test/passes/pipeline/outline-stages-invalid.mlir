// RUN: cleave-opt %s --split-input-file --verify-diagnostics --outline-stages
// RUN: not cleave-opt %S/Inputs/chain.mlir --outline-stages="count=0" 2>&1 | FileCheck %s --check-prefix=COUNT
// RUN: not cleave-opt %S/Inputs/chain.mlir --outline-stages="count=5" 2>&1 | FileCheck %s --check-prefix=MANY
// RUN: not cleave-opt %S/Inputs/chain.mlir --outline-stages="count=2 at=b" 2>&1 | FileCheck %s --check-prefix=BOTH
// RUN: not cleave-opt %S/Inputs/chain.mlir --outline-stages="count=2 balance=memory" 2>&1 | FileCheck %s --check-prefix=BALANCE
// RUN: not cleave-opt %S/Inputs/chain.mlir --outline-stages="balance=cost" 2>&1 | FileCheck %s --check-prefix=ALONE
// RUN: not cleave-opt %S/Inputs/chain.mlir --outline-stages="count=2 slack=-1" 2>&1 | FileCheck %s --check-prefix=SLACK
// RUN: not cleave-opt %S/Inputs/chain.mlir --outline-stages="at=nowhere" 2>&1 | FileCheck %s --check-prefix=NOWHERE
// RUN: not cleave-opt %S/Inputs/chain.mlir --outline-stages="at=a" 2>&1 | FileCheck %s --check-prefix=FIRST
// RUN: not cleave-opt %S/Inputs/chain.mlir --outline-stages="at=c,b" 2>&1 | FileCheck %s --check-prefix=ORDER
// RUN: not cleave-opt %S/Inputs/chain.mlir --outline-stages="at=b," 2>&1 | FileCheck %s --check-prefix=EMPTY
// RUN: not cleave-opt %S/Inputs/chain.mlir --partition-joint --outline-stages="count=2" 2>&1 | FileCheck %s --check-prefix=PARTED
// RUN: not cleave-opt %S/Inputs/chain.mlir --outline-stages="count=2" --partition-joint 2>&1 | FileCheck %s --check-prefix=TWICE
// RUN: not cleave-opt %S/Inputs/chain.mlir --clip-gradients=max-norm=1 --outline-stages="count=2" 2>&1 | FileCheck %s --check-prefix=CLIP
// RUN: not cleave-opt %S/Inputs/chain.mlir --bucket-gradients --outline-stages="count=2" 2>&1 | FileCheck %s --check-prefix=BUCKET

// COUNT: error: expects at least one stage, found count=0
// MANY: chain.mlir:{{.*}}: error: {{.*}}has 4 ops in its forward to divide into stages, fewer than the 5 stages requested
// BOTH: error: expects either 'count' or 'at', found both options
// BALANCE: error: expects 'cost' for the option 'balance', found 'memory'
// ALONE: error: expects the option 'count' with 'balance'
// SLACK: error: expects a slack from 0 to 10, found -1
// NOWHERE: chain.mlir:{{.*}}: error: {{.*}}has no op of the forward in module 'nowhere', named by the option 'at'
// FIRST: error: {{.*}}is the first op of the forward, so no stage can begin with its module 'a', named by the option 'at'
// ORDER: error: {{.*}}of module 'b' does not come after those of the module before it in the option 'at'
// EMPTY: error: expects module paths in the option 'at', found an empty one
// PARTED: error: {{.*}}is part of a split microbatch; expected forward and backward in one function
// TWICE: error: {{.*}}belongs to a pipeline stage; expected the whole program, as before --outline-stages
// CLIP: error: {{.*}}computes new values of stage 0 from #train.role<gradient "{{.*}}"> of stage 1; a stage's update can only use values of its stage (outline stages before passes that join gradients, such as --clip-gradients)
// BUCKET: error: {{.*}}gathers gradients in a bucket, {{.*}}, which several stages may share; outline stages before --bucket-gradients

// expected-error @below {{has no op of the forward that is marked with 'train.stage'; mark some, or use the options 'count' or 'at'}}
func.func @microbatch(%x: tensor<4x4xf32> {train.role = #train.role<input "x">}, %w: tensor<4x4xf32> {train.role = #train.role<parameter "w">})
    -> (tensor<4x4xf32> {train.role = #train.role<output "0">}) attributes {train.phase = #train.phase<microbatch>} {
  %0 = aten.mm(%x, %w) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  return %0 : tensor<4x4xf32>
}

// -----

func.func @microbatch(%x: tensor<4x4xf32> {train.role = #train.role<input "x">}, %w: tensor<4x4xf32> {train.role = #train.role<parameter "w">})
    -> (tensor<4x4xf32> {train.role = #train.role<output "0">}) attributes {train.phase = #train.phase<microbatch>} {
  // expected-note @below {{the value is produced here}}
  %0 = aten.mm(%x, %w) {train.stage = 1 : i64} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  // expected-error @below {{is marked for stage 0, but takes a value of stage 1}}
  %1 = aten.mm(%0, %w) {train.stage = 0 : i64} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  return %1 : tensor<4x4xf32>
}

// -----

// expected-error @below {{has ops marked for stage 2, but none for stage 1}}
func.func @microbatch(%x: tensor<4x4xf32> {train.role = #train.role<input "x">}, %w: tensor<4x4xf32> {train.role = #train.role<parameter "w">})
    -> (tensor<4x4xf32> {train.role = #train.role<output "0">}) attributes {train.phase = #train.phase<microbatch>} {
  %0 = aten.mm(%x, %w) {train.stage = 0 : i64} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %1 = aten.mm(%0, %w) {train.stage = 2 : i64} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  return %1 : tensor<4x4xf32>
}

// -----

func.func @microbatch(%x: tensor<4x4xf32> {train.role = #train.role<input "x">}, %w: tensor<4x4xf32> {train.role = #train.role<parameter "w">})
    -> (tensor<4x4xf32> {train.role = #train.role<output "0">}) attributes {train.phase = #train.phase<microbatch>} {
  // expected-error @below {{is marked for stage 9000000000; there are at most 65536}}
  %0 = aten.mm(%x, %w) {train.stage = 9000000000 : i64} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  return %0 : tensor<4x4xf32>
}

// -----

// expected-error @below {{has #train.role<buffer "b">, which stage 1 updates, but stage 0 reads; put both into one stage}}
func.func @microbatch(%x: tensor<4x4xf32> {train.role = #train.role<input "x">}, %b: tensor<4x4xf32> {train.role = #train.role<buffer "b">})
    -> (tensor<4x4xf32> {train.role = #train.role<output "0">}, tensor<4x4xf32> {train.role = #train.role<buffer "b">}) attributes {train.phase = #train.phase<microbatch>} {
  %0 = aten.mm(%x, %b) {train.stage = 0 : i64} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %1 = aten.add(%b, %0) {train.stage = 1 : i64} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  return %0, %1 : tensor<4x4xf32>, tensor<4x4xf32>
}
