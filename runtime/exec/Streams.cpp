//===- Streams.cpp - events between a lowered function's streams ------------------===//
//
// `exec.record` and `exec.wait` of functions that say what runs on which stream, where the device
// has streams.
//
//===----------------------------------------------------------------------===//

#include "dialects/exec/Lowered.h"
#include "runtime/device/Device.h"
#include "runtime/exec/Kernels.h"

using namespace mlir;
using namespace cleave::runtime;
namespace exec = cleave::exec;

StreamKind cleave::runtime::streamOf(Operation *op) {
  switch (exec::getStream(op)) {
  case exec::Stream::Compute:
    return StreamKind::Compute;
  case exec::Stream::Communication:
    return StreamKind::Communication;
  case exec::Stream::Host:
    return StreamKind::Host;
  }
  llvm_unreachable("unknown stream");
}

namespace {
/// One event of the device, which is recorded again in each run.
class EventHolder : public torch::CustomClassHolder {
public:
  std::optional<c10::Event> event;
};

class Record : public Instruction {
public:
  Destination result;
  StreamKind kind;
  const Device *device;

  void execute(Frame &frame) override {
    if (!holder)
      holder = c10::make_intrusive<EventHolder>();
    device->recordAgain(holder->event, kind);
    result.write(frame, c10::IValue::make_capsule(holder));
  }

private:
  c10::intrusive_ptr<EventHolder> holder;
};

class WaitForEvent : public Instruction {
public:
  Operand event;
  StreamKind kind;
  const Device *device;

  void execute(Frame &frame) override {
    c10::IValue value = event.read(frame);
    device->wait(c10::static_intrusive_pointer_cast<EventHolder>(value.toCapsule())->event, kind);
  }
};
} // namespace

BindResult cleave::runtime::bindDeviceEvent(Binder &binder, Operation *op) {
  if (auto record = dyn_cast<exec::RecordOp>(op)) {
    auto instruction = std::make_unique<Record>();
    instruction->result = binder.define(record.getEvent());
    instruction->kind = streamOf(op);
    instruction->device = binder.services().device;
    return instruction;
  }
  if (auto wait = dyn_cast<exec::WaitOp>(op)) {
    auto instruction = std::make_unique<WaitForEvent>();
    instruction->event = binder.use(wait.getEvent());
    instruction->kind = streamOf(op);
    instruction->device = binder.services().device;
    return instruction;
  }
  return std::unique_ptr<Instruction>();
}
