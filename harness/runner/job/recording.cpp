// SPDX-License-Identifier: Apache-2.0
#include "harness/runner/job/recording.h"

#include <algorithm>
#include <cctype>

#include "harness/core/error.h"
#include "harness/core/file.h"

namespace lossgrid {
namespace {

constexpr std::size_t kLongestName = 100;  // file systems take 255 bytes

std::string as_file_name(std::string text) {
  std::replace_if(
      text.begin(), text.end(),
      [](unsigned char c) { return std::isalnum(c) == 0 && c != '_' && c != '-' && c != '.'; },
      '_');
  if (text.size() > kLongestName) text.resize(kLongestName);
  return text;
}

}  // namespace

void RunRecording::write_snapshot(const std::string& path, const std::string& text) {
  std::string failure;
  try {
    write_file_atomically(path, text);
  } catch (const Error& error) {
    failure = error.what();
  }
  const std::lock_guard lock(mutex_);
  if (failure.empty()) {
    ++written_snapshots_;
  } else if (failure_.empty()) {
    failure_ = failure;
  }
}

std::size_t RunRecording::written_snapshots() const {
  const std::lock_guard lock(mutex_);
  return written_snapshots_;
}

std::string RunRecording::failure() const {
  const std::lock_guard lock(mutex_);
  return failure_;
}

std::optional<TrialRecording> record_trial(const std::shared_ptr<RunRecording>& run,
                                           const std::string& kind, std::int64_t number,
                                           const std::string& label, const std::string& id,
                                           const std::string& implementation) {
  if (run == nullptr) return std::nullopt;
  TrialRecording trial{run, id, implementation, ""};
  if (run->snapshots()) {
    trial.folder =
        fmt::format("{}/{}{:04}_{}", run->snapshots()->folder, kind, number, as_file_name(label));
  }
  return trial;
}

}  // namespace lossgrid
