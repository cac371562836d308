// SPDX-License-Identifier: Apache-2.0
// Flags of Google Benchmark have a prefix. For a value that it rejects Google Benchmark prints its
// help and exits with 0; here that is a usage error.
#include "harness/gbench/flags.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include <CLI/CLI.hpp>
#include <benchmark/benchmark.h>

namespace lossgrid {
namespace {

constexpr const char* kDescription =
    "lossgrid_gbench runs trials, row kernels and collectives as Google Benchmarks, on the "
    "processor only (on a GPU:\nlossgrid bench --backend cuda). All --benchmark_* flags go "
    "through: "
    "--benchmark_filter=REGEX,\n--benchmark_out=FILE, --benchmark_repetitions=N and so on, below.";

constexpr const char* kFooter =
    "Names:\n"
    "  trial/CASE/IMPLEMENTATION/GRID/PHASE/iterations:N/manual_time\n"
    "      PHASE forward, backward or forward_backward; CASE is its name, or its text\n"
    "  KERNEL/CODE/DTYPE/VOCAB\n"
    "      KERNEL statistics, all_statistics, gradient, sweep, exp; of several terms of the loss\n"
    "      term_statistics, term_gradient; below a temperature scaled_statistics, "
    "scaled_gradient;\n"
    "      below a soft-cap capped_statistics, capped_gradient; CODE highway, plain (an ordinary\n"
    "      loop); DTYPE f32, bf16; on one thread\n"
    "  values/REGIME/DTYPE/VOCAB\n"
    "      statistics and gradient of numbers that a processor may be slow at\n"
    "  COLLECTIVE/threads/RANKS/FLOATS/manual_time\n"
    "      COLLECTIVE all_reduce, all_gather, reduce_scatter\n"
    "A trial is verified, then timed: real_time is that of the slowest rank, cpu_time says "
    "nothing. "
    "max_bytes_used is\nthe peak of the memory tracker, inputs included, on the rank with the "
    "most.\n"
    "Exit codes: 0 measured, 10 wrong outputs, 11 faster than the machine can be, 12 memory or "
    "communication,\n14 a rank crashed, 15 hang, 64 usage, 65 bad input, 77 nothing ran.\n"
    "Try: lossgrid_gbench --case \"lens=512 vocab=32768\" --impl fused,one_sweep "
    "--benchmark_filter=trial\n\n"
    "Flags of Google Benchmark:\n";

}  // namespace

std::optional<GbenchFlags> parse_gbench_flags(const std::vector<std::string>& arguments) {
  GbenchFlags flags;
  std::vector<std::string> own;
  for (const std::string& argument : arguments) {
    (argument.starts_with("--benchmark_") ? flags.benchmark : own).push_back(argument);
  }
  CLI::App app(kDescription, "lossgrid_gbench");
  app.footer(kFooter);
  add_trial_flags(app, flags.suite);
  app.add_option("--iterations", flags.iterations,
                 "samples of each phase of a trial, the same on all ranks (default 20)")
      ->check(CLI::Range(2, 1000));
  std::reverse(own.begin(), own.end());  // as the parser takes them
  try {
    app.parse(own);
  } catch (const CLI::Success& success) {
    app.exit(success);
    std::fflush(stdout);
    benchmark::PrintDefaultHelp();
    return std::nullopt;
  } catch (const CLI::ParseError& error) {
    throw Error(ErrorCode::usage, std::string(error.what()) + " (see lossgrid_gbench --help)");
  }
  if (flags.suite.suite.empty() && flags.suite.cases.empty()) flags.suite.suite = kDefaultSuite;
  return flags;
}

void initialize_benchmark(char* program, const std::vector<std::string>& flags) {
  std::vector<std::string> texts = flags;
  std::vector<char*> arguments{program};
  for (std::string& text : texts) arguments.push_back(text.data());
  auto count = static_cast<int>(arguments.size());
  arguments.push_back(nullptr);
  benchmark::Initialize(&count, arguments.data(), [] {
    std::fputs("lossgrid_gbench: Google Benchmark rejects the value of a --benchmark_* flag\n",
               stderr);
    std::exit(static_cast<int>(ExitCode::usage));
  });
  if (count > 1) {
    throw Error(
        ErrorCode::usage,
        fmt::format("unknown flag or value: {} (see lossgrid_gbench --help)", arguments[1]));
  }
}

}  // namespace lossgrid
