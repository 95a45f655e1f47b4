// Cost tables: the short form of the command line and the checks.
#include "lib/schedule/simulate/CostTable.h"

#include "lib/support/Error.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVector.h"

#include <cmath>

using namespace cleave::simulate;
using cleave::makeError;

CostTable CostTable::uniform(double forward, double input, double weight, double comm) {
  CostTable table;
  StageCost &cost = table.stages.front();
  cost.forward = forward;
  cost.input = input;
  cost.weight = weight;
  cost.sendForward = cost.sendBackward = comm;
  return table;
}

bool CostTable::hasMemory() const {
  for (const StageCost &cost : stages)
    if (cost.forwardMemory != 0)
      return true;
  return false;
}

static llvm::Error checkMemory(double forward, double input, double weight,
                               const llvm::Twine &where) {
  double released = input + weight;
  if (std::abs(released - forward) <= 1e-3 * std::abs(forward))
    return llvm::Error::success();
  return makeError("{0}: expected the input and the weight gradient to release what the forward "
                   "adds ({1}), found {2} + {3} = {4}",
                   where.str(), forward, input, weight, released);
}

llvm::Error CostTable::setMemory(double forward, double input, double weight) {
  if (!(forward >= 0) || !std::isfinite(forward))
    return makeError("activation memory: expected a forward to add 0 or more, found {0}", forward);
  if (llvm::Error error = checkMemory(forward, input, weight, "activation memory"))
    return error;
  for (StageCost &cost : stages) {
    cost.forwardMemory = forward;
    cost.inputMemory = input;
    cost.weightMemory = weight;
  }
  return llvm::Error::success();
}

CostTable CostTable::scaled(double factor) const {
  CostTable result = *this;
  for (StageCost &cost : result.stages)
    for (double *field : {&cost.forward, &cost.input, &cost.weight, &cost.backward,
                          &cost.forwardMemory, &cost.inputMemory, &cost.weightMemory})
      *field *= factor;
  return result;
}

llvm::Expected<CostTable> CostTable::merged(unsigned numStages) const {
  if (numStages == 0 || stages.size() % numStages != 0)
    return makeError("the costs are for {0} stages, which are not divisible into {1}",
                     stages.size(), numStages);
  CostTable result = *this;
  result.stages.clear();
  for (size_t first = 0, each = stages.size() / numStages; first < stages.size(); first += each) {
    StageCost sum = stages[first];
    for (size_t next = first + 1; next < first + each; ++next) {
      const StageCost &cost = stages[next];
      sum.backward =
          sum.backward < 0 && cost.backward < 0 ? -1 : sum.fullBackward() + cost.fullBackward();
      for (auto field :
           {&StageCost::forward, &StageCost::input, &StageCost::weight, &StageCost::unshard,
            &StageCost::reduce, &StageCost::optimizer, &StageCost::forwardMemory,
            &StageCost::inputMemory, &StageCost::weightMemory})
        sum.*field += cost.*field;
    }
    sum.sendForward = stages[first + each - 1].sendForward;
    result.stages.push_back(sum);
  }
  return result;
}

llvm::Error CostTable::checkFor(unsigned numStages) const {
  if (stages.size() == 1 || stages.size() == numStages)
    return llvm::Error::success();
  return makeError("the cost table has {0} stages, the schedule has {1}: expected 1 entry (for all "
                   "stages) or one per stage",
                   stages.size(), numStages);
}

llvm::Error CostTable::checkHalves(const schedule::Schedule &program) const {
  using schedule::ActionKind;
  if (llvm::all_of(stages, [](const StageCost &cost) { return cost.hasHalves; }))
    return llvm::Error::success();
  std::optional<schedule::Action> found;
  for (const std::vector<schedule::Action> &list : program.ranks)
    for (schedule::Action action : list)
      program.forEachLeaf(action, [&](schedule::Action leaf) {
        bool isHalf =
            leaf.kind == ActionKind::BackwardInput || leaf.kind == ActionKind::BackwardWeight;
        if (isHalf && !found && !of(leaf.stage).hasHalves)
          found = leaf;
      });
  return found ? makeError("the schedule runs {0}, but for stage {1} only the cost of the full "
                           "backward is known; split it with cleave-opt --split-backward",
                           program.str(*found), found->stage)
               : llvm::Error::success();
}

llvm::Error CostTable::check() const {
  if (stages.empty())
    return makeError("the cost table has no stage");
  if (!(overlap >= 0 && overlap <= 1))
    return makeError("overlap: expected a fraction from 0 to 1, found {0}", overlap);
  for (size_t stage = 0; stage < stages.size(); ++stage) {
    const StageCost &cost = stages[stage];
    const std::pair<const char *, double> fields[] = {
        {"forward", cost.forward},
        {"input", cost.input},
        {"weight", cost.weight},
        {"backward", cost.backward < 0 ? 0 : cost.backward},
        {"send_forward", cost.sendForward},
        {"send_backward", cost.sendBackward},
        {"unshard", cost.unshard},
        {"reduce", cost.reduce},
        {"optimizer", cost.optimizer},
        {"forward_memory", cost.forwardMemory},
        {"input_memory", cost.inputMemory},
        {"weight_memory", cost.weightMemory}};
    for (auto [name, value] : fields)
      if (!(value >= 0) || !std::isfinite(value))
        return makeError("stage {0}: expected \"{1}\" to be 0 or more and finite, found {2}", stage,
                         name, value);
    if (llvm::Error error = checkMemory(cost.forwardMemory, cost.inputMemory, cost.weightMemory,
                                        "stage " + llvm::Twine(stage) + "'s memory"))
      return error;
  }
  for (const auto &entry : named)
    if (!(entry.second >= 0) || !std::isfinite(entry.second))
      return makeError("cost of '{0}': expected 0 or more and finite, found {1}", entry.first(),
                       entry.second);
  return llvm::Error::success();
}

static llvm::Expected<llvm::SmallVector<double>>
parseNumbers(llvm::StringRef text, llvm::StringRef expected, size_t minimum, size_t maximum) {
  llvm::SmallVector<llvm::StringRef> parts;
  text.split(parts, ',');
  if (parts.size() < minimum || parts.size() > maximum)
    return makeError("expected {0}, found '{1}'", expected, text);
  llvm::SmallVector<double> numbers;
  for (llvm::StringRef part : parts) {
    double value;
    if (part.trim().getAsDouble(value) || !std::isfinite(value))
      return makeError("expected {0}, found '{1}' in '{2}'", expected, part, text);
    numbers.push_back(value);
  }
  return numbers;
}

llvm::Expected<CostTable> cleave::simulate::parseCosts(llvm::StringRef text) {
  auto numbers = parseNumbers(text, "costs F,B,W,COMM (COMM is optional)", 3, 4);
  if (!numbers)
    return numbers.takeError();
  CostTable table = CostTable::uniform((*numbers)[0], (*numbers)[1], (*numbers)[2],
                                       numbers->size() > 3 ? (*numbers)[3] : 0);
  for (double value : *numbers)
    if (value < 0)
      return makeError("expected non-negative costs, found {0} in '{1}'", value, text);
  return table;
}

llvm::Error cleave::simulate::parseActivationMemory(llvm::StringRef text, CostTable &table) {
  auto numbers = parseNumbers(text, "activation memory F,B,W", 3, 3);
  if (!numbers)
    return numbers.takeError();
  return table.setMemory((*numbers)[0], std::abs((*numbers)[1]), std::abs((*numbers)[2]));
}
