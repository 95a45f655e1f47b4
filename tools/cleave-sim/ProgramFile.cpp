// Reads a program's schedule and measures its stages.
#include "ProgramFile.h"

#include "dialects/Register.h"
#include "dialects/dist/Dist.h"
#include "lib/pipeline/Schedules.h"
#include "lib/pipeline/StageWork.h"
#include "lib/pipeline/Stages.h"
#include "lib/support/Buffer.h"
#include "lib/support/Error.h"
#include "lib/support/Input.h"

#include "mlir/Parser/Parser.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/SourceMgr.h"

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
    if (request.wantsSchedule)
      if (llvm::Error error = readSchedule(file))
        return error;
    auto stages = pipeline::getStages(*module);
    if (failed(stages))
      return invalid();
    if (stages->empty()) {
      if (!request.wantsSchedule)
        return makeError(
            "{0}: expected a program with stages, found none: run cleave-opt --outline-stages",
            request.path);
      return file;
    }
    if (file.schedule && failed(pipeline::checkStages(*stages, *file.schedule, location)))
      return invalid();
    auto work = pipeline::measureStages(*stages, request.wantsTimes ? &request.axisSizes : nullptr);
    if (failed(work))
      return invalid();
    file.stages = std::move(*work);
    return file;
  }

private:
  llvm::Error parse() {
    if (llvm::sys::fs::is_directory(request.path))
      return makeError("{0}: is a directory", request.path);
    auto buffer = llvm::MemoryBuffer::getFile(request.path);
    if (!buffer)
      return makeError("{0}: {1}", request.path, buffer.getError().message());
    if ((*buffer)->getBufferSize() == 0)
      return makeError("{0}: the file is empty", request.path);
    if (llvm::Error error = support::checkInput((*buffer)->getBuffer(), request.path))
      return error;
    DialectRegistry registry;
    registerDialects(registry);
    context = std::make_unique<MLIRContext>(registry, MLIRContext::Threading::DISABLED);
    context->printOpOnDiagnostic(false);
    sources = std::make_shared<llvm::SourceMgr>();
    sources->AddNewSourceBuffer(support::align(std::move(*buffer)), llvm::SMLoc());
    handler = std::make_unique<SourceMgrDiagnosticHandler>(*sources, context.get(), os);
    module = parseSourceFile<ModuleOp>(sources, ParserConfig(context.get()));
    return module ? llvm::Error::success() : invalid();
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
};
} // namespace

llvm::Expected<ProgramFile> sim::readProgramFile(const ProgramRequest &request) {
  return Reader(request).read();
}
