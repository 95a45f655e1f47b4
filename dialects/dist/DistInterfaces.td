//===- DistInterfaces.td - what passes may ask a communication -*- tablegen -*-===//

#ifndef CLEAVE_DIALECTS_DIST_DISTINTERFACES
#define CLEAVE_DIALECTS_DIST_DISTINTERFACES

include "mlir/IR/OpBase.td"

def CommunicationOpInterface : OpInterface<"CommunicationOpInterface"> {
  let cppNamespace = "::cleave::dist";
  let description = [{
    An op that moves data between ranks: all ranks along its axes have to reach it. Local ops of
    the dialect (`dist.convert`, `dist.reinterpret`, `dist.axis_index`, `dist.fake_broadcast`,
    `dist.fake_scatter`) are none, and neither is `dist.wait`.
  }];
  let methods = [
    InterfaceMethod<"The mesh along whose axes it runs.", "::mlir::FlatSymbolRefAttr", "getMeshAttr">,
    InterfaceMethod<"The axes it runs along, as the op lists them.", "::mlir::ArrayAttr", "getAxesAttr">,
    InterfaceMethod<"The operands that are communicated: several in the coalesced form.",
      "::mlir::OperandRange", "getCommunicated", (ins), [{}], [{
        return $_op->getOperands();
      }]>,
    InterfaceMethod<[{
        The op only starts the communication: its results are futures that a `dist.wait` awaits.
      }], "bool", "isStarted", (ins), [{}], [{
        return ::llvm::any_of($_op->getResultTypes(), ::llvm::IsaPred<::cleave::dist::FutureType>);
      }]>,
    InterfaceMethod<[{
        How many bytes the busiest rank sends when `ranks` ranks lie along the axes together, by
        the algorithm that sends least: a ring for all_reduce (2 (n - 1) / n of the value) and its halves.
      }], "int64_t", "getBytesSent", (ins "int64_t":$ranks)>,
    InterfaceMethod<[{
        How many messages follow each other when `ranks` ranks, at least 2, lie along the axes
        together, by the same algorithm.
      }], "int64_t", "countMessages", (ins "int64_t":$ranks)>,
  ];
}

#endif // CLEAVE_DIALECTS_DIST_DISTINTERFACES
