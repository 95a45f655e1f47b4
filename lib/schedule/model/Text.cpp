// Prints Cleave's text form of programs.
#include "lib/schedule/model/Text.h"

using namespace cleave::schedule;

std::string cleave::schedule::printList(const Schedule &program, unsigned rank) {
  std::string text;
  text.reserve(program.ranks[rank].size() * 8);
  llvm::raw_string_ostream os(text);
  llvm::interleave(program.ranks[rank], os, [&](Action action) { program.print(os, action); }, " ");
  return text;
}

void cleave::schedule::printText(const Schedule &program, llvm::raw_ostream &os) {
  constexpr size_t lineWidth = 100;
  os << "schedule \"" << program.name << "\"\n"
     << "ranks " << program.numRanks() << "\n"
     << "stages " << program.numStages() << "\n"
     << "microbatches " << program.numMicrobatches << "\n"
     << "topology " << program.topology.str() << "\n";
  if (program.forwardOnly)
    os << "forward_only\n";
  for (size_t rank = 0; rank < program.ranks.size(); ++rank) {
    std::string line = "rank " + std::to_string(rank) + ":";
    for (Action action : program.ranks[rank]) {
      std::string text = program.str(action);
      if (line.size() + 1 + text.size() > lineWidth) {
        os << line << '\n';
        line = "   ";
      }
      line += ' ';
      line += text;
    }
    os << line << '\n';
  }
}
