//===- Categories.h - the list of op categories ----------------*- C++ -*-===//
//
// A new category adds one line here and one word in `dialects/aten/CMakeLists.txt`.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_DIALECTS_ATEN_OPS_CATEGORIES_H
#define CLEAVE_DIALECTS_ATEN_OPS_CATEGORIES_H

#define CLEAVE_ATEN_CATEGORIES(X)                                                                  \
  X(Activation)                                                                                    \
  X(Arithmetic)                                                                                    \
  X(Attention)                                                                                     \
  X(Call)                                                                                          \
  X(Comparison)                                                                                    \
  X(Complex)                                                                                       \
  X(Contraction)                                                                                   \
  X(Convolution)                                                                                   \
  X(Copy)                                                                                          \
  X(Creation)                                                                                      \
  X(Cumulative)                                                                                    \
  X(Grouping)                                                                                      \
  X(Indexing)                                                                                      \
  X(Loss)                                                                                          \
  X(Normalization)                                                                                 \
  X(Ordering)                                                                                      \
  X(Part)                                                                                          \
  X(Pooling)                                                                                       \
  X(Random)                                                                                        \
  X(Reduction)                                                                                     \
  X(Softmax)                                                                                       \
  X(Upsampling)                                                                                    \
  X(View)

namespace cleave::aten {
class AtenDialect;
#define CATEGORY(NAME) void add##NAME##Ops(AtenDialect *dialect);
CLEAVE_ATEN_CATEGORIES(CATEGORY)
#undef CATEGORY
} // namespace cleave::aten

#endif // CLEAVE_DIALECTS_ATEN_OPS_CATEGORIES_H
