//===- LoweredOps.td - synchronization of streams ----------------*- tablegen -*-===//

// Included by Exec.td, which defines the base of all ops.

#ifndef CLEAVE_DIALECTS_EXEC_LOWEREDOPS
#define CLEAVE_DIALECTS_EXEC_LOWEREDOPS

include "dialects/exec/LoweredAttrs.td"

def Exec_EventType : TypeDef<Exec_Dialect, "Event"> {
  let mnemonic = "event";
  let summary = "a point in a stream";
}

// What a stream executes, in order.
def Exec_StreamResource : Resource<"::cleave::exec::StreamResource">;
class Exec_StreamOp<string mnemonic>
    : Exec_Op<mnemonic, [MemoryEffects<[MemRead<Exec_StreamResource>, MemWrite<Exec_StreamResource>]>]>;

def Exec_RecordOp : Exec_StreamOp<"record"> {
  let summary = "record an event on a stream";
  let description = [{
    The event completes when the stream has executed everything before this op. See `exec.wait`.

    Constraints:
    1. It is in a function with `exec.lowered`.
    2. Exactly one `exec.wait` waits for the event, on another stream.

    ```mlir
    %e = exec.record on compute
    exec.wait %e on communication
    ```
  }];
  let arguments = (ins Exec_StreamAttr:$stream);
  let results = (outs Exec_EventType:$event);
  let assemblyFormat = "`on` custom<StreamName>($stream) attr-dict";
  let hasVerifier = 1;
  let hasCanonicalizeMethod = 1;
}

def Exec_WaitOp : Exec_StreamOp<"wait"> {
  let summary = "make a stream wait for an event of another stream";
  let description = [{
    Constraints:
    1. It is in a function with `exec.lowered`.

    ```mlir
    exec.wait %e on communication
    ```
  }];
  let arguments = (ins Exec_EventType:$event, Exec_StreamAttr:$stream);
  let assemblyFormat = "$event `on` custom<StreamName>($stream) attr-dict";
  let hasVerifier = 1;
}

#endif // CLEAVE_DIALECTS_EXEC_LOWEREDOPS
