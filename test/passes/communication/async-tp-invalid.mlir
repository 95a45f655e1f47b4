// RUN: not cleave-opt %s --async-tp="chunks=0" 2>&1 | FileCheck %s --check-prefix=CHUNKS
// RUN: not cleave-opt %s --async-tp="min-mb=-1" 2>&1 | FileCheck %s --check-prefix=BYTES

// CHUNKS: error: expects chunks of at least 1 and a nonnegative min-mb, found 0 and 1
// BYTES: error: expects chunks of at least 1 and a nonnegative min-mb, found 1 and -1
module {}
