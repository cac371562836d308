// SPDX-License-Identifier: Apache-2.0
// A phase at its ceiling writes as fast as copy does, or update for an implementation in place,
// with as many bytes read; it reads the rest as fast as read does. The ceiling of products is the
// fastest of the three in that round. The ceiling is always that of the same round as the sample,
// so that drift of the machine cancels.
#include "harness/runner/timing/timing_summary.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "harness/core/error.h"
#include "harness/core/text.h"
#include "harness/device/gemm.h"
#include "harness/measure/cache.h"
#include "harness/measure/memory_kernels.h"
#include "harness/measure/statistics.h"
#include "harness/runner/verdict/rank_merge.h"

namespace lossgrid {
namespace {

std::vector<double> as_numbers(std::span<const std::int64_t> samples) {
  return {samples.begin(), samples.end()};
}

std::int64_t median_ns(std::span<const std::int64_t> samples) {
  return std::llround(median(as_numbers(samples)));
}

TimeSummary summary_of(const std::vector<std::int64_t>& samples_ns) {
  const std::vector<double> numbers = as_numbers(samples_ns);
  TimeSummary time;
  time.samples_ns = samples_ns;
  time.median_ns = std::llround(median(numbers));
  time.p20_ns = std::llround(quantile(numbers, 0.2));
  time.p80_ns = std::llround(quantile(numbers, 0.8));
  time.stderr_ratio = relative_stderr_of_median(numbers);
  return time;
}

PhaseCost cost_of(const Cost& cost, Phase phase) {
  if (phase == Phase::forward) return cost.forward;
  if (phase == Phase::backward) return cost.backward;
  PhaseCost both = cost.forward;
  both.flops += cost.backward.flops;
  both.read_bytes += cost.backward.read_bytes;
  both.written_bytes += cost.backward.written_bytes;
  return both;
}

RankTime rank_time(std::int64_t rank, const StepSamples& samples) {
  RankTime time;
  time.rank = rank;
  time.samples_ns = samples.own_ns;
  time.communication_samples_ns = samples.own_communication_ns;
  std::vector<std::int64_t> kernel_ns;
  for (std::size_t k = 0; k < samples.own_ns.size(); ++k) {
    // Two clocks on a GPU: a phase of nothing but waits may be shorter by one than by the other.
    kernel_ns.push_back(
        std::max<std::int64_t>(0, samples.own_ns[k] - samples.own_communication_ns[k]));
  }
  time.median_ns = median_ns(samples.own_ns);
  time.communication_ns = median_ns(samples.own_communication_ns);
  time.kernel_ns = median_ns(kernel_ns);
  return time;
}

std::optional<Straggler> straggler_of(const std::vector<RankTime>& ranks) {
  if (ranks.size() < 2) return std::nullopt;
  const auto slowest = std::max_element(
      ranks.begin(), ranks.end(),
      [](const RankTime& a, const RankTime& b) { return a.kernel_ns < b.kernel_ns; });
  std::vector<std::int64_t> others;
  for (const RankTime& rank : ranks) {
    if (rank.rank != slowest->rank) others.push_back(rank.kernel_ns);
  }
  return Straggler{slowest->rank, slowest->kernel_ns, slowest->kernel_ns - median_ns(others)};
}

/// Returns the variant with the least median; the least of every round would be the luckiest one.
std::size_t fastest_of(const std::vector<StepSamples>& variants) {
  const auto fastest = std::min_element(variants.begin(), variants.end(),
                                        [](const StepSamples& a, const StepSamples& b) {
                                          return median_ns(a.slowest_ns) < median_ns(b.slowest_ns);
                                        });
  return static_cast<std::size_t>(fastest - variants.begin());
}

double communication_ratio(const std::vector<RankTime>& ranks) {
  double inside = 0;
  double all = 0;
  for (const RankTime& rank : ranks) {
    inside += static_cast<double>(rank.communication_ns);
    all += static_cast<double>(rank.median_ns);
  }
  return all > 0 ? std::min(1.0, inside / all) : 0;
}

/// Ceilings of a record, with their samples.
class Ceilings {
 public:
  explicit Ceilings(const std::vector<CeilingRow>& rows) : rows_(rows) {}

  /// Returns the name of the ceiling of a phase; empty when its model has neither bytes nor FLOPs.
  std::string name_of(const PhaseCost& cost, bool in_place, bool from_hidden) const {
    if (from_hidden) return cost.flops > 0 ? "gemm" : "";
    if (cost.read_bytes + cost.written_bytes == 0) return "";
    if (cost.written_bytes == 0) return "read";
    const std::string writing = in_place ? "update" : "copy";
    return cost.read_bytes > cost.written_bytes ? "read+" + writing : writing;
  }

  /// Returns the nanoseconds of the phase at its ceiling in that round.
  double time_ns(const PhaseCost& cost, bool in_place, bool from_hidden, std::size_t round) const {
    if (from_hidden) {
      double fastest = std::numeric_limits<double>::infinity();
      for (const CeilingRow& row : rows_) {
        fastest = std::min(fastest, scaled(row, cost.flops, row.rank_flops, round));
      }
      return fastest;
    }
    const std::int64_t only_read =
        cost.written_bytes > 0 ? std::max<std::int64_t>(0, cost.read_bytes - cost.written_bytes)
                               : cost.read_bytes;
    const std::int64_t rest = cost.read_bytes + cost.written_bytes - only_read;
    const CeilingRow& read = find("read");
    const CeilingRow& write = find(in_place ? "update" : "copy");
    return scaled(read, only_read, read.rank_bytes, round) +
           scaled(write, rest, write.rank_bytes, round);
  }

 private:
  static double scaled(const CeilingRow& row, std::int64_t amount, std::int64_t of,
                       std::size_t round) {
    return static_cast<double>(row.time.samples_ns[round]) * static_cast<double>(amount) /
           static_cast<double>(of);
  }

  const CeilingRow& find(const char* name) const {
    const auto found = std::find_if(rows_.begin(), rows_.end(),
                                    [&](const CeilingRow& row) { return row.name == name; });
    if (found == rows_.end()) throw Error(ErrorCode::internal, fmt::format("no ceiling {}", name));
    return *found;
  }

  const std::vector<CeilingRow>& rows_;
};

class Summary {
 public:
  Summary(const TimingPlan& plan, const LossProblem& problem, const std::vector<RankTiming>& ranks,
          TimingRecord& record)
      : plan_(plan), problem_(problem), ranks_(ranks), record_(record) {}

  void run() {
    const Samples& samples = ranks_[0].samples;
    record_.warm_up_rounds = samples.warm_up_rounds;
    record_.rounds = samples.rounds;
    record_.stopped_by = name(samples.stopped_by);
    note_gpus();
    add_ceilings();
    add_all_reduce("tp", problem_.grid.tp, ranks_[0].tp_all_reduce);
    add_all_reduce("cp", problem_.grid.cp, ranks_[0].cp_all_reduce);
    for (std::size_t k = 0; k < plan_.setups.size(); ++k) add_rows(k);
    add_speedups();
    take_worst_row();
  }

 private:
  void note_gpus() {
    for (std::size_t r = 0; r < ranks_.size(); ++r) {
      const std::optional<GpuRow> row =
          gpu_row(static_cast<std::int64_t>(r), ranks_[r].gpu_states, record_.warm_up_rounds);
      if (row) record_.gpus.push_back(*row);
    }
    if (!record_.not_representative_reason.empty()) return;
    std::vector<std::string> gpus;
    for (const RankTiming& rank : ranks_) gpus.push_back(rank.gpu);
    record_.not_representative_reason = text_of(gpu_sharing(gpus));
  }

  void add_ceilings() {
    const std::vector<Ceiling>& ceilings = ranks_[0].ceilings;
    for (std::size_t k = 0; k < ceilings.size(); ++k) {
      const std::vector<StepSamples>& variants = ranks_[0].samples.items[plan_.setups.size() + k];
      CeilingRow row;
      row.name = ceilings[k].name;
      const std::size_t fastest = fastest_of(variants);
      row.time = summary_of(variants[fastest].slowest_ns);
      record_.ceiling_details +=
          fmt::format("{}{}: {}", k == 0 ? "" : "; ", row.name, ceilings[k].variants[fastest]);
      row.rank_bytes = ceilings[k].bytes;
      row.rank_flops = ceilings[k].flops;
      row.rate_per_second = rate_of(row.rank_bytes + row.rank_flops, row.time);
      record_.ceilings.push_back(std::move(row));
    }
  }

  void add_all_reduce(const std::string& group, std::int64_t ranks, const AllReduceCeiling& found) {
    if (ranks < 2) return;
    record_.all_reduce.push_back({group, ranks, found.latency_ns, found.bytes_per_second});
  }

  /// Returns the rate of all ranks together in the median time.
  double rate_of(std::int64_t rank_amount, const TimeSummary& time) const {
    return static_cast<double>(rank_amount) * static_cast<double>(ranks_.size()) /
           (static_cast<double>(std::max<std::int64_t>(1, time.median_ns)) * 1e-9);
  }

  void add_rows(std::size_t setup) {
    const LossImplementation& implementation = *plan_.setups[setup].implementation;
    const std::vector<Phase> phases = timed_phases(implementation.describe());
    const Cost cost = implementation.cost(problem_);
    std::size_t iteration = 0;
    std::string faults;  // of the iteration that the row belongs to
    for (std::size_t step = 0; step < phases.size(); ++step) {
      // Forward and backward are one iteration.
      if (phases[step] != Phase::backward) faults = faults_in_outputs(setup, iteration++);
      TimingRow row;
      row.implementation = plan_.setups[setup].implementation_text;
      row.phase = name(phases[step]);
      row.time = summary_of(ranks_[0].samples.items[setup][step].slowest_ns);
      for (std::size_t r = 0; r < ranks_.size(); ++r) {
        row.rank_times.push_back(
            rank_time(static_cast<std::int64_t>(r), ranks_[r].samples.items[setup][step]));
      }
      if (!implementation.describe().is_external) {
        row.communication_ratio = communication_ratio(row.rank_times);
        row.straggler = straggler_of(row.rank_times);
      }
      add_device_work(setup, step, row);
      const double least_ratio =
          add_rates(cost_of(cost, phases[step]), implementation.describe().in_place, row);
      judge_row(faults, least_ratio, row);
      record_.rows.push_back(std::move(row));
    }
  }

  void add_device_work(std::size_t setup, std::size_t step, TimingRow& row) const {
    for (const RankTiming& rank : ranks_) {
      const DeviceWork& work = rank.work[setup][step];
      row.kernel_launches = std::max(row.kernel_launches, work.launches);
      row.host_synchronisations = std::max(row.host_synchronisations, work.synchronisations);
    }
  }

  /// Returns the least share of its ceiling that the row reaches: the median, less two standard
  /// errors as a factor, so that a delayed sample cannot hide a row above its ceiling. Both times
  /// are measured.
  double add_rates(const PhaseCost& cost, bool in_place, TimingRow& row) const {
    const bool from_hidden = problem_.from_hidden();
    row.rank_bytes = cost.read_bytes + cost.written_bytes;
    row.rank_flops = cost.flops;
    if (row.rank_bytes > 0) row.bytes_per_second = rate_of(row.rank_bytes, row.time);
    if (row.rank_flops > 0) row.flops_per_second = rate_of(row.rank_flops, row.time);
    const double seconds =
        static_cast<double>(std::max<std::int64_t>(1, row.time.median_ns)) * 1e-9;
    row.tokens_per_second = static_cast<double>(record_.tokens) / seconds;
    if (from_hidden && row.phase == name(Phase::forward_backward)) {
      row.useful_flops_per_second = record_.useful_flops / seconds;
    }
    const Ceilings ceilings(record_.ceilings);
    row.ceiling = ceilings.name_of(cost, in_place, from_hidden);
    if (row.ceiling.empty()) return 0;
    std::vector<double> ratios;
    for (std::size_t k = 0; k < row.time.samples_ns.size(); ++k) {
      ratios.push_back(ceilings.time_ns(cost, in_place, from_hidden, k) /
                       static_cast<double>(row.time.samples_ns[k]));
    }
    row.ceiling_ratio = median(ratios);
    // Logits are read up to three times, so only a third of the bytes moved may be distinct.
    const std::int64_t touched =
        from_hidden ? problem_.input_bytes() + problem_.gradient_bytes() : row.rank_bytes / 3;
    row.ceiling_judged = traits_of(problem_.backend).has_real_times &&
                         touched > kJudgedCaches * last_level_cache_bytes(problem_.backend);
    return *row.ceiling_ratio / (1 + 2 * relative_stderr_of_median(ratios));
  }

  /// Returns the faults in the outputs of an implementation's last iteration; empty when they pass.
  std::string faults_in_outputs(std::size_t setup, std::size_t iteration) const {
    std::vector<RankResult> outputs;
    for (const RankTiming& rank : ranks_) outputs.push_back(rank.outputs[setup][iteration]);
    TrialRecord found;
    for (const std::uint8_t valid : plan_.setups[setup].problem->row_valid()) {
      found.valid_tokens += valid;
    }
    return judge(merge_outputs(plan_.setups[setup], outputs, found)).reason;
  }

  static void judge_row(const std::string& faults, double least_ratio, TimingRow& row) {
    const std::size_t distinct = distinct_samples(row.time.samples_ns);
    if (!faults.empty()) {
      row.status = TimingStatus::failed;
      row.reason = "outputs of the last timed iteration: " + faults;
    } else if (distinct < kFewestDistinctSamples) {  // too few for a standard error as well
      row.status = TimingStatus::unstable;
      row.reason =
          fmt::format("{} distinct samples, fewer than {}", distinct, kFewestDistinctSamples);
    } else if (row.ceiling_judged && least_ratio > kMostOfCeiling) {
      row.status = TimingStatus::above_ceiling;
      row.reason =
          fmt::format("at least {:.1f} % of what {} reaches here", 100 * least_ratio, row.ceiling);
    }
  }

  void add_speedups() {
    for (TimingRow& row : record_.rows) {
      for (const TimingRow& baseline : record_.rows) {
        if (baseline.implementation != record_.baseline || baseline.phase != row.phase) continue;
        row.speedup = median_of_pair_ratios(as_numbers(baseline.time.samples_ns),
                                            as_numbers(row.time.samples_ns));
      }
    }
  }

  void take_worst_row() {
    for (const TimingRow& row : record_.rows) {
      if (row.status <= record_.status) continue;
      record_.status = row.status;
      record_.reason = fmt::format("{} {}: {}", row.implementation, row.phase, row.reason);
    }
  }

  const TimingPlan& plan_;
  const LossProblem& problem_;
  const std::vector<RankTiming>& ranks_;
  TimingRecord& record_;
};

}  // namespace

std::optional<SkipReason> gpu_sharing(const std::vector<std::string>& gpus) {
  std::map<std::string, int> ranks_on;
  int most = 0;
  for (const std::string& gpu : gpus) {
    if (!gpu.empty()) most = std::max(most, ++ranks_on[gpu]);
  }
  if (most < 2) return std::nullopt;
  return SkipReason{fmt::format("{} ranks share a GPU", most)};
}

void summarise_timing(const TimingPlan& plan, const LossProblem& problem,
                      const std::vector<RankTiming>& ranks, TimingRecord& record) {
  Summary(plan, problem, ranks, record).run();
}

}  // namespace lossgrid
