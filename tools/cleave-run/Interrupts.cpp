//===- Interrupts.cpp - signals that end a run in good order -----------------===//

#include "tools/cleave-run/Interrupts.h"

#include <csignal>
#include <ctime>
#include <mutex>

static constexpr int kSignals[] = {SIGTERM, SIGINT};
static struct sigaction before[2];
static volatile std::sig_atomic_t noted = 0;
static time_t notedAt;

static time_t secondsNow() {
  struct timespec now;
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec;
}

static void note(int signal) {
  if (!noted) {
    noted = signal;
    notedAt = secondsNow();
    return;
  }
  // What is sent to a process group comes twice where the ranks' supervisor passes it on.
  if (secondsNow() - notedAt < 2)
    return;
  for (int i = 0; i < 2; ++i)
    ::sigaction(kSignals[i], &before[i], nullptr);
  ::raise(signal);
}

void cleave::run::noteSignals() {
  // Ranks may be threads.
  static std::once_flag once;
  std::call_once(once, [] {
    struct sigaction action{};
    action.sa_handler = note;
    action.sa_flags = SA_RESTART; // the step goes on as if nothing had happened
    sigemptyset(&action.sa_mask);
    for (int i = 0; i < 2; ++i)
      ::sigaction(kSignals[i], &action, &before[i]);
  });
}

int cleave::run::getNotedSignal() {
  return noted;
}
