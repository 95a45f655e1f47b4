// Strict reading of JSON objects.
#include "lib/support/JSONReader.h"
#include "lib/support/Nesting.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/MemoryBuffer.h"

using namespace cleave::support;
using cleave::makeError;

llvm::Expected<llvm::json::Value> cleave::support::readJSONFile(llvm::StringRef path) {
  auto buffer = llvm::MemoryBuffer::getFile(path, /*IsText=*/true);
  if (!buffer)
    return makeError("{0}: {1}", path, buffer.getError().message());
  llvm::StringRef text = (*buffer)->getBuffer();
  if (llvm::Error error = support::checkNesting(text, path))
    return error;
  auto value = llvm::json::parse(text);
  if (!value)
    return makeError("{0}: {1}", path, llvm::toString(value.takeError()));
  return value;
}

static llvm::StringRef kindOf(const llvm::json::Value &value) {
  switch (value.kind()) {
  case llvm::json::Value::Null:
    return "null";
  case llvm::json::Value::Boolean:
    return "a boolean";
  case llvm::json::Value::Number:
    return "a number";
  case llvm::json::Value::String:
    return "a string";
  case llvm::json::Value::Array:
    return "an array";
  case llvm::json::Value::Object:
    return "an object";
  }
  return "something else";
}

const llvm::json::Value *JSONReader::get(llvm::StringRef field) {
  known.push_back(field.str());
  return object.get(field);
}

llvm::Error JSONReader::number(llvm::StringRef field, double &value, bool required) {
  const llvm::json::Value *found = get(field);
  if (!found)
    return required ? makeError("{0}: expected a number \"{1}\"", where, field)
                    : llvm::Error::success();
  std::optional<double> number = found->getAsNumber();
  if (!number)
    return makeError("{0}: expected \"{1}\" to be a number, found {2}", where, field,
                     kindOf(*found));
  value = *number;
  return llvm::Error::success();
}

llvm::Error JSONReader::string(llvm::StringRef field, std::string &value, bool required) {
  const llvm::json::Value *found = get(field);
  if (!found)
    return required ? makeError("{0}: expected a string \"{1}\"", where, field)
                    : llvm::Error::success();
  std::optional<llvm::StringRef> text = found->getAsString();
  if (!text)
    return makeError("{0}: expected \"{1}\" to be a string, found {2}", where, field,
                     kindOf(*found));
  value = text->str();
  return llvm::Error::success();
}

llvm::Error JSONReader::boolean(llvm::StringRef field, bool &value) {
  const llvm::json::Value *found = get(field);
  if (!found)
    return llvm::Error::success();
  std::optional<bool> truth = found->getAsBoolean();
  if (!truth)
    return makeError("{0}: expected \"{1}\" to be true or false, found {2}", where, field,
                     kindOf(*found));
  value = *truth;
  return llvm::Error::success();
}

llvm::Expected<const llvm::json::Object *> JSONReader::child(llvm::StringRef field, bool required) {
  const llvm::json::Value *found = get(field);
  if (!found) {
    if (required)
      return makeError("{0}: expected an object \"{1}\"", where, field);
    return nullptr;
  }
  const llvm::json::Object *child = found->getAsObject();
  if (!child)
    return makeError("{0}: expected \"{1}\" to be an object, found {2}", where, field,
                     kindOf(*found));
  return child;
}

llvm::Expected<const llvm::json::Array *> JSONReader::array(llvm::StringRef field) {
  const llvm::json::Value *found = get(field);
  if (!found)
    return makeError("{0}: expected an array \"{1}\"", where, field);
  const llvm::json::Array *array = found->getAsArray();
  if (!array)
    return makeError("{0}: expected \"{1}\" to be an array, found {2}", where, field,
                     kindOf(*found));
  return array;
}

llvm::Error JSONReader::objects(
    llvm::StringRef field,
    llvm::function_ref<llvm::Error(const llvm::json::Object &, const std::string &where)> read) {
  llvm::Expected<const llvm::json::Array *> found = array(field);
  if (!found)
    return found.takeError();
  for (auto [i, value] : llvm::enumerate(**found)) {
    std::string place = path(field) + "[" + std::to_string(i) + "]";
    const llvm::json::Object *object = value.getAsObject();
    if (!object)
      return makeError("{0}: expected an object", place);
    if (llvm::Error error = read(*object, place))
      return error;
  }
  return llvm::Error::success();
}

llvm::Error JSONReader::finish() const {
  for (const auto &entry : object)
    if (!llvm::is_contained(known, entry.first.str()))
      return makeError("{0}: unknown field \"{1}\"; expected one of {2}", where, entry.first.str(),
                       llvm::join(known, ", "));
  return llvm::Error::success();
}
