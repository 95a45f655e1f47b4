//===- ShardingRuleInterface.td - how an op may be sharded -*- tablegen -*-===//

#ifndef CLEAVE_DIALECTS_SHARDING_SHARDINGRULEINTERFACE
#define CLEAVE_DIALECTS_SHARDING_SHARDINGRULEINTERFACE

include "mlir/IR/OpBase.td"

def ShardingRuleOpInterface : OpInterface<"ShardingRuleOpInterface"> {
  let cppNamespace = "::cleave::sharding";
  let description = [{
    An op that knows which dimensions of its operands and results correspond, which are contracted, and
    in which operands it is linear. Propagation, partitioning, type checking and cost models all use
    this rule. `dialects/sharding/ShardingRule.h` defines rules.
  }];
  let methods = [
    InterfaceMethod<[{
        The rule of this instance: sizes and attributes are known. An op without a rule of its own is
        opaque: it must not be sharded, and `opaqueReason` gives the reason.
      }], "::cleave::sharding::ShardingRule", "getShardingRule", (ins), [{}], [{
        return ::cleave::sharding::ShardingRule::opaque(
            $_op, "Cleave knows only its schema");
      }]>,
  ];
}

#endif // CLEAVE_DIALECTS_SHARDING_SHARDINGRULEINTERFACE
