//===- Kernels.cpp - predicting the kernels of a table ------------------------===//

#include "lib/predict/Kernels.h"

#include "lib/cost/OpTime.h"

#include "llvm/Support/Format.h"

using namespace cleave;
using namespace cleave::predict;

static llvm::Expected<cost::Width> readWidth(const Row &row) {
  auto bits = row.integer("bits", 4, 16);
  if (!bits)
    return bits.takeError();
  switch (*bits) {
  case 4:
    return cost::Width::Bits4;
  case 8:
    return cost::Width::Bits8;
  case 16:
    return cost::Width::Bits16;
  case 32:
    return cost::Width::Bits32;
  default:
    return makeError("bits: expected 32, 16, 8 or 4, found '{0}'", row.get("bits"));
  }
}

static llvm::Expected<cost::MatrixProduct> readProduct(const Row &row) {
  cost::MatrixProduct product;
  auto width = readWidth(row);
  if (!width)
    return width.takeError();
  product.width = *width;
  struct {
    llvm::StringRef column;
    double *value;
    std::optional<int64_t> otherwise;
  } fields[] = {{"batch", &product.batch, 1},
                {"m", &product.m, std::nullopt},
                {"n", &product.n, std::nullopt},
                {"k", &product.k, std::nullopt}};
  for (const auto &field : fields) {
    auto value = row.integer(field.column, 1, field.otherwise);
    if (!value)
      return value.takeError();
    *field.value = double(*value);
  }
  return product;
}

llvm::Expected<double> predict::predictKernel(const Row &row, const cost::Library &library) {
  auto device = library.findDevice(row.get("device"));
  if (!device)
    return device.takeError();
  llvm::StringRef kind = row.get("kind");
  if (kind == "product") {
    auto product = readProduct(row);
    if (!product)
      return product.takeError();
    if (cost::reachedFlops(*device, product->width) <= 0)
      return makeError("bits: device '{0}' has no rate of {1} bits", device->name, row.get("bits"));
    return cost::timeOf(*device, *product) + device->kernelSeconds;
  }
  if (kind == "bytes") {
    double bytes = 0;
    llvm::StringRef text = row.get("bytes");
    if (text.getAsDouble(bytes) || !(bytes > 0))
      return makeError("bytes: expected a positive number, found '{0}'", text);
    return cost::timeOfBytes(*device, bytes) + device->kernelSeconds;
  }
  return makeError("kind: expected product or bytes, found '{0}'", kind);
}

llvm::Expected<Table> predict::predictKernels(llvm::StringRef path, llvm::StringRef devices) {
  auto table = readTable(path);
  if (!table)
    return table.takeError();
  for (llvm::StringRef column : {"device", "kind"})
    if (!llvm::is_contained(table->header, column))
      return makeError("{0}: expected a column \"{1}\", found none", path, column);
  auto library = cost::Library::read(devices);
  if (!library)
    return library.takeError();
  for (size_t i = 0; i < table->rows.size(); ++i) {
    auto seconds = predictKernel(Row(*table, i), *library);
    std::string text, note;
    if (seconds)
      llvm::raw_string_ostream(text) << llvm::format("%.6g", *seconds);
    else
      note = "not predicted: " + llvm::toString(seconds.takeError());
    table->rows[i].push_back(std::move(text));
    table->rows[i].push_back(std::move(note));
  }
  table->header.insert(table->header.end(), {"predicted_seconds", "note"});
  return table;
}
