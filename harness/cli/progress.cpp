// SPDX-License-Identifier: Apache-2.0
// How the time left is estimated and written: in steps that do not pretend to know more.
#include "harness/cli/progress.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include <fmt/format.h>
#include <unistd.h>

#include "harness/core/text.h"

namespace lossgrid {
namespace {

constexpr std::size_t kColumns = 79;

/// "35 s", "2 min", "1.5 h"
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

std::FILE* progress_stream(bool quiet) {
  return !quiet && isatty(STDERR_FILENO) != 0 ? stderr : nullptr;
}

Progress::Progress(const PlannedSteps& planned, std::FILE* out, ClockNs clock)
    : out_(out), clock_(std::move(clock)), step_began_ns_(clock_()) {
  trials_.steps = planned.trials;
  trials_.work = static_cast<double>(planned.trials);
  timings_.steps = planned.timings;
  timings_.work = planned.timing_budget_s;
  show("");
}

Progress::~Progress() {
  if (out_ == nullptr) return;
  std::fputs("\r\033[K", out_);
  std::fflush(out_);
}

void Progress::finish_trial(const std::string& what) {
  finish(trials_, 1, what);
}

void Progress::finish_timing(const std::string& what, double budget_s) {
  finish(timings_, budget_s, what);
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

void Progress::finish(Kind& kind, double work, const std::string& what) {
  const std::int64_t now_ns = clock_();
  kind.finished_steps += 1;
  kind.finished_work += work;
  kind.finished_s += static_cast<double>(now_ns - step_began_ns_) * 1e-9;
  step_began_ns_ = now_ns;
  show(what);
}

void Progress::show(const std::string& what) const {
  if (out_ == nullptr) return;
  const std::size_t done = trials_.finished_steps + timings_.finished_steps;
  const std::size_t total = trials_.steps + timings_.steps;
  const std::optional<double> left = done < total ? seconds_left() : std::nullopt;
  std::fputs(("\r\033[K" + format_progress(done, total, left, what)).c_str(), out_);
  std::fflush(out_);
}

}  // namespace lossgrid
