// SPDX-License-Identifier: Apache-2.0
// Who reports: of several processes that run the same benchmarks together only the one with rank 0
// does; the others must run them all, print nothing and write no file. Ranks that are threads share
// one process, which has rank 0. And a JSON reporter that can be trusted with memory.
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

/// Google Benchmark up to 1.9.1 keeps the memory results of repetitions in a vector that grows, and
/// hands on pointers into it: all but the last dangle (google/benchmark issue 1939). Memory is the
/// same in every repetition here, so that of the last stands for all.
class JsonReporter final : public benchmark::JSONReporter {
 public:
  void ReportRuns(const std::vector<Run>& runs) override;
};

/// Null: Google Benchmark's own, as its flags say.
struct Reporters {
  std::unique_ptr<benchmark::BenchmarkReporter> display;
  std::unique_ptr<benchmark::BenchmarkReporter> file;
};

/// The reporters of a process with these flags (--benchmark_*; where one is missing the environment
/// counts, as for Google Benchmark).
Reporters make_reporters(const std::vector<std::string>& flags, bool is_rank_0);

/// `flags` as a process takes them: off rank 0 no file is written.
std::vector<std::string> benchmark_flags_of(std::vector<std::string> flags, bool is_rank_0);

}  // namespace lossgrid
