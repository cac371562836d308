// SPDX-License-Identifier: Apache-2.0
// Reporters of Google Benchmark. Of several processes that run the same benchmarks together only
// rank 0 reports; the others run them all, print nothing and write no file. Ranks that are threads
// share one process, which has rank 0. JsonReporter works around a bug with memory results.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include <benchmark/benchmark.h>

namespace lossgrid {

/// A reporter that lets every benchmark run and prints nothing.
class NullReporter final : public benchmark::BenchmarkReporter {
 public:
  bool ReportContext(const Context& /*context*/) override { return true; }
  void ReportRuns(const std::vector<Run>& /*runs*/) override {}
};

/// A JSON reporter with valid memory results. Google Benchmark up to 1.9.1 keeps the memory results
/// of repetitions in a vector that grows, and hands on pointers into it: all but the last dangle
/// (google/benchmark issue 1939). Memory is the same in every repetition here, so that of the last
/// stands for all.
class JsonReporter final : public benchmark::JSONReporter {
 public:
  void ReportRuns(const std::vector<Run>& runs) override;
};

/// Reporters of a process. Null: Google Benchmark's own, chosen by its flags.
struct Reporters {
  std::unique_ptr<benchmark::BenchmarkReporter> display;
  std::unique_ptr<benchmark::BenchmarkReporter> file;
};

/// Makes the reporters of a process with these flags (--benchmark_*; a missing one is read from the
/// environment, as by Google Benchmark).
Reporters make_reporters(const std::vector<std::string>& flags, bool is_rank_0);

/// Returns the flags that a process passes on: off rank 0 without those that write a file.
std::vector<std::string> benchmark_flags_of(std::vector<std::string> flags, bool is_rank_0);

}  // namespace lossgrid
