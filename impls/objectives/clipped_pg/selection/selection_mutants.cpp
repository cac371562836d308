// SPDX-License-Identifier: Apache-2.0
// Mutants of selections of tokens over a pack: other thresholds, means, shares and lots, of other
// tokens, and what becomes of the tokens that are selected.
#include <algorithm>
#include <cmath>

#include "impls/mutants/mutant.h"
#include "impls/objectives/clipped_pg/wrong_formulas.h"

namespace lossgrid {
namespace {

/// Returns clipped_pg with other formulas where it selects in this way, else null.
template <class Formulas, Selection by>
std::unique_ptr<Objective> selection_with(const ObjectiveSpec& spec) {
  return with_formulas<Formulas>(
      spec, [](const ClippedPgOptions& options) { return options.selection() == by; });
}

struct QuantileOfNearest : ClippedPgFormulas {
  static double quantile(const std::vector<double>& numbers, double level) {
    const double at = static_cast<double>(numbers.size() - 1) * level;
    return numbers[static_cast<std::size_t>(std::floor(at + 0.5))];
  }
};

struct QuantileOfTheShare : ClippedPgFormulas {
  static double quantile(const std::vector<double>& numbers, double level) {
    return ClippedPgFormulas::quantile(numbers, 1 - level);
  }
};

struct ThresholdIsDropped : ClippedPgFormulas {
  static bool is_high_entropy(double entropy, double threshold) { return entropy > threshold; }
};

/// `MaskedEntropiesCount`: rows that are not valid are in the quantile, with the 0 of their mask.
struct MaskedEntropiesCount : ClippedPgFormulas {
  static std::vector<double> entropies(const SelectionTokens& tokens, std::int64_t rows) {
    std::vector<double> entropies = ClippedPgFormulas::entropies(tokens, rows);
    entropies.resize(static_cast<std::size_t>(rows), 0.0);
    return entropies;
  }
};

/// `MeansOverAllRows`: the means divide by the rows of the pack.
struct MeansOverAllRows : ClippedPgFormulas {
  static std::vector<double> covariances(const SelectionTokens& tokens, std::int64_t rows) {
    SelectionTokens padded = tokens;
    padded.resize(static_cast<std::size_t>(rows));
    std::vector<double> covariances = ClippedPgFormulas::covariances(padded, rows);
    covariances.resize(tokens.size());
    return covariances;
  }
};

/// `AdvantagesOverTokens`: advantages have the weight of a token in the loss before.
struct AdvantagesOverTokens : ClippedPgFormulas {
  static std::vector<double> covariances(const SelectionTokens& tokens, std::int64_t rows) {
    std::vector<double> covariances = ClippedPgFormulas::covariances(tokens, rows);
    for (double& covariance : covariances) covariance /= static_cast<double>(tokens.size());
    return covariances;
  }
};

struct KlCovClips : ClippedPgFormulas {
  static bool has_clip_bounds(const ClippedPgOptions& /*options*/) { return true; }
};

struct ShareOfAll : ClippedPgFormulas {
  static std::int64_t share_of_tokens(double /*ratio*/, std::int64_t count) { return count; }
};

struct ShareMayBeNone : ClippedPgFormulas {
  static std::int64_t share_of_tokens(double ratio, std::int64_t count) {
    return static_cast<std::int64_t>(ratio * static_cast<double>(count));
  }
};

struct SmallestFirst : ClippedPgFormulas {
  static std::vector<std::size_t> largest_first(const std::vector<double>& numbers) {
    std::vector<std::size_t> order = ClippedPgFormulas::largest_first(numbers);
    std::reverse(order.begin(), order.end());
    return order;
  }
};

struct LastOfEqualFirst : ClippedPgFormulas {
  static std::vector<std::size_t> largest_first(const std::vector<double>& numbers) {
    const std::vector<double> reversed(numbers.rbegin(), numbers.rend());
    std::vector<std::size_t> order = ClippedPgFormulas::largest_first(reversed);
    for (std::size_t& k : order) k = numbers.size() - 1 - k;
    return order;
  }
};

struct OneMomentTooFew : ClippedPgFormulas {
  static std::size_t dropped_second_moments(const std::vector<double>& numbers, double threshold) {
    const std::size_t dropped = ClippedPgFormulas::dropped_second_moments(numbers, threshold);
    return dropped == 0 ? 0 : dropped - 1;
  }
};

/// `MomentsOneByOne`: every token beyond the threshold goes, whatever the mean is.
struct MomentsOneByOne : ClippedPgFormulas {
  static std::size_t dropped_second_moments(const std::vector<double>& numbers, double threshold) {
    return static_cast<std::size_t>(std::count_if(
        numbers.begin(), numbers.end(), [&](double number) { return number >= threshold; }));
  }
};

struct ClippedTokensAreCandidates : ClippedPgFormulas {
  static bool is_clipped(double /*advantage*/, double /*rho*/,
                         const ClippedPgOptions& /*options*/) {
    return false;
  }
};

/// `LotsOfPaddedRows`: lots by rows of the padded pack, whose places depend on the grid.
struct LotsOfPaddedRows : ClippedPgFormulas {
  static std::uint64_t lot(const SelectionToken& token, double seed) {
    SelectionToken row = token;
    row.sequence = 0;
    row.position = token.place;
    return ClippedPgFormulas::lot(row, seed);
  }
};

bool selects_tokens(const LossProblem& problem) {
  return problem.objective.needs().selects;
}

bool selects_over_cp(const LossProblem& problem) {
  return problem.grid.cp > 1 && problem.objective.sizes().selection_numbers > 0;
}

/// Leaves the numbers of other ranks' tokens 0.
void numbers_of_shard(Communicator& cp, std::span<double> numbers) {
  std::vector<double> all(numbers.begin(), numbers.end());
  cp.all_reduce(std::span<double>(all), ReduceOp::sum);
}

/// Multiplies the gradients as if the tokens that are not selected alone were counted.
void kept_tokens_count(const Objective& objective, const ObjectiveTokens& tokens,
                       const PackedBatch& batch, int /*cp*/,
                       SequenceTable<const double> coefficients, ObjectiveTotals<double> totals,
                       const TokenGradients& gradients) {
  objective.token_terms(tokens, batch, coefficients, totals, gradients);
  const auto all = static_cast<double>(batch.denominators.valid_tokens);
  const auto selected =
      static_cast<double>(std::count(tokens.selected.begin(), tokens.selected.end(), 1));
  if (selected >= all) return;
  for (const std::span<float> column : gradients.columns()) {
    for (float& gradient : column) gradient *= static_cast<float>(all / (all - selected));
  }
}

/// Selects for the value of the loss alone.
void gradient_of_all_tokens(const Objective& objective, const ObjectiveTokens& tokens,
                            const PackedBatch& batch, int /*cp*/,
                            SequenceTable<const double> coefficients,
                            ObjectiveTotals<double> totals, const TokenGradients& gradients) {
  objective.token_terms(tokens, batch, coefficients, totals, gradients);
  for (const std::span<float> column : gradients.columns()) {
    std::fill(column.begin(), column.end(), 0.0f);
  }
  ObjectiveTokens all = tokens;
  all.selected = {};
  std::vector<double> sums(totals.sums.size());
  std::vector<double> maxima(totals.maxima.size());
  objective.token_terms(all, batch, coefficients, {sums, maxima}, gradients);
}

/// Takes the mask of the policy term for one of all terms.
void selected_tokens_are_masked(const Objective& objective, const ObjectiveTokens& tokens,
                                const PackedBatch& batch, int /*cp*/,
                                SequenceTable<const double> coefficients,
                                ObjectiveTotals<double> totals, const TokenGradients& gradients) {
  std::vector<std::uint8_t> valid(tokens.valid.begin(), tokens.valid.end());
  for (std::size_t t = 0; t < valid.size(); ++t) {
    if (tokens.is_selected(static_cast<std::int64_t>(t))) valid[t] = 0;
  }
  ObjectiveTokens fewer = tokens;
  fewer.valid = valid;
  objective.token_terms(fewer, batch, coefficients, totals, gradients);
}

const RegisteredMutant selection_mutants[] = {
    RegisteredMutant({
        .catalogue_id = "M239",
        .name = "quantile_of_nearest",
        .what = "top entropy: the threshold is the nearest entropy, not between two",
        .strategy = "fused",
        .objective = selection_with<QuantileOfNearest, Selection::top_entropy>,
        .rejected_by = "loss",
    }),
    RegisteredMutant({
        .catalogue_id = "M240",
        .name = "entropy_at_threshold_dropped",
        .what = "top entropy: a token whose entropy is the threshold is dropped",
        .strategy = "cp_local",
        .objective = selection_with<ThresholdIsDropped, Selection::top_entropy>,
        .rejected_by = "loss",
    }),
    RegisteredMutant({
        .catalogue_id = "M241",
        .name = "quantile_counts_masked",
        .what = "top entropy: the quantile is one of all rows, 0 for masked ones",
        .strategy = "fused",
        .objective = selection_with<MaskedEntropiesCount, Selection::top_entropy>,
        .rejected_by = "loss",
    }),
    RegisteredMutant({
        .catalogue_id = "M242",
        .name = "quantile_of_the_share",
        .what = "top entropy: the quantile q, not 1 - q, which keeps a share of 1 - q",
        .strategy = "cp_local",
        .objective = selection_with<QuantileOfTheShare, Selection::top_entropy>,
        .rejected_by = "loss",
    }),
    RegisteredMutant({
        .catalogue_id = "M243",
        .name = "selection_of_the_shard",
        .what = "tokens are selected by the numbers of the own CP rank",
        .strategy = "cp_local",
        .change = [](Steps& s) { s.reduce_selection = numbers_of_shard; },
        .runs_on = selects_over_cp,
        .rejected_by = "loss",
    }),
    RegisteredMutant({
        .catalogue_id = "M244",
        .name = "selection_shrinks_denominator",
        .what = "selected tokens are not counted: the gradient of the others grows",
        .strategy = "fused",
        .change = [](Steps& s) { s.token_terms = kept_tokens_count; },
        .runs_on = selects_tokens,
        .seen_in = "AReaL, M2PO",
        .rejected_by = "grad_logits",
    }),
    RegisteredMutant({
        .catalogue_id = "M245",
        .name = "covariance_over_all_rows",
        .what = "clip_cov: the means of covariances divide by all rows of the pack",
        .strategy = "fused",
        .objective = selection_with<MeansOverAllRows, Selection::clip_cov>,
        .rejected_by = "loss",
    }),
    RegisteredMutant({
        .catalogue_id = "M246",
        .name = "covariance_of_shares",
        .what = "clip_cov: covariances of advantages that are divided by the tokens already",
        .strategy = "cp_local",
        .objective = selection_with<AdvantagesOverTokens, Selection::clip_cov>,
        .seen_in = "SkyRL 0.3.0",
        .rejected_by = "loss",
    }),
    RegisteredMutant({
        .catalogue_id = "M247",
        .name = "kl_cov_clips",
        .what = "kl_cov: the ratio keeps its clip bounds",
        .strategy = "fused",
        .objective = selection_with<KlCovClips, Selection::kl_cov>,
        .rejected_by = "loss",
    }),
    RegisteredMutant({
        .catalogue_id = "M248",
        .name = "kl_cov_penalty_of_all",
        .what = "kl_cov: all tokens have the penalty",
        .strategy = "cp_local",
        .objective = selection_with<ShareOfAll, Selection::kl_cov>,
        .rejected_by = "loss",
    }),
    RegisteredMutant({
        .catalogue_id = "M249",
        .name = "kl_cov_of_smallest",
        .what = "kl_cov: the penalty of the smallest covariances",
        .strategy = "fused",
        .objective = selection_with<SmallestFirst, Selection::kl_cov>,
        .rejected_by = "loss",
    }),
    RegisteredMutant({
        .catalogue_id = "M250",
        .name = "smallest_moments_dropped",
        .what = "M2PO: the smallest second moments go first",
        .strategy = "cp_local",
        .objective = selection_with<SmallestFirst, Selection::second_moment>,
        .rejected_by = "loss",
    }),
    RegisteredMutant({
        .catalogue_id = "M251",
        .name = "one_moment_too_few",
        .what = "M2PO: one token less is dropped",
        .strategy = "fused",
        .objective = selection_with<OneMomentTooFew, Selection::second_moment>,
        .rejected_by = "loss",
    }),
    RegisteredMutant({
        .catalogue_id = "M252",
        .name = "moments_one_by_one",
        .what = "M2PO: every token beyond the threshold goes, whatever the mean is",
        .strategy = "cp_local",
        .objective = selection_with<MomentsOneByOne, Selection::second_moment>,
        .rejected_by = "loss",
    }),
    RegisteredMutant({
        .catalogue_id = "M253",
        .name = "share_may_be_no_token",
        .what = "kl_cov: a share of less than one token is none",
        .strategy = "fused",
        .objective = selection_with<ShareMayBeNone, Selection::kl_cov>,
        .rejected_by = "loss",
    }),
    RegisteredMutant({
        .catalogue_id = "M254",
        .name = "clipped_tokens_are_candidates",
        .what = "clip_cov: tokens that PPO clips are among those that are drawn from",
        .strategy = "cp_local",
        .objective = selection_with<ClippedTokensAreCandidates, Selection::clip_cov>,
        .rejected_by = "loss",
    }),
    RegisteredMutant({
        .catalogue_id = "M255",
        .name = "all_candidates_dropped",
        .what = "clip_cov: all tokens between the bounds are dropped",
        .strategy = "fused",
        .objective = selection_with<ShareOfAll, Selection::clip_cov>,
        .rejected_by = "loss",
    }),
    RegisteredMutant({
        .catalogue_id = "M256",
        .name = "lots_of_padded_rows",
        .what = "clip_cov: lots by the row of the padded pack, which depends on the grid",
        .strategy = "cp_local",
        .objective = selection_with<LotsOfPaddedRows, Selection::clip_cov>,
        .rejected_by = "loss",
    }),
    RegisteredMutant({
        .catalogue_id = "M257",
        .name = "selection_without_gradient",
        .what = "the selection is in the value of the loss, not in its gradient",
        .strategy = "fused",
        .change = [](Steps& s) { s.token_terms = gradient_of_all_tokens; },
        .runs_on = selects_tokens,
        .rejected_by = "grad_logits",
    }),
    RegisteredMutant({
        .catalogue_id = "M258",
        .name = "selection_masks_all_terms",
        .what = "tokens without a policy term lose their KL and their entropy bonus too",
        .strategy = "cp_local",
        .change = [](Steps& s) { s.token_terms = selected_tokens_are_masked; },
        .runs_on = selects_tokens,
        .rejected_by = "grad_logits",
    }),
    RegisteredMutant({
        .catalogue_id = "M259",
        .name = "last_of_equal_moments_first",
        .what = "M2PO: of equal second moments the last token is dropped first",
        .strategy = "fused",
        .objective = selection_with<LastOfEqualFirst, Selection::second_moment>,
        .rejected_by = "grad_logits",
    }),
};

}  // namespace
}  // namespace lossgrid
