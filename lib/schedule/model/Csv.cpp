// The CSV form of torch.distributed.pipelining (torch 2.11, schedules.py, _Action).
#include "lib/schedule/model/ParseError.h"
#include "lib/schedule/model/Text.h"

#include "lib/schedule/model/Verify.h"
#include "lib/support/Error.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

#include <algorithm>
#include <map>

using namespace cleave::schedule;
using cleave::makeError;

namespace {
struct Spelling {
  const char *text;
  ActionKind kind;
};
// Longer spellings first where one begins another.
constexpr Spelling spellings[] = {
    {"UNSHARD", ActionKind::Unshard},        {"RESHARD", ActionKind::Reshard},
    {"REDUCE_GRAD", ActionKind::ReduceGrad}, {"SEND_F", ActionKind::SendForward},
    {"RECV_F", ActionKind::RecvForward},     {"SEND_B", ActionKind::SendBackward},
    {"RECV_B", ActionKind::RecvBackward},    {"F", ActionKind::Forward},
    {"I", ActionKind::BackwardInput},        {"B", ActionKind::Backward},
    {"W", ActionKind::BackwardWeight}};

const char *spellingOf(ActionKind kind) {
  for (const Spelling &spelling : spellings)
    if (spelling.kind == kind)
      return spelling.text;
  return nullptr;
}
} // namespace

/// Empty if torch can say it.
static std::string whyNotInCsv(const Schedule &program, Action action) {
  if (action.kind == ActionKind::Compose) {
    for (Action member : program.groupOf(action))
      if (!isCompute(member.kind))
        return "torch's groups hold compute actions only";
    return "";
  }
  return spellingOf(action.kind) ? "" : "PyTorch's format has no such action";
}

static void printCell(const Schedule &program, Action action, llvm::raw_ostream &os) {
  if (action.kind == ActionKind::Compose) {
    os << '(';
    llvm::interleave(
        program.groupOf(action), [&](Action member) { printCell(program, member, os); },
        [&] { os << ';'; });
    os << ")OVERLAP_F_B";
    return;
  }
  os << action.stage << spellingOf(action.kind);
  if (hasMicrobatch(action.kind))
    os << action.index;
}

/// Where each stage's last bucket is reduced: that is where torch reduces all of its gradients.
static std::map<unsigned, size_t> findLastReductions(llvm::ArrayRef<Action> list) {
  std::map<unsigned, size_t> last;
  for (auto [position, action] : llvm::enumerate(list))
    if (action.kind == ActionKind::ReduceGrad)
      last[action.stage] = position;
  return last;
}

llvm::Error cleave::schedule::printCsv(const Schedule &program, llvm::raw_ostream &os,
                                       const CsvOptions &options) {
  for (size_t rank = 0; rank < program.ranks.size(); ++rank) {
    llvm::ArrayRef<Action> list = program.ranks[rank];
    std::map<unsigned, size_t> lastReductions = findLastReductions(list);
    // torch leaves the optimizer's step to its user, who takes it when all else is done.
    while (!list.empty() && list.back().kind == ActionKind::OptimizerStep)
      list = list.drop_back();
    bool first = true;
    for (auto [position, action] : llvm::enumerate(list)) {
      bool compute = isCompute(action.kind) || action.kind == ActionKind::Compose;
      bool droppable = spellingOf(action.kind) != nullptr;
      if (options.computeOnly && !compute && droppable)
        continue;
      if (action.kind == ActionKind::ReduceGrad && lastReductions[action.stage] != position)
        continue;
      if (std::string why = whyNotInCsv(program, action); !why.empty())
        return makeError("rank {0}, position {1}: {2} cannot be written as CSV: {3}", rank,
                         position, program.str(action), why);
      if (!first)
        os << ',';
      first = false;
      printCell(program, action, os);
    }
    os << '\n';
  }
  return llvm::Error::success();
}

namespace {
class CsvParser {
public:
  CsvParser(llvm::StringRef text, llvm::StringRef source, ActionOffsets *offsets)
      : text(text), source(source), offsets(offsets) {}

  llvm::Expected<Schedule> run() {
    for (llvm::StringRef rest = text; !rest.empty();) {
      auto [row, after] = rest.split('\n');
      rowStart = row.data() - text.data();
      if (llvm::Error error = parseRow(row.rtrim("\r")))
        return error;
      rest = after;
    }
    if (program.ranks.empty())
      return error("the file has no rows: expected one row per rank");
    for (size_t stage = 0; stage < stageToRank.size(); ++stage)
      if (stageToRank[stage] == unplaced)
        return error("stage {0} occurs on no rank, but stage {1} does", stage,
                     stageToRank.size() - 1);
    auto topology = Topology::fromMap(unsigned(program.ranks.size()), stageToRank);
    if (!topology)
      return error("{0}", llvm::toString(topology.takeError()));
    program.topology = std::move(*topology);
    program.name = "csv";
    program.forwardOnly = !hasBackward;
    if (std::optional<Problem> problem = checkStructure(program))
      return error("{0}", problem->str());
    return std::move(program);
  }

private:
  static constexpr unsigned unplaced = ~0u;

  template <typename... Args> static std::string format(const char *format, Args &&...args) {
    return llvm::formatv(/*Validate=*/false, format, std::forward<Args>(args)...).str();
  }
  template <typename... Args> llvm::Error error(const char *text, Args &&...args) const {
    return llvm::make_error<ParseError>(format(text, std::forward<Args>(args)...), source);
  }
  /// `column` is of the current row, from 0.
  template <typename... Args>
  llvm::Error errorAt(size_t column, const char *message, Args &&...args) const {
    Place place{unsigned(program.ranks.size() - 1), program.ranks.back().size()};
    return llvm::make_error<ParseError>(format(message, std::forward<Args>(args)...), source, text,
                                        rowStart + column, place);
  }

  llvm::Error parseRow(llvm::StringRef row) {
    program.ranks.emplace_back();
    if (offsets)
      offsets->emplace_back();
    for (size_t column = 0; column <= row.size();) {
      size_t end = std::min(row.find(',', column), row.size());
      llvm::StringRef cell = row.slice(column, end);
      size_t at = column + (cell.size() - cell.ltrim().size());
      cell = cell.trim();
      column = end + 1;
      // The csv module quotes a cell only if it holds a comma or a quote, which actions do not.
      if (cell.size() >= 2 && cell.front() == '"' && cell.back() == '"') {
        cell = cell.drop_front().drop_back();
        ++at;
      }
      if (cell.empty())
        continue;
      if (llvm::Error error = parseCell(cell, at))
        return error;
    }
    return llvm::Error::success();
  }

  llvm::Error parseCell(llvm::StringRef cell, size_t column) {
    std::vector<Action> &list = program.ranks.back();
    if (offsets)
      offsets->back().push_back(rowStart + column);
    if (cell.front() != '(') {
      Action action;
      if (llvm::Error error = parseAction(cell, column, action))
        return error;
      list.push_back(action);
      return llvm::Error::success();
    }
    size_t close = cell.find(')');
    if (close == llvm::StringRef::npos)
      return errorAt(column, "expected ')' in '{0}'", cell);
    if (cell.drop_front(close + 1) != "OVERLAP_F_B")
      return errorAt(column + close + 1, "expected 'OVERLAP_F_B' after the group, found '{0}'",
                     cell.drop_front(close + 1));
    std::vector<Action> members;
    for (size_t at = 1; at <= close;) {
      size_t end = std::min(cell.find(';', at), close);
      Action member;
      if (llvm::Error error = parseAction(cell.slice(at, end), column + at, member))
        return error;
      members.push_back(member);
      at = end + 1;
    }
    list.push_back(program.addGroup(members));
    return llvm::Error::success();
  }

  llvm::Error parseAction(llvm::StringRef cell, size_t column, Action &action) {
    llvm::StringRef rest = cell;
    unsigned stage = 0, index = 0;
    if (rest.consumeInteger(10, stage))
      return errorAt(column, "expected [stage][action][microbatch], as in 2F0, found '{0}'", cell);
    if (stage >= maxStages)
      return errorAt(column, "stage {0} is out of range: at most {1} stages", stage, maxStages);
    const Spelling *found = llvm::find_if(
        spellings, [&](const Spelling &spelling) { return rest.consume_front(spelling.text); });
    if (found == std::end(spellings))
      return errorAt(column,
                     "expected F, I, B, W, SEND_F, RECV_F, SEND_B, RECV_B, UNSHARD, RESHARD or "
                     "REDUCE_GRAD after the stage, found '{0}'",
                     cell);
    bool needsIndex = hasMicrobatch(found->kind);
    if (needsIndex ? rest.getAsInteger(10, index) : !rest.empty())
      return errorAt(column, "expected {0} after {1}, found '{2}'",
                     needsIndex ? "a microbatch" : "nothing", found->text, cell);
    if (index >= maxMicrobatches)
      return errorAt(column, "microbatch {0} is out of range: at most {1} microbatches", index,
                     maxMicrobatches);
    action = Action(found->kind, stage, index);
    unsigned rank = unsigned(program.ranks.size() - 1);
    if (stage >= stageToRank.size())
      stageToRank.resize(stage + 1, unplaced);
    if (stageToRank[stage] != unplaced && stageToRank[stage] != rank)
      return errorAt(column, "stage {0} is on rank {1} already, and here on rank {2}", stage,
                     stageToRank[stage], rank);
    stageToRank[stage] = rank;
    if (needsIndex)
      program.numMicrobatches = std::max(program.numMicrobatches, index + 1);
    hasBackward |= makesInputGradient(action.kind) || action.kind == ActionKind::BackwardWeight;
    return llvm::Error::success();
  }

  llvm::StringRef text, source;
  ActionOffsets *offsets;
  size_t rowStart = 0;
  Schedule program;
  std::vector<unsigned> stageToRank;
  bool hasBackward = false;
};
} // namespace

llvm::Expected<Schedule> cleave::schedule::parseCsv(llvm::StringRef text, llvm::StringRef source,
                                                    ActionOffsets *offsets) {
  return CsvParser(text, source, offsets).run();
}
