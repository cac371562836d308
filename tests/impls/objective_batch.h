// SPDX-License-Identifier: Apache-2.0
// Fixture of the tests of objectives: the three steps on a random batch (objective_batch_data.h)
// over any partition of its rows, the truth of the same batch, and a comparison of both.
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
#include "objective_batch_data.h"

namespace lossgrid {

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
