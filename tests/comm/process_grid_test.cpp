// SPDX-License-Identifier: Apache-2.0
#include "harness/comm/process_grid.h"

#include <string>
#include <vector>

#include <gmock/gmock.h>

#include "harness/core/error.h"
#include "ranks.h"

namespace lossgrid {
namespace {

TEST(ProcessGrid, StagesAreTheSlowestAxis) {
  const Grid grid{.tp = 3, .cp = 2, .dp = 4, .pp = 5};
  EXPECT_EQ(grid.ranks(), 120);
  EXPECT_EQ(grid.stage_ranks(), 24);
  EXPECT_EQ(grid.rank_of(2, 1, 3, 2), 71);
  for (int rank = 0; rank < grid.ranks(); ++rank) {
    EXPECT_EQ(grid.rank_of(grid.tp_rank(rank), grid.cp_rank(rank), grid.dp_rank(rank),
                           grid.pp_rank(rank)),
              rank);
    EXPECT_EQ(grid.is_last_stage(rank), rank >= 96);
  }
  EXPECT_EQ(grid.dp_rank(88), 2);  // 88 = ((3 * 4 + 2) * 2 + 1) * 3 + 1
  EXPECT_EQ(grid.pp_rank(88), 3);
  EXPECT_EQ(grid.first_of_last_stage(), 96);
  EXPECT_EQ((Grid{3, 2, 4}.first_of_last_stage()), 0);
  EXPECT_TRUE((Grid{3, 2, 4}.is_last_stage(0)));
}

TEST(ProcessGrid, TpRunsFastestAndDpSlowestOfAStage) {
  const Grid grid{3, 2, 4};
  EXPECT_EQ(grid.ranks(), 24);
  EXPECT_EQ(grid.rank_of(1, 0), 1);
  EXPECT_EQ(grid.rank_of(2, 1), 5);
  EXPECT_EQ(grid.rank_of(0, 0, 1), 6);
  EXPECT_EQ(grid.rank_of(2, 1, 3), 23);
  for (int rank = 0; rank < grid.ranks(); ++rank) {
    EXPECT_EQ(grid.rank_of(grid.tp_rank(rank), grid.cp_rank(rank), grid.dp_rank(rank)), rank);
  }
  EXPECT_EQ(grid.tp_rank(16), 1);  // 16 = (2 * 2 + 1) * 3 + 1
  EXPECT_EQ(grid.cp_rank(16), 1);
  EXPECT_EQ(grid.dp_rank(16), 2);
}

TEST(ProcessGrid, ADynamicGridHasACpSizeForEveryDivisorOfItsLine) {
  const Grid grid = parse_grid("tp2cp2dp3pp2:dynamic");
  EXPECT_EQ(format_grid(grid), "tp2cp2dp3pp2:dynamic");
  EXPECT_TRUE(grid.is_dynamic());
  EXPECT_EQ(grid.cp_sizes(), (std::vector<int>{1, 2, 3, 6}));
  for (const int size : grid.cp_sizes()) {
    const Grid of_packs = grid.with_cp(size);
    EXPECT_EQ(of_packs, (Grid{.tp = 2, .cp = size, .dp = 6 / size, .pp = 2}));
    EXPECT_EQ(of_packs.ranks(), grid.ranks());
  }
  EXPECT_EQ(parse_grid("tp1cp2dp3:ulysses").cp_sizes(), (std::vector<int>{2}));
}

TEST(ProcessGrid, TextForm) {
  EXPECT_EQ(format_grid({2, 4}), "tp2cp4");
  EXPECT_EQ(format_grid({}), "tp1cp1");
  EXPECT_EQ(format_grid({2, 4, 3}), "tp2cp4dp3");
  EXPECT_EQ(format_grid({1, 1, 2}), "tp1cp1dp2");
  EXPECT_EQ(parse_grid("tp2cp4"), (Grid{2, 4}));
  EXPECT_EQ(parse_grid("cp4tp2"), (Grid{2, 4}));
  EXPECT_EQ(parse_grid("tp8"), (Grid{8, 1}));
  EXPECT_EQ(parse_grid("cp12"), (Grid{1, 12}));
  EXPECT_EQ(parse_grid("tp4096cp4096"), (Grid{4096, 4096}));
  EXPECT_EQ(parse_grid("tp2cp4dp1"), (Grid{2, 4, 1}));
  EXPECT_EQ(parse_grid("tp2cp4dp3"), (Grid{2, 4, 3}));
  EXPECT_EQ(parse_grid("dp3cp4tp2"), (Grid{2, 4, 3}));
  EXPECT_EQ(parse_grid("dp2"), (Grid{1, 1, 2}));
}

TEST(ProcessGrid, TextFormWithLayout) {
  Grid grid{2, 4, 1, true};
  grid.cp_layout = CpLayout::ulysses;
  EXPECT_EQ(format_grid(grid), "tp2cp4sp:ulysses");
  EXPECT_EQ(parse_grid("tp2cp4sp:ulysses"), grid);
  for (const char* text :
       {"tp1cp2:contiguous", "tp1cp2:zigzag_row", "tp1cp2:contiguous_sequence"}) {
    EXPECT_EQ(format_grid(parse_grid(text)), text);
  }
  EXPECT_EQ(format_grid(parse_grid("tp1cp2:zigzag")), "tp1cp2");
}

TEST(ProcessGrid, TextFormWithSequenceParallelism) {
  EXPECT_EQ(format_grid({2, 4, 1, true}), "tp2cp4sp");
  EXPECT_EQ(format_grid({2, 2, 2, true}), "tp2cp2dp2sp");
  EXPECT_EQ(format_grid({1, 1, 1, true}), "tp1cp1sp");
  EXPECT_EQ(parse_grid("tp2cp4sp"), (Grid{2, 4, 1, true}));
  EXPECT_EQ(parse_grid("tp2sp"), (Grid{2, 1, 1, true}));
  EXPECT_EQ(parse_grid("sp"), (Grid{1, 1, 1, true}));
  EXPECT_EQ(parse_grid("sptp2"), (Grid{2, 1, 1, true}));
  EXPECT_EQ(parse_grid("cp2spdp3"), (Grid{1, 2, 3, true}));
  EXPECT_FALSE(parse_grid("tp2cp4").sp);
  EXPECT_FALSE(parse_grid("tp2cp4sp") == parse_grid("tp2cp4"));
  for (const Grid grid : {Grid{2, 4, 1, true}, Grid{3, 1, 2, true}, Grid{1, 1, 1, true}}) {
    EXPECT_EQ(parse_grid(format_grid(grid)), grid);
  }
}

TEST(ProcessGrid, TextFormWithPipelineStages) {
  EXPECT_EQ(format_grid({.tp = 2, .pp = 2}), "tp2cp1pp2");
  EXPECT_EQ(format_grid({2, 2, 2, true, 3}), "tp2cp2dp2pp3sp");
  EXPECT_EQ(parse_grid("tp2cp2dp2pp2"), (Grid{2, 2, 2, false, 2}));
  EXPECT_EQ(parse_grid("pp4"), (Grid{.pp = 4}));
  EXPECT_EQ(parse_grid("pp2spcp3"), (Grid{1, 3, 1, true, 2}));
  EXPECT_EQ(parse_grid("tp2cp4pp1"), (Grid{2, 4}));
  EXPECT_FALSE(parse_grid("tp2pp2") == parse_grid("tp2dp2"));
  for (const Grid grid : {Grid{2, 4, 1, true, 3}, Grid{3, 1, 2, false, 2}}) {
    EXPECT_EQ(parse_grid(format_grid(grid)), grid);
  }
}

TEST(ProcessGrid, HiddenRowsAreSplitWithSequenceParallelismAlone) {
  EXPECT_EQ((Grid{4, 2, 3, true}.row_parts()), 4);
  EXPECT_EQ((Grid{4, 2, 3}.row_parts()), 1);
  EXPECT_EQ((Grid{4, 2, 3, true}.ranks()), 24);  // SP makes no ranks
}

TEST(ProcessGrid, RefusesOtherTexts) {
  for (const std::string text : {"",
                                 ":ulysses",
                                 "cp2:",
                                 "cp2:spiral",
                                 "cp2:ulysses:ulysses",
                                 "cp2:ulyssestp2",
                                 "tp",
                                 "2",
                                 "tp0",
                                 "tp4097",
                                 "tp-1",
                                 "tp2cp",
                                 "tp2tp2",
                                 "ep2",
                                 "pp0",
                                 "pp4097",
                                 "tp2pp2pp2",
                                 "tp1cp1pp",
                                 "tp2cp4x",
                                 "tp2 cp4",
                                 "TP2",
                                 "tp2,cp4",
                                 "tp99999999999999999999",
                                 "dp0",
                                 "dp4097",
                                 "tp2dp2dp2",
                                 "tp2cp4dp",
                                 "tp4096cp4096dp4096",
                                 "tp4096cp4096pp4096",
                                 "spsp",
                                 "tp2spcp2sp",
                                 "sp2",
                                 "tp2sp0",
                                 "SP",
                                 "s",
                                 "tp2sptp2"}) {
    try {
      parse_grid(text);
      ADD_FAILURE() << "'" << text << "' was accepted";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::bad_input) << text;
      EXPECT_THAT(error.what(), testing::HasSubstr("'" + text + "'"));
    }
  }
}

/// World ranks of the members of a communicator, in its order.
std::vector<int> members(Communicator& group, Communicator& world) {
  const int own = world.rank();
  std::vector<int> ranks(static_cast<std::size_t>(group.size()));
  group.all_gather(std::span<const int>(&own, 1), std::span(ranks));
  return ranks;
}

TEST(ProcessGrid, GroupsDifferInOneAxis) {
  for (const Grid grid :
       {Grid{1, 1}, Grid{2, 1}, Grid{1, 3}, Grid{3, 2}, Grid{2, 4}, Grid{1, 1, 3}, Grid{2, 1, 2},
        Grid{2, 3, 2}, Grid{.pp = 3}, Grid{2, 1, 3, false, 2}, Grid{2, 2, 2, false, 2}}) {
    SCOPED_TRACE(format_grid(grid));
    expect_ranks_ok(grid.ranks(), [&](Communicator& world) {
      const ProcessGrid mine = make_process_grid(world, grid);
      EXPECT_EQ(mine.world, &world);
      EXPECT_EQ(mine.grid, grid);
      EXPECT_EQ(mine.tp->name(), "tp");
      EXPECT_EQ(mine.cp->name(), "cp");
      EXPECT_EQ(mine.dp->name(), "dp");
      EXPECT_EQ(mine.pp->name(), "pp");
      const int tp_rank = mine.tp_rank();
      const int cp_rank = mine.cp_rank();
      const int dp_rank = mine.dp_rank();
      const int pp_rank = mine.pp_rank();
      EXPECT_EQ(mine.tp->rank(), tp_rank);
      EXPECT_EQ(mine.cp->rank(), cp_rank);
      EXPECT_EQ(mine.dp->rank(), dp_rank);
      EXPECT_EQ(mine.pp->rank(), pp_rank);
      EXPECT_EQ(mine.is_last_stage(), pp_rank == grid.pp - 1);
      std::vector<int> along_tp;
      std::vector<int> along_cp;
      std::vector<int> along_dp;
      std::vector<int> along_pp;
      for (int i = 0; i < grid.tp; ++i) {
        along_tp.push_back(grid.rank_of(i, cp_rank, dp_rank, pp_rank));
      }
      for (int i = 0; i < grid.cp; ++i) {
        along_cp.push_back(grid.rank_of(tp_rank, i, dp_rank, pp_rank));
      }
      for (int i = 0; i < grid.dp; ++i) {
        along_dp.push_back(grid.rank_of(tp_rank, cp_rank, i, pp_rank));
      }
      for (int i = 0; i < grid.pp; ++i) {
        along_pp.push_back(grid.rank_of(tp_rank, cp_rank, dp_rank, i));
      }
      EXPECT_EQ(members(*mine.tp, world), along_tp);
      EXPECT_EQ(members(*mine.cp, world), along_cp);
      EXPECT_EQ(members(*mine.dp, world), along_dp);
      EXPECT_EQ(members(*mine.pp, world), along_pp);
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
