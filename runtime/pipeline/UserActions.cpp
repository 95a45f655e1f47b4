//===- UserActions.cpp - what a schedule's own actions run ---------------------===//

#include "cleave/UserActions.h"

#include "llvm/ADT/StringMap.h"

using namespace cleave::runtime;

static llvm::StringMap<UserCallback> &getTable() {
  static llvm::StringMap<UserCallback> table;
  return table;
}

void cleave::runtime::setUserAction(llvm::StringRef name, UserCallback callback) {
  getTable()[name] = std::move(callback);
}

UserCallback cleave::runtime::getUserAction(llvm::StringRef name) {
  return getTable().lookup(name);
}
