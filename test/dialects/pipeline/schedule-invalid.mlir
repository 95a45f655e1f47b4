// RUN: cleave-opt %s --split-input-file --verify-diagnostics

// 1.
// expected-error @+1 {{expected from 1 to 16777216 microbatches, found 0}}
pipeline.schedule @s "" ranks 1 stages 1 microbatches 0 topology loop transfers implied {rank 0:}

// -----

// expected-error @+1 {{expected from 1 to 65536 stages, found 65537}}
pipeline.schedule @s "" ranks 1 stages 65537 microbatches 1 topology loop transfers implied {rank 0:}

// -----

// expected-error @+1 {{'pipeline.schedule' op expects from 1 to 16777216 microbatches, found -1}}
"pipeline.schedule"() <{sym_name = "s", name = "", stage_ranks = array<i32: 0>, microbatches = -1, transfers = #pipeline.transfers<implied>, lists = [""]}> : () -> ()

// -----

// expected-error @+1 {{'pipeline.schedule' op expects from 1 to 65536 stages, found 0}}
"pipeline.schedule"() <{sym_name = "s", name = "", stage_ranks = array<i32>, microbatches = 1, transfers = #pipeline.transfers<implied>, lists = []}> : () -> ()

// -----

// 2.
// expected-error @+1 {{'pipeline.schedule' op places stage 1 on rank 2, but has the lists of 2 ranks}}
pipeline.schedule @s "" ranks 2 stages 2 microbatches 1 topology [0 2] transfers implied {rank 0: rank 1:}

// -----

// expected-error @+1 {{'pipeline.schedule' op places stage 0 on rank -1, but has the lists of 1 ranks}}
pipeline.schedule @s "" ranks 1 stages 1 microbatches 1 topology [-1] transfers implied {rank 0:}

// -----

// expected-error @+1 {{'pipeline.schedule' op places no stage on rank 1}}
pipeline.schedule @s "" ranks 2 stages 2 microbatches 1 topology [0 0] transfers implied {rank 0: rank 1:}

// -----

// expected-error @+1 {{expected the ranks of 3 stages, found 2}}
pipeline.schedule @s "" ranks 2 stages 3 microbatches 1 topology [0 1] transfers implied {rank 0: rank 1:}

// -----

// expected-error @+1 {{expected as many stages on each rank, found 3 stages on 2 ranks}}
pipeline.schedule @s "" ranks 2 stages 3 microbatches 1 topology v transfers implied {rank 0: rank 1:}

// -----

// expected-error @+1 {{expected 'loop', 'v' or the rank of each stage in brackets}}
pipeline.schedule @s "" ranks 1 stages 1 microbatches 1 topology ring transfers implied {rank 0:}

// -----

// 3.
// expected-error @+1 {{expected the lists of 2 ranks, found 1}}
pipeline.schedule @s "" ranks 2 stages 2 microbatches 1 topology loop transfers implied {rank 0: F0.0}

// -----

pipeline.schedule @s "" ranks 2 stages 2 microbatches 1 topology loop transfers implied {
  rank 0: F0.0
  // expected-error @+1 {{expected the list of rank 1, found that of rank 0}}
  rank 0: F1.0
}

// -----

// 4.
// expected-error @+1 {{'pipeline.schedule' op list of rank 1 expects an action, found 'F1.'}}
pipeline.schedule @s "" ranks 2 stages 2 microbatches 1 topology loop transfers implied {rank 0: rank 1: F1.0 F1.}

// -----

// expected-error @+1 {{'pipeline.schedule' op list of rank 0 expects an action, found 'forward'}}
pipeline.schedule @s "" ranks 1 stages 1 microbatches 1 topology loop transfers implied {rank 0: forward}

// -----

// expected-error @+1 {{expected an action, 'rank' or '}'}}
pipeline.schedule @s "" ranks 1 stages 1 microbatches 1 topology loop transfers implied {rank 0: F0.0, F0.1}

// -----

// expected-error @+1 {{groups do not nest}}
pipeline.schedule @s "" ranks 1 stages 1 microbatches 1 topology loop transfers implied {rank 0: {F0.0 {B0.0}}}

// -----

// expected-error @+1 {{expected an action or '}', found 'rank' in a group}}
pipeline.schedule @s "" ranks 2 stages 2 microbatches 1 topology loop transfers implied {rank 0: {F0.0 rank 1:}}

// -----

// expected-error @+1 {{'pipeline.schedule' op list of rank 0 expects a name in quotes after 'call'}}
pipeline.schedule @s "" ranks 1 stages 1 microbatches 1 topology loop transfers implied {rank 0: call F0.0}

// -----

// expected-error @+1 {{'pipeline.schedule' op list of rank 0 expects printable characters without backslashes in the name after 'call'}}
pipeline.schedule @s "" ranks 1 stages 1 microbatches 1 topology loop transfers implied {rank 0: call "a\\b"}

// -----

// expected-error @+1 {{'pipeline.schedule' op list of rank 0 expects numbers in brackets after "tied"}}
pipeline.schedule @s "" ranks 1 stages 1 microbatches 1 topology loop transfers implied {rank 0: collective "tied"[0 -1]}

// -----

// expected-error @+1 {{expected ')'}}
pipeline.schedule @s "" ranks 1 stages 1 microbatches 1 topology loop transfers implied {rank 0: call "log"(1.0 2)}

// -----

// expected-error @+1 {{'pipeline.schedule' op list of rank 0 expects single spaces, and none at its ends or inside of braces}}
"pipeline.schedule"() <{sym_name = "s", name = "", stage_ranks = array<i32: 0>, microbatches = 1, transfers = #pipeline.transfers<implied>, lists = ["F0.0  B0.0"]}> : () -> ()

// -----

// expected-error @+1 {{'pipeline.schedule' op list of rank 0 expects single spaces, and none at its ends or inside of braces}}
"pipeline.schedule"() <{sym_name = "s", name = "", stage_ranks = array<i32: 0>, microbatches = 1, transfers = #pipeline.transfers<implied>, lists = [" F0.0"]}> : () -> ()

// -----

// expected-error @+1 {{'pipeline.schedule' op list of rank 0 expects single spaces, and none at its ends or inside of braces}}
"pipeline.schedule"() <{sym_name = "s", name = "", stage_ranks = array<i32: 0>, microbatches = 1, transfers = #pipeline.transfers<implied>, lists = ["F0.0 "]}> : () -> ()

// -----

// expected-error @+1 {{'pipeline.schedule' op list of rank 0 expects single spaces, and none at its ends or inside of braces}}
"pipeline.schedule"() <{sym_name = "s", name = "", stage_ranks = array<i32: 0>, microbatches = 1, transfers = #pipeline.transfers<implied>, lists = ["{ F0.0}"]}> : () -> ()

// -----

// expected-error @+1 {{'pipeline.schedule' op list of rank 0 expects single spaces, and none at its ends or inside of braces}}
"pipeline.schedule"() <{sym_name = "s", name = "", stage_ranks = array<i32: 0>, microbatches = 1, transfers = #pipeline.transfers<implied>, lists = ["{F0.0 }"]}> : () -> ()

// -----

// expected-error @+1 {{'pipeline.schedule' op list of rank 0 has a '}' without a '{'}}
"pipeline.schedule"() <{sym_name = "s", name = "", stage_ranks = array<i32: 0>, microbatches = 1, transfers = #pipeline.transfers<implied>, lists = ["F0.0}"]}> : () -> ()

// -----

// expected-error @+1 {{'pipeline.schedule' op list of rank 0 has a '{' without a '}'}}
"pipeline.schedule"() <{sym_name = "s", name = "", stage_ranks = array<i32: 0>, microbatches = 1, transfers = #pipeline.transfers<implied>, lists = ["{F0.0"]}> : () -> ()

// -----

// expected-error @+1 {{'pipeline.schedule' op list of rank 0 has a group in a group}}
"pipeline.schedule"() <{sym_name = "s", name = "", stage_ranks = array<i32: 0>, microbatches = 1, transfers = #pipeline.transfers<implied>, lists = ["{F0.0 {B0.0}}"]}> : () -> ()

// -----

// expected-error @+1 {{'pipeline.schedule' op list of rank 0 expects an action, found 'rank'}}
"pipeline.schedule"() <{sym_name = "s", name = "", stage_ranks = array<i32: 0>, microbatches = 1, transfers = #pipeline.transfers<implied>, lists = ["rank 0"]}> : () -> ()

// -----

// 5.
// expected-error @+1 {{'pipeline.schedule' op list of rank 0 has 'sendF0.0', but transfers are implied}}
pipeline.schedule @s "" ranks 2 stages 2 microbatches 1 topology loop transfers implied {rank 0: F0.0 sendF0.0 rank 1: F1.0}

// -----

// expected-error @+1 {{expected 'implied' or 'explicit'}}
pipeline.schedule @s "" ranks 1 stages 1 microbatches 1 topology loop transfers some {rank 0:}
