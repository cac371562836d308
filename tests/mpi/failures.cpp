// SPDX-License-Identifier: Apache-2.0
// mpi_failures SCENARIO, in every process of a job: a run that fails. Rank 0 prints the outcome
// that it got, and the job ends as a program of this project would. Other ranks print only if they
// got another outcome.
#include <array>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <functional>
#include <map>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <fmt/format.h>

#include "harness/comm/call_signature.h"
#include "harness/comm/consensus.h"
#include "harness/comm/faults/fault_injection.h"
#include "harness/comm/mpi/mpi_ranks.h"
#include "harness/comm/process_grid.h"

namespace lossgrid {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kFar{600000};  // ctest ends a job before that
constexpr milliseconds kSoon{500};    // enough for the others to reach their wait

struct Scenario {
  std::function<void(Communicator& world)> body;
  milliseconds deadline = kFar;
  milliseconds grace = kFar;
  int ranks = 4;
  int runs = 1;  // the outcome is that of the last
};

/// Sleeps for a while, or until the job is ended.
void sleep_ms(int ms) {
  std::this_thread::sleep_for(milliseconds(ms));
}

void add_up(Communicator& comm, std::size_t count = 4) {
  std::vector<float> data(count, 1.0f);
  comm.all_reduce(std::span(data), ReduceOp::sum);
}

/// Rank 2 of 4 makes another call than the others.
Scenario mismatch(std::function<void(Communicator&)> most, std::function<void(Communicator&)> odd) {
  return {[most = std::move(most), odd = std::move(odd)](Communicator& world) {
    world.barrier();
    (world.rank() == 2 ? odd : most)(world);
  }};
}

Scenario injected(const std::string& fault, milliseconds deadline = kFar) {
  return {[fault](Communicator& world) {
            FaultInjector injector(parse_fault(fault), world.rank());
            const auto faulty = inject_faults(world, injector);
            const ProcessGrid grid = make_process_grid(*faulty, {2, 2});
            for (int i = 0; i < 3; ++i) add_up(*grid.tp, 5000);
            faulty->barrier();
          },
          deadline, kSoon};
}

std::map<std::string, Scenario> scenarios() {
  const auto sum = [](std::size_t count) {
    return [count](Communicator& world) { add_up(world, count); };
  };
  const auto barrier = [](Communicator& world) { world.barrier(); };
  std::map<std::string, Scenario> all;
  all["throw"] = {[](Communicator& world) {
    add_up(world);
    if (world.rank() == 2) {
      sleep_ms(50);  // the others wait by now
      throw Error(ErrorCode::bad_input, "no such\ncolumn");
    }
    add_up(world);
  }};
  all["throw_in_large"] = {[](Communicator& world) {
    std::vector<float> data(1 << 22);
    const auto trio = world.split(world.rank() == 3 ? 1 : 0, 0, "trio");
    if (world.rank() == 3) {
      sleep_ms(30);
      throw std::runtime_error("boom");
    }
    while (true) trio->all_reduce(std::span(data), ReduceOp::sum);
  }};
  all["throw_before_split"] = {[](Communicator& world) {
    if (world.rank() == 1) throw std::bad_alloc();
    make_process_grid(world, {2, 2});
  }};
  // No rank may remain alone in a split because another one was woken on its way there.
  all["throw_amid_splits"] = {[](Communicator& world) {
                                const auto trio = world.split(world.rank() == 3 ? 1 : 0, 0, "trio");
                                if (world.rank() == 3) {
                                  sleep_ms(2);
                                  throw std::runtime_error("boom");
                                }
                                while (true) trio->split(0, 0, "again");
                              },
                              kFar, kFar, 4, 200};
  all["throw_in_other_groups"] = {[](Communicator& world) {
    const ProcessGrid grid = make_process_grid(world, {2, 2});
    if (world.rank() == 0) throw std::runtime_error("boom");
    if (world.rank() == 1) return;
    (world.rank() == 2 ? grid.cp : grid.tp)->barrier();  // 2 waits for 0, and 3 for 2
  }};
  all["later_calls"] = {[](Communicator& world) {
    const ProcessGrid grid = make_process_grid(world, {2, 2});
    if (world.rank() == 1) throw std::runtime_error("boom");
    int aborted = 0;
    for (Communicator* comm : {&world, grid.tp.get(), grid.cp.get()}) {
      for (const auto& call : {std::function<void()>([&] { comm->barrier(); }),
                               std::function<void()>([&] { comm->split(0, 0, "late"); })}) {
        try {
          // Rank 2 shares no group but the world with rank 1.
          if (comm != &world && world.rank() == 2) continue;
          call();
        } catch (const Error& error) {
          if (error.code() == ErrorCode::aborted) ++aborted;
        }
      }
    }
    throw Error(ErrorCode::aborted, fmt::format("{} calls threw", aborted));
  }};
  all["abort"] = {[](Communicator& world) {
    if (world.rank() != 1) return world.barrier();
    sleep_ms(50);
    world.abort("seen enough");
  }};
  all["abort_by_another_thread"] = {[](Communicator& world) {
    if (world.rank() == 2) sleep_ms(500);
    std::thread other([&] {
      if (world.rank() != 3) return;
      sleep_ms(50);
      world.abort("seen enough");
    });
    const RankOutcome outcome = outcome_of([&] { world.barrier(); });
    other.join();
    throw Error(outcome.code, outcome.message);
  }};
  all["leave"] = {[](Communicator& world) {
    for (int i = 0; i < 4; ++i) add_up(world);
    if (world.rank() == 3) return sleep_ms(50);
    add_up(world);
  }};
  all["mismatch_count"] = mismatch(sum(8), sum(9));
  all["mismatch_long"] = mismatch(sum(8), sum(80000));
  all["mismatch_dtype"] = mismatch(sum(8), [](Communicator& world) {
    std::vector<std::int32_t> data(8);
    world.all_reduce(std::span(data), ReduceOp::sum);
  });
  all["mismatch_op"] = mismatch(sum(8), [](Communicator& world) {
    std::vector<float> data(8);
    world.all_reduce(std::span(data), ReduceOp::max);
  });
  all["mismatch_operation"] = mismatch(barrier, sum(8));
  all["mismatch_split"] = mismatch(sum(8), [](Communicator& world) { world.split(0, 0, "x"); });
  all["mismatch_root"] = mismatch([](Communicator& w) { w.broadcast(nullptr, 0, DType::u8, 0); },
                                  [](Communicator& w) { w.broadcast(nullptr, 0, DType::u8, 1); });
  all["hang"] = {[](Communicator& world) {
                   while (world.rank() == 1) sleep_ms(20);
                   add_up(world);
                 },
                 kSoon, kSoon};
  all["hang_of_rank_0"] = {[](Communicator& world) {
                             while (world.rank() == 0) sleep_ms(20);
                             add_up(world);
                           },
                           kSoon, kSoon};
  all["different_groups"] = {[](Communicator& world) {
                               const ProcessGrid grid = make_process_grid(world, {2, 2});
                               (world.rank() == 1 ? grid.cp : grid.tp)->barrier();
                               world.barrier();
                             },
                             kSoon, kFar};
  all["slow"] = {[](Communicator& world) {
                   if (world.rank() == 1) sleep_ms(1200);
                   world.barrier();
                 },
                 kSoon, kFar};
  all["silent"] = {[](Communicator& world) {
                     if (world.rank() == 1) std::raise(SIGSTOP);  // the process with all threads
                     world.barrier();
                   },
                   kSoon, kSoon};
  // During an external transfer.
  const CallSignature external{Collective::barrier, 0, DType::u8, std::nullopt, std::nullopt, true};
  all["external_hang"] = {[external](Communicator& world) {
                            const auto group = world.split(0, 0, "group");
                            group->transfer_external(external, [] { return false; });
                          },
                          kSoon, kFar};
  all["external_throw"] = {[external](Communicator& world) {
    world.transfer_external(external, [rank = world.rank()] {
      if (rank == 2) throw Error(ErrorCode::rank_failed, "no way");
      return false;
    });
  }};
  all["mismatch_external"] = mismatch(
      barrier, [external](Communicator& w) { w.transfer_external(external, [] { return true; }); });
  all["injected_throw"] = injected("rank=2,call=3,kind=throw");
  all["injected_hang"] = injected("rank=2,call=3,kind=hang", kSoon);
  all["injected_leave"] = injected("rank=2,call=3,kind=leave");
  all["injected_exit"] = injected("rank=2,call=3,kind=exit");
  return all;
}

std::string text_of(const RanksOutcome& outcome) {
  std::string text = fmt::format("first failed rank {}\n", outcome.first_failed_rank);
  for (std::size_t r = 0; r < outcome.ranks.size(); ++r) {
    const RankOutcome& rank = outcome.ranks[r];
    text += fmt::format("{} {}{}: {}\n", r, rank.finished ? "" : "hangs ",
                        rank.ok ? "ok" : name(rank.code), rank.message);
  }
  return text;
}

int run(int argc, char** argv) {
  const std::string what = argc > 1 ? argv[1] : "";
  const auto all = scenarios();
  MpiSession session(argc, argv);
  if (!all.contains(what)) return session.finish(static_cast<int>(ExitCode::usage));
  const Scenario& scenario = all.at(what);
  RanksOutcome outcome;
  for (int i = 0; i < scenario.runs; ++i) {
    outcome =
        run_mpi_ranks(session, scenario.ranks, scenario.body, scenario.deadline, scenario.grace);
  }
  const std::string text = text_of(outcome);
  if (session.rank() == 0) std::fputs(text.c_str(), stdout);
  if (!outcome.any_hung()) {
    // The job goes on after a failure, and the outcomes of all ranks can be compared.
    const RanksOutcome after = run_mpi_ranks(
        session, session.size(),
        [&](Communicator& world) { require_same_text(world, text, "the outcome"); }, kFar);
    if (session.rank() == 0)
      std::fputs(after.all_ok() ? "same on all ranks\n" : "NOT the same on all ranks\n", stdout);
  }
  const ErrorCode code = outcome.ranks[static_cast<std::size_t>(outcome.first_failed_rank)].code;
  return session.finish(static_cast<int>(exit_code(code)));
}

}  // namespace
}  // namespace lossgrid

int main(int argc, char** argv) {
  return lossgrid::run(argc, argv);
}
