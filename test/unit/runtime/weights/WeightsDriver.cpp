//===- WeightsDriver.cpp - runtime/weights as a program for the Python tests -===//
//
//   list PATH...               a line for each tensor: its name and type; what cannot be read is an
//                              error of that path alone
//   read PATH NAME RANGES OUT  writes the bytes of a part to OUT; RANGES is begin:size of each
//                              dimension, separated by commas. Then a line for each mapped file:
//                              how many bytes of it this process has touched since it was opened
//
//===----------------------------------------------------------------------===//

#include "runtime/io/OutputFile.h"
#include "runtime/weights/OpenWeights.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/raw_ostream.h"
#include <map>

using namespace cleave::runtime;

/// Bytes of each file in `folder` that are mapped here and resident.
static std::map<std::string, int64_t> countResident(llvm::StringRef folder) {
  std::map<std::string, int64_t> resident;
  auto text = llvm::MemoryBuffer::getFileAsStream("/proc/self/smaps");
  std::string file;
  for (llvm::StringRef line : llvm::split((*text)->getBuffer(), '\n')) {
    if (size_t path = line.find('/'); line.contains('-') && path != llvm::StringRef::npos)
      file = line.drop_front(path).str();
    int64_t kilobytes;
    if (line.consume_front("Rss:") && llvm::StringRef(file).contains(folder) &&
        !line.trim().split(' ').first.getAsInteger(10, kilobytes))
      resident[llvm::sys::path::filename(file).str()] += 1024 * kilobytes;
  }
  return resident;
}

static llvm::Error list(llvm::StringRef path) {
  auto tensors = openWeights(path);
  if (!tensors)
    return tensors.takeError();
  for (const TensorEntry &entry : (*tensors)->entries())
    llvm::outs() << entry.name << " " << describe(entry.dtype, entry.shape) << "\n";
  return llvm::Error::success();
}

static llvm::Error read(llvm::StringRef path, llvm::StringRef name, llvm::StringRef ranges,
                        llvm::StringRef to) {
  auto tensors = openWeights(path);
  if (!tensors)
    return tensors.takeError();
  const TensorEntry *entry = (*tensors)->findEntry(name);
  if (!entry)
    return makeError("no tensor '{0}'", name);
  Box box;
  for (llvm::StringRef text : llvm::split(ranges, ',')) {
    if (ranges.empty())
      break; // a number

    auto [begin, size] = text.split(':');
    IndexRange &range = box.emplace_back();
    if (begin.getAsInteger(10, range.begin) || size.getAsInteger(10, range.size))
      return makeError("expected begin:size, found '{0}'", text);
  }
  std::vector<uint8_t> bytes(*countBytes(entry->dtype, shapeOf(box)));
  llvm::StringRef folder = llvm::sys::path::filename(path);
  std::map<std::string, int64_t> before = countResident(folder);
  if (llvm::Error error = (*tensors)->read(*entry, box, bytes.data()))
    return error;
  for (auto [file, resident] : countResident(folder))
    llvm::outs() << file << " " << resident - before[file] << "\n";
  auto file = OutputFile::open(to);
  if (!file)
    return file.takeError();
  if (llvm::Error error = (*file)->write(llvm::ArrayRef<uint8_t>(bytes)))
    return error;
  return (*file)->commit();
}

int main(int argc, char **argv) {
  std::vector<std::string> args(argv + 1, argv + argc);
  llvm::Error error = llvm::Error::success();
  if (args.size() >= 2 && args[0] == "list")
    for (llvm::StringRef path : llvm::ArrayRef(args).drop_front())
      error = llvm::joinErrors(std::move(error), list(path));
  else if (args.size() == 5 && args[0] == "read")
    error = llvm::joinErrors(std::move(error), read(args[1], args[2], args[3], args[4]));
  else
    error = llvm::joinErrors(std::move(error), makeError("expected list or read, and arguments"));
  if (!error)
    return 0;
  llvm::handleAllErrors(std::move(error), [](const llvm::ErrorInfoBase &info) {
    llvm::errs() << "error: " << info.message() << '\n';
  });
  return 1;
}
