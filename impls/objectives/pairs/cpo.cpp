// SPDX-License-Identifier: Apache-2.0
// Preference pairs without a reference policy, after TRL's `CPOTrainer`: CPO (H. Xu et al.,
// "Contrastive Preference Optimization", 2024), SimPO (Y. Meng et al., "SimPO", 2024) and AlphaPO
// (A. Gupta et al., "AlphaPO", 2025). With x the sum of the log-probabilities of a sequence, for
// `simpo` and `ipo` divided by its tokens, e the label smoothing and s the logistic function:
//   R = x, or (1 - exp(-alpha x)) / alpha if alpha is not 0;  D = R of the chosen - R of the other
//   l = -(1 - e) log s(u) - e log s(-u), u = beta D; for `simpo` u = beta D - simpo_gamma
//   l = max(0, 1 - beta D) for `hinge`, (D - 1 / (2 beta))^2 for `ipo`
// The pairs' losses and cpo_alpha times the SFT loss of the chosen add up as in pair_steps.h.
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

/// Largest difference of rewards, which replaces larger differences, so that its products with
/// options are finite.
constexpr double kMostApart = 1e200;

struct CpoOptions {
  double beta = 0.1;
  std::string loss_type = "sigmoid";
  double label_smoothing = 0;
  double simpo_gamma = 0.5;
  double alpha = 0;
  double cpo_alpha = 1;
  bool sft_average_log_probs = true;

  bool is_simpo() const { return loss_type == "simpo"; }
  bool averages() const { return is_simpo() || loss_type == "ipo"; }
  PairWeights weights() const { return {1, cpo_alpha, sft_average_log_probs, false}; }
};

CpoOptions read_cpo_options(const OptionReader& reader) {
  CpoOptions o;
  const OptionNames loss_types{"sigmoid", "simpo", "hinge", "ipo"};
  reader.read("beta", o.beta, {"factor of a reward", "TRL `CPOTrainer`", kAbove0, {"0.5", "2.0"}});
  o.loss_type =
      loss_types[reader.index("loss_type", 0, loss_types,
                              {"`sigmoid` (CPO) and `hinge` take x, the sum of a sequence's "
                               "log-probabilities; `simpo` and `ipo` take their mean. `simpo` has "
                               "u = beta (x - y) - `simpo_gamma`",
                               "TRL, Liger `simpo_loss`"})]
          .name;
  reader.read("label_smoothing", o.label_smoothing, {"as for `dpo`", "TRL", kBelowHalf, {"0.2"}});
  reader.read("simpo_gamma", o.simpo_gamma,
              {"margin of `simpo` that is not multiplied by beta", "TRL", {}, {"1.5"}});
  reader.read("alpha", o.alpha,
              {"above 0: (1 - exp(-alpha x)) / alpha in place of x (AlphaPO)",
               "TRL",
               kNotNegative,
               {"0.25", "1.0"}});
  reader.read(
      "cpo_alpha", o.cpo_alpha,
      {"weight of the chosen sequences' negative log-likelihood", "TRL", kNotNegative, {"0.5"}});
  reader.read("sft_average_log_probs", o.sft_average_log_probs,
              {"negative log-likelihood of the chosen sequences by token; false: as a sum",
               "TRL: the mean over the chosen tokens of a microbatch"});
  reader.require_all_known();
  if (o.label_smoothing > 0 && o.loss_type != "sigmoid" && !o.is_simpo()) {
    throw_bad_input("cpo: loss_type = \"{}\" excludes a label_smoothing above 0", o.loss_type);
  }
  if (o.simpo_gamma != CpoOptions().simpo_gamma && !o.is_simpo()) {
    throw_bad_input("cpo: simpo_gamma = {} needs loss_type = \"simpo\"", o.simpo_gamma);
  }
  return o;
}

class CpoTruth final : public PairTruth {
 public:
  CpoTruth(const CpoOptions& options, const PackedBatch& batch, std::span<const TokenTruth> rows,
           int side)
      : PairTruth(options.weights(), batch, rows, side), options_(options) {}

 private:
  Var logprob(const TrueSequence& sequence) const {
    return options_.averages() ? sequence.logprob / sequence.tokens_or_one() : sequence.logprob;
  }

  Var reward(const TrueSequence& sequence) override {
    const Var x = logprob(sequence);
    if (options_.alpha == 0) return x;
    const Var alpha = rounded_option(options_.alpha);
    return (1.0 - exp(-alpha * x)) / alpha;
  }

  /// Returns the difference of two rewards in a form that has the right sign even if rewards
  /// overflow: exp(-alpha y) (1 - exp(-alpha (x - y))) / alpha. Its derivatives are the same.
  Var reward_difference(const TruePair& pair) const override {
    const Var& a = pair.chosen.reward;
    const Var& b = pair.rejected.reward;
    const bool overflow = std::isinf(a.enclosure().low) || std::isinf(b.enclosure().low);
    if (!overflow) return a - b;
    const Enclosure alpha = rounded_option(options_.alpha).enclosure();
    const Enclosure x = alpha * logprob(pair.chosen).enclosure();
    const Enclosure y = alpha * logprob(pair.rejected).enclosure();
    const Enclosure order = x - y;
    Enclosure difference = Enclosure::around(0, std::numeric_limits<double>::infinity());
    if (order.low > 0) difference = exp(-y) * (1.0 - exp(-order)) / alpha;
    if (order.high < 0) difference = -(exp(-x) * (1.0 - exp(order)) / alpha);
    difference.value = std::clamp(difference.value, -kMostApart, kMostApart);
    return Tape::record(difference, a, 1.0, b, -1.0);
  }

  Var loss(const TruePair& pair) override {
    const Var beta = rounded_option(options_.beta);
    const Var difference = reward_difference(pair);
    if (options_.loss_type == "ipo") return true_square(difference - 1.0 / (2.0 * beta));
    if (options_.loss_type == "hinge") {
      branch("pairs_hinge_active") += (beta * difference).value() < 1 ? 1 : 0;
      branch("pairs_hinge_flat") += (beta * difference).value() >= 1 ? 1 : 0;
      return positive_part(1.0 - beta * difference);
    }
    const Var margin = options_.is_simpo() ? rounded_option(options_.simpo_gamma) : Var(0.0);
    return true_smoothed(beta * difference - margin, options_.label_smoothing);
  }

  const CpoOptions& options_;
};

class CpoObjective final : public PairSteps {
 public:
  explicit CpoObjective(const CpoOptions& options)
      : PairSteps(options.weights()), options_(options) {}

  std::string_view kind() const override { return "cpo"; }

  ObjectiveTruth truth(const PackedBatch& batch, std::span<const TokenTruth> rows) const override {
    return truth_of_pairs(
        [&](int side) { return std::make_unique<CpoTruth>(options_, batch, rows, side); });
  }

 private:
  std::vector<PairLoss> losses(const PackedBatch& batch,
                               const std::vector<SequencePair>& pairs) const override {
    std::vector<PairLoss> losses;
    for (const SequencePair& pair : pairs) {
      const ValueAndSlope loss = of_difference(reward_difference(batch, pair));
      losses.push_back({loss.value, chained(loss.slope, scored(pair.chosen).slope),
                        -chained(loss.slope, scored(pair.rejected).slope)});
    }
    return losses;
  }

  /// Returns the difference of two rewards; if both are -inf, the limit by their logarithms.
  double reward_difference(const PackedBatch& /*batch*/, const SequencePair& pair) const override {
    const double a = scored(pair.chosen).value;
    const double b = scored(pair.rejected).value;
    if (!std::isinf(a) || a != b) return std::clamp(a - b, -kMostApart, kMostApart);
    const double order = logprob(pair.chosen) - logprob(pair.rejected);
    return order > 0 ? kMostApart : order < 0 ? -kMostApart : 0;
  }

  double reward(const PackedBatch& /*batch*/, const PairSequence& sequence) const override {
    return scored(sequence).value;
  }

  double logprob(const PairSequence& sequence) const {
    return options_.averages() ? sequence.logprob / sequence.tokens_or_one() : sequence.logprob;
  }

  /// Returns the reward of a sequence with its derivative by a token's log-probability.
  ValueAndSlope scored(const PairSequence& sequence) const {
    const double n = options_.averages() ? sequence.tokens_or_one() : 1;
    const double x = logprob(sequence);
    if (options_.alpha == 0) return {x, 1 / n};
    return {-std::expm1(-options_.alpha * x) / options_.alpha, std::exp(-options_.alpha * x) / n};
  }

  ValueAndSlope of_difference(double difference) const {
    const double beta = options_.beta;
    if (options_.loss_type == "ipo") {
      const double distance = difference - 1 / (2 * beta);
      return {distance * distance, 2 * distance};
    }
    const double margin = options_.is_simpo() ? options_.simpo_gamma : 0;
    const ValueAndSlope loss =
        options_.loss_type == "hinge"
            ? hinge_loss(beta * difference)
            : sigmoid_loss(beta * difference - margin, options_.label_smoothing);
    return {loss.value, beta * loss.slope};
  }

  const CpoOptions options_;
};

const Registered registered_cpo{objective_entry(
    "cpo", "preference pairs without a reference: CPO, SimPO, AlphaPO", read_cpo_options,
    [](const CpoOptions& options) { return std::make_unique<CpoObjective>(options); })};

}  // namespace
}  // namespace lossgrid
