//===- Requests.h - answers to what a running op asks of the allocator -*- C++ -*-===//
//
// Operators that cannot be told where to write still ask the allocator for their results. An op's
// kernels ask for the same sizes in the same order each time, so watching one run shows which
// request becomes which result; from then on that request is answered with the address that the
// plan has for the result. Everything else that is asked for while an op runs is its workspace.
//
// Works with the allocator of `installCachingAllocator`, and with those of devices whose plugin
// asks (runtime/device/Plugin.h). Code that relies on an address must check where the result is
// afterwards: the watched order is what kernels do, not what they promise.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_RUNTIME_ATEN_REQUESTS_H
#define CLEAVE_RUNTIME_ATEN_REQUESTS_H

#include <c10/core/DeviceType.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace cleave::runtime {

class Requests {
public:
  /// For memory of devices of a single kind; what is asked of other allocators is none of these.
  explicit Requests(c10::DeviceType type = c10::DeviceType::CPU) : type(type) {}
  /// The requests of an op none of whose results are planned.
  static Requests ofWorkspace() {
    Requests requests;
    requests.expectNothing();
    return requests;
  }
  c10::DeviceType deviceType() const { return type; }

  /// The next run is watched; what was known before is forgotten.
  void watch();
  /// After a watched run: the number of the request that was answered with `data`, the last one
  /// if memory was freed and reused; none for memory of other origin.
  std::optional<uint32_t> find(const void *data) const;
  /// From now on request `index`, if it is for `bytes`, is for a result: it gets `address`, or new
  /// memory where that is null. Ends the watching.
  void expect(uint32_t index, size_t bytes, void *address);
  /// Ends the watching; all further requests are for workspace.
  void expectNothing();

  /// What a request is answered with.
  struct Answer {
    void *address = nullptr; ///< null: new memory
    bool isResult = false;
  };
  Answer next(size_t bytes);
  void note(const void *data);
  bool isWatching() const { return watching; }

  /// While it lives, requests of this thread are this op's.
  class Scope {
  public:
    explicit Scope(Requests &requests) : outer(running) {
      requests.count = 0;
      running = &requests;
      runsPrograms = true;
    }
    ~Scope() { running = outer; }
    Scope(const Scope &) = delete;

  private:
    Requests *outer;
  };
  /// This thread's requests for memory of that type; null if no such scope is open.
  static Requests *current(c10::DeviceType type) {
    return running && running->type == type ? running : nullptr;
  }

  /// Threads that run programs ask for tensors outside of ops, too. All that others ask for is
  /// workspace: messages of a communication backend's threads, say.
  static void enterThread() { runsPrograms = true; }
  static bool isProgramThread() { return runsPrograms; }

private:
  struct Result {
    uint32_t index;
    size_t bytes;
    void *address;
  };
  c10::DeviceType type;
  std::vector<Result> results;
  std::vector<const void *> watched;
  uint32_t count = 0;
  bool watching = true;
  static thread_local Requests *running;
  static thread_local bool runsPrograms;
};

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_ATEN_REQUESTS_H
