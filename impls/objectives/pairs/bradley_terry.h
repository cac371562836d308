// SPDX-License-Identifier: Apache-2.0
// Loss of a reward model (R. Bradley and M. Terry, 1952; NeMo-RL `PreferenceLossFn`, TRL
// `RewardTrainer`). Sequences come in pairs: chosen 2j, rejected 2j + 1. A pair counts if its
// sample mask is 1 and both sequences have a score; P is the number of such pairs in the global
// batch. With the scores c and r, the margin m (0, or the difference of the rewards of both) and
// the coefficient k of centring (J. Eisenstein et al., "Helping or Herding?", 2023)
//   L = sum_j [ -log s(c_j - r_j - m_j) + k (c_j + r_j)^2 ] / P;  0 when P = 0
// where s is the logistic function.
#pragma once

#include <memory>
#include <vector>

#include "harness/loss/objective.h"
#include "harness/loss/terms_objective.h"
#include "impls/objectives/objective_options.h"
#include "impls/objectives/pairs/pair_losses.h"
#include "impls/objectives/pairs/pair_steps.h"
#include "impls/objectives/pairs/score_terms.h"
#include "impls/objectives/policy_draw.h"

namespace lossgrid {

struct BradleyTerryOptions {
  bool has_margin = false;
  double centring = 0;  // k

  /// Throws bad_input for a value of another type or out of range.
  static BradleyTerryOptions read(const OptionReader& reader);
};

/// Pair that counts.
struct ScoredPair {
  std::int64_t chosen = 0;
  std::int64_t rejected = 0;
  double score_chosen = 0;
  double score_rejected = 0;
  double margin = 0;
};

/// Formulas of pairs; a variant replaces some of the functions.
struct BradleyTerryFormulas {
  static std::int64_t chosen(std::int64_t pair) { return 2 * pair; }
  static double loss(double gain) { return negative_log_sigmoid(gain); }
  /// Returns the divisor of the loss.
  static double pairs(double complete, std::int64_t /*valid_sequences*/) { return complete; }
};

/// Returns the needs of `bradley_terry`.
ObjectiveNeeds bradley_terry_needs(const BradleyTerryOptions& options);

/// Returns the pairs of a pack that have a sample mask and two scores.
double count_scored_pairs(const PackedBatch& batch);

ObjectiveTruth bradley_terry_truth(const BradleyTerryOptions& options, const PackedBatch& batch,
                                   std::span<const TokenTruth> rows);

template <class Formulas = BradleyTerryFormulas>
class BradleyTerryObjective final : public TermsObjective<ScoreTerms> {
 public:
  explicit BradleyTerryObjective(const BradleyTerryOptions& options)
      : TermsObjective(bradley_terry_needs(options)), options_(options) {}

  std::string_view kind() const override { return "bradley_terry"; }

  ObjectiveSizes sizes() const override {
    return {ScoreTerms::kSequenceSums, ScoreTerms::kCoefficients, 0, 0};
  }

  std::shared_ptr<const InputDraw> input_draw() const override {
    return std::make_shared<PolicyDraw>();  // draw of rewards
  }

  void require(const PackedBatch& batch) const override { require_pairs(kind(), batch); }

  double input_sum(const PackedBatch& batch) const override { return count_scored_pairs(batch); }

  void coefficients(const PackedBatch& batch, SequenceTable<const double> sums,
                    SequenceTable<double> coefficients) const override {
    for (std::int64_t i = 0; i < sums.sequences; ++i) coefficients.at(i, 0) = 0;
    for (const ScoredPair& pair : pairs(batch, sums)) {
      const double weight = 1 / number(batch);
      const double by_gain = -sigmoid(-gain(pair));
      const double by_centre = 2 * options_.centring * (pair.score_chosen + pair.score_rejected);
      coefficients.at(pair.chosen, 0) = weight * (by_gain + by_centre);
      coefficients.at(pair.rejected, 0) = weight * (by_centre - by_gain);
    }
  }

  ObjectiveResult finish(const PackedBatch& batch, SequenceTable<const double> sums,
                         SequenceTable<const double> /*coefficients*/,
                         ObjectiveTotals<const double> /*totals*/) const override {
    const std::vector<ScoredPair> counted = pairs(batch, sums);
    const auto count = static_cast<double>(counted.size());
    double loss = 0;
    Metric correct{Reduction::mean, 0, count};
    Metric chosen{Reduction::mean, 0, count};
    Metric rejected{Reduction::mean, 0, count};
    Metric least{Reduction::min, 0, 2 * count};
    Metric most{Reduction::max, 0, 2 * count};
    for (const ScoredPair& pair : counted) {
      const double centre = pair.score_chosen + pair.score_rejected;
      loss += (Formulas::loss(gain(pair)) + options_.centring * centre * centre) / number(batch);
      correct.amount += pair.score_chosen > pair.score_rejected ? 1 : 0;
      chosen.amount += pair.score_chosen;
      rejected.amount += pair.score_rejected;
      const auto [low, high] = std::minmax(pair.score_chosen, pair.score_rejected);
      const bool is_first = &pair == counted.data();
      least.amount = is_first ? low : std::min(least.amount, low);
      most.amount = is_first ? high : std::max(most.amount, high);
    }
    return {loss,
            {{"loss", {Reduction::sum, loss, 1}},
             {"num_valid_samples", {Reduction::count, count, 1}},
             {"accuracy", correct},
             {"rewards_chosen_mean", chosen},
             {"rewards_rejected_mean", rejected},
             {"mean_reward", {Reduction::mean, chosen.amount + rejected.amount, 2 * count}},
             {"min_reward", least},
             {"max_reward", most}}};
  }

  ObjectiveTruth truth(const PackedBatch& batch, std::span<const TokenTruth> rows) const override {
    return bradley_terry_truth(options_, batch, rows);
  }

 private:
  ScoreTerms terms(const PackedBatch& /*batch*/) const override { return {}; }

  double number(const PackedBatch& batch) const {
    return Formulas::pairs(batch.input_sum, batch.denominators.valid_sequences);
  }

  static double gain(const ScoredPair& pair) {
    return pair.score_chosen - pair.score_rejected - pair.margin;
  }

  std::vector<ScoredPair> pairs(const PackedBatch& batch, SequenceTable<const double> sums) const {
    std::vector<ScoredPair> pairs;
    for (std::int64_t j = 0; 2 * j + 1 < sums.sequences; ++j) {
      const std::int64_t chosen = Formulas::chosen(j);
      const std::int64_t rejected = 4 * j + 1 - chosen;  // the other sequence of 2j and 2j + 1
      const bool is_complete =
          sums.at(chosen, ScoreTerms::kRows) > 0 && sums.at(rejected, ScoreTerms::kRows) > 0;
      if (batch.sample_mask[static_cast<std::size_t>(chosen)] == 0 || !is_complete) continue;
      ScoredPair pair{chosen, rejected, sums.at(chosen, ScoreTerms::kScore),
                      sums.at(rejected, ScoreTerms::kScore)};
      if (options_.has_margin) {
        pair.margin = static_cast<double>(batch.rewards[static_cast<std::size_t>(chosen)]) -
                      static_cast<double>(batch.rewards[static_cast<std::size_t>(rejected)]);
      }
      pairs.push_back(pair);
    }
    return pairs;
  }

  const BradleyTerryOptions options_;
};

}  // namespace lossgrid
