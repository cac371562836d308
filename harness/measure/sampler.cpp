// SPDX-License-Identifier: Apache-2.0
// Warm-up rounds take the same path as timed rounds and keep no samples. The only collectives of
// the sampler itself are a barrier before each timed part, and a reduction of the samples and a
// broadcast of the decision after each round.
#include "harness/measure/sampler.h"

#include <algorithm>

#include "harness/measure/interleave.h"

namespace lossgrid {
namespace {

/// Decision of rank 0 after a round.
enum class Decision : std::int64_t { go_on, last_round };

class Sampler {
 public:
  Sampler(std::span<SampledItem* const> items, Communicator& world,
          const std::int64_t& communication_ns, const SamplerRequest& request, const ClockNs& clock)
      : items_(items),
        world_(world),
        communication_ns_(communication_ns),
        request_(request),
        clock_(clock),
        order_(items.size()) {
    for (const SampledItem* item : items) {
      first_.push_back(own_ns_.size());
      own_ns_.resize(own_ns_.size() + item->steps());
      std::vector<StepSamples>& steps = samples_.items.emplace_back(item->steps());
      for (StepSamples& step : steps) {
        for (auto* column : {&step.slowest_ns, &step.own_ns, &step.own_communication_ns}) {
          column->reserve(static_cast<std::size_t>(request.stop.max_samples));
        }
      }
    }
    own_communication_ns_.resize(own_ns_.size());
  }

  Samples run() {
    warm_up();
    const std::int64_t start = clock_();
    bool last = false;
    for (;;) {
      run_round(samples_.warm_up_rounds + samples_.rounds, last);
      keep_round();
      ++samples_.rounds;
      if (last) return std::move(samples_);
      last = agree(decide(clock_() - start)) == Decision::last_round;
    }
  }

 private:
  void warm_up() {
    const std::int64_t start = clock_();
    Decision decision = Decision::go_on;
    while (decision == Decision::go_on) {
      run_round(samples_.warm_up_rounds++, false);
      const bool warm = clock_() - start >= request_.warm_up_ns;
      decision = agree(warm ? Decision::last_round : Decision::go_on);
    }
  }

  void run_round(std::int64_t round, bool last) {
    if (request_.begins_round) request_.begins_round(round);
    round_order(request_.order_seed, round, order_);
    for (const std::size_t k : order_) {
      for (std::size_t step = 0; step < items_[k]->steps(); ++step) {
        run_step(*items_[k], step, first_[k] + step, last);
      }
    }
  }

  void run_step(SampledItem& item, std::size_t step, std::size_t place, bool last) {
    item.prepare(step, last);
    if (request_.before_sample) request_.before_sample();
    world_.barrier();
    const std::int64_t communication = communication_ns_;
    // At least 1: samples are divisors.
    const std::int64_t outside = time_of_run(item, step);
    own_ns_[place] = std::max<std::int64_t>(1, item.measured_ns().value_or(outside));
    own_communication_ns_[place] = communication_ns_ - communication;
    if (last) item.finish(step);
  }

  std::int64_t time_of_run(SampledItem& item, std::size_t step) const {
    if (request_.timer != nullptr) {
      request_.timer->start();
      item.run(step);
      return request_.timer->stop();
    }
    const std::int64_t start = clock_();
    item.run(step);
    return clock_() - start;
  }

  void keep_round() {
    std::vector<std::int64_t> slowest = own_ns_;
    world_.all_reduce(std::span<std::int64_t>(slowest), ReduceOp::max);
    for (std::size_t k = 0; k < items_.size(); ++k) {
      for (std::size_t step = 0; step < samples_.items[k].size(); ++step) {
        StepSamples& samples = samples_.items[k][step];
        const std::size_t place = first_[k] + step;
        samples.slowest_ns.push_back(slowest[place]);
        samples.own_ns.push_back(own_ns_[place]);
        samples.own_communication_ns.push_back(own_communication_ns_[place]);
      }
    }
  }

  /// Decides on rank 0 if the next round, which is also sampled, is the last.
  Decision decide(std::int64_t elapsed_ns) {
    if (world_.rank() != 0) return Decision::go_on;
    const StopRule& rule = request_.stop;
    if (samples_.rounds + 1 >= rule.min_samples && within_target()) {
      samples_.stopped_by = StopReason::target;
    } else if (elapsed_ns >= rule.max_time_ns) {
      samples_.stopped_by = StopReason::time_budget;
    } else if (samples_.rounds + 1 >= rule.max_samples) {
      samples_.stopped_by = StopReason::most_samples;
    } else {
      return Decision::go_on;
    }
    return Decision::last_round;
  }

  bool within_target() const {
    for (const std::vector<StepSamples>& item : samples_.items) {
      for (const StepSamples& step : item) {
        const std::vector<double> numbers(step.slowest_ns.begin(), step.slowest_ns.end());
        if (relative_stderr_of_median(numbers) > request_.stop.target_stderr_ratio) return false;
      }
    }
    return true;
  }

  /// Broadcasts rank 0's decision and its reason.
  Decision agree(Decision decision) {
    std::int64_t words[2] = {static_cast<std::int64_t>(decision),
                             static_cast<std::int64_t>(samples_.stopped_by)};
    world_.broadcast(std::span<std::int64_t>(words), 0);
    samples_.stopped_by = static_cast<StopReason>(words[1]);
    return static_cast<Decision>(words[0]);
  }

  std::span<SampledItem* const> items_;
  Communicator& world_;
  const std::int64_t& communication_ns_;
  const SamplerRequest& request_;
  const ClockNs& clock_;
  std::vector<std::size_t> order_;
  std::vector<std::size_t> first_;  // index of an item's first step in the next two
  std::vector<std::int64_t> own_ns_;
  std::vector<std::int64_t> own_communication_ns_;
  Samples samples_;
};

}  // namespace

Samples take_samples(std::span<SampledItem* const> items, Communicator& world,
                     const std::int64_t& communication_ns, const SamplerRequest& request,
                     const ClockNs& clock) {
  return Sampler(items, world, communication_ns, request, clock).run();
}

}  // namespace lossgrid
