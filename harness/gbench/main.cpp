// SPDX-License-Identifier: Apache-2.0
// lossgrid_gbench: row kernels, exponentials and collectives as Google Benchmarks, so that its
// filters, its JSON and compare.py work on them. Google Benchmark returns 0 in every case, also for
// a value that it rejects; here an error has an exit code.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include "harness/core/error.h"
#include "harness/gbench/micro_benchmarks.h"

namespace lossgrid {
namespace {

constexpr const char* kHelp =
    "lossgrid_gbench runs row kernels, exponentials and collectives as Google Benchmarks, on the "
    "processor only.\n"
    "Times of whole trials: lossgrid bench --report FILE, then lossgrid export FILE --to gbench.\n"
    "\n"
    "Names:\n"
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
    "Exit codes: 0 measured, 14 crashed, 64 usage, 77 nothing ran.\n"
    "Try: lossgrid_gbench --benchmark_filter='^(statistics|gradient)/.*/32768$'\n"
    "\n"
    "Flags of Google Benchmark:\n";

int print_error(const std::string& message, ExitCode code) {
  std::fprintf(stderr, "lossgrid_gbench: %s\n", message.c_str());
  return static_cast<int>(code);
}

bool asks_for_help(int argc, char** argv) {
  return std::any_of(argv, argv + argc, [](std::string_view argument) {
    return argument == "--help" || argument == "-h";
  });
}

int run_benchmarks(int argc, char** argv) {
  if (asks_for_help(argc, argv)) {
    std::fputs(kHelp, stdout);
    benchmark::PrintDefaultHelp();
    return 0;
  }
  benchmark::Initialize(&argc, argv, [] {
    std::exit(
        print_error("Google Benchmark rejects the value of a --benchmark_* flag", ExitCode::usage));
  });
  if (argc > 1) {
    return print_error(
        fmt::format("unknown flag or value: {} (see lossgrid_gbench --help)", argv[1]),
        ExitCode::usage);
  }
  register_kernels();
  register_exponentials();
  register_collectives();
  const std::size_t matched = benchmark::RunSpecifiedBenchmarks();
  return static_cast<int>(matched > 0 ? ExitCode::ok : ExitCode::nothing_ran);
}

}  // namespace
}  // namespace lossgrid

int main(int argc, char** argv) {
  try {
    return lossgrid::run_benchmarks(argc, argv);
  } catch (const std::exception& error) {
    return lossgrid::print_error(error.what(), lossgrid::ExitCode::rank_crashed);
  }
}
