//===- Interrupts.cpp - signals that end a run in good order -----------------===//

#include "tools/cleave-run/Interrupts.h"

#include <csignal>
#include <initializer_list>

#include <unistd.h>

static volatile std::sig_atomic_t noted = 0;

static void note(int signal) {
  if (!noted) {
    noted = signal;
    return;
  }
  std::signal(signal, SIG_DFL);
  ::raise(signal);
}

void cleave::run::noteSignals() {
  struct sigaction action {};
  action.sa_handler = note;
  action.sa_flags = SA_RESTART; // a step goes on as if nothing had happened
  sigemptyset(&action.sa_mask);
  for (int signal : {SIGTERM, SIGINT})
    ::sigaction(signal, &action, nullptr);
}

int cleave::run::getNotedSignal() {
  return noted;
}
