// SPDX-License-Identifier: Apache-2.0
// The statistics of a step, beside an objective that uses columns, coefficients, sums and maxima of
// its own, so that a number in the wrong place shows.
#include <cmath>
#include <memory>
#include <utility>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "../impls/objective_batch.h"
#include "harness/core/error.h"
#include "harness/loss/objective.h"

namespace lossgrid {
namespace {

/// Draws rewards of 7.
class Sevens final : public InputDraw {
 public:
  DrawnInputs inputs(const TokenToDraw&) const override { return {}; }
  double reward(const CaseSpec&, std::int64_t) const override { return 7; }
};

/// Objective with loss = 2 sum_i S_i^2, S_i the sum of the sequence's log-probabilities; metric
/// "highest" is the largest -2 log-probability. Its gradient is 2 S_i by definition.
class Squares final : public Objective {
 public:
  Squares() : Objective(ObjectiveNeeds{.rewards = true, .sequences_per_unit = 2}) {}

  std::string_view kind() const override { return "squares"; }
  ObjectiveSizes sizes() const override { return {1, 1, 1, 1}; }
  std::shared_ptr<const InputDraw> input_draw() const override {
    return std::make_shared<Sevens>();
  }
  void require(const PackedBatch&) const override { throw_bad_input("squares: its own rule"); }

  void sequence_sums(const ObjectiveTokens& tokens, const PackedBatch&,
                     SequenceTable<double> sums) const override {
    for (std::size_t t = 0; t < tokens.valid.size(); ++t) {
      if (tokens.valid[t] != 0) sums.at(tokens.sequence[t], 0) += tokens.logprobs[t];
    }
  }
  void coefficients(const PackedBatch&, SequenceTable<const double> sums,
                    SequenceTable<double> coefficients) const override {
    for (std::int64_t i = 0; i < sums.sequences; ++i) coefficients.at(i, 0) = 2 * sums.at(i, 0);
  }
  void token_terms(const ObjectiveTokens& tokens, const PackedBatch&,
                   SequenceTable<const double> coefficients, ObjectiveTotals<double> totals,
                   const TokenGradients& gradients) const override {
    for (std::size_t t = 0; t < tokens.valid.size(); ++t) {
      if (tokens.valid[t] == 0) continue;
      const double coefficient = coefficients.at(tokens.sequence[t], 0);
      totals.sums[0] += coefficient * tokens.logprobs[t];
      totals.maxima[0] = std::max(totals.maxima[0], -2.0 * tokens.logprobs[t]);
      gradients.logprob[t] += static_cast<float>(coefficient);
    }
  }
  ObjectiveResult finish(const PackedBatch&, SequenceTable<const double>,
                         SequenceTable<const double>,
                         ObjectiveTotals<const double> totals) const override {
    return {totals.sums[0], {{"highest", {Reduction::max, totals.maxima[0], 1}}}};
  }
  ObjectiveTruth truth(const PackedBatch& batch, std::span<const TokenTruth> rows) const override {
    ObjectiveTruth truth;
    truth.grad_logprob.assign(rows.size(), 0.0);
    truth.branches["squares"] = 3;
    Enclosure highest(-std::numeric_limits<double>::infinity());
    const ShiftedBatch shifted = shift_targets(batch);
    for (std::int64_t i = 0; i < batch.sequences(); ++i) {
      std::vector<Enclosure> terms;
      for (std::size_t row = 0; row < rows.size(); ++row) {
        if (shifted.valid[row] == 0 || shifted.sequence[row] != i) continue;
        terms.push_back(rows[row].logprob);
        highest = max(highest, -2.0 * rows[row].logprob);
      }
      for (std::size_t row = 0; row < rows.size(); ++row) {
        if (shifted.valid[row] == 0 || shifted.sequence[row] != i) continue;
        truth.grad_logprob[row] = Enclosure(2) * sum(terms);
      }
      truth.loss += Enclosure(2) * sum(terms) * sum(terms);
    }
    truth.metrics["highest"] = {Reduction::max, highest, 1};
    return truth;
  }
};

std::unique_ptr<Objective> squares_with_statistics() {
  return with_statistics(std::make_unique<Squares>());
}

/// The pack of some of the sequences, with the denominators of the whole.
ObjectiveBatch take(const ObjectiveBatch& from, const std::vector<std::int64_t>& sequences) {
  ObjectiveBatch part;
  part.batch.denominators = from.batch.denominators;
  part.batch.cu_seqlens = {0};
  for (const std::int64_t i : sequences) {
    const auto copy = [&](const auto& source, auto& target) {
      target.insert(target.end(), source.begin() + from.batch.cu_seqlens[i],
                    source.begin() + from.batch.cu_seqlens[i + 1]);
    };
    copy(from.batch.input_ids, part.batch.input_ids);
    copy(from.batch.token_mask, part.batch.token_mask);
    copy(from.logprobs, part.logprobs);
    for (const RowTerm term : kAllRowTerms) copy(from.terms[term], part.terms[term]);
    part.batch.sample_mask.push_back(from.batch.sample_mask[i]);
    part.batch.rewards.push_back(from.batch.rewards[i]);
    part.batch.input_lengths.push_back(from.batch.input_lengths[i]);
    part.batch.cu_seqlens.push_back(part.batch.cu_seqlens.back() + from.batch.length(i));
  }
  part.batch.cu_seqlens_padded = part.batch.cu_seqlens;
  return part;
}

ObjectiveBatchShape random_shape(std::uint64_t seed) {
  ObjectiveBatchShape shape;
  shape.sample_mask = {1, 1, 0, 1, 1, 1};
  shape.lengths = {9, 1, 6, 0, 12, 7};
  shape.seed = seed;
  return shape;
}

/// As `expected` but for the last bits of sums; counts, extrema and element counts are exact.
void expect_same(const Metrics& got, const Metrics& expected) {
  ASSERT_EQ(got.size(), expected.size());
  for (const auto& [name, want] : expected) {
    ASSERT_TRUE(got.contains(name)) << name;
    const Metric& metric = got.at(name);
    EXPECT_EQ(metric.reduction, want.reduction) << name;
    if (want.reduction != Reduction::global) {
      EXPECT_EQ(metric.count, want.count) << name;
    }
    if (want.reduction == Reduction::mean || want.reduction == Reduction::sum) {
      EXPECT_NEAR(metric.amount, want.amount, 1e-13 * (1 + std::abs(want.amount))) << name;
    } else {
      EXPECT_EQ(metric.amount, want.amount) << name;
    }
  }
}

/// Four sequences of 4, 3, 1 and 2 true tokens in packs of 4 rows each; of the first three rows are
/// valid, of the second one, of the third none can be, the fourth is masked as a whole.
PackedBatch padded_batch() {
  PackedBatch batch;
  batch.cu_seqlens = {0, 4, 7, 8, 10};
  batch.cu_seqlens_padded = {0, 4, 8, 12, 16};
  batch.input_ids.assign(10, 1);
  batch.token_mask = {0, 1, 1, 1, 1, 1, 0, 1, 1, 1};
  batch.sample_mask = {1, 1, 1, 0};
  batch.input_lengths = {4, 3, 1, 2};
  batch.denominators = {100, 20, 0};
  return batch;
}

/// Rows of the batch.
struct PaddedRows {
  std::vector<float> logprobs = of_valid(-1, -2, -3, -0.5f);
  std::vector<float> entropy = of_valid(0.25f, 0.5f, 1, 2);
  std::vector<float> vocab_min = of_valid(-4, -8, -2, -1);
  std::vector<float> vocab_max = of_valid(4, 1, 2, 16);

  static std::vector<float> of_valid(float row0, float row1, float row2, float row4) {
    std::vector<float> numbers(16, kPoison);
    numbers[0] = row0;
    numbers[1] = row1;
    numbers[2] = row2;
    numbers[4] = row4;
    return numbers;
  }
};

/// Metrics of the padded batch by the steps and by the truth.
std::pair<Metrics, Metrics> run_padded(const PackedBatch& batch, const PaddedRows& given = {}) {
  const auto objective = squares_with_statistics();
  const ObjectiveSizes sizes = objective->sizes();
  const ShiftedBatch rows = shift_targets(batch);
  ObjectiveTokens tokens;
  tokens.logprobs = given.logprobs;
  tokens.terms[RowTerm::entropy] = given.entropy;
  tokens.terms[RowTerm::vocab_min] = given.vocab_min;
  tokens.terms[RowTerm::vocab_max] = given.vocab_max;
  tokens.valid = rows.valid;
  tokens.real = rows.real;
  tokens.sequence = rows.sequence;
  std::vector<double> sum_numbers(4 * sizes.sequence_sums);
  std::vector<double> coefficient_numbers(4 * sizes.coefficients);
  const SequenceTable<double> sums{sum_numbers.data(), 4, sizes.sequence_sums, sizes.sequence_sums};
  const SequenceTable<double> coefficients{coefficient_numbers.data(), 4, sizes.coefficients,
                                           sizes.coefficients};
  std::vector<double> total_sums(sizes.sums);
  std::vector<double> maxima(sizes.maxima, -std::numeric_limits<double>::infinity());
  std::vector<float> gradient(16, 0.0f);
  objective->sequence_sums(tokens, batch, sums);
  objective->coefficients(batch, sums, coefficients);
  objective->token_terms(tokens, batch, coefficients, {total_sums, maxima}, {gradient});
  const ObjectiveResult result = objective->finish(batch, sums, coefficients, {total_sums, maxima});

  std::vector<TokenTruth> known;
  for (std::size_t row = 0; row < 16; ++row) {
    known.push_back({given.logprobs[row]});
    known.back().terms[RowTerm::entropy] = given.entropy[row];
    known.back().terms[RowTerm::vocab_min] = given.vocab_min[row];
    known.back().terms[RowTerm::vocab_max] = given.vocab_max[row];
  }
  Metrics truth;
  for (const auto& [name, metric] : objective->truth(batch, known).metrics) {
    truth[name] = {metric.reduction, metric.amount.value, metric.count};
  }
  return {result.metrics, truth};
}

TEST(StepStatistics, MatchABatchWorkedOutByHand) {
  const Metrics expected = {{"highest", {Reduction::max, 6, 1}},
                            {"n_seqs", {Reduction::count, 2, 1}},
                            {"n_tokens", {Reduction::count, 10, 1}},
                            {"n_valid_tokens", {Reduction::count, 4, 1}},
                            {"prompt_tokens", {Reduction::count, 6, 1}},
                            {"loss_avg", {Reduction::mean, 6.5, 4}},
                            {"loss_min", {Reduction::min, 0.5, 4}},
                            {"loss_max", {Reduction::max, 3, 4}},
                            {"ppl_avg", {Reduction::mean, std::exp(2.0) + std::exp(0.5), 2}},
                            {"ppl_min", {Reduction::min, std::exp(0.5), 2}},
                            {"ppl_max", {Reduction::max, std::exp(2.0), 2}},
                            {"entropy_avg", {Reduction::mean, 3.75, 4}},
                            {"entropy_min", {Reduction::min, 0.25, 4}},
                            {"entropy_max", {Reduction::max, 2, 4}},
                            {"vocab_min_logits_avg", {Reduction::mean, -15, 4}},
                            {"vocab_min_logits_min", {Reduction::min, -8, 4}},
                            {"vocab_min_logits_max", {Reduction::max, -1, 4}},
                            {"vocab_max_logits_avg", {Reduction::mean, 23, 4}},
                            {"vocab_max_logits_min", {Reduction::min, 1, 4}},
                            {"vocab_max_logits_max", {Reduction::max, 16, 4}},
                            {"global_valid_toks", {Reduction::global, 100, 1}},
                            {"global_valid_seqs", {Reduction::global, 20, 1}}};
  const auto [got, truth] = run_padded(padded_batch());
  expect_same(got, expected);
  expect_same(truth, expected);
}

TEST(StepStatistics, CountTokensAndHaveNoAveragesWithoutValidSequences) {
  PackedBatch batch = padded_batch();
  batch.sample_mask = {0, 0, 0, 0};
  const auto [got, truth] = run_padded(batch);
  for (const Metrics& metrics : {got, truth}) {
    EXPECT_EQ(metrics.at("n_seqs").value(), 0);
    EXPECT_EQ(metrics.at("n_valid_tokens").value(), 0);
    EXPECT_EQ(metrics.at("n_tokens").value(), 10);
    EXPECT_EQ(metrics.at("prompt_tokens").value(), 10);
    EXPECT_EQ(metrics.at("global_valid_toks").value(), 100);
    int without_value = 0;
    for (const auto& [name, metric] : metrics) {
      without_value += !metric.value().has_value();
      EXPECT_TRUE(name == "highest" || std::isfinite(metric.amount)) << name;
    }
    EXPECT_EQ(without_value, 15);
  }
}

TEST(StepStatistics, CountNothingForADummy) {
  PackedBatch batch = padded_batch();
  batch.sample_mask = {0, 0, 0, 0};
  batch.microbatch.dummy = true;
  const auto [got, truth] = run_padded(batch);
  EXPECT_EQ(got.at("n_tokens").value(), 0);
  EXPECT_EQ(got.at("prompt_tokens").value(), 0);
  EXPECT_EQ(truth.at("n_tokens").value(), 0);
  EXPECT_EQ(truth.at("prompt_tokens").value(), 0);
}

TEST(StepStatistics, StepsMatchTheTruth) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    expect_steps_match_truth(*squares_with_statistics(), make_objective_batch(random_shape(seed)));
  }
}

TEST(StepStatistics, LeaveTheObjectiveAsItIs) {
  const ObjectiveBatch data = make_objective_batch(random_shape(3));
  const auto both = squares_with_statistics();
  const ObjectiveRun with = run_objective(*both, data);
  const ObjectiveRun without = run_objective(Squares(), data);
  EXPECT_EQ(with.loss, without.loss);
  EXPECT_EQ(with.gradient, without.gradient);
  EXPECT_EQ(with.metrics.at("highest"), without.metrics.at("highest"));

  EXPECT_EQ(both->kind(), "squares");
  EXPECT_TRUE(both->needs().rewards);
  EXPECT_TRUE(both->needs().row_statistics);
  EXPECT_EQ(both->needs().sequences_per_unit, 2);
  EXPECT_EQ(both->input_draw()->reward({}, 0), 7);
  EXPECT_EQ(objective_truth(*both, data).branches,
            (std::map<std::string, std::int64_t>{{"squares", 3}}));
  EXPECT_THROW(both->require(data.batch), Error);
}

TEST(StepStatistics, NoSplitOverRanksChangesThem) {
  const ObjectiveBatch data = make_objective_batch(random_shape(5));
  const auto objective = squares_with_statistics();
  const Metrics whole_pack = run_objective(*objective, data).metrics;
  for (const int ranks : {2, 3, 8}) {
    expect_same(run_objective(*objective, data, dealt(data, ranks, 7)).metrics, whole_pack);
  }
}

TEST(StepStatistics, PacksJoinToTheWhole) {
  const ObjectiveBatch data = make_objective_batch(random_shape(6));
  const auto objective = squares_with_statistics();
  const Metrics all = run_objective(*objective, data).metrics;
  // The second pack has nothing valid, the third no sequence.
  Metrics joined_packs = run_objective(*objective, take(data, {0, 4})).metrics;
  for (const std::vector<std::int64_t>& sequences :
       {std::vector<std::int64_t>{2, 1}, std::vector<std::int64_t>{},
        std::vector<std::int64_t>{3, 5}}) {
    join_metrics(joined_packs, run_objective(*objective, take(data, sequences)).metrics);
  }
  joined_packs["highest"] = all.at("highest");
  for (auto& [name, metric] : joined_packs) {
    if (metric.reduction == Reduction::count) metric.count = 1;
  }
  expect_same(joined_packs, all);
}

TEST(StepStatistics, DifferBetweenSlicesAndWholeSequences) {
  // Each rank finishes with the sums of its own rows: perplexities of slices, sequences counted
  // once for every rank.
  const ObjectiveBatch data = make_objective_batch(random_shape(5));
  const auto objective = squares_with_statistics();
  const ObjectiveTruth truth = objective_truth(*objective, data);
  Metrics wrong;
  for (const auto& rows : dealt(data, 2, 7)) {
    join_metrics(wrong, run_objective(*objective, data, {rows}).metrics);
  }
  for (const std::string name : {"n_seqs", "ppl_avg", "ppl_max"}) {
    EXPECT_FALSE(truth.metrics.at(name).value()->contains(*wrong.at(name).value())) << name;
  }
  for (const std::string name : {"n_tokens", "n_valid_tokens", "loss_avg", "loss_max"}) {
    EXPECT_TRUE(truth.metrics.at(name).value()->contains(*wrong.at(name).value())) << name;
  }
}

TEST(StepStatistics, ANaNOfAValidTokenShows) {
  for (const std::size_t at : {0, 1, 4}) {  // before, between and behind other valid tokens
    PaddedRows rows;
    rows.logprobs[at] = kPoison;
    rows.entropy[at] = kPoison;
    const Metrics metrics = run_padded(padded_batch(), rows).first;
    for (const std::string name : {"loss_avg", "loss_min", "loss_max", "entropy_avg", "entropy_min",
                                   "entropy_max", "ppl_avg", "ppl_min", "ppl_max"}) {
      EXPECT_TRUE(std::isnan(metrics.at(name).amount)) << name << " " << at;
    }
    EXPECT_EQ(metrics.at("vocab_min_logits_min").value(), -8);
  }
}

}  // namespace
}  // namespace lossgrid
