// SPDX-License-Identifier: Apache-2.0
#include "harness/planner/model/time_model.h"

#include <algorithm>

namespace lossgrid {
namespace {

struct NamedPart {
  const char* name;
  double PhaseTime::*seconds;
};

constexpr std::array<NamedPart, 7> kParts{{{"starts", &PhaseTime::starts},
                                           {"rows", &PhaseTime::rows},
                                           {"products", &PhaseTime::products},
                                           {"memory", &PhaseTime::memory},
                                           {"exponentials", &PhaseTime::exponentials},
                                           {"cached", &PhaseTime::cached},
                                           {"collectives", &PhaseTime::collectives}}};

/// Bytes of row kernels in one phase.
struct Traffic {
  double read = 0;
  double written = 0;
};

class Prediction {
 public:
  Prediction(const LossProblem& problem, const ImplementationTraits& traits, const Cost& cost,
             const TimeModel& model, double valid_share)
      : problem_(problem),
        traits_(traits),
        cost_(cost),
        model_(model),
        share_(device_share(model.machine, problem.grid.ranks())),
        busiest_(busiest_rank(problem.batch, problem.grid)),
        valid_share_(valid_share) {}

  TimePrediction run() {
    TimePrediction prediction;
    prediction.busiest = busiest_;
    prediction.forward = phase("forward", cost_.forward, 1, prediction.collectives);
    if (!traits_.one_sweep) {
      prediction.backward = phase("backward", cost_.backward, valid_share_, prediction.collectives);
    }
    return prediction;
  }

 private:
  PhaseTime phase(const std::string& phase_name, const PhaseCost& cost, double read_share,
                  std::vector<PredictedCollective>& collectives) const {
    const Machine& machine = model_.machine;
    const double rows_read = part_of_rows() * read_share;
    PhaseTime time;
    time.starts = machine.phase_seconds * static_cast<double>(1 + cost_.chunks);
    const double passes = traits_.one_sweep ? 2 : 1;
    time.rows =
        passes * machine.row_seconds * static_cast<double>(problem_.local_rows()) * share_.turns;
    time.products =
        static_cast<double>(cost.flops) / (machine.gemm_rate(problem_.dtype) * share_.compute);
    time.memory = memory_seconds(phase_traffic(cost, rows_read));
    const DType dtype = problem_.from_hidden() ? DType::f32 : problem_.dtype;
    const auto kept = static_cast<double>(cost.kept_exponentials);
    const double elements =
        rows_read / share_.compute *
        ((static_cast<double>(cost.exponentials) - kept) / machine.exponential_rate(dtype) +
         kept / machine.kept_exponential_rate(dtype));
    const double again = elements * cached_share(cost);
    time.exponentials = elements - again;
    time.cached = again + cached_read_seconds(cost) * rows_read;
    time.hidden = machine.overlap * std::min(time.memory, time.exponentials);
    const int tp = problem_.grid.tp;
    add_collectives(phase_name, "tp", tp, 1, cost.tp, collectives, time);
    add_collectives(phase_name, "cp", problem_.grid.cp, tp, cost.cp, collectives, time);
    return time;
  }

  /// Returns the share of rows that predict a token, on the CP rank with the most such rows.
  double part_of_rows() const {
    const std::int64_t local = problem_.local_rows();
    return local > 0 ? static_cast<double>(busiest_.rows) / static_cast<double>(local) : 0;
  }

  /// Returns the part of the bytes read that a cache still holds.
  static double cached_share(const PhaseCost& cost) {
    const auto all = static_cast<double>(cost.read_bytes + cost.cached_read_bytes);
    return all > 0 ? static_cast<double>(cost.cached_read_bytes) / all : 0;
  }

  /// Returns the time of reads from the last cache; 0 if the machine states no cache.
  double cached_read_seconds(const PhaseCost& cost) const {
    const std::optional<MemoryRates>& cache = model_.machine.cache;
    if (!cache) return 0;
    return static_cast<double>(cost.cached_read_bytes) /
           (cache->read_bytes_per_second * share_.memory);
  }

  /// Logits from a product are float32 in memory: every exponential reads one logit, and the
  /// gradient takes the place of the logits.
  Traffic phase_traffic(const PhaseCost& cost, double rows_read) const {
    if (!problem_.from_hidden()) {
      return {static_cast<double>(cost.read_bytes) * rows_read,
              static_cast<double>(cost.written_bytes)};
    }
    return {4 * static_cast<double>(cost.exponentials) * rows_read,
            4 * static_cast<double>(cost.gradients)};
  }

  /// Returns the rates of the memory level that holds the data of all ranks of a device.
  const MemoryRates& level() const {
    const Machine& machine = model_.machine;
    const std::int64_t ranks = machine.cores > 0 ? problem_.grid.ranks() : 1;
    const std::int64_t touched =
        problem_.from_hidden()
            ? 4 * problem_.width() * problem_.local_rows() / std::max<std::int64_t>(1, cost_.chunks)
            : problem_.input_bytes() + (traits_.in_place ? 0 : problem_.gradient_bytes()) +
                  cost_.plan.workspace_bytes;
    const bool fits = machine.cache && touched * ranks <= machine.cache->bytes;
    return fits ? *machine.cache : machine.memory;
  }

  double memory_seconds(const Traffic& traffic) const {
    const MemoryRates& rates = level();
    const bool in_place = traits_.in_place || problem_.from_hidden();
    const double moved = traffic.written + std::min(traffic.read, traffic.written);
    const double only_read = std::max(0.0, traffic.read - traffic.written);
    const double write_rate =
        in_place ? rates.update_bytes_per_second : rates.copy_bytes_per_second;
    return (only_read / rates.read_bytes_per_second + moved / write_rate) / share_.memory;
  }

  void add_collectives(const std::string& phase_name, const std::string& group, int ranks,
                       int stride, const CollectiveCounts& counts,
                       std::vector<PredictedCollective>& collectives, PhaseTime& time) const {
    const std::vector<GroupLevel> levels = group_levels(model_.transport, ranks, stride);
    for (int c = 0; c < kCollectives; ++c) {
      const auto operation = static_cast<Collective>(c);
      const CollectiveCount& count = counts[operation];
      if (count.calls == 0 || ranks == 1) continue;
      const auto calls = static_cast<double>(count.calls);
      const double payload = static_cast<double>(count.payload_bytes) / calls;
      const CollectiveTime one =
          fastest_collective(model_.transport, operation,
                             shared_levels(levels, model_.machine, model_.transport,
                                           problem_.grid.ranks(), operation, payload),
                             payload);
      collectives.push_back(
          {phase_name, group, ranks, operation, count, one.algorithm, calls * one.seconds});
      time.collectives += calls * one.seconds;
    }
  }

  const LossProblem& problem_;
  const ImplementationTraits& traits_;
  const Cost& cost_;
  const TimeModel& model_;
  const DeviceShare share_;
  const BusiestRank busiest_;
  const double valid_share_;
};

bool has_work(const PhaseCost& cost) {
  return cost.flops + cost.exponentials + cost.read_bytes + cost.written_bytes > 0;
}

}  // namespace

double PhaseTime::seconds() const {
  return starts + rows + products + memory + exponentials - hidden + cached + collectives;
}

const char* PhaseTime::bound_by() const {
  return std::max_element(kParts.begin(), kParts.end(),
                          [this](const NamedPart& a, const NamedPart& b) {
                            return this->*a.seconds < this->*b.seconds;
                          })
      ->name;
}

PhaseTime& PhaseTime::operator+=(const PhaseTime& other) {
  for (const NamedPart& part : kParts) this->*part.seconds += other.*part.seconds;
  hidden += other.hidden;
  return *this;
}

PhaseTime TimePrediction::both() const {
  PhaseTime sum = forward;
  return sum += backward;
}

std::optional<TimePrediction> predict_time(const LossProblem& problem,
                                           const LossImplementation& implementation,
                                           const TimeModel& model, double valid_share) {
  const Cost cost = implementation.cost(problem);
  const ImplementationTraits traits = implementation.describe();
  const bool has_costs = has_work(cost.forward) || has_work(cost.backward);
  if (!has_costs || !traits.counts_flops) return std::nullopt;
  return Prediction(problem, traits, cost, model, valid_share).run();
}

}  // namespace lossgrid
