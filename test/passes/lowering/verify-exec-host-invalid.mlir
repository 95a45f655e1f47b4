// RUN: cleave-opt %s --split-input-file --verify-exec --verify-diagnostics

// Copies are on a stream of their own.
func.func @f(%x: tensor<4x8xf32> {train.role = #train.role<input "x">})
    attributes {train.phase = #train.phase<microbatch>, exec.lowered = #exec.lowered<cpu, arena = 256, alignment = 64>} {
  // expected-error @below {{'dist.offload' op expects to run on stream host, found compute}}
  %0 = dist.offload %x {exec.memory = [#exec.apart]} : tensor<4x8xf32>
  return
}

// -----

// Nothing else is on it.
func.func @f(%x: tensor<4x8xf32> {train.role = #train.role<input "x">})
    attributes {train.phase = #train.phase<microbatch>, exec.lowered = #exec.lowered<cpu, arena = 256, alignment = 64>} {
  // expected-error @below {{expects to run on stream compute, found host}}
  %0 = aten.relu(%x) {exec.memory = [#exec.apart], exec.stream = #exec.stream<host>} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  return
}

// -----

// The arena is the device's.
func.func @f(%x: tensor<4x8xf32> {train.role = #train.role<input "x">})
    attributes {train.phase = #train.phase<microbatch>, exec.lowered = #exec.lowered<cpu, arena = 256, alignment = 64>} {
  // expected-error @below {{expects 'exec.memory' of result 0 to be #exec.same or #exec.apart, since '!dist.host<tensor<4x8xf32>>' is not a statically shaped tensor; found #exec.at<0>}}
  %0 = dist.offload %x {exec.memory = [#exec.at<0>], exec.stream = #exec.stream<host>} : tensor<4x8xf32>
  return
}

// -----

// A copy is none of the operand's memory.
func.func @f(%x: tensor<4x8xf32> {train.role = #train.role<input "x">})
    attributes {train.phase = #train.phase<microbatch>, exec.lowered = #exec.lowered<cpu, arena = 256, alignment = 64>} {
  // expected-error @below {{expects result 0 in memory of its own: the op cannot overwrite operand 0}}
  %0 = dist.offload %x {exec.memory = [#exec.same<0>], exec.stream = #exec.stream<host>} : tensor<4x8xf32>
  return
}

// -----

// A value is copied when it is there.
func.func @f(%x: tensor<4x8xf32> {train.role = #train.role<input "x">})
    attributes {train.phase = #train.phase<microbatch>, exec.lowered = #exec.lowered<cpu, arena = 256, alignment = 64>} {
  // expected-note @below {{'aten.relu' is here}}
  // expected-note @below {{expected an exec.record on compute after 'aten.relu' here, and an exec.wait for it on host before 'dist.offload'}}
  %0 = aten.relu(%x) {exec.memory = [#exec.at<0>]} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  // expected-error @below {{reads bytes 0 to 127 of the arena on stream host without waiting for 'aten.relu', which writes bytes 0 to 127 of the arena on stream compute}}
  %1 = dist.offload %0 {exec.memory = [#exec.apart], exec.stream = #exec.stream<host>} : tensor<4x8xf32>
  %e = exec.record on host
  exec.wait %e on compute
  return
}

// -----

// It is not overwritten before the copy has read it.
func.func @f(%x: tensor<4x8xf32> {train.role = #train.role<input "x">})
    attributes {train.phase = #train.phase<microbatch>, exec.lowered = #exec.lowered<cpu, arena = 256, alignment = 64>} {
  %0 = aten.relu(%x) {exec.memory = [#exec.at<0>]} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %e = exec.record on compute
  exec.wait %e on host
  // expected-note @below {{'dist.offload' is here}}
  // expected-note @below {{expected an exec.record on host after 'dist.offload' here, and an exec.wait for it on compute before 'aten.neg'}}
  %1 = dist.offload %0 {exec.memory = [#exec.apart], exec.stream = #exec.stream<host>} : tensor<4x8xf32>
  // expected-error @below {{writes bytes 0 to 127 of the arena on stream compute without waiting for 'dist.offload', which reads bytes 0 to 127 of the arena on stream host}}
  %2 = aten.neg(%x) {exec.memory = [#exec.at<0>]} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %g = exec.record on host
  exec.wait %g on compute
  return
}

// -----

// The next function may use the arena again.
func.func @f(%x: tensor<4x8xf32> {train.role = #train.role<input "x">})
    attributes {train.phase = #train.phase<microbatch>, exec.lowered = #exec.lowered<cpu, arena = 256, alignment = 64>} {
  %0 = aten.relu(%x) {exec.memory = [#exec.at<0>]} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %e = exec.record on compute
  exec.wait %e on host
  // expected-note @below {{'dist.offload' is here}}
  // expected-note @below {{expected an exec.record on host after 'dist.offload' here, and an exec.wait for it on compute before 'func.return'}}
  %1 = dist.offload %0 {exec.memory = [#exec.apart], exec.stream = #exec.stream<host>} : tensor<4x8xf32>
  // expected-error @below {{ends the function on stream compute without waiting for 'dist.offload', which reads bytes 0 to 127 of the arena on stream host}}
  return
}

// -----

// What comes back is not used before it is there; a host's copy is there when the function begins.
func.func @f(%x: tensor<4x8xf32> {train.role = #train.role<input "x">}, %h: !dist.host<tensor<4x8xf32>> {train.role = #train.role<saved "h">})
    attributes {train.phase = #train.phase<backward>, exec.lowered = #exec.lowered<cpu, arena = 256, alignment = 64>} {
  %e = exec.record on compute
  exec.wait %e on host
  // expected-note @below {{'dist.reload' is here}}
  // expected-note @below {{expected an exec.record on host after 'dist.reload' here, and an exec.wait for it on compute before 'aten.mul'}}
  %0 = dist.reload %h {exec.memory = [#exec.at<0>], exec.stream = #exec.stream<host>} : tensor<4x8xf32>
  // expected-error @below {{reads bytes 0 to 127 of the arena on stream compute without waiting for 'dist.reload', which writes bytes 0 to 127 of the arena on stream host}}
  %1 = aten.mul(%x, %0) {exec.memory = [#exec.apart]} : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %g = exec.record on host
  exec.wait %g on compute
  return
}

// -----

// That one stream waits for another does not order a third.
dist.mesh @mesh ["dp" = 2]
func.func @f(%x: tensor<4x8xf32> {train.role = #train.role<input "x">}, %h: !dist.host<tensor<4x8xf32>> {train.role = #train.role<saved "h">})
    attributes {train.phase = #train.phase<backward>, exec.lowered = #exec.lowered<cpu, arena = 256, alignment = 64>} {
  %e = exec.record on compute
  exec.wait %e on host
  // expected-note @below {{'dist.reload' is here}}
  // expected-note @below {{expected an exec.record on host after 'dist.reload' here, and an exec.wait for it on communication before 'dist.shift'}}
  %0 = dist.reload %h {exec.memory = [#exec.at<0>], exec.stream = #exec.stream<host>} : tensor<4x8xf32>
  %c = exec.record on compute
  exec.wait %c on communication
  %g = exec.record on host
  exec.wait %g on compute
  // expected-error @below {{reads bytes 0 to 127 of the arena on stream communication without waiting for 'dist.reload', which writes bytes 0 to 127 of the arena on stream host}}
  %1 = dist.shift(%0) by 1 wrap over @mesh ["dp"] {exec.call = 0 : i64, exec.memory = [#exec.apart], exec.stream = #exec.stream<communication>} : tensor<4x8xf32>
  %d = exec.record on communication
  exec.wait %d on compute
  return
}
