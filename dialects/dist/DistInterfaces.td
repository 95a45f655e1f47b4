//===- DistInterfaces.td - the interface of communication ops -*- tablegen -*-===//

#ifndef CLEAVE_DIALECTS_DIST_DISTINTERFACES
#define CLEAVE_DIALECTS_DIST_DISTINTERFACES

include "mlir/IR/OpBase.td"

def CommunicationOpInterface : OpInterface<"CommunicationOpInterface"> {
  let cppNamespace = "::cleave::dist";
  let description = [{
    An op that moves data between ranks: all ranks along its axes must reach it. Local ops of the
    dialect (`dist.convert`, `dist.reinterpret`, `dist.axis_index`, `dist.fake_broadcast`,
    `dist.fake_scatter`) do not implement it, and neither does `dist.wait`.
  }];
  let methods = [
    InterfaceMethod<"The mesh along whose axes it runs.", "::mlir::FlatSymbolRefAttr", "getMeshAttr">,
    InterfaceMethod<"The axes it runs along, as the op lists them.", "::mlir::ArrayAttr", "getAxesAttr">,
    InterfaceMethod<"The operands that are communicated; several if coalesced.",
      "::mlir::OperandRange", "getCommunicated", (ins), [{}], [{
        return $_op->getOperands();
      }]>,
    InterfaceMethod<[{
        Whether the op only starts the communication: its results are futures for `dist.wait`.
      }], "bool", "isStarted", (ins), [{}], [{
        return ::llvm::any_of($_op->getResultTypes(), ::llvm::IsaPred<::cleave::dist::FutureType>);
      }]>,
    InterfaceMethod<[{
        The number of bytes that the busiest rank sends, given the number of ranks along all the axes,
        by the algorithm that sends the least: a ring for all_reduce (2 (n - 1) / n of the value) and
        its halves.
      }], "int64_t", "getBytesSent", (ins "int64_t":$ranks)>,
    InterfaceMethod<[{
        The number of consecutive messages, given the number of ranks (at least 2) along all the axes,
        by the same algorithm.
      }], "int64_t", "countMessages", (ins "int64_t":$ranks)>,
  ];
}

#endif // CLEAVE_DIALECTS_DIST_DISTINTERFACES
