//===- LoweredOps.td - order between streams ----------------*- tablegen -*-===//

// Included by Exec.td, which has the base of all ops.

#ifndef CLEAVE_DIALECTS_EXEC_LOWEREDOPS
#define CLEAVE_DIALECTS_EXEC_LOWEREDOPS

include "dialects/exec/LoweredAttrs.td"

def Exec_EventType : TypeDef<Exec_Dialect, "Event"> {
  let mnemonic = "event";
  let summary = "a point in the order of a stream";
}

def Exec_RecordOp : Exec_Op<"record"> {
  let summary = "marks a point in the order of a stream";
  let description = [{
    The event is reached when the stream has done everything before the op. See `exec.wait`.

    Constraints:
    1. It is in a function with `exec.lowered`.
    2. The event is waited for, once, on the other stream.

    ```mlir
    %e = exec.record on compute
    exec.wait %e on communication
    ```
  }];
  let arguments = (ins Exec_StreamAttr:$stream);
  let results = (outs Exec_EventType:$event);
  let assemblyFormat = "`on` $stream attr-dict";
  let hasVerifier = 1;
}

def Exec_WaitOp : Exec_Op<"wait"> {
  let summary = "what follows on a stream runs after an event of the other stream";
  let description = [{
    Constraints:
    1. It is in a function with `exec.lowered`.

    ```mlir
    exec.wait %e on communication
    ```
  }];
  let arguments = (ins Exec_EventType:$event, Exec_StreamAttr:$stream);
  let assemblyFormat = "$event `on` $stream attr-dict";
  let hasVerifier = 1;
}

#endif // CLEAVE_DIALECTS_EXEC_LOWEREDOPS
