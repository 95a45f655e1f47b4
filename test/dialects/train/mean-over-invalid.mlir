// RUN: cleave-opt %s --split-input-file --verify-diagnostics

// expected-error @+1 {{expects 'train.mean_over' to be a #train.targets on a module}}
module attributes {train.mean_over = "targets"} {
}

// -----

// expected-error @+1 {{expects 'train.mean_over' to be a #train.targets on a module}}
func.func @function() attributes {train.mean_over = #train.targets<"y" except -100 from [0] to [2]>} {
  return
}

// -----

// expected-error @+1 {{expects a range of each dimension of "y", found 1 beginnings and 2 ends}}
module attributes {train.mean_over = #train.targets<"y" except -100 from [0] to [2, 3]>} {
}

// -----

// expected-error @+1 {{expects ranges of "y" with at least one index, found 2 to 2}}
module attributes {train.mean_over = #train.targets<"y" except -100 from [0, 2] to [4, 2]>} {
}
