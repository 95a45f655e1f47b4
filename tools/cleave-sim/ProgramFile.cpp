// Reads a program's schedule and measures its stages.
#include "ProgramFile.h"

#include "dialects/Register.h"
#include "dialects/dist/Dist.h"
#include "lib/pipeline/Schedules.h"
#include "lib/pipeline/StageWork.h"
#include "lib/pipeline/Stages.h"
#include "lib/support/Error.h"
#include "lib/support/Input.h"

#include "mlir/Parser/Parser.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/SourceMgr.h"

#include <chrono>

using namespace mlir;
using namespace cleave;
using namespace cleave::sim;
using cleave::makeError;

namespace {
class Reader {
public:
  explicit Reader(const ProgramRequest &request) : request(request), os(diagnostics) {}

  llvm::Expected<ProgramFile> read() {
    if (llvm::Error error = parse())
      return error;
    if (llvm::Error error = checkAxes())
      return error;
    ProgramFile file;
    file.path = request.path;
    auto stages = pipeline::getStages(*module);
    if (failed(stages))
      return invalid();
    file.isStaged = !stages->empty();
    if (!file.isStaged && request.takesUnstaged)
      if (llvm::Error error = readWhole(*stages))
        return error;
    bool isWhole = !file.isStaged && !stages->empty();
    if (request.wantsSchedule && !isWhole)
      if (llvm::Error error = readSchedule(file))
        return error;
    if (stages->empty()) {
      if (!request.wantsSchedule)
        return makeError(
            "{0}: expected a program with stages, found none: run cleave-opt --outline-stages",
            request.path);
      return file;
    }
    if (file.schedule && failed(pipeline::checkStages(*stages, *file.schedule, location)))
      return invalid();
    auto parsed = std::chrono::steady_clock::now();
    file.readSeconds = std::chrono::duration<double>(parsed - begin).count();
    pipeline::MeasureOptions options;
    if (request.wantsTimes)
      options.axisSizes = &request.axisSizes;
    if (!axis.empty())
      options.axis = axis;
    options.ranks = isWhole         ? 1
                    : file.schedule ? file.schedule->numRanks()
                                    : std::max(request.ranks, 1u);
    auto work = pipeline::measureStages(*stages, options);
    if (failed(work))
      return invalid();
    file.work = std::move(*work);
    file.measureSeconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - parsed).count();
    return file;
  }

private:
  llvm::Error parse() {
    auto buffer = support::readInput(request.path);
    if (!buffer)
      return buffer.takeError();
    DialectRegistry registry;
    registerDialects(registry);
    context = std::make_unique<MLIRContext>(registry, MLIRContext::Threading::DISABLED);
    context->printOpOnDiagnostic(false);
    sources = std::make_shared<llvm::SourceMgr>();
    sources->AddNewSourceBuffer(std::move(*buffer), llvm::SMLoc());
    handler = std::make_unique<SourceMgrDiagnosticHandler>(*sources, context.get(), os);
    module = parseSourceFile<ModuleOp>(sources, ParserConfig(context.get()));
    return module ? llvm::Error::success() : invalid();
  }

  /// The functions of a program that is not in stages.
  llvm::Error readWhole(std::vector<train::ProgramFunctions> &stages) {
    for (auto function : module->getOps<func::FuncOp>())
      for (unsigned index = 0; index < function.getNumArguments(); ++index)
        if (function.getArgAttr(index, "dist.placement"))
          return makeError("{0}: expected what one rank runs, found a program with placements to "
                           "be: run cleave-opt --propagate-placements --partition",
                           request.path);
    auto program = train::getProgram(*module, train::ProgramForms::Any);
    if (failed(program))
      return invalid();
    if (program->getFunctions().empty())
      return makeError("{0}: expected a training program, found no function with a phase",
                       request.path);
    stages.push_back(std::move(*program));
    return llvm::Error::success();
  }

  /// An axis that no mesh has, or has with another size, is one that is spelled wrong.
  llvm::Error checkAxes() {
    llvm::MapVector<llvm::StringRef, int64_t> sizes;
    for (auto mesh : module->getOps<dist::MeshOp>())
      for (auto axis : mesh.getAxes().getAsRange<dist::AxisAttr>())
        sizes[axis.getName()] = axis.getSize();
    for (const auto &entry : request.axisSizes) {
      auto found = sizes.find(entry.first());
      if (found == sizes.end())
        return makeError("--axis: expected an axis of the program's mesh ({0}), found '{1}'",
                         sizes.empty() ? "it has none"
                                       : llvm::join(llvm::make_first_range(sizes), ", "),
                         entry.first());
      // 0 is a size that the program leaves open.
      if (found->second != 0 && found->second != entry.second)
        return makeError("--axis: axis '{0}' has {1} ranks in the program, found {2}",
                         entry.first(), found->second, entry.second);
    }
    return llvm::Error::success();
  }

  llvm::Error readSchedule(ProgramFile &file) {
    auto ops = llvm::to_vector(module->getOps<pipeline::ScheduleOp>());
    if (!request.symbol.empty())
      llvm::erase_if(ops,
                     [&](pipeline::ScheduleOp op) { return op.getSymName() != request.symbol; });
    if (ops.empty())
      return request.symbol.empty()
                 ? makeError("{0}: expected a pipeline.schedule, found none: run cleave-opt "
                             "--build-schedule, or give --schedule=NAME",
                             request.path)
                 : makeError("{0}: has no pipeline.schedule named '{1}'", request.path,
                             request.symbol);
    if (ops.size() > 1)
      return makeError("{0}: has {1} schedules: select one with --symbol ('{2}', '{3}', ...)",
                       request.path, ops.size(), ops[0].getSymName(), ops[1].getSymName());
    auto program = pipeline::readSchedule(ops.front());
    if (failed(program))
      return invalid();
    schedule::VerifyOptions options;
    options.computeOnly = !program->hasP2P();
    options.maxProblems = 1;
    std::vector<schedule::Problem> problems = schedule::verify(*program, options);
    pipeline::emitProblems(ops.front(), *program, problems);
    if (!problems.empty())
      return invalid();
    location = ops.front().getLoc();
    if (std::optional<StringRef> name = ops.front().getAxis())
      axis = name->str();
    file.schedule = std::move(*program);
    return llvm::Error::success();
  }

  llvm::Error invalid() {
    llvm::StringRef text = llvm::StringRef(diagnostics).rtrim();
    return makeError("{0} cannot be simulated:\n{1}", request.path,
                     text.empty() ? "it is neither MLIR text nor MLIR bytecode" : text);
  }

  const ProgramRequest &request;
  std::string diagnostics;
  llvm::raw_string_ostream os;
  std::unique_ptr<MLIRContext> context;
  std::shared_ptr<llvm::SourceMgr> sources;
  std::unique_ptr<SourceMgrDiagnosticHandler> handler;
  OwningOpRef<ModuleOp> module;
  LocationAttr location;
  std::string axis; // of the schedule's ranks, where it says which
  std::chrono::steady_clock::time_point begin = std::chrono::steady_clock::now();
};
} // namespace

llvm::Expected<ProgramFile> sim::readProgramFile(const ProgramRequest &request) {
  return Reader(request).read();
}
