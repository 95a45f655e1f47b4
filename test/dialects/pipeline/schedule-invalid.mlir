// RUN: cleave-opt %s --split-input-file --verify-diagnostics

// 1.
// expected-error @+1 {{'microbatches' must be between 1 and 16777216, found 0}}
pipeline.schedule @s "" ranks 1 stages 1 microbatches 0 topology loop transfers implied {rank 0:}

// -----

// expected-error @+1 {{'stages' must be between 1 and 65536, found 65537}}
pipeline.schedule @s "" ranks 1 stages 65537 microbatches 1 topology loop transfers implied {rank 0:}

// -----

// expected-error @+1 {{'pipeline.schedule' op expects from 1 to 16777216 microbatches, found -1}}
"pipeline.schedule"() <{sym_name = "s", name = "", stage_ranks = array<i32: 0>, microbatches = -1, transfers = #pipeline.transfers<implied>, lists = [""]}> : () -> ()

// -----

// expected-error @+1 {{'pipeline.schedule' op a pipeline needs at least 1 rank, found 0}}
"pipeline.schedule"() <{sym_name = "s", name = "", stage_ranks = array<i32>, microbatches = 1, transfers = #pipeline.transfers<implied>, lists = []}> : () -> ()

// -----

// 2.
// expected-error @+1 {{stage 1 is placed on rank 2, but there are 2 ranks}}
pipeline.schedule @s "" ranks 2 stages 2 microbatches 1 topology [0 2] transfers implied {rank 0: rank 1:}

// -----

// expected-error @+1 {{expected a rank or ']', found '-1]'}}
pipeline.schedule @s "" ranks 1 stages 1 microbatches 1 topology [-1] transfers implied {rank 0:}

// -----

// expected-error @+1 {{rank 1 holds no stage: 2 stages on 2 ranks}}
pipeline.schedule @s "" ranks 2 stages 2 microbatches 1 topology [0 0] transfers implied {rank 0: rank 1:}

// -----

// expected-error @+1 {{the topology places 2 stages, but there are 3}}
pipeline.schedule @s "" ranks 2 stages 3 microbatches 1 topology [0 1] transfers implied {rank 0: rank 1:}

// -----

// expected-error @+1 {{a v topology needs a multiple of the 2 ranks as the number of stages, found 3}}
pipeline.schedule @s "" ranks 2 stages 3 microbatches 1 topology v transfers implied {rank 0: rank 1:}

// -----

// expected-error @+1 {{expected 'loop', 'v' or '[' and the rank of each stage, found 'ring'}}
pipeline.schedule @s "" ranks 1 stages 1 microbatches 1 topology ring transfers implied {rank 0:}

// -----

// 3.
// expected-error @+1 {{expected the list of rank 1, found the end of the schedule}}
pipeline.schedule @s "" ranks 2 stages 2 microbatches 1 topology loop transfers implied {rank 0: F0.0}

// -----

pipeline.schedule @s "" ranks 2 stages 2 microbatches 1 topology loop transfers implied {
  rank 0: F0.0
  // expected-error @+1 {{rank 0 has a list already}}
  rank 0: F1.0
}

// -----

// 4.
// expected-error @+1 {{expected a microbatch, found the end of the schedule}}
pipeline.schedule @s "" ranks 2 stages 2 microbatches 1 topology loop transfers implied {rank 0: rank 1: F1.0 F1.}

// -----

// expected-error @+1 {{expected an action (F, B, I, W, sendF, recvF, sendB, recvB, unshard, reshard, reduce, step, call, collective, '{'), found 'forward'}}
pipeline.schedule @s "" ranks 1 stages 1 microbatches 1 topology loop transfers implied {rank 0: forward}

// -----

// expected-error @+1 {{expected an action, 'rank' or '}'}}
pipeline.schedule @s "" ranks 1 stages 1 microbatches 1 topology loop transfers implied {rank 0: F0.0, F0.1}

// -----

// expected-error @+1 {{groups do not nest}}
pipeline.schedule @s "" ranks 1 stages 1 microbatches 1 topology loop transfers implied {rank 0: {F0.0 {B0.0}}}

// -----

// expected-error @+1 {{this group has no closing brace}}
pipeline.schedule @s "" ranks 2 stages 2 microbatches 1 topology loop transfers implied {rank 0: {F0.0 rank 1:}}

// -----

// expected-error @+1 {{expected the function's name in quotes, found 'F0.0'}}
pipeline.schedule @s "" ranks 1 stages 1 microbatches 1 topology loop transfers implied {rank 0: call F0.0}

// -----

// expected-error @+1 {{expected printable ASCII characters without backslashes in a name}}
pipeline.schedule @s "" ranks 1 stages 1 microbatches 1 topology loop transfers implied {rank 0: call "a\\b"}

// -----

// expected-error @+1 {{expected a rank or ']', found '-1]'}}
pipeline.schedule @s "" ranks 1 stages 1 microbatches 1 topology loop transfers implied {rank 0: collective "tied"[0 -1]}

// -----

// expected-error @+1 {{expected ')', found '2)'}}
pipeline.schedule @s "" ranks 1 stages 1 microbatches 1 topology loop transfers implied {rank 0: call "log"(1.0 2)}

// -----

// expected-error @+1 {{'pipeline.schedule' op list of rank 0, position 1: expected single spaces between actions, and none elsewhere}}
"pipeline.schedule"() <{sym_name = "s", name = "", stage_ranks = array<i32: 0>, microbatches = 1, transfers = #pipeline.transfers<implied>, lists = ["F0.0  B0.0"]}> : () -> ()

// -----

// expected-error @+1 {{'pipeline.schedule' op list of rank 0, position 0: expected single spaces between actions, and none elsewhere}}
"pipeline.schedule"() <{sym_name = "s", name = "", stage_ranks = array<i32: 0>, microbatches = 1, transfers = #pipeline.transfers<implied>, lists = [" F0.0"]}> : () -> ()

// -----

// expected-error @+1 {{'pipeline.schedule' op list of rank 0, position 1: expected single spaces between actions, and none elsewhere}}
"pipeline.schedule"() <{sym_name = "s", name = "", stage_ranks = array<i32: 0>, microbatches = 1, transfers = #pipeline.transfers<implied>, lists = ["F0.0 "]}> : () -> ()

// -----

// expected-error @+1 {{'pipeline.schedule' op list of rank 0, position 0: expected single spaces between actions, and none elsewhere}}
"pipeline.schedule"() <{sym_name = "s", name = "", stage_ranks = array<i32: 0>, microbatches = 1, transfers = #pipeline.transfers<implied>, lists = ["{ F0.0}"]}> : () -> ()

// -----

// expected-error @+1 {{'pipeline.schedule' op list of rank 0, position 0: expected single spaces between actions, and none elsewhere}}
"pipeline.schedule"() <{sym_name = "s", name = "", stage_ranks = array<i32: 0>, microbatches = 1, transfers = #pipeline.transfers<implied>, lists = ["{F0.0 }"]}> : () -> ()

// -----

// expected-error @+1 {{'pipeline.schedule' op list of rank 0, position 1: expected a space, found '}'}}
"pipeline.schedule"() <{sym_name = "s", name = "", stage_ranks = array<i32: 0>, microbatches = 1, transfers = #pipeline.transfers<implied>, lists = ["F0.0}"]}> : () -> ()

// -----

// expected-error @+1 {{'pipeline.schedule' op list of rank 0, position 0: this group has no closing brace}}
"pipeline.schedule"() <{sym_name = "s", name = "", stage_ranks = array<i32: 0>, microbatches = 1, transfers = #pipeline.transfers<implied>, lists = ["{F0.0"]}> : () -> ()

// -----

// expected-error @+1 {{'pipeline.schedule' op list of rank 0, position 0: groups do not nest}}
"pipeline.schedule"() <{sym_name = "s", name = "", stage_ranks = array<i32: 0>, microbatches = 1, transfers = #pipeline.transfers<implied>, lists = ["{F0.0 {B0.0}}"]}> : () -> ()

// -----

// expected-error @+1 {{'pipeline.schedule' op list of rank 0, position 0: expected an action (F, B, I, W, sendF, recvF, sendB, recvB, unshard, reshard, reduce, step, call, collective, '{'), found 'rank'}}
"pipeline.schedule"() <{sym_name = "s", name = "", stage_ranks = array<i32: 0>, microbatches = 1, transfers = #pipeline.transfers<implied>, lists = ["rank 0"]}> : () -> ()

// -----

// expected-error @+1 {{'pipeline.schedule' op expects a non-negative rank for stage 0, found -1}}
"pipeline.schedule"() <{sym_name = "s", name = "", stage_ranks = array<i32: -1>, microbatches = 1, transfers = #pipeline.transfers<implied>, lists = [""]}> : () -> ()

// -----

// expected-error @+1 {{'pipeline.schedule' op stage 1 is placed on rank 1, but there are 1 ranks}}
"pipeline.schedule"() <{sym_name = "s", name = "", stage_ranks = array<i32: 0, 1>, microbatches = 1, transfers = #pipeline.transfers<implied>, lists = [""]}> : () -> ()

// -----

// expected-error @+1 {{'pipeline.schedule' op rank 1 holds no stage: 1 stages on 2 ranks}}
"pipeline.schedule"() <{sym_name = "s", name = "", stage_ranks = array<i32: 0>, microbatches = 1, transfers = #pipeline.transfers<implied>, lists = ["", ""]}> : () -> ()

// -----

// expected-error @+1 {{'pipeline.schedule' op list of rank 0, position 0: expected a stage without leading zeros, found 00}}
"pipeline.schedule"() <{sym_name = "s", name = "", stage_ranks = array<i32: 0>, microbatches = 1, transfers = #pipeline.transfers<implied>, lists = ["F00.0"]}> : () -> ()

// -----

// expected-error @+1 {{'pipeline.schedule' op list of rank 0, position 0: expected ascending ranks, found 0 behind 1}}
"pipeline.schedule"() <{sym_name = "s", name = "", stage_ranks = array<i32: 0>, microbatches = 1, transfers = #pipeline.transfers<implied>, lists = ["collective \22tied\22[1 0]"]}> : () -> ()

// -----

// expected-error @+1 {{'pipeline.schedule' op list of rank 0, position 0: expected single spaces between actions, and none elsewhere}}
"pipeline.schedule"() <{sym_name = "s", name = "", stage_ranks = array<i32: 0>, microbatches = 1, transfers = #pipeline.transfers<implied>, lists = ["call  \22x\22"]}> : () -> ()

// -----

// expected-error @+1 {{'pipeline.schedule' op list of rank 1, position 2: stage 2 is out of range: there are 2 stages}}
"pipeline.schedule"() <{sym_name = "s", name = "", stage_ranks = array<i32: 0, 1>, microbatches = 1, transfers = #pipeline.transfers<implied>, lists = ["F0.0", "F1.0 W1.0 B2.0"]}> : () -> ()

// -----

// expected-error @+1 {{microbatch 1 is out of range: there are 1 microbatches}}
pipeline.schedule @s "" ranks 1 stages 1 microbatches 1 topology loop transfers implied {rank 0: F0.0 F0.1}

// -----

// expected-error @+1 {{a group needs at least one action}}
pipeline.schedule @s "" ranks 1 stages 1 microbatches 1 topology loop transfers implied {rank 0: {}}

// -----

// expected-error @+1 {{the header has no 'stages'}}
pipeline.schedule @s "" ranks 1 microbatches 1 topology loop transfers implied {rank 0:}

// -----

// 5.
// expected-error @+1 {{expected no sends and receives, as transfers are implied, found 'sendF0.0'}}
pipeline.schedule @s "" ranks 2 stages 2 microbatches 1 topology loop transfers implied {rank 0: F0.0 sendF0.0 rank 1: F1.0}

// -----

// expected-error @+1 {{'pipeline.schedule' op list of rank 0, position 1: expected no sends and receives, as transfers are implied, found 'sendF0.0'}}
"pipeline.schedule"() <{sym_name = "s", name = "", stage_ranks = array<i32: 0>, microbatches = 1, transfers = #pipeline.transfers<implied>, lists = ["F0.0 sendF0.0"]}> : () -> ()

// -----

// expected-error @+1 {{expected 'implied' or 'explicit'}}
pipeline.schedule @s "" ranks 1 stages 1 microbatches 1 topology loop transfers some {rank 0:}
