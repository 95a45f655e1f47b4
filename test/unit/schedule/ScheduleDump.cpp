// Builds the schedules named on standard input, one "NAME RANKS CHUNKS MICROBATCHES" a line, and
// prints each as torch's CSV, or as "error: ..." on one line, followed by a line "end".
// With --comms, sends and receives are inserted.
#include "lib/schedule/Builder.h"
#include "lib/schedule/P2P.h"
#include "lib/schedule/Text.h"

#include <cstring>
#include <iostream>
#include <sstream>

using namespace cleave::schedule;

static llvm::Error dump(const std::string &line, bool comms) {
  std::istringstream fields(line);
  std::string name;
  BuildRequest request;
  unsigned chunks = 0;
  if (!(fields >> name >> request.ranks >> chunks >> request.microbatches))
    return llvm::createStringError("expected NAME RANKS CHUNKS MICROBATCHES");
  request.chunks = chunks;
  auto program = buildSchedule(name, request);
  if (program && comms)
    program = insertP2P(*program, {.recvStart = RecvStart::AtSend});
  return program ? printCsv(*program, llvm::outs()) : program.takeError();
}

int main(int argc, char **argv) {
  bool comms = argc > 1 && std::strcmp(argv[1], "--comms") == 0;
  for (std::string line; std::getline(std::cin, line);) {
    if (llvm::Error error = dump(line, comms))
      llvm::outs() << "error: " << llvm::toString(std::move(error)) << '\n';
    llvm::outs() << "end\n";
  }
}
