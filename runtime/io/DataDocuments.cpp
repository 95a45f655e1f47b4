//===- DataDocuments.cpp - documents that share a window ------------------===//

#include "runtime/io/DataDocuments.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSwitch.h"
#include "llvm/Support/xxhash.h"
#include <cstring>

using namespace cleave::runtime;

namespace {

struct DocumentInput {
  std::string name;
  DocumentKind kind;
};

struct DocumentSpec {
  int64_t end = -1;
  std::vector<DocumentInput> inputs;
};

class DocumentSource final : public DataSource {
public:
  DocumentSource(const DataOptions &options, int64_t end) : text(options.documents), end(end) {}

  /// Finds what inputs are made of, and what remains for the source of tokens.
  llvm::Error select(llvm::ArrayRef<InputSpec> inputs, llvm::ArrayRef<DocumentInput> wanted);
  llvm::ArrayRef<InputSpec> remaining() const { return taken; }
  void setSource(std::unique_ptr<DataSource> opened) { source = std::move(opened); }

  uint64_t countSteps() const override { return source->countSteps(); }
  llvm::Expected<std::vector<HostTensor>> read(BatchPosition position) const override;
  llvm::Error readExample(uint64_t example, int64_t row,
                          llvm::MutableArrayRef<HostTensor> to) const override;
  std::string describe() const override {
    return end < 0 ? source->describe()
                   : llvm::formatv("{0}, in documents that end with {1}", source->describe(), end)
                         .str();
  }
  uint64_t fingerprint() const override {
    return source->fingerprint() * 31 + llvm::xxh3_64bits(text);
  }

private:
  llvm::Error checkMade(const InputSpec &spec, DocumentKind kind) const;
  /// Makes row `row` of the inputs that are made.
  void make(int64_t row, llvm::MutableArrayRef<HostTensor> tensors) const;

  std::string text;
  int64_t end;
  std::unique_ptr<DataSource> source;
  std::vector<InputSpec> specs, taken;
  /// Where the inputs that are read are among all.
  std::vector<size_t> places;
  size_t tokens = 0;
  std::vector<std::pair<size_t, DocumentKind>> made;
};

} // namespace

//===----------------------------------------------------------------------===//
// What is asked for
//===----------------------------------------------------------------------===//

static llvm::Expected<DocumentSpec> parseDocuments(llvm::StringRef text) {
  DocumentSpec spec;
  llvm::SmallVector<llvm::StringRef> words;
  text.split(words, ' ', /*MaxSplit=*/-1, /*KeepEmpty=*/false);
  for (llvm::StringRef word : words) {
    auto [name, value] = word.split('=');
    if (name == "end" && spec.end < 0) {
      if (value.getAsInteger(10, spec.end) || spec.end < 0)
        return makeError("--documents: expected a token from 0 as end, found \"{0}\"", value);
      continue;
    }
    auto kind = llvm::StringSwitch<std::optional<DocumentKind>>(value)
                    .Case("positions", DocumentKind::Positions)
                    .Case("ids", DocumentKind::Ids)
                    .Case("mask", DocumentKind::Mask)
                    .Case("tokens", DocumentKind::Tokens)
                    .Case("ones", DocumentKind::Ones)
                    .Case("within", DocumentKind::Within)
                    .Default(std::nullopt);
    if (name.empty() || !kind)
      return makeError("--documents: expected end=TOKEN and INPUT=KIND with a kind of positions, "
                       "ids, mask, tokens, ones or within, found \"{0}\"",
                       word);
    if (llvm::any_of(spec.inputs, [&](const DocumentInput &input) { return input.name == name; }))
      return makeError("--documents: found \"{0}\" twice", name);
    spec.inputs.push_back({name.str(), *kind});
  }
  bool needsEnd = llvm::any_of(spec.inputs, [](const DocumentInput &input) {
    return input.kind != DocumentKind::Tokens && input.kind != DocumentKind::Ones;
  });
  if (spec.inputs.empty() || (needsEnd && spec.end < 0))
    return makeError("--documents: expected end=TOKEN, the token that ends a document, and an "
                     "INPUT=KIND that is made of documents; found \"{0}\"",
                     text);
  return spec;
}

llvm::Error DocumentSource::checkMade(const InputSpec &spec, DocumentKind kind) const {
  const InputSpec &input = specs[tokens];
  std::vector<int64_t> square = {input.shape[0], input.shape[1], input.shape[1]};
  std::vector<int64_t> byHead = {input.shape[0], 1, input.shape[1], input.shape[1]};
  bool isInteger = spec.dtype == DType::I64 || spec.dtype == DType::I32;
  bool fits = kind == DocumentKind::Mask
                  ? spec.dtype == DType::Bool && (spec.shape == square || spec.shape == byHead)
                  : isInteger && spec.shape == input.shape;
  if (!fits || spec.batchDim != 0u)
    return makeError("--documents: \"{0}\" is {1}, expected {2} for tokens of {3}", spec.name,
                     ::describe(spec.dtype, spec.shape),
                     kind == DocumentKind::Mask ? ::describe(DType::Bool, square) + " or " +
                                                      ::describe(DType::Bool, byHead)
                                                : "integers [batch, time] like theirs",
                     ::describe(input.dtype, input.shape));
  if (kind == DocumentKind::Within && (!spec.isTarget || !spec.ignored))
    return makeError("--documents: expected a target of which the loss ignores a value for "
                     "\"within\", found \"{0}\"",
                     spec.name);
  if (kind != DocumentKind::Within && spec.isTarget)
    return makeError("--documents: \"{0}\" is a target, which a model does not take", spec.name);
  return llvm::Error::success();
}

llvm::Error DocumentSource::select(llvm::ArrayRef<InputSpec> inputs,
                                   llvm::ArrayRef<DocumentInput> wanted) {
  specs = inputs.vec();
  const InputSpec *input = nullptr;
  for (auto [place, spec] : llvm::enumerate(specs)) {
    auto found =
        llvm::find_if(wanted, [&](const DocumentInput &each) { return each.name == spec.name; });
    bool isMade = found != wanted.end();
    if (isMade)
      made.push_back({place, found->kind});
    if (!isMade || found->kind == DocumentKind::Within) {
      places.push_back(place);
      taken.push_back(spec);
    }
    bool isInteger = spec.dtype == DType::I64 || spec.dtype == DType::I32;
    if (isMade || spec.isTarget || !isInteger || spec.shape.size() != 2 || spec.batchDim != 0u)
      continue;
    if (input)
      return makeError("--documents: expected one integer input [batch, time] with the tokens, "
                       "found \"{0}\" and \"{1}\"",
                       input->name, spec.name);
    input = &spec;
    tokens = place;
  }
  for (const DocumentInput &each : wanted)
    if (llvm::none_of(specs, [&](const InputSpec &spec) { return spec.name == each.name; }))
      return makeError("--documents: the program has no input \"{0}\"", each.name);
  if (!input)
    return makeError("--documents: expected an integer input [batch, time] with the tokens, found "
                     "none");
  if (input->vocabulary > 0 && end >= input->vocabulary)
    return makeError("--documents: the end {0} is outside the vocabulary of {1}", end,
                     input->vocabulary);
  for (auto [place, kind] : made)
    if (llvm::Error error = checkMade(specs[place], kind))
      return error;
  return llvm::Error::success();
}

//===----------------------------------------------------------------------===//
// Reading
//===----------------------------------------------------------------------===//

static int64_t getInteger(const HostTensor &tensor, int64_t index) {
  if (tensor.dtype == DType::I32) {
    int32_t value;
    std::memcpy(&value, tensor.bytes.data() + index * sizeof value, sizeof value);
    return value;
  }
  int64_t value;
  std::memcpy(&value, tensor.bytes.data() + index * sizeof value, sizeof value);
  return value;
}

static void setInteger(HostTensor &tensor, int64_t index, int64_t value) {
  if (tensor.dtype == DType::I32) {
    auto narrow = int32_t(value);
    std::memcpy(tensor.bytes.data() + index * sizeof narrow, &narrow, sizeof narrow);
  } else {
    std::memcpy(tensor.bytes.data() + index * sizeof value, &value, sizeof value);
  }
}

void DocumentSource::make(int64_t row, llvm::MutableArrayRef<HostTensor> tensors) const {
  int64_t length = specs[tokens].shape[1];
  // Where the document of each token begins, and its number.
  std::vector<int64_t> begin(length), number(length);
  for (int64_t i = 1; i < length; ++i) {
    bool isFirst = getInteger(tensors[tokens], row * length + i - 1) == end;
    begin[i] = isFirst ? i : begin[i - 1];
    number[i] = number[i - 1] + isFirst;
  }
  for (auto [place, kind] : made) {
    HostTensor &tensor = tensors[place];
    for (int64_t i = 0; i < length; ++i) {
      int64_t at = row * length + i;
      switch (kind) {
      case DocumentKind::Positions:
        setInteger(tensor, at, i - begin[i]);
        break;
      case DocumentKind::Ids:
        setInteger(tensor, at, number[i]);
        break;
      case DocumentKind::Tokens:
        setInteger(tensor, at, getInteger(tensors[tokens], at));
        break;
      case DocumentKind::Ones:
        setInteger(tensor, at, 1);
        break;
      case DocumentKind::Within:
        if (getInteger(tensors[tokens], at) == end)
          setInteger(tensor, at, *specs[place].ignored);
        break;
      case DocumentKind::Mask:
        for (int64_t j = 0; j < length; ++j)
          tensor.bytes[at * length + j] = j <= i && number[j] == number[i];
        break;
      }
    }
  }
}

llvm::Expected<std::vector<HostTensor>> DocumentSource::read(BatchPosition position) const {
  llvm::Expected<std::vector<HostTensor>> found = source->read(position);
  if (!found)
    return found.takeError();
  std::vector<HostTensor> tensors(specs.size());
  for (auto [place, tensor] : llvm::zip_equal(places, *found))
    tensors[place] = std::move(tensor);
  for (auto [spec, tensor] : llvm::zip_equal(specs, tensors))
    if (tensor.bytes.empty())
      tensor = {spec.dtype, spec.shape, std::vector<uint8_t>(*countBytes(spec.dtype, spec.shape))};
  for (int64_t row = 0; row < specs[tokens].shape[0]; ++row)
    make(row, tensors);
  return tensors;
}

llvm::Error DocumentSource::readExample(uint64_t example, int64_t row,
                                        llvm::MutableArrayRef<HostTensor> to) const {
  std::vector<HostTensor> some;
  for (size_t place : places)
    some.push_back(std::move(to[place]));
  llvm::Error error = source->readExample(example, row, some);
  for (auto [place, tensor] : llvm::zip_equal(places, some))
    to[place] = std::move(tensor);
  if (error)
    return error;
  make(row, to);
  return llvm::Error::success();
}

llvm::Expected<std::unique_ptr<DataSource>> cleave::runtime::openDocuments(
    const DataOptions &options, llvm::ArrayRef<InputSpec> inputs,
    llvm::function_ref<llvm::Expected<std::unique_ptr<DataSource>>(llvm::ArrayRef<InputSpec>)>
        open) {
  llvm::Expected<DocumentSpec> spec = parseDocuments(options.documents);
  if (!spec)
    return spec.takeError();
  auto documents = std::make_unique<DocumentSource>(options, spec->end);
  if (llvm::Error error = documents->select(inputs, spec->inputs))
    return error;
  llvm::Expected<std::unique_ptr<DataSource>> source = open(documents->remaining());
  if (!source)
    return source.takeError();
  documents->setSource(std::move(*source));
  return documents;
}
