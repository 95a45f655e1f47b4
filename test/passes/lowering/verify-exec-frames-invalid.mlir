// RUN: cleave-opt %s --split-input-file --verify-diagnostics --verify-exec

// A saved value that another function of the microbatch overwrites before its reader runs.
func.func @forward(%x: tensor<4x8xf32> {train.role = #train.role<input "x">})
    -> (tensor<4x8xf32> {train.role = #train.role<saved "a">})
    attributes {train.phase = #train.phase<forward>, exec.lowered = #exec.lowered<cpu, arena = 0, frame = 256, alignment = 64>} {
  // expected-note @below {{result 0 of 'aten.relu' is from here}}
  %0 = aten.relu(%x) {exec.memory = [#exec.frame<0>]} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  return %0 : tensor<4x8xf32>
}
func.func @backward_input(%x: tensor<4x8xf32> {train.role = #train.role<input "x">})
    -> (tensor<4x8xf32> {train.role = #train.role<saved "b">})
    attributes {train.phase = #train.phase<backward_input>, exec.lowered = #exec.lowered<cpu, arena = 0, frame = 256, alignment = 64>} {
  // expected-error @below {{writes its result 0 to bytes 64 to 191 of the frame, where result 0 of 'aten.relu' of function 'forward' still lies, in bytes 0 to 127 of the frame}}
  %0 = aten.neg(%x) {exec.memory = [#exec.frame<64>]} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  return %0 : tensor<4x8xf32>
}
func.func @backward_weight(
    %a: tensor<4x8xf32> {train.role = #train.role<saved "a">},
    %b: tensor<4x8xf32> {train.role = #train.role<saved "b">})
    attributes {train.phase = #train.phase<backward_weight>, exec.lowered = #exec.lowered<cpu, arena = 0, frame = 256, alignment = 64>} {
  // expected-note @below {{it is needed until 'aten.add' here, in function 'backward_weight'}}
  %0 = aten.add(%a, %b) {exec.memory = [#exec.apart]} : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  return
}

// -----

// A view of it counts, also where a function saves it again.
func.func @forward(%x: tensor<4x8xf32> {train.role = #train.role<input "x">})
    -> (tensor<8x4xf32> {train.role = #train.role<saved "a">})
    attributes {train.phase = #train.phase<forward>, exec.lowered = #exec.lowered<cpu, arena = 0, frame = 256, alignment = 64>} {
  // expected-note @below {{result 0 of 'aten.relu' is from here}}
  %0 = aten.relu(%x) {exec.memory = [#exec.frame<0>]} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %t = aten.t(%0) {exec.memory = [#exec.same<0>]} : (tensor<4x8xf32>) -> tensor<8x4xf32>
  return %t : tensor<8x4xf32>
}
func.func @backward_input(%x: tensor<4x8xf32> {train.role = #train.role<input "x">}, %a: tensor<8x4xf32> {train.role = #train.role<saved "a">})
    -> (tensor<4x8xf32> {train.role = #train.role<saved "b">}, tensor<4x8xf32> {train.role = #train.role<saved "c">})
    attributes {train.phase = #train.phase<backward_input>, exec.lowered = #exec.lowered<cpu, arena = 0, frame = 256, alignment = 64>} {
  %t = aten.t(%a) {exec.memory = [#exec.same<0>]} : (tensor<8x4xf32>) -> tensor<4x8xf32>
  // expected-error @below {{writes its result 0 to bytes 64 to 191 of the frame, where result 0 of 'aten.relu' of function 'forward' still lies, in bytes 0 to 127 of the frame}}
  %0 = aten.neg(%x) {exec.memory = [#exec.frame<64>]} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  return %0, %t : tensor<4x8xf32>, tensor<4x8xf32>
}
func.func @backward_weight(
    %b: tensor<4x8xf32> {train.role = #train.role<saved "b">},
    %c: tensor<4x8xf32> {train.role = #train.role<saved "c">})
    attributes {train.phase = #train.phase<backward_weight>, exec.lowered = #exec.lowered<cpu, arena = 0, frame = 256, alignment = 64>} {
  // expected-note @below {{it is needed until 'aten.add' here, in function 'backward_weight'}}
  %0 = aten.add(%b, %c) {exec.memory = [#exec.apart]} : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  return
}

// -----

// Written in the backward-input while an op of it still reads what the forward saved there.
func.func @forward(%x: tensor<4x8xf32> {train.role = #train.role<input "x">})
    -> (tensor<4x8xf32> {train.role = #train.role<saved "a">})
    attributes {train.phase = #train.phase<forward>, exec.lowered = #exec.lowered<cpu, arena = 0, frame = 128, alignment = 64>} {
  // expected-note @below {{result 0 of 'aten.relu' is from here}}
  %0 = aten.relu(%x) {exec.memory = [#exec.frame<0>]} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  return %0 : tensor<4x8xf32>
}
func.func @backward_input(%a: tensor<4x8xf32> {train.role = #train.role<saved "a">})
    -> (tensor<4x8xf32> {train.role = #train.role<saved "b">})
    attributes {train.phase = #train.phase<backward_input>, exec.lowered = #exec.lowered<cpu, arena = 0, frame = 128, alignment = 64>} {
  // expected-error @below {{writes its result 0 to bytes 0 to 127 of the frame, where result 0 of 'aten.relu' of function 'forward' still lies}}
  // expected-note @below {{it is needed until 'aten.neg' here}}
  %0 = aten.neg(%a) {exec.memory = [#exec.frame<0>]} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  return %0 : tensor<4x8xf32>
}

// -----

// What was saved in the frame does not outlive the microbatch.
func.func @forward(%x: tensor<4x8xf32> {train.role = #train.role<input "x">})
    -> (tensor<4x8xf32> {train.role = #train.role<saved "a">})
    attributes {train.phase = #train.phase<forward>, exec.lowered = #exec.lowered<cpu, arena = 0, frame = 128, alignment = 64>} {
  %0 = aten.relu(%x) {exec.memory = [#exec.frame<0>]} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  return %0 : tensor<4x8xf32>
}
// expected-note @below {{argument 'saved' is from here}}
func.func @backward(%a: tensor<4x8xf32> {train.role = #train.role<saved "a">})
    -> (tensor<4x8xf32> {train.role = #train.role<output "0">})
    attributes {train.phase = #train.phase<backward>, exec.lowered = #exec.lowered<cpu, arena = 0, frame = 128, alignment = 64>} {
  // expected-error @below {{returns result 0 in bytes 0 to 127 of the frame, which does not outlive the function}}
  return %a : tensor<4x8xf32>
}

// -----

// Frames of two sizes.
// expected-note @below {{'forward' is here}}
func.func @forward(%x: tensor<4x8xf32> {train.role = #train.role<input "x">})
    attributes {train.phase = #train.phase<forward>, exec.lowered = #exec.lowered<cpu, arena = 0, frame = 128, alignment = 64>} {
  return
}
// expected-error @below {{expects a frame of 128 bytes, as 'forward' of the same microbatch has, found 256}}
func.func @backward(%x: tensor<4x8xf32> {train.role = #train.role<input "x">})
    attributes {train.phase = #train.phase<backward>, exec.lowered = #exec.lowered<cpu, arena = 0, frame = 256, alignment = 64>} {
  return
}

// -----

// What all microbatches take is in none of their frames.
// expected-error @below {{expects no frame, found one of 128 bytes: the function is not part of a microbatch}}
func.func @unshard(%w: tensor<4x8xf32> {train.role = #train.role<parameter "w">})
    -> (tensor<4x8xf32> {train.role = #train.role<saved "w">})
    attributes {train.phase = #train.phase<unshard>, exec.lowered = #exec.lowered<cpu, arena = 0, frame = 128, alignment = 64>} {
  %0 = aten.relu(%w) {exec.memory = [#exec.frame<0>]} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  return %0 : tensor<4x8xf32>
}

// -----

// Of two forwards nobody knows which one runs first.
// expected-error @below {{expects no frame, found one of 128 bytes: two functions of the microbatch have the same phase, so their order is unknown}}
func.func @forward(%x: tensor<4x8xf32> {train.role = #train.role<input "x">})
    attributes {train.phase = #train.phase<forward>, exec.lowered = #exec.lowered<cpu, arena = 0, frame = 128, alignment = 64>} {
  return
}
func.func @another(%x: tensor<4x8xf32> {train.role = #train.role<input "x">})
    attributes {train.phase = #train.phase<forward>, exec.lowered = #exec.lowered<cpu, arena = 0, frame = 128, alignment = 64>} {
  return
}

// -----

// The frame of one stage is not there for another one.
// expected-note @below {{'forward_0' is here}}
func.func @forward_0(%x: tensor<4x8xf32> {train.role = #train.role<input "x">})
    -> (tensor<4x8xf32> {train.role = #train.role<saved "a">})
    attributes {train.phase = #train.phase<forward>, train.stage = 0 : i64, exec.lowered = #exec.lowered<cpu, arena = 0, frame = 128, alignment = 64>} {
  %0 = aten.relu(%x) {exec.memory = [#exec.frame<0>]} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  return %0 : tensor<4x8xf32>
}
// expected-error @below {{takes saved value "a", which lies in the frame of 'forward_0': expects a later function of the same microbatch and stage}}
func.func @backward_1(%a: tensor<4x8xf32> {train.role = #train.role<saved "a">})
    attributes {train.phase = #train.phase<backward>, train.stage = 1 : i64, exec.lowered = #exec.lowered<cpu, arena = 0, alignment = 64>} {
  return
}

// -----

// On two streams: the backward-input may write over what communication has read when that is done.
dist.mesh @mesh ["dp" = 2]
func.func @forward(%x: tensor<4x8xf32> {train.role = #train.role<input "x">})
    -> (tensor<4x8xf32> {train.role = #train.role<saved "a">})
    attributes {train.phase = #train.phase<forward>, exec.lowered = #exec.lowered<cpu, arena = 0, frame = 128, alignment = 64>} {
  %0 = aten.relu(%x) {exec.memory = [#exec.frame<0>]} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  return %0 : tensor<4x8xf32>
}
func.func @backward_input(%a: tensor<4x8xf32> {train.role = #train.role<saved "a">}, %x: tensor<4x8xf32> {train.role = #train.role<input "x">})
    -> (tensor<4x8xf32> {train.role = #train.role<saved "b">})
    attributes {train.phase = #train.phase<backward_input>, exec.lowered = #exec.lowered<cpu, arena = 0, frame = 128, alignment = 64>} {
  %e0 = exec.record on compute
  exec.wait %e0 on communication
  // expected-note @below {{'dist.shift' is here}}
  // expected-note @below {{expected an exec.record on communication after 'dist.shift' here, and an exec.wait for it on compute before 'aten.neg'}}
  %1 = dist.shift(%a) by 1 wrap over @mesh ["dp"] {exec.call = 0 : i64, exec.memory = [#exec.apart], exec.stream = #exec.stream<communication>} : tensor<4x8xf32>
  // expected-error @below {{writes bytes 0 to 127 of the frame on stream compute without waiting for 'dist.shift', which reads bytes 0 to 127 of the frame on stream communication}}
  %0 = aten.neg(%x) {exec.memory = [#exec.frame<0>]} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %e1 = exec.record on communication
  exec.wait %e1 on compute
  return %0 : tensor<4x8xf32>
}
