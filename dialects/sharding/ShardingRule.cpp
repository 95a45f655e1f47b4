//===- ShardingRule.cpp - queries of sharding rules, and their text forms ----===//

#include "dialects/sharding/ShardingRule.h"

#include "mlir/IR/BuiltinTypes.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
using namespace cleave::sharding;

#include "dialects/sharding/ShardingRuleInterface.cpp.inc"

StringRef cleave::sharding::toString(FactorReduction reduction) {
  switch (reduction) {
  case FactorReduction::None:
    return "none";
  case FactorReduction::Sum:
    return "sum";
  case FactorReduction::Avg:
    return "avg";
  case FactorReduction::Max:
    return "max";
  case FactorReduction::Min:
    return "min";
  case FactorReduction::Product:
    return "product";
  }
  llvm_unreachable("all reductions have a name");
}

StringRef cleave::sharding::toString(OpKind kind) {
  switch (kind) {
  case OpKind::Compute:
    return "compute";
  case OpKind::View:
    return "view";
  case OpKind::Factory:
    return "factory";
  case OpKind::Random:
    return "random";
  }
  llvm_unreachable("all kinds have a name");
}

static ArrayRef<int64_t> shapeOf(Type type) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  return tensor ? tensor.getShape() : ArrayRef<int64_t>();
}

ShardingRule ShardingRule::opaque(Operation *op, const char *reason) {
  ShardingRule rule;
  rule.opaqueReason = reason;
  auto wholes = [&](TypeRange types, auto &tensors) {
    for (Type type : types) {
      TensorFactors &tensor = tensors.emplace_back();
      for (int64_t size : shapeOf(type)) {
        tensor.push_back({FactorId(rule.factors.size())});
        Factor &factor = rule.factors.emplace_back();
        factor.size = size;
        factor.name = llvm::formatv("f{0}", rule.factors.size() - 1).str();
        factor.wholeReason = reason;
      }
    }
  };
  wholes(op->getOperandTypes(), rule.operands);
  wholes(op->getResultTypes(), rule.results);
  return rule;
}

ShardingRule cleave::sharding::getShardingRule(Operation *op) {
  if (auto interface = dyn_cast<ShardingRuleOpInterface>(op))
    return interface.getShardingRule();
  return ShardingRule::opaque(op, "it has no sharding rule");
}

//===----------------------------------------------------------------------===//
// Queries
//===----------------------------------------------------------------------===//

ArrayRef<FactorId> ShardingRule::leadingFactors(const DimFactors &dim) const {
  size_t count = 0;
  while (count < dim.size() && factors[dim[count]].size == 1)
    ++count;
  return ArrayRef(dim).take_front(std::min(count + 1, dim.size()));
}

std::optional<unsigned> ShardingRule::leadingDim(const TensorFactors &tensor,
                                                 FactorId factor) const {
  for (auto [dim, dimFactors] : llvm::enumerate(tensor))
    if (llvm::is_contained(leadingFactors(dimFactors), factor))
      return dim;
  return std::nullopt;
}

bool ShardingRule::contains(const TensorFactors &tensor, FactorId factor) {
  return llvm::any_of(tensor,
                      [&](const DimFactors &dim) { return llvm::is_contained(dim, factor); });
}

FactorReduction ShardingRule::reductionAt(FactorId factor, unsigned result) const {
  return llvm::is_contained(factors[factor].unaffected, result) ? FactorReduction::None
                                                                : factors[factor].reduction;
}

const LinearGroup *ShardingRule::findLinear(llvm::function_ref<bool(unsigned)> isPartial) const {
  for (const LinearGroup &group : linear) {
    bool fits = true;
    for (unsigned operand = 0; operand < operands.size() && fits; ++operand)
      fits = llvm::is_contained(shapeOnly, operand) ||
             llvm::is_contained(group.operands, operand) == isPartial(operand);
    if (fits)
      return &group;
  }
  return nullptr;
}

//===----------------------------------------------------------------------===//
// Checks
//===----------------------------------------------------------------------===//

static std::string checkTensor(const ShardingRule &rule, Type type, const TensorFactors &tensor) {
  ArrayRef<int64_t> shape = shapeOf(type);
  if (tensor.size() != shape.size())
    return "expected factors of " + std::to_string(shape.size()) + " dimensions, found " +
           std::to_string(tensor.size());
  for (auto [size, dim] : llvm::zip_equal(shape, tensor)) {
    int64_t product = 1;
    for (FactorId factor : dim) {
      if (factor >= rule.factors.size())
        return "there is no factor " + std::to_string(factor);
      product *= rule.factors[factor].size;
    }
    if (product != size)
      return "expected factors of a dimension of size " + std::to_string(size) +
             ", found a product of " + std::to_string(product);
  }
  return "";
}

std::string ShardingRule::check(Operation *op) const {
  if (operands.size() != op->getNumOperands() || results.size() != op->getNumResults())
    return "it does not have the operands and results of the op";
  for (auto [types, tensors, what] :
       {std::tuple(TypeRange(op->getOperandTypes()), ArrayRef(operands), "operand "),
        std::tuple(TypeRange(op->getResultTypes()), ArrayRef(results), "result ")})
    for (auto [i, type] : llvm::enumerate(types))
      if (std::string error = checkTensor(*this, type, tensors[i]); !error.empty())
        return what + std::to_string(i) + ": " + error;
  for (const LinearGroup &group : linear)
    if (group.operands.empty() ||
        llvm::any_of(group.operands, [&](unsigned i) { return i >= operands.size(); }) ||
        llvm::any_of(group.results, [&](unsigned i) { return i >= results.size(); }))
      return "a linear group has no operand or result, or one that the op does not have";
  for (const SizeAttribute &attribute : sizeAttributes)
    if (attribute.index >=
        (attribute.source == SizeAttribute::ResultShape ? results.size() : factors.size()))
      return std::string("the size attribute `") + attribute.name + "` follows nothing";
  for (auto [i, factor] : llvm::enumerate(factors))
    for (unsigned addend : factor.addends)
      if (addend >= operands.size() || contains(operands[addend], i))
        return "factor " + factor.name + " has an addend that has the factor";
  return "";
}

//===----------------------------------------------------------------------===//
// Text and JSON
//===----------------------------------------------------------------------===//

static void printNumbers(llvm::raw_ostream &os, ArrayRef<unsigned> numbers) {
  os << "{";
  llvm::interleaveComma(numbers, os);
  os << "}";
}

void ShardingRule::print(llvm::raw_ostream &os) const {
  if (isOpaque()) {
    os << "opaque because " << opaqueReason;
    return;
  }
  auto printTensors = [&](ArrayRef<TensorFactors> tensors) {
    if (tensors.empty())
      os << "()";
    llvm::interleaveComma(tensors, os, [&](const TensorFactors &tensor) {
      os << "[";
      llvm::interleaveComma(tensor, os, [&](const DimFactors &dim) {
        if (dim.empty())
          os << "1";
        llvm::interleave(dim, os, [&](FactorId factor) { os << factors[factor].name; }, " ");
      });
      os << "]";
    });
  };
  printTensors(operands);
  os << " -> ";
  printTensors(results);
  StringRef separator = "; ";
  for (const Factor &factor : factors) {
    os << separator << factor.name << " = " << factor.size;
    separator = ", ";
    if (factor.reduction == FactorReduction::None)
      continue;
    os << " (" << toString(factor.reduction);
    if (!factor.addends.empty()) {
      os << ", addends ";
      printNumbers(os, factor.addends);
    }
    if (!factor.unaffected.empty()) {
      os << ", unaffected ";
      printNumbers(os, factor.unaffected);
    }
    os << ")";
  }
  llvm::SmallSetVector<const char *, 2> reasons;
  for (const Factor &factor : factors)
    if (factor.isWhole())
      reasons.insert(factor.wholeReason);
  for (const char *reason : reasons) {
    os << "; whole";
    for (const Factor &factor : factors)
      if (factor.wholeReason == reason)
        os << " " << factor.name;
    os << " because " << reason;
  }
  for (bool moves : {false, true}) {
    separator = moves ? "; moves " : "; linear ";
    for (const LinearGroup &group : linear) {
      if (group.moves != moves)
        continue;
      os << separator;
      separator = " ";
      printNumbers(os, group.operands);
      if (group.results.size() != results.size()) {
        os << " to ";
        printNumbers(os, group.results);
      }
    }
  }
  if (!shapeOnly.empty()) {
    os << "; shape of ";
    printNumbers(os, shapeOnly);
  }
  for (const SizeAttribute &attribute : sizeAttributes) {
    os << "; `" << attribute.name << "` is the ";
    if (attribute.source == SizeAttribute::ResultShape)
      os << "shape of result " << attribute.index;
    else
      os << "size of " << factors[attribute.index].name;
  }
  if (kind != OpKind::Compute)
    os << "; " << toString(kind);
}

llvm::raw_ostream &cleave::sharding::operator<<(llvm::raw_ostream &os, const ShardingRule &rule) {
  rule.print(os);
  return os;
}

static llvm::json::Array numbers(ArrayRef<unsigned> list) {
  llvm::json::Array array;
  for (unsigned number : list)
    array.push_back(number);
  return array;
}

llvm::json::Value ShardingRule::toJSON() const {
  auto tensorsOf = [](ArrayRef<TensorFactors> list) {
    llvm::json::Array tensors;
    for (const TensorFactors &tensor : list) {
      llvm::json::Array dims;
      for (const DimFactors &dim : tensor)
        dims.push_back(numbers(dim));
      tensors.push_back(std::move(dims));
    }
    return tensors;
  };
  llvm::json::Array factorList, groups, sizes;
  for (const Factor &factor : factors)
    factorList.push_back(llvm::json::Object{
        {"name", factor.name},
        {"size", factor.size},
        {"whole", factor.isWhole() ? llvm::json::Value(factor.wholeReason) : nullptr},
        {"reduction", toString(factor.reduction)},
        {"addends", numbers(factor.addends)},
        {"unaffected", numbers(factor.unaffected)}});
  for (const LinearGroup &group : linear)
    groups.push_back(llvm::json::Object{{"operands", numbers(group.operands)},
                                        {"results", numbers(group.results)},
                                        {"moves", group.moves}});
  for (const SizeAttribute &attribute : sizeAttributes)
    sizes.push_back(llvm::json::Object{
        {"name", attribute.name},
        {attribute.source == SizeAttribute::ResultShape ? "result" : "factor", attribute.index}});
  return llvm::json::Object{{"operands", tensorsOf(operands)},
                            {"results", tensorsOf(results)},
                            {"factors", std::move(factorList)},
                            {"linear", std::move(groups)},
                            {"shape_only", numbers(shapeOnly)},
                            {"size_attributes", std::move(sizes)},
                            {"kind", toString(kind)},
                            {"broadcasts", broadcasts},
                            {"opaque", opaqueReason ? llvm::json::Value(opaqueReason) : nullptr}};
}
