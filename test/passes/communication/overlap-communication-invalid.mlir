// RUN: cleave-opt %s --overlap-communication="max-in-flight-mb=0" --verify-diagnostics

// expected-error @unknown {{expects a positive max-in-flight-mb, found 0.000000e+00}}
module {
func.func @f() {
  return
}
}
