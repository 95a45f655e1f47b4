//===- Toolkit.cpp - finding ptxas and libdevice ----------------------------------===//

#include "lib/kernels/gpu/Toolkit.h"

#include "llvm/ADT/SmallString.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/Process.h"
#include "llvm/Support/Program.h"

using namespace cleave::kernels;
namespace path = llvm::sys::path;
namespace fs = llvm::sys::fs;

/// The toolkit's directory, and why it is that one.
static llvm::Expected<std::pair<std::string, std::string>> findRoot() {
  if (auto home = llvm::sys::Process::GetEnv("CUDA_HOME"); home && !home->empty())
    return std::pair(*home, std::string("CUDA_HOME"));
  if (auto ptxas = llvm::sys::findProgramByName("ptxas")) {
    // Where PATH holds a link, the toolkit lies around what it leads to.
    llvm::SmallString<256> real;
    if (!fs::real_path(*ptxas, real))
      return std::pair(path::parent_path(path::parent_path(real)).str(),
                       std::string("the ptxas on PATH"));
  }
  if (fs::is_directory("/usr/local/cuda"))
    return std::pair(std::string("/usr/local/cuda"), std::string("the default location"));
  return llvm::createStringError(
      "compiling for a GPU needs a CUDA toolkit: CUDA_HOME is not set, ptxas is not on PATH, and "
      "there is no /usr/local/cuda");
}

llvm::Expected<gpu::Toolkit> gpu::findToolkit() {
  auto root = findRoot();
  if (!root)
    return root.takeError();
  llvm::SmallString<256> ptxas(root->first), libdevice(root->first);
  path::append(ptxas, "bin", "ptxas");
  path::append(libdevice, "nvvm", "libdevice", "libdevice.10.bc");
  if (!fs::can_execute(ptxas))
    return llvm::createStringError("compiling for a GPU needs ptxas, but found none at " + ptxas +
                                   " (" + root->second + ")");
  if (!fs::exists(libdevice))
    return llvm::createStringError("compiling for a GPU needs libdevice, but there is no file " +
                                   libdevice + " (" + root->second + ")");
  return Toolkit{ptxas.str().str(), libdevice.str().str()};
}
