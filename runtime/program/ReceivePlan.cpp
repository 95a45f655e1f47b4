//===- ReceivePlan.cpp - where received values lie ----------------------------===//

#include "runtime/program/ReceivePlan.h"
#include "runtime/program/ProgramImpl.h"

using namespace cleave;
using namespace cleave::runtime;

pipeline::ReceiveMemory cleave::runtime::planReceives(const Program &program, int64_t place) {
  const Program::Impl &impl = program.impl();
  const schedule::Schedule &lists = impl.schedule->program;
  std::vector<pipeline::StageMemory> stages(lists.numStages());
  for (const PhaseFunction &part : impl.phaseFunctions)
    if (lists.topology.rankOf(unsigned(part.stage)) == place) {
      stages[part.stage].input += pipeline::countTaken(part.function, train::RoleKind::Crossing);
      stages[part.stage].gradient +=
          pipeline::countTaken(part.function, train::RoleKind::CrossingGradient);
    }
  return pipeline::planReceives(lists, unsigned(place), stages);
}
