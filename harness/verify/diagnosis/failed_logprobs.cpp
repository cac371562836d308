// SPDX-License-Identifier: Apache-2.0
#include "harness/verify/diagnosis/failed_logprobs.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>

#include "harness/problem/batch/sharding.h"
#include "harness/verify/checks/output_checks.h"
#include "harness/verify/checks/shard_checks.h"
#include "harness/verify/checks/unwritten.h"
#include "harness/verify/truth/bounds.h"

namespace lossgrid {
namespace {

constexpr std::int64_t kMostRows = 64;  // a mistake is made on all rows alike

using Values = std::vector<double>;  // log-probabilities of a row under one mistake

/// Maximum of a shard's logits, and sum of exp(logit - maximum).
struct ShardSums {
  double max = -std::numeric_limits<double>::infinity();
  double sum = 0;
};

ShardSums shard_softmax_sums(std::span<const double> logits) {
  ShardSums sums;
  for (const double x : logits) sums.max = std::max(sums.max, x);
  if (!std::isfinite(sums.max)) return sums;
  for (const double x : logits) sums.sum += std::exp(x - sums.max);
  return sums;
}

/// Values of one row under each of kLogprobMistakes.
class Mistakes {
 public:
  Mistakes(const Problem& problem, const Truth& truth, const LogprobRows& rows)
      : problem_(problem),
        truth_(truth),
        places_(rows.places),
        targets_(problem.row_targets()),
        next_(rows.places.size()),
        previous_(rows.places.size()),
        tp_(rows.tp),
        tp_rank_(rows.tp_rank),
        logits_(static_cast<std::size_t>(problem.spec.vocab)) {
    for (const std::vector<std::int64_t>& order : rows.by_cp_rank) {
      for (std::size_t k = 0; k < order.size(); ++k) {
        const auto here = static_cast<std::size_t>(order[k]);
        const auto next = static_cast<std::size_t>(order[(k + 1) % order.size()]);
        next_[here] = next;
        previous_[next] = here;
      }
    }
  }

  std::array<Values, kLogprobMistakes.size()> of(std::size_t k) {
    const RowPlace& place = places_[k];
    const RowTruth& row = truth_.rows[place.row];
    problem_.logits->read(place.row, 0, std::span<double>(logits_));
    const RowPlace& next = places_[next_[k]];
    const RowPlace& previous = places_[previous_[k]];
    return {max_not_reduced(row),
            sum_not_reduced(row),
            target_not_reduced(row),
            of_label(row, token_at(place)),
            of_label(row, token_at(next)),
            of_label(row, target_at(next)),
            of_label(row, target_at(previous)),
            of_other_rows(row),
            {0.0},
            {-row.logprob},
            without_temperature(row)};
  }

 private:
  VocabShard shard(int tp_rank) const { return vocab_shard(problem_.spec.vocab, tp_, tp_rank); }

  ShardSums shard_sums(int tp_rank) const {
    const VocabShard own = shard(tp_rank);
    return shard_softmax_sums(std::span<const double>(logits_).subspan(
        static_cast<std::size_t>(own.begin), static_cast<std::size_t>(own.valid())));
  }

  double lse(const RowTruth& row) const { return row.max + std::log(row.sum); }

  Values max_not_reduced(const RowTruth& row) const {
    if (tp_ == 1) return {};
    double sum = 0;
    double max_of_owner = 0;
    for (int r = 0; r < tp_; ++r) {
      const ShardSums part = shard_sums(r);
      sum += part.sum;
      if (shard(r).owns(row.target)) max_of_owner = part.max;
    }
    return {row.target_logit - max_of_owner - std::log(sum),
            row.target_logit - shard_sums(tp_rank_).max - std::log(sum)};
  }

  Values sum_not_reduced(const RowTruth& row) const {
    if (tp_ == 1) return {};
    const ShardSums own = shard_sums(tp_rank_);
    return {row.target_logit - own.max - std::log(own.sum)};
  }

  /// A zero logit, before or after the maximum is subtracted.
  Values target_not_reduced(const RowTruth& row) const {
    if (tp_ == 1 || shard(tp_rank_).owns(row.target)) return {};
    return {-lse(row), -std::log(row.sum)};
  }

  /// Returns the token at a place; -1 in padding.
  std::int32_t token_at(const RowPlace& place) const {
    return place.row < 0 ? -1 : problem_.input_ids[static_cast<std::size_t>(place.row)];
  }
  std::int32_t target_at(const RowPlace& place) const {
    return place.row < 0 ? -1 : targets_[static_cast<std::size_t>(place.row)];
  }

  Values of_label(const RowTruth& row, std::int32_t label) const {
    if (label < 0 || label == row.target) return {};
    return {logits_[static_cast<std::size_t>(label)] - lse(row)};
  }

  Values of_other_rows(const RowTruth& row) const {
    Values values;
    for (const RowTruth& other : truth_.rows) {
      if (other.target >= 0 && &other != &row) values.push_back(other.logprob);
    }
    return values;
  }

  Values without_temperature(const RowTruth& row) const {
    const double temperature = problem_.spec.temperature;
    if (temperature == 1) return {};
    Values scaled = logits_;
    for (double& x : scaled) x *= temperature;
    const ShardSums sums = shard_softmax_sums(scaled);
    return {temperature * row.target_logit - sums.max - std::log(sums.sum)};
  }

  const Problem& problem_;
  const Truth& truth_;
  std::span<const RowPlace> places_;
  std::vector<std::int32_t> targets_;
  std::vector<std::size_t> next_;  // next place on the same CP rank, by place
  std::vector<std::size_t> previous_;
  int tp_;
  int tp_rank_;
  std::vector<double> logits_;
};

void add_difference(double difference, FailedLogprobs& failed) {
  const bool first = failed.differences++ == 0;
  failed.smallest_difference =
      first ? difference : std::min(failed.smallest_difference, difference);
  failed.largest_difference = first ? difference : std::max(failed.largest_difference, difference);
}

}  // namespace

void FailedLogprobs::add(const FailedLogprobs& other) {
  count += other.count;
  not_written += other.not_written;
  positive += other.positive;
  std::vector<std::int64_t> rows;
  std::set_union(nan_rows.begin(), nan_rows.end(), other.nan_rows.begin(), other.nan_rows.end(),
                 std::back_inserter(rows));
  nan_rows = std::move(rows);
  if (other.differences > 0) {
    const bool first = differences == 0;
    smallest_difference = first ? other.smallest_difference
                                : std::min(smallest_difference, other.smallest_difference);
    largest_difference =
        first ? other.largest_difference : std::max(largest_difference, other.largest_difference);
    differences += other.differences;
  }
  for (std::size_t k = 0; k < mistakes.size(); ++k) {
    mistakes[k].add(other.mistakes[k]);
  }
}

FailedLogprobs look_at_logprobs(const Problem& problem, const Truth& truth, const LogprobRows& rows,
                                std::span<const float> got, int serial_adds) {
  FailedLogprobs failed;
  Mistakes mistakes(problem, truth, rows);
  for (std::size_t k = 0; k < rows.places.size(); ++k) {
    const std::int64_t token = rows.places[k].row;
    if (token < 0) continue;
    const RowTruth& row = truth.rows[token];
    if (!has_logprob(problem, row)) continue;
    const double bound = logprob_bound(row, serial_adds);
    const double value = got[k];
    Check one;
    one.add_float32(value, row.logprob, bound, {});
    if (one.passed()) continue;
    ++failed.count;
    if (is_unwritten(got[k])) {
      ++failed.not_written;
      continue;
    }
    if (std::isnan(value)) failed.nan_rows.push_back(problem.whole_row(token));
    failed.positive += value > positive_logprob_bound(row, serial_adds) ? 1 : 0;
    if (!std::isfinite(value) || !std::isfinite(row.logprob)) continue;
    add_difference(value - row.logprob, failed);
    if (failed.differences > kMostRows) continue;
    const auto made = mistakes.of(k);
    for (std::size_t m = 0; m < made.size(); ++m) {
      failed.mistakes[m].add(made[m], value, row.logprob, 2 * bound);
    }
  }
  std::sort(failed.nan_rows.begin(), failed.nan_rows.end());
  return failed;
}

}  // namespace lossgrid
