//===- Kernels.cpp ----------------------------------------------------------===//

#include "lib/solve/Kernels.h"

#include <algorithm>
#include <limits>

using namespace cleave::solve;

/// By the widest vectors that the processor has.
#if defined(__x86_64__) && defined(__linux__)
#define CLEAVE_WIDEST __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define CLEAVE_WIDEST
#endif

static constexpr double infinity = std::numeric_limits<double>::infinity();

/// The compiler makes of it as many vectors as it takes.
typedef double Vector __attribute__((vector_size(lanes * sizeof(double)), aligned(sizeof(double))));

static_assert(lanes == 8);
static constexpr Vector allInfinite = {infinity, infinity, infinity, infinity,
                                       infinity, infinity, infinity, infinity};

/// So many vectors of columns at once, whose minima stay in registers; two rows at a time.
template <unsigned count, bool isSum>
__attribute__((always_inline)) static inline void findLeastOf(const double *matrix, size_t stride,
                                                              const double *offsets, unsigned rows,
                                                              double *least) {
  Vector present[count];
  for (Vector &entry : present)
    entry = allInfinite;
  auto at = [](const double *row, unsigned i, double offset) __attribute__((always_inline)) {
    Vector entry = *reinterpret_cast<const Vector *>(row + size_t(i) * lanes);
    return isSum ? entry + offset : entry - offset;
  };
  unsigned row = 0;
  for (; row + 2 <= rows; row += 2, matrix += 2 * stride) {
    double first = offsets[row], second = offsets[row + 1];
    for (unsigned i = 0; i < count; ++i) {
      Vector a = at(matrix, i, first), b = at(matrix + stride, i, second);
      Vector c = a < b ? a : b;
      present[i] = c < present[i] ? c : present[i];
    }
  }
  if (row < rows)
    for (unsigned i = 0; i < count; ++i) {
      Vector a = at(matrix, i, offsets[row]);
      present[i] = a < present[i] ? a : present[i];
    }
  for (unsigned i = 0; i < count; ++i)
    *reinterpret_cast<Vector *>(least + size_t(i) * lanes) = present[i];
}

template <bool isSum>
__attribute__((always_inline)) static inline void
findLeastOfAll(const double *matrix, size_t stride, const double *offsets, unsigned rows,
               unsigned columns, double *least) {
  size_t end = padded(columns), column = 0;
  for (; column + 4 * lanes <= end; column += 4 * lanes)
    findLeastOf<4, isSum>(matrix + column, stride, offsets, rows, least + column);
  switch ((end - column) / lanes) {
  case 3:
    return findLeastOf<3, isSum>(matrix + column, stride, offsets, rows, least + column);
  case 2:
    return findLeastOf<2, isSum>(matrix + column, stride, offsets, rows, least + column);
  case 1:
    return findLeastOf<1, isSum>(matrix + column, stride, offsets, rows, least + column);
  default:
    return;
  }
}

CLEAVE_WIDEST
void cleave::solve::findLeast(const double *matrix, size_t stride, const double *offsets,
                              unsigned rows, unsigned columns, double *least) {
  findLeastOfAll<false>(matrix, stride, offsets, rows, columns, least);
}

CLEAVE_WIDEST
void cleave::solve::findLeastSum(const double *matrix, size_t stride, const double *offsets,
                                 unsigned rows, unsigned columns, double *least) {
  findLeastOfAll<true>(matrix, stride, offsets, rows, columns, least);
}

CLEAVE_WIDEST
void cleave::solve::replaceMessage(const double *__restrict least, unsigned count,
                                   double *__restrict message, double *__restrict potential) {
  for (unsigned i = 0; i < count; ++i) {
    potential[i] += least[i] - message[i];
    message[i] = least[i];
  }
}

CLEAVE_WIDEST
void cleave::solve::takeShare(const double *__restrict potential, unsigned count, double weight,
                              double *__restrict message) {
  for (unsigned i = 0; i < count; ++i)
    message[i] -= weight * potential[i];
}

CLEAVE_WIDEST
void cleave::solve::scale(double *values, unsigned count, double factor) {
  for (unsigned i = 0; i < count; ++i)
    values[i] *= factor;
}

CLEAVE_WIDEST
void cleave::solve::addReduced(const double *__restrict row, const double *__restrict message,
                               unsigned count, double *__restrict sum) {
  for (unsigned i = 0; i < count; ++i)
    sum[i] += row[i] - message[i];
}

CLEAVE_WIDEST
void cleave::solve::add(const double *__restrict row, unsigned count, double *__restrict sum) {
  for (unsigned i = 0; i < count; ++i)
    sum[i] += row[i];
}

CLEAVE_WIDEST
void cleave::solve::subtract(const double *__restrict row, unsigned count, double *__restrict sum) {
  for (unsigned i = 0; i < count; ++i)
    sum[i] -= row[i];
}

CLEAVE_WIDEST
void cleave::solve::addDifference(const double *__restrict added, const double *__restrict dropped,
                                  unsigned count, double *__restrict sum) {
  for (unsigned i = 0; i < count; ++i)
    sum[i] += added[i] - dropped[i];
}

CLEAVE_WIDEST
void cleave::solve::addScaled(const double *__restrict row, unsigned count, double factor,
                              double *__restrict sum) {
  for (unsigned i = 0; i < count; ++i)
    sum[i] += factor * row[i];
}

CLEAVE_WIDEST
double cleave::solve::leastOf(const double *values, unsigned count) {
  Vector present = allInfinite;
  unsigned i = 0;
  for (; i + lanes <= count; i += lanes) {
    Vector entry = *reinterpret_cast<const Vector *>(values + i);
    present = entry < present ? entry : present;
  }
  double least = infinity;
  for (unsigned lane = 0; lane < lanes; ++lane)
    least = present[lane] < least ? present[lane] : least;
  for (; i < count; ++i)
    least = values[i] < least ? values[i] : least;
  return least;
}

unsigned cleave::solve::firstLeast(const double *values, unsigned count) {
  return std::find(values, values + count, leastOf(values, count)) - values;
}
