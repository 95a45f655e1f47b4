//===- LoweredAttrs.td - planned memory and streams --*- tablegen -*-===//

#ifndef CLEAVE_DIALECTS_EXEC_LOWEREDATTRS
#define CLEAVE_DIALECTS_EXEC_LOWEREDATTRS

include "dialects/exec/CodeAttrs.td"

def Exec_Stream : Exec_Enum<"Stream", "execution stream", [
  I32EnumAttrCase<"Compute", 0, "compute">,
  I32EnumAttrCase<"Communication", 1, "communication">,
  I32EnumAttrCase<"Host", 2, "host">]>;
def Exec_StreamAttr : EnumAttr<Exec_Dialect, Exec_Stream, "stream"> {
  let assemblyFormat = "`<` $value `>`";
}

def Exec_LoweredAttr : AttrDef<Exec_Dialect, "Lowered"> {
  let mnemonic = "lowered";
  let summary = "marks a phase function with planned memory and streams";
  let description = [{
    - `arena`: bytes of the rank's arena that the function uses; all functions share the arena, and no
      value in it outlives its function;
    - `frame`: bytes of the microbatch's frame, which holds the values saved between functions of one
      microbatch, from its first function to its last;
    - `alignment`: alignment of the arena, the frame and all offsets in them.

    Every op with results then has `exec.memory`, a list with an entry for each result (`#exec.at`,
    `#exec.frame`, `#exec.same`, `#exec.apart`), and an op that is not on the compute stream has
    `exec.stream = #exec.stream<communication>`, or `#exec.stream<host>` if it copies to or from host
    memory. `exec.call` numbers the ops that call a communicator.

    Constraints:
    1. `arena` and `frame` are not negative; `alignment` is a power of two.
    2. A `chip`, such as "sm_90", is given if and only if the target is `cuda`.
    3. The function has a `train.phase` and one block.
    4. Every op of the function with results, except `exec.record`, has `exec.memory` with one entry per
       result; no op outside lowered functions has `exec.memory` or `exec.stream`.
    5. A value in the arena or the frame is a statically shaped tensor or the future of one, starts at a
       multiple of `alignment` and ends within `arena` or `frame`.
    6. `#exec.same` refers to an existing operand.

    ```mlir
    #exec.lowered<cpu, arena = 4096, frame = 512, alignment = 64>
    #exec.lowered<cuda, chip = "sm_90", arena = 4096, alignment = 512>
    ```
  }];
  let parameters = (ins EnumParameter<Exec_Family>:$target, OptionalParameter<"::mlir::StringAttr">:$chip,
                        "int64_t":$arena, DefaultValuedParameter<"int64_t", "0">:$frame,
                        "int64_t":$alignment);
  let assemblyFormat = "`<` $target `,` struct($chip, $arena, $frame, $alignment) `>`";
  let genVerifyDecl = 1;
}

def Exec_AtAttr : AttrDef<Exec_Dialect, "At"> {
  let mnemonic = "at";
  let summary = "a result in the arena, at this offset";
  let parameters = (ins "int64_t":$offset);
  let assemblyFormat = "`<` $offset `>`";
}

def Exec_FrameAttr : AttrDef<Exec_Dialect, "Frame"> {
  let mnemonic = "frame";
  let summary = "a result in the microbatch's frame, at this offset";
  let parameters = (ins "int64_t":$offset);
  let assemblyFormat = "`<` $offset `>`";
}

def Exec_SameAttr : AttrDef<Exec_Dialect, "Same"> {
  let mnemonic = "same";
  let summary = "a result in the memory of an operand: a view of it, or computed in place";
  let parameters = (ins "unsigned":$operand);
  let assemblyFormat = "`<` $operand `>`";
}

def Exec_ApartAttr : AttrDef<Exec_Dialect, "Apart"> {
  let mnemonic = "apart";
  let summary = "a result on the heap (a `!dist.host` on that of the host), allocated by its op and freed after its last use";
}

#endif // CLEAVE_DIALECTS_EXEC_LOWEREDATTRS
