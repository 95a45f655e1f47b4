//===- Transitions.cpp - which op takes which type to which ------------------===//

#include "dialects/dist/Transitions.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/raw_ostream.h"

using namespace cleave::dist;

namespace {
constexpr auto R = PlacementKind::R;
constexpr auto P = PlacementKind::P;
constexpr auto I = PlacementKind::I;
constexpr auto V = PlacementKind::V;
constexpr auto S = PlacementKind::S;
constexpr auto none = std::nullopt;
using Rule = ReductionRule;
using Effect = ShapeEffect;
} // namespace

static constexpr Transition table[] = {
    {"all_reduce", P, R, Rule::Own, Effect::Same},
    {"all_reduce", P, I, Rule::Own, Effect::Same},
    {"all_reduce", V, V, Rule::Any, Effect::Same},
    {"all_reduce", V, R, Rule::Any, Effect::Same},
    {"all_reduce", V, I, Rule::Any, Effect::Same},

    {"reduce_scatter", P, S, Rule::Own, Effect::Scatter},
    {"reduce_scatter", P, V, Rule::Own, Effect::Scatter},
    {"reduce_scatter", V, V, Rule::Any, Effect::Scatter},

    {"all_gather", S, R, Rule::None, Effect::Gather},
    {"all_gather", S, I, Rule::None, Effect::Gather},
    {"all_gather", V, R, Rule::None, Effect::Gather},
    {"all_gather", V, I, Rule::None, Effect::Gather},
    {"all_gather", V, V, Rule::None, Effect::Gather},

    {"all_to_all", S, S, Rule::None, Effect::Exchange},
    {"all_to_all", V, V, Rule::None, Effect::Exchange},

    {"broadcast", V, V, Rule::None, Effect::Same},
    {"broadcast", V, R, Rule::None, Effect::Same},
    {"broadcast", V, I, Rule::None, Effect::Same},
    {"reduce", P, V, Rule::Own, Effect::Same},
    {"reduce", V, V, Rule::Any, Effect::Same},
    {"gather", V, V, Rule::None, Effect::Gather},
    {"scatter", V, V, Rule::None, Effect::Scatter},

    {"permute", V, V, Rule::None, Effect::Same},
    {"shift", V, V, Rule::None, Effect::Same},
    {"send", V, none, Rule::None, Effect::Same},
    {"receive", none, V, Rule::None, Effect::Same},
    {"axis_index", none, V, Rule::None, Effect::Same},

    {"convert", I, R, Rule::None, Effect::Same},
    {"convert", I, V, Rule::None, Effect::Scatter},
    {"convert", I, S, Rule::None, Effect::Scatter},
    {"convert", I, P, Rule::Sum, Effect::Same},
    {"convert", R, V, Rule::None, Effect::Scatter},
    {"convert", R, S, Rule::None, Effect::Scatter},
    {"convert", R, P, Rule::Sum, Effect::Same},
    {"convert", R, I, Rule::None, Effect::Same},
    {"convert", V, P, Rule::Sum, Effect::Gather},
    {"convert", S, P, Rule::Sum, Effect::Gather},

    {"reinterpret", R, V, Rule::None, Effect::Same},
    {"reinterpret", V, P, Rule::AnyPending, Effect::Same},
    {"reinterpret", R, P, Rule::Sum, Effect::Same},
    {"reinterpret", V, S, Rule::None, Effect::Same},
    {"reinterpret", S, V, Rule::None, Effect::Same},

    {"fake_broadcast", I, V, Rule::None, Effect::Same},
    {"fake_broadcast", I, R, Rule::None, Effect::Same},
    {"fake_reduce", V, I, Rule::None, Effect::Same},
    {"fake_reduce", P, I, Rule::Sum, Effect::Same},
    {"fake_scatter", I, V, Rule::None, Effect::Scatter},
    {"fake_scatter", I, S, Rule::None, Effect::Scatter},
    {"fake_gather", V, I, Rule::None, Effect::Gather},
    {"fake_gather", S, I, Rule::None, Effect::Gather},
};

llvm::ArrayRef<Transition> cleave::dist::transitions() {
  return table;
}

const Transition *cleave::dist::findTransition(llvm::StringRef op,
                                               std::optional<PlacementKind> source,
                                               std::optional<PlacementKind> destination) {
  for (const Transition &row : table)
    if (row.op == op && row.source == source && row.destination == destination)
      return &row;
  return nullptr;
}

bool cleave::dist::takesReduction(const Transition &row, const AxisPlacement &source,
                                  const AxisPlacement &destination,
                                  std::optional<Reduction> reduction) {
  switch (row.reduction) {
  case ReductionRule::Own:
    return reduction == source.reduction;
  case ReductionRule::Sum:
    return (!source.isPartial() || source.isPartialSum()) &&
           (!destination.isPartial() || destination.isPartialSum());
  case ReductionRule::None:
  case ReductionRule::Any:
  case ReductionRule::AnyPending:
    return true;
  }
  llvm_unreachable("all rules are handled");
}

//===----------------------------------------------------------------------===//
// For messages
//===----------------------------------------------------------------------===//

/// "a", "a or b", "a, b or c"
static std::string joinAlternatives(llvm::ArrayRef<std::string> words) {
  std::string text;
  for (auto [i, word] : llvm::enumerate(words))
    text += (i == 0 ? "" : i + 1 == words.size() ? " or " : ", ") + word;
  return text;
}

static std::string describeKind(PlacementKind kind, ReductionRule rule) {
  if (kind == PlacementKind::S)
    return "S(d)";
  if (kind == PlacementKind::P && (rule == Rule::Own || rule == Rule::AnyPending))
    return "P(k)";
  return stringifyPlacementKind(kind).str();
}

std::string cleave::dist::describeTransitions(llvm::StringRef op) {
  llvm::SmallVector<std::pair<std::string, llvm::SmallVector<std::string>>> sources;
  for (const Transition &row : table) {
    if (row.op != op || !row.source)
      continue;
    std::string source = describeKind(*row.source, row.reduction);
    if (sources.empty() || sources.back().first != source)
      sources.push_back({source, {}});
    if (row.destination)
      sources.back().second.push_back(describeKind(*row.destination, row.reduction));
  }
  std::string text;
  for (auto &[source, destinations] : sources) {
    text += (text.empty() ? "" : "; ") + source;
    if (!destinations.empty())
      text += " to " + joinAlternatives(destinations);
  }
  return text;
}

/// Whether a row of a general op may be advised for these kinds: the fakes say more than their
/// types do.
static bool isAdvisable(const Transition &row) {
  return row.source && row.destination && !row.op.starts_with("fake_");
}

/// The reduction that an op takes which has to end what is pending in `source`.
static std::optional<Reduction> ownReduction(const AxisPlacement &source) {
  return source.isPartial() ? std::optional(source.reduction) : std::nullopt;
}

/// Whether only names change, and no data crosses.
static bool isLocal(const Transition &row) {
  return row.op == "convert" || row.op == "reinterpret";
}

/// The ops that do it in one step, with any effect on the shape if `shape` is absent.
static llvm::SmallVector<const Transition *> findSteps(const AxisPlacement &source,
                                                       const AxisPlacement &destination,
                                                       std::optional<Effect> shape) {
  llvm::SmallVector<const Transition *> steps;
  for (const Transition &row : table)
    if (isAdvisable(row) && row.source == source.kind && row.destination == destination.kind &&
        (!shape || row.shape == *shape) &&
        takesReduction(row, source, destination, ownReduction(source)))
      steps.push_back(&row);
  return steps;
}

static std::string joinOps(llvm::ArrayRef<const Transition *> rows) {
  return joinAlternatives(llvm::to_vector(
      llvm::map_range(rows, [](const Transition *row) { return "dist." + row->op.str(); })));
}

/// Two steps, of which one only names what the ranks have in another way.
static std::string findTwoSteps(llvm::StringRef op, const AxisPlacement &source,
                                const AxisPlacement &destination, Effect shape) {
  std::string found;
  for (const Transition &first : table) {
    if (!isAdvisable(first) || first.source != source.kind)
      continue;
    AxisPlacement middle;
    middle.kind = *first.destination;
    if (middle.isPartial() && destination.isPartial())
      middle.reduction = destination.reduction;
    if (!takesReduction(first, source, middle, ownReduction(source)))
      continue;
    for (const Transition *second : findSteps(middle, destination, std::nullopt)) {
      const Transition *moving = isLocal(first) ? second : &first;
      bool isShapeRight = first.shape == Effect::Same     ? second->shape == shape
                          : second->shape == Effect::Same ? first.shape == shape
                                                          : false;
      if (!isShapeRight || (!isLocal(first) && !isLocal(*second)))
        continue;
      std::string text = "dist." + first.op.str() + " to " +
                         describeKind(middle.kind, first.reduction) + ", then dist." +
                         second->op.str();
      // What its author wrote is what he means.
      if (moving->op == op)
        return text;
      if (found.empty())
        found = std::move(text);
    }
  }
  return found;
}

std::string cleave::dist::suggestOps(llvm::StringRef op, const AxisPlacement &source,
                                     const AxisPlacement &destination, ShapeEffect shape) {
  if (auto steps = findSteps(source, destination, shape); !steps.empty())
    return joinOps(steps);
  std::string two = findTwoSteps(op, source, destination, shape);
  if (llvm::StringRef(two).contains("dist." + op.str()))
    return two;
  static constexpr std::pair<Effect, llvm::StringLiteral> others[] = {
      {Effect::Same, "whose result has the shape of the operand"},
      {Effect::Gather, "whose result is all ranks' parts together"},
      {Effect::Scatter, "whose result is one rank's part of the operand"},
      {Effect::Exchange, "whose result is divided along another dimension"},
  };
  for (auto [effect, meaning] : others)
    if (auto steps = findSteps(source, destination, effect); !steps.empty())
      return joinOps(steps) + ", " + meaning.str();
  return two;
}

//===----------------------------------------------------------------------===//
// For tools
//===----------------------------------------------------------------------===//

static constexpr Reduction pendingReductions[] = {Reduction::Sum, Reduction::Avg, Reduction::Max,
                                                  Reduction::Min, Reduction::Product};

static llvm::StringRef stringifyShapeEffect(ShapeEffect effect) {
  static constexpr llvm::StringRef names[] = {"same", "gather", "scatter", "exchange"};
  return names[static_cast<int>(effect)];
}

void cleave::dist::printTransitionsAsJson(llvm::raw_ostream &os) {
  llvm::json::OStream json(os, 0);
  json.array([&] {
    for (const Transition &row : table) {
      auto write = [&](std::optional<Reduction> reduction, Reduction pending) {
        auto kind = [&](std::optional<PlacementKind> kind) -> llvm::json::Value {
          if (!kind)
            return nullptr;
          if (*kind == P)
            return toString(AxisPlacement::partial(pending));
          return stringifyPlacementKind(*kind);
        };
        os << "\n";
        json.object([&] {
          json.attribute("op", row.op);
          json.attribute("reduction", reduction ? llvm::json::Value(stringifyReduction(*reduction))
                                                : llvm::json::Value(nullptr));
          json.attribute("source", kind(row.source));
          json.attribute("destination", kind(row.destination));
          json.attribute("shape", stringifyShapeEffect(row.shape));
        });
      };
      if (row.reduction == Rule::Own)
        for (Reduction reduction : pendingReductions)
          write(reduction, reduction);
      else if (row.reduction == Rule::Any)
        for (unsigned i = 0; i <= getMaxEnumValForReduction(); ++i)
          write(static_cast<Reduction>(i), Reduction::Sum);
      else if (row.reduction == Rule::AnyPending)
        for (Reduction reduction : pendingReductions)
          write(none, reduction);
      else
        write(none, Reduction::Sum);
    }
  });
  os << "\n";
}
