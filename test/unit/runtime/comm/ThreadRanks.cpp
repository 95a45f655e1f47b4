//===- ThreadRanks.cpp - Ranks as threads of a test -----------------------===//

#include "test/unit/runtime/comm/ThreadRanks.h"

#include "runtime/comm/Failure.h"
#include "runtime/comm/Socket.h"

#include <thread>

using namespace cleave::runtime;

test::Outcome test::outcomeOf(llvm::Error error) {
  Outcome outcome;
  if (!error)
    return outcome;
  outcome.failed = true;
  llvm::raw_string_ostream(outcome.message) << error;
  llvm::handleAllErrors(
      std::move(error),
      [&](const PeerFailure &failure) {
        outcome.peerFailure = true;
        outcome.missing = failure.missingRanks().vec();
      },
      [](const llvm::ErrorInfoBase &) {});
  return outcome;
}

std::vector<test::Outcome>
test::runThreadRanks(int size, std::chrono::milliseconds timeout,
                     const std::function<llvm::Error(Communicator &)> &body) {
  std::shared_ptr<InProcessStore> store = makeInProcessStore();
  std::vector<Outcome> outcomes(size);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank)
    threads.emplace_back([&, rank] {
      Rendezvous rendezvous;
      rendezvous.rank = rank;
      rendezvous.size = size;
      rendezvous.inProcess = store;
      ConnectOptions options;
      options.timeout = timeout;
      llvm::Expected<std::unique_ptr<Communicator>> world = connect(rendezvous, options);
      if (!world) {
        outcomes[rank] = outcomeOf(world.takeError());
        return;
      }
      Clock::time_point begin = Clock::now();
      outcomes[rank] = outcomeOf(body(**world));
      outcomes[rank].seconds = std::chrono::duration<double>(Clock::now() - begin).count();
      if (outcomes[rank].failed)
        (*world)->abort(outcomes[rank].message);
    });
  for (std::thread &thread : threads)
    thread.join();
  return outcomes;
}
