//===- RandomTensors.cpp - inputs and states of a run -----------------------===//

#include "tools/cleave-prove/RandomTensors.h"
#include "dialects/aten/ops/Indexing.h"
#include "dialects/aten/ops/Loss.h"
#include "dialects/train/Program.h"
#include "runtime/io/DType.h"
#include "runtime/io/Safetensors.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/StringMap.h"

#include <cmath>
#include <cstring>
#include <deque>
#include <random>

using namespace mlir;
using namespace cleave;
using namespace cleave::prove;
using train::RoleKind;

/// An integer input holds rows of tables and numbers of classes: below this number they are there
/// in all that it leads to.
static int64_t findRows(Value input) {
  int64_t rows = std::numeric_limits<int64_t>::max();
  llvm::SetVector<Value> reached;
  reached.insert(input);
  for (size_t i = 0; i < reached.size(); ++i)
    for (OpOperand &use : reached[i].getUses()) {
      Operation *op = use.getOwner();
      if (auto embedding = dyn_cast<aten::EmbeddingOp>(op))
        rows =
            std::min(rows, cast<RankedTensorType>(embedding.getWeight().getType()).getDimSize(0));
      if (auto loss = dyn_cast<aten::NllLossForwardOp>(op)) {
        auto scores = cast<RankedTensorType>(loss.getSelf().getType());
        rows = std::min(rows, scores.getDimSize(scores.getRank() == 1 ? 0 : 1));
      }
      for (Value result : op->getResults())
        if (auto type = dyn_cast<RankedTensorType>(result.getType());
            type && type.getElementType().isInteger(64))
          reached.insert(result);
    }
  return rows == std::numeric_limits<int64_t>::max() ? 2 : std::max<int64_t>(rows, 1);
}

namespace {
/// Draws rows of a table, half of them beside the borders of its shards: errors are there.
class Rows {
public:
  Rows(int64_t count, llvm::ArrayRef<int64_t> shards) : any(0, count - 1) {
    for (int64_t size : shards)
      for (int64_t shard = 0; shard < size && count % size == 0; ++shard) {
        borders.push_back(shard * (count / size));
        borders.push_back((shard + 1) * (count / size) - 1);
      }
  }
  int64_t draw(std::mt19937_64 &random) const {
    if (borders.empty() || (random() & 1))
      return any(random);
    return borders[random() % borders.size()];
  }

private:
  mutable std::uniform_int_distribution<int64_t> any;
  llvm::SmallVector<int64_t> borders;
};
} // namespace

llvm::Expected<std::vector<RandomTensor>> prove::makeInputs(ModuleOp global,
                                                            llvm::ArrayRef<int64_t> sizes,
                                                            int64_t microbatches, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::normal_distribution<double> normal;
  std::vector<RandomTensor> inputs;
  for (auto function : global.getOps<func::FuncOp>())
    for (BlockArgument argument : function.getArguments()) {
      auto role =
          function.getArgAttrOfType<train::RoleAttr>(argument.getArgNumber(), train::kRoleAttrName);
      if (!role || (role.getKind() != RoleKind::Input && role.getKind() != RoleKind::Target) ||
          llvm::any_of(
              inputs, [&](const RandomTensor &made) { return made.name == role.getNameOrEmpty(); }))
        continue;
      auto type = cast<RankedTensorType>(argument.getType());
      RandomTensor input{role.getNameOrEmpty().str(), {}, {}};
      input.type.shape.assign(type.getShape().begin(), type.getShape().end());
      if (std::optional<int64_t> batch = role.getBatch())
        input.type.shape[*batch] *= microbatches;
      Type element = type.getElementType();
      auto fill = [&](runtime::DType dtype, auto next) {
        input.type.dtype = dtype;
        using T = decltype(next());
        input.bytes.resize(size_t(*runtime::countBytes(dtype, input.type.shape)));
        for (size_t at = 0; at < input.bytes.size(); at += sizeof(T)) {
          T value = next();
          std::memcpy(&input.bytes[at], &value, sizeof(T));
        }
      };
      if (element.isF32())
        fill(runtime::DType::F32, [&] { return float(normal(random)); });
      else if (element.isF64())
        fill(runtime::DType::F64, [&] { return normal(random); });
      else if (element.isInteger(64))
        fill(runtime::DType::I64,
             [&, rows = Rows(findRows(argument), sizes)] { return rows.draw(random); });
      else if (element.isInteger(1))
        fill(runtime::DType::Bool, [&] { return uint8_t(random() & 1); });
      else
        return runtime::makeError("input '{0}' has elements of a type of which none are drawn",
                                  input.name);
      inputs.push_back(std::move(input));
    }
  return inputs;
}

/// The type of elements, if they are floating-point numbers, and what their bits mean.
static std::optional<std::pair<runtime::DType, const llvm::fltSemantics *>> findFloat(Type type) {
  if (type.isF64())
    return {{runtime::DType::F64, &APFloat::IEEEdouble()}};
  if (type.isF32())
    return {{runtime::DType::F32, &APFloat::IEEEsingle()}};
  if (type.isBF16())
    return {{runtime::DType::BF16, &APFloat::BFloat()}};
  if (type.isF16())
    return {{runtime::DType::F16, &APFloat::IEEEhalf()}};
  return std::nullopt;
}

/// Draws numbers between two others, all 53 bits of which are random.
static auto between(std::mt19937_64 &random, double low, double high) {
  return
      [&random, low, high] { return low + (high - low) * std::ldexp(double(random() >> 11), -53); };
}

/// Elements in `bytes` that `next` makes.
static void fillFloats(std::vector<char> &bytes, runtime::DType dtype,
                       const llvm::fltSemantics &semantics, llvm::function_ref<double()> next) {
  unsigned size = runtime::byteSize(dtype);
  for (size_t at = 0; at < bytes.size(); at += size) {
    if (dtype == runtime::DType::F32) {
      float value = float(next());
      std::memcpy(&bytes[at], &value, size);
      continue;
    }
    APFloat value(next());
    bool losesInfo = false;
    value.convert(semantics, APFloat::rmNearestTiesToEven, &losesInfo);
    uint64_t bits = value.bitcastToAPInt().getZExtValue();
    std::memcpy(&bytes[at], &bits, size);
  }
}

/// Between 0.4 and 0.6: what a root is taken of is positive, variances among it, and no small
/// gradient turns a sign.
std::vector<RandomTensor> prove::makeStates(ModuleOp global, uint64_t seed) {
  std::mt19937_64 random(seed + 1);
  std::vector<RandomTensor> states;
  for (auto function : global.getOps<func::FuncOp>())
    for (BlockArgument argument : function.getArguments()) {
      auto role =
          function.getArgAttrOfType<train::RoleAttr>(argument.getArgNumber(), train::kRoleAttrName);
      if (!role || role.getKind() != RoleKind::OptimizerState)
        continue;
      auto type = cast<RankedTensorType>(argument.getType());
      RandomTensor state{
          ("optim." + role.getNameOrEmpty() + "." + role.getSlot().getValue()).str(), {}, {}};
      state.type.shape.assign(type.getShape().begin(), type.getShape().end());
      auto found = findFloat(type.getElementType());
      if (!found)
        return {};
      state.type.dtype = found->first;
      state.bytes.resize(size_t(*runtime::countBytes(found->first, state.type.shape)));
      fillFloats(state.bytes, found->first, *found->second, between(random, 0.4, 0.6));
      states.push_back(std::move(state));
    }
  return states;
}

/// The names of parameters and buffers, by which files have them, and the types of their elements.
static llvm::StringMap<Type> findWeights(ModuleOp global) {
  llvm::StringMap<Type> weights;
  for (auto function : global.getOps<func::FuncOp>())
    for (BlockArgument argument : function.getArguments()) {
      auto role =
          function.getArgAttrOfType<train::RoleAttr>(argument.getArgNumber(), train::kRoleAttrName);
      if (role && (role.getKind() == RoleKind::Parameter || role.getKind() == RoleKind::Buffer))
        weights[role.getNameOrEmpty()] =
            cast<RankedTensorType>(argument.getType()).getElementType();
    }
  return weights;
}

llvm::Expected<bool> prove::varyEqualWeights(ModuleOp global, llvm::StringRef from,
                                             llvm::StringRef to, uint64_t seed) {
  auto file = runtime::SafetensorsFile::open(from);
  if (!file)
    return file.takeError();
  std::mt19937_64 random(seed + 2);
  llvm::StringMap<Type> weights = findWeights(global);
  std::vector<runtime::TensorView> views((*file)->tensors());
  std::deque<std::vector<char>> made;
  for (runtime::TensorView &view : views) {
    Type type = weights.lookup(view.name);
    auto found = type ? findFloat(type) : std::nullopt;
    size_t size = found ? runtime::byteSize(found->first) : 0;
    if (!found || view.dtype != found->first || view.bytes.size() < 2 * size ||
        view.bytes.drop_front(size) != view.bytes.drop_back(size))
      continue;
    uint64_t bits = 0;
    std::memcpy(&bits, view.bytes.data(), size);
    double value = [&] {
      APFloat all(*found->second, APInt(8 * size, bits));
      bool losesInfo = false;
      all.convert(APFloat::IEEEdouble(), APFloat::rmNearestTiesToEven, &losesInfo);
      return all.convertToDouble();
    }();
    if (!std::isfinite(value))
      continue;
    std::vector<char> &bytes = made.emplace_back(view.bytes.size());
    double most = std::max(std::abs(value), 0.2);
    fillFloats(bytes, found->first, *found->second,
               between(random, value - 0.25 * most, value + 0.25 * most));
    view.bytes = {reinterpret_cast<const uint8_t *>(bytes.data()), bytes.size()};
  }
  if (made.empty())
    return false;
  if (llvm::Error error = runtime::writeSafetensors(to, views, (*file)->metadata()))
    return std::move(error);
  return true;
}

llvm::Error prove::writeTensors(llvm::StringRef path, llvm::ArrayRef<RandomTensor> tensors) {
  std::vector<runtime::TensorView> views;
  for (const RandomTensor &input : tensors)
    views.push_back({input.name,
                     input.type.dtype,
                     {input.type.shape.begin(), input.type.shape.end()},
                     {reinterpret_cast<const uint8_t *>(input.bytes.data()), input.bytes.size()}});
  return runtime::writeSafetensors(path, views);
}
