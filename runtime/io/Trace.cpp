//===- Trace.cpp - a time line of ops -------------------------------------===//

#include "runtime/io/Trace.h"
#include "runtime/io/Files.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/JSON.h"
#include <chrono>
#include <unistd.h>

using namespace cleave::runtime;
namespace json = llvm::json;

static constexpr llvm::StringLiteral kHead = "{\"displayTimeUnit\": \"ns\", \"traceEvents\": [\n";
static constexpr llvm::StringLiteral kTail = "\n]}\n";
static constexpr size_t kBufferBytes = 1 << 20;

int64_t cleave::runtime::wallTime(int64_t steadyNs) {
  using namespace std::chrono;
  // The wall clock is read once: it may be set back while a run goes on.
  static const int64_t offset = nanoseconds(system_clock::now().time_since_epoch()).count() -
                                nanoseconds(steady_clock::now().time_since_epoch()).count();
  return offset + steadyNs;
}

/// Microseconds with the nanoseconds as decimals, without the rounding of a double.
static std::string microseconds(int64_t nanoseconds) {
  char text[32];
  std::snprintf(text, sizeof text, "%lld.%03lld", (long long)(nanoseconds / 1000),
                (long long)(nanoseconds % 1000));
  return text;
}

static std::string quote(llvm::StringRef text) {
  std::string result;
  llvm::raw_string_ostream stream(result);
  stream << json::Value(json::isUTF8(text) ? text.str() : json::fixUTF8(text));
  return result;
}

llvm::Expected<std::unique_ptr<TraceWriter>> TraceWriter::open(llvm::StringRef path, int64_t rank,
                                                               int64_t origin) {
  std::unique_ptr<TraceWriter> writer(new TraceWriter);
  writer->rank = rank;
  writer->origin = origin;
  llvm::Expected<std::unique_ptr<OutputFile>> file = OutputFile::open(path);
  if (!file)
    return file.takeError();
  writer->file = std::move(*file);
  writer->buffer = kHead.str();
  writer->add(llvm::formatv("{{\"ph\": \"M\", \"name\": \"process_name\", \"pid\": {0}, "
                            "\"args\": {{\"name\": \"rank {0}\"}}",
                            rank)
                  .str());
  return writer;
}

TraceWriter::~TraceWriter() {
  llvm::consumeError(std::move(error));
}

void TraceWriter::add(const std::string &event) {
  if (!isFirst)
    buffer += ",\n";
  isFirst = false;
  buffer += event;
  if (buffer.size() >= kBufferBytes)
    flush();
}

void TraceWriter::flush() {
  if (!error)
    error = file->write(llvm::StringRef(buffer));
  buffer.clear();
}

void TraceWriter::slice(llvm::StringRef name, llvm::StringRef category, llvm::StringRef location,
                        int64_t begin, int64_t end, int64_t track) {
  std::string args = location.empty() ? "" : ", \"args\": {\"location\": " + quote(location) + "}";
  add(llvm::formatv("{{\"ph\": \"X\", \"name\": {0}, \"cat\": {1}, \"pid\": {2}, \"tid\": {3}, "
                    "\"ts\": {4}, \"dur\": {5}{6}}",
                    quote(name), quote(category), rank, track,
                    microseconds(wallTime(begin) - origin), microseconds(end - begin), args)
          .str());
}

void TraceWriter::nameTrack(int64_t track, llvm::StringRef name) {
  add(llvm::formatv("{{\"ph\": \"M\", \"name\": \"thread_name\", \"pid\": {0}, \"tid\": {1}, "
                    "\"args\": {{\"name\": {2}}}",
                    rank, track, quote(name))
          .str());
}

llvm::Error TraceWriter::close() {
  buffer += kTail.str();
  flush();
  return error ? std::move(error) : file->commit();
}

llvm::Error cleave::runtime::mergeTraces(llvm::ArrayRef<std::string> parts, OutputFile &out) {
  if (llvm::Error error = out.write(llvm::StringRef(kHead)))
    return error;
  bool isFirst = true;
  for (const std::string &part : parts) {
    llvm::Expected<std::unique_ptr<MappedFile>> file = MappedFile::open(part);
    if (!file)
      return file.takeError();
    llvm::StringRef events = llvm::toStringRef((*file)->bytes());
    if (!events.consume_front(kHead) || !events.consume_back(kTail))
      return makeError("{0}: expected a complete trace of one rank", part);
    if (!isFirst)
      if (llvm::Error error = out.write(llvm::StringRef(",\n")))
        return error;
    isFirst = false;
    if (llvm::Error error = out.write(events))
      return error;
  }
  if (llvm::Error error = out.write(llvm::StringRef(kTail)))
    return error;
  if (llvm::Error error = out.commit())
    return error;
  for (const std::string &part : parts)
    ::unlink(part.c_str());
  return llvm::Error::success();
}
