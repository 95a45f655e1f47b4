//===- Forms.h - the files of forms, and their registration ---------*- C++ -*-===//

#ifndef CLEAVE_LIB_PLACEMENT_FORMS_FORMS_H
#define CLEAVE_LIB_PLACEMENT_FORMS_FORMS_H

#include "lib/placement/Form.h"

#include "llvm/ADT/StringMap.h"

namespace cleave::placement {

/// The forms of ops, by the op's name.
class FormTable {
public:
  /// `form` lives as long as the program does.
  void add(llvm::StringRef opName, const Form *form) { forms[opName].push_back(form); }
  llvm::ArrayRef<const Form *> find(llvm::StringRef opName) const {
    auto it = forms.find(opName);
    return it == forms.end() ? llvm::ArrayRef<const Form *>() : it->second;
  }

private:
  llvm::StringMap<llvm::SmallVector<const Form *, 1>> forms;
};

// Each file of forms adds its own.
void addBatchNormForms(FormTable &table);
void addCumsumForms(FormTable &table);
void addEmbeddingForms(FormTable &table);
void addExchangeForms(FormTable &table);
void addGroupedProductForms(FormTable &table);
void addMeanForms(FormTable &table);
void addNegativeLogLikelihoodForms(FormTable &table);
void addRingAttentionForms(FormTable &table);
void addSoftmaxForms(FormTable &table);
void addSortForms(FormTable &table);

} // namespace cleave::placement

#endif // CLEAVE_LIB_PLACEMENT_FORMS_FORMS_H
