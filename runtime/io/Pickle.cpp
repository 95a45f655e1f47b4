//===- Pickle.cpp - pickles as data ---------------------------------------===//
//
// Opcodes are those of Lib/pickletools.py. Nothing here recurses, and what an opcode makes has a
// size that its bytes in the file bound: no length is believed before the bytes are there.
//
//===----------------------------------------------------------------------===//

#include "runtime/io/Pickle.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/JSON.h"

using namespace cleave::runtime;
using Kind = PickleNode::Kind;

bool PickleNode::isNamed(llvm::StringRef name) const {
  return (is(Kind::Object) || is(Kind::Name)) && text == name;
}

std::optional<int64_t> PickleNode::asInt() const {
  return is(Kind::Int) ? std::optional<int64_t>(number) : std::nullopt;
}

std::optional<llvm::StringRef> PickleNode::asString() const {
  return is(Kind::String) ? std::optional<llvm::StringRef>(text) : std::nullopt;
}

llvm::ArrayRef<const PickleNode *> PickleNode::arguments() const {
  return is(Kind::Object) ? llvm::ArrayRef(items.front()->items)
                          : llvm::ArrayRef<const PickleNode *>();
}

const PickleNode *PickleNode::get(llvm::StringRef key) const {
  const PickleNode *dict = is(Kind::Object) ? state : this;
  if (!dict || !dict->is(Kind::Dict))
    return nullptr;
  for (size_t i = 0; i + 1 < dict->items.size(); i += 2)
    if (dict->items[i]->asString() == key)
      return dict->items[i + 1];
  return nullptr;
}

namespace cleave::runtime {

class PickleParser {
public:
  PickleParser(llvm::ArrayRef<uint8_t> bytes, llvm::function_ref<bool(llvm::StringRef)> isKnown,
               Pickle &pickle)
      : bytes(bytes), isKnown(isKnown), pickle(pickle) {}

  llvm::Error run();

private:
  enum Opcode : uint8_t {
    kMark = '(',
    kStop = '.',
    kPop = '0',
    kBinFloat = 'G',
    kBinInt = 'J',
    kBinInt1 = 'K',
    kBinInt2 = 'M',
    kNone = 'N',
    kBinPersistentId = 'Q',
    kReduce = 'R',
    kBinUnicode = 'X',
    kAppend = 'a',
    kBuild = 'b',
    kGlobal = 'c',
    kAppends = 'e',
    kBinGet = 'h',
    kLongBinGet = 'j',
    kBinPut = 'q',
    kLongBinPut = 'r',
    kSetItem = 's',
    kTuple = 't',
    kSetItems = 'u',
    kEmptyDict = '}',
    kEmptyList = ']',
    kEmptyTuple = ')',
    kProtocol = 0x80,
    kNewObject = 0x81,
    kTuple1 = 0x85,
    kTuple2 = 0x86,
    kTuple3 = 0x87,
    kTrue = 0x88,
    kFalse = 0x89,
    kLong1 = 0x8a,
    kShortBinUnicode = 0x8c,
    kBinUnicode8 = 0x8d,
    kStackGlobal = 0x93,
    kMemoize = 0x94,
    kFrame = 0x95,
  };
  static constexpr uint8_t kNewestProtocol = 5;

  llvm::Error step(uint8_t opcode);
  llvm::Error build();
  llvm::Error call();

  // The bytes. Past their end `truncated` is set, and zeros are read.
  llvm::ArrayRef<uint8_t> take(uint64_t count);
  uint64_t takeNumber(unsigned width);
  llvm::StringRef takeText(uint64_t count) { return llvm::toStringRef(take(count)); }
  llvm::StringRef takeLine();

  // The stack, down to the last mark. What is not there is null, and `underflow` is set.
  PickleNode *pop();
  PickleNode *top();
  std::vector<const PickleNode *> popToMark();
  PickleNode *push(Kind kind, int64_t number = 0, llvm::StringRef text = {});
  void pushTuple(size_t count);
  llvm::Error pushName(llvm::StringRef module, llvm::StringRef name);
  void put(uint64_t index) { memo[index] = top(); }
  llvm::Error get(uint64_t index);

  llvm::ArrayRef<uint8_t> bytes;
  llvm::function_ref<bool(llvm::StringRef)> isKnown;
  Pickle &pickle;
  size_t position = 0;
  bool truncated = false, underflow = false, stopped = false;
  std::vector<PickleNode *> stack;
  std::vector<size_t> marks;
  llvm::DenseMap<uint64_t, PickleNode *> memo;
};

} // namespace cleave::runtime

//===----------------------------------------------------------------------===//
// Bytes and stack
//===----------------------------------------------------------------------===//

llvm::ArrayRef<uint8_t> PickleParser::take(uint64_t count) {
  if (count > bytes.size() - position) {
    truncated = true;
    position = bytes.size();
    return {};
  }
  position += count;
  return bytes.slice(position - count, count);
}

uint64_t PickleParser::takeNumber(unsigned width) {
  uint64_t value = 0;
  for (auto [i, byte] : llvm::enumerate(take(width)))
    value |= uint64_t(byte) << (8 * i);
  return value;
}

llvm::StringRef PickleParser::takeLine() {
  llvm::StringRef rest = llvm::toStringRef(bytes.drop_front(position));
  size_t end = rest.find('\n');
  if (end == llvm::StringRef::npos) {
    truncated = true;
    return {};
  }
  position += end + 1;
  return rest.take_front(end);
}

PickleNode *PickleParser::top() {
  if (stack.size() > (marks.empty() ? 0 : marks.back()))
    return stack.back();
  underflow = true;
  return nullptr;
}

PickleNode *PickleParser::pop() {
  PickleNode *node = top();
  if (node)
    stack.pop_back();
  return node;
}

std::vector<const PickleNode *> PickleParser::popToMark() {
  if (marks.empty()) {
    underflow = true;
    return {};
  }
  std::vector<const PickleNode *> items(stack.begin() + marks.back(), stack.end());
  stack.resize(marks.back());
  marks.pop_back();
  return items;
}

PickleNode *PickleParser::push(Kind kind, int64_t number, llvm::StringRef text) {
  PickleNode &node = pickle.nodes.emplace_back();
  node.kind = kind;
  node.number = number;
  node.text = text;
  stack.push_back(&node);
  return &node;
}

void PickleParser::pushTuple(size_t count) {
  std::vector<const PickleNode *> items(count);
  for (size_t i = count; i-- > 0;)
    items[i] = pop();
  if (!underflow)
    push(Kind::Tuple)->items = std::move(items);
}

llvm::Error PickleParser::pushName(llvm::StringRef module, llvm::StringRef name) {
  std::string &full = pickle.names.emplace_back((module + "." + name).str());
  if (!isKnown(full))
    return makeError("it names {0}, which is not part of this format (nothing was imported or "
                     "called)",
                     llvm::json::Value(llvm::json::fixUTF8(full)));
  push(Kind::Name, 0, full);
  return llvm::Error::success();
}

llvm::Error PickleParser::get(uint64_t index) {
  auto it = memo.find(index);
  if (it == memo.end() || !it->second)
    return makeError("it reads memo {0}, which holds nothing", index);
  stack.push_back(it->second);
  return llvm::Error::success();
}

//===----------------------------------------------------------------------===//
// Opcodes
//===----------------------------------------------------------------------===//

/// REDUCE and NEWOBJ: calls become objects.
llvm::Error PickleParser::call() {
  PickleNode *arguments = pop(), *callee = pop();
  if (underflow)
    return llvm::Error::success();
  if (!callee->is(Kind::Name) || !arguments->is(Kind::Tuple))
    return makeError("expected the call of a name with a tuple");
  if (callee->text == "collections.OrderedDict" && arguments->items.empty()) {
    push(Kind::Dict);
    return llvm::Error::success();
  }
  // Not its items: a pickle may call a hundred names with one tuple of a million.
  push(Kind::Object, 0, callee->text)->items = {arguments};
  return llvm::Error::success();
}

llvm::Error PickleParser::build() {
  PickleNode *state = pop(), *object = top();
  if (underflow)
    return llvm::Error::success();
  if (!object->is(Kind::Object) || object->state)
    return makeError("expected an object without state to set the state of");
  object->state = state;
  return llvm::Error::success();
}

llvm::Error PickleParser::step(uint8_t opcode) {
  auto extend = [&](Kind kind, llvm::ArrayRef<const PickleNode *> items) -> llvm::Error {
    PickleNode *target = top();
    if (underflow)
      return llvm::Error::success();
    if (!target->is(kind) || (kind == Kind::Dict && items.size() % 2 != 0))
      return makeError("expected a {0} to add to", kind == Kind::Dict ? "dictionary" : "list");
    llvm::append_range(target->items, items);
    return llvm::Error::success();
  };
  switch (opcode) {
  case kProtocol:
    if (uint64_t protocol = takeNumber(1); !truncated && protocol > kNewestProtocol)
      return makeError("expected protocol 2 to {0}, found {1}", kNewestProtocol, protocol);
    return llvm::Error::success();
  case kFrame:
    if (uint64_t length = takeNumber(8); length > bytes.size() - position)
      truncated = true;
    return llvm::Error::success();
  case kStop:
    stopped = true;
    return llvm::Error::success();
  case kMark:
    marks.push_back(stack.size());
    return llvm::Error::success();
  case kPop:
    pop();
    return llvm::Error::success();
  case kNone:
    push(Kind::None);
    return llvm::Error::success();
  case kTrue:
  case kFalse:
    push(Kind::Bool, opcode == kTrue);
    return llvm::Error::success();
  case kBinInt:
    push(Kind::Int, int32_t(takeNumber(4)));
    return llvm::Error::success();
  case kBinInt1:
    push(Kind::Int, int64_t(takeNumber(1)));
    return llvm::Error::success();
  case kBinInt2:
    push(Kind::Int, int64_t(takeNumber(2)));
    return llvm::Error::success();
  case kLong1: {
    uint64_t width = takeNumber(1);
    if (width > 8)
      return makeError("expected integers of at most 8 bytes, found {0}", width);
    uint64_t value = takeNumber(unsigned(width));
    if (width > 0 && width < 8 && (value >> (8 * width - 1) & 1))
      value |= ~uint64_t(0) << (8 * width);
    push(Kind::Int, int64_t(value));
    return llvm::Error::success();
  }
  case kBinFloat:
    (void)take(8);
    push(Kind::Float);
    return llvm::Error::success();
  case kShortBinUnicode:
    push(Kind::String, 0, takeText(takeNumber(1)));
    return llvm::Error::success();
  case kBinUnicode:
    push(Kind::String, 0, takeText(takeNumber(4)));
    return llvm::Error::success();
  case kBinUnicode8:
    push(Kind::String, 0, takeText(takeNumber(8)));
    return llvm::Error::success();
  case kGlobal: {
    llvm::StringRef module = takeLine(), name = takeLine();
    return truncated ? llvm::Error::success() : pushName(module, name);
  }
  case kStackGlobal: {
    PickleNode *name = pop(), *module = pop();
    if (underflow)
      return llvm::Error::success();
    if (!name->asString() || !module->asString())
      return makeError("expected the name of a class as two strings");
    return pushName(module->text, name->text);
  }
  case kEmptyTuple:
    push(Kind::Tuple);
    return llvm::Error::success();
  case kEmptyList:
    push(Kind::List);
    return llvm::Error::success();
  case kEmptyDict:
    push(Kind::Dict);
    return llvm::Error::success();
  case kTuple1:
  case kTuple2:
  case kTuple3:
    pushTuple(opcode - kTuple1 + 1);
    return llvm::Error::success();
  case kTuple: {
    std::vector<const PickleNode *> items = popToMark();
    push(Kind::Tuple)->items = std::move(items);
    return llvm::Error::success();
  }
  case kAppend: {
    PickleNode *item = pop();
    return extend(Kind::List, {item});
  }
  case kAppends:
    return extend(Kind::List, popToMark());
  case kSetItem: {
    PickleNode *value = pop(), *key = pop();
    return extend(Kind::Dict, {key, value});
  }
  case kSetItems:
    return extend(Kind::Dict, popToMark());
  case kReduce:
  case kNewObject:
    return call();
  case kBuild:
    return build();
  case kBinPersistentId: {
    PickleNode *id = pop();
    if (!underflow)
      push(Kind::External)->items = {id};
    return llvm::Error::success();
  }
  case kBinPut:
    put(takeNumber(1));
    return llvm::Error::success();
  case kLongBinPut:
    put(takeNumber(4));
    return llvm::Error::success();
  case kMemoize:
    put(memo.size());
    return llvm::Error::success();
  case kBinGet:
    return get(takeNumber(1));
  case kLongBinGet:
    return get(takeNumber(4));
  default:
    return makeError("opcode {0} is not one of plain data", llvm::format_hex(opcode, 4));
  }
}

llvm::Error PickleParser::run() {
  while (!stopped) {
    size_t begin = position;
    llvm::ArrayRef<uint8_t> opcode = take(1);
    llvm::Error error = opcode.empty() ? llvm::Error::success() : step(opcode.front());
    if (truncated) {
      llvm::consumeError(std::move(error));
      return makeError("the pickle is truncated at byte {0}", begin);
    }
    if (error)
      return makeError("the pickle is refused at byte {0}: {1}", begin,
                       llvm::toString(std::move(error)));
    if (underflow)
      return makeError("the pickle is malformed at byte {0}: its stack holds too little", begin);
  }
  if (stack.size() != 1)
    return makeError("the pickle is malformed: it ends with {0} values, expected one",
                     stack.size());
  pickle.top = stack.front();
  return llvm::Error::success();
}

llvm::Expected<std::unique_ptr<Pickle>>
Pickle::parse(llvm::ArrayRef<uint8_t> bytes, llvm::function_ref<bool(llvm::StringRef)> isKnown) {
  auto pickle = std::make_unique<Pickle>();
  if (llvm::Error error = PickleParser(bytes, isKnown, *pickle).run())
    return error;
  return pickle;
}
