// SPDX-License-Identifier: Apache-2.0
// lossgrid_gbench: trials, kernels and collectives as Google Benchmarks, so that its filters, its
// JSON and compare.py work on them. Google Benchmark returns 0 in every case; the exit code here is
// that of `lossgrid bench`.
#include <cstdio>
#include <new>

#include "harness/cli/command.h"
#include "harness/cli/flags/rank_limit.h"
#include "harness/device/kernel/rank_threads.h"
#include "harness/gbench/flags.h"
#include "harness/gbench/micro_benchmarks.h"
#include "harness/gbench/reporter.h"
#include "harness/gbench/trial_benchmarks.h"
#include "harness/runner/run.h"

namespace lossgrid {
namespace {

/// True: this process is rank 0 of those that run the same benchmarks together; ranks of trials are
/// its threads.
constexpr bool kIsRank0 = true;

ExitCode run_benchmarks(const GbenchFlags& flags, char* program) {
  const SuiteModes registered_only{false, SuiteModes::Bench::never};
  const std::vector<Suite> suites =
      requested_suites("lossgrid_gbench", flags.suite, TimingFlags{}, registered_only);
  require_runnable(suites, rank_limit(suites, flags.suite.max_ranks));
  set_threads_per_rank(flags.suite.threads_per_rank);
  initialize_benchmark(program, benchmark_flags_of(flags.benchmark, kIsRank0));

  TrackerMemory memory;
  benchmark::RegisterMemoryManager(&memory);
  register_kernels(memory);
  register_exponentials(memory);
  register_collectives();
  TrialRuns runs;
  runs.session.iterations = flags.iterations;
  runs.session.deadline =
      std::chrono::milliseconds(static_cast<std::int64_t>(flags.suite.timeout_s * 1000));
  register_trials(suites, runs, memory);

  const Reporters reporters = make_reporters(flags.benchmark, kIsRank0);
  const std::size_t matched =
      benchmark::RunSpecifiedBenchmarks(reporters.display.get(), reporters.file.get());
  benchmark::RegisterMemoryManager(nullptr);
  if (runs.session.must_end) leave_at_once(runs.session.code);
  return runs.skipped.size() == matched ? ExitCode::nothing_ran : runs.session.code;
}

int print_error(const std::string& message, ExitCode code) {
  std::fprintf(stderr, "lossgrid_gbench: %s\n", message.c_str());
  return static_cast<int>(code);
}

int run_process(int argc, char** argv) {
  try {
    const auto flags = parse_gbench_flags(std::vector<std::string>(argv + 1, argv + argc));
    return flags ? static_cast<int>(run_benchmarks(*flags, argv[0])) : 0;
  } catch (const Error& error) {
    return print_error(error.what(), exit_code(error.code()));
  } catch (const std::bad_alloc&) {
    return print_error("out of memory", ExitCode::rank_crashed);
  } catch (const std::exception& error) {
    return print_error(error.what(), ExitCode::rank_crashed);
  }
}

}  // namespace
}  // namespace lossgrid

int main(int argc, char** argv) {
  return lossgrid::run_process(argc, argv);
}
