//===- DistOps.td - the base of all dist ops -*- tablegen -*-===//

#ifndef CLEAVE_DIALECTS_DIST_DISTOPS
#define CLEAVE_DIALECTS_DIST_DISTOPS

include "dialects/dist/DistInterfaces.td"
include "dialects/dist/DistTypes.td"
include "mlir/IR/SymbolInterfaces.td"
include "mlir/Interfaces/InferTypeOpInterface.td"
include "mlir/Interfaces/SideEffectInterfaces.td"
include "mlir/Interfaces/ViewLikeInterface.td"

// Messages between single ranks, and barriers.
def Dist_ChannelResource : Resource<"::cleave::dist::ChannelResource">;

// A dimension, a rank's index or a distance.
def Dist_Int : TypedSignlessIntegerAttrBase<I64, "int64_t", "64-bit signless integer attribute"> {
  let convertFromStorage = "$_self.getInt()";
}

class Dist_Op<string mnemonic, list<Trait> traits = []> : Op<Dist_Dialect, mnemonic, traits>;

/// An op that runs along axes of a mesh, given by attributes `mesh` and `axes`.
class Dist_AxesOp<string mnemonic, list<Trait> traits = []>
    : Dist_Op<mnemonic, [DeclareOpInterfaceMethods<SymbolUserOpInterface>] # traits> {
  let hasVerifier = 1;
}

/// A communication: an op along axes that moves data.
class Dist_CommunicationOp<string mnemonic, list<Trait> traits = []>
    : Dist_AxesOp<mnemonic,
                  [DeclareOpInterfaceMethods<CommunicationOpInterface, ["getBytesSent", "countMessages"]>] # traits> {
  // Number of consecutive messages; by default those of a ring.
  string messages = "ranks - 1";
  let extraClassDefinition = "int64_t $cppClass::countMessages([[maybe_unused]] int64_t ranks) { return " # messages # "; }\n";
}

#endif // CLEAVE_DIALECTS_DIST_DISTOPS
