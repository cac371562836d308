// SPDX-License-Identifier: Apache-2.0
#include "harness/verify/diagnosis/sequence_parts.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include <fmt/format.h>

#include "harness/core/text.h"
#include "harness/verify/diagnosis/part_places.h"
#include "harness/verify/diagnosis/weight_parts.h"

namespace lossgrid {
namespace {

double dot_product(std::span<const double> a, std::span<const double> b) {
  double sum = 0;
  for (std::size_t k = 0; k < a.size(); ++k) sum += a[k] * b[k];
  return sum;
}

/// Solves matrix x = right by Gaussian elimination with pivots; nullopt if a pivot is nearly 0.
std::optional<std::vector<double>> solve(std::vector<std::vector<double>> matrix,
                                         std::vector<double> right) {
  const std::size_t n = right.size();
  double largest = 0;
  for (const auto& row : matrix) {
    for (const double x : row) largest = std::max(largest, std::abs(x));
  }
  for (std::size_t k = 0; k < n; ++k) {
    std::size_t pivot = k;
    for (std::size_t i = k + 1; i < n; ++i) {
      if (std::abs(matrix[i][k]) > std::abs(matrix[pivot][k])) pivot = i;
    }
    if (!(std::abs(matrix[pivot][k]) > 1e-9 * largest)) return std::nullopt;
    std::swap(matrix[k], matrix[pivot]);
    std::swap(right[k], right[pivot]);
    for (std::size_t i = k + 1; i < n; ++i) {
      const double factor = matrix[i][k] / matrix[k][k];
      for (std::size_t j = k; j < n; ++j) matrix[i][j] -= factor * matrix[k][j];
      right[i] -= factor * right[k];
    }
  }
  for (std::size_t k = n; k-- > 0;) {
    for (std::size_t j = k + 1; j < n; ++j) right[k] -= matrix[k][j] * right[j];
    right[k] /= matrix[k][k];
  }
  return right;
}

/// Sequences with the same weight.
struct WeightGroup {
  double weight = 0;
  std::vector<int> sequences;
  double valid_tokens = 0;
};

std::vector<WeightGroup> group_weights(const SequenceParts& parts,
                                       const std::vector<double>& weights) {
  std::vector<WeightGroup> groups;
  for (std::size_t s = 0; s < weights.size(); ++s) {
    if (std::isnan(weights[s])) continue;
    auto same = std::find_if(groups.begin(), groups.end(), [&](const WeightGroup& group) {
      return std::abs(group.weight - weights[s]) <= kSameWeightFactor * std::max(1.0, group.weight);
    });
    if (same == groups.end()) same = groups.insert(groups.end(), WeightGroup{weights[s], {}});
    same->sequences.push_back(static_cast<int>(s));
    same->valid_tokens += static_cast<double>(parts.valid_tokens[s]);
  }
  return groups;
}

/// True if the weights are those of a mean over the tokens of each group.
bool are_own_means(const std::vector<WeightGroup>& groups) {
  return std::all_of(groups.begin(), groups.end(), [&](const WeightGroup& group) {
    const double product = group.weight * group.valid_tokens;
    const double first = groups.front().weight * groups.front().valid_tokens;
    return first > 0 && std::abs(product - first) <= 2 * kSameWeightFactor * first;
  });
}

std::string times_text(double weight) {
  if (std::abs(weight) <= kSameWeightFactor) return "not at all";
  if (std::abs(weight - 1) <= kSameWeightFactor) return "once";
  return fmt::format("{:.3f} times", weight);
}

}  // namespace

void SequenceParts::add(const SequenceParts& other) {
  for (std::size_t k = 0; k < products.size(); ++k) products[k] += other.products[k];
  for (std::size_t k = 0; k < got.size(); ++k) got[k] += other.got[k];
  got_squared += other.got_squared;
}

std::optional<std::vector<double>> SequenceParts::weights() const {
  const std::size_t all = got.size();
  std::vector<std::size_t> there;
  for (std::size_t s = 0; s < all; ++s) {
    if (products[s * all + s] > 0) there.push_back(s);
  }
  std::vector<std::vector<double>> matrix;
  std::vector<double> right;
  for (const std::size_t a : there) {
    std::vector<double>& row = matrix.emplace_back();
    for (const std::size_t b : there) row.push_back(products[a * all + b]);
    right.push_back(got[a]);
  }
  const auto solved = solve(std::move(matrix), right);
  if (!solved || !(got_squared > 0)) return std::nullopt;
  if (!(got_squared - dot_product(*solved, right) <= kWeightRestSquared * got_squared)) {
    return std::nullopt;
  }
  std::vector<double> weights(all, std::numeric_limits<double>::quiet_NaN());
  for (std::size_t k = 0; k < there.size(); ++k) weights[there[k]] = (*solved)[k];
  return weights;
}

std::optional<SequenceParts> sequence_parts(const Problem& problem, const Truth& truth,
                                            const VocabShard& shard, std::span<const double> got) {
  if (!has_weight_parts(problem, shard, got.size(), problem.sequences())) return std::nullopt;
  std::vector<int> sequence_of(static_cast<std::size_t>(problem.tokens()));
  for (std::size_t t = 0; t < sequence_of.size(); ++t) {
    sequence_of[t] = static_cast<int>(problem.sequence_of(static_cast<std::int64_t>(t)));
  }
  const std::vector<std::vector<double>> parts =
      true_weight_parts(problem, truth, shard, sequence_of, static_cast<int>(problem.sequences()));
  SequenceParts out;
  out.got_squared = dot_product(got, got);
  for (std::size_t s = 0; s < parts.size(); ++s) {
    for (const std::vector<double>& other : parts) {
      out.products.push_back(dot_product(parts[s], other));
    }
    out.got.push_back(dot_product(parts[s], got));
    std::int64_t valid = 0;
    for (std::int64_t t = problem.cu_seqlens[s]; t < problem.cu_seqlens[s + 1]; ++t) {
      valid += truth.rows[t].valid ? 1 : 0;
    }
    out.valid_tokens.push_back(valid);
  }
  return out;
}

std::optional<std::string> sequence_sentence(const SequenceParts& parts) {
  const auto weights = parts.weights();
  if (!weights) return std::nullopt;
  const std::vector<WeightGroup> groups = group_weights(parts, *weights);
  if (groups.size() < 2) return std::nullopt;
  std::vector<std::string> texts;
  for (const WeightGroup& group : groups) {
    texts.push_back(
        fmt::format("{} {}", numbered("sequence", group.sequences), times_text(group.weight)));
  }
  const bool loses = groups.size() == 2 && (std::abs(groups[0].weight) <= kSameWeightFactor ||
                                            std::abs(groups[1].weight) <= kSameWeightFactor);
  const char* cause = loses ? "a microbatch that is left out?"
                      : are_own_means(groups)
                          ? "means over the tokens of each microbatch, not of the batch?"
                          : "microbatches that count more than once, or with other weights?";
  return fmt::format("grad_weight counts {}: {}", join(texts, ", "), cause);
}

std::vector<double> sequence_losses(const Problem& problem, const Truth& truth) {
  std::vector<double> losses;
  double all = 0;
  for (std::int64_t s = 0; s < problem.sequences(); ++s) {
    double loss = 0;
    for (std::int64_t t = problem.cu_seqlens[s]; t < problem.cu_seqlens[s + 1]; ++t) {
      if (!truth.rows[t].valid) continue;
      loss += truth.objective.grad_logprob[t].value * truth.rows[t].logprob;
    }
    losses.push_back(loss);
    all += loss;
  }
  const double want = truth.objective.loss.value;
  return std::abs(all - want) <= 1e-9 * std::abs(want) ? losses : std::vector<double>();
}

std::optional<std::string> microbatch_sentence(const std::vector<SequenceLoss>& sequences,
                                               double loss) {
  constexpr double kSameLoss = 1e-5;
  int most = 1;
  for (const SequenceLoss& one : sequences) most = std::max(most, one.part_size);
  for (int count = 2; count <= most; ++count) {
    for (int number = 0; number < count; ++number) {
      for (const bool in_turn : {true, false}) {
        double sum = 0;
        std::vector<int> taken;
        for (const SequenceLoss& one : sequences) {
          const int size = (one.part_size + count - 1) / count;
          if ((in_turn ? one.index % count : one.index / size) != number) continue;
          sum += one.loss;
          taken.push_back(one.sequence);
        }
        if (sum == 0 || std::abs(sum - loss) > kSameLoss * std::abs(sum)) continue;
        std::sort(taken.begin(), taken.end());
        return fmt::format("loss is that of {} alone: of one of {} microbatches?",
                           numbered("sequence", taken), count);
      }
    }
  }
  return std::nullopt;
}

}  // namespace lossgrid
