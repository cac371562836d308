// SPDX-License-Identifier: Apache-2.0
// Tests of padding: least common multiples of those of grid, case and implementation.
#include "harness/problem/batch/padding.h"

#include <gtest/gtest.h>

#include "expect_error.h"
#include "harness/problem/batch/partition.h"
#include "harness/problem/batch/problem.h"

namespace lossgrid {
namespace {

using PaddedOffsets = std::vector<std::int64_t>;

std::shared_ptr<const Problem> problem_of_case(const std::string& text) {
  return std::make_shared<const Problem>(make_problem(parse_case(text)));
}

PaddedOffsets offsets(const Problem& problem, const Grid& grid) {
  return pack(problem, grid).cu_seqlens_padded;
}

TEST(Padding, JoinsByLeastCommonMultiples) {
  EXPECT_EQ(joined({6, 10}, {4, 15}), (Padding{12, 30}));
  EXPECT_EQ(joined({16, 1}, {}), (Padding{16, 1}));
  EXPECT_TRUE(Padding{}.is_any());
  EXPECT_FALSE((Padding{1, 2}.is_any()));
  const std::int64_t large = (std::int64_t{1} << 40) + 1;
  expect_bad_input([&] { joined({large, 1}, {large - 1, 1}); }, {"lcm", "sequences"});
  expect_bad_input([&] { joined({1, large}, {1, large - 1}); }, {"lcm", "packs"});
}

TEST(Padding, IsDescribedInWords) {
  EXPECT_EQ(describe(Padding{}), "");
  EXPECT_EQ(describe(Padding{16, 1}), "sequences to multiples of 16");
  EXPECT_EQ(describe(Padding{1, 64}), "packs to multiples of 64");
  EXPECT_EQ(describe(Padding{16, 64}), "sequences to multiples of 16 and packs to multiples of 64");
}

TEST(Padding, JoinsTheMultiplesOfImplementationCaseAndGrid) {
  const auto plain = problem_of_case("lens=5+0+9 vocab=8 pad_multiple=6");
  const auto padded = padded_for(plain, {8, 1});
  EXPECT_EQ(offsets(*plain, {1, 1}), (PaddedOffsets{0, 6, 6, 18}));
  EXPECT_EQ(offsets(*padded, {1, 1}), (PaddedOffsets{0, 24, 24, 48}));  // lcm(6, 8)
  EXPECT_EQ(offsets(*padded, {1, 8}), (PaddedOffsets{0, 48, 48, 96}));  // lcm(6, 8, 2 * 8)
  EXPECT_EQ(offsets(*padded_for(plain, {1, 20}), {1, 1}),               // lcm(6, 20)
            (PaddedOffsets{0, 6, 6, 60}));
}

TEST(Padding, LeavesCaseTextAndTokensAsTheyAre) {
  const auto plain = problem_of_case("lens=5+8 vocab=8");
  const auto padded = padded_for(plain, {16, 64});
  EXPECT_EQ(format_case(padded->spec), format_case(plain->spec));
  EXPECT_EQ(padded->source, plain->source);
  EXPECT_EQ(pack(*padded, {1, 2}).input_ids, pack(*plain, {1, 2}).input_ids);
  EXPECT_EQ(pack(*padded, {1, 2}).padded_tokens(), 64);
}

TEST(Padding, IsAddedOnceAndNotAtAllWhereItIsThere) {
  const auto plain = problem_of_case("lens=5+8 vocab=8");
  EXPECT_EQ(padded_for(plain, {}), plain);
  const auto padded = padded_for(plain, {12, 1});
  EXPECT_EQ(padded_for(padded, {4, 1}), padded);
  EXPECT_EQ(padded_for(padded, {8, 1})->padding, (Padding{24, 1}));
}

TEST(Padding, IsThatOfEveryPartOfABatch) {
  const auto padded = padded_for(problem_of_case("lens=5+8+1+9 vocab=8 microbatches=2"), {16, 48});
  for (const auto& of_rank : partition(*padded, 2, 1)) {
    for (const MicrobatchPlan& plan : of_rank) {
      const PackedBatch batch = pack(take_part(*padded, plan, 2, 2), {1, 2});
      EXPECT_EQ(batch.padded_tokens() % 48, 0);
      for (std::int64_t i = 0; i < batch.sequences(); ++i) {
        EXPECT_EQ(batch.padded_length(i) % 16, 0);
      }
    }
  }
}

TEST(Padding, BeyondWhatAPackHoldsIsRefused) {
  const auto padded = padded_for(problem_of_case("lens=5 vocab=8 pad_multiple=1073741823"), {4, 1});
  expect_bad_input([&] { require_fits(*padded, {1, 1}); }, {"padded to a multiple of 4294967292"});
}

}  // namespace
}  // namespace lossgrid
