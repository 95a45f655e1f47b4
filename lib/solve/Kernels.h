//===- Kernels.h - loops over choices, by vectors ---------------*- C++ -*-===//
//
// Where nearly all time of messages and moves goes. The result is the same to the last bit on all
// processors: minima do not depend on an order, and nothing else is done in another one.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_LIB_SOLVE_KERNELS_H
#define CLEAVE_LIB_SOLVE_KERNELS_H

#include <algorithm>
#include <cstddef>
#include <vector>

namespace cleave::solve {

/// Rows of matrices begin at multiples of so many entries, and are filled up with infinite ones.
inline constexpr unsigned lanes = 8;
inline constexpr size_t padded(size_t columns) {
  return (columns + lanes - 1) / lanes * lanes;
}

/// A matrix of such rows, which never lie across two cache lines where one would do.
class PaddedMatrix {
public:
  PaddedMatrix(size_t rows, size_t columns, double filling)
      : stride(padded(columns)), blocks(rows * stride / lanes) {
    std::fill_n(data(), rows * stride, filling);
  }

  double *data() { return blocks.data()->entries; }
  const double *data() const { return blocks.data()->entries; }
  double *operator[](size_t row) { return data() + row * stride; }
  const double *operator[](size_t row) const { return data() + row * stride; }

private:
  struct alignas(lanes * sizeof(double)) Block {
    double entries[lanes];
  };
  size_t stride;
  std::vector<Block> blocks;
};

/// By column, the least of the rows, each less its offset. Rows begin `stride` entries after each
/// other; behind the last one as many as a row lacks to a padded one may be read. `least` has room
/// for a padded row.
void findLeast(const double *matrix, size_t stride, const double *offsets, unsigned rows,
               unsigned columns, double *least);
/// By column, the least of the rows, each with its offset.
void findLeastSum(const double *matrix, size_t stride, const double *offsets, unsigned rows,
                  unsigned columns, double *least);
/// Puts what is least in place of the message, and adds the difference to the potential.
void replaceMessage(const double *least, unsigned count, double *message, double *potential);
/// Takes this part of the potential off the message.
void takeShare(const double *potential, unsigned count, double weight, double *message);
void scale(double *values, unsigned count, double factor);
/// Adds the row less the message.
void addReduced(const double *row, const double *message, unsigned count, double *sum);
void add(const double *row, unsigned count, double *sum);
void subtract(const double *row, unsigned count, double *sum);
/// Adds one row less another.
void addDifference(const double *added, const double *dropped, unsigned count, double *sum);
void addScaled(const double *row, unsigned count, double factor, double *sum);
double leastOf(const double *values, unsigned count);
/// The first of those that are least.
unsigned firstLeast(const double *values, unsigned count);

} // namespace cleave::solve

#endif // CLEAVE_LIB_SOLVE_KERNELS_H
