// RUN: cleave-opt %s --split-input-file --verify-diagnostics

// expected-error @below {{expects 'train.ranks' to name mesh axes, as in {tp = array<i64: 0>}, on a function, found 1 : i64}}
func.func @f() attributes {train.ranks = 1 : i64} {
  return
}

// -----

// expected-error @below {{expects 'train.ranks' to name mesh axes}}
func.func @f() attributes {train.ranks = {}} {
  return
}

// -----

// expected-error @below {{expects places on axis "tp", ascending from 0 on, in 'train.ranks', found array<i64: 1, 1>}}
func.func @f() attributes {train.ranks = {tp = array<i64: 1, 1>}} {
  return
}

// -----

// expected-error @below {{expects places on axis "tp", ascending from 0 on, in 'train.ranks', found array<i64: -1>}}
func.func @f() attributes {train.ranks = {tp = array<i64: -1>}} {
  return
}

// -----

// expected-error @below {{expects places on axis "tp", ascending from 0 on, in 'train.ranks', found 0 : i64}}
func.func @f() attributes {train.ranks = {tp = 0 : i64}} {
  return
}
