//===- Tensor.cpp - what a tensor of a program is ----------------------------===//

#include "lib/prove/Tensor.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/raw_ostream.h"

using namespace cleave::prove;
using llvm::ArrayRef;
using llvm::SmallVector;

SmallVector<SmallVector<Var, 2>, 4> cleave::prove::makeDims(Terms &terms, ArrayRef<int64_t> shape) {
  SmallVector<SmallVector<Var, 2>, 4> dims;
  for (int64_t size : shape) {
    auto &digits = dims.emplace_back();
    if (size != 1)
      digits.push_back(terms.variables.make(size));
  }
  return dims;
}

Index cleave::prove::placeIn(ArrayRef<Var> digits, const Variables &variables) {
  Index place;
  for (const Digit &digit : digitsOf(digits, variables))
    place = place + Index::of(digit.var, digit.stride);
  return place;
}

int64_t cleave::prove::sizeOf(ArrayRef<Var> digits, const Variables &variables) {
  int64_t size = 1;
  for (Var var : digits)
    size *= variables.getSize(var);
  return size;
}

bool cleave::prove::hasShape(const Tensor &value, ArrayRef<int64_t> shape,
                             const Variables &variables) {
  return llvm::equal(value.dims, shape, [&](ArrayRef<Var> dim, int64_t size) {
    return sizeOf(dim, variables) == size;
  });
}

Tensor cleave::prove::withOwnDigits(Terms &terms, Tensor value) {
  Substitution digits;
  for (auto &dim : value.dims)
    for (Var &var : dim) {
      Var own = terms.variables.make(terms.variables.getSize(var));
      digits[var] = Index::of(own);
      var = own;
    }
  substitute(value.meaning, digits);
  return value;
}

SmallVector<Var, 2> cleave::prove::rename(Terms &terms, Meaning &meaning, ArrayRef<Var> digits) {
  SmallVector<Var, 2> made;
  Substitution fresh;
  for (Var digit : digits) {
    made.push_back(terms.variables.make(terms.variables.getSize(digit)));
    fresh[digit] = Index::of(made.back());
  }
  substitute(meaning, fresh);
  return made;
}

Tensor cleave::prove::takeAt(Terms &terms, Tensor value, unsigned dim, ArrayRef<Index> places,
                             SmallVector<Var, 2> digits) {
  Substitution change;
  for (auto [digit, place] : llvm::zip(value.dims[dim], places))
    change[digit] = place;
  substitute(value.meaning, change);
  value.meaning = terms.normalize(std::move(value.meaning));
  value.dims[dim] = std::move(digits);
  value.rows.reset();
  return value;
}

bool cleave::prove::cut(Terms &terms, Tensor &value, unsigned dim, ArrayRef<int64_t> strides) {
  SmallVector<Digit, 2> old = digitsOf(value.dims[dim], terms.variables);
  SmallVector<int64_t, 4> cuts(strides);
  for (const Digit &digit : old)
    cuts.push_back(digit.stride);
  int64_t size = sizeOf(value.dims[dim], terms.variables);
  auto chain = chainOf(cuts, size);
  if (!chain)
    return false;
  // A digit of one value has no stride in the chain.
  if (chain->size() == old.size() && llvm::all_of(old, [&](const Digit &digit) {
        return llvm::is_contained(*chain, digit.stride);
      }))
    return true;
  SmallVector<Digit, 2> finer;
  for (auto [i, stride] : llvm::enumerate(*chain)) {
    int64_t next = i + 1 < chain->size() ? (*chain)[i + 1] : size;
    finer.push_back({terms.variables.make(next / stride), next / stride, stride});
  }
  Substitution digits;
  for (const Digit &digit : old) {
    std::optional<Index> index = expressDigit(digit, finer);
    if (!index)
      return false;
    digits[digit.var] = *index;
  }
  substitute(value.meaning, digits);
  value.dims[dim].clear();
  for (const Digit &digit : llvm::reverse(finer))
    value.dims[dim].push_back(digit.var);
  return true;
}

void cleave::prove::coarsen(Terms &terms, Tensor &value) {
  Variables &variables = terms.variables;
  auto forEach = [&](auto visit) {
    for (Summand &summand : value.meaning) {
      for (Index &index : summand.reference.indices)
        visit(index);
      for (Guard &guard : summand.guards)
        visit(guard.index);
    }
  };
  // A condition on the major digit alone is one on both.
  auto takeBoth = [&](Var major, Var minor) {
    int64_t size = variables.getSize(minor);
    for (Summand &summand : value.meaning)
      for (Guard &guard : summand.guards)
        if (int64_t factor = guard.index.getCoefficient(major);
            std::abs(factor) == 1 && guard.index.getCoefficient(minor) == 0)
          // Less the minor digit, what is below the next multiple is as much as that.
          guard = {guard.index * size + Index::of(minor, factor),
                   guard.low * size - (factor < 0 ? size - 1 : 0),
                   guard.high * size - (factor < 0 ? size - 1 : 0)};
  };
  for (auto &dim : value.dims)
    for (unsigned i = 0; i + 1 < dim.size();) {
      Var major = dim[i], minor = dim[i + 1];
      bool fits = true, isRead = false;
      for (const Summand &summand : value.meaning)
        for (const Index &index : summand.reference.indices) {
          fits &=
              index.getCoefficient(major) == index.getCoefficient(minor) * variables.getSize(minor);
          isRead |= index.getCoefficient(minor) != 0;
        }
      if (terms.takesPieces() && fits && isRead)
        takeBoth(major, minor);
      forEach([&](Index &index) {
        fits &=
            index.getCoefficient(major) == index.getCoefficient(minor) * variables.getSize(minor);
      });
      if (!fits) {
        ++i;
        continue;
      }
      Var merged = variables.make(variables.getSize(major) * variables.getSize(minor));
      forEach([&](Index &index) {
        int64_t coefficient = index.getCoefficient(minor);
        if (coefficient)
          index = index - Index::of(minor, coefficient) -
                  Index::of(major, index.getCoefficient(major)) + Index::of(merged, coefficient);
      });
      dim[i] = merged;
      dim.erase(dim.begin() + i + 1);
      i = i ? i - 1 : 0;
    }
}

bool cleave::prove::cutAlike(Terms &terms, Tensor &left, unsigned leftDim, Tensor &right,
                             unsigned rightDim, Substitution &digits) {
  auto stridesOf = [&](ArrayRef<Var> vars) {
    SmallVector<int64_t> strides;
    for (const Digit &digit : digitsOf(vars, terms.variables))
      strides.push_back(digit.stride);
    return strides;
  };
  auto &mine = left.dims[leftDim], &other = right.dims[rightDim];
  if (sizeOf(mine, terms.variables) != sizeOf(other, terms.variables) ||
      !cut(terms, left, leftDim, stridesOf(other)) ||
      !cut(terms, right, rightDim, stridesOf(mine)) || mine.size() != other.size())
    return false;
  for (auto [a, b] : llvm::zip(mine, other))
    digits[b] = Index::of(a);
  return true;
}

std::string cleave::prove::signatureOf(const Meaning &meaning, Rational &first) {
  SmallVector<std::pair<TermId, Rational>> parts;
  for (const Summand &summand : meaning)
    parts.push_back({summand.reference.term, summand.coefficient});
  llvm::sort(parts, [](const auto &a, const auto &b) {
    return a.first != b.first ? a.first < b.first : a.second < b.second;
  });
  first = parts.empty() ? Rational(1) : parts.front().second;
  std::string text;
  llvm::raw_string_ostream os(text);
  for (auto &[term, factor] : parts) {
    Rational relative = factor / first;
    os << term << '*' << relative.num << '/' << relative.den << ' ';
  }
  return text;
}

bool cleave::prove::mayBeTermOf(const Tensor &value, ArrayRef<Var> places) {
  llvm::SmallDenseSet<Var> own;
  for (const auto &dim : value.dims)
    own.insert(dim.begin(), dim.end());
  auto isAlong = [&](const Index &index) {
    return llvm::any_of(places, [&](Var place) { return index.getCoefficient(place) != 0; });
  };
  bool depends = false;
  for (const Summand &summand : value.meaning) {
    for (const Index &index : summand.reference.indices) {
      if (!isAlong(index))
        continue;
      depends = true;
      if (llvm::any_of(index.getParts(),
                       [&](const Index::Part &part) { return own.contains(part.var); }))
        return false;
    }
    for (const Guard &guard : summand.guards)
      depends |= isAlong(guard.index);
  }
  return depends;
}

bool cleave::prove::areEqual(Terms &terms, Tensor left, Tensor right) {
  if (left.dims.size() != right.dims.size())
    return false;
  auto isEmpty = [&](ArrayRef<Var> dim) { return sizeOf(dim, terms.variables) == 0; };
  if (llvm::any_of(left.dims, isEmpty))
    return llvm::any_of(right.dims, isEmpty);
  Substitution digits;
  for (unsigned dim = 0; dim < left.dims.size(); ++dim)
    if (!cutAlike(terms, left, dim, right, dim, digits))
      return false;
  substitute(right.meaning, digits);
  return terms.areEqual(left.meaning, right.meaning);
}
