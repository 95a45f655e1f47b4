// Builds the schedules named on standard input, one "NAME RANKS CHUNKS MICROBATCHES" a line, and
// prints each as torch's CSV, or as "error: ..." on one line, followed by a line "end".
// With --comms, sends and receives are inserted, with --at-send receives where their data is made;
// with --unshard, unshards and reshards. With --time, nothing is printed but the seconds that
// building, inserting and verifying took, and the number of actions.
#include "lib/schedule/builders/Builder.h"
#include "lib/schedule/model/P2P.h"
#include "lib/schedule/model/Text.h"
#include "lib/schedule/model/Transforms.h"
#include "lib/schedule/model/Verify.h"

#include "llvm/Support/Format.h"

#include <chrono>
#include <iostream>
#include <sstream>

using namespace cleave::schedule;

static llvm::Error time(llvm::StringRef name, const BuildRequest &request) {
  auto now = [last = std::chrono::steady_clock::now()]() mutable {
    auto before = std::exchange(last, std::chrono::steady_clock::now());
    return std::chrono::duration<double>(last - before).count();
  };
  auto compute = buildSchedule(name, request);
  if (!compute)
    return compute.takeError();
  double build = now();
  auto program = insertP2P(*compute);
  if (!program)
    return program.takeError();
  double insert = now();
  std::vector<Problem> problems = verify(*program);
  double check = now();
  if (!problems.empty())
    return llvm::createStringError(problems.front().str());
  llvm::outs() << llvm::format("%.6f,%.6f,%.6f,%zu\n", build, insert, check, program->numActions());
  return llvm::Error::success();
}

static llvm::Error dump(const std::string &line, llvm::StringRef mode) {
  std::istringstream fields(line);
  std::string name;
  BuildRequest request;
  unsigned chunks = 0;
  if (!(fields >> name >> request.ranks >> chunks >> request.microbatches))
    return llvm::createStringError("expected NAME RANKS CHUNKS MICROBATCHES");
  request.chunks = chunks;
  if (mode == "--time")
    return time(name, request);
  auto program = buildSchedule(name, request);
  if (program && mode == "--comms")
    program = insertP2P(*program);
  if (program && mode == "--at-send")
    program = insertP2P(*program, {.recvStart = RecvStart::AtSend});
  if (program && mode == "--unshard")
    if (llvm::Error error = addUnshards(*program))
      return error;
  return program ? printCsv(*program, llvm::outs()) : program.takeError();
}

int main(int argc, char **argv) {
  llvm::StringRef mode = argc > 1 ? argv[1] : "";
  for (std::string line; std::getline(std::cin, line);) {
    if (llvm::Error error = dump(line, mode))
      llvm::outs() << "error: " << llvm::toString(std::move(error)) << '\n';
    llvm::outs() << "end\n";
  }
}
