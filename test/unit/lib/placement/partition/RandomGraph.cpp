//===- RandomGraph.cpp - random programs for one device ----------------------===//
//
// A pool of values grows by random ops on random values of it. An op that needs another operand
// takes a value of the pool that fits, or a new input.
//
//===----------------------------------------------------------------------===//

#include "test/unit/lib/placement/partition/RandomGraph.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/FormatVariadic.h"

using llvm::formatv;

namespace {

using Shape = std::vector<int64_t>;

struct Value {
  std::string name;
  Shape shape;
  /// No element is larger: products that overflow would tell nothing.
  double bound = 1;
  bool isUsed = false;
};

class Graph {
public:
  Graph(std::mt19937 &random, const std::vector<int64_t> &mesh) : random(random), mesh(mesh) {}
  std::string make();

private:
  unsigned pick(size_t count) { return cleave::test::pick(random, count); }
  static std::string list(const Shape &shape) {
    std::string text = "[";
    for (auto [i, size] : llvm::enumerate(shape))
      text += (i ? ", " : "") + std::to_string(size);
    return text + "]";
  }
  static std::string type(const Shape &shape, const char *element = "f64") {
    std::string text = "tensor<";
    for (int64_t size : shape)
      text += std::to_string(size) + "x";
    return text + element + ">";
  }
  Value input(const Shape &shape, const char *element = "f64");
  /// A value of this shape and bound: of the pool, or a new input.
  Value like(const Shape &shape, double bound = 1e6);
  std::string use(Value &value) {
    value.isUsed = true;
    return value.name;
  }
  /// `%v = aten.OP(ARGUMENTS) : (TYPES) -> type of shape`
  void op(const std::string &text, const std::string &operandTypes, const Shape &shape,
          double bound) {
    Value value{"%v" + std::to_string(count++), shape, bound};
    body += formatv("  {0} = {1} : ({2}) -> {3}\n", value.name, text, operandTypes, type(shape));
    pool.push_back(value);
  }
  void addOp();
  void addUnary(Value x);
  void addBinary(Value x);
  void addContraction(Value x);
  void addView(Value x);
  void addContiguousView(Value x, const Shape &shape);
  void addReduction(Value x);
  void addNormalization(Value x);
  void addPart(Value x);
  void addLookUp(Value x);
  void addDraw(Value x);

  std::mt19937 &random;
  const std::vector<int64_t> &mesh;
  std::vector<Value> pool;
  std::string arguments, body;
  int count = 0, inputs = 0;
  int64_t draws = 0;
};

} // namespace

Value Graph::input(const Shape &shape, const char *element) {
  Value value{"%x" + std::to_string(inputs++), shape};
  arguments += formatv("    {0}: {1} {{train.role = #train.role<input \"{2}\">},\n", value.name,
                       type(shape, element), value.name.substr(1));
  return value;
}

Value Graph::like(const Shape &shape, double bound) {
  std::vector<unsigned> fitting;
  for (auto [i, value] : llvm::enumerate(pool))
    if (value.shape == shape && value.bound <= bound)
      fitting.push_back(i);
  if (fitting.empty() || pick(4) == 0) {
    pool.push_back(input(shape));
    fitting = {unsigned(pool.size() - 1)};
  }
  return pool[fitting[pick(fitting.size())]];
}

void Graph::addUnary(Value x) {
  const char *ops[] = {"relu", "tanh", "gelu", "sigmoid", "neg", "cos", "clone", "detach"};
  op(formatv("aten.{0}({1})", ops[pick(8)], x.name), type(x.shape), x.shape,
     std::max(x.bound, 1.0));
}

void Graph::addBinary(Value x) {
  Shape shape = x.shape;
  // Leading dimensions may be missing, or others be 1.
  if (pick(3) == 0 && !shape.empty())
    shape.erase(shape.begin());
  else if (pick(4) == 0 && !shape.empty())
    shape[pick(shape.size())] = 1;
  Value y = like(shape);
  const char *ops[] = {"add", "mul", "sub", "add", "maximum"};
  bool isSwapped = pick(2);
  op(formatv("aten.{0}({1}, {2})", ops[pick(5)], isSwapped ? y.name : x.name,
             isSwapped ? x.name : y.name),
     isSwapped ? type(y.shape) + ", " + type(x.shape) : type(x.shape) + ", " + type(y.shape),
     x.shape, x.bound * y.bound + x.bound + y.bound);
}

void Graph::addContraction(Value x) {
  int64_t sizes[] = {24, 48};
  int64_t n = sizes[pick(2)];
  if (x.shape.size() == 2) {
    Value w = like({x.shape[1], n});
    if (pick(3) == 0) {
      Value b = like({n});
      return op(formatv("aten.addmm({0}, {1}, {2})", b.name, x.name, w.name),
                type(b.shape) + ", " + type(x.shape) + ", " + type(w.shape), {x.shape[0], n},
                x.bound * w.bound * 1152 + b.bound);
    }
    return op(formatv("aten.mm({0}, {1})", x.name, w.name), type(x.shape) + ", " + type(w.shape),
              {x.shape[0], n}, x.bound * w.bound * 1152);
  }
  if (x.shape.size() == 3) {
    Value w = like({x.shape[0], x.shape[2], n});
    return op(formatv("aten.bmm({0}, {1})", x.name, w.name), type(x.shape) + ", " + type(w.shape),
              {x.shape[0], x.shape[1], n}, x.bound * w.bound * 1152);
  }
  addUnary(x);
}

/// Only what is contiguous has every view.
void Graph::addContiguousView(Value x, const Shape &shape) {
  op(formatv("aten.clone({0}, memory_format = \"contiguous_format\")", x.name), type(x.shape),
     x.shape, x.bound);
  Value copy = pool.back();
  pool.pop_back();
  op(formatv("aten.view({0}, size = {1})", copy.name, list(shape)), type(copy.shape), shape,
     x.bound);
}

void Graph::addView(Value x) {
  Shape shape = x.shape;
  size_t rank = shape.size();
  switch (pick(5)) {
  case 0:
    if (rank == 2) {
      std::swap(shape[0], shape[1]);
      return op(formatv("aten.t({0})", x.name), type(x.shape), shape, x.bound);
    }
    break;
  case 1:
    if (rank >= 2) {
      unsigned a = pick(rank), b = pick(rank);
      std::swap(shape[a], shape[b]);
      return op(formatv("aten.transpose({0}, dim0 = {1}, dim1 = {2})", x.name, a, b), type(x.shape),
                shape, x.bound);
    }
    break;
  case 2:
    if (rank >= 2) {
      unsigned at = pick(rank - 1);
      shape[at] *= shape[at + 1];
      shape.erase(shape.begin() + at + 1);
      return addContiguousView(x, shape);
    }
    break;
  case 3:
    if (rank >= 1 && rank <= 2) {
      unsigned at = pick(rank);
      if (shape[at] >= 48 && shape[at] % 24 == 0) {
        shape[at] /= 24;
        shape.insert(shape.begin() + at + (pick(2) ? 0 : 1), 24);
        return addContiguousView(x, shape);
      }
    }
    break;
  default:
    if (rank >= 1 && rank <= 2) {
      unsigned at = pick(rank + 1);
      shape.insert(shape.begin() + at, 1);
      op(formatv("aten.unsqueeze({0}, dim = {1})", x.name, at), type(x.shape), shape, x.bound);
      Value y = pool.back();
      shape[at] = 24;
      return op(formatv("aten.expand({0}, size = {1})", y.name, list(shape)), type(y.shape), shape,
                x.bound);
    }
  }
  addUnary(x);
}

void Graph::addReduction(Value x) {
  if (x.shape.empty())
    return addUnary(x);
  Shape shape = x.shape;
  unsigned at = pick(shape.size());
  bool keeps = pick(2);
  if (keeps)
    shape[at] = 1;
  else
    shape.erase(shape.begin() + at);
  const char *ops[] = {"sum_dim_int_list", "mean_dim", "amax", "amin"};
  op(formatv("aten.{0}({1}, dim = [{2}], keepdim = {3})", ops[pick(4)], x.name, at,
             keeps ? "true" : "false"),
     type(x.shape), shape, x.bound * double(x.shape[at]));
}

void Graph::addNormalization(Value x) {
  if (x.shape.empty())
    return addUnary(x);
  if (pick(2))
    return op(formatv("aten.{0}({1}, dim = {2}, half_to_float = false)",
                      pick(2) ? "_softmax" : "_log_softmax", x.name, pick(x.shape.size())),
              type(x.shape), x.shape, 2 * x.bound + 10);
  Value w = like({x.shape.back()}), b = like({x.shape.back()});
  Shape statistics = x.shape;
  statistics.back() = 1;
  std::string name = "%v" + std::to_string(count++);
  body += formatv("  {0}:3 = aten.native_layer_norm({1}, normalized_shape = [{2}], {3}, {4}, eps = "
                  "1.0e-05) : ({5}, {6}, {6}) -> ({5}, {7}, {7})\n",
                  name, x.name, x.shape.back(), w.name, b.name, type(x.shape), type(w.shape),
                  type(statistics));
  pool.push_back({name + "#0", x.shape, 34 * w.bound + b.bound});
}

void Graph::addPart(Value x) {
  if (x.shape.empty())
    return addUnary(x);
  Shape shape = x.shape;
  unsigned at = pick(shape.size());
  switch (pick(3)) {
  case 0: {
    Value y = like(x.shape);
    shape[at] *= 2;
    return op(formatv("aten.cat([{0}, {1}], dim = {2})", x.name, y.name, at),
              type(x.shape) + ", " + type(y.shape), shape, std::max(x.bound, y.bound));
  }
  case 1:
    if (shape[at] == 48) {
      shape[at] = 24;
      return op(formatv("aten.slice({0}, dim = {1}, start = 12, end = 36)", x.name, at),
                type(x.shape), shape, x.bound);
    }
    break;
  default:
    shape.erase(shape.begin() + at);
    return op(formatv("aten.select({0}, dim = {1}, index = 0)", x.name, at), type(x.shape), shape,
              x.bound);
  }
  addUnary(x);
}

void Graph::addLookUp(Value x) {
  // Indices are drawn below 24.
  if (x.shape.size() != 2 || x.shape[0] < 24)
    return addUnary(x);
  Value indices = input({24, 24}, "i64");
  op(formatv("aten.embedding({0}, {1})", x.name, indices.name),
     type(x.shape) + ", " + type(indices.shape, "i64"), {24, 24, x.shape[1]}, x.bound);
}

void Graph::addDraw(Value x) {
  int64_t elements = 1;
  for (int64_t size : x.shape)
    elements *= size;
  // Numbers are dealt out in memory order, which is known of copies and of views of them.
  op(formatv("aten.clone({0}, memory_format = \"contiguous_format\")", x.name), type(x.shape),
     x.shape, x.bound);
  x = pool.back();
  pool.pop_back();
  if (x.shape.size() > 1 && pick(2)) {
    Shape shape = x.shape;
    std::swap(shape[0], shape[1]);
    op(formatv("aten.transpose({0}, dim0 = 0, dim1 = 1)", x.name), type(x.shape), shape, x.bound);
    x = pool.back();
    pool.pop_back();
  }
  std::string name = "%v" + std::to_string(count++);
  body += formatv("  {0}:2 = aten.rng_native_dropout({1}, %seed, %offset, p = 0.25, train = true, "
                  "position = {2}, generator = #aten.generator<mt19937>) : ({3}, tensor<i64>, "
                  "tensor<i64>) -> ({3}, "
                  "{4})\n",
                  name, x.name, draws, type(x.shape), type(x.shape, "i1"));
  pool.push_back({name + "#0", x.shape, 2 * x.bound});
  draws += 2 * elements;
}

void Graph::addOp() {
  // Later values more often, so that graphs become deep.
  unsigned back = std::min(pick(pool.size()), pick(pool.size()));
  Value &operand = pool[pool.size() - 1 - back];
  operand.isUsed = true;
  Value x = operand;
  int64_t elements = 1;
  for (int64_t size : x.shape)
    elements *= size;
  // Large values are made small again.
  if (elements > 30000)
    return addReduction(x);
  if (x.bound > 1e6)
    return op(formatv("aten.tanh({0})", x.name), type(x.shape), x.shape, 1);
  switch (pick(14)) {
  case 0:
  case 1:
    return addUnary(x);
  case 2:
  case 3:
    return addBinary(x);
  case 4:
  case 5:
  case 6:
    return addContraction(x);
  case 7:
  case 8:
    return addView(x);
  case 9:
    return addReduction(x);
  case 10:
    return addNormalization(x);
  case 11:
    return addPart(x);
  case 12:
    return addLookUp(x);
  default:
    return addDraw(x);
  }
}

std::string Graph::make() {
  Shape shapes[] = {{24, 48}, {48, 24}, {24, 24}, {24, 24, 48}};
  pool.push_back(input(shapes[pick(4)]));
  for (int ops = 4 + pick(8); ops > 0; --ops)
    addOp();
  // Unused values are outputs, and one more value.
  pool[pick(pool.size())].isUsed = false;
  std::string results, returned, types;
  int outputs = 0;
  for (Value &value : pool) {
    if (value.isUsed || (value.name[1] == 'x' && outputs))
      continue;
    std::string comma = outputs ? ", " : "";
    results += formatv("{0}{1} {{train.role = #train.role<output \"{2}\">}", comma,
                       type(value.shape), outputs++);
    returned += comma + value.name;
    types += comma + type(value.shape);
  }
  std::string axes;
  for (auto [i, size] : llvm::enumerate(mesh))
    axes += formatv("{0}\"{1}\" = {2}", i ? ", " : "", char('a' + i), size);
  return formatv(
      "dist.mesh @mesh [{0}]\nfunc.func @microbatch(\n{1}"
      "    %seed: tensor<i64> {{train.role = #train.role<rng_seed>},\n"
      "    %offset: tensor<i64> {{train.role = #train.role<rng_offset>})\n"
      "    -> ({2})\n    attributes {{train.phase = #train.phase<microbatch>, train.draws "
      "= {3} : i64} {{\n{4}  return {5} : {6}\n}\n",
      axes, arguments, results, draws, body, returned, types);
}

std::string cleave::test::makeGraph(std::mt19937 &random, const std::vector<int64_t> &mesh) {
  return Graph(random, mesh).make();
}
