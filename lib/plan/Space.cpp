// All plans of a space, in a fixed order.
#include "lib/plan/Space.h"

#include "llvm/ADT/STLExtras.h"

#include <numeric>

using namespace cleave::plan;

/// Schedules by what they need.
static constexpr struct {
  llvm::StringLiteral name;
  int64_t minChunks, maxChunks;
  bool splitsBackward;
} schedules[] = {
    {"1f1b", 1, 1, false},
    {"gpipe", 1, 1, false},
    {"zb-h1", 1, 1, true},
    {"zb-h2", 1, 1, true},
    {"interleaved-1f1b", 2, 4, false},
    {"looped-bfs", 2, 4, false},
    {"interleaved-zero-bubble", 2, 4, true},
    {"zbv", 2, 2, true},
    {"dualpipev", 2, 2, true},
    {"v-half", 2, 2, true},
    {"v-min", 2, 2, true},
};
static constexpr int64_t chunkCounts[] = {1, 2, 4};
/// Each step of a ring is an op of the program.
static constexpr int64_t maxContext = 16;
/// Without a wish: heads are no longer divided, but sequences, in rings that `cp` is meant for.
static constexpr int64_t maxTensor = 64;
static constexpr int64_t endCounts[] = {0, 1, 2};
static constexpr Recompute recomputes[] = {Recompute::Cheap, Recompute::None, Recompute::Full};
static constexpr Sharding shardings[] = {Sharding::Replicated, Sharding::Zero1, Sharding::FsdpOnce,
                                         Sharding::Fsdp};

llvm::StringRef cleave::plan::getName(Key key) {
  static constexpr llvm::StringLiteral names[numKeys] = {
      "dp",         "tp",        "pp",         "cp",       "ep",
      "neighbours", "sequence",  "parameters", "replicas", "chunks",
      "ends",       "recompute", "offload",    "schedule", "microbatches"};
  return names[unsigned(key)];
}

static llvm::StringRef getName(Sharding sharding) {
  return sharding == Sharding::Replicated ? "replicated"
         : sharding == Sharding::Zero1    ? "zero1"
         : sharding == Sharding::Fsdp     ? "fsdp"
                                          : "fsdp-once";
}

static llvm::StringRef getName(Recompute recompute) {
  switch (recompute) {
  case Recompute::None:
    return "none";
  case Recompute::Cheap:
    return "cheap";
  case Recompute::Full:
    return "full";
  case Recompute::Budget:
    return "budget";
  }
  llvm_unreachable("not a way to recompute");
}

std::vector<llvm::StringRef> cleave::plan::listValues(Key key) {
  std::vector<llvm::StringRef> values;
  switch (key) {
  case Key::Order:
    return {"dp", "tp"};
  case Key::Sequence:
  case Key::Offload:
    return {"yes", "no"};
  case Key::Sharding:
    for (Sharding sharding :
         {Sharding::Replicated, Sharding::Zero1, Sharding::Fsdp, Sharding::FsdpOnce})
      values.push_back(::getName(sharding));
    break;
  case Key::Ends:
    return {"0", "1", "2"};
  case Key::Recompute:
    for (Recompute recompute : allRecomputes)
      values.push_back(::getName(recompute));
    break;
  case Key::Schedule:
    for (const auto &schedule : schedules)
      values.push_back(schedule.name);
    break;
  default:
    break;
  }
  return values;
}

static std::string getValue(const Layout &layout, Key key, llvm::ArrayRef<ProgramFacts> programs) {
  switch (key) {
  case Key::Data:
    return std::to_string(layout.data);
  case Key::Tensor:
    return std::to_string(layout.tensor);
  case Key::Pipeline:
    return std::to_string(layout.pipeline);
  case Key::Context:
    return std::to_string(layout.context);
  case Key::Experts:
    return std::to_string(layout.experts);
  case Key::Order:
    return layout.dataInside ? "dp" : "tp";
  case Key::Sequence:
    return layout.sequence ? "yes" : "no";
  case Key::Sharding:
    return ::getName(layout.sharding).str();
  case Key::Replicas:
    return std::to_string(layout.replicas);
  default:
    return std::to_string(programs[layout.program].microbatches);
  }
}

static std::string getValue(const Shape &shape, Key key) {
  return key == Key::Chunks ? std::to_string(shape.chunks)
         : key == Key::Ends ? std::to_string(shape.ends)
                            : ::getName(shape.recompute).str();
}

std::string cleave::plan::getValue(const Plan &plan, Key key,
                                   llvm::ArrayRef<ProgramFacts> programs) {
  if (key == Key::Schedule)
    return plan.schedule;
  if (key == Key::Offload)
    return plan.offloads ? "yes" : "no";
  if (key == Key::Chunks || key == Key::Ends || key == Key::Recompute)
    return ::getValue(plan.shape, key);
  return ::getValue(plan.shape.layout, key, programs);
}

static bool allows(const Fixed &fixed, Key key, llvm::StringRef value) {
  return !fixed.get(key) || *fixed.get(key) == value;
}

static bool allows(const Fixed &fixed, const Layout &layout,
                   llvm::ArrayRef<ProgramFacts> programs) {
  return llvm::all_of(
      std::initializer_list<Key>{Key::Data, Key::Tensor, Key::Pipeline, Key::Context, Key::Experts,
                                 Key::Order, Key::Sequence, Key::Sharding, Key::Replicas,
                                 Key::Microbatches},
      [&](Key key) { return allows(fixed, key, ::getValue(layout, key, programs)); });
}

static std::vector<int64_t> listDivisors(int64_t number) {
  std::vector<int64_t> low, high;
  for (int64_t divisor = 1; divisor * divisor <= number; ++divisor) {
    if (number % divisor)
      continue;
    low.push_back(divisor);
    if (divisor * divisor != number)
      high.push_back(number / divisor);
  }
  low.insert(low.end(), high.rbegin(), high.rend());
  return low;
}

/// In how many groups that have all parameters the ranks along `data` may be. Without a wish these
/// are groups that fill a unit of a level together with the axes inside of them: with fewer ranks
/// links of that level would be used for less, with more of them slower ones for all.
std::vector<int64_t> Space::listReplicas(const Layout &layout) const {
  std::vector<int64_t> numbers = {1};
  // Experts are sharded among other ranks than what is beside them.
  if (!layout.shardsParameters() || layout.dataInside || layout.experts > 1)
    return numbers;
  const int64_t inside = layout.tensor * layout.context;
  auto add = [&](int64_t shards) {
    if (shards < layout.data && shards * layout.context > 1 && layout.data % shards == 0)
      numbers.push_back(layout.data / shards);
  };
  if (const std::optional<std::string> &wish = fixed.get(Key::Replicas)) {
    const int64_t replicas = std::stoll(*wish);
    if (layout.data % replicas == 0)
      add(layout.data / replicas);
    return numbers;
  }
  for (int64_t unit : units)
    if (unit % inside == 0)
      add(unit / inside);
  return numbers;
}

/// Adds the layouts of these axes.
void Space::listLayouts(const Layout &axes, std::vector<Layout> &layouts) const {
  const ProgramFacts &facts = programs[axes.program];
  if (facts.batch % (axes.data * axes.experts) || facts.experts % axes.experts ||
      axes.pipeline > facts.layers || facts.tokens % axes.context || axes.context > maxContext ||
      (axes.tensor > 1 && !facts.hasTensorRules) ||
      (axes.tensor > maxTensor && !fixed.get(Key::Tensor)))
    return;
  // Experts' rows are those of whole sequences.
  if (facts.experts > 1 && axes.context > 1)
    return;
  // Ranks that gather all rows to sort them would not divide experts within as well.
  if (facts.sortsRows && axes.tensor > 1 && axes.data > 1 && axes.experts == 1)
    return;
  // Ring attention wants the batch's axis to be the outer one, and the exchange of rows too.
  bool hasOrders = axes.data > 1 && axes.tensor > 1 && axes.context == 1 && axes.experts == 1 &&
                   getUnit() > 0 && axes.data * axes.tensor > getUnit();
  for (bool dataInside : {false, true})
    for (bool sequence : {false, true})
      for (Sharding sharding : shardings) {
        Layout layout = axes;
        layout.dataInside = dataInside;
        layout.sequence = sequence;
        layout.sharding = sharding;
        if ((dataInside && !hasOrders) ||
            (sequence && (axes.tensor == 1 || axes.context > 1 || !facts.hasSequenceRules)) ||
            (sharding != Sharding::Replicated && axes.numSharers() == 1))
          continue;
        for (int64_t replicas : listReplicas(layout)) {
          layout.replicas = replicas;
          if (allows(fixed, layout, programs))
            layouts.push_back(layout);
        }
      }
}

std::vector<Layout> Space::listLayouts() const {
  std::vector<Layout> layouts;
  for (unsigned program = 0; program < programs.size(); ++program)
    for (int64_t tensor : listDivisors(ranks))
      for (int64_t context : listDivisors(ranks / tensor))
        for (int64_t experts :
             listDivisors(std::gcd(ranks / tensor / context, programs[program].experts)))
          for (int64_t pipeline : listDivisors(ranks / tensor / context / experts))
            listLayouts({program, ranks / tensor / context / experts / pipeline, tensor, pipeline,
                         context, experts},
                        layouts);
  return layouts;
}

std::vector<Shape> Space::listShapes(const Layout &layout) const {
  std::vector<Shape> shapes;
  for (int64_t chunks : chunkCounts)
    for (int64_t ends : endCounts)
      for (bool splits : {false, true})
        for (Recompute recompute : recomputes) {
          Shape shape{layout, chunks, recompute, splits, ends};
          if (shape.numStages() > programs[layout.program].layers && shape.numStages() > 1)
            continue;
          if (ends > 0 && !hasOwnCut(shape))
            continue;
          if (allows(fixed, Key::Chunks, ::getValue(shape, Key::Chunks)) &&
              allows(fixed, Key::Ends, ::getValue(shape, Key::Ends)) &&
              allows(fixed, Key::Recompute, ::getValue(shape, Key::Recompute)) &&
              !listSchedules(shape).empty())
            shapes.push_back(shape);
        }
  return shapes;
}

std::vector<std::string> Space::listSchedules(const Shape &shape) const {
  std::vector<std::string> names;
  // One pipeline rank runs its microbatches one after the other, whatever the schedule.
  if (shape.layout.pipeline == 1) {
    if (shape.chunks == 1 && !shape.splitsBackward && allows(fixed, Key::Schedule, "1f1b"))
      names.push_back("1f1b");
    return names;
  }
  for (const auto &schedule : schedules)
    if (schedule.minChunks <= shape.chunks && shape.chunks <= schedule.maxChunks &&
        schedule.splitsBackward == shape.splitsBackward &&
        allows(fixed, Key::Schedule, schedule.name))
      names.push_back(schedule.name.str());
  return names;
}

bool Space::isEmpty() const {
  // Only budgets offload.
  if (fixed.get(Key::Offload) == "yes" && fixed.get(Key::Recompute))
    return true;
  for (const Layout &layout : listLayouts())
    if (!listShapes(layout).empty())
      return false;
  return true;
}

std::vector<int64_t> Space::listCuts(const Shape &shape) const {
  int64_t stages = shape.numStages(), layers = programs[shape.layout.program].layers;
  int64_t counted = layers + 2 * shape.ends;
  std::vector<int64_t> cuts;
  for (int64_t stage = 1; stage < stages; ++stage)
    cuts.push_back(stage * (counted / stages) + std::min(stage, counted % stages) - shape.ends);
  return cuts;
}

/// Whether no smaller `ends` gives the same cut, and every stage has a layer.
bool Space::hasOwnCut(const Shape &shape) const {
  std::vector<int64_t> cuts = listCuts(shape);
  if (cuts.empty() || cuts.front() < 1 || cuts.back() >= programs[shape.layout.program].layers)
    return false;
  Shape other = shape;
  for (other.ends = 0; other.ends < shape.ends; ++other.ends)
    if (listCuts(other) == cuts)
      return false;
  return true;
}
