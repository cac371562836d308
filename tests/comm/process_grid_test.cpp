// SPDX-License-Identifier: Apache-2.0
#include "harness/comm/process_grid.h"

#include <string>

#include <gmock/gmock.h>

#include "harness/core/error.h"
#include "ranks.h"

namespace lossgrid {
namespace {

TEST(ProcessGrid, TpRunsFastest) {
  const Grid grid{3, 2};
  EXPECT_EQ(grid.ranks(), 6);
  EXPECT_EQ(grid.rank_of(2, 1), 5);
  EXPECT_EQ(grid.rank_of(1, 0), 1);
  for (int rank = 0; rank < 6; ++rank) {
    EXPECT_EQ(grid.rank_of(grid.tp_rank(rank), grid.cp_rank(rank)), rank);
  }
  EXPECT_EQ(grid.tp_rank(4), 1);
  EXPECT_EQ(grid.cp_rank(4), 1);
}

TEST(ProcessGrid, TextForm) {
  EXPECT_EQ(format_grid({2, 4}), "tp2cp4");
  EXPECT_EQ(format_grid({}), "tp1cp1");
  EXPECT_EQ(parse_grid("tp2cp4"), (Grid{2, 4}));
  EXPECT_EQ(parse_grid("cp4tp2"), (Grid{2, 4}));
  EXPECT_EQ(parse_grid("tp8"), (Grid{8, 1}));
  EXPECT_EQ(parse_grid("cp12"), (Grid{1, 12}));
  EXPECT_EQ(parse_grid("tp4096cp4096"), (Grid{4096, 4096}));
}

TEST(ProcessGrid, RefusesOtherTexts) {
  for (const std::string text :
       {"", "tp", "2", "tp0", "tp4097", "tp-1", "tp2cp", "tp2tp2", "dp2", "tp2cp4x", "tp2 cp4",
        "TP2", "tp2,cp4", "tp99999999999999999999"}) {
    try {
      parse_grid(text);
      ADD_FAILURE() << "'" << text << "' was accepted";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::bad_input) << text;
      EXPECT_THAT(error.what(), testing::HasSubstr("'" + text + "'"));
    }
  }
}

TEST(ProcessGrid, GroupsHoldTheRowAndTheColumn) {
  for (const Grid grid : {Grid{1, 1}, Grid{2, 1}, Grid{1, 3}, Grid{3, 2}, Grid{2, 4}}) {
    expect_ranks_ok(grid.ranks(), [&](Communicator& world) {
      const ProcessGrid mine = make_process_grid(world, grid);
      EXPECT_EQ(mine.world, &world);
      EXPECT_EQ(mine.grid, grid);
      EXPECT_EQ(mine.tp->name(), "tp");
      EXPECT_EQ(mine.cp->name(), "cp");
      EXPECT_EQ(mine.tp->size(), grid.tp);
      EXPECT_EQ(mine.cp->size(), grid.cp);
      EXPECT_EQ(mine.tp->rank(), mine.tp_rank());
      EXPECT_EQ(mine.cp->rank(), mine.cp_rank());
      const int own = world.rank();
      std::vector<int> row(static_cast<std::size_t>(grid.tp));
      std::vector<int> column(static_cast<std::size_t>(grid.cp));
      mine.tp->all_gather(std::span<const int>(&own, 1), std::span(row));
      mine.cp->all_gather(std::span<const int>(&own, 1), std::span(column));
      for (int i = 0; i < grid.tp; ++i) {
        EXPECT_EQ(row[static_cast<std::size_t>(i)], grid.rank_of(i, mine.cp_rank()));
      }
      for (int i = 0; i < grid.cp; ++i) {
        EXPECT_EQ(column[static_cast<std::size_t>(i)], grid.rank_of(mine.tp_rank(), i));
      }
    });
  }
}

TEST(ProcessGrid, RefusesAWorldOfAnotherSize) {
  const RanksOutcome outcome = run_thread_ranks(
      3,
      [](Communicator& world) {
        make_process_grid(world, {2, 2});
      },
      kNoHurry);
  EXPECT_FALSE(outcome.all_ok());
  EXPECT_EQ(outcome.ranks[0].code, ErrorCode::bad_input);
  EXPECT_EQ(outcome.ranks[0].message, "grid tp2cp2 needs 4 ranks, 'world' has 3");
}

}  // namespace
}  // namespace lossgrid
