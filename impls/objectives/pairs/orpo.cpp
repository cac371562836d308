// SPDX-License-Identifier: Apache-2.0
// Odds ratio preference optimisation (J. Hong et al., "ORPO", 2024; TRL `ORPOTrainer`): pairs
// without a reference policy. With c and r the means of the log-probabilities of the chosen and the
// rejected sequence over their tokens and s the logistic function:
//   o = (c - log(1 - exp(c))) - (r - log(1 - exp(r)))
//   l = -beta log s(o)
// The pairs' losses and the SFT loss of the chosen add up as in pair_steps.h. A sequence without a
// valid token has no odds, and its pair counts in the SFT loss only. In the odds a mean is at most
// -2^-126, the first normal float32 below 0, so that the odds of a certain sequence are finite.
#include <algorithm>
#include <cmath>
#include <limits>

#include "harness/core/error.h"
#include "harness/loss/registry.h"
#include "impls/objectives/objective_options.h"
#include "impls/objectives/pairs/pair_losses.h"
#include "impls/objectives/pairs/pair_steps.h"
#include "impls/objectives/pairs/pair_truth.h"

namespace lossgrid {
namespace {

struct OrpoOptions {
  double beta = 0.1;
  bool sft_average_log_probs = true;

  PairWeights weights() const { return {beta, 1, sft_average_log_probs, false}; }
};

OrpoOptions read_orpo_options(const OptionReader& reader) {
  OrpoOptions o;
  reader.read("beta", o.beta,
              {"weight of - ln s of the difference of the log-odds of both sequences' mean "
               "log-probabilities",
               "TRL `ORPOTrainer`, Liger `orpo_loss`",
               kNotNegative,
               {"0.5", "2.0"}});
  reader.read("sft_average_log_probs", o.sft_average_log_probs,
              {"the chosen sequences' negative log-likelihood by token; false: as a sum"});
  return o;
}

constexpr double kLargestMean = -0x1p-126;

/// Returns log(1 - exp(x)) for x < 0 to full precision (M. Maechler, "Accurately Computing log(1 -
/// exp(-|a|))", 2012).
double log_one_minus_exp(double x) {
  return x > -0.7 ? std::log(-std::expm1(x)) : std::log1p(-std::exp(x));
}

class OrpoTruth final : public PairTruth {
 public:
  OrpoTruth(const OrpoOptions& options, const PackedBatch& batch, std::span<const TokenTruth> rows,
            int side)
      : PairTruth(options.weights(), batch, rows, side) {}

 private:
  /// Returns log(1 - exp(x)) over an interval; both the function and its derivative decrease.
  static Var log_of_rest(const Var& x) {
    const auto over = [&](double (*f)(double)) {
      Enclosure result;
      const auto at = [&](double end) { return f(std::min(end, kLargestMean)); };
      result.value = at(x.value());
      result.low = at(x.enclosure().high);
      result.high = at(x.enclosure().low);
      return rounded(result, 2);
    };
    const Enclosure rest = over([](double end) { return std::log(-std::expm1(end)); });
    const Enclosure slope = over([](double end) { return -1 / std::expm1(-end); });
    return Tape::record(rest, x, slope);
  }

  static Var log_odds(const TrueSequence& sequence) {
    return sequence.reward - log_of_rest(sequence.reward);
  }

  Var reward(const TrueSequence& sequence) override {
    return sequence.logprob / sequence.tokens_or_one();
  }

  Var loss(const TruePair& pair) override {
    const bool has_odds = pair.chosen.tokens > 0 && pair.rejected.tokens > 0;
    branch("pairs_without_odds") += has_odds ? 0 : 1;
    return has_odds ? -log_sigmoid(log_odds(pair.chosen) - log_odds(pair.rejected)) : Var(0.0);
  }
};

class OrpoObjective final : public PairSteps {
 public:
  explicit OrpoObjective(const OrpoOptions& options)
      : PairSteps(options.weights()), options_(options) {}

  std::string_view kind() const override { return "orpo"; }

  ObjectiveTruth truth(const PackedBatch& batch, std::span<const TokenTruth> rows) const override {
    return truth_of_pairs(
        [&](int side) { return std::make_unique<OrpoTruth>(options_, batch, rows, side); });
  }

 private:
  std::vector<PairLoss> losses(const PackedBatch& /*batch*/,
                               const std::vector<SequencePair>& pairs) const override {
    std::vector<PairLoss> losses;
    for (const auto& [chosen, rejected, weight] : pairs) {
      if (chosen.tokens == 0 || rejected.tokens == 0) {
        losses.emplace_back();
        continue;
      }
      const ValueAndSlope c = log_odds(chosen);
      const ValueAndSlope r = log_odds(rejected);
      const double o = c.value - r.value;
      const double slope = -sigmoid(-o);
      losses.push_back(
          {negative_log_sigmoid(o), chained(slope, c.slope), -chained(slope, r.slope)});
    }
    return losses;
  }

  double reward(const PackedBatch& /*batch*/, const PairSequence& sequence) const override {
    return sequence.logprob / sequence.tokens_or_one();
  }

  /// Returns the log-odds of a sequence with their derivative by a token's log-probability.
  static ValueAndSlope log_odds(const PairSequence& sequence) {
    const double x = std::min(sequence.logprob / sequence.tokens, kLargestMean);
    return {x - log_one_minus_exp(x), -1 / (std::expm1(x) * sequence.tokens)};
  }

  const OrpoOptions options_;
};

const Registered registered_orpo{objective_entry(
    "orpo", "preference pairs by the ratio of their odds, beside the SFT loss (ORPO)",
    read_orpo_options,
    [](const OrpoOptions& options) { return std::make_unique<OrpoObjective>(options); })};

}  // namespace
}  // namespace lossgrid
