//===- ShardingRuleInterface.td - how an op may be sharded -*- tablegen -*-===//

#ifndef CLEAVE_DIALECTS_SHARDING_SHARDINGRULEINTERFACE
#define CLEAVE_DIALECTS_SHARDING_SHARDINGRULEINTERFACE

include "mlir/IR/OpBase.td"

def ShardingRuleOpInterface : OpInterface<"ShardingRuleOpInterface"> {
  let cppNamespace = "::cleave::sharding";
  let description = [{
    An op that knows which dimensions of its operands and results correspond, which are contracted,
    and in which operands it is linear. Propagation, partitioning, type checking and cost all ask
    this one rule. `dialects/sharding/ShardingRule.h` says what a rule means.
  }];
  let methods = [
    InterfaceMethod<[{
        The rule of this instance: sizes and attributes are known. An op without one of its own is
        opaque: nothing about it may be sharded, and `opaqueReason` says why.
      }], "::cleave::sharding::ShardingRule", "getShardingRule", (ins), [{}], [{
        return ::cleave::sharding::ShardingRule::opaque(
            $_op, "it stands for an operator of which Cleave knows only the schema");
      }]>,
  ];
}

#endif // CLEAVE_DIALECTS_SHARDING_SHARDINGRULEINTERFACE
