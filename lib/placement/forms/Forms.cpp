//===- Forms.cpp - which op has which forms -------------------------------===//

#include "lib/placement/forms/Forms.h"

using namespace cleave;
using namespace cleave::placement;

static FormTable makeTable() {
  FormTable table;
  addBatchNormForms(table);
  addCumsumForms(table);
  addEmbeddingForms(table);
  addExchangeForms(table);
  addGroupedProductForms(table);
  addMeanForms(table);
  addNegativeLogLikelihoodForms(table);
  addRingAttentionForms(table);
  addSoftmaxForms(table);
  addSortForms(table);
  return table;
}

llvm::ArrayRef<const Form *> placement::getForms(mlir::OperationName name) {
  static const FormTable table = makeTable();
  return table.find(name.getStringRef());
}
