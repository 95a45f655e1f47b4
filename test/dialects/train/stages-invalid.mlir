// RUN: cleave-opt %s --split-backward --split-input-file --verify-diagnostics

// expected-error @below {{expects a stage (train.stage), as another function of the program has one}}
func.func @f(%0: tensor<4xf32> {train.role = #train.role<input "x">})
    -> (tensor<4xf32> {train.role = #train.role<output "0">})
    attributes {train.phase = #train.phase<forward>} {
  return %0 : tensor<4xf32>
}
// expected-note @below {{the other is here}}
func.func @f1(%0: tensor<4xf32> {train.role = #train.role<input "x">})
    -> (tensor<4xf32> {train.role = #train.role<output "0">})
    attributes {train.phase = #train.phase<forward>, train.stage = 0 : i64} {
  return %0 : tensor<4xf32>
}

// -----

func.func @f0(%0: tensor<4xf32> {train.role = #train.role<input "x">})
    -> (tensor<4xf32> {train.role = #train.role<output "1">})
    attributes {train.phase = #train.phase<forward>, train.stage = 0 : i64} {
  return %0 : tensor<4xf32>
}
// expected-error @below {{belongs to stage 2, but the program has no stage 1}}
func.func @f2(%0: tensor<4xf32> {train.role = #train.role<input "x">})
    -> (tensor<4xf32> {train.role = #train.role<output "0">})
    attributes {train.phase = #train.phase<forward>, train.stage = 2 : i64} {
  return %0 : tensor<4xf32>
}

// -----

// expected-note @below {{the first is here}}
func.func @f0(%0: tensor<4xf32> {train.role = #train.role<input "x">})
    -> (tensor<4xf32> {train.role = #train.role<crossing "h">})
    attributes {train.phase = #train.phase<forward>, train.stage = 0 : i64} {
  return %0 : tensor<4xf32>
}
// expected-error @below {{is a second function of phase forward of stage 0}}
func.func @g0(%0: tensor<4xf32> {train.role = #train.role<input "x">})
    -> (tensor<4xf32> {train.role = #train.role<crossing "h">})
    attributes {train.phase = #train.phase<forward>, train.stage = 0 : i64} {
  return %0 : tensor<4xf32>
}

// -----

// expected-error @below {{expects a forward and a backward of a stage, found a function of phase microbatch}}
func.func @m(%0: tensor<4xf32> {train.role = #train.role<input "x">})
    -> (tensor<4xf32> {train.role = #train.role<output "0">})
    attributes {train.phase = #train.phase<microbatch>, train.stage = 0 : i64} {
  return %0 : tensor<4xf32>
}

// -----

// expected-error @below {{expects a function of phase forward of its stage}}
func.func @u(%0: tensor<4xf32> {train.role = #train.role<parameter "w">})
    -> (tensor<4xf32> {train.role = #train.role<parameter "w">})
    attributes {train.phase = #train.phase<update>, train.stage = 0 : i64} {
  return %0 : tensor<4xf32>
}

// -----

// expected-error @below {{expects a function of phase backward, or two of phases backward_input and backward_weight, for this forward}}
func.func @f0(%0: tensor<4xf32> {train.role = #train.role<input "x">})
    -> (tensor<4xf32> {train.role = #train.role<crossing "h">})
    attributes {train.phase = #train.phase<forward>, train.stage = 0 : i64} {
  return %0 : tensor<4xf32>
}
func.func @f1(%0: tensor<4xf32> {train.role = #train.role<crossing "h">})
    -> (tensor<4xf32> {train.role = #train.role<output "0">})
    attributes {train.phase = #train.phase<forward>, train.stage = 1 : i64} {
  return %0 : tensor<4xf32>
}
func.func @b1()
    attributes {train.phase = #train.phase<backward>, train.stage = 1 : i64} {
  return
}

// -----

func.func @f0(%0: tensor<4xf32> {train.role = #train.role<input "x">})
    -> (tensor<4xf32> {train.role = #train.role<output "1">})
    attributes {train.phase = #train.phase<forward>, train.stage = 0 : i64} {
  return %0 : tensor<4xf32>
}
// expected-error @below {{takes #train.role<crossing "h">, which stage 0 does not provide}}
func.func @f1(%0: tensor<4xf32> {train.role = #train.role<crossing "h">})
    -> (tensor<4xf32> {train.role = #train.role<output "0">})
    attributes {train.phase = #train.phase<forward>, train.stage = 1 : i64} {
  return %0 : tensor<4xf32>
}

// -----

// expected-error @below {{returns #train.role<crossing "h">, which stage 1 does not take}}
func.func @f0(%0: tensor<4xf32> {train.role = #train.role<input "x">})
    -> (tensor<4xf32> {train.role = #train.role<crossing "h">})
    attributes {train.phase = #train.phase<forward>, train.stage = 0 : i64} {
  return %0 : tensor<4xf32>
}
func.func @f1(%0: tensor<4xf32> {train.role = #train.role<input "x">})
    -> (tensor<4xf32> {train.role = #train.role<output "0">})
    attributes {train.phase = #train.phase<forward>, train.stage = 1 : i64} {
  return %0 : tensor<4xf32>
}

// -----

// expected-error @below {{takes #train.role<crossing "h">, which no stage can provide it: it is the first stage}}
func.func @f0(%0: tensor<4xf32> {train.role = #train.role<crossing "h">})
    -> (tensor<4xf32> {train.role = #train.role<output "0">})
    attributes {train.phase = #train.phase<forward>, train.stage = 0 : i64} {
  return %0 : tensor<4xf32>
}

// -----

// expected-error @below {{returns #train.role<crossing "h">, which no stage can receive: it is the last stage}}
func.func @f0(%0: tensor<4xf32> {train.role = #train.role<input "x">})
    -> (tensor<4xf32> {train.role = #train.role<crossing "h">})
    attributes {train.phase = #train.phase<forward>, train.stage = 0 : i64} {
  return %0 : tensor<4xf32>
}

// -----

// expected-note @below {{stage 0 returns it with type 'tensor<4xf32>'}}
func.func @f0(%0: tensor<4xf32> {train.role = #train.role<input "x">})
    -> (tensor<4xf32> {train.role = #train.role<crossing "h">})
    attributes {train.phase = #train.phase<forward>, train.stage = 0 : i64} {
  return %0 : tensor<4xf32>
}
// expected-error @below {{takes #train.role<crossing "h"> of type 'tensor<4xf64>'}}
func.func @f1(%0: tensor<4xf64> {train.role = #train.role<crossing "h">})
    -> (tensor<4xf64> {train.role = #train.role<output "0">})
    attributes {train.phase = #train.phase<forward>, train.stage = 1 : i64} {
  return %0 : tensor<4xf64>
}

// -----

// expected-error @below {{of phase forward takes #train.role<crossing_gradient "h">, but gradients cross from one backward (or backward_input) to another}}
func.func @f0(%0: tensor<4xf32> {train.role = #train.role<crossing_gradient "h">})
    -> (tensor<4xf32> {train.role = #train.role<output "0">})
    attributes {train.phase = #train.phase<forward>, train.stage = 0 : i64} {
  return %0 : tensor<4xf32>
}

// -----

func.func @f0(%0: tensor<4xf32> {train.role = #train.role<input "x">})
    -> (tensor<4xf32> {train.role = #train.role<crossing "h">})
    attributes {train.phase = #train.phase<forward>, train.stage = 0 : i64} {
  return %0 : tensor<4xf32>
}
func.func @f1(%0: tensor<4xf32> {train.role = #train.role<crossing "h">})
    -> (tensor<4xf32> {train.role = #train.role<output "0">})
    attributes {train.phase = #train.phase<forward>, train.stage = 1 : i64} {
  return %0 : tensor<4xf32>
}
// expected-error @below {{of phase backward returns #train.role<crossing "h">, but values cross from forward to forward}}
func.func @b1(%0: tensor<4xf32> {train.role = #train.role<input "x">})
    -> (tensor<4xf32> {train.role = #train.role<crossing "h">})
    attributes {train.phase = #train.phase<backward>, train.stage = 1 : i64} {
  return %0 : tensor<4xf32>
}
func.func @b0()
    attributes {train.phase = #train.phase<backward>, train.stage = 0 : i64} {
  return
}

// -----

// expected-error @below {{takes #train.role<crossing "h">, but the program has no stages}}
func.func @f0(%0: tensor<4xf32> {train.role = #train.role<crossing "h">})
    -> (tensor<4xf32> {train.role = #train.role<output "0">})
    attributes {train.phase = #train.phase<microbatch>} {
  return %0 : tensor<4xf32>
}

// -----

func.func @f0(%0: tensor<4xf32> {train.role = #train.role<input "x">})
    -> (tensor<4xf32> {train.role = #train.role<crossing "h">})
    attributes {train.phase = #train.phase<forward>, train.stage = 0 : i64} {
  return %0 : tensor<4xf32>
}
func.func @f1(%0: tensor<4xf32> {train.role = #train.role<crossing "h">})
    -> (tensor<4xf32> {train.role = #train.role<output "0">})
    attributes {train.phase = #train.phase<forward>, train.stage = 1 : i64} {
  return %0 : tensor<4xf32>
}
// expected-error @below {{returns #train.role<crossing_gradient "g">, which stage 0 does not take}}
func.func @b1(%0: tensor<4xf32> {train.role = #train.role<input "x">})
    -> (tensor<4xf32> {train.role = #train.role<crossing_gradient "g">})
    attributes {train.phase = #train.phase<backward>, train.stage = 1 : i64} {
  return %0 : tensor<4xf32>
}
func.func @b0()
    attributes {train.phase = #train.phase<backward>, train.stage = 0 : i64} {
  return
}

// -----

func.func @f0(%0: tensor<4xf32> {train.role = #train.role<input "x">})
    -> (tensor<4xf32> {train.role = #train.role<crossing "h">})
    attributes {train.phase = #train.phase<forward>, train.stage = 0 : i64} {
  return %0 : tensor<4xf32>
}
func.func @f1(%0: tensor<4xf32> {train.role = #train.role<crossing "h">})
    -> (tensor<4xf32> {train.role = #train.role<output "0">})
    attributes {train.phase = #train.phase<forward>, train.stage = 1 : i64} {
  return %0 : tensor<4xf32>
}
func.func @b1(%0: tensor<4xf32> {train.role = #train.role<input "x">})
    attributes {train.phase = #train.phase<backward>, train.stage = 1 : i64} {
  return
}
// expected-error @below {{takes #train.role<crossing_gradient "g">, which stage 1 does not provide}}
func.func @b0(%0: tensor<4xf32> {train.role = #train.role<crossing_gradient "g">})
    attributes {train.phase = #train.phase<backward>, train.stage = 0 : i64} {
  return
}

// -----

func.func @f0(%0: tensor<4xf32> {train.role = #train.role<input "x">})
    -> (tensor<4xf32> {train.role = #train.role<crossing "h">})
    attributes {train.phase = #train.phase<forward>, train.stage = 0 : i64} {
  return %0 : tensor<4xf32>
}
func.func @f1(%0: tensor<4xf32> {train.role = #train.role<crossing "h">})
    -> (tensor<4xf32> {train.role = #train.role<output "0">})
    attributes {train.phase = #train.phase<forward>, train.stage = 1 : i64} {
  return %0 : tensor<4xf32>
}
// expected-error @below {{takes #train.role<crossing_gradient "g">, which no stage can provide it: it is the last stage}}
func.func @b1(%0: tensor<4xf32> {train.role = #train.role<crossing_gradient "g">})
    attributes {train.phase = #train.phase<backward>, train.stage = 1 : i64} {
  return
}
func.func @b0()
    attributes {train.phase = #train.phase<backward>, train.stage = 0 : i64} {
  return
}

// -----

// expected-note @below {{produced here}}
func.func @f0(%0: tensor<4xf32> {train.role = #train.role<input "x">})
    -> (tensor<4xf32> {train.role = #train.role<crossing "h">}, tensor<4xf32> {train.role = #train.role<saved "s">})
    attributes {train.phase = #train.phase<forward>, train.stage = 0 : i64} {
  return %0, %0 : tensor<4xf32>, tensor<4xf32>
}
func.func @f1(%0: tensor<4xf32> {train.role = #train.role<crossing "h">})
    -> (tensor<4xf32> {train.role = #train.role<output "0">})
    attributes {train.phase = #train.phase<forward>, train.stage = 1 : i64} {
  return %0 : tensor<4xf32>
}
// expected-error @below {{takes #train.role<saved "s">, which belongs to another stage; values passed between stages have the role crossing}}
func.func @b1(%0: tensor<4xf32> {train.role = #train.role<saved "s">})
    attributes {train.phase = #train.phase<backward>, train.stage = 1 : i64} {
  return
}
func.func @b0()
    attributes {train.phase = #train.phase<backward>, train.stage = 0 : i64} {
  return
}

// -----

func.func @f0(%0: tensor<4xf32> {train.role = #train.role<input "x">}, %1: tensor<4xf32> {train.role = #train.role<parameter "w">})
    -> (tensor<4xf32> {train.role = #train.role<crossing "h">})
    attributes {train.phase = #train.phase<forward>, train.stage = 0 : i64} {
  return %0 : tensor<4xf32>
}
func.func @f1(%0: tensor<4xf32> {train.role = #train.role<crossing "h">})
    -> (tensor<4xf32> {train.role = #train.role<output "0">})
    attributes {train.phase = #train.phase<forward>, train.stage = 1 : i64} {
  return %0 : tensor<4xf32>
}
func.func @b1(%0: tensor<4xf32> {train.role = #train.role<input "x">})
    attributes {train.phase = #train.phase<backward>, train.stage = 1 : i64} {
  return
}
func.func @b0(%0: tensor<4xf32> {train.role = #train.role<input "x">})
    -> (tensor<4xf32> {train.role = #train.role<gradient "w">})
    attributes {train.phase = #train.phase<backward>, train.stage = 0 : i64} {
  return %0 : tensor<4xf32>
}
// expected-error @below {{takes #train.role<gradient "w">, which no function of the same stage returns}}
func.func @u1(%0: tensor<4xf32> {train.role = #train.role<parameter "w">}, %1: tensor<4xf32> {train.role = #train.role<gradient "w">})
    -> (tensor<4xf32> {train.role = #train.role<parameter "w">})
    attributes {train.phase = #train.phase<update>, train.stage = 1 : i64} {
  return %0 : tensor<4xf32>
}

// -----

func.func @f0(%0: tensor<4xf32> {train.role = #train.role<input "x">}, %1: tensor<4xf32> {train.role = #train.role<parameter "w">})
    -> (tensor<4xf32> {train.role = #train.role<crossing "h">})
    attributes {train.phase = #train.phase<forward>, train.stage = 0 : i64} {
  return %0 : tensor<4xf32>
}
func.func @f1(%0: tensor<4xf32> {train.role = #train.role<crossing "h">}, %1: tensor<4xf32> {train.role = #train.role<parameter "w">})
    -> (tensor<4xf32> {train.role = #train.role<output "0">})
    attributes {train.phase = #train.phase<forward>, train.stage = 1 : i64} {
  return %0 : tensor<4xf32>
}
// expected-note @below {{this stage's update already returns it}}
func.func @u0(%0: tensor<4xf32> {train.role = #train.role<parameter "w">})
    -> (tensor<4xf32> {train.role = #train.role<parameter "w">})
    attributes {train.phase = #train.phase<update>, train.stage = 0 : i64} {
  return %0 : tensor<4xf32>
}
// expected-error @below {{returns #train.role<parameter "w"> a second time}}
func.func @u1(%0: tensor<4xf32> {train.role = #train.role<parameter "w">})
    -> (tensor<4xf32> {train.role = #train.role<parameter "w">})
    attributes {train.phase = #train.phase<update>, train.stage = 1 : i64} {
  return %0 : tensor<4xf32>
}

// -----

// expected-note @below {{the first stage's forward is here}}
func.func @f0(%0: tensor<4xf32> {train.role = #train.role<input "x">})
    -> (tensor<4xf32> {train.role = #train.role<crossing "h">})
    attributes {train.phase = #train.phase<forward>, train.stage = 0 : i64, train.draws = 4 : i64} {
  return %0 : tensor<4xf32>
}
// expected-error @below {{expects the same 'train.draws', the count of the whole microbatch, on all stages}}
func.func @f1(%0: tensor<4xf32> {train.role = #train.role<crossing "h">})
    -> (tensor<4xf32> {train.role = #train.role<output "0">})
    attributes {train.phase = #train.phase<forward>, train.stage = 1 : i64} {
  return %0 : tensor<4xf32>
}
