// SPDX-License-Identifier: Apache-2.0
#include "impls/objectives/clipped_pg/clipped_pg_columns.h"

#include "impls/objectives/clipped_pg/clipped_pg_options.h"

namespace lossgrid {

ClippedPgColumns::ClippedPgColumns(const ClippedPgOptions& options) {
  if (options.positive_example_nll_weight > 0) positive = coefficients++;
  const bool has_sequence_weight = options.weighs_sequences() || options.masks_sequences();
  const bool has_shares = options.aggregation().differs_by_sequence();
  const bool has_masks = options.rejects_sequences() || options.off_policy_mask_threshold;
  const bool has_ratio = options.sequence_ratio() || options.is_geo_mean() || options.is_vespo();
  if (!has_shares && !has_sequence_weight && !has_ratio && !has_masks) return;
  tokens = sums++;
  if (has_shares) share = coefficients++;
  if (options.sequence_ratio()) {
    log_ratio = sums++;
    ratio = coefficients++;
    if (options.gspo_token) {
      ratio_slope = coefficients++;
    } else {
      positive_advantages = sums++;
      negative_advantages = sums++;
      ratio_gradient = coefficients++;
    }
  }
  if (options.is_geo_mean()) {
    log_ratio = sums++;
    positive_advantages = sums++;
    negative_advantages = sums++;
    ratio = coefficients++;
    mean_advantage = coefficients++;
  }
  if (options.is_vespo()) {
    log_ratio = sums++;
    gate = coefficients++;
    negative_gate = coefficients++;
  }
  if (has_sequence_weight) {
    log_weight = sums++;
    weight = coefficients++;
    out_of_bounds = coefficients++;
  }
  if (options.token_masks_first) kept = sums++;
  if (options.rejects_sequences()) {
    if (options.rejection_level > RejectionLevel::token) rejection = sums++;
    if (options.vetoes()) vetoes = sums++;
    keep = coefficients++;
  }
  if (options.off_policy_mask_threshold) {
    behaviour = sums++;
    keep_negative = coefficients++;
  }
}

}  // namespace lossgrid
