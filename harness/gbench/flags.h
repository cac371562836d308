// SPDX-License-Identifier: Apache-2.0
// Command line of lossgrid_gbench: the flags of `lossgrid bench`, which select the trials, and
// those of Google Benchmark, which are passed on unchanged.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "harness/cli/flags/suite_flags.h"

namespace lossgrid {

/// Suite whose trials are registered if neither a suite nor a case is given.
inline constexpr const char* kDefaultSuite = "perf_smoke";

struct GbenchFlags {
  SuiteFlags suite;
  std::int64_t iterations = 20;        // of every trial benchmark, on every rank
  std::vector<std::string> benchmark;  // --benchmark_*, as they were given
};

/// Reads the command line without the program's name. Returns nullopt if it printed the help.
/// Throws usage.
std::optional<GbenchFlags> parse_gbench_flags(const std::vector<std::string>& arguments);

/// Calls benchmark::Initialize with `flags`. `program` is the name in reports and outlives the
/// benchmarks. Throws usage for a flag that Google Benchmark does not know or cannot read; an
/// unknown format ends the process with that exit code.
void initialize_benchmark(char* program, const std::vector<std::string>& flags);

}  // namespace lossgrid
