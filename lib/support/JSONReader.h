// Strict reading of JSON objects: every field is known, has its type, and messages say where.

#ifndef CLEAVE_LIB_SUPPORT_JSONREADER_H
#define CLEAVE_LIB_SUPPORT_JSONREADER_H

#include "lib/support/Error.h"

#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/Support/JSON.h"

namespace cleave::support {

/// Reads and parses a whole file; errors name it.
llvm::Expected<llvm::json::Value> readJSONFile(llvm::StringRef path);

/// One object of a file. Fields are read one by one; `finish` rejects unknown ones.
class JSONReader {
public:
  /// `where` is for messages: "costs.json: stages[3]".
  JSONReader(const llvm::json::Object &object, std::string where)
      : object(object), where(std::move(where)) {}

  bool has(llvm::StringRef field) const { return object.get(field) != nullptr; }
  bool isObject(llvm::StringRef field) const { return object.getObject(field) != nullptr; }
  /// Leaves `value` alone where the field is absent.
  llvm::Error number(llvm::StringRef field, double &value, bool required = false);
  llvm::Error string(llvm::StringRef field, std::string &value, bool required = false);
  llvm::Error boolean(llvm::StringRef field, bool &value);
  llvm::Expected<const llvm::json::Object *> child(llvm::StringRef field, bool required = false);
  llvm::Expected<const llvm::json::Array *> array(llvm::StringRef field);
  /// Reads an array of objects one by one; `read` gets each, and where it is, for messages.
  llvm::Error objects(
      llvm::StringRef field,
      llvm::function_ref<llvm::Error(const llvm::json::Object &, const std::string &where)> read);
  /// Where a field of this object is, for messages.
  std::string path(llvm::StringRef field) const { return where + ": " + field.str(); }
  llvm::Error finish() const;

private:
  const llvm::json::Value *get(llvm::StringRef field);

  const llvm::json::Object &object;
  std::string where;
  std::vector<std::string> known;
};

} // namespace cleave::support

#endif // CLEAVE_LIB_SUPPORT_JSONREADER_H
