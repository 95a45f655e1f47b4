//===- Interpreter.cpp - runs GPU kernels on the CPU, one thread after another -----------===//

#include "test/unit/lib/kernels/gpu/Interpreter.h"
#include "test/unit/lib/kernels/gpu/Scalars.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/IR/Constants.h"
#include "llvm/IR/DataLayout.h"
#include "llvm/IR/InlineAsm.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/IntrinsicInst.h"
#include "llvm/IR/Operator.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <random>

using namespace cleave::gputest;
using namespace llvm;

/// Scalars that a value consists of, in the order of memory.
static SmallVector<Type *, 4> flatten(Type *type) {
  SmallVector<Type *, 4> scalars;
  if (type->isVoidTy())
    return scalars;
  if (auto *vector = dyn_cast<FixedVectorType>(type)) {
    scalars.assign(vector->getNumElements(), vector->getElementType());
  } else if (type->isStructTy() || type->isArrayTy()) {
    unsigned count =
        type->isStructTy() ? type->getStructNumElements() : type->getArrayNumElements();
    for (unsigned i = 0; i < count; ++i)
      scalars.append(flatten(type->isStructTy() ? type->getStructElementType(i)
                                                : type->getArrayElementType()));
  } else {
    scalars.push_back(type);
  }
  return scalars;
}

namespace cleave::gputest {
/// A function with a number for each scalar that its values consist of.
struct DecodedFunction {
  const Function *function;
  DenseMap<const Value *, unsigned> slots;
  unsigned numSlots = 0;
  /// The constants among them, and their bits.
  std::vector<std::pair<unsigned, Bits>> constants;
  struct Address {
    int64_t offset = 0;
    SmallVector<std::tuple<unsigned, unsigned, int64_t>, 2> terms; ///< slot, its width, factor
  };
  DenseMap<const Value *, Address> addresses;

  unsigned add(const Value *value) {
    auto [it, isNew] = slots.try_emplace(value, numSlots);
    if (isNew)
      numSlots += flatten(value->getType()).size();
    return it->second;
  }
};
} // namespace cleave::gputest

struct Interpreter::Thread {
  struct Frame {
    const DecodedFunction *function;
    std::vector<Bits> values;
    BasicBlock::const_iterator at;
    /// What `alloca`s of the call have.
    std::vector<std::vector<uint64_t>> locals;
  };
  std::vector<Frame> frames;
  Accessor self;
  /// The barrier or shuffle that it waits at.
  const CallInst *waiting = nullptr;
  bool isDone() const { return frames.empty(); }
};

Interpreter::Interpreter(const Module &module, Memory &memory) : module(module), memory(memory) {
  for (const GlobalVariable &global : module.globals()) {
    uint64_t bytes = module.getDataLayout().getTypeAllocSize(global.getValueType());
    std::vector<uint64_t> &data = globals[&global];
    data.assign(bytes / 8 + 3, 0); // more than enough to begin at a multiple of 16
    if (!global.isConstant())
      continue;
    // Tables of libdevice: arrays of numbers.
    auto *start = reinterpret_cast<uint8_t *>(data.data());
    start += -uint64_t(start) % 16;
    if (auto *array = dyn_cast<ConstantDataSequential>(global.getInitializer()))
      std::memcpy(start, array->getRawDataValues().data(), array->getRawDataValues().size());
    memory.addRegion(start, bytes, global.getName().str(), true);
  }
}

Interpreter::~Interpreter() {
  for (auto &[global, data] : globals)
    if (global->isConstant()) {
      auto *start = reinterpret_cast<uint8_t *>(data.data());
      memory.removeRegion(start + -uint64_t(start) % 16);
    }
}

/// One block of threads.
class Interpreter::Machine {
public:
  Machine(Interpreter &parent, unsigned blocks, unsigned threads)
      : parent(parent), memory(parent.memory), layout(parent.module.getDataLayout()),
        blocks(blocks), numThreads(threads) {}

  void runBlock(const DecodedFunction &function, unsigned block, ArrayRef<void *> arguments,
                std::mt19937 &random);

private:
  void run(Thread &thread);
  void step(Thread &thread, const Instruction &instruction);
  void call(Thread &thread, const CallInst &instruction);
  void branchTo(Thread &thread, const BasicBlock *from, const BasicBlock *to);
  void exchange(MutableArrayRef<Thread> warp);
  void access(Thread &thread, const Instruction &instruction, const Value *pointer, Type *type,
              Align alignment, bool isWrite, Bits *values);

  Bits *valueOf(Thread &thread, const Value *value) {
    Thread::Frame &frame = thread.frames.back();
    return &frame.values[frame.function->slots.find(value)->second];
  }

  Interpreter &parent;
  Memory &memory;
  const DataLayout &layout;
  unsigned blocks, numThreads;
  std::vector<Thread> threads;
  uint32_t epoch = 1;
};

static uint8_t *alignedStart(std::vector<uint64_t> &data) {
  auto *start = reinterpret_cast<uint8_t *>(data.data());
  return start + -uint64_t(start) % 16;
}

const DecodedFunction &Interpreter::decode(const Function &function) {
  auto &entry = decoded[&function];
  if (entry)
    return *entry;
  entry = std::make_unique<DecodedFunction>();
  DecodedFunction &result = *entry;
  const DataLayout &layout = module.getDataLayout();
  result.function = &function;

  std::function<void(const Constant *, SmallVectorImpl<Bits> &)> bitsOf =
      [&](const Constant *constant, SmallVectorImpl<Bits> &bits) {
        Type *type = constant->getType();
        if (auto *integer = dyn_cast<ConstantInt>(constant); integer && !type->isVectorTy()) {
          bits.push_back(integer->getZExtValue());
        } else if (auto *number = dyn_cast<ConstantFP>(constant); number && !type->isVectorTy()) {
          bits.push_back(number->getValueAPF().bitcastToAPInt().getZExtValue());
        } else if (isa<UndefValue>(constant) || constant->isNullValue()) {
          bits.append(flatten(type).size(), 0);
        } else if (type->isPointerTy()) {
          APInt offset(64, 0);
          const Value *base = constant->stripAndAccumulateConstantOffsets(
              layout, offset, /*AllowNonInbounds=*/true);
          auto *global = dyn_cast<GlobalVariable>(base);
          if (!global)
            throw Fault("a constant address that is not a variable's");
          bits.push_back(uint64_t(alignedStart(globals[global])) + offset.getSExtValue());
        } else if (type->isVectorTy() || type->isStructTy() || type->isArrayTy()) {
          for (unsigned i = 0; Constant *element = constant->getAggregateElement(i); ++i)
            bitsOf(element, bits);
        } else {
          throw Fault("a constant expression");
        }
      };
  auto use = [&](const Value *value) {
    if (isa<BasicBlock>(value) || isa<Function>(value) || isa<MetadataAsValue>(value) ||
        isa<InlineAsm>(value))
      return;
    bool isNew = !result.slots.contains(value);
    unsigned slot = result.add(value);
    if (auto *constant = dyn_cast<Constant>(value); constant && isNew) {
      SmallVector<Bits> bits;
      bitsOf(constant, bits);
      for (Bits scalar : bits)
        result.constants.push_back({slot++, scalar});
    }
  };
  for (const Argument &argument : function.args())
    use(&argument);
  for (const Instruction &instruction : llvm::instructions(function)) {
    use(&instruction);
    for (const Value *operand : instruction.operand_values())
      use(operand);
    if (auto *gep = dyn_cast<GEPOperator>(&instruction)) {
      SmallMapVector<Value *, APInt, 4> terms;
      APInt offset(64, 0);
      if (!gep->collectOffset(layout, 64, terms, offset))
        throw Fault("an address computation on vectors");
      DecodedFunction::Address &address = result.addresses[gep];
      address.offset = offset.getSExtValue();
      for (auto &[index, factor] : terms) {
        use(index);
        address.terms.push_back(
            {result.slots[index], index->getType()->getIntegerBitWidth(), factor.getSExtValue()});
      }
    }
  }
  return result;
}

void Interpreter::launch(const std::string &entry, int64_t blocks, unsigned threads,
                         const std::vector<void *> &arguments, unsigned seed) {
  const Function *function = module.getFunction(entry);
  if (!function || function->isDeclaration())
    throw Fault("no kernel '" + entry + "'");
  if (function->arg_size() != arguments.size())
    throw Fault("kernel '" + entry + "' takes another number of arguments");
  const DecodedFunction &code = decode(*function);
  memory.beginLaunch();
  std::mt19937 random(seed);
  for (int64_t block = 0; block < blocks; ++block) {
    std::vector<uint8_t *> sharedMemory;
    for (auto &[global, data] : globals)
      if (!global->isConstant()) {
        sharedMemory.push_back(alignedStart(data));
        memory.addRegion(sharedMemory.back(),
                         module.getDataLayout().getTypeAllocSize(global->getValueType()),
                         "shared memory", false);
      }
    Machine(*this, blocks, threads).runBlock(code, block, arguments, random);
    for (uint8_t *start : sharedMemory)
      memory.removeRegion(start);
  }
}

//===----------------------------------------------------------------------===//
// Threads
//===----------------------------------------------------------------------===//

static Interpreter::Thread::Frame enter(const DecodedFunction &function) {
  Interpreter::Thread::Frame frame{&function, {}, function.function->front().begin(), {}};
  frame.values.assign(function.numSlots, 0);
  for (auto [slot, bits] : function.constants)
    frame.values[slot] = bits;
  return frame;
}

void Interpreter::Machine::runBlock(const DecodedFunction &function, unsigned block,
                                    ArrayRef<void *> arguments, std::mt19937 &random) {
  threads.resize(numThreads);
  for (unsigned i = 0; i < numThreads; ++i) {
    Thread &thread = threads[i];
    thread.frames.push_back(enter(function));
    thread.self = {block, i, epoch};
    for (auto [argument, address] : zip(function.function->args(), arguments))
      *valueOf(thread, &argument) = uint64_t(address);
  }
  unsigned warps = (numThreads + 31) / 32;
  std::vector<unsigned> order(warps);
  std::iota(order.begin(), order.end(), 0);
  while (true) {
    std::shuffle(order.begin(), order.end(), random);
    for (unsigned warp : order) {
      MutableArrayRef<Thread> own =
          MutableArrayRef(threads).slice(warp * 32, std::min(32u, numThreads - warp * 32));
      // As far as it goes without the other warps.
      while (true) {
        bool backwards = random() & 1;
        for (unsigned i = 0; i < own.size(); ++i)
          run(own[backwards ? own.size() - 1 - i : i]);
        auto shuffles = [](const Thread &thread) {
          return thread.waiting &&
                 thread.waiting->getCalledFunction()->getName().contains(".shfl.");
        };
        if (none_of(own, shuffles))
          break;
        if (!all_of(own, shuffles))
          throw Fault("a shuffle that not all threads of the warp come to");
        exchange(own);
      }
    }
    if (all_of(threads, [](const Thread &thread) { return thread.isDone(); }))
      return;
    const CallInst *barrier = threads.front().waiting;
    for (const Thread &thread : threads)
      if (!thread.waiting || thread.waiting != barrier)
        throw Fault("a barrier that not all threads of the block come to");
    ++epoch;
    for (Thread &thread : threads) {
      thread.waiting = nullptr;
      thread.self.epoch = epoch;
    }
  }
}

/// Until it ends or waits.
void Interpreter::Machine::run(Thread &thread) {
  while (!thread.isDone() && !thread.waiting) {
    const Instruction &instruction = *thread.frames.back().at++;
    ++parent.instructions;
    step(thread, instruction);
  }
}

void Interpreter::Machine::exchange(MutableArrayRef<Thread> warp) {
  const CallInst *shuffle = warp.front().waiting;
  StringRef name = shuffle->getCalledFunction()->getName();
  std::vector<Bits> given;
  for (Thread &thread : warp) {
    if (thread.waiting != shuffle)
      throw Fault("threads of a warp at different shuffles");
    if (uint32_t(*valueOf(thread, shuffle->getArgOperand(0))) != ~0u || warp.size() != 32)
      throw Fault("a shuffle of part of a warp");
    given.push_back(*valueOf(thread, shuffle->getArgOperand(1)));
  }
  for (unsigned lane = 0; lane < warp.size(); ++lane) {
    Thread &thread = warp[lane];
    unsigned by = *valueOf(thread, shuffle->getArgOperand(2));
    unsigned clamp = *valueOf(thread, shuffle->getArgOperand(3));
    if (clamp != 31 || !name.contains(".bfly."))
      throw Fault("a shuffle that is no butterfly of a whole warp");
    Bits *result = valueOf(thread, shuffle);
    result[0] = given[(lane ^ by) % 32];
    if (shuffle->getType()->isStructTy())
      result[1] = 1;
    thread.waiting = nullptr;
  }
}

void Interpreter::Machine::branchTo(Thread &thread, const BasicBlock *from, const BasicBlock *to) {
  SmallVector<Bits> incoming;
  for (const PHINode &phi : to->phis()) {
    Bits *value = valueOf(thread, phi.getIncomingValueForBlock(from));
    incoming.append(value, value + flatten(phi.getType()).size());
  }
  const Bits *next = incoming.data();
  for (const PHINode &phi : to->phis()) {
    size_t count = flatten(phi.getType()).size();
    std::copy(next, next + count, valueOf(thread, &phi));
    next += count;
  }
  thread.frames.back().at = to->getFirstNonPHIIt();
}

void Interpreter::Machine::access(Thread &thread, const Instruction &, const Value *pointer,
                                  Type *type, Align alignment, bool isWrite, Bits *values) {
  SmallVector<Type *, 4> scalars = flatten(type);
  unsigned bytes = std::max<unsigned>(
      1, scalars[0]->isPointerTy() ? 8 : scalars[0]->getPrimitiveSizeInBits() / 8);
  unsigned size = bytes * scalars.size();
  uint64_t address = *valueOf(thread, pointer);
  // A vector's address is checked for what the instruction that it becomes asks of it.
  unsigned aligned = std::min<uint64_t>(alignment.value(), 16);
  if (isWrite) {
    uint8_t *to = memory.write(address, size, aligned, thread.self);
    for (unsigned i = 0; i < scalars.size(); ++i)
      std::memcpy(to + i * bytes, &values[i], bytes);
    return;
  }
  const uint8_t *from = memory.read(address, size, aligned, thread.self);
  for (unsigned i = 0; i < scalars.size(); ++i) {
    values[i] = 0;
    std::memcpy(&values[i], from + i * bytes, bytes);
    if (scalars[i]->isIntegerTy(1))
      values[i] &= 1;
  }
}

void Interpreter::Machine::call(Thread &thread, const CallInst &instruction) {
  const Function *callee = instruction.getCalledFunction();
  if (auto *assembly = dyn_cast<InlineAsm>(instruction.getCalledOperand())) {
    // All that libdevice has of it, but for leading zeros of wide integers.
    if (!StringRef(assembly->getAsmString()).starts_with("rcp.approx.ftz.f32 "))
      throw Fault("unknown inline assembly " + std::string(assembly->getAsmString()));
    Type *type = instruction.getType();
    *valueOf(thread, &instruction) =
        fromDouble(1 / toDouble(*valueOf(thread, instruction.getArgOperand(0)), type), type);
    return;
  }
  if (!callee)
    throw Fault("a call by address");
  if (!callee->isDeclaration()) {
    Thread::Frame frame = enter(parent.decode(*callee));
    for (auto [argument, operand] : zip(callee->args(), instruction.args())) {
      Bits *value = valueOf(thread, operand);
      std::copy(value, value + flatten(argument.getType()).size(),
                &frame.values[frame.function->slots.find(&argument)->second]);
    }
    thread.frames.push_back(std::move(frame));
    return;
  }
  StringRef name = callee->getName();
  if (name.starts_with("llvm.nvvm.barrier") || name.contains(".shfl.")) {
    thread.waiting = &instruction;
    return;
  }
  if (name.starts_with("llvm.lifetime") || name.starts_with("llvm.assume") ||
      name.starts_with("llvm.dbg") || name.contains("noalias.scope"))
    return;
  if (instruction.getType()->isVoidTy())
    throw Fault("unknown intrinsic " + name.str());
  Bits *result = valueOf(thread, &instruction);
  if (name.consume_front("llvm.nvvm.read.ptx.sreg.")) {
    *result = name == "tid.x"      ? thread.self.thread
              : name == "ctaid.x"  ? thread.self.block
              : name == "ntid.x"   ? numThreads
              : name == "nctaid.x" ? blocks
                                   : throw Fault("unknown special register " + name.str());
    return;
  }
  SmallVector<Type *, 4> types = flatten(instruction.getType());
  Type *operandType = instruction.getArgOperand(0)->getType()->getScalarType();
  for (unsigned lane = 0; lane < types.size(); ++lane) {
    SmallVector<Bits> operands;
    for (const Value *operand : instruction.args())
      operands.push_back(valueOf(thread, operand)[operand->getType()->isVectorTy() ? lane : 0]);
    result[lane] = intrinsic(name, operands, types[lane], operandType);
  }
}

void Interpreter::Machine::step(Thread &thread, const Instruction &instruction) {
  auto value = [&](unsigned operand) { return valueOf(thread, instruction.getOperand(operand)); };
  unsigned opcode = instruction.getOpcode();
  Type *type = instruction.getType();
  if (auto *branch = dyn_cast<BranchInst>(&instruction)) {
    bool first = branch->isUnconditional() || *valueOf(thread, branch->getCondition());
    return branchTo(thread, branch->getParent(), branch->getSuccessor(first ? 0 : 1));
  }
  if (auto *choice = dyn_cast<SwitchInst>(&instruction)) {
    Bits condition = *valueOf(thread, choice->getCondition());
    const BasicBlock *to = choice->getDefaultDest();
    for (auto &entry : choice->cases())
      if (entry.getCaseValue()->getZExtValue() == condition)
        to = entry.getCaseSuccessor();
    return branchTo(thread, choice->getParent(), to);
  }
  if (isa<ReturnInst>(instruction)) {
    SmallVector<Bits> results;
    if (instruction.getNumOperands())
      results.assign(value(0), value(0) + flatten(instruction.getOperand(0)->getType()).size());
    for (auto &data : thread.frames.back().locals)
      memory.removeRegion(alignedStart(data));
    thread.frames.pop_back();
    if (!thread.frames.empty() && !results.empty())
      std::copy(results.begin(), results.end(),
                valueOf(thread, &*std::prev(thread.frames.back().at)));
    return;
  }
  if (auto *called = dyn_cast<CallInst>(&instruction))
    return call(thread, *called);
  if (auto *store = dyn_cast<StoreInst>(&instruction))
    return access(thread, *store, store->getPointerOperand(), store->getValueOperand()->getType(),
                  store->getAlign(), true, value(0));

  Bits *result = valueOf(thread, &instruction);
  SmallVector<Type *, 4> types = flatten(type);
  Type *operandType =
      instruction.getNumOperands() ? instruction.getOperand(0)->getType()->getScalarType() : type;
  if (auto *load = dyn_cast<LoadInst>(&instruction)) {
    access(thread, *load, load->getPointerOperand(), type, load->getAlign(), false, result);
  } else if (auto *local = dyn_cast<AllocaInst>(&instruction)) {
    auto &data = thread.frames.back().locals.emplace_back(
        layout.getTypeAllocSize(local->getAllocatedType()) / 8 + 3);
    // Of the thread alone; it goes with the frame, and nothing else can be at its address before.
    memory.addRegion(alignedStart(data), layout.getTypeAllocSize(local->getAllocatedType()),
                     "a local variable", false);
    *result = uint64_t(alignedStart(data));
  } else if (isa<GetElementPtrInst>(instruction)) {
    const auto &address = thread.frames.back().function->addresses.find(&instruction)->second;
    Bits sum = *value(0) + address.offset;
    for (auto [slot, width, factor] : address.terms)
      sum += toSigned(thread.frames.back().values[slot], width) * factor;
    *result = sum;
  } else if (auto *choice = dyn_cast<SelectInst>(&instruction)) {
    bool perLane = choice->getCondition()->getType()->isVectorTy();
    for (unsigned lane = 0; lane < types.size(); ++lane)
      result[lane] = value(0)[perLane ? lane : 0] ? value(1)[lane] : value(2)[lane];
  } else if (auto *comparison = dyn_cast<CmpInst>(&instruction)) {
    for (unsigned lane = 0; lane < types.size(); ++lane)
      result[lane] =
          compare(comparison->getPredicate(), value(0)[lane], value(1)[lane], operandType);
  } else if (isa<BinaryOperator>(instruction)) {
    for (unsigned lane = 0; lane < types.size(); ++lane)
      result[lane] = binary(opcode, value(0)[lane], value(1)[lane], types[lane]);
  } else if (opcode == Instruction::FNeg) {
    for (unsigned lane = 0; lane < types.size(); ++lane)
      result[lane] = value(0)[lane] ^ Bits(1) << (types[lane]->getPrimitiveSizeInBits() - 1);
  } else if (opcode == Instruction::Freeze) {
    std::copy(value(0), value(0) + types.size(), result);
  } else if (opcode == Instruction::BitCast) {
    // The same bytes, cut differently.
    SmallVector<Type *, 4> from = flatten(instruction.getOperand(0)->getType());
    unsigned fromBits = from[0]->getPrimitiveSizeInBits(),
             toBits = types[0]->getPrimitiveSizeInBits();
    if (type->isPointerTy() || fromBits == toBits) {
      std::copy(value(0), value(0) + types.size(), result);
    } else {
      APInt all(fromBits * from.size(), 0);
      for (unsigned i = 0; i < from.size(); ++i)
        all.insertBits(value(0)[i], i * fromBits, fromBits);
      for (unsigned i = 0; i < types.size(); ++i)
        result[i] = all.extractBitsAsZExtValue(toBits, i * toBits);
    }
  } else if (isa<CastInst>(instruction)) {
    for (unsigned lane = 0; lane < types.size(); ++lane)
      result[lane] = convert(opcode, value(0)[lane], operandType, types[lane]);
  } else if (isa<ExtractElementInst>(instruction)) {
    *result = value(0)[*value(1)];
  } else if (isa<InsertElementInst>(instruction)) {
    std::copy(value(0), value(0) + types.size(), result);
    result[*value(2)] = *value(1);
  } else if (auto *shuffle = dyn_cast<ShuffleVectorInst>(&instruction)) {
    unsigned width = flatten(shuffle->getOperand(0)->getType()).size();
    for (auto [lane, from] : enumerate(shuffle->getShuffleMask()))
      result[lane] = from < 0                 ? 0
                     : unsigned(from) < width ? value(0)[from]
                                              : value(1)[from - width];
  } else if (auto *extract = dyn_cast<ExtractValueInst>(&instruction)) {
    if (extract->getNumIndices() != 1 || types.size() != 1)
      throw Fault("a nested aggregate");
    *result = value(0)[extract->getIndices()[0]];
  } else {
    throw Fault("unknown instruction " + std::string(instruction.getOpcodeName()));
  }
}
