//===- Lowered.cpp - functions whose memory and streams are decided -----------===//

#include "dialects/exec/Lowered.h"
#include "dialects/dist/Dist.h"
#include "dialects/dist/Verify.h"
#include "dialects/train/Program.h"

#include "mlir/IR/PatternMatch.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace cleave;
using namespace cleave::exec;

//===----------------------------------------------------------------------===//
// Reading and writing
//===----------------------------------------------------------------------===//

LoweredAttr cleave::exec::getLowered(Operation *function) {
  return function->getAttrOfType<LoweredAttr>(kLoweredAttrName);
}

Operation *cleave::exec::getLoweredFunction(Operation *op) {
  auto function = op->getParentOfType<func::FuncOp>();
  return function && getLowered(function) ? function.getOperation() : nullptr;
}

Attribute ResultMemory::getAttr(MLIRContext *context) const {
  switch (kind) {
  case Apart:
    return ApartAttr::get(context);
  case Arena:
    return AtAttr::get(context, offset);
  case Frame:
    return FrameAttr::get(context, offset);
  case Same:
    return SameAttr::get(context, operand);
  }
  llvm_unreachable("unknown kind of memory");
}

/// Nothing for an attribute that says nothing of memory.
static std::optional<ResultMemory> readMemory(Attribute attribute) {
  if (auto at = dyn_cast<AtAttr>(attribute))
    return ResultMemory{ResultMemory::Arena, at.getOffset(), 0};
  if (auto frame = dyn_cast<FrameAttr>(attribute))
    return ResultMemory{ResultMemory::Frame, frame.getOffset(), 0};
  if (auto same = dyn_cast<SameAttr>(attribute))
    return ResultMemory{ResultMemory::Same, 0, same.getOperand()};
  if (isa<ApartAttr>(attribute))
    return ResultMemory();
  return std::nullopt;
}

ResultMemory cleave::exec::getResultMemory(OpResult result) {
  auto list = result.getOwner()->getAttrOfType<ArrayAttr>(kMemoryAttrName);
  if (!list || result.getResultNumber() >= list.size())
    return {};
  return readMemory(list[result.getResultNumber()]).value_or(ResultMemory());
}

void cleave::exec::setResultMemory(Operation *op, ArrayRef<ResultMemory> memory) {
  SmallVector<Attribute> list = llvm::map_to_vector(
      memory, [&](const ResultMemory &each) { return each.getAttr(op->getContext()); });
  op->setDiscardableAttr(kMemoryAttrName, ArrayAttr::get(op->getContext(), list));
}

Stream cleave::exec::getStream(Operation *op) {
  if (auto record = dyn_cast<RecordOp>(op))
    return record.getStream();
  if (auto wait = dyn_cast<WaitOp>(op))
    return wait.getStream();
  auto stream = op->getAttrOfType<StreamAttr>(kStreamAttrName);
  return stream ? stream.getValue() : Stream::Compute;
}

void cleave::exec::dropLowering(Operation *function) {
  function->removeDiscardableAttr(kLoweredAttrName);
  SmallVector<Operation *> waits, records;
  function->walk([&](Operation *op) {
    op->removeDiscardableAttr(kMemoryAttrName);
    op->removeDiscardableAttr(kStreamAttrName);
    op->removeDiscardableAttr(kCallAttrName);
    if (isa<WaitOp>(op))
      waits.push_back(op);
    if (isa<RecordOp>(op))
      records.push_back(op);
  });
  for (Operation *op : llvm::concat<Operation *>(waits, records))
    op->erase();
}

//===----------------------------------------------------------------------===//
// Attributes
//===----------------------------------------------------------------------===//

LogicalResult LoweredAttr::verify(function_ref<InFlightDiagnostic()> emitError, Family target,
                                  StringAttr chip, int64_t arena, int64_t frame,
                                  int64_t alignment) {
  if (arena < 0 || frame < 0)
    return emitError() << "expects arena and frame to be numbers of bytes, found " << arena
                       << " and " << frame;
  if (alignment < 1 || !llvm::isPowerOf2_64(alignment))
    return emitError() << "expects alignment to be a power of two, found " << alignment;
  if (target == Family::Cpu && chip)
    return emitError() << "expects no chip for cpu, found '" << chip.getValue() << "'";
  StringRef name = chip ? chip.getValue() : StringRef();
  if (target == Family::Cuda && !(name.consume_front("sm_") && !name.empty() &&
                                  llvm::isDigit(name.front()) && llvm::all_of(name, llvm::isAlnum)))
    return emitError() << "expects a chip like \"sm_90\" for cuda, found '"
                       << (chip ? chip.getValue() : StringRef()) << "'";
  return success();
}

//===----------------------------------------------------------------------===//
// Functions and their ops
//===----------------------------------------------------------------------===//

/// Bytes of a tensor, or of a future's; nothing for what has none that can be planned.
static std::optional<int64_t> getPlannedBytes(Type type) {
  auto tensor = dyn_cast<RankedTensorType>(dist::valueTypeOf(type));
  if (isa<dist::HostType>(type) || !tensor || !tensor.hasStaticShape())
    return std::nullopt;
  return dist::bytesOf(tensor);
}

static LogicalResult verifyResultMemory(OpResult result, Attribute attribute, LoweredAttr lowered) {
  Operation *op = result.getOwner();
  auto fail = [&] {
    return op->emitOpError() << "expects '" << kMemoryAttrName << "' of result "
                             << result.getResultNumber() << " to ";
  };
  std::optional<ResultMemory> memory = readMemory(attribute);
  if (!memory)
    return fail() << "be #exec.at, #exec.frame, #exec.same or #exec.apart, found " << attribute;
  switch (memory->kind) {
  case ResultMemory::Apart:
    return success();
  case ResultMemory::Same:
    if (memory->operand >= op->getNumOperands())
      return fail() << "name one of " << op->getNumOperands() << " operands, found " << attribute;
    return success();
  case ResultMemory::Arena:
  case ResultMemory::Frame:
    break;
  }
  bool inArena = memory->kind == ResultMemory::Arena;
  StringRef region = inArena ? "arena" : "frame";
  int64_t size = inArena ? lowered.getArena() : lowered.getFrame();
  std::optional<int64_t> bytes = getPlannedBytes(result.getType());
  if (!bytes)
    return fail() << "be #exec.same or #exec.apart, since " << result.getType()
                  << " is not a statically shaped tensor; found " << attribute;
  if (memory->offset < 0 || memory->offset % lowered.getAlignment())
    return fail() << "begin at a multiple of " << lowered.getAlignment() << " bytes, found "
                  << attribute;
  if (*bytes > size - memory->offset)
    return fail() << "end within the " << region << " of " << size << " bytes, found " << *bytes
                  << " bytes from " << memory->offset << " on";
  return success();
}

static LogicalResult verifyMemory(Operation *op, LoweredAttr lowered) {
  auto list = op->getAttrOfType<ArrayAttr>(kMemoryAttrName);
  if (!list || list.size() != op->getNumResults()) {
    InFlightDiagnostic diagnostic =
        op->emitOpError() << "expects '" << kMemoryAttrName << "' with " << op->getNumResults()
                          << " entries, as in all lowered functions; found ";
    if (list)
      diagnostic << list.size();
    else
      diagnostic << "none";
    diagnostic.attachNote(getLoweredFunction(op)->getLoc())
        << "the function is lowered: run passes that create or change ops before --lower-to-exec";
    return diagnostic;
  }
  for (auto [result, attribute] : llvm::zip(op->getResults(), list))
    if (failed(verifyResultMemory(result, attribute, lowered)))
      return failure();
  return success();
}

static LogicalResult verifyLoweredFunction(Operation *op, NamedAttribute attribute) {
  auto lowered = dyn_cast<LoweredAttr>(attribute.getValue());
  auto function = dyn_cast<func::FuncOp>(op);
  if (!lowered || !function || !function->hasAttr(train::kPhaseAttrName) ||
      !llvm::hasSingleElement(function.getBody()))
    return op->emitOpError() << "expects '" << kLoweredAttrName
                             << "' to be an #exec.lowered on a phase function with one block";
  for (Operation &each : function.front())
    if (each.getNumResults() && !isa<RecordOp>(each) && failed(verifyMemory(&each, lowered)))
      return failure();
  return success();
}

LogicalResult ExecDialect::verifyOperationAttribute(Operation *op, NamedAttribute attribute) {
  StringRef name = attribute.getName();
  if (name == kLoweredAttrName)
    return verifyLoweredFunction(op, attribute);
  if (name != kMemoryAttrName && name != kStreamAttrName && name != kCallAttrName)
    return op->emitOpError() << "unknown attribute '" << name << "'";
  if (!getLoweredFunction(op))
    return op->emitOpError() << "expects '" << name << "' only in a function with '"
                             << kLoweredAttrName << "'";
  if (name == kStreamAttrName && !isa<StreamAttr>(attribute.getValue()))
    return op->emitOpError() << "expects '" << name << "' to be an #exec.stream, found "
                             << attribute.getValue();
  if (name == kCallAttrName && !isa<IntegerAttr>(attribute.getValue()))
    return op->emitOpError() << "expects '" << name << "' to be a number, found "
                             << attribute.getValue();
  if (name == kMemoryAttrName && !isa<ArrayAttr>(attribute.getValue()))
    return op->emitOpError() << "expects '" << name << "' to be a list, found "
                             << attribute.getValue();
  if (name == kMemoryAttrName && op->getNumResults() == 0)
    return op->emitOpError() << "expects '" << name << "' only on ops with results";
  return success();
}

//===----------------------------------------------------------------------===//
// Events
//===----------------------------------------------------------------------===//

static LogicalResult verifyInLowered(Operation *op) {
  if (getLoweredFunction(op))
    return success();
  return op->emitOpError() << "expects to be in a function with '" << kLoweredAttrName << "'";
}

LogicalResult RecordOp::verify() {
  if (failed(verifyInLowered(*this)))
    return failure();
  auto wait = getEvent().hasOneUse() ? dyn_cast<exec::WaitOp>(*getEvent().user_begin()) : nullptr;
  if (!wait || wait.getStream() == getStream())
    return emitOpError() << "expects one exec.wait for its event, on another stream";
  return success();
}

/// Two events one right after the other are the same place of their stream: another stream need
/// wait for it only once, where it does first.
LogicalResult RecordOp::canonicalize(RecordOp op, PatternRewriter &rewriter) {
  auto next = dyn_cast_or_null<RecordOp>(op->getNextNode());
  if (!next || next.getStream() != op.getStream())
    return failure();
  auto wait = cast<exec::WaitOp>(*op.getEvent().user_begin());
  auto nextWait = cast<exec::WaitOp>(*next.getEvent().user_begin());
  if (wait->getBlock() != nextWait->getBlock() || wait.getStream() != nextWait.getStream())
    return failure();
  bool isFirst = wait->isBeforeInBlock(nextWait);
  rewriter.eraseOp(isFirst ? nextWait : wait);
  rewriter.eraseOp(isFirst ? next : op);
  return success();
}

LogicalResult exec::WaitOp::verify() {
  return verifyInLowered(*this);
}
