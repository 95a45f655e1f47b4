//===- IoDriver.cpp - runtime/io as a program for the Python tests --------===//
//
//   copy IN OUT                       reads a safetensors file and writes it again
//   events DIR                        writes scalars to a TensorBoard event file
//   tokens SOURCE ROWS LENGTH MICROBATCHES RANKS SEED STEPS
//                                     prints the inputs and targets of a run, a microbatch a line
//   trace OUT                         writes a trace of two ranks
//
//===----------------------------------------------------------------------===//

#include "runtime/io/Data.h"
#include "runtime/io/Metrics.h"
#include "runtime/io/Safetensors.h"
#include "runtime/io/Trace.h"
#include "llvm/Support/Endian.h"
#include "llvm/Support/raw_ostream.h"

using namespace cleave::runtime;

static llvm::Error copy(llvm::StringRef from, llvm::StringRef to) {
  auto file = SafetensorsFile::open(from);
  if (!file)
    return file.takeError();
  return writeSafetensors(to, (*file)->tensors(), (*file)->metadata());
}

static llvm::Error writeEvents(llvm::StringRef directory) {
  auto events = EventWriter::open(directory);
  if (!events)
    return events.takeError();
  for (int step = 1; step <= 300; ++step)
    if (llvm::Error error = (*events)->write({step, 1.0 / step, 100.0 * step, 2.5}))
      return error;
  return llvm::Error::success();
}

static llvm::Error printTokens(DataOptions options, int64_t rows, int64_t length, int64_t steps) {
  std::vector<InputSpec> inputs = {{"x", DType::I64, {rows, length}, 0u, false, 0},
                                   {"y", DType::I64, {rows, length}, 0u, true, 0}};
  auto source = DataSource::open(options, inputs);
  if (!source)
    return source.takeError();
  for (int64_t step = 0; step < steps; ++step)
    for (int64_t rank = 0; rank < options.ranks; ++rank)
      for (int64_t microbatch = 0; microbatch < options.microbatches; ++microbatch) {
        auto tensors = (*source)->read({step, rank, microbatch});
        if (!tensors)
          return tensors.takeError();
        for (const HostTensor &tensor : *tensors)
          for (size_t i = 0; i < tensor.bytes.size(); i += 8)
            llvm::outs() << llvm::support::endian::read64le(tensor.bytes.data() + i) << ' ';
        llvm::outs() << '\n';
      }
  return llvm::Error::success();
}

static llvm::Error writeTrace(const std::string &path) {
  std::vector<std::string> parts = {path + ".0", path + ".1"};
  for (int rank : {0, 1}) {
    auto trace = TraceWriter::open(parts[rank], rank, wallTime(0));
    if (!trace)
      return trace.takeError();
    for (int i = 0; i < 20'000; ++i)
      (*trace)->slice("aten.mm", "op", "model.py:" + std::to_string(i), 1000 * i, 1000 * i + 500);
    if (llvm::Error error = (*trace)->close())
      return error;
  }
  auto joined = OutputFile::open(path);
  return joined ? mergeTraces(parts, **joined) : joined.takeError();
}

int main(int argc, char **argv) {
  std::vector<std::string> args(argv + 1, argv + argc);
  llvm::Error error = makeError("expected copy, events, tokens or trace and their arguments");
  auto run = [&](llvm::Error result) {
    llvm::consumeError(std::move(error));
    error = std::move(result);
  };
  if (args.size() == 3 && args[0] == "copy")
    run(copy(args[1], args[2]));
  else if (args.size() == 2 && args[0] == "events")
    run(writeEvents(args[1]));
  else if (args.size() == 2 && args[0] == "trace")
    run(writeTrace(args[1]));
  else if (args.size() == 8 && args[0] == "tokens")
    run(printTokens({args[1], std::stoull(args[6]), std::stoll(args[4]), std::stoll(args[5])},
                    std::stoll(args[2]), std::stoll(args[3]), std::stoll(args[7])));
  if (!error)
    return 0;
  llvm::errs() << "error: " << llvm::toString(std::move(error)) << '\n';
  return 1;
}
