// RUN: cleave-opt %s --split-input-file --verify-diagnostics

// expected-error @below {{expects arena and frame to be numbers of bytes, found -64 and 0}}
func.func private @f() attributes {a = #exec.lowered<cpu, arena = -64, alignment = 64>}

// -----

// expected-error @below {{expects arena and frame to be numbers of bytes, found 0 and -1}}
func.func private @f() attributes {a = #exec.lowered<cpu, arena = 0, frame = -1, alignment = 64>}

// -----

// expected-error @below {{expects alignment to be a power of two, found 48}}
func.func private @f() attributes {a = #exec.lowered<cpu, arena = 0, alignment = 48>}

// -----

// expected-error @below {{expects no chip for cpu, found 'sm_90'}}
func.func private @f() attributes {a = #exec.lowered<cpu, chip = "sm_90", arena = 0, alignment = 64>}

// -----

// expected-error @below {{expects a chip like "sm_90" for cuda, found ''}}
func.func private @f() attributes {a = #exec.lowered<cuda, arena = 0, alignment = 64>}

// -----

// expected-error @below {{expects a chip like "sm_90" for cuda, found 'hopper'}}
func.func private @f() attributes {a = #exec.lowered<cuda, chip = "hopper", arena = 0, alignment = 64>}

// -----

// expected-error @below {{expects 'exec.lowered' to be an #exec.lowered on a phase function with one block}}
func.func @f() attributes {exec.lowered = #exec.lowered<cpu, arena = 0, alignment = 64>} {
  return
}

// -----

// expected-error @below {{expects 'exec.lowered' to be an #exec.lowered on a phase function with one block}}
func.func @f() attributes {train.phase = #train.phase<microbatch>, exec.lowered = "cpu"} {
  return
}

// -----

// expected-error @below {{unknown attribute 'exec.memroy'}}
func.func @f() attributes {exec.memroy = []} {
  return
}

// -----

func.func @f(%x: tensor<4xf32>) {
  // expected-error @below {{expects 'exec.memory' only in a function with 'exec.lowered'}}
  %0 = aten.relu(%x) {exec.memory = [#exec.apart]} : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @f(%x: tensor<4xf32>) {
  // expected-error @below {{expects 'exec.stream' only in a function with 'exec.lowered'}}
  %0 = aten.relu(%x) {exec.stream = #exec.stream<compute>} : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @f() {
  // expected-error @below {{expects to be in a function with 'exec.lowered'}}
  %e = exec.record on compute
  exec.wait %e on communication
  return
}

// -----

// expected-note @below {{the function is lowered: run passes that create or change ops before --lower-to-exec}}
func.func @f(%x: tensor<4xf32> {train.role = #train.role<input "x">})
    attributes {train.phase = #train.phase<microbatch>, exec.lowered = #exec.lowered<cpu, arena = 64, alignment = 64>} {
  // expected-error @below {{expects 'exec.memory' with 1 entries, as in all lowered functions; found none}}
  %0 = aten.relu(%x) : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

// expected-note @below {{the function is lowered: run passes that create or change ops before --lower-to-exec}}
func.func @f(%x: tensor<4xf32> {train.role = #train.role<input "x">})
    attributes {train.phase = #train.phase<microbatch>, exec.lowered = #exec.lowered<cpu, arena = 64, alignment = 64>} {
  // expected-error @below {{expects 'exec.memory' with 1 entries, as in all lowered functions; found 2}}
  %0 = aten.relu(%x) {exec.memory = [#exec.apart, #exec.apart]} : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @f(%x: tensor<4xf32> {train.role = #train.role<input "x">})
    attributes {train.phase = #train.phase<microbatch>, exec.lowered = #exec.lowered<cpu, arena = 64, alignment = 64>} {
  // expected-error @below {{expects 'exec.memory' of result 0 to be #exec.at, #exec.frame, #exec.same or #exec.apart, found "arena"}}
  %0 = aten.relu(%x) {exec.memory = ["arena"]} : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @f(%x: tensor<4xf32> {train.role = #train.role<input "x">})
    attributes {train.phase = #train.phase<microbatch>, exec.lowered = #exec.lowered<cpu, arena = 128, alignment = 64>} {
  // expected-error @below {{expects 'exec.memory' of result 0 to begin at a multiple of 64 bytes, found #exec.at<32>}}
  %0 = aten.relu(%x) {exec.memory = [#exec.at<32>]} : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @f(%x: tensor<4xf32> {train.role = #train.role<input "x">})
    attributes {train.phase = #train.phase<microbatch>, exec.lowered = #exec.lowered<cpu, arena = 128, alignment = 64>} {
  // expected-error @below {{expects 'exec.memory' of result 0 to begin at a multiple of 64 bytes, found #exec.at<-64>}}
  %0 = aten.relu(%x) {exec.memory = [#exec.at<-64>]} : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @f(%x: tensor<32xf32> {train.role = #train.role<input "x">})
    attributes {train.phase = #train.phase<microbatch>, exec.lowered = #exec.lowered<cpu, arena = 128, alignment = 64>} {
  // expected-error @below {{expects 'exec.memory' of result 0 to end within the arena of 128 bytes, found 128 bytes from 64 on}}
  %0 = aten.relu(%x) {exec.memory = [#exec.at<64>]} : (tensor<32xf32>) -> tensor<32xf32>
  return
}

// -----

func.func @f(%x: tensor<32xf32> {train.role = #train.role<input "x">})
    attributes {train.phase = #train.phase<microbatch>, exec.lowered = #exec.lowered<cpu, arena = 128, alignment = 64>} {
  // expected-error @below {{expects 'exec.memory' of result 0 to end within the frame of 0 bytes, found 128 bytes from 0 on}}
  %0 = aten.relu(%x) {exec.memory = [#exec.frame<0>]} : (tensor<32xf32>) -> tensor<32xf32>
  return
}

// -----

func.func @f(%x: tensor<4xf32> {train.role = #train.role<input "x">})
    attributes {train.phase = #train.phase<microbatch>, exec.lowered = #exec.lowered<cpu, arena = 128, alignment = 64>} {
  // expected-error @below {{expects 'exec.memory' of result 0 to name one of 1 operands, found #exec.same<1>}}
  %0 = aten.relu(%x) {exec.memory = [#exec.same<1>]} : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

dist.mesh @mesh ["dp" = 2]
func.func @f(%x: tensor<4xf32> {train.role = #train.role<input "x">})
    attributes {train.phase = #train.phase<microbatch>, exec.lowered = #exec.lowered<cpu, arena = 128, alignment = 64>} {
  // expected-error @below {{expects 'exec.memory' of result 0 to be #exec.same or #exec.apart, since '!dist.future<none>' is not a statically shaped tensor; found #exec.at<0>}}
  %0 = dist.send(%x) from 0 to 1 tag 7 over @mesh ["dp"] {exec.memory = [#exec.at<0>]} : tensor<4xf32> -> !dist.future<none>
  return
}

// -----

func.func @f(%x: tensor<4xf32> {train.role = #train.role<input "x">})
    attributes {train.phase = #train.phase<microbatch>, exec.lowered = #exec.lowered<cpu, arena = 64, alignment = 64>} {
  // expected-error @below {{expects 'exec.stream' to be an #exec.stream, found "communication"}}
  %0 = aten.relu(%x) {exec.memory = [#exec.apart], exec.stream = "communication"} : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

// expected-note @below {{the function is lowered}}
func.func @f(%x: tensor<4xf32> {train.role = #train.role<input "x">})
    attributes {train.phase = #train.phase<microbatch>, exec.lowered = #exec.lowered<cpu, arena = 64, alignment = 64>} {
  // expected-error @below {{expects 'exec.memory' with 1 entries, as in all lowered functions; found none}}
  %0 = aten.relu(%x) {exec.memory = 3} : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @f(%x: tensor<4xf32> {train.role = #train.role<input "x">})
    attributes {train.phase = #train.phase<microbatch>, exec.lowered = #exec.lowered<cpu, arena = 64, alignment = 64>} {
  // expected-error @below {{expects 'exec.memory' only on ops with results}}
  return {exec.memory = []}
}

// -----

func.func @f() attributes {train.phase = #train.phase<microbatch>, exec.lowered = #exec.lowered<cpu, arena = 64, alignment = 64>} {
  // expected-error @below {{expects one exec.wait for its event, on another stream}}
  %e = exec.record on compute
  return
}

// -----

func.func @f() attributes {train.phase = #train.phase<microbatch>, exec.lowered = #exec.lowered<cpu, arena = 64, alignment = 64>} {
  // expected-error @below {{expects one exec.wait for its event, on another stream}}
  %e = exec.record on compute
  exec.wait %e on compute
  return
}

// -----

func.func @f() attributes {train.phase = #train.phase<microbatch>, exec.lowered = #exec.lowered<cpu, arena = 64, alignment = 64>} {
  // expected-error @below {{expects one exec.wait for its event, on another stream}}
  %e = exec.record on compute
  exec.wait %e on communication
  exec.wait %e on communication
  return
}

// -----

func.func @f(%x: tensor<4xf32> {train.role = #train.role<input "x">})
    attributes {train.phase = #train.phase<microbatch>, exec.lowered = #exec.lowered<cpu, arena = 64, alignment = 64>} {
  %e = exec.record on compute
  // expected-error @below {{expects 'exec.memory' only on ops with results}}
  exec.wait %e on communication {exec.memory = []}
  return
}
