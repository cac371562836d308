// SPDX-License-Identifier: Apache-2.0
// Who reports: of several processes that run the same benchmarks together only the one with rank 0
// does; the others must run them all, print nothing and write no file. Ranks that are threads share
// one process, which has rank 0.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include <benchmark/benchmark.h>

namespace lossgrid {

/// Lets every benchmark run and prints nothing.
class NullReporter final : public benchmark::BenchmarkReporter {
 public:
  bool ReportContext(const Context& /*context*/) override { return true; }
  void ReportRuns(const std::vector<Run>& /*runs*/) override {}
};

/// The reporter of a process: null stands for the one that --benchmark_format asks for.
std::unique_ptr<benchmark::BenchmarkReporter> make_reporter(bool is_rank_0);

/// Those of `flags` (--benchmark_*) that a process takes: off rank 0 without --benchmark_out.
std::vector<std::string> benchmark_flags_of(const std::vector<std::string>& flags, bool is_rank_0);

}  // namespace lossgrid
