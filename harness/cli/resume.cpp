// SPDX-License-Identifier: Apache-2.0
#include "harness/cli/resume.h"

#include "harness/cli/command.h"
#include "harness/cli/flags/load_flags.h"
#include "harness/cli/text/command_text.h"
#include "harness/core/error.h"
#include "harness/core/process/environment.h"
#include "reports/file/report_reader.h"

namespace lossgrid {

// A report of another build is refused, because verdicts of two builds would be mixed.
RunRecord read_earlier(const std::string& path, const std::string& command) {
  RunRecord earlier = read_report(path);
  if (earlier.command != command) {
    throw_bad_input("{}: it is the report of lossgrid {}", path, earlier.command);
  }
  if (earlier.environment.value("tool", nlohmann::ordered_json()) !=
      capture_environment().value("tool", nlohmann::ordered_json())) {
    throw_bad_input("{}: another build made it", path);
  }
  return earlier;
}

FinishedWork read_finished(const std::string& path, const std::string& command, AfterFailure after,
                           const Ranks& ranks) {
  RunRecord earlier;
  std::string refused;
  if (ranks.reports()) {
    try {
      earlier = read_earlier(path, command);
    } catch (const Error& error) {
      refused = error.what();
    }
  }
  refused = ranks.agree_on_first_error(refused);
  if (!refused.empty()) throw_bad_input("--resume: {}", refused);
  return FinishedWork(earlier, after, ranks);
}

std::string resume_line(const std::string& report) {
  constexpr CommandFlag kReplaced[] = {{"--resume", true}};
  std::vector<std::string> words = without_flags(command_line(), kReplaced);
  words.insert(words.begin(), "lossgrid");
  words.insert(words.end(), {"--resume", report});
  for (const std::string& file : requested_files({})) {
    words.insert(words.end(), {"--load", file});  // files of LOSSGRID_LOAD
  }
  return shell_line(words);
}

void keep_finished(const FinishedWork& finished, ReportWriter& writer) {
  for (const auto& [id, trial] : finished.trials()) writer.add(trial);
  for (const auto& [id, timing] : finished.timings()) writer.add(timing);
}

}  // namespace lossgrid
