//===- Rows.h - rows in an order that data decide --------------------*- C++ -*-===//
//
// Experts multiply rows that were sorted, sent to other ranks and laid out by numbers
// that are data. Which row lies where is then no combination of digits. But an order only moves
// rows: what is computed of each row by itself is a function of the row, wherever it lies, and once
// the rows are put back nothing is left of the order. So such a tensor is kept by its rows, as they
// were before: the digits of the dimension are those of the row, and the order says, as a name,
// where it lies.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_LIB_PROVE_ROWS_H
#define CLEAVE_LIB_PROVE_ROWS_H

#include "lib/prove/Tensor.h"

#include "llvm/ADT/STLExtras.h"

#include <optional>
#include <string>

namespace cleave::prove {

/// A mesh axis: the digits that are a rank's place on it, major first. One, but where values are
/// cut in between. `whole`: the place as one digit, which is that of an axis of one.
struct Axis {
  std::string name;
  int64_t size;
  llvm::SmallVector<Var, 1> digits;
  Var whole;

  bool isOpen() const { return size == kOpenSize; }

  Index getPlace(const Variables &variables) const { return placeIn(digits, variables); }
};

/// The digits of a rank's place along axes, major first, and how many ranks there are.
inline llvm::SmallVector<Var> placesOf(llvm::ArrayRef<Axis> axes) {
  llvm::SmallVector<Var> digits;
  for (const Axis &axis : axes)
    digits.append(axis.digits.begin(), axis.digits.end());
  return digits;
}
inline int64_t ranksAlong(llvm::ArrayRef<Axis> axes) {
  int64_t ranks = 1;
  for (const Axis &axis : axes)
    ranks *= axis.size;
  return ranks;
}
/// Whether they are the same axes, in order.
inline bool areSame(llvm::ArrayRef<Axis> left, llvm::ArrayRef<Axis> right) {
  return llvm::equal(left, right, [](const Axis &a, const Axis &b) { return a.name == b.name; });
}

/// Rows of a rank that go to the parts of experts: those of all ranks along `along`, each of which
/// has as many rows, are numbered from 0 in each part, by expert, then by rank, then as they lay.
/// A part has the same number of experts. Of a row that lies at `place` of its rank: its number.
struct RowPlaces {
  /// The expert by row, over the digits `rows` of a rank's own; it depends on the rank's place.
  Meaning expert;
  llvm::SmallVector<Var, 2> rows;
  llvm::SmallVector<Axis, 1> along;
  int64_t perPart = 0;
  Index place;

  int64_t countParts() const { return ranksAlong(along); }
};

/// Where rows lie. Orders of one kind and with one key are the same.
struct RowOrder {
  enum class Kind : uint8_t {
    /// In the order of the key, equal ones as they were: each place has a row.
    Sorted,
    /// Of rows in the order of the key, the same on all ranks of `along`, the part that lies at
    /// this rank's place: of several such parts each has as many. `digits` are those of all rows.
    Part,
    /// As they lie, of which the piece at this rank's place along the one axis is here: digits may
    /// not say where it begins. `digits` are those of the whole.
    Piece,
    /// The rows of this rank's part of such an order, `part`, in the order of the key, equal ones
    /// as they were in the part. `digits` are those of all rows, of which the part's are here.
    Leaving,
    /// As they came to this rank, from each rank of `along` those whose key is this rank's place,
    /// in the order in which they lay there: in their part of an order where they have `part`, and
    /// `digits` are then those of all rows in that order. Places behind them hold no row.
    Received,
    /// On the rank that a row went to, at the place that the key says. Places behind them hold no
    /// row.
    Numbered,
    /// As in the order `part`, from its place `turn` on, and behind its last place from the first
    /// one on: all of them.
    Turned,
    /// So turned, and only the first of them, as many as `here` says. What lies at the places
    /// behind them is anything; of the rows that would lie there the value is 0.
    TurnedFirst,
    /// Such parts of all ranks along `along`, one behind the other, each with room for as many
    /// rows.
    Gathered
  };
  Kind kind;
  /// The digits of a row: of those that come from several ranks first the rank's.
  llvm::SmallVector<Var, 2> digits;
  /// An integer for each row: of ranks' own rows it depends on the rank's place.
  Meaning key;
  /// Between which ranks rows go.
  llvm::SmallVector<Axis, 1> along;
  std::shared_ptr<const RowOrder> part;
  Meaning turn, here;
  /// Of numbered rows: each row's expert, and how they were numbered.
  Meaning expert;
  RowPlaces places;
  /// Of such parts that were gathered: for how many rows each has room.
  int64_t room = 0;
};

/// What lies at the places of dimension `dim` in this order.
struct Rows {
  /// Over the digits of rows in this dimension. No row says what lies at places without one.
  Tensor value;
  unsigned dim;
  std::shared_ptr<const RowOrder> order;
  /// Integers that are their own places where there is no row.
  bool isPlaceElsewhere = false;
  /// Integers of which each is its row's place in the rank's part of an order.
  bool isPlaceInPart = false;
  /// What lies at places without a row, if it is known, and the same at all of them: over digits of
  /// its own, like a value with as many rows.
  std::optional<Tensor> elsewhere = std::nullopt;
};

/// Such numbers with `room` for each part: places, and behind how many parts.
struct RowNumbers {
  RowPlaces places;
  int64_t room;
  /// The place in the part, and the part along `places.along`.
  Meaning place, part;
  /// How many parts of other groups of ranks lie before those of the rank's own.
  Index before;
};

/// The value where the digits `from` are `to`.
Meaning withDigits(Terms &terms, Meaning meaning, llvm::ArrayRef<Var> from, llvm::ArrayRef<Var> to);
/// Cuts digits of dimension 0 that count as many as an axis of several digits as that axis is cut.
void cutAsAxes(Terms &terms, Tensor &value, llvm::ArrayRef<Axis> axes);
/// `index` as a place for each of these digits, major first; nothing if it is no such combination.
std::optional<llvm::SmallVector<Index, 2>>
splitIndex(const Index &index, llvm::ArrayRef<Var> digits, const Variables &variables);
/// The quotient and the rest of an index that is divided; nothing if they are none.
std::optional<std::pair<Index, Index>> divideIndex(const Index &index, int64_t by,
                                                   const Variables &variables);

} // namespace cleave::prove

#endif // CLEAVE_LIB_PROVE_ROWS_H
