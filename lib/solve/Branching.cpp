//===- Branching.cpp --------------------------------------------------------===//

#include "lib/solve/Branching.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <thread>

using namespace cleave::solve;

static constexpr double infinity = std::numeric_limits<double>::infinity();
static constexpr unsigned none = ~0u;
/// Sweeps of a case at most, and how many of them have to raise its bound by this part of the gap.
static constexpr unsigned mostSweeps = 60, sweepsAtOnce = 6;
static constexpr double leastProgress = 0.01;
/// Divisions that are tried, and sweeps to see what each is worth.
static constexpr unsigned mostDivisions = 4, sweepsPerTrial = 6;
/// Moves from what messages say, in units of Search::movesAtOnce: with heat, without, and where
/// memory left over is free.
static constexpr unsigned heatedMoves = 6, pricedMoves = 2, freeMoves = 4;
static constexpr double heat = 1e-3;
/// Of open cases' messages; where they become more, the newest case comes first.
static constexpr size_t mostNumbers = size_t(1) << 27;

struct Branching::Part {
  /// By node of the model: its number here, and the choices that are left.
  std::vector<unsigned> numbers;
  std::vector<std::vector<unsigned>> left;
  /// By edge: whether it is here, as both ends have several choices.
  std::vector<char> edges;
  /// Points of the model where not everything that is left fits.
  std::vector<unsigned> points;
  Problem problem;
  std::optional<MemoryUse> use;
  std::optional<Dual> dual;
};

Branching::Branching(const Problem &whole, const Model &model, uint64_t seed)
    : whole(whole), model(model), problem(model.getProblem()), seed(seed) {
  searches.push_back(std::make_unique<Search>(problem, model.getUse(), seed));
  size_t offset = 0;
  for (const Edge &edge : problem.getEdges()) {
    size_t second = offset + problem.getNodes()[edge.first].size;
    messageOffsets.push_back({offset, second});
    offset = second + problem.getNodes()[edge.second].size;
  }
  for (auto [number, edge] : llvm::enumerate(problem.getEdges()))
    if (llvm::is_contained(problem.getMatrices()[edge.matrix].costs, forbidden))
      constraints.push_back(number);
}

void Branching::start(const Dual::State &state) {
  cases.emplace(whole, model.getCertificate(state));
  if (cases->isValid())
    open.push_back({0, state.bound, std::make_shared<Dual::State>(state)});
}

void Branching::setUpper(Cost cost, llvm::ArrayRef<unsigned> assignment) {
  if (upper && cost >= *upper)
    return;
  upper = cost;
  best.reset();
  for (auto &search : searches)
    search->setAssignment(assignment);
}

double Branching::target() const {
  return upper ? static_cast<double>(*upper) : infinity;
}

std::vector<std::vector<unsigned>> Branching::getLeft(unsigned number) const {
  std::vector<std::vector<unsigned>> left(problem.getNodes().size());
  for (auto [node, choices] : llvm::enumerate(left))
    for (unsigned choice = 0; choice < problem.getNodes()[node].size; ++choice)
      if (cases->isLeft(number, model.getLeader(node), model.getChoice(node, choice)))
        choices.push_back(choice);
  return left;
}

/// Leaves out choices without a partner; false where a node has none left.
bool Branching::propagate(std::vector<std::vector<unsigned>> &left) const {
  bool anyChanged = true;
  while (anyChanged) {
    anyChanged = false;
    for (unsigned number : constraints) {
      const Edge &edge = problem.getEdges()[number];
      const Matrix &matrix = problem.getMatrices()[edge.matrix];
      for (bool isFirst : {true, false}) {
        std::vector<unsigned> &own = left[isFirst ? edge.first : edge.second];
        llvm::ArrayRef<unsigned> others = left[isFirst ? edge.second : edge.first];
        size_t before = own.size();
        llvm::erase_if(own, [&](unsigned choice) {
          return llvm::all_of(others, [&](unsigned other) {
            return matrix.costs[isFirst ? size_t(choice) * matrix.columns + other
                                        : size_t(other) * matrix.columns + choice] == forbidden;
          });
        });
        if (own.empty())
          return false;
        anyChanged |= own.size() != before;
      }
    }
  }
  return true;
}

/// Keeps the points where not everything that is left fits, and what of each is taken by nodes
/// without a choice.
void Branching::findPoints(Part &part, std::vector<int64_t> &used,
                           std::vector<unsigned> &firstPoint) const {
  const MemoryUse &use = model.getUse();
  std::vector<double> fixed(use.getPointCount() + 1), most(fixed);
  for (auto [node, choices] : llvm::enumerate(part.left))
    for (const MemoryUse::Segment &segment : use.getSegments(node)) {
      double highest = 0;
      for (unsigned choice : choices)
        highest = std::max(highest, static_cast<double>(use.getUsages(segment)[choice]));
      std::vector<double> &sums = choices.size() == 1 ? fixed : most;
      sums[segment.range.first] += highest;
      sums[segment.range.last] -= highest;
    }
  double present = 0, presentMost = 0;
  firstPoint = {0};
  for (unsigned point = 0; point < use.getPointCount(); ++point) {
    present += fixed[point];
    presentMost += most[point];
    if (present + presentMost > static_cast<double>(problem.limit)) {
      part.points.push_back(point);
      used.push_back(static_cast<int64_t>(std::min(std::max(present, 0.0), 0x1p62)));
    }
    firstPoint.push_back(part.points.size());
  }
}

std::unique_ptr<Branching::Part> Branching::makePart(std::vector<std::vector<unsigned>> left,
                                                     const Dual::State &state) const {
  if (!propagate(left))
    return nullptr;
  auto part = std::make_unique<Part>();
  part->left = std::move(left);
  std::vector<int64_t> used;
  std::vector<unsigned> firstPoint;
  findPoints(*part, used, firstPoint);
  part->use.emplace(part->points.size());
  part->problem.limit = problem.limit;
  auto isFixed = [&](unsigned node) { return part->left[node].size() == 1; };
  auto getCost = [&](const Edge &edge, unsigned first, unsigned second) {
    const Matrix &matrix = problem.getMatrices()[edge.matrix];
    return matrix.costs[size_t(first) * matrix.columns + second];
  };
  std::vector<std::vector<int64_t>> costs;
  for (auto [node, choices] : llvm::enumerate(part->left)) {
    std::vector<int64_t> &own = costs.emplace_back();
    for (unsigned choice : choices)
      own.push_back(problem.getCosts(node)[choice]);
  }
  // Edges to nodes without a choice are costs of their other end. Sums that overflow only mislead:
  // bounds are confirmed elsewhere.
  Cost rest = 0;
  for (const Edge &edge : problem.getEdges()) {
    if (!isFixed(edge.first) && !isFixed(edge.second))
      continue;
    if (isFixed(edge.first) && isFixed(edge.second)) {
      rest += getCost(edge, part->left[edge.first].front(), part->left[edge.second].front());
      continue;
    }
    unsigned node = isFixed(edge.first) ? edge.second : edge.first;
    for (auto [sum, choice] : llvm::zip_equal(costs[node], part->left[node])) {
      int64_t cost = node == edge.second ? getCost(edge, part->left[edge.first].front(), choice)
                                         : getCost(edge, choice, part->left[edge.second].front());
      if (__builtin_add_overflow(sum, cost, &sum))
        sum = forbidden;
    }
  }
  std::vector<MemoryUse::Part> parts;
  for (auto [node, choices] : llvm::enumerate(part->left)) {
    if (isFixed(node)) {
      part->numbers.push_back(none);
      rest += costs[node].front();
      continue;
    }
    part->numbers.push_back(part->problem.getNodes().size());
    part->problem.addNode(0, 0, costs[node], std::vector<int64_t>(choices.size(), 0));
    parts.clear();
    for (const MemoryUse::Segment &segment : model.getUse().getSegments(node)) {
      PointRange range{firstPoint[segment.range.first], firstPoint[segment.range.last]};
      if (range.first >= range.last)
        continue;
      MemoryUse::Part &entry = parts.emplace_back(MemoryUse::Part{range, {}});
      for (unsigned choice : choices)
        entry.usages.push_back(model.getUse().getUsages(segment)[choice]);
    }
    part->use->addNode(choices.size(), parts);
  }
  // One more node stands for all without a choice.
  constexpr Cost mostRest = Cost(1) << 62;
  part->problem.addNode(0, 0, static_cast<int64_t>(std::clamp(rest, -mostRest, mostRest)), 0);
  parts.clear();
  for (unsigned point = 0; point < used.size(); ++point) {
    if (parts.empty() || parts.back().usages.front() != used[point])
      parts.push_back({{point, point}, {used[point]}});
    parts.back().range.last = point + 1;
  }
  part->use->addNode(1, parts);
  std::vector<double> messages, prices;
  for (auto [number, edge] : llvm::enumerate(problem.getEdges())) {
    part->edges.push_back(!isFixed(edge.first) && !isFixed(edge.second));
    if (!part->edges.back())
      continue;
    llvm::ArrayRef<unsigned> firsts = part->left[edge.first], seconds = part->left[edge.second];
    Matrix own{static_cast<unsigned>(firsts.size()), static_cast<unsigned>(seconds.size()), {}};
    own.costs.reserve(firsts.size() * seconds.size());
    for (unsigned first : firsts)
      for (unsigned second : seconds)
        own.costs.push_back(getCost(edge, first, second));
    part->problem.addEdge(part->numbers[edge.first], part->numbers[edge.second],
                          part->problem.addMatrix(std::move(own)));
    for (unsigned choice : firsts)
      messages.push_back(state.messages[messageOffsets[number].first + choice]);
    for (unsigned choice : seconds)
      messages.push_back(state.messages[messageOffsets[number].second + choice]);
  }
  for (unsigned point : part->points)
    prices.push_back(state.prices[point]);
  part->dual.emplace(part->problem, *part->use);
  part->dual->start(std::move(messages), std::move(prices));
  return part;
}

/// The best messages and prices, for the model.
std::shared_ptr<const Dual::State> Branching::getState(const Part &part) const {
  const Dual::State &own = part.dual->getBest();
  if (!std::isfinite(own.bound))
    return nullptr;
  auto state = std::make_shared<Dual::State>();
  state->bound = own.bound;
  state->prices.resize(model.getUse().getPointCount());
  for (auto [point, price] : llvm::zip_equal(part.points, own.prices))
    state->prices[point] = price;
  size_t count = 0;
  for (const Edge &edge : problem.getEdges())
    count += problem.getNodes()[edge.first].size + problem.getNodes()[edge.second].size;
  state->messages.resize(count);
  const double *next = own.messages.data();
  for (auto [number, edge] : llvm::enumerate(problem.getEdges())) {
    auto [first, second] = messageOffsets[number];
    llvm::ArrayRef<unsigned> firsts = part.left[edge.first], seconds = part.left[edge.second];
    if (part.edges[number]) {
      for (unsigned choice : firsts)
        state->messages[first + choice] = *next++;
      for (unsigned choice : seconds)
        state->messages[second + choice] = *next++;
      continue;
    }
    // All that it costs goes to the end that has a choice, if one has.
    const Matrix &matrix = problem.getMatrices()[edge.matrix];
    if (firsts.size() == 1)
      for (unsigned choice : seconds)
        state->messages[second + choice] =
            static_cast<double>(matrix.costs[size_t(firsts.front()) * matrix.columns + choice]);
    else
      for (unsigned choice : firsts)
        state->messages[first + choice] =
            static_cast<double>(matrix.costs[size_t(choice) * matrix.columns + seconds.front()]);
  }
  return state;
}

/// Where what a node uses, at its price, differs much between choices that are both near the best:
/// there prices take a part of each. Where nothing costs memory, nodes with many neighbours.
std::vector<Branching::Division> Branching::findDivisions(const Part &part, double room) const {
  std::vector<Division> result;
  llvm::ArrayRef<double> potentials = part.dual->getPotentials();
  const std::vector<double> &prices = part.dual->getBest().prices;
  std::vector<double> sums{0};
  for (double price : prices)
    sums.push_back(sums.back() + price);
  std::vector<unsigned> degrees(part.problem.getNodes().size());
  for (const Edge &edge : part.problem.getEdges()) {
    ++degrees[edge.first];
    ++degrees[edge.second];
  }
  std::vector<double> paid, levels;
  for (auto [node, number] : llvm::enumerate(part.numbers)) {
    if (number == none)
      continue;
    const Node &entry = part.problem.getNodes()[number];
    const double *own = &potentials[entry.offset];
    double least = *std::min_element(own, own + entry.size);
    paid.assign(entry.size, 0);
    for (const MemoryUse::Segment &segment : part.use->getSegments(number)) {
      double price = sums[segment.range.last] - sums[segment.range.first];
      for (unsigned choice = 0; choice < entry.size; ++choice)
        paid[choice] += price * static_cast<double>(part.use->getUsages(segment)[choice]);
    }
    levels = paid;
    llvm::sort(levels);
    levels.erase(std::unique(levels.begin(), levels.end()), levels.end());
    Division best{static_cast<unsigned>(node), {}, 0};
    double bestLevel = 0;
    for (double level : llvm::ArrayRef(levels).drop_front()) {
      // The cheapest below the level, and from it on.
      double costs[2] = {infinity, infinity}, prices[2] = {0, 0};
      for (unsigned choice = 0; choice < entry.size; ++choice) {
        bool isAbove = paid[choice] >= level;
        if (own[choice] - least < costs[isAbove]) {
          costs[isAbove] = own[choice] - least;
          prices[isAbove] = paid[choice];
        }
      }
      double difference = prices[1] - prices[0];
      double score = difference / (1 + 4 * std::max(costs[0], costs[1]) / difference);
      if (score > best.score) {
        best.score = score;
        bestLevel = level;
      }
    }
    bool isPaid = best.score > 1e-6 * room;
    if (!isPaid) {
      // The best choice, or another.
      unsigned first = std::min_element(own, own + entry.size) - own;
      double second = infinity;
      for (unsigned choice = 0; choice < entry.size; ++choice)
        if (choice != first)
          second = std::min(second, own[choice] - least);
      best.score = 1e-6 * room * degrees[number] / (degrees[number] + 1) /
                   (1 + static_cast<double>(entry.size) * second / std::max(room, 1.0));
      best.choices = {part.left[node][first]};
    } else {
      for (unsigned choice = 0; choice < entry.size; ++choice)
        if (paid[choice] < bestLevel)
          best.choices.push_back(part.left[node][choice]);
    }
    result.push_back(std::move(best));
  }
  llvm::stable_sort(result, [](const Division &a, const Division &b) { return a.score > b.score; });
  if (result.size() > mostDivisions)
    result.resize(mostDivisions);
  return result;
}

/// Makes a solution of what messages say, and improves it by moves.
void Branching::findSolutions(Search &search, const Part &part, const Dual::State &state) const {
  std::vector<double> messages = state.messages;
  // Choices that are not left are far too dear.
  for (auto [edge, offsets] : llvm::zip_equal(problem.getEdges(), messageOffsets))
    for (auto [node, offset] :
         {std::pair(edge.first, offsets.first), {edge.second, offsets.second}})
      for (unsigned choice = 0, next = 0; choice < problem.getNodes()[node].size; ++choice) {
        if (next < part.left[node].size() && part.left[node][next] == choice)
          ++next;
        else
          messages[offset + choice] = 1e25;
      }
  search.setPrices(state.prices);
  std::vector<unsigned> order;
  for (auto [node, number] : llvm::enumerate(part.numbers))
    if (number == none)
      order.push_back(node);
  std::vector<unsigned> nodes(part.problem.getNodes().size(), none);
  for (auto [node, number] : llvm::enumerate(part.numbers))
    if (number != none)
      nodes[number] = node;
  for (unsigned number : part.dual->getOrder())
    if (nodes[number] != none)
      order.push_back(nodes[number]);
  for (double price : {1.0, 1.1, 1.5})
    search.construct(order, messages, price);
  if (!search.fits())
    return;
  double unit = std::max(std::abs(state.bound), 1.0) /
                static_cast<double>(std::max<size_t>(search.getMovableCount(), 1));
  unsigned made = 0;
  search.run([&]() -> std::optional<Search::Stage> {
    if (made == heatedMoves + pricedMoves + freeMoves)
      return std::nullopt;
    Search::Stage stage;
    stage.blocks = 1;
    stage.temperature = made < heatedMoves ? heat * unit : 0;
    stage.price = made < heatedMoves + pricedMoves ? 1 : 0;
    ++made;
    return stage;
  });
}

void Branching::keepSolution(const Search &search) {
  if (!search.hasSolution())
    return;
  Assignment assignment = model.expand(search.getBest());
  std::optional<Cost> cost = whole.getCost(assignment);
  if (!cost || (upper && *cost >= *upper) || whole.getPeak(assignment) > whole.limit)
    return;
  upper = *cost;
  best = search.getBest();
}

void Branching::bound(Task &task, llvm::function_ref<bool()> isStopped) const {
  task.part = makePart(std::move(task.left), *task.entry.state);
  if (!task.part)
    return;
  Dual &dual = *task.part->dual;
  double before = -infinity;
  for (unsigned i = 0; i < mostSweeps && !isStopped(); ++i, ++task.sweeps) {
    double bound = dual.getBest().bound;
    if (std::ceil(bound - 1e-6) >= task.target)
      break;
    if (i % sweepsAtOnce == 0 && i > 0) {
      if (bound - before < leastProgress * (std::min(task.target, 2 * std::abs(bound)) - bound))
        break;
      before = bound;
    }
    dual.iterate(task.target);
  }
  task.state = getState(*task.part);
  if (!task.state)
    return;
  dual.restore();
  findSolutions(*searches[task.worker], *task.part, *task.state);
}

/// Tries divisions by a few sweeps of both sides, and takes the one that raises both bounds most.
void Branching::chooseDivision(Task &task, llvm::function_ref<bool()> isStopped) const {
  double bound = task.state->bound;
  double room = std::isfinite(task.target) ? task.target - bound : std::abs(bound);
  double bestGain = -1;
  for (Division &division : findDivisions(*task.part, room)) {
    if (isStopped())
      return;
    // What was left out since may have decided it.
    llvm::ArrayRef<unsigned> choices = task.left[division.node];
    std::vector<unsigned> sides[2];
    for (unsigned choice : choices)
      sides[!llvm::is_contained(division.choices, choice)].push_back(choice);
    if (sides[0].empty() || sides[1].empty())
      continue;
    std::shared_ptr<const Dual::State> states[2];
    double gain = 1;
    for (int side : {0, 1}) {
      std::vector<std::vector<unsigned>> restricted = task.left;
      restricted[division.node] = sides[side];
      std::unique_ptr<Part> trial = makePart(std::move(restricted), *task.state);
      for (unsigned i = 0; trial && i < sweepsPerTrial && !isStopped(); ++i, ++task.sweeps)
        trial->dual->iterate(task.target);
      double raised = trial ? 0 : room;
      if (trial && (states[side] = getState(*trial)))
        raised = states[side]->bound - bound;
      gain *= std::max(std::min(raised, room), 1e-6 * room);
    }
    if (gain > bestGain) {
      bestGain = gain;
      task.division = std::move(division);
      std::swap(task.sides, states);
    }
  }
}

/// What overflows is not confirmed: the case keeps the bound that it had.
void Branching::raise(unsigned number, const Dual::State &state) {
  Certificate dual;
  model.addDual(dual, state);
  cases->raise(number, dual, upper);
}

void Branching::divide(Task &task) {
  const Division &division = *task.division;
  std::vector<unsigned> choices;
  for (unsigned choice : division.choices)
    choices.push_back(model.getChoice(division.node, choice));
  unsigned number = task.entry.number;
  unsigned numbers[2] = {number, cases->split(number, model.getLeader(division.node), choices)};
  for (int side : {0, 1}) {
    if (task.sides[side])
      raise(numbers[side], *task.sides[side]);
    if (cases->isClosed(numbers[side]))
      continue;
    std::shared_ptr<const Dual::State> from = task.sides[side] ? task.sides[side] : task.state;
    open.push_back({numbers[side], std::max(task.state->bound, from->bound), std::move(from)});
  }
}

/// The lowest bound first, unless so many are open that the newest has to be.
Branching::Open Branching::takeNext() {
  auto next = open.end() - 1;
  if (open.size() * std::max<size_t>(next->state->messages.size(), 1) <= mostNumbers)
    next = llvm::min_element(open, [](const Open &a, const Open &b) { return a.bound < b.bound; });
  Open entry = std::move(*next);
  open.erase(next);
  return entry;
}

void Branching::inParallel(llvm::MutableArrayRef<Task> tasks,
                           llvm::function_ref<void(Task &)> work) {
  std::vector<std::thread> threads;
  for (Task &task : tasks.drop_front())
    threads.emplace_back([&work, &task] { work(task); });
  work(tasks.front());
  for (std::thread &thread : threads)
    thread.join();
}

bool Branching::step(unsigned workers, llvm::function_ref<bool()> isStopped) {
  while (searches.size() < workers) {
    searches.push_back(
        std::make_unique<Search>(problem, model.getUse(), seed + 1000 * searches.size()));
    if (searches.front()->hasSolution())
      searches.back()->setAssignment(Assignment(searches.front()->getBest()));
  }
  std::vector<Task> tasks;
  while (tasks.size() < workers && !open.empty()) {
    Task &task = tasks.emplace_back();
    task.worker = tasks.size() - 1;
    task.entry = takeNext();
    task.target = target();
    task.left = getLeft(task.entry.number);
    task.sweeps = 1;
  }
  if (tasks.empty())
    return false;
  steps += tasks.size();
  inParallel(tasks, [&](Task &task) { bound(task, isStopped); });
  for (Task &task : tasks)
    keepSolution(*searches[task.worker]);
  std::vector<Task> toDivide;
  for (Task &task : tasks) {
    unsigned number = task.entry.number;
    if (task.state)
      raise(number, *task.state);
    if (task.part && !cases->isClosed(number)) {
      if (isStopped() || !task.state) {
        open.push_back(std::move(task.entry));
      } else {
        task.target = target();
        task.left = getLeft(number);
        toDivide.push_back(std::move(task));
        continue;
      }
    }
    sweeps += task.sweeps;
  }
  if (!toDivide.empty())
    inParallel(toDivide, [&](Task &task) { chooseDivision(task, isStopped); });
  for (Task &task : toDivide) {
    sweeps += task.sweeps;
    if (task.division)
      divide(task);
    else
      open.push_back({task.entry.number, task.state->bound, std::move(task.state)});
  }
  return true;
}
