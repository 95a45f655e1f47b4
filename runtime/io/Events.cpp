//===- Events.cpp - TensorBoard event files -------------------------------===//
//
// A file is a sequence of TFRecords: u64 length, masked CRC-32C of the length, the bytes, masked
// CRC-32C of the bytes. The bytes are tensorflow.Event protobufs, of which a scalar needs so few
// fields that they are encoded here by hand (tensorflow/core/util/event.proto, summary.proto).
//
//===----------------------------------------------------------------------===//

#include "runtime/io/Crc32c.h"
#include "runtime/io/Files.h"
#include "runtime/io/Metrics.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Endian.h"
#include "llvm/Support/LEB128.h"
#include "llvm/Support/raw_ostream.h"
#include <chrono>
#include <unistd.h>

using namespace cleave::runtime;

namespace {

/// Appends protobuf fields to a string.
class Message {
public:
  void addVarint(unsigned field, uint64_t value) {
    addKey(field, 0);
    llvm::encodeULEB128(value, stream);
  }
  void addDouble(unsigned field, double value) {
    addKey(field, 1);
    stream.write(reinterpret_cast<const char *>(&value), sizeof value);
  }
  void addFloat(unsigned field, float value) {
    addKey(field, 5);
    stream.write(reinterpret_cast<const char *>(&value), sizeof value);
  }
  void addBytes(unsigned field, llvm::StringRef bytes) {
    addKey(field, 2);
    llvm::encodeULEB128(bytes.size(), stream);
    stream << bytes;
  }
  llvm::StringRef str() const { return text; }

private:
  void addKey(unsigned field, unsigned wireType) {
    llvm::encodeULEB128(field << 3 | wireType, stream);
  }
  std::string text;
  llvm::raw_string_ostream stream{text};
};

/// CRCs of data that contain CRCs are weak, hence TFRecord masks them.
uint32_t maskedCrc(llvm::StringRef bytes) {
  uint32_t crc = crc32c(llvm::arrayRefFromStringRef(bytes));
  return (crc >> 15 | crc << 17) + 0xa282ead8;
}

double secondsNow() {
  using namespace std::chrono;
  return duration<double>(system_clock::now().time_since_epoch()).count();
}

} // namespace

llvm::Expected<std::unique_ptr<EventWriter>> EventWriter::open(llvm::StringRef directory) {
  if (llvm::Error error = checkWritableDirectory(directory))
    return error;
  std::unique_ptr<EventWriter> writer(new EventWriter);
  char host[256] = "localhost";
  ::gethostname(host, sizeof host - 1);
  // TensorBoard orders the files of a run by name: the time comes first.
  static int count = 0;
  writer->path = llvm::formatv("{0}/events.out.tfevents.{1}.{2}.{3}.{4}", directory,
                               uint64_t(secondsNow()), host, ::getpid(), count++)
                     .str();
  writer->stream = std::fopen(writer->path.c_str(), "we");
  if (!writer->stream)
    return makeSystemError(writer->path, "write");
  Message event;
  event.addDouble(1, secondsNow());
  event.addBytes(3, "brain.Event:2"); // file_version
  if (llvm::Error error = writer->writeRecord(event.str()))
    return error;
  return writer;
}

EventWriter::~EventWriter() {
  if (stream)
    std::fclose(stream);
}

llvm::Error EventWriter::writeRecord(llvm::StringRef event) {
  std::string record(12, '\0');
  llvm::support::endian::write64le(record.data(), event.size());
  llvm::support::endian::write32le(record.data() + 8,
                                   maskedCrc(llvm::StringRef(record).take_front(8)));
  record += event.str();
  record.resize(record.size() + 4);
  llvm::support::endian::write32le(record.data() + record.size() - 4, maskedCrc(event));
  if (std::fwrite(record.data(), 1, record.size(), stream) != record.size() ||
      std::fflush(stream) != 0)
    return makeSystemError(path, "write");
  return llvm::Error::success();
}

llvm::Error EventWriter::write(llvm::StringRef tag, int64_t step, double scalar) {
  Message value, summary, event;
  value.addBytes(1, tag);
  value.addFloat(2, float(scalar)); // simple_value
  summary.addBytes(1, value.str());
  event.addDouble(1, secondsNow());
  event.addVarint(2, uint64_t(step));
  event.addBytes(5, summary.str());
  return writeRecord(event.str());
}

llvm::Error EventWriter::write(const StepMetrics &metrics) {
  if (llvm::Error error = write("train/loss", metrics.step, metrics.loss))
    return error;
  if (llvm::Error error = write("speed/tokens_per_s", metrics.step, metrics.tokensPerSecond))
    return error;
  if (llvm::Error error = write("speed/step_ms", metrics.step, metrics.milliseconds))
    return error;
  for (auto [group, rate] : llvm::enumerate(metrics.learningRates)) {
    std::string tag = "train/lr";
    if (metrics.learningRates.size() > 1)
      tag += "/" + std::to_string(group);
    if (llvm::Error error = write(tag, metrics.step, rate))
      return error;
  }
  if (metrics.lossScale)
    if (llvm::Error error = write("train/loss_scale", metrics.step, *metrics.lossScale))
      return error;
  if (metrics.skippedSteps)
    if (llvm::Error error =
            write("train/skipped_steps", metrics.step, double(*metrics.skippedSteps)))
      return error;
  if (metrics.evalLoss)
    if (llvm::Error error = write("eval/loss", metrics.step, *metrics.evalLoss))
      return error;
  if (metrics.utilization)
    if (llvm::Error error = write("speed/mfu", metrics.step, *metrics.utilization))
      return error;
  if (metrics.tensorBytes)
    if (llvm::Error error = write("memory/bytes", metrics.step, double(*metrics.tensorBytes)))
      return error;
  return metrics.gradientNorm ? write("train/gradient_norm", metrics.step, *metrics.gradientNorm)
                              : llvm::Error::success();
}
