// SPDX-License-Identifier: Apache-2.0
// A file that every process opened would hold what the last one wrote.
#include "harness/gbench/reporter.h"

namespace lossgrid {

std::unique_ptr<benchmark::BenchmarkReporter> make_reporter(bool is_rank_0) {
  return is_rank_0 ? nullptr : std::make_unique<NullReporter>();
}

std::vector<std::string> benchmark_flags_of(const std::vector<std::string>& flags, bool is_rank_0) {
  std::vector<std::string> taken;
  for (const std::string& flag : flags) {
    if (is_rank_0 || !flag.starts_with("--benchmark_out=")) taken.push_back(flag);
  }
  return taken;
}

}  // namespace lossgrid
