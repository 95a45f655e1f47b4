// RUN: cleave-opt %s --split-input-file --verify-diagnostics --verify-exec

// Two values at one place.
dist.mesh @mesh ["dp" = 2]
func.func @f(%x: tensor<4x8xf32> {train.role = #train.role<input "x">})
    attributes {train.phase = #train.phase<microbatch>, exec.lowered = #exec.lowered<cpu, arena = 256, alignment = 64>} {
  // expected-note @below {{result 0 of 'aten.relu' is from here}}
  %0 = aten.relu(%x) {exec.memory = [#exec.at<0>]} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  // expected-error @below {{writes its result 0 to bytes 64 to 191 of the arena, where result 0 of 'aten.relu' still lies, in bytes 0 to 127 of the arena}}
  %1 = aten.relu(%x) {exec.memory = [#exec.at<64>]} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  // expected-note @below {{it is needed until 'aten.add' here}}
  %2 = aten.add(%0, %1) {exec.memory = [#exec.apart]} : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  return
}

// -----

// An op over its operand, which is not made for that.
dist.mesh @mesh ["dp" = 2]
func.func @f(%x: tensor<4x8xf32> {train.role = #train.role<input "x">})
    attributes {train.phase = #train.phase<microbatch>, exec.lowered = #exec.lowered<cpu, arena = 256, alignment = 64>} {
  // expected-note @below {{result 0 of 'aten.relu' is from here}}
  %0 = aten.relu(%x) {exec.memory = [#exec.at<0>]} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  // expected-error @below {{writes its result 0 to bytes 0 to 127 of the arena, where result 0 of 'aten.relu' still lies, in bytes 0 to 127 of the arena}}
  // expected-note @below {{it is needed until 'aten.relu' here}}
  %1 = aten.relu(%0) {exec.memory = [#exec.at<0>]} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  return
}

// -----

// Overwritten too early.
dist.mesh @mesh ["dp" = 2]
func.func @f(%x: tensor<4x8xf32> {train.role = #train.role<input "x">})
    attributes {train.phase = #train.phase<microbatch>, exec.lowered = #exec.lowered<cpu, arena = 256, alignment = 64>} {
  // expected-note @below {{result 0 of 'aten.relu' is from here}}
  %0 = aten.relu(%x) {exec.memory = [#exec.at<0>]} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  // expected-error @below {{overwrites result 0 of 'aten.relu' (bytes 0 to 127 of the arena) before its last use}}
  %1 = aten.add(%0, %x) {exec.memory = [#exec.same<0>]} : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  // expected-note @below {{'aten.add' still reads it}}
  %2 = aten.add(%0, %1) {exec.memory = [#exec.at<128>]} : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  return
}

// -----

// A view of it counts.
dist.mesh @mesh ["dp" = 2]
func.func @f(%x: tensor<4x8xf32> {train.role = #train.role<input "x">})
    attributes {train.phase = #train.phase<microbatch>, exec.lowered = #exec.lowered<cpu, arena = 256, alignment = 64>} {
  %0 = aten.relu(%x) {exec.memory = [#exec.at<0>]} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  // expected-note @below {{result 0 of 'aten.view' is from here}}
  %v = aten.view(%0, size = [4, 8]) {exec.memory = [#exec.same<0>]} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  // expected-error @below {{overwrites result 0 of 'aten.view' (bytes 0 to 127 of the arena) before its last use}}
  %1 = aten.add(%0, %x) {exec.memory = [#exec.same<0>]} : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  // expected-note @below {{'aten.add' still reads it}}
  %2 = aten.add(%v, %1) {exec.memory = [#exec.at<128>]} : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  return
}

// -----

// An argument that belongs to others.
dist.mesh @mesh ["dp" = 2]
func.func @f(%x: tensor<4x8xf32> {train.role = #train.role<input "x">})
    attributes {train.phase = #train.phase<microbatch>, exec.lowered = #exec.lowered<cpu, arena = 256, alignment = 64>} {
  // expected-error @below {{overwrites argument 'x', which other functions expect unchanged}}
  %0 = aten.add(%x, %x) {exec.memory = [#exec.same<0>]} : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  return
}

// -----

// An op that does not work in place.
dist.mesh @mesh ["dp" = 2]
func.func @f(%x: tensor<4x8xf32> {train.role = #train.role<input "x">})
    attributes {train.phase = #train.phase<microbatch>, exec.lowered = #exec.lowered<cpu, arena = 256, alignment = 64>} {
  %0 = aten.relu(%x) {exec.memory = [#exec.at<0>]} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  // expected-error @below {{expects result 0 in memory of its own: the op cannot overwrite operand 0}}
  %1 = aten.relu(%0) {exec.memory = [#exec.same<0>]} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  return
}

// -----

// A view is where what it shows is.
dist.mesh @mesh ["dp" = 2]
func.func @f(%x: tensor<4x8xf32> {train.role = #train.role<input "x">})
    attributes {train.phase = #train.phase<microbatch>, exec.lowered = #exec.lowered<cpu, arena = 256, alignment = 64>} {
  // expected-error @below {{expects result 0 to have the memory of operand 0, of which it is a view}}
  %v = aten.view(%x, size = [4, 8]) {exec.memory = [#exec.at<0>]} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  return
}

// -----

// The arena ends with the function.
dist.mesh @mesh ["dp" = 2]
func.func @f(%x: tensor<4x8xf32> {train.role = #train.role<input "x">})
    -> (tensor<4x8xf32> {train.role = #train.role<output "0">})
    attributes {train.phase = #train.phase<microbatch>, exec.lowered = #exec.lowered<cpu, arena = 256, alignment = 64>} {
  // expected-note @below {{result 0 of 'aten.relu' is from here}}
  %0 = aten.relu(%x) {exec.memory = [#exec.at<0>]} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  // expected-error @below {{returns result 0 in bytes 0 to 127 of the arena, which does not outlive the function}}
  return %0 : tensor<4x8xf32>
}

// -----

// Not on its stream.
dist.mesh @mesh ["dp" = 2]
func.func @f(%x: tensor<4x8xf32> {train.role = #train.role<input "x">})
    attributes {train.phase = #train.phase<microbatch>, exec.lowered = #exec.lowered<cpu, arena = 256, alignment = 64>} {
  %0 = aten.relu(%x) {exec.memory = [#exec.at<0>]} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  // expected-error @below {{expects to run on stream communication, found compute}}
  %1 = dist.all_reduce sum(%0) over @mesh ["dp"] {exec.call = 0 : i64, exec.memory = [#exec.same<0>]} : tensor<4x8xf32>
  return
}

// -----

// Computation is not on the communication stream.
dist.mesh @mesh ["dp" = 2]
func.func @f(%x: tensor<4x8xf32> {train.role = #train.role<input "x">})
    attributes {train.phase = #train.phase<microbatch>, exec.lowered = #exec.lowered<cpu, arena = 256, alignment = 64>} {
  // expected-error @below {{expects to run on stream compute, found communication}}
  %0 = aten.relu(%x) {exec.memory = [#exec.apart], exec.stream = #exec.stream<communication>} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  return
}

// -----

// A read after a write.
dist.mesh @mesh ["dp" = 2]
func.func @f(%x: tensor<4x8xf32> {train.role = #train.role<input "x">})
    attributes {train.phase = #train.phase<microbatch>, exec.lowered = #exec.lowered<cpu, arena = 256, alignment = 64>} {
  // expected-note @below {{'aten.relu' is here}}
  // expected-note @below {{expected an exec.record on compute after 'aten.relu' here, and an exec.wait for it on communication before 'dist.shift'}}
  %0 = aten.relu(%x) {exec.memory = [#exec.at<0>]} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  // expected-error @below {{reads bytes 0 to 127 of the arena on stream communication without waiting for 'aten.relu', which writes bytes 0 to 127 of the arena on stream compute}}
  %1 = dist.shift(%0) by 1 wrap over @mesh ["dp"] {exec.call = 0 : i64, exec.memory = [#exec.apart], exec.stream = #exec.stream<communication>} : tensor<4x8xf32>
  %e = exec.record on communication
  exec.wait %e on compute
  return
}

// -----

// A write after a read.
dist.mesh @mesh ["dp" = 2]
func.func @f(%x: tensor<4x8xf32> {train.role = #train.role<input "x">})
    attributes {train.phase = #train.phase<microbatch>, exec.lowered = #exec.lowered<cpu, arena = 256, alignment = 64>} {
  %0 = aten.relu(%x) {exec.memory = [#exec.at<0>]} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %e = exec.record on compute
  exec.wait %e on communication
  // expected-note @below {{'dist.shift' is here}}
  // expected-note @below {{expected an exec.record on communication after 'dist.shift' here, and an exec.wait for it on compute before 'aten.relu'}}
  %1 = dist.shift(%0) by 1 wrap over @mesh ["dp"] {exec.call = 0 : i64, exec.memory = [#exec.apart], exec.stream = #exec.stream<communication>} : tensor<4x8xf32>
  // expected-error @below {{writes bytes 0 to 127 of the arena on stream compute without waiting for 'dist.shift', which reads bytes 0 to 127 of the arena on stream communication}}
  %2 = aten.relu(%x) {exec.memory = [#exec.at<0>]} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %g = exec.record on communication
  exec.wait %g on compute
  return
}

// -----

// A write after a write, to memory that is used again.
dist.mesh @mesh ["dp" = 2]
func.func @f(%x: tensor<4x8xf32> {train.role = #train.role<input "x">})
    attributes {train.phase = #train.phase<microbatch>, exec.lowered = #exec.lowered<cpu, arena = 256, alignment = 64>} {
  %e = exec.record on compute
  exec.wait %e on communication
  // expected-note @below {{'dist.shift' is here}}
  // expected-note @below {{expected an exec.record on communication after 'dist.shift' here, and an exec.wait for it on compute before 'aten.relu'}}
  %1 = dist.shift(%x) by 1 wrap over @mesh ["dp"] {exec.call = 0 : i64, exec.memory = [#exec.at<0>], exec.stream = #exec.stream<communication>} : tensor<4x8xf32>
  // expected-error @below {{writes bytes 0 to 127 of the arena on stream compute without waiting for 'dist.shift', which writes bytes 0 to 127 of the arena on stream communication}}
  %2 = aten.relu(%x) {exec.memory = [#exec.at<0>]} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %g = exec.record on communication
  exec.wait %g on compute
  return
}

// -----

// Arguments are ready on the compute stream.
dist.mesh @mesh ["dp" = 2]
// expected-note @below {{expected an exec.record on compute from here on, and an exec.wait for it on communication before the op}}
func.func @f(%x: tensor<4x8xf32> {train.role = #train.role<input "x">})
    attributes {train.phase = #train.phase<microbatch>, exec.lowered = #exec.lowered<cpu, arena = 256, alignment = 64>} {
  // expected-error @below {{reads an argument's memory on stream communication without waiting for stream compute, on which it was available before the function}}
  %1 = dist.shift(%x) by 1 wrap over @mesh ["dp"] {exec.call = 0 : i64, exec.memory = [#exec.apart], exec.stream = #exec.stream<communication>} : tensor<4x8xf32>
  %g = exec.record on communication
  exec.wait %g on compute
  return
}

// -----

// What is only started lasts until it is waited for.
dist.mesh @mesh ["dp" = 2]
func.func @f(%x: tensor<4x8xf32> {train.role = #train.role<input "x">})
    attributes {train.phase = #train.phase<microbatch>, exec.lowered = #exec.lowered<cpu, arena = 256, alignment = 64>} {
  %0 = aten.relu(%x) {exec.memory = [#exec.at<0>]} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %e = exec.record on compute
  exec.wait %e on communication
  // expected-note @below {{'dist.shift' is here}}
  %s = dist.shift(%0) by 1 wrap over @mesh ["dp"] {exec.call = 0 : i64, exec.memory = [#exec.apart], exec.stream = #exec.stream<communication>} : tensor<4x8xf32> -> !dist.future<tensor<4x8xf32>>
  %g = exec.record on communication
  exec.wait %g on compute
  // expected-note @below {{expected an exec.record on communication after 'dist.wait' here, and an exec.wait for it on compute before 'aten.relu'}}
  %1 = dist.wait %s {exec.memory = [#exec.same<0>], exec.stream = #exec.stream<communication>} : tensor<4x8xf32>
  // expected-error @below {{reads memory of its own on stream compute without waiting for 'dist.shift', which writes memory of its own on stream communication}}
  %2 = aten.relu(%1) {exec.memory = [#exec.at<128>]} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %h = exec.record on communication
  exec.wait %h on compute
  return
}

// -----

// The end of the function is after everything.
dist.mesh @mesh ["dp" = 2]
func.func @f(%x: tensor<4x8xf32> {train.role = #train.role<input "x">})
    attributes {train.phase = #train.phase<microbatch>, exec.lowered = #exec.lowered<cpu, arena = 256, alignment = 64>} {
  %0 = aten.relu(%x) {exec.memory = [#exec.at<0>]} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %e = exec.record on compute
  exec.wait %e on communication
  // expected-note @below {{'dist.shift' is here}}
  // expected-note @below {{expected an exec.record on communication after 'dist.shift' here, and an exec.wait for it on compute before 'func.return'}}
  %1 = dist.shift(%0) by 1 wrap over @mesh ["dp"] {exec.call = 0 : i64, exec.memory = [#exec.apart], exec.stream = #exec.stream<communication>} : tensor<4x8xf32>
  // expected-error @below {{ends the function on stream compute without waiting for 'dist.shift', which reads bytes 0 to 127 of the arena on stream communication}}
  return
}

// -----

// Communicators are called in their order.
dist.mesh @mesh ["dp" = 2]
func.func @f(%x: tensor<4x8xf32> {train.role = #train.role<input "x">})
    attributes {train.phase = #train.phase<microbatch>, exec.lowered = #exec.lowered<cpu, arena = 256, alignment = 64>} {
  %e = exec.record on compute
  exec.wait %e on communication
  // expected-error @below {{expects to be communicator call 0 of the function, found 1: other ranks use the original order}}
  %1 = dist.shift(%x) by 1 wrap over @mesh ["dp"] {exec.call = 1 : i64, exec.memory = [#exec.apart], exec.stream = #exec.stream<communication>} : tensor<4x8xf32>
  %2 = dist.shift(%x) by 1 wrap over @mesh ["dp"] {exec.call = 0 : i64, exec.memory = [#exec.apart], exec.stream = #exec.stream<communication>} : tensor<4x8xf32>
  %g = exec.record on communication
  exec.wait %g on compute
  return
}

// -----

// A call with no number.
dist.mesh @mesh ["dp" = 2]
func.func @f(%x: tensor<4x8xf32> {train.role = #train.role<input "x">})
    attributes {train.phase = #train.phase<microbatch>, exec.lowered = #exec.lowered<cpu, arena = 256, alignment = 64>} {
  %e = exec.record on compute
  exec.wait %e on communication
  // expected-note @below {{call 0, 'dist.shift', is here}}
  %1 = dist.shift(%x) by 1 wrap over @mesh ["dp"] {exec.call = 0 : i64, exec.memory = [#exec.apart], exec.stream = #exec.stream<communication>} : tensor<4x8xf32>
  // expected-error @below {{expects to be communicator call 1 of the function, found no number: other ranks use the original order}}
  %2 = dist.shift(%x) by 1 wrap over @mesh ["dp"] {exec.memory = [#exec.apart], exec.stream = #exec.stream<communication>} : tensor<4x8xf32>
  %g = exec.record on communication
  exec.wait %g on compute
  return
}

// -----

// A number where there is no call.
dist.mesh @mesh ["dp" = 2]
func.func @f(%x: tensor<4x8xf32> {train.role = #train.role<input "x">})
    attributes {train.phase = #train.phase<microbatch>, exec.lowered = #exec.lowered<cpu, arena = 256, alignment = 64>} {
  // expected-error @below {{expects 'exec.call' only on ops that communicate}}
  %0 = aten.relu(%x) {exec.call = 0 : i64, exec.memory = [#exec.apart]} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  return
}

// -----

// One function alone.
dist.mesh @mesh ["dp" = 2]
// expected-note @below {{lowered: #exec.lowered<cpu, arena = 256, alignment = 64>}}
func.func @f(%x: tensor<4x8xf32> {train.role = #train.role<input "x">})
    attributes {train.phase = #train.phase<microbatch>, exec.lowered = #exec.lowered<cpu, arena = 256, alignment = 64>} {
  return
}
// expected-error @below {{expects to be lowered as all functions of the program are, found it not lowered}}
func.func @update(%w: tensor<f32> {train.role = #train.role<step>}) attributes {train.phase = #train.phase<update>} {
  return
}

// -----

// For another target.
dist.mesh @mesh ["dp" = 2]
// expected-note @below {{lowered: #exec.lowered<cpu, arena = 256, alignment = 64>}}
func.func @f(%x: tensor<4x8xf32> {train.role = #train.role<input "x">})
    attributes {train.phase = #train.phase<microbatch>, exec.lowered = #exec.lowered<cpu, arena = 256, alignment = 64>} {
  return
}
// expected-error @below {{expects to be lowered as all functions of the program are, found #exec.lowered<cpu, arena = 0, alignment = 512>}}
func.func @update(%w: tensor<f32> {train.role = #train.role<step>}) attributes {train.phase = #train.phase<update>, exec.lowered = #exec.lowered<cpu, arena = 0, alignment = 512>} {
  return
}
