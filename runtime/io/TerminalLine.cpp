//===- TerminalLine.cpp - who may print next to the progress --------------===//

#include "runtime/io/TerminalLine.h"
#include <atomic>
#include <cstdio>
#include <new>
#include <sys/mman.h>
#include <unistd.h>

using namespace cleave::runtime;

using Flag = std::atomic<bool>;
static_assert(Flag::is_always_lock_free, "processes share it");

static Flag ownFlag;
static Flag *isOpen = &ownFlag;

void cleave::runtime::shareTerminalLine() {
  void *page =
      ::mmap(nullptr, sizeof(Flag), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  // Without it messages still appear, if need be after the progress.
  if (page != MAP_FAILED)
    isOpen = new (page) Flag(isOpen->load());
}

void cleave::runtime::beginTerminalLine() {
  isOpen->store(true);
}

void cleave::runtime::endTerminalLine() {
  if (!isOpen->exchange(false))
    return;
  std::fflush(stdout);
  (void)!::write(STDOUT_FILENO, "\n", 1);
}
