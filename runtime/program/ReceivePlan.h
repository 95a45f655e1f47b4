//===- ReceivePlan.h - where received values lie -------------------*- C++ -*-===//
//
// Every receive of a rank's schedule has a slot (lib/schedule/model/Slots.h): memory that is used
// again by a later receive when what was in it has been used up.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_RUNTIME_PROGRAM_RECEIVEPLAN_H
#define CLEAVE_RUNTIME_PROGRAM_RECEIVEPLAN_H

#include "cleave/Program.h"
#include "lib/schedule/model/Slots.h"

namespace cleave::runtime {

struct ReceivePlan {
  /// By slot: as large as the largest message in it.
  std::vector<int64_t> slotBytes;
  /// In the order of the rank's list.
  std::vector<schedule::SlotUse> uses;

  int64_t bytes() const;
};

/// The plan of the rank at `place` along the pipeline axis.
ReceivePlan planReceives(const Program &program, int64_t place);

/// The values of one message lie one after the other, each from an aligned address on.
int64_t alignInMessage(int64_t bytes);

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_PROGRAM_RECEIVEPLAN_H
