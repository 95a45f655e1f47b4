//===- Pickle.h - pickles as data --------------------------------*- C++ -*-===//
//
// A pickle is a program: Python's reader imports what it names and calls it. This one builds a tree
// of what the pickle says and does nothing of it: a class stays a name, a call stays a node. Of the
// opcodes it knows those that pickles of plain data have, of the names only those that the caller
// lists, and it refuses everything else.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_RUNTIME_IO_PICKLE_H
#define CLEAVE_RUNTIME_IO_PICKLE_H

#include "runtime/io/Error.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include <deque>
#include <memory>
#include <optional>
#include <vector>

namespace cleave::runtime {

struct PickleNode {
  enum class Kind {
    None,
    Bool,    ///< number
    Int,     ///< number
    Float,   ///< its value is not kept
    String,  ///< text; bytes too
    Tuple,   ///< items
    List,    ///< items
    Dict,    ///< items: key, value, key, value
    Name,    ///< text is "module.name"
    Object,  ///< text is the name of what was called, items.front() the tuple of its arguments,
             ///< state what was set
    External ///< items.front() identifies what the pickle does not hold itself
  };
  Kind kind = Kind::None;
  int64_t number = 0;
  llvm::StringRef text;
  std::vector<const PickleNode *> items;
  const PickleNode *state = nullptr;

  bool is(Kind other) const { return kind == other; }
  /// An object of that class, or the name itself.
  bool isNamed(llvm::StringRef name) const;
  /// What an object was made of; none for other nodes.
  llvm::ArrayRef<const PickleNode *> arguments() const;
  std::optional<int64_t> asInt() const;
  std::optional<llvm::StringRef> asString() const;
  /// The value of a string key of a dictionary, or of an object whose state is one; null if there
  /// is none.
  const PickleNode *get(llvm::StringRef key) const;
};

/// A pickle's tree. Nodes that the pickle uses twice are shared, and may even hold themselves: who
/// walks the tree goes down only as far as what is expected.
class Pickle {
public:
  /// `isKnown` says which names, as "module.name", the pickle may use. `bytes` must live as long as
  /// the tree. Messages do not name the file.
  static llvm::Expected<std::unique_ptr<Pickle>>
  parse(llvm::ArrayRef<uint8_t> bytes, llvm::function_ref<bool(llvm::StringRef)> isKnown);

  const PickleNode &root() const { return *top; }

private:
  friend class PickleParser;
  std::deque<PickleNode> nodes;
  /// Names, which a pickle has in two pieces.
  std::deque<std::string> names;
  const PickleNode *top = nullptr;
};

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_IO_PICKLE_H
