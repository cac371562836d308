// SPDX-License-Identifier: Apache-2.0
// Fixture of the tests of objectives: a random batch with everything that an objective may read,
// the three steps over any partition of its rows, the truth of the same batch, and a comparison of
// both. The pack has no padding, so row t predicts token t + 1. Rows and slots that are not valid
// hold NaN, inputs that an objective does not ask for are left out, and the denominators are those
// of a batch of which this pack is a part.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>
#include <optional>
#include <string>
#include <vector>

#include <fmt/core.h>
#include <gtest/gtest.h>

#include "harness/core/philox.h"
#include "harness/loss/objective.h"
#include "harness/problem/batch/sharding.h"

namespace lossgrid {

struct ObjectiveBatch {
  PackedBatch batch;
  std::vector<float> logprobs;          // [rows]
  ByRowTerm<std::vector<float>> terms;  // [rows] each

  std::int64_t rows() const { return batch.padded_tokens(); }
};

struct ObjectiveBatchShape {
  std::vector<std::int64_t> lengths = {9, 1, 6, 0, 12, 2};
  std::vector<std::uint8_t> sample_mask = {};  // empty: ones
  double masked_share = 0.3;                   // of the tokens
  Drift drift = Drift::near;                   // as draw_objective_inputs has it
  std::uint64_t seed = 1;
  bool part_of_more = true;  // false: the pack is the global batch
  int ahead = 1;  // 0: rows are about their own tokens, of which the last of a sequence counts
};

/// Sequences of a group, where an objective has groups.
inline constexpr std::int64_t kGroupSize = 2;

inline constexpr float kPoison = std::numeric_limits<float>::quiet_NaN();

/// Counts the valid tokens of the group of every sequence, and the groups.
inline void count_groups(PackedBatch& batch, bool part_of_more) {
  Denominators& counts = batch.denominators;
  counts.all_groups = counts.trained_groups = part_of_more ? 1 : 0;
  batch.group_tokens.assign(static_cast<std::size_t>(batch.sequences()), 0);
  for (std::int64_t first = 0; first < batch.sequences(); first += kGroupSize) {
    const std::int64_t end = std::min(first + kGroupSize, batch.sequences());
    std::int64_t tokens = part_of_more ? 3 : 0;
    for (std::int64_t i = first; i < end; ++i) {
      for (std::int64_t t = batch.ahead; t < batch.length(i); ++t) {
        const bool is_masked = batch.token_mask[batch.cu_seqlens[i] + t] == 0;
        tokens += is_masked || batch.sample_mask[i] == 0 ? 0 : 1;
      }
    }
    for (std::int64_t i = first; i < end; ++i) batch.group_tokens[i] = tokens;
    counts.all_groups += 1;
    counts.trained_groups += tokens > 0 ? 1 : 0;
  }
}

/// Counts denominators from masks and rewards.
inline Denominators count_denominators(const PackedBatch& batch, bool part_of_more) {
  Denominators counts;
  for (std::int64_t i = 0; i < batch.sequences(); ++i) {
    counts.all_sequences += 1;
    if (batch.sample_mask[i] == 0) continue;
    counts.valid_sequences += 1;
    std::int64_t of_sequence = 0;
    for (std::int64_t t = batch.ahead; t < batch.length(i); ++t) {
      const std::int64_t valid = batch.token_mask[batch.cu_seqlens[i] + t] != 0 ? 1 : 0;
      of_sequence += valid;
      counts.valid_tokens += valid;
      counts.positive_tokens += batch.rewards[i] > 0 ? valid : 0;
    }
    counts.trained_sequences += of_sequence > 0 ? 1 : 0;
  }
  if (!part_of_more) return counts;
  return {counts.valid_tokens + 7, counts.valid_sequences + 3, counts.positive_tokens + 2,
          counts.trained_sequences + 2, counts.all_sequences + 4};
}

/// Draws return and old value of the state with this value: inside of clip ranges of 0.2 to 1
/// around the old one, beyond them and on the end of 0.5, with the return on every side of both
/// values.
inline void draw_values(const RandomStream& random, std::int64_t token, float value,
                        TokenInputs& inputs) {
  const float pick = static_cast<float>(random.uniform(token, 42));
  const float apart = random.normal(token, 16);
  const float old_value = value - (pick < 0.2f ? 0.5f : pick < 0.6f ? 0.3f * apart : 2 * apart);
  const float kind = static_cast<float>(random.uniform(token, 43));
  const float target = kind < 0.3f   ? (value + old_value) / 2
                       : kind < 0.8f ? value + random.normal(token, 17)
                                     : value + 20 * random.normal(token, 17);
  inputs[static_cast<std::size_t>(TokenInput::returns)][token] = target;
  inputs[static_cast<std::size_t>(TokenInput::old_values)][token] = old_value;
}

/// Draws the policies' log-probabilities of a token whose own is `x`, with mass on every branch.
inline void draw_inputs(const RandomStream& random, std::int64_t token, Drift drift, float x,
                        TokenInputs& inputs) {
  const auto normal = [&](std::uint32_t column) { return random.normal(token, column); };
  const auto set = [&](TokenInput which, float value) {
    inputs[static_cast<std::size_t>(which)][token] = value;
  };
  const float pick = static_cast<float>(random.uniform(token, 40));
  float prev = x - normal(8) * (pick < 0.4f ? 0.08f : pick < 0.8f ? 0.5f : 1.3f);
  float generation = prev + normal(9) * (pick < 0.5f ? 0.1f : 0.6f);
  float reference = x + normal(10) * (pick < 0.7f ? 0.5f : 1.8f);
  float teacher = x + normal(12) * (pick < 0.7f ? 0.5f : 1.8f);
  if (drift == Drift::equal) prev = generation = reference = teacher = x;
  if (drift == Drift::far) {
    const int kind = static_cast<int>(random.below(8, token, 41));
    if (kind == 0) generation = prev - 95;
    if (kind == 1) reference = x - 25;
    if (kind == 2) reference = x + 3.5f;
    if (kind == 3) reference = x + 24;
    if (kind == 4) generation = x - 95;
    if (kind == 5) teacher = x - 25;
    if (kind == 6) teacher = x + 4;
  }
  set(TokenInput::prev_logprobs, prev);
  set(TokenInput::generation_logprobs, generation);
  set(TokenInput::reference_policy_logprobs, reference);
  set(TokenInput::teacher_logprobs, teacher);
  // Around version 5 of the current policy: older ones, itself, a later one and none.
  constexpr float kVersions[] = {4, 3, 1, 0, 5, 6, -1};
  set(TokenInput::versions, kVersions[random.below(7, token, 44)]);
  set(TokenInput::advantages, token % 9 == 4 ? 0.0f : normal(11));
}

inline ObjectiveBatch make_objective_batch(const ObjectiveBatchShape& shape) {
  ObjectiveBatch made;
  PackedBatch& batch = made.batch;
  const RandomStream random(shape.seed, 900);
  batch.cu_seqlens = {0};
  for (const std::int64_t length : shape.lengths) {
    batch.cu_seqlens.push_back(batch.cu_seqlens.back() + length);
  }
  batch.cu_seqlens_padded = batch.cu_seqlens;
  batch.input_lengths = shape.lengths;
  const auto tokens = static_cast<std::size_t>(batch.tokens());
  const auto sequences = shape.lengths.size();
  batch.input_ids.assign(tokens, 1);
  batch.sample_mask = shape.sample_mask;
  if (batch.sample_mask.empty()) batch.sample_mask.assign(sequences, 1);
  for (std::size_t i = 0; i < sequences; ++i) {
    const bool masked = batch.sample_mask[i] == 0;
    batch.rewards.push_back(masked ? kPoison : random.normal(i, 20));
  }
  made.logprobs.assign(tokens, kPoison);
  for (std::vector<float>& of_rows : made.terms) of_rows.assign(tokens, kPoison);
  for (std::vector<float>& input : batch.inputs) input.assign(tokens, kPoison);
  batch.token_mask.resize(tokens);
  for (std::size_t t = 0; t < tokens; ++t) {
    batch.token_mask[t] = random.uniform(t, 0) >= shape.masked_share ? 1 : 0;
  }
  batch.ahead = shape.ahead;
  for (std::size_t i = 0; shape.ahead == 0 && i < sequences; ++i) {
    std::int64_t last = batch.cu_seqlens[i + 1] - 1;
    while (last >= batch.cu_seqlens[i] && batch.token_mask[last] == 0) --last;
    for (std::int64_t t = batch.cu_seqlens[i]; t < last; ++t) batch.token_mask[t] = 0;
  }
  for (std::size_t i = 0; i < sequences; ++i) {
    for (std::int64_t t = batch.cu_seqlens[i] + shape.ahead; t < batch.cu_seqlens[i + 1]; ++t) {
      if (batch.token_mask[t] == 0 || batch.sample_mask[i] == 0) continue;
      made.logprobs[t - shape.ahead] = static_cast<float>(-0.1 - 3 * random.uniform(t, 1));
      made.terms[RowTerm::entropy][t - shape.ahead] = static_cast<float>(3 * random.uniform(t, 2));
      made.terms[RowTerm::vocab_min][t - shape.ahead] = -3 + random.normal(t, 12);
      made.terms[RowTerm::vocab_max][t - shape.ahead] = 3 + random.normal(t, 13);
      made.terms[RowTerm::logsumexp][t - shape.ahead] = 5 * random.normal(t, 14);
      made.terms[RowTerm::mean_logprob][t - shape.ahead] =
          static_cast<float>(-1 - 4 * random.uniform(t, 3));
      made.terms[RowTerm::divergence][t - shape.ahead] =
          static_cast<float>(2 * random.uniform(t, 4));
      made.terms[RowTerm::sum_p2][t - shape.ahead] = static_cast<float>(random.uniform(t, 5));
      made.terms[RowTerm::top1][t - shape.ahead] = random.uniform(t, 6) < 0.4 ? 1.0f : 0.0f;
      made.terms[RowTerm::mean_logit][t - shape.ahead] = random.normal(t, 15);
      draw_values(random, t, made.terms[RowTerm::logsumexp][t - shape.ahead], batch.inputs);
      draw_inputs(random, t, shape.drift, made.logprobs[t - shape.ahead], batch.inputs);
    }
  }
  batch.denominators = count_denominators(batch, shape.part_of_more);
  count_groups(batch, shape.part_of_more);
  return made;
}

/// Returns the batch with only the inputs that an objective with these needs reads.
inline PackedBatch with_needed(const PackedBatch& batch, const ObjectiveNeeds& needs) {
  PackedBatch needed = batch;
  for (int k = 0; k < kTokenInputs; ++k) {
    if (!needs.inputs[k]) needed.inputs[k].clear();
  }
  if (!needs.rewards) needed.rewards.clear();
  if (!needs.has_groups()) needed.group_tokens.clear();
  return needed;
}

struct ObjectiveRun {
  double loss = 0;
  Metrics metrics;
  std::vector<float> gradient;                        // [rows] by log-probabilities
  ByGradientTerm<std::vector<float>> term_gradients;  // [rows] or empty
};

using Parts = std::vector<std::vector<std::int64_t>>;  // the rows that each rank holds

inline Parts whole(const ObjectiveBatch& data) {
  Parts parts(1, std::vector<std::int64_t>(static_cast<std::size_t>(data.rows())));
  std::iota(parts[0].begin(), parts[0].end(), 0);
  return parts;
}

/// Deals rows to `ranks` ranks at random, in mixed order; a rank may get none of a sequence.
inline Parts dealt(const ObjectiveBatch& data, int ranks, std::uint64_t seed) {
  const RandomStream random(seed, 901);
  Parts parts(static_cast<std::size_t>(ranks));
  for (std::int64_t row = data.rows(); row-- > 0;) {
    parts[random.below(static_cast<std::uint32_t>(ranks), row)].push_back(row);
  }
  return parts;
}

/// A rank's rows with their arrays; `tokens` points into this.
struct HeldRows {
  HeldRows(const ObjectiveBatch& data, const ShiftedBatch& pack, const Objective& objective,
           const std::vector<std::int64_t>& positions)
      : rows(pack.gather(positions)), weights(objective.token_weights(data.batch, rows)) {
    const ObjectiveNeeds needs = objective.needs();
    tokens.weights = weights;
    for (const std::int64_t row : positions) logprobs.push_back(data.logprobs[row]);
    tokens.logprobs = logprobs;
    for (const RowTerm term : kAllRowTerms) {
      for (const std::int64_t row : positions) terms[term].push_back(data.terms[term][row]);
      const bool is_given = needs.terms.has(term) || (needs.row_statistics && is_statistic(term)) ||
                            (needs.predictions && is_prediction(term));
      if (is_given) tokens.terms[term] = terms[term];
    }
    tokens.valid = rows.valid;
    tokens.real = rows.real;
    tokens.sequence = rows.sequence;
    if (needs.selects) tokens.places = rows.place;
    for (int k = 0; k < kTokenInputs; ++k) tokens.inputs[k] = rows.inputs[k];
  }
  HeldRows(const HeldRows&) = delete;

  ShiftedBatch rows;
  std::vector<float> weights;
  std::vector<float> logprobs;
  ByRowTerm<std::vector<float>> terms;
  ObjectiveTokens tokens;
};

/// Gradients of `rows` rows by every number that an objective depends on, filled with `value`.
struct HeldGradients {
  HeldGradients(const ObjectiveNeeds& needs, std::size_t rows, float value) {
    columns[0].assign(rows, value);
    for (const RowTerm term : kAllGradientTerms) {
      if (needs.terms.has(term)) column(term).assign(rows, value);
    }
  }
  std::vector<float>& column(RowTerm term) { return columns[1 + static_cast<std::size_t>(term)]; }
  TokenGradients view() {
    TokenGradients view{columns[0]};
    for (const RowTerm term : kAllGradientTerms) view.terms[term] = column(term);
    return view;
  }

  std::array<std::vector<float>, TokenGradients::kColumns> columns;
};

/// Runs the three steps as CP ranks do, with sums over ranks after the first and the last.
inline ObjectiveRun run_objective(const Objective& objective, const ObjectiveBatch& data,
                                  const Parts& parts) {
  PackedBatch batch = with_needed(data.batch, objective.needs());
  if (objective.needs().input_sum) batch.input_sum = objective.input_sum(batch);
  const ShiftedBatch pack = shift_targets(batch);
  const ObjectiveSizes sizes = objective.sizes();
  const auto table = [&](std::vector<double>& numbers, int columns) {
    // A stride beyond the columns, as when two objectives share a table.
    numbers.assign(static_cast<std::size_t>(batch.sequences()) * (columns + 1), 0.0);
    return SequenceTable<double>{numbers.data(), batch.sequences(), columns, columns + 1};
  };
  std::vector<double> sum_numbers;
  std::vector<double> part_numbers;
  std::vector<double> coefficient_numbers;
  const SequenceTable<double> sums = table(sum_numbers, sizes.sequence_sums);
  std::vector<double> numbers(static_cast<std::size_t>(data.rows() * sizes.selection_numbers));
  for (const auto& part : parts) {
    const HeldRows held(data, pack, objective, part);
    if (!numbers.empty()) objective.selection_numbers(held.tokens, numbers);
    objective.sequence_sums(held.tokens, batch, table(part_numbers, sizes.sequence_sums));
    for (std::size_t k = 0; k < sum_numbers.size(); ++k) sum_numbers[k] += part_numbers[k];
  }
  const SequenceTable<double> coefficients = table(coefficient_numbers, sizes.coefficients);
  std::fill(coefficient_numbers.begin(), coefficient_numbers.end(), kPoison);
  objective.coefficients(batch, sums, coefficients);
  std::vector<std::uint8_t> selected(objective.needs().selects ? pack.rows() : 0, 2);
  objective.select(batch, numbers, selected);

  std::vector<double> total_sums(sizes.sums, 0.0);
  std::vector<double> total_maxima(sizes.maxima, -std::numeric_limits<double>::infinity());
  ObjectiveRun run;
  HeldGradients all(objective.needs(), static_cast<std::size_t>(data.rows()), kPoison);
  for (const auto& part : parts) {
    HeldRows held(data, pack, objective, part);
    held.tokens.selected = selected;
    std::vector<double> of_sums(sizes.sums, 0.0);
    std::vector<double> of_maxima(sizes.maxima, -std::numeric_limits<double>::infinity());
    HeldGradients own(objective.needs(), part.size(), 0.0f);
    objective.token_terms(held.tokens, batch, coefficients, {of_sums, of_maxima}, own.view());
    for (int k = 0; k < sizes.sums; ++k) total_sums[k] += of_sums[k];
    for (int k = 0; k < sizes.maxima; ++k) {
      total_maxima[k] = std::max(total_maxima[k], of_maxima[k]);
    }
    for (std::size_t c = 0; c < own.columns.size(); ++c) {
      for (std::size_t k = 0; k < own.columns[c].size(); ++k) {
        all.columns[c][static_cast<std::size_t>(part[k])] = own.columns[c][k];
      }
    }
  }
  run.gradient = std::move(all.columns[0]);
  for (const RowTerm term : kAllGradientTerms) {
    run.term_gradients[term] = std::move(all.column(term));
  }
  ObjectiveResult result = objective.finish(batch, sums, coefficients, {total_sums, total_maxima});
  run.loss = result.loss;
  run.metrics = std::move(result.metrics);
  return run;
}

inline ObjectiveRun run_objective(const Objective& objective, const ObjectiveBatch& data) {
  return run_objective(objective, data, whole(data));
}

/// Returns each row as an interval: exact, or within `roundoffs` float32 roundoffs.
inline std::vector<TokenTruth> token_truths(const ObjectiveBatch& data, double roundoffs = 0) {
  std::vector<TokenTruth> rows;
  for (std::int64_t row = 0; row < data.rows(); ++row) {
    const auto known = [&](const std::vector<float>& numbers) {
      const Enclosure exact(numbers[row]);
      return roundoffs == 0 ? exact : rounded(exact, roundoffs);
    };
    rows.push_back({known(data.logprobs)});
    for (const RowTerm term : kAllRowTerms) rows.back().terms[term] = known(data.terms[term]);
  }
  return rows;
}

inline ObjectiveTruth objective_truth(const Objective& objective, const ObjectiveBatch& data,
                                      double roundoffs = 0) {
  return objective.truth(with_needed(data.batch, objective.needs()), token_truths(data, roundoffs));
}

/// Returns "" if `got` lies in the interval and within `allowed` of its value, else the difference.
inline std::string difference(const std::string& what, double got, const Enclosure& want,
                              double allowed) {
  if (want.contains(got) && (got == want.value || std::abs(got - want.value) <= allowed)) return "";
  return fmt::format("{} = {:.17g}, truth {:.17g} in [{:.17g}, {:.17g}]\n", what, got, want.value,
                     want.low, want.high);
}

/// Returns the differences of a run from the truth, "" if there are none: loss, metrics and
/// gradient must lie in their intervals and within `relative` of the value, the gradient, which is
/// float32, with one roundoff more.
inline std::string differences(const ObjectiveRun& run, const ObjectiveTruth& truth,
                               double relative) {
  const auto allowed = [&](const Enclosure& want) { return relative * (1 + std::abs(want.value)); };
  std::string text = difference("loss", run.loss, truth.loss, allowed(truth.loss));
  for (const auto& [name, want] : truth.metrics) {
    const auto got = run.metrics.find(name);
    if (got == run.metrics.end()) {
      text += "no metric " + name + "\n";
      continue;
    }
    if (got->second.reduction != want.reduction || got->second.count != want.count) {
      text += "reduction or count of " + name + "\n";
    }
    text += difference(name, got->second.amount, want.amount, allowed(want.amount));
  }
  for (const auto& [name, metric] : run.metrics) {
    if (!truth.metrics.contains(name)) text += "no truth of metric " + name + "\n";
  }
  const auto compare = [&](const std::string& what, const std::vector<float>& got,
                           const std::vector<Enclosure>& truths) {
    if (got.size() != truths.size()) return text += fmt::format("size of {}\n", what);
    for (std::size_t row = 0; row < got.size(); ++row) {
      const Enclosure& want = truths[row];
      text += difference(fmt::format("{}[{}]", what, row), got[row], want,
                         allowed(want) + 0x1p-24 * std::abs(want.value));
    }
    return text;
  };
  compare("gradient", run.gradient, truth.grad_logprob);
  for (const RowTerm term : kAllGradientTerms) {
    compare(fmt::format("gradient by {}", name(term)), run.term_gradients[term],
            truth.grad_terms[term]);
  }
  return text;
}

/// Expects that the gradients of the truth, which are made on a tape, are those of central
/// differences of its loss, by every number of every valid row that it depends on.
inline void expect_gradient_of_differences(const Objective& objective, const ObjectiveBatch& data) {
  const ObjectiveTruth truth = objective_truth(objective, data);
  const PackedBatch batch = with_needed(data.batch, objective.needs());
  const auto compare = [&](std::string_view what, auto&& number_of,
                           const std::vector<Enclosure>& gradient) {
    std::int64_t compared = 0;
    for (std::size_t row = 0; row < gradient.size(); ++row) {
      if (std::isnan(data.logprobs[row])) continue;
      constexpr double kStep = 1e-4;
      const auto loss_at = [&](double step) {
        std::vector<TokenTruth> rows = token_truths(data);
        Enclosure& number = number_of(rows[row]);
        number = number.value + step;
        return objective.truth(batch, rows).loss.value;
      };
      const double numeric = (loss_at(kStep) - loss_at(-kStep)) / (2 * kStep);
      EXPECT_NEAR(gradient[row].value, numeric, 1e-7 * (1 + std::abs(numeric)))
          << what << " " << row;
      compared += gradient[row].value != 0 ? 1 : 0;
    }
    EXPECT_TRUE(gradient.empty() || compared > 5) << what;
  };
  // A divergence, or the number of a head without a vocabulary, takes the place of the
  // log-probability.
  const ObjectiveNeeds needs = objective.needs();
  if (!needs.terms.divergence.is_any() && needs.head == Head::lm) {
    compare(
        "logprob", [](TokenTruth& row) -> Enclosure& { return row.logprob; }, truth.grad_logprob);
  }
  for (const RowTerm term : kAllGradientTerms) {
    compare(
        name(term), [term](TokenTruth& row) -> Enclosure& { return row.terms[term]; },
        truth.grad_terms[term]);
  }
}

inline void expect_steps_match_truth(const Objective& objective, const ObjectiveBatch& data,
                                     double relative = 1e-12) {
  EXPECT_EQ(differences(run_objective(objective, data), objective_truth(objective, data), relative),
            "");
}

}  // namespace lossgrid
