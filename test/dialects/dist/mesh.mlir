// RUN: cleave-opt %s | cleave-opt | FileCheck %s
// RUN: cleave-opt %s --emit-bytecode | cleave-opt | FileCheck %s

// CHECK: dist.mesh @one ["dp" = 2]
dist.mesh @one ["dp" = 2]
// CHECK: dist.mesh @open ["pp" = 2, "dp" = ?, "tp" = 4]
dist.mesh @open ["pp" = 2, "dp" = ?, "tp" = 4]
// CHECK: dist.mesh @tagged ["a \22b\22" = 1] {tag}
dist.mesh @tagged ["a \"b\"" = 1] {tag}

// CHECK: module attributes {test.axes = [#dist.axis<"dp" = 2>, #dist.axis<"tp" = ?>], test.reduction = #dist.reduction<sum>}
module attributes {test.axes = [#dist.axis<"dp" = 2>, #dist.axis<"tp" = ?>], test.reduction = #dist.reduction<sum>} {
}
