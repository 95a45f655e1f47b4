//===- Code.cpp - compiled code: what is legal of it -------------------------===//

#include "dialects/exec/CpuLevels.h"
#include "dialects/exec/Exec.h"

#include "mlir/IR/DialectResourceBlobManager.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace cleave::exec;

//===----------------------------------------------------------------------===//
// binary
//===----------------------------------------------------------------------===//

ArrayRef<char> BinaryOp::getBytes() {
  AsmResourceBlob *blob = getCode().getRawHandle().getBlob();
  return blob ? blob->getData() : ArrayRef<char>();
}

/// Constraint 1.
static bool isTargetOf(BinaryFormat format, StringRef target) {
  if (format == BinaryFormat::Elf)
    return llvm::is_contained(kCpuLevels, target);
  if (!target.consume_front("sm_"))
    return false;
  if (target.ends_with("a") || target.ends_with("f"))
    target = target.drop_back();
  return !target.empty() && llvm::all_of(target, llvm::isDigit);
}

LogicalResult BinaryOp::verify() {
  if (!isTargetOf(getFormat(), getTarget())) {
    std::string expected = "cubin for a chip like \"sm_90\"";
    if (getFormat() == BinaryFormat::Elf)
      expected = "elf for \"" + llvm::join(llvm::ArrayRef(kCpuLevels).drop_back(), "\", \"") +
                 "\" or \"" + std::end(kCpuLevels)[-1].str() + "\"";
    return emitOpError() << "expects " << expected << ", found " << getTargetAttr();
  }
  auto type = dyn_cast<RankedTensorType>(getCode().getType());
  if (!type || type.getRank() != 1 || !type.hasStaticShape() || type.getEncoding() ||
      !type.getElementType().isSignlessInteger(8))
    return emitOpError() << "expects code of a type like tensor<64xi8>, found "
                         << getCode().getType();
  ArrayRef<char> bytes = getBytes();
  if (int64_t(bytes.size()) != type.getNumElements())
    return emitOpError() << "expects " << type.getNumElements() << " bytes of code, found "
                         << bytes.size();
  if (!StringRef(bytes.data(), bytes.size())
           .starts_with("\x7f"
                        "ELF"))
    return emitOpError() << "expects code that starts with an ELF header";
  for (auto other : cast<ModuleOp>((*this)->getParentOp()).getOps<BinaryOp>()) {
    if (other == *this)
      break;
    if (other.getTarget() != getTarget())
      continue;
    InFlightDiagnostic diagnostic = emitOpError() << "is a second binary for " << getTargetAttr();
    diagnostic.attachNote(other.getLoc()) << "the first is here";
    return diagnostic;
  }
  return success();
}

//===----------------------------------------------------------------------===//
// code
//===----------------------------------------------------------------------===//

LogicalResult KernelPhaseAttr::verify(function_ref<InFlightDiagnostic()> emitError,
                                      StringAttr entry, int64_t chunks, int64_t threads) {
  if (entry.empty())
    return emitError() << "expects the name of a function of the binary, found \"\"";
  if (chunks < 1 || chunks > INT32_MAX)
    return emitError() << "expects chunks to be from 1 to " << INT32_MAX << ", found " << chunks;
  if (threads < 0 || threads > 1024)
    return emitError() << "expects threads to be from 1 to 1024, found " << threads;
  return success();
}

LogicalResult CodeAttr::verify(function_ref<InFlightDiagnostic()> emitError, Family family,
                               ArrayRef<KernelPhaseAttr> phases, int64_t scratch,
                               int64_t partials) {
  if (phases.empty())
    return emitError() << "expects a phase";
  for (KernelPhaseAttr phase : phases) {
    bool expectsThreads = family == Family::Cuda;
    if (expectsThreads == (phase.getThreads() != 0))
      continue;
    return emitError() << "expects phases " << (expectsThreads ? "with" : "without")
                       << " threads for " << stringifyFamily(family) << ", found " << phase;
  }
  if (scratch < 0)
    return emitError() << "expects scratch to be 0 or more bytes, found " << scratch;
  if (partials < 0)
    return emitError() << "expects partials to be 0 or more bytes, found " << partials;
  if (family == Family::Cuda && scratch != 0)
    return emitError() << "expects no scratch for cuda, found " << scratch << " bytes";
  return success();
}

CodeAttr KernelOp::getCodeFor(Family family) {
  if (ArrayAttr codes = getCodeAttr())
    for (auto code : codes.getAsRange<CodeAttr>())
      if (code.getFamily() == family)
        return code;
  return {};
}

/// Constraint 4.
LogicalResult KernelOp::verifySymbolUses(SymbolTableCollection &) {
  ArrayAttr codes = getCodeAttr();
  if (!codes)
    return success();
  auto module = cast<ModuleOp>((*this)->getParentOp());
  llvm::SmallDenseSet<Family> families;
  for (auto code : codes.getAsRange<CodeAttr>()) {
    Family family = code.getFamily();
    if (!families.insert(family).second)
      return emitOpError() << "has code for " << stringifyFamily(family) << " twice";
    if (llvm::none_of(module.getOps<BinaryOp>(),
                      [&](BinaryOp binary) { return binary.getFamily() == family; }))
      return emitOpError() << "has code for " << stringifyFamily(family)
                           << ", but the module has no exec.binary for it";
  }
  return success();
}
