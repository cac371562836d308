// SPDX-License-Identifier: Apache-2.0
#include "impls/objectives/clipped_pg/clipped_pg_draw.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include <gtest/gtest.h>

#include "../problem/drawn_inputs.h"
#include "impls/objectives/clipped_pg/ratio/policy_versions.h"
#include "impls/objectives/objective_options.h"

namespace lossgrid {
namespace {

/// A case of one sequence with the inputs of the options, all of its log-probabilities -3.
Problem drawn_for(const ObjectiveOptions& options, const std::string& text) {
  const ClippedPgOptions parsed = ClippedPgOptions::from(options);
  return drawn("lens=4001 mask=all vocab=8 " + text, std::vector<double>(4001, -3), parsed.needs(),
               ClippedPgDraw(parsed));
}

TEST(ClippedPgDraw, EdgesAreWhereTheFormulasSwitch) {
  const auto sorted = [](const Edges& of) {
    std::vector<double> all(of.at.begin(), of.at.begin() + of.count);
    std::sort(all.begin(), all.end());
    return all;
  };
  const auto edges = [](const ObjectiveOptions& options) {
    return clipped_pg_edges(ClippedPgOptions::from(options));
  };
  const auto expect_near = [](const std::vector<double>& got, const std::vector<double>& want) {
    ASSERT_EQ(got.size(), want.size());
    for (std::size_t k = 0; k < want.size(); ++k) EXPECT_NEAR(got[k], want[k], 1e-9);
  };
  const PolicyEdges dual = edges({{"ratio_clip_c", "3"}, {"ratio_clip_max", "0.28"}});
  expect_near(sorted(dual.log_ratios), {std::log(0.8), std::log(1.28), std::log(3)});
  EXPECT_TRUE(sorted(dual.log_weights).empty());
  EXPECT_EQ(dual.sequences_per_edge, 0);
  EXPECT_TRUE(sorted(edges({{"disable_ppo_ratio", "true"}}).log_ratios).empty());
  expect_near(sorted(edges({{"ratio_clip_min", "1"}}).log_ratios), {std::log(1.2)});
  const PolicyEdges geo_mean = edges(
      {{"policy_loss", "\"geo_mean\""}, {"token_level_loss", "false"}, {"ratio_clip_max", "0.4"}});
  expect_near(sorted(geo_mean.log_ratios), {-0.2, 0.4});
  EXPECT_EQ(geo_mean.sequences_per_edge, 0);
  const PolicyEdges weights = edges({{"use_importance_sampling_correction", "true"},
                                     {"truncated_importance_sampling_type", "\"seq-mask-tis\""},
                                     {"truncated_importance_sampling_ratio", "1.5"},
                                     {"truncated_importance_sampling_ratio_min", "0.5"}});
  expect_near(sorted(weights.log_weights), {std::log(0.5), std::log(1.5)});
  EXPECT_EQ(weights.sequences_per_edge, 1);
  // By hand: k1 = -r, k2 = r^2 / 2, k3 = e^r - 1 - r; k3 is 10 at 2.6101... and at -10.99998...
  for (const auto& [type, low, high] :
       {std::tuple{"\"k1\"", -10.0, 10.0}, std::tuple{"\"k2\"", -std::sqrt(20), std::sqrt(20)}}) {
    expect_near(sorted(edges({{"reference_policy_kl_type", type}}).reference_offsets),
                {-20, low, high, 20});
  }
  for (const char* bound : {"0.05", "10", "1e9"}) {
    for (const double r :
         sorted(edges({{"kl_input_clamp_value", "null"}, {"kl_output_clamp_value", bound}})
                    .reference_offsets)) {
      EXPECT_NEAR((std::expm1(r) - r) / std::stod(bound), 1, 1e-12) << bound << ' ' << r;
    }
  }
}

const ObjectiveOptions kVersions{{"prox_logp_method", "\"loglinear\""}, {"current_version", "5"}};

TEST(ClippedPgDraw, VersionsAreOlderTheCurrentALaterOneAndNone) {
  const Problem problem = drawn_for(kVersions, "");
  std::map<float, int> seen;
  for (std::size_t t = 1; t < 4001; ++t) ++seen[input(problem, TokenInput::versions)[t]];
  EXPECT_EQ(seen.size(), 6u);
  for (const float version : {-1.0f, 1.0f, 3.0f, 4.0f, 5.0f, 6.0f}) EXPECT_GT(seen[version], 150);
}

TEST(ClippedPgDraw, EdgesAreFartherForOlderVersions) {
  const Problem problem = drawn_for(kVersions, "drift=edge");
  const auto& generation = input(problem, TokenInput::generation_logprobs);
  for (std::size_t t = 1; t < 4001; ++t) {
    const double steps = steps_behind(double{input(problem, TokenInput::versions)[t]}, 5);
    const double distance = -3 - double{generation[t]};
    const double beside = std::min(std::abs(distance - steps * std::log(0.8)),
                                   std::abs(distance - steps * std::log(1.2)));
    EXPECT_LT(beside, 0x1p-10 + 1e-6) << t;
  }
  EXPECT_EQ(steps_behind(1, 5), 4);
  for (const double version : {-1.0, 4.0, 5.0, 6.0}) EXPECT_EQ(steps_behind(version, 5), 1);
}

TEST(ClippedPgDraw, GenerationLacksWhereTheOptionsTakeThat) {
  const auto& lacking = drawn_for({{"nonfinite_generation_logprobs", "\"drop\""}}, "");
  std::array<int, 3> seen{};
  for (std::size_t t = 1; t < 4001; ++t) {
    const float logprob = input(lacking, TokenInput::generation_logprobs)[t];
    if (std::isnan(logprob)) ++seen[0];
    if (std::isinf(logprob)) ++seen[logprob > 0 ? 1 : 2];
  }
  EXPECT_NEAR(seen[0] + seen[1] + seen[2], 500, 80);
  for (const int kind : seen) EXPECT_GT(kind, 50);
  const Problem right = drawn_for({}, "");
  for (std::size_t t = 1; t < 4001; ++t) {
    EXPECT_TRUE(std::isfinite(input(right, TokenInput::generation_logprobs)[t]));
  }
}

}  // namespace
}  // namespace lossgrid
