//===- ReceivePlan.h - where received values lie -------------------*- C++ -*-===//
//
// Every receive of a rank's schedule has a slot (lib/schedule/model/Slots.h): memory that is used
// again by a later receive when what was in it has been used up.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_RUNTIME_PROGRAM_RECEIVEPLAN_H
#define CLEAVE_RUNTIME_PROGRAM_RECEIVEPLAN_H

#include "cleave/Program.h"
#include "lib/pipeline/RankMemory.h"

namespace cleave::runtime {

/// The plan of the rank at `place` along the pipeline axis.
pipeline::ReceiveMemory planReceives(const Program &program, int64_t place);

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_PROGRAM_RECEIVEPLAN_H
