// RUN: cleave-opt %s --split-input-file --verify-diagnostics

// expected-error @+1 {{'dist.mesh' op expects at least one axis}}
dist.mesh @mesh []

// -----

// expected-error @+1 {{'dist.mesh' op has an axis without a name}}
dist.mesh @mesh ["" = 2]

// -----

// expected-error @+1 {{'dist.mesh' op has two axes named 'dp'}}
dist.mesh @mesh ["dp" = 2, "dp" = 4]

// -----

// expected-error @+1 {{'dist.mesh' op has 2 axes of size '?'; at most one can be left open}}
dist.mesh @mesh ["dp" = ?, "tp" = ?]

// -----

// expected-error @+1 {{expected a positive axis size or '?', found 0}}
dist.mesh @mesh ["dp" = 0]

// -----

// expected-error @+1 {{expected a positive axis size or '?', found -2}}
dist.mesh @mesh ["dp" = -2]

// -----

// expected-error @+1 {{'dist.mesh' op expects axes, found 1 : i64}}
"dist.mesh"() <{sym_name = "mesh", axes = [1]}> : () -> ()

// -----

// expected-error @+1 {{expected string}}
dist.mesh @mesh [dp = 2]

// -----

// expected-error @+1 {{'dist.mesh' op has more ranks than 2147483647}}
dist.mesh @mesh ["dp" = 65536, "tp" = 65536]
