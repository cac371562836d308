// SPDX-License-Identifier: Apache-2.0
#include "harness/verify/diagnosis/failed_entropies.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <vector>

#include "harness/problem/batch/sharding.h"
#include "harness/verify/checks/output_checks.h"
#include "harness/verify/truth/bounds.h"

namespace lossgrid {
namespace {

constexpr std::int64_t kMostEntropies = 64;  // a mistake is made on all rows alike

using Entropies = std::vector<double>;  // entropies of a row under one mistake

/// Returns - sum p ln p of the logits for p = exp(x - max) / sum.
double entropy_sum(std::span<const double> logits, double max, double sum) {
  double out = 0;
  for (const double x : logits) {
    const double p = std::exp(x - max) / sum;
    if (p > 0) out -= p * (x - max - std::log(sum));
  }
  return out;
}

/// Returns the entropy of the softmax of the logits; NaN without logits.
double entropy_of_softmax(std::span<const double> logits) {
  double max = -std::numeric_limits<double>::infinity();
  double sum = 0;
  for (const double x : logits) max = std::max(max, x);
  for (const double x : logits) sum += std::exp(x - max);
  return entropy_sum(logits, max, sum);
}

class EntropyMistakes {
 public:
  EntropyMistakes(const Problem& problem, const Truth& truth, int tp, int tp_rank)
      : problem_(problem),
        truth_(truth),
        tp_(tp),
        shard_(vocab_shard(problem.spec.vocab, tp, tp_rank)),
        logits_(static_cast<std::size_t>(problem.spec.vocab)) {}

  /// Returns the values of a row under each of kEntropyMistakes.
  std::array<Entropies, kEntropyMistakes.size()> of(std::int64_t token) {
    const RowTruth& row = truth_.rows[token];
    problem_.logits->read(token, 0, std::span<double>(logits_));
    const auto own = std::span<const double>(logits_).subspan(
        static_cast<std::size_t>(shard_.begin), static_cast<std::size_t>(shard_.valid()));
    const double entropy = row.entropy();
    return {Entropies{0.0},
            tp_ == 1 ? Entropies{} : Entropies{entropy_sum(own, row.max, row.sum)},
            tp_ == 1 ? Entropies{} : Entropies{entropy_of_softmax(own)},
            Entropies{-entropy},
            of_other_rows(row),
            without_temperature(),
            Entropies{entropy / std::numbers::ln2}};
  }

 private:
  Entropies of_other_rows(const RowTruth& row) const {
    Entropies values;
    for (const RowTruth& other : truth_.rows) {
      if (other.target >= 0 && &other != &row) values.push_back(other.entropy());
    }
    return values;
  }

  Entropies without_temperature() const {
    const double temperature = problem_.spec.temperature;
    if (temperature == 1) return {};
    std::vector<double> scaled = logits_;
    for (double& x : scaled) x *= temperature;
    return {entropy_of_softmax(scaled)};
  }

  const Problem& problem_;
  const Truth& truth_;
  int tp_;
  VocabShard shard_;
  std::vector<double> logits_;
};

}  // namespace

void FailedEntropies::add(const FailedEntropies& other) {
  count += other.count;
  for (std::size_t k = 0; k < mistakes.size(); ++k) {
    mistakes[k].add(other.mistakes[k]);
  }
}

FailedEntropies look_at_entropies(const Problem& problem, const Truth& truth,
                                  std::span<const RowPlace> places, int tp, int tp_rank,
                                  std::span<const float> got, int serial_adds) {
  FailedEntropies failed;
  EntropyMistakes mistakes(problem, truth, tp, tp_rank);
  for (std::size_t k = 0; k < places.size(); ++k) {
    const std::int64_t token = places[k].row;
    if (token < 0 || !has_logprob(problem, truth.rows[token])) continue;
    const RowTruth& row = truth.rows[token];
    const double bound = entropy_bound(row, serial_adds);
    Check one;
    one.add_float32(got[k], row.entropy(), bound, {});
    if (one.passed()) continue;
    ++failed.count;
    if (failed.count > kMostEntropies || !std::isfinite(got[k])) continue;
    const auto made = mistakes.of(token);
    for (std::size_t m = 0; m < made.size(); ++m) {
      failed.mistakes[m].add(made[m], got[k], row.entropy(), 2 * bound);
    }
  }
  return failed;
}

}  // namespace lossgrid
