// SPDX-License-Identifier: Apache-2.0
#include "harness/comm/consensus.h"

#include <string>
#include <vector>

#include "harness/core/error.h"
#include "ranks.h"

namespace lossgrid {
namespace {

TEST(Consensus, GathersTextsOfAnyLength) {
  const std::vector<std::string> texts{"", "a", std::string(9000, 'x'), std::string("n\0l", 3)};
  expect_ranks_ok(4, [&](Communicator& world) {
    EXPECT_EQ(gather_texts(world, texts[static_cast<std::size_t>(world.rank())]), texts);
    EXPECT_EQ(gather_texts(world, ""), std::vector<std::string>(4));
  });
}

TEST(Consensus, SameTextPasses) {
  expect_ranks_ok(3, [](Communicator& world) {
    require_same_text(world, "suite ci", "suite");
    require_same_text(world, "", "suite");
  });
}

TEST(Consensus, ADifferenceThrowsOnAllRanks) {
  const auto message_of = [](const std::vector<std::string>& texts) {
    const RanksOutcome outcome = run_thread_ranks(
        static_cast<int>(texts.size()),
        [&](Communicator& world) {
          std::string message;
          try {
            require_same_text(world, texts[static_cast<std::size_t>(world.rank())], "suite");
          } catch (const Error& error) {
            EXPECT_EQ(error.code(), ErrorCode::bad_input);
            message = error.what();
          }
          EXPECT_NE(message, "") << "rank " << world.rank();
          require_same_text(world, message, "message");  // the same result on all ranks
          if (world.rank() == 0) throw Error(ErrorCode::bad_input, message);
        },
        kNoHurry);
    return outcome.ranks[0].message;
  };
  EXPECT_EQ(message_of({"abc", "abc", "abd", "x"}),
            "suite is not the same on all ranks: rank 2 differs from rank 0 at byte 2");
  EXPECT_EQ(message_of({"abc", "abcd"}),  // a prefix is another text
            "suite is not the same on all ranks: rank 1 differs from rank 0 at byte 3");
  EXPECT_EQ(message_of({"", "a"}),
            "suite is not the same on all ranks: rank 1 differs from rank 0 at byte 0");
}

}  // namespace
}  // namespace lossgrid
