//===- CountedTargets.cpp - the targets that count in a program's mean --------===//

#include "runtime/session/CountedTargets.h"
#include "dialects/train/Program.h"
#include "runtime/program/ProgramImpl.h"
#include "runtime/ranks/WholeTensors.h"

#include "llvm/ADT/STLExtras.h"

#include <cstring>
#include <limits>
#include <numeric>

using namespace cleave;
using namespace cleave::runtime;

llvm::Expected<std::optional<CountedTargets>> CountedTargets::find(const Program &program,
                                                                   const RankGrid &grid) {
  mlir::ModuleOp module = *program.impl().module;
  auto targets = module->getAttrOfType<train::TargetsAttr>(train::kMeanOverAttrName);
  if (!targets)
    return std::nullopt;
  CountedTargets found;
  found.label = targets.getInput().str();
  found.ignored = targets.getIgnored();
  auto refuse = [&](const llvm::Twine &what) {
    return makeError("{0}: the mean of its loss is over targets of \"{1}\", {2}", program.path(),
                     found.label, what.str());
  };
  llvm::ArrayRef<ValueInfo> inputs = program.inputs();
  const ValueInfo *value =
      llvm::find_if(inputs, [&](const ValueInfo &input) { return input.name == found.label; });
  if (value == inputs.end())
    return refuse("which is not one of its inputs");
  found.index = value - inputs.begin();
  TensorType whole = wholeType(*value, grid);
  if (whole.dtype != DType::I64 && whole.dtype != DType::I32)
    return refuse("which are no integers: " + whole.str());
  if (whole.shape.size() != targets.getBegin().size())
    return refuse("of " + llvm::Twine(targets.getBegin().size()) + " dimensions, found " +
                  whole.str());
  for (auto [begin, end, size] :
       llvm::zip_equal(targets.getBegin(), targets.getEnd(), whole.shape)) {
    if (end > size)
      return refuse("up to " + llvm::Twine(end) + " of a dimension, found " + whole.str());
    found.box.push_back({begin, end - begin});
  }
  return found;
}

template <typename Integer>
static int64_t countOthers(llvm::ArrayRef<uint8_t> bytes, int64_t ignored) {
  int64_t count = 0;
  for (size_t at = 0; at < bytes.size(); at += sizeof(Integer)) {
    Integer value;
    std::memcpy(&value, bytes.data() + at, sizeof value);
    count += int64_t(value) != ignored;
  }
  return count;
}

int64_t CountedTargets::count(const ConstTensorRef &whole) const {
  int64_t width = byteSize(whole.type.dtype);
  std::vector<int64_t> sizes = shapeOf(box);
  std::vector<uint8_t> taken(
      width * std::accumulate(sizes.begin(), sizes.end(), int64_t(1), std::multiplies<int64_t>()));
  copyBox(reinterpret_cast<const uint8_t *>(whole.data), whole.type.shape, box, width,
          taken.data());
  return whole.type.dtype == DType::I32 ? countOthers<int32_t>(taken, ignored)
                                        : countOthers<int64_t>(taken, ignored);
}

std::vector<double> cleave::runtime::computeShares(llvm::ArrayRef<int64_t> counts) {
  int64_t total = std::accumulate(counts.begin(), counts.end(), int64_t(0));
  std::vector<double> shares;
  for (int64_t count : counts)
    shares.push_back(total == 0 ? 0 : double(count) / double(total));
  return shares;
}

double cleave::runtime::averageLosses(llvm::ArrayRef<double> losses,
                                      llvm::ArrayRef<double> shares) {
  double sum = 0;
  bool isEmpty = true;
  for (auto [loss, share] : llvm::zip_equal(losses, shares))
    if (share > 0) {
      sum += loss * share;
      isEmpty = false;
    }
  return isEmpty ? std::numeric_limits<double>::quiet_NaN() : sum;
}
