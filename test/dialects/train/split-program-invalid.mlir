// What functions of one program may not ask of each other; one case for each check.

// RUN: cleave-opt %s --sync-gradients="axis=dp" --split-input-file --verify-diagnostics

// expected-note @below {{the other is here}}
func.func @microbatch() attributes {train.phase = #train.phase<microbatch>} { return }
// expected-error @below {{has phase forward, which conflicts with a function of phase microbatch}}
func.func @forward() attributes {train.phase = #train.phase<forward>} { return }

// -----

func.func @forward() attributes {train.phase = #train.phase<forward>} { return }
// expected-note @below {{the first is here}}
func.func @backward() attributes {train.phase = #train.phase<backward>} { return }
// expected-error @below {{is a second function of phase backward}}
func.func @again() attributes {train.phase = #train.phase<backward>} { return }

// -----

func.func @forward() attributes {train.phase = #train.phase<forward>} { return }
// expected-note @below {{the other is here}}
func.func @backward() attributes {train.phase = #train.phase<backward>} { return }
// expected-error @below {{has phase backward_weight, which conflicts with a function of phase backward}}
func.func @weight() attributes {train.phase = #train.phase<backward_weight>} { return }

// -----

// expected-error @below {{expects a function of phase forward for this backward}}
func.func @backward() attributes {train.phase = #train.phase<backward>} { return }

// -----

// expected-error @below {{expects a function of phase backward, or two of phases backward_input and backward_weight, for this forward}}
func.func @forward() attributes {train.phase = #train.phase<forward>} { return }

// -----

func.func @forward() attributes {train.phase = #train.phase<forward>} { return }
// expected-error @below {{expects a function of phase backward_weight, the other half of the backward}}
func.func @input() attributes {train.phase = #train.phase<backward_input>} { return }

// -----

func.func @forward() attributes {train.phase = #train.phase<forward>} { return }
// expected-error @below {{expects a function of phase backward_input, the other half of the backward}}
func.func @weight() attributes {train.phase = #train.phase<backward_weight>} { return }

// -----

func.func @forward() attributes {train.phase = #train.phase<forward>} { return }
// expected-error @below {{takes #train.role<saved "h">, which no function of the program returns}}
func.func @backward(%h: tensor<4xf32> {train.role = #train.role<saved "h">})
    attributes {train.phase = #train.phase<backward>} {
  return
}

// -----

// expected-error @below {{returns #train.role<saved "h">, which no later function takes}}
func.func @forward(%x: tensor<4xf32> {train.role = #train.role<input "x">})
    -> (tensor<4xf32> {train.role = #train.role<saved "h">}) attributes {train.phase = #train.phase<forward>} {
  return %x : tensor<4xf32>
}
func.func @backward() attributes {train.phase = #train.phase<backward>} { return }

// -----

// expected-note @below {{produced here with type 'tensor<4xf32>'}}
func.func @forward(%x: tensor<4xf32> {train.role = #train.role<input "x">})
    -> (tensor<4xf32> {train.role = #train.role<saved "h">}) attributes {train.phase = #train.phase<forward>} {
  return %x : tensor<4xf32>
}
// expected-error @below {{takes #train.role<saved "h"> of type 'tensor<2xf32>'}}
func.func @backward(%h: tensor<2xf32> {train.role = #train.role<saved "h">})
    attributes {train.phase = #train.phase<backward>} {
  return
}

// -----

func.func @forward() attributes {train.phase = #train.phase<forward>} { return }
// expected-error @below {{takes #train.role<saved "h">, which is computed only later}}
func.func @input(%h: tensor<4xf32> {train.role = #train.role<saved "h">})
    attributes {train.phase = #train.phase<backward_input>} {
  return
}
// expected-note @below {{produced here}}
func.func @weight(%x: tensor<4xf32> {train.role = #train.role<input "x">})
    -> (tensor<4xf32> {train.role = #train.role<saved "h">}) attributes {train.phase = #train.phase<backward_weight>} {
  return %x : tensor<4xf32>
}

// -----

// expected-note @below {{computed here, by a function that runs for each microbatch}}
func.func @forward(%x: tensor<4xf32> {train.role = #train.role<input "x">})
    -> (tensor<4xf32> {train.role = #train.role<saved "h">}) attributes {train.phase = #train.phase<forward>} {
  return %x : tensor<4xf32>
}
func.func @backward(%h: tensor<4xf32> {train.role = #train.role<saved "h">})
    attributes {train.phase = #train.phase<backward>} {
  return
}
// expected-error @below {{takes #train.role<saved "h">, which does not outlive its microbatch}}
func.func @update(%h: tensor<4xf32> {train.role = #train.role<saved "h">})
    attributes {train.phase = #train.phase<update>} {
  return
}

// -----

// expected-note @below {{this function of the microbatch takes it as #train.role<input "x" batch 0> of type 'tensor<4xf32>'}}
func.func @forward(%x: tensor<4xf32> {train.role = #train.role<input "x" batch 0>})
    attributes {train.phase = #train.phase<forward>} {
  return
}
// expected-error @below {{takes #train.role<input "x"> of type 'tensor<4xf32>'}}
func.func @backward(%x: tensor<4xf32> {train.role = #train.role<input "x">})
    attributes {train.phase = #train.phase<backward>} {
  return
}

// -----

// expected-note @below {{updated here}}
func.func @forward(%b: tensor<4xf32> {train.role = #train.role<buffer "b">})
    -> (tensor<4xf32> {train.role = #train.role<buffer "b">}) attributes {train.phase = #train.phase<forward>} {
  return %b : tensor<4xf32>
}
// expected-error @below {{takes #train.role<buffer "b">, which another function of the microbatch updates; pass the intended value as a saved one}}
func.func @backward(%b: tensor<4xf32> {train.role = #train.role<buffer "b">})
    attributes {train.phase = #train.phase<backward>} {
  return
}

// -----

// expected-note @below {{this function already returns it}}
func.func @forward(%x: tensor<4xf32> {train.role = #train.role<input "x">})
    -> (tensor<4xf32> {train.role = #train.role<output "0">}) attributes {train.phase = #train.phase<forward>} {
  return %x : tensor<4xf32>
}
// expected-error @below {{returns #train.role<output "0"> a second time}}
func.func @backward(%x: tensor<4xf32> {train.role = #train.role<input "x">})
    -> (tensor<4xf32> {train.role = #train.role<output "0">}) attributes {train.phase = #train.phase<backward>} {
  return %x : tensor<4xf32>
}

// -----

func.func @microbatch() attributes {train.phase = #train.phase<microbatch>} { return }
// expected-error @below {{of phase unshard takes #train.role<input "x">, but unsharding starts from parameters, buffers and constants}}
func.func @unshard(%x: tensor<4xf32> {train.role = #train.role<input "x">})
    attributes {train.phase = #train.phase<unshard>} {
  return
}

// -----

func.func @microbatch() attributes {train.phase = #train.phase<microbatch>} { return }
// expected-error @below {{of phase unshard returns #train.role<output "0">, but it may return saved values only}}
func.func @unshard(%x: tensor<4xf32> {train.role = #train.role<parameter "x">})
    -> (tensor<4xf32> {train.role = #train.role<output "0">}) attributes {train.phase = #train.phase<unshard>} {
  return %x : tensor<4xf32>
}

// -----

func.func @microbatch() attributes {train.phase = #train.phase<microbatch>} { return }
// expected-error @below {{of phase reduce takes #train.role<input "x">, but only gradients can be reduced}}
func.func @reduce(%x: tensor<4xf32> {train.role = #train.role<input "x">})
    attributes {train.phase = #train.phase<reduce>} {
  return
}

// -----

func.func @microbatch() attributes {train.phase = #train.phase<microbatch>} { return }
// expected-error @below {{of phase reduce returns #train.role<loss>, but only gradients can be reduced}}
func.func @reduce(%x: tensor<f32> {train.role = #train.role<gradient "x">})
    -> (tensor<f32> {train.role = #train.role<loss>}) attributes {train.phase = #train.phase<reduce>} {
  return %x : tensor<f32>
}

// -----

// expected-note @below {{the microbatch function has none with that name}}
func.func @microbatch() attributes {train.phase = #train.phase<microbatch>} { return }
// expected-error @below {{takes #train.role<gradient "w"> of type 'tensor<4xf32>'}}
func.func @reduce(%g: tensor<4xf32> {train.role = #train.role<gradient "w">})
    -> (tensor<4xf32> {train.role = #train.role<gradient "w">}) attributes {train.phase = #train.phase<reduce>} {
  return %g : tensor<4xf32>
}

// -----

func.func @microbatch(%x: tensor<4xf32> {train.role = #train.role<input "x">})
    -> (tensor<4xf32> {train.role = #train.role<gradient "w">}) attributes {train.phase = #train.phase<microbatch>} {
  return %x : tensor<4xf32>
}
// expected-error @below {{takes #train.role<gradient "w"> and does not return it}}
func.func @reduce(%g: tensor<4xf32> {train.role = #train.role<gradient "w">})
    attributes {train.phase = #train.phase<reduce>} {
  return
}

// -----

// expected-error @below {{expects 'train.draws' on the microbatch or forward function, found a function of phase backward}}
func.func @backward() attributes {train.phase = #train.phase<backward>, train.draws = 4 : i64} { return }

// -----

// expected-error @below {{expects #train.role<saved> to have a name}}
func.func @forward(%h: tensor<4xf32> {train.role = #train.role<saved>})
    attributes {train.phase = #train.phase<forward>} {
  return
}
