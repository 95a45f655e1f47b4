// Reads the measured step of a profile.
#include "Measured.h"

#include "lib/support/Error.h"
#include "lib/support/JSONReader.h"

using namespace cleave;
using namespace cleave::sim;
using cleave::makeError;
using support::JSONReader;

static llvm::Expected<MeasuredStep::Action> readAction(const llvm::json::Value &value,
                                                       const std::string &where) {
  const llvm::json::Array *array = value.getAsArray();
  MeasuredStep::Action action;
  std::optional<llvm::StringRef> text;
  if (array && array->size() == 4 && (text = (*array)[0].getAsString())) {
    action.text = text->str();
    bool isRead = true;
    double *fields[] = {&action.begin, &action.ready, &action.end};
    for (int i = 0; i < 3; ++i) {
      std::optional<double> number = (*array)[i + 1].getAsNumber();
      isRead &= number.has_value();
      *fields[i] = number.value_or(0);
    }
    if (isRead && action.begin <= action.ready && action.ready <= action.end)
      return action;
  }
  return makeError("{0}: expected [\"action\", begin, ready, end] with ascending times", where);
}

static llvm::Expected<MeasuredStep::Rank> readRank(const llvm::json::Value &value,
                                                   const std::string &where, unsigned numPlaces) {
  const llvm::json::Object *object = value.getAsObject();
  if (!object)
    return makeError("{0}: expected an object", where);
  JSONReader reader(*object, where);
  double rank = 0, place = 0;
  if (llvm::Error error = reader.number("rank", rank, true))
    return error;
  if (llvm::Error error = reader.number("place", place, true))
    return error;
  if (!(place >= 0 && place < numPlaces))
    return makeError("{0}: expected a rank of the schedule, below {1}, found {2}",
                     reader.path("place"), numPlaces, place);
  auto actions = reader.array("actions");
  if (!actions)
    return actions.takeError();
  MeasuredStep::Rank result{int64_t(rank), int64_t(place), {}};
  for (size_t at = 0; at < (*actions)->size(); ++at) {
    auto action = readAction((**actions)[at], llvm::formatv("{0}: actions[{1}]", where, at).str());
    if (!action)
      return action.takeError();
    result.actions.push_back(std::move(*action));
  }
  if (llvm::Error error = reader.finish())
    return error;
  return result;
}

llvm::Expected<MeasuredStep> sim::readMeasured(llvm::StringRef path, unsigned numPlaces) {
  auto value = support::readJSONFile(path);
  if (!value)
    return value.takeError();
  const llvm::json::Object *root = value->getAsObject();
  const llvm::json::Object *measured = root ? root->getObject("measured") : nullptr;
  const llvm::json::Object *timeline = measured ? measured->getObject("timeline") : nullptr;
  if (!timeline)
    return makeError("{0}: expected the \"measured\" \"timeline\" that cleave-run --profile writes "
                     "for a run by a schedule, found none",
                     path);
  JSONReader reader(*timeline, path.str() + ": timeline");
  MeasuredStep result;
  double step = 0;
  if (llvm::Error error = reader.number("step", step, true))
    return error;
  if (llvm::Error error = reader.number("makespan", result.makespan, true))
    return error;
  if (!(result.makespan > 0))
    return makeError("{0}: expected a positive number, found {1}", reader.path("makespan"),
                     result.makespan);
  result.step = int64_t(step);
  auto ranks = reader.array("ranks");
  if (!ranks)
    return ranks.takeError();
  for (size_t i = 0; i < (*ranks)->size(); ++i) {
    auto rank = readRank((**ranks)[i], llvm::formatv("{0}: timeline: ranks[{1}]", path, i).str(),
                         numPlaces);
    if (!rank)
      return rank.takeError();
    result.ranks.push_back(std::move(*rank));
  }
  if (llvm::Error error = reader.finish())
    return error;
  return result;
}
