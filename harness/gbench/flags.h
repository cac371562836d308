// SPDX-License-Identifier: Apache-2.0
// The command line of lossgrid_gbench: which trials are registered, in the flags of `lossgrid
// bench`, and beside them Google Benchmark's own flags, which go through as they are.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "harness/cli/suite_flags.h"

namespace lossgrid {

/// Whose trials are registered when neither a suite nor a case is asked for.
inline constexpr const char* kDefaultSuite = "perf_smoke";

struct GbenchFlags {
  SuiteFlags suite;
  std::int64_t iterations = 20;        // of every trial benchmark, on every rank
  std::vector<std::string> benchmark;  // --benchmark_*, as they were given
};

/// Reads the command line without the program's name. Nothing: help was asked for and printed.
/// Throws usage.
std::optional<GbenchFlags> parse_gbench_flags(const std::vector<std::string>& arguments);

/// benchmark::Initialize with `flags`. `program` is named in reports and outlives the process's
/// benchmarks. Throws usage for a flag that Google Benchmark does not know or cannot read; a format
/// that it does not know ends the process with that exit code.
void initialize_benchmark(char* program, const std::vector<std::string>& flags);

}  // namespace lossgrid
