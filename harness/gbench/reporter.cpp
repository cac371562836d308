// SPDX-License-Identifier: Apache-2.0
// If every process opened the file, it would hold the output of the last one. Google Benchmark
// accepts a file reporter only if a file is given.
#include "harness/gbench/reporter.h"

#include <algorithm>
#include <cctype>
#include <cstdlib>

namespace lossgrid {
namespace {

/// Returns the value of the last --`name`=, or of NAME in the environment, or `otherwise`.
std::string flag_value(const std::vector<std::string>& flags, const std::string& name,
                       const std::string& otherwise) {
  const std::string prefix = "--" + name + "=";
  const auto last = std::find_if(flags.rbegin(), flags.rend(),
                                 [&](const std::string& flag) { return flag.starts_with(prefix); });
  if (last != flags.rend()) return last->substr(prefix.size());
  std::string variable = name;
  for (char& c : variable) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  const char* value = std::getenv(variable.c_str());
  return value == nullptr ? otherwise : value;
}

}  // namespace

void JsonReporter::ReportRuns(const std::vector<Run>& runs) {
  std::vector<Run> all = runs;  // repetitions of one benchmark, or their aggregates
  for (Run& run : all) {
    if (run.memory_result != nullptr) run.memory_result = runs.back().memory_result;
  }
  JSONReporter::ReportRuns(all);
}

Reporters make_reporters(const std::vector<std::string>& flags, bool is_rank_0) {
  Reporters reporters;
  if (!is_rank_0) {
    reporters.display = std::make_unique<NullReporter>();
    return reporters;
  }
  if (flag_value(flags, "benchmark_format", "console") == "json") {
    reporters.display = std::make_unique<JsonReporter>();
  }
  if (!flag_value(flags, "benchmark_out", "").empty() &&
      flag_value(flags, "benchmark_out_format", "json") == "json") {
    reporters.file = std::make_unique<JsonReporter>();
  }
  return reporters;
}

std::vector<std::string> benchmark_flags_of(std::vector<std::string> flags, bool is_rank_0) {
  if (!is_rank_0) flags.push_back("--benchmark_out=");  // the last one counts
  return flags;
}

}  // namespace lossgrid
