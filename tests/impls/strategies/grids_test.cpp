// SPDX-License-Identifier: Apache-2.0
// Every real implementation on every grid up to eight ranks, over cases in which layouts differ.
#include <gmock/gmock.h>

#include "trial_fixture.h"

namespace lossgrid {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::IsSupersetOf;
using ::testing::Not;

const char* const kCases[] = {
    "lens=5+8+1+3 vocab=24 mask=all bin_multiple=32",
    "lens=16+0+1+33 vocab=101 mask=ragged sample_mask=1011 cu=padded",
    "lens=9+7 vocab=10 targets=shard_edges values=masked_vocab poison=inf",
    "lens=12+20 vocab=64 dtype=bf16 values=peaked",
    "lens=6+3 vocab=40 dtype=f64 values=offset mask=all",
    "lens=4+4 vocab=16 mask=0000+0000",
    "lens=0+0 vocab=16",
    "lens=5+8+1+3+0+9 vocab=24 microbatches=2",
    ("objective=clipped_pg objective.token_level_loss=false "
     "objective.sequence_level_importance_ratios=true lens=9+14+5+2 vocab=24"),
    "objective=dpo objective.sft_loss_weight=0.1 lens=9+14+5+2 vocab=24 cu=padded",
};

class Grids : public ::testing::TestWithParam<std::string> {};

TEST_P(Grids, AgreeWithTheTruth) {
  for (const char* text : kCases) {
    const PreparedProblem prepared = prepare(make_problem(parse_case(text)));
    for (const Grid& grid : all_grids()) {
      const TrialRecord record =
          run_trial(make_setup(prepared, GetParam(), grid), std::chrono::seconds(60)).record;
      EXPECT_EQ(record.status, TrialStatus::passed) << record.reason << "\n" << record.reproduce;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, Grids,
                         ::testing::Values("reference", "per_sequence", "fused",
                                           "fused:chunk_tokens=1", "fused:chunk_tokens=5",
                                           "fused:chunk_tokens=1000", "cp_gather_logits",
                                           "cp_local"));

TEST(Registered, RealImplementationsHaveNoMutantAmongThem) {
  std::vector<std::string> names;
  for (const auto* entry : implementations(ImplementationKind::real)) names.push_back(entry->name);
  EXPECT_THAT(names, IsSupersetOf({"cp_gather_logits", "cp_local", "fused", "linear_ce",
                                   "linear_ce_onepass", "linear_materialized", "one_sweep",
                                   "per_sequence", "reference"}));
  EXPECT_THAT(names, Each(Not(HasSubstr("/"))));
  EXPECT_GE(implementations(ImplementationKind::mutant).size(), 40u);
}

TEST(Microbatches, AddUpToTheWholeBatch) {
  // 10 and 6 valid tokens of a global batch of 16: losses and gradients share one denominator.
  const std::string global = " vocab=20 mask=all global_valid_toks=16";
  for (const std::string implementation : {"per_sequence", "fused", "cp_local"}) {
    const TrialRecord first = run_case("lens=11 seed=3" + global, implementation, {1, 2});
    const TrialRecord second = run_case("lens=7 seed=4" + global, implementation, {1, 2});
    ASSERT_EQ(first.status, TrialStatus::passed) << first.reason;
    ASSERT_EQ(second.status, TrialStatus::passed) << second.reason;
    const TrialRecord alone = run_case("lens=11 seed=3 vocab=20 mask=all", implementation, {1, 2});
    EXPECT_NEAR(first.metrics.at("loss").value(), alone.metrics.at("loss").value() * 10 / 16, 1e-6);
    EXPECT_EQ(first.metrics.at("num_unmasked_tokens"), 10);
    EXPECT_EQ(second.metrics.at("num_unmasked_tokens"), 6);
  }
}

}  // namespace
}  // namespace lossgrid
