// SPDX-License-Identifier: Apache-2.0
#include "harness/cli/text/progress.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <unistd.h>

#include "harness/core/text.h"

namespace lossgrid {
namespace {

constexpr std::size_t kColumns = 79;

/// Returns "35 s", "2 min" or "1.5 h": rounded to the accuracy of an estimate.
std::string format_time_left(double seconds) {
  constexpr double kStep = 5;
  if (seconds <= 60 - kStep) {
    return fmt::format("{:.0f} s", std::max(kStep, std::ceil(seconds / kStep) * kStep));
  }
  const double minutes = std::max(1.0, std::round(seconds / 60));
  return minutes < 60 ? fmt::format("{:.0f} min", minutes)
                      : fmt::format("{:.1f} h", seconds / 3600);
}

}  // namespace

std::string format_progress(std::size_t done, std::size_t total, std::optional<double> seconds_left,
                            std::string_view what) {
  std::string line = fmt::format("[{}/{}]", done, total);
  if (seconds_left) line += fmt::format(" about {} left", format_time_left(*seconds_left));
  if (!what.empty()) line += fmt::format("{} {}", seconds_left ? ":" : "", escape_controls(what));
  if (line.size() > kColumns) {
    std::size_t end = kColumns;
    const auto inside_character = [&] {
      return (static_cast<unsigned char>(line[end]) & 0xC0) == 0x80;
    };
    while (end > 0 && inside_character()) --end;
    line.resize(end);
  }
  return line;
}

std::string format_log_line(std::string_view command, const ProgressCounts& counts,
                            std::optional<double> seconds_left) {
  std::vector<std::string> parts;
  if (counts.trials > 0) {
    parts.push_back(fmt::format("{} of {} trials", counts.trials_done, counts.trials));
  }
  if (counts.timings > 0) {
    parts.push_back(fmt::format("{} of {} timings", counts.timings_done, counts.timings));
  }
  if (counts.failed > 0) parts.push_back(fmt::format("{} failed", counts.failed));
  if (seconds_left) parts.push_back(fmt::format("about {} left", format_time_left(*seconds_left)));
  return fmt::format("{}: {}", command, join(parts, ", "));
}

ProgressStream progress_stream(bool quiet) {
  if (quiet) return {};
  return {stderr, isatty(STDERR_FILENO) != 0};
}

Progress::Progress(std::string command, const PlannedSteps& planned, ProgressStream stream,
                   ClockNs clock)
    : command_(std::move(command)),
      stream_(stream),
      clock_(std::move(clock)),
      step_began_ns_(clock_()),
      logged_ns_(step_began_ns_) {
  trials_.steps = planned.trials;
  trials_.work = static_cast<double>(planned.trials);
  timings_.steps = planned.timings;
  timings_.work = planned.timing_budget_s;
  if (stream_.out != nullptr && !stream_.is_terminal) log();
  if (stream_.is_terminal) show_on_terminal("");
}

Progress::~Progress() {
  if (stream_.out == nullptr || !stream_.is_terminal) return;
  std::fputs("\r\033[K", stream_.out);
  std::fflush(stream_.out);
}

void Progress::finish_trial(const std::string& what, bool failed) {
  finish(trials_, 1, what, failed);
}

void Progress::finish_timing(const std::string& what, double budget_s, bool failed) {
  finish(timings_, budget_s, what, failed);
}

std::optional<double> Progress::Kind::seconds_left(
    std::optional<double> expected_s_per_work) const {
  if (finished_steps >= steps) return 0;
  if (finished_steps == 0) {
    return expected_s_per_work ? std::optional(*expected_s_per_work * work) : std::nullopt;
  }
  return finished_s / finished_work * std::max(0.0, work - finished_work);
}

std::optional<double> Progress::seconds_left() const {
  const std::optional<double> trials = trials_.seconds_left(std::nullopt);
  if (!trials) return std::nullopt;
  return *trials + *timings_.seconds_left(1.0);
}

void Progress::finish(Kind& kind, double work, const std::string& what, bool failed) {
  const std::int64_t now_ns = clock_();
  kind.finished_steps += 1;
  kind.finished_work += work;
  kind.finished_s += static_cast<double>(now_ns - step_began_ns_) * 1e-9;
  step_began_ns_ = now_ns;
  if (failed) ++failed_;
  show(what);
}

/// A log gets a line after ten seconds at the earliest, and then if a tenth more is done or a
/// minute has passed.
void Progress::show(const std::string& what) {
  if (stream_.out == nullptr) return;
  if (stream_.is_terminal) return show_on_terminal(what);
  constexpr std::int64_t kLeastNs = 10'000'000'000;
  constexpr std::int64_t kMostNs = 60'000'000'000;
  const std::size_t total = trials_.steps + timings_.steps;
  const std::size_t steps = trials_.finished_steps + timings_.finished_steps - logged_steps_;
  const std::int64_t silent_ns = step_began_ns_ - logged_ns_;
  if (silent_ns >= kMostNs || (silent_ns >= kLeastNs && 10 * steps >= total)) log();
}

void Progress::show_on_terminal(const std::string& what) const {
  const std::size_t done = trials_.finished_steps + timings_.finished_steps;
  const std::size_t total = trials_.steps + timings_.steps;
  const std::optional<double> left = done < total ? seconds_left() : std::nullopt;
  std::fputs(("\r\033[K" + format_progress(done, total, left, what)).c_str(), stream_.out);
  std::fflush(stream_.out);
}

void Progress::log() {
  const ProgressCounts counts{trials_.finished_steps, trials_.steps, timings_.finished_steps,
                              timings_.steps, failed_};
  const bool any_left = counts.trials_done < counts.trials || counts.timings_done < counts.timings;
  const std::string line =
      format_log_line(command_, counts, any_left ? seconds_left() : std::nullopt);
  std::fputs((line + '\n').c_str(), stream_.out);
  std::fflush(stream_.out);
  logged_ns_ = step_began_ns_;
  logged_steps_ = trials_.finished_steps + timings_.finished_steps;
}

}  // namespace lossgrid
