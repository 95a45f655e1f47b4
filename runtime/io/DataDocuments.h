//===- DataDocuments.h - documents that share a window -----------*- C++ -*-===//
//
// Where several documents are packed into one example, a model takes each for itself: positions
// begin again with each, attention stays in it. What a program takes for that is made of the
// tokens, of which one ends a document.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_RUNTIME_IO_DATADOCUMENTS_H
#define CLEAVE_RUNTIME_IO_DATADOCUMENTS_H

#include "runtime/io/Data.h"
#include "llvm/ADT/STLFunctionalExtras.h"

namespace cleave::runtime {

/// `end=TOKEN INPUT=KIND...`, with what an input is made of (`end` may be left out for Tokens and
/// Ones):
enum class DocumentKind : uint8_t {
  Positions, ///< "positions": place in the document, from 0 at its first token in the example
  Ids,       ///< "ids": number of the document in the example, from 0
  Mask,      ///< "mask": whether the query [.., i, j] may see key j: not after it, same document
  Tokens,    ///< "tokens": the tokens themselves, for a model that shifts its labels
  Ones,      ///< "ones": 1 for each token, a mask without padding
  Within     ///< "within": the target as it is, ignored where it is of the next document
};

/// Opens, by `open`, the source of all inputs that `options.documents` does not name, and makes the
/// others of it.
llvm::Expected<std::unique_ptr<DataSource>> openDocuments(
    const DataOptions &options, llvm::ArrayRef<InputSpec> inputs,
    llvm::function_ref<llvm::Expected<std::unique_ptr<DataSource>>(llvm::ArrayRef<InputSpec>)>
        open);

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_IO_DATADOCUMENTS_H
