//===- Log.cpp - reading a proof --------------------------------------------===//

#include "lib/replay/Log.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"

using namespace cleave::replay;

namespace {
/// Reads from the front of a line; after what does not fit, nothing does.
struct Reader {
  StringRef rest;
  bool fails = false;

  bool take(char c) { return rest.consume_front(StringRef(&c, 1)); }
  void expect(char c) { fails |= !take(c); }
  int64_t integer() {
    int64_t number = 0;
    fails |= rest.consumeInteger(10, number) || number > (int64_t(1) << 52) ||
             number < -(int64_t(1) << 52);
    return fails ? 0 : number;
  }
  int64_t size() {
    int64_t number = integer();
    fails |= number < 0;
    return number;
  }
  llvm::DynamicAPInt large() {
    bool isNegative = take('-');
    StringRef digits = rest.take_while(llvm::isDigit);
    rest = rest.drop_front(digits.size());
    fails |= digits.empty() || digits.size() > 100000;
    if (fails)
      return llvm::DynamicAPInt(1);
    llvm::DynamicAPInt number(llvm::APInt(digits.size() * 4 + 2, digits, 10));
    return isNegative ? -number : number;
  }
  template <typename List> void sizes(List &list) {
    if (take('-'))
      return;
    do
      list.push_back(size());
    while (!fails && take(','));
  }
  Index index() {
    Index index;
    do {
      int64_t number = integer();
      index = take('*') ? index.plus(Var(size()), number) : index.plus(Index(number));
    } while (!fails && take('+'));
    return index;
  }
  Reference reference() {
    Reference value;
    value.term = size();
    expect('[');
    while (!fails && !take(']')) {
      value.at.push_back(index());
      take(',');
    }
    return value;
  }
  Summand summand(std::map<Var, int64_t> &boundSizes) {
    Summand summand;
    llvm::DynamicAPInt numerator = large();
    expect('/');
    llvm::DynamicAPInt denominator = large();
    fails |= denominator <= 0;
    if (!fails)
      summand.factor = Rational(numerator, denominator);
    while (!fails && take('<')) {
      summand.bound.push_back(size());
      expect(':');
      int64_t count = size();
      fails |= count <= 0 || !boundSizes.try_emplace(summand.bound.back(), count).second;
      expect('>');
    }
    while (!fails && take('{')) {
      Guard guard;
      guard.low = integer();
      expect(':');
      guard.high = integer();
      expect(':');
      guard.index = index();
      expect('}');
      summand.guards.push_back(std::move(guard));
    }
    expect('*');
    summand.value = reference();
    return summand;
  }
  Form form(std::map<Var, int64_t> &boundSizes) {
    Form form;
    if (take('.'))
      return form;
    do
      form.push_back(summand(boundSizes));
    while (!fails && take(' '));
    return form;
  }
};
} // namespace

static bool readTerm(StringRef kind, Reader &reader, Forms &forms) {
  Term term;
  if (kind == "op")
    term.kept = reader.size(), reader.expect(' ');
  reader.sizes(term.sizes);
  reader.expect(' ');
  if (kind == "leaf") {
    term.key = reader.rest.str();
  } else if (kind == "sum") {
    term.kind = Term::Sum;
    std::map<Var, int64_t> bound;
    term.body = reader.form(bound);
    // Numbered behind its own digits, without gaps.
    for (auto [var, size] : bound) {
      reader.fails |= var != term.sizes.size() + term.boundSizes.size();
      term.boundSizes.push_back(size);
    }
    reader.fails |= !reader.rest.empty();
  } else {
    term.kind = Term::Op;
    while (!reader.fails && !reader.take(' ')) {
      unsigned group = reader.size();
      reader.expect(':');
      term.read.push_back({group, reader.size()});
      reader.take(',');
    }
    while (!reader.fails && !reader.rest.starts_with(": ")) {
      term.operands.push_back(reader.reference());
      reader.expect(' ');
    }
    reader.fails |= !reader.rest.consume_front(": ");
    term.key = reader.rest.str();
  }
  return !reader.fails && forms.define(std::move(term));
}

llvm::Expected<Log> cleave::replay::readLog(StringRef text, StringRef name, Forms &forms) {
  Log log;
  std::vector<Claim> *values = nullptr;
  std::optional<bool> isLocal;
  unsigned number = 0;
  bool isVersion = false, isComplete = false;
  for (StringRef line : llvm::split(text, '\n')) {
    ++number;
    auto [kind, rest] = line.split(' ');
    Reader reader{rest};
    bool isKnown = true;
    if (number == 1) {
      isKnown = isVersion = line == "cleave-proof 1";
    } else if (isComplete) {
      isKnown = line.empty();
    } else if (kind == "axis") {
      auto [axis, sizes] = rest.split(' ');
      reader.rest = sizes;
      reader.sizes(log.axes.emplace_back(axis.str(), SmallVector<int64_t, 1>()).second);
    } else if (kind == "leaf" || kind == "op" || kind == "sum") {
      isKnown = readTerm(kind, reader, forms);
      reader.rest = "";
    } else if (line == "global" || line == "local") {
      isKnown = isLocal.has_value() == (line == "local");
      isLocal = line == "local";
      values = nullptr;
    } else if (kind == "func" && isLocal) {
      auto [place, isNew] = log.values.try_emplace({*isLocal, rest.str()});
      isKnown = isNew;
      values = &place->second;
      reader.rest = "";
    } else if (kind == "value" && values) {
      Claim &claim = values->emplace_back();
      claim.line = number;
      claim.step = reader.rest.take_until([](char c) { return c == ' '; }).str();
      reader.rest = reader.rest.drop_front(claim.step.size());
      reader.expect(' ');
      while (!reader.fails && !reader.take(' ')) {
        reader.sizes(claim.dims.emplace_back());
        reader.expect(';');
      }
      claim.form = reader.form(claim.boundSizes);
    } else if (line == "end") {
      isKnown = isComplete = true;
    } else {
      isKnown = false;
    }
    if (!isKnown || reader.fails || (number > 1 && !reader.rest.empty() && line != "end"))
      return llvm::createStringError(
          llvm::formatv("{0}:{1}: expected {2}, found '{3}'", name, number,
                        isVersion ? "a line of a proof" : "'cleave-proof 1'", line.take_front(80)));
  }
  if (!isComplete)
    return llvm::createStringError(
        llvm::formatv("{0}: it ends before its line 'end': it is not complete", name));
  return log;
}
