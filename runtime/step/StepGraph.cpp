//===- StepGraph.cpp - a part of a step as one graph of the device ----------------===//

#include "runtime/step/StepGraph.h"
#include "runtime/io/Error.h"

using namespace cleave::runtime;

llvm::Error StepGraph::run(llvm::function_ref<llvm::Error()> body) {
  if (graph)
    return graph->replay();
  if (runs++ < kRunsBefore)
    return body();
  if (llvm::Error error = guarded([&] { device.synchronize(); }))
    return error;
  llvm::Expected<std::unique_ptr<DeviceGraph>> begun = device.plugin()->beginCapture();
  if (!begun)
    return begun.takeError();
  device.setRecording(true);
  llvm::Error failure = body();
  device.setRecording(false);
  // It ends in any case, or the stream could not be used any more.
  llvm::Error end = (*begun)->end();
  if (failure) {
    llvm::consumeError(std::move(end));
    return makeError("the step cannot be recorded as a graph (--graphs=off runs it without "
                     "recording): {0}",
                     llvm::toString(std::move(failure)));
  }
  if (end)
    return end;
  graph = std::move(*begun);
  return graph->replay();
}
