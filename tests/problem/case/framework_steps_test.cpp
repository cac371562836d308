// SPDX-License-Identifier: Apache-2.0
// The closed form of what a convention multiplies the terms of each rank and microbatch by, against
// training stacks played step by step: loss function, schedule, reduction of gradients.
#include <algorithm>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "harness/problem/case/framework.h"

namespace lossgrid {
namespace {

/// Valid tokens [dp][microbatch][cp rank].
using Counts = std::vector<std::vector<std::vector<std::int64_t>>>;

struct Batch {
  Counts counts;
  ScaleSizes sizes;

  std::int64_t of_pack(std::size_t d, std::size_t k) const {
    std::int64_t sum = 0;
    for (const std::int64_t n : counts[d][k]) sum += n;
    return sum;
  }
  std::int64_t global() const {
    std::int64_t sum = 0;
    for (std::size_t d = 0; d < counts.size(); ++d) {
      for (std::size_t k = 0; k < counts[d].size(); ++k) sum += of_pack(d, k);
    }
    return sum;
  }
};

Batch steps_batch(Counts counts) {
  const ScaleSizes sizes{static_cast<std::int64_t>(counts.size()),
                         static_cast<std::int64_t>(counts[0][0].size()),
                         static_cast<std::int64_t>(counts[0].size())};
  return {std::move(counts), sizes};
}

/// Unequal counts; a CP rank and a whole microbatch without a valid token; dp 2, K 3, cp 2.
const Batch kUnequal = steps_batch({{{3, 1}, {0, 5}, {0, 0}}, {{2, 2}, {7, 0}, {1, 4}}});
/// The same count everywhere.
const Batch kEqual = steps_batch({{{4, 4}, {4, 4}, {4, 4}}, {{4, 4}, {4, 4}, {4, 4}}});

/// Gradient of the sum of terms of one rank and microbatch in the gradient that the optimizer sees.
/// The stack is played for a loss that has these terms alone, each of value and gradient 1.
using Stack = std::function<double(const Batch&, std::size_t d, std::size_t k, std::size_t c)>;

/// Sums up over microbatches and CP ranks what a rank accumulates, then over DP x CP ranks; only
/// one of them has terms.
double reduced(double gradient, const Batch& batch, bool mean) {
  return mean ? gradient / static_cast<double>(batch.sizes.dp * batch.sizes.cp) : gradient;
}

double at_least_1(std::int64_t count) {
  return static_cast<double>(std::max<std::int64_t>(count, 1));
}

const std::map<std::string, Stack> kStacks{
    {"megatron_per_token",
     [](const Batch& b, std::size_t, std::size_t, std::size_t) {
       const double accumulated = reduced(1.0, b, false);
       return accumulated * (1.0 / static_cast<double>(b.global()));  // finalize_model_grads
     }},
    {"megatron_2_tuple",
     [](const Batch& b, std::size_t d, std::size_t k, std::size_t) {
       double loss = 1.0 / at_least_1(b.of_pack(d, k));
       loss *= static_cast<double>(b.sizes.cp);
       loss /= static_cast<double>(b.sizes.n_mb);
       return reduced(loss, b, true);
     }},
    {"megatron_3_tuple",
     [](const Batch& b, std::size_t d, std::size_t k, std::size_t c) {
       double loss = 1.0 / at_least_1(b.counts[d][k][c]);
       loss /= static_cast<double>(b.sizes.n_mb);
       return reduced(loss, b, true);
     }},
    {"trl_bnpo",
     [](const Batch& b, std::size_t d, std::size_t k, std::size_t c) {
       const double mean = 1.0 / at_least_1(b.counts[d][k][c]);
       return reduced(mean / static_cast<double>(b.sizes.n_mb), b, true);
     }},
    {"trl_dapo",
     [](const Batch& b, std::size_t, std::size_t, std::size_t) {
       const double processes = static_cast<double>(b.sizes.dp * b.sizes.cp);
       const double normalizer = static_cast<double>(b.global()) / processes;
       return reduced(1.0 / normalizer, b, true);
     }},
    {"torchtitan",
     [](const Batch& b, std::size_t, std::size_t, std::size_t) {
       return reduced(1.0 / static_cast<double>(b.global()), b, false);
     }},
    {"openrlhf",
     [](const Batch& b, std::size_t, std::size_t, std::size_t) {
       const double per_step =
           static_cast<double>(b.global()) / static_cast<double>(b.sizes.n_mb * b.sizes.dp);
       // All ranks of the ring have the loss, and the gather sums their gradients up.
       double gradient = static_cast<double>(b.sizes.cp) / per_step;
       gradient /= static_cast<double>(b.sizes.n_mb);  // the engine, by accumulation steps
       return reduced(gradient, b, true);
     }},
    {"verl_fsdp",
     [](const Batch& b, std::size_t, std::size_t, std::size_t) {
       double loss = 1.0 / static_cast<double>(b.global());
       loss *= static_cast<double>(b.sizes.dp);
       return reduced(loss * static_cast<double>(b.sizes.cp), b, true);
     }},
    {"verl_megatron",
     [](const Batch& b, std::size_t, std::size_t, std::size_t) {
       double loss = static_cast<double>(b.sizes.dp) / static_cast<double>(b.global());
       loss *= static_cast<double>(b.sizes.n_mb);
       loss *= static_cast<double>(b.sizes.cp);
       loss /= static_cast<double>(b.sizes.n_mb);
       return reduced(loss, b, true);
     }},
    {"areal",
     [](const Batch& b, std::size_t d, std::size_t k, std::size_t) {
       // The mean of the microbatch, its weight over that of all, which all CP ranks of all dp
       // ranks have added up, and a multiplier of the engine.
       const double n = at_least_1(b.of_pack(d, k));
       const auto cp = static_cast<double>(b.sizes.cp);
       const double total = static_cast<double>(b.global()) * cp;
       double loss = 1.0 / n * (n / total) * static_cast<double>(b.sizes.dp * b.sizes.n_mb);
       loss *= cp / static_cast<double>(b.sizes.n_mb);
       return reduced(loss * cp, b, true);  // the gather sums over CP ranks
     }},
    {"skyrl",
     [](const Batch& b, std::size_t, std::size_t, std::size_t) {
       double loss = 1.0 / static_cast<double>(b.global());  // in the advantages
       loss *= static_cast<double>(b.sizes.n_mb * b.sizes.dp);
       loss *= static_cast<double>(b.sizes.cp) / static_cast<double>(b.sizes.n_mb);
       return reduced(loss, b, true);
     }},
};

Framework preset(const std::string& name) {
  return stated_framework(parse_case("framework=" + name).framework).value();
}

/// Calls f(d, k, c, tokens) for every rank and microbatch.
void for_each_part(
    const Batch& batch,
    const std::function<void(std::size_t, std::size_t, std::size_t, const TokenCounts&)>& f) {
  for (std::size_t d = 0; d < batch.counts.size(); ++d) {
    for (std::size_t k = 0; k < batch.counts[d].size(); ++k) {
      for (std::size_t c = 0; c < batch.counts[d][k].size(); ++c) {
        f(d, k, c, {batch.counts[d][k][c], batch.of_pack(d, k), batch.global()});
      }
    }
  }
}

TEST(FrameworkSteps, GiveTheWeightOfTheClosedForm) {
  for (const auto& [name, stack] : kStacks) {
    const Framework framework = preset(name);
    for (const Batch* batch : {&kUnequal, &kEqual}) {
      for_each_part(*batch, [&, &stack = stack, &name = name](std::size_t d, std::size_t k,
                                                              std::size_t c,
                                                              const TokenCounts& tokens) {
        const double played = stack(*batch, d, k, c);
        EXPECT_NEAR(framework.gradient_weight(batch->sizes, tokens), played, 1e-15)
            << name << ' ' << d << k << c;
        // A right convention has 1 / N wherever there are terms.
        const bool is_right = std::abs(played * static_cast<double>(batch->global()) - 1) < 1e-12;
        EXPECT_EQ(framework.is_right(batch->sizes, tokens), is_right || tokens.rank == 0)
            << name << ' ' << d << k << c;
      });
    }
  }
}

TEST(FrameworkSteps, MeansOfMeansAreRightForEqualCountsAlone) {
  for (const char* name : {"megatron_2_tuple", "megatron_3_tuple", "trl_bnpo"}) {
    const Framework framework = preset(name);
    int wrong = 0;
    for_each_part(kUnequal, [&](std::size_t, std::size_t, std::size_t, const TokenCounts& tokens) {
      wrong += framework.is_right(kUnequal.sizes, tokens) ? 0 : 1;
    });
    EXPECT_GT(wrong, 5) << name;
    for_each_part(kEqual, [&](std::size_t, std::size_t, std::size_t, const TokenCounts& tokens) {
      EXPECT_TRUE(framework.is_right(kEqual.sizes, tokens)) << name;
    });
  }
  // An empty microbatch takes its share of the mean: the others weigh less than their own mean.
  const Batch with_dummy = steps_batch({{{6}, {0}}});
  EXPECT_NEAR(preset("megatron_2_tuple").gradient_weight(with_dummy.sizes, {6, 6, 6}), 1.0 / 12,
              1e-15);
}

/// Value of a metric of which every token of (d, k, c) has `value(d, k, c)`, by a rule.
struct Joined {
  double global, sum_of_parts, mean_of_means, mean_of_real_means, by_tokens, of_sums_by_tokens;
  double least, largest;
};

Joined join(const Batch& batch, const std::function<double(std::size_t)>& value) {
  Joined out{0, 0, 0, 0, 0, 0, 1e300, -1e300};
  const auto all = static_cast<double>(batch.global());
  double packs = 0;
  double real = 0;
  double means = 0;
  for (std::size_t d = 0; d < batch.counts.size(); ++d) {
    for (std::size_t k = 0; k < batch.counts[d].size(); ++k) {
      const auto n = static_cast<double>(batch.of_pack(d, k));
      packs += 1;
      const double part = n * value(k) / all;  // of a sum that is divided by the global count
      out.sum_of_parts += part;
      out.of_sums_by_tokens += part * n / all;
      if (n == 0) continue;
      real += 1;
      means += value(k);
      out.global += n * value(k) / all;
      out.by_tokens += value(k) * n / all;
      out.least = std::min(out.least, value(k));
      out.largest = std::max(out.largest, value(k));
    }
  }
  out.mean_of_means = means / packs;
  out.mean_of_real_means = means / real;
  out.of_sums_by_tokens *= packs;  // parts are multiplied by their number before
  return out;
}

// The table of docs/framework-conventions.md.
TEST(FrameworkSteps, MetricsJoinByTheirRules) {
  // Two microbatches of 1 and 3 tokens with values of 1 and 2, and one without a token.
  const Batch batch = steps_batch({{{1}, {3}, {0}}});
  const Joined values = join(batch, [](std::size_t k) { return k == 0 ? 1.0 : 2.0; });
  EXPECT_DOUBLE_EQ(values.global, 1.75);
  EXPECT_DOUBLE_EQ(values.sum_of_parts, 1.75);
  EXPECT_DOUBLE_EQ(values.by_tokens, 1.75);
  EXPECT_DOUBLE_EQ(values.mean_of_real_means, 1.5);
  EXPECT_DOUBLE_EQ(values.mean_of_means, 1.0);
  EXPECT_DOUBLE_EQ(values.least, 1);
  EXPECT_DOUBLE_EQ(values.largest, 2);
  // Partial sums, averaged by tokens once more: a constant of 1 is R sum n^2 / N^2.
  const Batch two = steps_batch({{{1}, {3}}});
  EXPECT_DOUBLE_EQ(join(two, [](std::size_t) { return 1.0; }).of_sums_by_tokens, 1.25);
}

}  // namespace
}  // namespace lossgrid
