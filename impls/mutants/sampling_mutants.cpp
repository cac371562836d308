// SPDX-License-Identifier: Apache-2.0
// Mutants of sampling masks: kept sets that are not looked at, of other rows, without their ties or
// with other logits outside of them, targets outside of them, and shards that keep nothing.
#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include "impls/mutants/host_step.h"
#include "impls/mutants/mutant.h"
#include "impls/mutants/row_formulas.h"

namespace lossgrid {
namespace {

bool filters(const LossProblem& problem) {
  return problem.sampling.has_mask;
}

bool zeroes_targets(const LossProblem& problem) {
  return problem.sampling.zeroes_targets;
}

/// Takes statistics and gradient of rows that `kAlter(rows, words)` has changed; `words` begins as
/// a copy of the mask.
template <void (*kAlter)(LogitsRows&, std::vector<std::uint64_t>&)>
struct AlteredMask {
  LogitsRows rows;
  std::vector<std::uint64_t> words;

  explicit AlteredMask(const LogitsRows& given) : rows(given) {
    if (given.kept == nullptr) return;
    words.assign(given.kept, given.kept + given.rows * mask_words(given.shard.width));
    rows.kept = words.data();
    kAlter(rows, words);
  }

  static std::int64_t statistics(const LogitsRows& given, const RowStatistics& out) {
    return rows_statistics(AlteredMask(given).rows, out);
  }
  static void gradient(const LogitsRows& given, const RowSoftmax& softmax,
                       const RowGradients& gradients, void* out) {
    rows_gradient(AlteredMask(given).rows, softmax, gradients, out);
  }
  static void both(Steps& steps) {
    steps.statistics = statistics_on_host<statistics>;
    steps.gradient = gradient_on_host<gradient>;
  }
};

void take_mask_away(LogitsRows& rows, std::vector<std::uint64_t>&) {
  rows.kept = nullptr;
}

/// Gives row r the set of row r + 1, as if it were about the token itself and not the next one.
void move_mask_by_one(LogitsRows& rows, std::vector<std::uint64_t>& words) {
  const std::int64_t of_row = mask_words(rows.shard.width);
  for (std::int64_t r = 0; r + 1 < rows.rows; ++r) {
    if (rows.targets[r] < 0 || rows.targets[r + 1] < 0) continue;
    std::copy_n(words.begin() + (r + 1) * of_row, of_row, words.begin() + r * of_row);
  }
}

/// Keeps but one of the smallest logits of a set.
void leave_out_ties(LogitsRows& rows, std::vector<std::uint64_t>& words) {
  const MappedRows z = transformed_rows(rows);
  const std::int64_t of_row = mask_words(rows.shard.width);
  for (std::int64_t r = 0; r < rows.rows; ++r) {
    if (rows.targets[r] < 0) continue;
    double smallest = std::numeric_limits<double>::infinity();
    for (std::int64_t v = 0; v < rows.shard.valid(); ++v) {
      if (!std::isinf(z.at(r, v))) smallest = std::min(smallest, z.at(r, v));
    }
    bool is_first = true;
    for (std::int64_t v = 0; v < rows.shard.valid(); ++v) {
      if (z.at(r, v) != smallest || std::exchange(is_first, false)) continue;
      words[static_cast<std::size_t>(r * of_row + v / kMaskWordBits)] &=
          ~(std::uint64_t{1} << (v % kMaskWordBits));
    }
  }
}

/// Returns the rows with z = 0 in the place of -inf.
MappedRows zeros_outside(const LogitsRows& rows) {
  LogitsRows all = rows;
  all.kept = nullptr;
  std::int64_t row = -1;
  std::int64_t column = 0;
  // The map visits the columns of a row in turn.
  return MappedRows(all, [&, row, column](std::int64_t r, auto x) mutable {
    column = r == row ? column + 1 : 0;
    row = r;
    return is_kept(rows, r, column) ? transformed(rows, r, x) : decltype(x)(0);
  });
}

std::int64_t statistics_with_zeros(const LogitsRows& rows, const RowStatistics& out) {
  return rows_statistics(zeros_outside(rows).rows(), out);
}

/// Gives ids outside of the set the gradient of a probability that they do not have.
void gradient_of_all(const LogitsRows& rows, const RowSoftmax& softmax,
                     const RowGradients& gradients, void* out) {
  LogitsRows all = rows;
  all.kept = nullptr;
  rows_gradient(all, softmax, gradients, out);
}

/// Sends the gradient of a target's log-probability, which is a constant, to the logits.
void gradient_of_constant(const LogitsRows& rows, const RowSoftmax& softmax,
                          const RowGradients& gradients, void* out) {
  RowSoftmax without = softmax;
  without.filtered = nullptr;
  rows_gradient(rows, without, gradients, out);
}

/// Reads the logit of the target whether it is kept or not.
std::int64_t own_logit_of_target(const LogitsRows& rows, const RowStatistics& out) {
  const std::int64_t owned = rows_statistics(rows, out);
  LogitsRows all = rows;
  all.kept = nullptr;
  const MappedRows z = transformed_rows(all);
  for (std::int64_t r = 0; r < rows.rows; ++r) {
    if (!rows.shard.owns(rows.targets[r])) continue;
    const float shift = std::isinf(out.shift[r]) ? 0 : out.shift[r];
    out.target[r] = distance_to_shift(z.at(r, rows.targets[r] - rows.shard.begin), shift);
  }
  return owned;
}

/// Takes exp(z - max) of columns that are all -inf, max too.
std::int64_t no_number_for_nothing(const LogitsRows& rows, const RowStatistics& out) {
  const std::int64_t owned = rows_statistics(rows, out);
  for (std::int64_t r = 0; r < rows.rows; ++r) {
    if (rows.targets[r] >= 0 && std::isinf(out.shift[r])) {
      out.sum[r] = std::numeric_limits<float>::quiet_NaN();
    }
  }
  return owned;
}

/// Leaves out tokens whose log-probability is 0 as if they were not trained on.
void zeros_do_not_count(const Objective& objective, const ObjectiveTokens& tokens,
                        const PackedBatch& batch, int, SequenceTable<const double> coefficients,
                        ObjectiveTotals<double> totals, const TokenGradients& grad) {
  std::vector<std::uint8_t> valid(tokens.valid.begin(), tokens.valid.end());
  for (std::size_t t = 0; t < valid.size(); ++t) {
    if (tokens.logprobs[t] == 0) valid[t] = 0;
  }
  ObjectiveTokens fewer = tokens;
  fewer.valid = valid;
  objective.token_terms(fewer, batch, coefficients, totals, grad);
}

const RegisteredMutant sampling_mutants[] = {
    RegisteredMutant({
        .catalogue_id = "M119",
        .name = "sampling_mask_ignored",
        .what = "log-probabilities over the whole vocabulary, where a sampler drew of a kept set",
        .strategy = "fused",
        .change = AlteredMask<take_mask_away>::both,
        .runs_on = filters,
        .seen_in = "TRL #6789",
        .rejected_by = "logprobs",
    }),
    RegisteredMutant({
        .catalogue_id = "M120",
        .name = "sampling_mask_of_next_row",
        .what = "every row takes the kept set of the row after it",
        .strategy = "cp_local",
        .change = AlteredMask<move_mask_by_one>::both,
        .runs_on = filters,
        .rejected_by = "logprobs",
    }),
    RegisteredMutant({
        .catalogue_id = "M121",
        .name = "sampling_mask_without_ties",
        .what = "of ids that tie for the last place in the kept set, the first one alone",
        .strategy = "fused",
        .change = AlteredMask<leave_out_ties>::both,
        .runs_on = filters,
        .rejected_by = "logprobs",
    }),
    RegisteredMutant({
        .catalogue_id = "M122",
        .name = "sampling_gradient_outside",
        .what = "the gradient of the softmax reaches ids outside of the kept set",
        .strategy = "fused",
        .change = [](Steps& s) { s.gradient = gradient_on_host<gradient_of_all>; },
        .runs_on = filters,
        .rejected_by = "grad_logits",
    }),
    RegisteredMutant({
        .catalogue_id = "M123",
        .name = "sampling_gradient_of_filtered_target",
        .what = "targets outside of the kept set, whose log-probability is 0, have its gradient",
        .strategy = "cp_gather_logits",
        .change = [](Steps& s) { s.gradient = gradient_on_host<gradient_of_constant>; },
        .runs_on = zeroes_targets,
        .rejected_by = "grad_logits",
    }),
    RegisteredMutant({
        .catalogue_id = "M124",
        .name = "sampling_target_by_own_logit",
        .what = "targets outside of the kept set have the log-probability of their own logit",
        .strategy = "fused",
        .change = [](Steps& s) { s.statistics = statistics_on_host<own_logit_of_target>; },
        .runs_on = zeroes_targets,
        .rejected_by = "logprobs",
    }),
    RegisteredMutant({
        .catalogue_id = "M124",
        .name = "sampling_filtered_targets_masked",
        .what = "targets with the log-probability 0 drop out of the loss",
        .strategy = "cp_local",
        .change = [](Steps& s) { s.token_terms = zeros_do_not_count; },
        .runs_on = zeroes_targets,
        .rejected_by = "metric.num_unmasked_tokens",
    }),
    RegisteredMutant({
        .catalogue_id = "M125",
        .name = "sampling_zeros_outside",
        .what = "logits are multiplied by the mask: those outside of the kept set are 0",
        .strategy = "cp_gather_logits",
        .change = [](Steps& s) { s.statistics = statistics_on_host<statistics_with_zeros>; },
        .runs_on = filters,
        .rejected_by = "logprobs",
    }),
    RegisteredMutant({
        .catalogue_id = "M126",
        .name = "sampling_nan_of_empty_shard",
        .what = "a vocab shard that keeps nothing of a row subtracts -inf from -inf",
        .strategy = "per_sequence",
        .change = [](Steps& s) { s.statistics = statistics_on_host<no_number_for_nothing>; },
        .runs_on =
            [](const LossProblem& problem) { return filters(problem) && problem.grid.tp > 1; },
        .rejected_by = "logprobs",
    }),
};

}  // namespace
}  // namespace lossgrid
