#include "cleave/Session.h"
#include "llvm/Support/raw_ostream.h"
using namespace cleave::runtime;
int main(int argc, char **argv) {
  auto p = loadProgram(argv[1]);
  if (!p) { llvm::errs() << llvm::toString(p.takeError()) << "\n"; return 1; }
  auto s = Session::create(**p);
  if (!s) { llvm::errs() << llvm::toString(s.takeError()) << "\n"; return 1; }
  if (auto e = (*s)->runMicrobatch(1,0)) { llvm::errs() << llvm::toString(std::move(e)) << "\n"; return 1; }
  if (auto e = (*s)->runUpdate(1)) { llvm::errs() << llvm::toString(std::move(e)) << "\n"; return 1; }
  llvm::outs() << (*p)->fingerprint() << "\n";
}
