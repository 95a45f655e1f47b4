//===- Constants.cpp - reading numbers with bounds ----------------------------===//

#include "lib/cost/Constants.h"

#include "llvm/Support/Format.h"
#include "llvm/Support/raw_ostream.h"

#include <cmath>

using namespace cleave;
using namespace cleave::cost;
using support::JSONReader;

llvm::Error cost::readFacts(JSONReader &file, llvm::ArrayRef<NamedNumber> facts) {
  auto object = file.child("facts", true);
  if (!object)
    return object.takeError();
  JSONReader reader(**object, file.path("facts"));
  for (const NamedNumber &fact : facts) {
    if (llvm::Error error = reader.number(fact.name, *fact.value, !fact.isOptional))
      return error;
    if (!(*fact.value >= 0) || !std::isfinite(*fact.value))
      return makeError("{0}: expected 0 or a positive number, found {1}", reader.path(fact.name),
                       *fact.value);
  }
  return reader.finish();
}

/// Short, whatever the magnitude.
static std::string print(double value) {
  std::string text;
  llvm::raw_string_ostream(text) << llvm::format("%g", value);
  return text;
}

static llvm::Error readConstant(JSONReader &constants, const NamedNumber &constant) {
  if (!constants.isObject(constant.name)) {
    if (llvm::Error error = constants.number(constant.name, *constant.value, true))
      return error;
    if (!(*constant.value >= 0) || !std::isfinite(*constant.value))
      return makeError("{0}: expected 0 or a positive number, found {1}",
                       constants.path(constant.name), print(*constant.value));
    return llvm::Error::success();
  }
  auto object = constants.child(constant.name, true);
  if (!object)
    return object.takeError();
  JSONReader reader(**object, constants.path(constant.name));
  double value = 0, start = 0, lower = 0, upper = 0;
  for (auto [name, number] : {std::pair<const char *, double *>{"value", &value},
                              {"start", &start},
                              {"lower", &lower},
                              {"upper", &upper}})
    if (llvm::Error error = reader.number(name, *number, true))
      return error;
  std::string unit, meaning, bounds; // `bounds`: why the value can lie no lower and no higher
  if (llvm::Error error = reader.string("unit", unit, true))
    return error;
  if (llvm::Error error = reader.string("meaning", meaning, true))
    return error;
  if (llvm::Error error = reader.string("bounds", bounds))
    return error;
  bool likeRelative = true; // for calibration: whether the relative's value is a guide to this one
  if (llvm::Error error = reader.boolean("relative", likeRelative))
    return error;
  if (llvm::Error error = reader.finish())
    return error;
  if (!(lower <= value && value <= upper))
    return makeError("{0}: expected a value from {1} to {2}, found {3}", reader.path("value"),
                     print(lower), print(upper), print(value));
  *constant.value = value;
  return llvm::Error::success();
}

llvm::Expected<std::vector<std::string>>
cost::readConstants(JSONReader &file, llvm::ArrayRef<NamedNumber> constants) {
  assert(constants.size() <= maxConstants && "too many constants");
  std::vector<std::string> missing;
  auto object = file.child("constants");
  if (!object)
    return object.takeError();
  if (!*object) {
    for (const NamedNumber &constant : constants)
      missing.push_back(constant.name.str());
    return missing;
  }
  JSONReader reader(**object, file.path("constants"));
  for (const NamedNumber &constant : constants) {
    if (!reader.has(constant.name)) {
      missing.push_back(constant.name.str());
      continue;
    }
    if (llvm::Error error = readConstant(reader, constant))
      return error;
  }
  if (llvm::Error error = reader.finish())
    return error;
  return missing;
}
