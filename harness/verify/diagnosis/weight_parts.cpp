// SPDX-License-Identifier: Apache-2.0
#include "harness/verify/diagnosis/weight_parts.h"

#include "harness/verify/truth/linear_truth.h"
#include "harness/verify/truth/logit_gradient.h"

namespace lossgrid {

bool has_weight_parts(const Problem& problem, const VocabShard& shard, std::size_t elements,
                      std::int64_t parts) {
  const std::int64_t all = shard.valid() * problem.projection->size;
  return parts <= kMostWeightParts && all <= kMostWeightElements &&
         static_cast<std::int64_t>(elements) == all && !problem.projection->has_bias;
}

std::vector<std::vector<double>> true_weight_parts(const Problem& problem, const Truth& truth,
                                                   const VocabShard& shard,
                                                   std::span<const int> part_of_row, int parts) {
  const std::int64_t ids = shard.valid();
  const std::int64_t size = problem.projection->size;
  std::vector<std::vector<double>> out(
      static_cast<std::size_t>(parts),
      std::vector<double>(static_cast<std::size_t>(ids * size), 0.0));
  std::vector<double> z(static_cast<std::size_t>(ids));
  std::vector<double> p(z.size());
  std::vector<double> dz(z.size());
  for (std::int64_t t = 0; t < problem.tokens(); ++t) {
    const RowTruth& row = truth.rows[t];
    const int number = part_of_row[static_cast<std::size_t>(t)];
    if (!row.valid || number < 0) continue;
    std::vector<double>& part = out[static_cast<std::size_t>(number)];
    problem.logits->read(t, shard.begin, z);
    truth_probabilities(row, z, p);
    LogitGradient(row, truth.objective.gradient(t)).write(z, p, shard.begin, dz);
    const float* hidden = problem.projection->hidden_row(t);
    for (std::int64_t v = 0; v < ids; ++v) {
      const double slope = problem.transform_of_row(t).slope(z[v]);
      const double factor = dz[v] * slope / problem.projection->temperature;
      for (std::int64_t h = 0; h < size; ++h) part[v * size + h] += factor * hidden[h];
    }
  }
  return out;
}

}  // namespace lossgrid
