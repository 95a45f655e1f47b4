//===- BucketPrograms.cpp - programs whose gradients go into buckets ---------===//

#include "test/unit/passes/gradients/BucketPrograms.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/FormatVariadic.h"

using namespace cleave::test;
using llvm::formatv;

std::string cleave::test::writeProgram(const Case &test) {
  std::string arguments, results, types, body, returned, updateArguments, updateResults,
      updateTypes, updateBody, updateReturned;
  auto role = [](const Parameter &parameter, llvm::StringRef kind, llvm::StringRef suffix = "") {
    return formatv("{0} {{train.role = #train.role<{1} \"{2}\"{3}>}", parameter.type, kind,
                   parameter.name, suffix)
        .str();
  };
  std::vector<const Parameter *> ready;
  for (const Parameter &parameter : test.parameters) {
    llvm::StringRef name = parameter.name;
    arguments += formatv("%{0}: {1},\n", name,
                         role(parameter, "parameter", parameter.isFrozen ? " frozen" : ""));
    if (parameter.isFrozen)
      continue;
    ready.push_back(&parameter);
    arguments += formatv("%a_{0}: {1},\n", name, role(parameter, "accumulator"));
    results += ", " + role(parameter, "gradient");
    types += ", " + parameter.type;
    returned += formatv(", %g_{0}", name);
    updateArguments += formatv("%{0}: {1}, %g_{0}: {2},\n", name, role(parameter, "parameter"),
                               role(parameter, "gradient"));
    updateResults += (updateResults.empty() ? "" : ", ") + role(parameter, "parameter");
    updateTypes += (updateTypes.empty() ? "" : ", ") + parameter.type;
    updateReturned += formatv("{0}%n_{1}", updateReturned.empty() ? "" : ", ", name);
    if (parameter.isReduced)
      updateBody += formatv("%s_{0} = dist.all_reduce sum(%g_{0}) over @mesh [\"dp\"] : {1}\n",
                            name, parameter.type);
    updateBody += formatv("%n_{0} = train.sgd(%{0}, %{1}_{0}, %t, %{2}) {{momentum = 0.0 : f64, "
                          "dampening = 0.0 : f64, "
                          "nesterov = false, weight_decay = {3} : f64} : {4}\n",
                          name, parameter.isReduced ? "s" : "g", parameter.isFast ? "fast" : "slow",
                          parameter.isDecayed ? "1.0e-01" : "0.0", parameter.type);
  }
  llvm::sort(ready, [](const Parameter *a, const Parameter *b) {
    return std::tie(a->readiness, a->name) < std::tie(b->readiness, b->name);
  });
  for (const Parameter *parameter : ready) {
    // The gradient is the sum of as many terms as the parameter has uses.
    llvm::StringRef name = parameter->name, type = parameter->type;
    std::string sum;
    for (int use = 0; use < parameter->uses; ++use) {
      body += formatv("%t{1}_{0} = aten.mul(%{0}, %x{1}) : ({2}, tensor<f32>) -> {2}\n", name, use,
                      type);
      std::string term = formatv("%t{1}_{0}", name, use);
      if (!sum.empty()) {
        body += formatv("%u{1}_{0} = aten.add({3}, {4}) : ({2}, {2}) -> {2}\n", name, use, type,
                        sum, term);
        term = formatv("%u{1}_{0}", name, use);
      }
      sum = term;
    }
    body += formatv("%g_{0} = train.accumulate {1} into %a_{0} : {2}\n", name, sum, type);
  }
  return formatv(R"mlir(
dist.mesh @mesh ["dp" = ?]
func.func @microbatch(
{0} %x: tensor<4xf32> {{train.role = #train.role<input "x" batch 0 over ["dp"]>})
    -> (tensor<f32> {{train.role = #train.role<loss>}{1})
    attributes {{train.phase = #train.phase<microbatch>} {{
%x0 = aten.sum(%x) : (tensor<4xf32>) -> tensor<f32>
%x1 = aten.cos(%x0) : (tensor<f32>) -> tensor<f32>
%x2 = aten.sin(%x0) : (tensor<f32>) -> tensor<f32>
{2}return %x0{3} : tensor<f32>{4}
}
func.func @update(
{5} %t: tensor<f32> {{train.role = #train.role<step>})
    -> ({6}) attributes {{train.phase = #train.phase<update>} {{
%slow = train.learning_rate(%t) {{base = 0.05 : f64, schedule = #train.schedule<constant>}
    : (tensor<f32>) -> tensor<f64>
%fast = train.learning_rate(%t) {{base = 0.2 : f64, schedule = #train.schedule<constant>}
    : (tensor<f32>) -> tensor<f64>
{7}return {8} : {9}
}
)mlir",
                 arguments, results, body, returned, types, updateArguments, updateResults,
                 updateBody, updateReturned, updateTypes);
}

std::string cleave::test::writeShardedProgram(int dp) {
  struct Weight {
    const char *name;
    int rows, columns;
  };
  std::string arguments, results, body, returned, types, reduceArguments, reduceResults, reduceBody,
      reduceReturned, shardTypes, updateArguments, updateResults, updateBody, updateReturned;
  for (Weight weight : {Weight{"a", 4, 3}, Weight{"b", 2, 5}, Weight{"c", 8, 1}}) {
    std::string whole = formatv("tensor<{0}x{1}xf32>", weight.rows, weight.columns);
    std::string shard = formatv("tensor<{0}x{1}xf32>", weight.rows / 2, weight.columns);
    auto role = [&](llvm::StringRef type, llvm::StringRef kind) {
      return formatv("{0} {{train.role = #train.role<{1} \"{2}\">}", type, kind, weight.name).str();
    };
    llvm::StringRef comma = returned.empty() ? "" : ", ";
    arguments += formatv("%{0}: {1}, %a_{0}: {2},\n", weight.name, role(shard, "parameter"),
                         role(whole, "accumulator"));
    results += comma.str() + role(whole, "gradient");
    body += formatv("%w_{0} = dist.all_gather(%{0}) dim 0 over @mesh [\"fsdp\"] : {1} -> {2}\n"
                    "%t_{0} = aten.mul(%w_{0}, %x0) : ({2}, tensor<f32>) -> {2}\n"
                    "%g_{0} = train.accumulate %t_{0} into %a_{0} : {2}\n",
                    weight.name, shard, whole);
    returned += formatv("{0}%g_{1}", comma, weight.name);
    types += comma.str() + whole;
    reduceArguments += formatv("{0}%{1}: {2}", comma, weight.name, role(whole, "gradient"));
    reduceResults += comma.str() + role(shard, "gradient");
    reduceBody +=
        formatv("%s_{0} = dist.reduce_scatter sum(%{0}) dim 0 over @mesh [\"fsdp\"] : {1} -> {2}\n"
                "%r_{0} = dist.all_reduce sum(%s_{0}) over @mesh [\"dp\"] : {2}\n",
                weight.name, whole, shard);
    reduceReturned += formatv("{0}%r_{1}", comma, weight.name);
    shardTypes += comma.str() + shard;
    updateArguments += formatv("%{0}: {1}, %g_{0}: {2},\n", weight.name, role(shard, "parameter"),
                               role(shard, "gradient"));
    updateResults += comma.str() + role(shard, "parameter");
    updateBody +=
        formatv("%n_{0} = train.sgd(%{0}, %g_{0}, %t, %lr) {{momentum = 0.0 : f64, "
                "dampening = 0.0 : f64, nesterov = false, weight_decay = 0.0 : f64} : {1}\n",
                weight.name, shard);
    updateReturned += formatv("{0}%n_{1}", comma, weight.name);
  }
  return formatv(R"mlir(
dist.mesh @mesh ["dp" = {0}, "fsdp" = 2]
func.func @microbatch({1} %x: tensor<4xf32> {{train.role = #train.role<input "x" batch 0 over ["dp", "fsdp"]>})
    -> ({2}) attributes {{train.phase = #train.phase<microbatch>} {{
%x0 = aten.sum(%x) : (tensor<4xf32>) -> tensor<f32>
{3}return {4} : {5}
}
func.func @reduce({6}) -> ({7}) attributes {{train.phase = #train.phase<reduce>} {{
{8}return {9} : {10}
}
)mlir",
                 dp, arguments, results, body, returned, types, reduceArguments, reduceResults,
                 reduceBody, reduceReturned, shardTypes)
             .str() +
         formatv(R"mlir(
func.func @update({0} %t: tensor<f32> {{train.role = #train.role<step>})
    -> ({1}) attributes {{train.phase = #train.phase<update>} {{
%lr = train.learning_rate(%t) {{base = 0.05 : f64, schedule = #train.schedule<constant>}
    : (tensor<f32>) -> tensor<f64>
{2}return {3} : {4}
}
)mlir",
                 updateArguments, updateResults, updateBody, updateReturned, shardTypes)
             .str();
}
