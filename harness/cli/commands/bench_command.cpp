// SPDX-License-Identifier: Apache-2.0
// lossgrid bench: times the implementations of a suite or of cases in turn, and the ceilings of the
// machine. Equals run --mode bench.
#include <memory>

#include <CLI/CLI.hpp>

#include "harness/cli/command.h"
#include "harness/cli/run_requested.h"

namespace lossgrid {
namespace {

struct BenchFlags {
  SuiteFlags suite;
  TimingFlags timing;
};

ExitCode run(const BenchFlags& flags) {
  const SuiteModes modes{false, SuiteModes::Bench::always};
  return run_requested("bench", flags.suite, flags.timing, modes, TableRows::grids_folded);
}

}  // namespace

void add_bench_command(CLI::App& app, Action& action) {
  auto flags = std::make_shared<BenchFlags>();
  CLI::App* command = app.add_subcommand(
      "bench", "time implementations in turn, beside what memory and products reach");
  add_suite_flags(*command, flags->suite);
  add_timing_flags(*command, flags->timing);
  // clang-format off
  command->footer(
      "Exit codes: 0 timed, 10 outputs of the last timed iteration are wrong, 11 faster than the "
      "machine can be,\n14 a rank crashed or the meter is wrong, 15 hang, 64 usage, 65 bad input, "
      "77 nothing was timed.\n"
      "On a GPU (--backend cuda) samples are the time between CUDA events; with cuda_emulated "
      "times mean nothing.\n"
      "Try: lossgrid bench --case \"lens=512 vocab=32768\" --impl per_sequence,fused "
      "--cache hot,cold");
  // clang-format on
  command->callback([flags, &action] { action = [flags] { return run(*flags); }; });
}

}  // namespace lossgrid
