// SPDX-License-Identifier: Apache-2.0
#include "impls/objectives/pairs/kto.h"

#include <algorithm>

#include "harness/core/error.h"
#include "harness/loss/registry.h"
#include "impls/objectives/pairs/pair_truth.h"

namespace lossgrid {
namespace {

double mean_of_mismatched(const std::vector<SequencePair>& pairs) {
  double sum = 0;
  for (const SequencePair& pair : pairs) sum += pair.rejected.log_ratio;
  return pairs.empty() ? 0 : sum / static_cast<double>(pairs.size());
}

class KtoTruth final : public PairTruth {
 public:
  KtoTruth(const KtoOptions& options, const PackedBatch& batch, std::span<const TokenTruth> rows,
           int side)
      : PairTruth(PairWeights(), batch, rows, side), options_(options) {}

 private:
  Var reward(const TrueSequence& sequence) override { return sequence.log_ratio; }

  bool is_desirable(const TruePair& pair) const {
    return batch().rewards[static_cast<std::size_t>(pair.chosen.index)] > 0;
  }

  std::vector<Var> losses() override {
    std::vector<Enclosure> mismatched;
    for (const TruePair& pair : pairs()) mismatched.push_back(pair.rejected.reward.enclosure());
    const auto count = static_cast<double>(std::max<std::size_t>(pairs().size(), 1));
    const Enclosure mean = sum(mismatched) / count;
    if (options_.estimates_kl) {
      kl_ = max(mean, 0.0);
      branch("pairs_kl_clamped") += mean.value < 0 ? static_cast<std::int64_t>(pairs().size()) : 0;
      branch("pairs_kl_live") += mean.value > 0 ? static_cast<std::int64_t>(pairs().size()) : 0;
    }
    return PairTruth::losses();
  }

  Var loss(const TruePair& pair) override {
    const bool is_good = is_desirable(pair);
    branch("pairs_desirable") += is_good ? 1 : 0;
    branch("pairs_undesirable") += is_good ? 0 : 1;
    const Var gain = rounded_option(options_.beta) * (pair.chosen.reward - Var(kl_));
    return is_good ? rounded_option(options_.desirable_weight) * true_logistic(-gain)
                   : rounded_option(options_.undesirable_weight) * true_logistic(gain);
  }

  void add_metrics(std::map<std::string, MetricTruth>& metrics) override {
    std::vector<Enclosure> rewards[2];
    for (const TruePair& pair : pairs()) {
      rewards[is_desirable(pair) ? 0 : 1].push_back(pair.chosen.reward.enclosure());
    }
    const auto mean = [](const std::vector<Enclosure>& terms) {
      return MetricTruth{Reduction::mean, sum(terms), static_cast<double>(terms.size())};
    };
    metrics["kl"] = {Reduction::sum, kl_, 1};
    metrics["rewards_desirable_mean"] = mean(rewards[0]);
    metrics["rewards_undesirable_mean"] = mean(rewards[1]);
  }

  const KtoOptions& options_;
  Enclosure kl_ = 0.0;
};

}  // namespace

KtoOptions KtoOptions::read(const OptionReader& reader) {
  KtoOptions o;
  reader.read(
      "beta", o.beta,
      {"a desirable example has the loss s(-beta (x - z0)), another one s(beta (x - z0)). x is its "
       "log-ratio. z0 is the mean log-ratio of the completions, at least 0 and without a gradient",
       "TRL, Liger `kto_loss`",
       kAbove0,
       {"0.5", "2.0"}});
  o.estimates_kl = reader.index("loss_type", 0, {"kto", "apo_zero_unpaired"},
                                {"`apo_zero_unpaired`: z0 = 0", "TRL `loss_type`"}) == 0;
  reader.read("desirable_weight", o.desirable_weight,
              {"weight of desirable examples", "TRL", kNotNegative, {"1.5"}});
  reader.read("undesirable_weight", o.undesirable_weight,
              {"weight of the other examples", "TRL", kNotNegative, {"0.5"}});
  return o;
}

ObjectiveNeeds kto_needs(const KtoOptions& options) {
  ObjectiveNeeds needs = pair_needs(PairWeights());
  needs.rewards = true;
  needs.whole_batch = options.estimates_kl;
  return needs;
}

std::vector<PairLoss> KtoSteps::losses(const PackedBatch& batch,
                                       const std::vector<SequencePair>& pairs) const {
  const double mean = mean_of_mismatched(pairs);
  const double kl = options_.estimates_kl ? reference_point(mean) : 0;
  std::vector<PairLoss> losses;
  double by_kl = 0;
  for (const SequencePair& pair : pairs) {
    const double gain = options_.beta * (pair.chosen.log_ratio - kl);
    const bool is_good = is_desirable(batch, pair.chosen);
    const double weight = is_good ? options_.desirable_weight : options_.undesirable_weight;
    const double slope = (is_good ? -1 : 1) * weight * options_.beta * sigmoid_slope(gain);
    losses.push_back({weight * sigmoid(is_good ? -gain : gain), slope, 0});
    by_kl -= slope;
  }
  const double by_mismatched =
      options_.estimates_kl ? by_kl * reference_slope(mean, pairs.size()) : 0;
  for (PairLoss& loss : losses) loss.by_rejected = by_mismatched;
  return losses;
}

void KtoSteps::add_metrics(const PackedBatch& batch, const std::vector<SequencePair>& pairs,
                           Metrics& metrics) const {
  const double mean = mean_of_mismatched(pairs);
  metrics["kl"] = {Reduction::sum, options_.estimates_kl ? reference_point(mean) : 0, 1};
  Metric& desirable = metrics["rewards_desirable_mean"] = {Reduction::mean, 0, 0};
  Metric& undesirable = metrics["rewards_undesirable_mean"] = {Reduction::mean, 0, 0};
  for (const SequencePair& pair : pairs) {
    Metric& metric = is_desirable(batch, pair.chosen) ? desirable : undesirable;
    metric.amount += pair.chosen.log_ratio;
    metric.count += 1;
  }
}

ObjectiveTruth KtoSteps::truth(const PackedBatch& batch, std::span<const TokenTruth> rows) const {
  return truth_of_pairs(
      [&](int side) { return std::make_unique<KtoTruth>(options_, batch, rows, side); });
}

namespace {

const Registered registered_kto{objective_entry(
    "kto",
    "examples that are desirable or not, each with its completion after another prompt (KTO)",
    [](const OptionReader& reader) { return KtoOptions::read(reader); },
    [](const KtoOptions& options) { return std::make_unique<KtoObjective<>>(options); })};

}  // namespace
}  // namespace lossgrid
