// SPDX-License-Identifier: Apache-2.0
#include "harness/runner/timing/ab_comparison.h"

#include <algorithm>
#include <array>
#include <utility>

#include "harness/core/error.h"
#include "harness/core/text.h"
#include "harness/measure/interleave.h"
#include "harness/measure/statistics.h"
#include "harness/runner/timing/phase.h"

namespace lossgrid {
namespace {

/// Timing of A or B in its process.
struct Timed {
  const TimingRecord* timing;
  std::string implementation;
  std::size_t occurrence;  // of the implementation in the process; 1 for the second of A against A

  /// Returns null where it has no such phase.
  const TimingRow* row(const std::string& phase) const {
    std::size_t left = occurrence;
    for (const TimingRow& row : timing->rows) {
      if (row.implementation != implementation || row.phase != phase) continue;
      if (left-- == 0) return &row;
    }
    return nullptr;
  }
};

/// Returns the samples by round, without the rounds that do not count.
std::vector<double> samples(const TimingRow& row) {
  const std::vector<std::int64_t>& all = row.time.samples_ns;
  const std::size_t skipped = all.size() > kAbWarmUpRounds ? kAbWarmUpRounds : 0;
  return {all.begin() + static_cast<std::ptrdiff_t>(skipped), all.end()};
}

/// Returns the ratio of samples of two processes. They have no partners, and the machine may be
/// slower in one process, so each time is taken relative to its ceiling in the same rounds.
double ratio_of_processes(const TimingRow& a, const TimingRow& b) {
  const bool have_ceilings =
      a.ceiling == b.ceiling && a.ceiling_ratio.value_or(0) > 0 && b.ceiling_ratio.value_or(0) > 0;
  if (have_ceilings) return *a.ceiling_ratio / *b.ceiling_ratio;
  return median(samples(b)) / median(samples(a));
}

std::string label(const AbSide& side, bool two_builds) {
  if (!two_builds) return side.implementation;
  return side.implementation + (side.build == Build::base ? " (base)" : " (head)");
}

bool allows_no_verdict(TimingStatus status) {
  return status == TimingStatus::skipped || status > TimingStatus::above_ceiling;
}

class SideComparison {
 public:
  SideComparison(const AbRequest& request, const RunAbProcess& run)
      : request_(request), run_(run) {}

  AbOutcome compare(const AbInterimAnalysis& analysed) {
    for (std::uint64_t launch = 0; !is_decided(); ++launch) {
      launch_once(launch);
      if (allows_no_verdict(outcome_.status)) {
        outcome_.records.clear();
        break;
      }
      if (std::find(kLooks.begin(), kLooks.end(), launch + 1) == kLooks.end()) continue;
      fill_records();
      analysed(outcome_.records);
    }
    return std::move(outcome_);
  }

 private:
  struct ComparedPhase {
    std::string name;
    SequentialComparison comparison;
    std::int64_t pairs;
  };

  /// False before the first launch, which determines the phases.
  bool is_decided() const {
    return !phases_.empty() &&
           std::all_of(phases_.begin(), phases_.end(),
                       [](const ComparedPhase& phase) { return phase.comparison.is_decided(); });
  }

  void launch_once(std::uint64_t launch) {
    const std::array sides{request_.a, request_.b};
    std::array<std::size_t, 2> order{};
    round_order(request_.seed, static_cast<std::int64_t>(launch), order);
    const std::uint64_t order_seed = (request_.seed + launch) % (std::uint64_t{1} << 31);
    std::array<TimingRecord, 2> found;  // in `order`; in one process the first only
    if (request_.two_builds) {
      for (std::size_t k = 0; k < 2; ++k) {
        const AbSide& side = sides[order[k]];
        found[k] = run_({side.build, {side.implementation}, order_seed});
        if (!take_failure(found[k])) return;
      }
    } else {
      const AbSide& first = sides[order[0]];
      found[0] =
          run_({first.build, {first.implementation, sides[order[1]].implementation}, order_seed});
      if (!take_failure(found[0])) return;
    }
    const auto timed = [&](std::size_t side) {
      const std::size_t place = order[0] == side ? 0 : 1;
      if (request_.two_builds) return Timed{&found[place], sides[side].implementation, 0};
      return Timed{found.data(), sides[side].implementation,
                   request_.a == request_.b ? place : std::size_t{0}};
    };
    add(timed(0), timed(1));
  }

  /// Takes over a failure. Returns false when there can be no verdict any more.
  bool take_failure(const TimingRecord& found) {
    if (allows_no_verdict(found.status)) {
      outcome_.status = found.status;
      outcome_.reason = found.reason;
    } else if (!found.skipped.empty()) {
      outcome_.status = TimingStatus::skipped;
      outcome_.reason = found.skipped.front().implementation + ": " + found.skipped.front().reason;
    }
    return !allows_no_verdict(outcome_.status);
  }

  void add(const Timed& a, const Timed& b) {
    if (phases_.empty() && !choose_phases(a, b)) return;
    for (ComparedPhase& phase : phases_) {
      if (phase.comparison.is_decided()) continue;
      const TimingRow* of_a = a.row(phase.name);
      const TimingRow* of_b = b.row(phase.name);
      if (of_a == nullptr || of_b == nullptr) {
        outcome_.status = TimingStatus::error;
        outcome_.reason = "a launch has no samples of " + phase.name;
        return;
      }
      phase.comparison.add(request_.two_builds
                               ? ratio_of_processes(*of_a, *of_b)
                               : median_of_pair_ratios(samples(*of_b), samples(*of_a)));
      const auto pairs =
          static_cast<std::int64_t>(std::min(samples(*of_a).size(), samples(*of_b).size()));
      phase.pairs = phase.pairs == 0 ? pairs : std::min(phase.pairs, pairs);
    }
  }

  /// Returns false when there is no phase to compare.
  bool choose_phases(const Timed& a, const Timed& b) {
    const std::vector<std::string>& asked = request_.phases;
    for (const Phase phase : kTimedPhases) {
      const std::string phase_name(name(phase));
      const bool wanted =
          asked.empty() || std::find(asked.begin(), asked.end(), phase_name) != asked.end();
      if (!wanted || a.row(phase_name) == nullptr || b.row(phase_name) == nullptr) continue;
      phases_.push_back({phase_name, SequentialComparison(request_.margin, request_.alpha), 0});
    }
    if (!phases_.empty()) return true;
    outcome_.status = TimingStatus::skipped;
    outcome_.reason =
        fmt::format("{} and {} have no phase in common{}", request_.a.implementation,
                    request_.b.implementation, asked.empty() ? "" : " among " + join(asked, ", "));
    return false;
  }

  void fill_records() {
    outcome_.records.clear();
    for (const ComparedPhase& phase : phases_) {
      AbRecord record;
      record.phase = phase.name;
      record.a = label(request_.a, request_.two_builds);
      record.b = label(request_.b, request_.two_builds);
      record.ratio = phase.comparison.ratio();
      record.launch_ratios = phase.comparison.launch_ratios();
      record.pairs = phase.pairs;
      record.margin = request_.margin;
      record.seed = request_.seed;
      record.verdict = phase.comparison.verdict();
      outcome_.records.push_back(std::move(record));
    }
  }

  const AbRequest& request_;
  const RunAbProcess& run_;
  std::vector<ComparedPhase> phases_;
  AbOutcome outcome_;
};

}  // namespace

AbOutcome compare_sides(const AbRequest& request, const RunAbProcess& run,
                        const AbInterimAnalysis& analysed) {
  return SideComparison(request, run).compare(analysed);
}

}  // namespace lossgrid
