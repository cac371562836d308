// SPDX-License-Identifier: Apache-2.0
#include "harness/runner/explain/second_size.h"

#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harness/problem/batch/problem.h"
#include "harness/runner/rank/trial_setup.h"
#include "harness/runner/verdict/failure_facts.h"
#include "harness/verify/diagnosis/scale_suspects.h"

namespace lossgrid {
namespace {

constexpr int kRanks = 16;

TEST(SecondGrid, HasOtherSizesAlongEveryAxis) {
  EXPECT_EQ(format_grid(second_grid(parse_grid("tp1cp1"), kRanks)), "tp1cp1");
  EXPECT_EQ(format_grid(second_grid(parse_grid("tp1cp2"), kRanks)), "tp1cp3");
  EXPECT_EQ(format_grid(second_grid(parse_grid("tp1cp4:contiguous"), kRanks)), "tp1cp2:contiguous");
  const Grid two = second_grid(parse_grid("tp2cp2"), kRanks);
  EXPECT_NE(two.tp, 2);
  EXPECT_NE(two.cp, 2);
  EXPECT_NE(two.tp, two.cp);
  EXPECT_EQ(two.dp, 1);
}

TEST(SecondGrid, StaysWhereThereAreNoMoreRanks) {
  EXPECT_EQ(format_grid(second_grid(parse_grid("tp2cp2"), 4)), "tp2cp2");
  EXPECT_EQ(format_grid(second_grid(parse_grid("tp1cp1dp2pp2"), kRanks)), "tp1cp1dp2pp2");
}

TEST(SecondSize, HasNoTwoFactorsAlike) {
  for (const char* text :
       {"lens=5+8+6+9 vocab=96", "lens=5+8+6+9 vocab=96 microbatches=2 temperature=2",
        "objective=orpo lens=5+8+6+9 vocab=96 logit_scale=0.25"}) {
    const CaseSpec spec = parse_case(text);
    const Grid grid = second_grid(parse_grid("tp1cp2"), kRanks);
    const CaseSpec other = with_other_sizes(spec, grid, 0);
    EXPECT_NE(other.lens, spec.lens);
    EXPECT_EQ(other.poison, Poison::none);
    const Problem problem = make_problem(other);
    TrialSizes sizes{scale_sizes(problem, grid),
                     grid.tp,
                     problem.denominators.valid_tokens,
                     problem.sequences(),
                     other.temperature,
                     problem.tokens(),
                     0,
                     other.logit_scale};
    add_counts(problem, sizes);
    int alike = 0;
    const std::vector<ScaleSuspect> suspects = scale_suspects(sizes);
    for (std::size_t a = 0; a < suspects.size(); ++a) {
      for (std::size_t b = 0; b < a; ++b) {
        alike += std::abs(suspects[a].value - suspects[b].value) <= 2e-3 * suspects[b].value;
      }
    }
    EXPECT_EQ(alike, 0) << text << " " << other.lens;
  }
}

TEST(SecondSize, KeepsWhatIsNoSize) {
  const CaseSpec spec = parse_case(
      "objective=distill objective.kl_type=reverse lens=5+8 mask=00101+11100011 vocab=1000 "
      "teacher_topk=200 dtype=bf16");
  const CaseSpec other = with_other_sizes(spec, parse_grid("tp3cp1"), 0);
  EXPECT_EQ(other.objective, spec.objective);
  EXPECT_EQ(other.dtype, spec.dtype);
  EXPECT_EQ(other.mask, "ragged");
  EXPECT_EQ(other.vocab, 201);  // small, and shards are equal
  EXPECT_EQ(with_other_sizes(spec, parse_grid("tp1cp1"), 0).temperature, 1);
}

}  // namespace
}  // namespace lossgrid
