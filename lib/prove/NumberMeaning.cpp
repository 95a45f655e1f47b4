//===- NumberMeaning.cpp - numbers of rows in the parts of experts ----------===//
//
// Each rank sorts its own rows by expert; only counts are shared. What they are added to is the
// number of a row in the part of its expert: of those before it of experts of that part, of the
// same expert on ranks before, and of the same expert before it on its own rank. So each part's
// rows have the numbers from 0, each once, whatever the experts chosen. Here such sums of counts
// are known by what they are made of.
//
//===----------------------------------------------------------------------===//

#include "lib/prove/Evaluator.h"

using namespace mlir;
using namespace cleave;
using namespace cleave::prove;

std::optional<std::pair<Index, Index>> prove::divideIndex(const Index &index, int64_t by,
                                                          const Variables &variables) {
  Index quotient, rest;
  for (const Index::Part &part : index.getParts())
    if (part.coefficient % by == 0)
      quotient = quotient + Index::of(part.var, part.coefficient / by);
    else
      rest = rest + Index::of(part.var, part.coefficient);
  int64_t constant = index.getConstant(), low = ((constant % by) + by) % by;
  quotient = quotient + Index((constant - low) / by);
  rest = rest + Index(low);
  auto [least, greatest] = variables.getRange(rest);
  if (least < 0 || greatest >= by)
    return std::nullopt;
  return std::pair(quotient, rest);
}

std::optional<SmallVector<Index, 2>> prove::splitIndex(const Index &index, ArrayRef<Var> digits,
                                                       const Variables &variables) {
  SmallVector<Index, 2> places;
  Index rest = index;
  SmallVector<Digit, 2> order = digitsOf(digits, variables);
  for (const Digit &digit : llvm::reverse(order)) {
    auto divided = divideIndex(rest, digit.size, variables);
    if (!divided)
      return std::nullopt;
    places.insert(places.begin(), divided->second);
    rest = divided->first;
  }
  if (rest != Index())
    return std::nullopt;
  return places;
}

/// How many rows, of all ranks along the axes, go to this part's experts up to the one `within` it.
Meaning Evaluator::rowsUpTo(const RowPlaces &places, const Index &part, const Index &within) {
  // The rows by expert of all ranks.
  Meaning expert = places.expert;
  SmallVector<Var, 2> bound = rename(terms, expert, placesOf(places.along));
  llvm::append_range(bound, rename(terms, expert, places.rows));
  int64_t experts = places.countParts() * places.perPart;
  Var each = terms.variables.make(experts);
  bound.push_back(each);
  Meaning counts =
      isZero(terms.add(expert, terms.scale(terms.position(Index::of(each)), Rational(-1))));
  Meaning total;
  // Of two parts the one that others lie before is the second.
  Index first = part * places.perPart;
  Index ofSecond = places.countParts() == 2 ? Index(places.perPart) : first;
  for (const Summand &count : counts) {
    Summand upTo = count, before = count;
    upTo.guards.push_back({first + within - Index::of(each), 0, kFar});
    before.coefficient = -before.coefficient;
    before.guards.push_back({ofSecond - Index(1) - Index::of(each), 0, kFar});
    before.guards.push_back({part, 1, places.countParts()});
    total.push_back(std::move(upTo));
    total.push_back(std::move(before));
  }
  return terms.sum(std::move(total), bound);
}

/// Whether a part has room for all rows that may come, or is assumed to have it: an exchange of
/// these rows has no more then, and ends where it does not suffice.
bool Evaluator::fitsIn(const RowPlaces &places, int64_t room) {
  if (places.countParts() * sizeOf(places.rows, terms.variables) <= room)
    return true;
  if (!terms.assumesRoom())
    return false;
  auto [assumed, isNew] = assumedRooms.try_emplace(terms.identify(places.expert), room);
  assumed->second = std::min(assumed->second, room);
  return true;
}

std::optional<RowPlaces> Evaluator::asPlaces(const Meaning &meaning) {
  Meaning parts = terms.partsOf(meaning);
  const Summand *inOrder = nullptr, *taken = nullptr;
  for (const Summand &part : parts) {
    Core::Tag tag = terms.get(part.reference.term).core.tag;
    const Summand *&found = tag == Core::Tag::PlaceInOrder ? inOrder : taken;
    if (found || part.coefficient != Rational(1) || !part.bound.empty() || !part.guards.empty() ||
        (tag != Core::Tag::PlaceInOrder && tag != Core::Tag::Taken))
      return std::nullopt;
    found = &part;
  }
  if (!inOrder || !taken)
    return std::nullopt;
  RowPlaces places;
  SmallVector<Var> rows, numbers;
  places.place = inOrder->reference.indices.back();
  places.expert = terms.getOperands(inOrder->reference, &rows)[0];
  places.rows.assign(rows.begin(), rows.end());
  std::vector<Meaning> operands = terms.getOperands(taken->reference, &numbers);
  std::optional<SmallVector<Index, 2>> at = splitIndex(places.place, rows, terms.variables);
  if (operands.size() != 2 || !at)
    return std::nullopt;
  Substitution here;
  for (auto [row, index] : llvm::zip(rows, *at))
    here[row] = index;
  Meaning own = places.expert;
  substitute(own, here);
  if (!terms.areEqual(terms.normalize(std::move(own)), operands[1]))
    return std::nullopt;

  int64_t experts = sizeOf(numbers, terms.variables);
  std::optional<int64_t> choices = choicesOf(places.expert);
  if (!choices || *choices > experts)
    return std::nullopt;
  Index number = placeIn(numbers, terms.variables);
  // What is to be added to a row's place among its rank's: see above.
  auto shiftOf = [&](const Index &part, const Index &within) {
    Meaning shift;
    auto add = [&](Meaning counts, ArrayRef<Var> bound, std::optional<Guard> guard,
                   int64_t factor) {
      for (Summand &summand : counts) {
        summand.coefficient *= Rational(factor);
        if (guard)
          summand.guards.push_back(*guard);
      }
      llvm::append_range(shift, terms.sum(std::move(counts), bound));
    };
    SmallVector<Var> own = placesOf(places.along);
    auto counted = [&](const Meaning &expert, const Index &of) {
      return isZero(terms.add(expert, terms.scale(terms.position(of), Rational(-1))));
    };
    Meaning expert = places.expert;
    SmallVector<Var, 2> bound = rename(terms, expert, own);
    Index behind = placeIn(own, terms.variables) - placeIn(bound, terms.variables);
    llvm::append_range(bound, rename(terms, expert, places.rows));
    add(counted(expert, number), bound, Guard{behind, 1, kFar}, 1);
    expert = places.expert;
    bound = rename(terms, expert, places.rows);
    add(counted(expert, number), bound, {}, 1);
    expert = places.expert;
    bound = rename(terms, expert, places.rows);
    bound.push_back(terms.variables.make(experts));
    add(counted(expert, Index::of(bound.back())), bound,
        Guard{number - Index::of(bound.back()), 0, kFar}, -1);
    Index last = places.perPart == 2 ? Index(0) : within - Index(1);
    add(rowsUpTo(places, part, last), {}, Guard{within, 1, kFar}, 1);
    return terms.normalize(std::move(shift));
  };
  for (unsigned first = 0; first < axes.size(); ++first) {
    places.along.clear();
    for (const Axis &axis : axes.drop_front(first)) {
      places.along.push_back(axis);
      int64_t parts = places.countParts();
      if (parts < 2 || experts % parts)
        continue;
      places.perPart = experts / parts;
      auto divided = divideIndex(number, places.perPart, terms.variables);
      if (divided && (terms.areEqual(operands[0], shiftOf(divided->first, divided->second)) ||
                      terms.breaks(Lemma::NumberedRows)))
        return places;
    }
  }
  return std::nullopt;
}

std::optional<RowNumbers> Evaluator::asNumbers(const Meaning &meaning) {
  Meaning place, part, rest;
  for (const Summand &summand : terms.partsOf(meaning)) {
    Core::Tag tag = terms.get(summand.reference.term).core.tag;
    bool isPlace = tag == Core::Tag::PlaceInOrder || tag == Core::Tag::Taken;
    (isPlace ? place : tag == Core::Tag::Divided ? part : rest).push_back(summand);
  }
  std::optional<Index> before = terms.asPosition(rest);
  if (part.size() != 1 || !part[0].bound.empty() || !part[0].guards.empty() ||
      part[0].coefficient.den != 1 || !(part[0].coefficient > Rational(0)) || !before)
    return std::nullopt;
  std::optional<RowPlaces> places = asPlaces(place);
  if (!places)
    return std::nullopt;
  auto room = int64_t(part[0].coefficient.num);
  auto divided = divideIndex(*before, room, terms.variables);
  const Term &term = terms.get(part[0].reference.term);
  if (!divided || divided->second != Index() || term.core.number != places->perPart ||
      !fitsIn(*places, room))
    return std::nullopt;
  // It is the part of the row's own expert.
  std::optional<SmallVector<Index, 2>> at =
      splitIndex(places->place, places->rows, terms.variables);
  Substitution here;
  for (auto [row, index] : llvm::zip(places->rows, *at))
    here[row] = index;
  Meaning expert = places->expert;
  substitute(expert, here);
  if (!terms.areEqual(terms.normalize(std::move(expert)), terms.getOperands(part[0].reference)[0]))
    return std::nullopt;
  part[0].coefficient = Rational(1);
  return RowNumbers{std::move(*places), room, terms.normalize(std::move(place)), std::move(part),
                    divided->first};
}
