// SPDX-License-Identifier: Apache-2.0
// Mutants of the numbers about predictions: squares or a largest logit of one vocab shard, ties
// that go to the wrong id, means over the wrong number of elements.
#include <algorithm>
#include <vector>

#include "impls/mutants/host_step.h"
#include "impls/mutants/mutant.h"
#include "impls/mutants/row_formulas.h"

namespace lossgrid {
namespace {

bool is_about_predictions(const LossProblem& problem) {
  return problem.predictions();
}

/// True where sums of rows over TP have six columns, the last ones squares and `beaten`.
bool has_six_sums(const LossProblem& problem) {
  return problem.predictions() && problem.row_statistics() && problem.grid.tp > 1;
}

/// Returns the last but `after` of six columns.
std::span<float> column_of_six(std::span<float> sums, std::size_t after) {
  const std::size_t rows = sums.size() / 6;
  return sums.subspan((5 - after) * rows, rows);
}

void reduce_all_but_squares(Communicator& tp, std::span<float> sums) {
  const std::span<float> squares = column_of_six(sums, 1);
  const std::vector<float> own(squares.begin(), squares.end());
  tp.all_reduce(sums, ReduceOp::sum);
  std::copy(own.begin(), own.end(), squares.begin());
}

/// By row, of the last statistics that the rank, a thread, has made: whether the own shard has a
/// more probable id than the label.
thread_local std::vector<float> kept_beaten;

std::int64_t keep_beaten(const LogitsRows& rows, const RowStatistics& out) {
  const std::int64_t owned = rows_statistics(rows, out);
  if (out.beaten != nullptr) kept_beaten.assign(out.beaten, out.beaten + rows.rows);
  return owned;
}

/// The largest logit of the shard that owns the label counts as that of the vocabulary.
void reduce_kept_beaten(Communicator& tp, std::span<float> sums) {
  const std::span<float> beaten = column_of_six(sums, 0);
  std::copy_n(kept_beaten.begin(), beaten.size(), beaten.begin());
  tp.all_reduce(sums, ReduceOp::sum);
}

std::int64_t ties_go_to_highest(const LogitsRows& rows, const RowStatistics& out) {
  const std::int64_t owned = rows_statistics(rows, out);
  if (out.beaten == nullptr) return owned;
  const MappedRows z = transformed_rows(rows);
  for (std::int64_t r = 0; r < rows.rows; ++r) {
    if (!rows.shard.owns(rows.targets[r])) continue;
    const std::int64_t y = rows.targets[r] - rows.shard.begin;
    out.beaten[r] = 0;
    for (std::int64_t v = 0; v < rows.shard.valid(); ++v) {
      const bool is_more = z.at(r, v) > z.at(r, y) || (z.at(r, v) == z.at(r, y) && v > y);
      if (is_more) out.beaten[r] = 1;
    }
  }
  return owned;
}

/// Writes the right outputs, then number(r) in a column where rows predict.
template <RowTerm term, typename Number>
void write_other(Device& device, std::int64_t rows, const WriteRow& write, Number&& number) {
  write_and_change(device, rows, write, [&](std::int64_t r) {
    if (write.out.terms[term] != nullptr) write.out.terms[term][r] = number(r);
  });
}

void every_largest_is_top(Device& device, std::int64_t rows, const WriteRow& write) {
  write_other<RowTerm::top1>(device, rows, write, [&](std::int64_t r) {
    return write.columns.at(StatisticsColumns::kTarget, r) < 0 ? 0.0f : 1.0f;
  });
}

void squares_over_sum(Device& device, std::int64_t rows, const WriteRow& write) {
  write_other<RowTerm::sum_p2>(device, rows, write, [&](std::int64_t r) {
    return write.columns.at(StatisticsColumns::kSquares, r) /
           write.columns.at(StatisticsColumns::kSum, r);
  });
}

void mean_over_vocabulary(Device& device, std::int64_t rows, const WriteRow& write) {
  write_other<RowTerm::mean_logit>(device, rows, write, [&](std::int64_t r) {
    return write.columns.at(StatisticsColumns::kShift, r) +
           write.columns.at(StatisticsColumns::kTotal, r) / write.vocab;
  });
}

/// Masked tokens count as wrong predictions.
ObjectiveResult accuracy_over_all_tokens(const Objective& objective, const PackedBatch& batch, int,
                                         SequenceTable<const double> sums,
                                         SequenceTable<const double> coefficients,
                                         ObjectiveTotals<const double> totals) {
  ObjectiveResult result = objective.finish(batch, sums, coefficients, totals);
  const auto accuracy = result.metrics.find("mean_token_accuracy");
  if (accuracy == result.metrics.end()) return result;
  double tokens = 0;
  for (const std::int64_t length : batch.input_lengths) tokens += static_cast<double>(length);
  accuracy->second.count = tokens;
  return result;
}

const RegisteredMutant prediction_mutants[] = {
    RegisteredMutant({
        .catalogue_id = "M139",
        .name = "sum_p2_over_sum",
        .what = "the sum of squared exponentials is divided by the sum of exponentials once",
        .strategy = "fused",
        .change = [](Steps& s) { s.write_outputs = squares_over_sum; },
        .runs_on = is_about_predictions,
        .rejected_by = "sum_p2",
    }),
    RegisteredMutant({
        .catalogue_id = "M140",
        .name = "sum_p2_of_shard",
        .what = "the sum of squared exponentials stays local to a TP rank",
        .strategy = "per_sequence",
        .change = [](Steps& s) { s.reduce_sum = reduce_all_but_squares; },
        .runs_on = has_six_sums,
        .rejected_by = "sum_p2",
    }),
    RegisteredMutant({
        .catalogue_id = "M141",
        .name = "top1_of_shard",
        .what = "the most probable id is that of the vocab shard of the label",
        .strategy = "per_sequence",
        .change =
            [](Steps& s) {
              s.statistics = statistics_on_host<keep_beaten>;
              s.reduce_sum = reduce_kept_beaten;
            },
        .runs_on = has_six_sums,
        .rejected_by = "top1",
    }),
    RegisteredMutant({
        .catalogue_id = "M142",
        .name = "top1_highest_of_ties",
        .what = "of ids of a vocab shard with the same logit the highest one is the most probable",
        .strategy = "fused",
        .change = [](Steps& s) { s.statistics = statistics_on_host<ties_go_to_highest>; },
        .runs_on = is_about_predictions,
        .rejected_by = "top1",
    }),
    RegisteredMutant({
        .catalogue_id = "M142",
        .name = "top1_all_of_ties",
        .what = "every id with the largest logit is the most probable one",
        .strategy = "cp_local",
        .change = [](Steps& s) { s.write_outputs = every_largest_is_top; },
        .runs_on = is_about_predictions,
        .rejected_by = "top1",
    }),
    RegisteredMutant({
        .catalogue_id = "M143",
        .name = "mean_logit_over_vocabulary",
        .what = "the mean of the logits that are not -inf divides by the size of the vocabulary",
        .strategy = "fused",
        .change = [](Steps& s) { s.write_outputs = mean_over_vocabulary; },
        .runs_on = is_about_predictions,
        .rejected_by = "mean_logit",
    }),
    RegisteredMutant({
        .catalogue_id = "M144",
        .name = "accuracy_over_all_tokens",
        .what = "masked tokens count in the denominator of the token accuracy",
        .strategy = "cp_local",
        .change = [](Steps& s) { s.finish = accuracy_over_all_tokens; },
        .runs_on = is_about_predictions,
        .rejected_by = "metric.mean_token_accuracy",
    }),
};

}  // namespace
}  // namespace lossgrid
