// SPDX-License-Identifier: Apache-2.0
// Targets, valid rows and counts of a batch against a plain recomputation by token, in both modes
// of cu_seqlens, on every layout and over microbatches and dp ranks: row t of a sequence predicts
// token t + 1, which counts with its token mask and its sample mask.
#include <algorithm>
#include <cmath>
#include <random>
#include <set>
#include <string>
#include <vector>

#include <fmt/core.h>
#include <gtest/gtest.h>

#include "drawn_inputs.h"
#include "harness/problem/batch/dynamic_partition.h"
#include "harness/problem/batch/partition.h"
#include "harness/problem/batch/sharding.h"
#include "plain_layouts.h"

namespace lossgrid {
namespace {

/// One row that predicts a token, by hand: the sequence and the token of the whole batch.
struct PlainRow {
  std::int64_t sequence;
  std::int64_t token;  // that the row is about
  bool counts;
};

/// Returns the rows of true tokens that predict one, in the order of the batch.
std::vector<PlainRow> plain_rows(const Problem& problem) {
  std::vector<PlainRow> rows;
  std::int64_t first = 0;
  for (std::size_t i = 0; i < problem.lengths.size(); ++i) {
    for (std::int64_t t = 0; t < problem.lengths[i] - 1; ++t) {
      const std::int64_t token = first + t + 1;
      rows.push_back({static_cast<std::int64_t>(i), token,
                      problem.token_mask[token] == 1 && problem.sample_mask[i] == 1});
    }
    first += problem.lengths[i];
  }
  return rows;
}

/// Counts of a batch as docs/objectives.md has them, from its rows.
Denominators plain_counts(const Problem& problem, const std::vector<double>& rewards) {
  Denominators counts;
  std::vector<int> of_sequence(problem.lengths.size(), 0);
  for (const PlainRow& row : plain_rows(problem)) {
    if (!row.counts) continue;
    counts.valid_tokens += 1;
    of_sequence[row.sequence] += 1;
    counts.positive_tokens += rewards[row.sequence] > 0 ? 1 : 0;
  }
  for (std::size_t i = 0; i < of_sequence.size(); ++i) {
    counts.all_sequences += 1;
    counts.valid_sequences += problem.sample_mask[i];
    counts.trained_sequences += of_sequence[i] > 0 ? 1 : 0;
  }
  return counts;
}

/// Draws the text of a case with masks of all kinds.
std::string draw_masks(std::mt19937& random) {
  const char* masks[] = {"all", "ragged", "sparse", "response"};
  std::string samples;
  std::string lengths;
  const int sequences = 1 + random() % 6;
  for (int i = 0; i < sequences; ++i) {
    lengths += (i > 0 ? "+" : "") + std::to_string(random() % 3 == 0 ? random() % 2 : random() % 9);
    samples += random() % 4 == 0 ? '0' : '1';
  }
  return fmt::format("vocab=7 lens={} sample_mask={} mask={} seed={} microbatches={} cu={}",
                     lengths, samples, masks[random() % 4], random() % 1000, 1 + random() % 3,
                     random() % 2 == 0 ? "true" : "padded");
}

/// Calls with(problem) for drawn cases whose rewards and inputs name what they are about: the input
/// k of a token is 100 k + token.
template <class With>
void for_drawn_masks(int cases, const With& with) {
  std::mt19937 random(30);
  for (int k = 0; k < cases; ++k) {
    const std::string text = draw_masks(random);
    SCOPED_TRACE(text);
    ObjectiveNeeds needs = kEverything;
    needs.sequence_counts = true;
    Problem problem = problem_of(text);
    const PlainDraw draw;
    draw_objective_inputs(problem, needs, &draw,
                          std::vector<double>(static_cast<std::size_t>(problem.tokens()), -1));
    with(problem);
  }
}

TEST(PlainTargets, AreTheNextTokensOfTheirSequences) {
  for_drawn_masks(150, [](const Problem& problem) {
    std::vector<std::int32_t> targets(problem.input_ids.size(), -1);
    std::vector<std::uint8_t> valid(problem.input_ids.size(), 0);
    for (const PlainRow& row : plain_rows(problem)) {
      targets[row.token - 1] = problem.input_ids[row.token];
      valid[row.token - 1] = row.counts;
    }
    EXPECT_EQ(problem.row_targets(), targets);
    EXPECT_EQ(problem.row_valid(), valid);
  });
}

TEST(PlainTargets, CountsAreThoseOfTheRows) {
  for_drawn_masks(150, [](const Problem& problem) {
    const std::vector<double> rewards(problem.rewards.begin(), problem.rewards.end());
    EXPECT_EQ(problem.denominators, plain_counts(problem, rewards));
  });
}

/// Counts of the global batch that a case states stand for those of its own sequences.
TEST(PlainTargets, StatedCountsAreThoseOfTheCase) {
  const Problem both = problem_of("lens=5+3 mask=all global_valid_toks=40 global_valid_seqs=9");
  EXPECT_EQ(both.denominators.valid_tokens, 40);
  EXPECT_EQ(both.denominators.valid_sequences, 9);
  const Problem tokens = problem_of("lens=5+3 mask=all global_valid_toks=40");
  EXPECT_EQ(tokens.denominators.valid_tokens, 40);
  EXPECT_EQ(tokens.denominators.valid_sequences, 2);
}

/// Every rank of every layout: its row at slot k is the plain row of its place, and holds the
/// inputs about the token that it predicts.
TEST(PlainTargets, RowsOfRanksAreThoseOfTheirPlaces) {
  std::mt19937 random(31);
  const std::vector<std::string> layouts{"zigzag", "contiguous", "ulysses", "zigzag_row",
                                         "contiguous_sequence"};
  for_drawn_masks(60, [&](const Problem& problem) {
    const std::string layout = layouts[random() % layouts.size()];
    const int cp = 1 + random() % 4;
    const Grid grid = parse_grid(fmt::format("tp1cp{}:{}", cp, layout));
    const auto offsets =
        plain::padded_offsets(problem.lengths, plain::multiples(layout, cp, 1), 1, 1);
    struct Want {
      std::int32_t target = -1;
      int valid = 0;
      int sequence = 0;
      bool real = false;
      std::int64_t token = -1;
    };
    std::vector<Want> want(static_cast<std::size_t>(offsets.back()));
    for (std::size_t i = 0; i < problem.lengths.size(); ++i) {
      for (std::int64_t row = offsets[i]; row < offsets[i + 1]; ++row) {
        want[row].sequence = static_cast<int>(i);
        want[row].real = row - offsets[i] < problem.lengths[i];
      }
    }
    for (const PlainRow& row : plain_rows(problem)) {
      const std::int64_t t = row.token - 1 - problem.cu_seqlens[row.sequence];
      Want& at = want[offsets[row.sequence] + t];
      at.target = problem.input_ids[row.token];
      at.valid = row.counts;
      at.token = row.token;
    }
    const PackedBatch batch = pack(problem, grid);
    const ShiftedBatch shifted = shift_targets(batch);
    const auto rows = plain::rows_of_ranks(layout, cp, offsets);
    for (int rank = 0; rank < cp; ++rank) {
      const ShiftedBatch mine = shifted.gather(cp_rows(batch, cp, rank));
      ASSERT_EQ(mine.rows(), rows[rank].size());
      for (std::size_t k = 0; k < mine.rows(); ++k) {
        const Want& at = want[rows[rank][k]];
        ASSERT_EQ(mine.place[k], rows[rank][k]);
        ASSERT_EQ(mine.sequence[k], at.sequence);
        ASSERT_EQ(mine.real[k] != 0, at.real);
        ASSERT_EQ(mine.valid[k], at.valid);
        if (at.token < 0) continue;
        ASSERT_EQ(mine.targets[k], at.target);
        if (at.valid == 0) continue;
        for (int input = 0; input < kTokenInputs; ++input) {
          ASSERT_EQ(mine.inputs[input][k], problem.inputs[input][at.token]);
        }
        int before = 0;
        for (std::int64_t row = offsets[at.sequence]; row < rows[rank][k]; ++row) {
          before += want[row].valid;
        }
        ASSERT_EQ(mine.ordinal[k], before);
      }
    }
  });
}

/// Sequences of all parts together, with what each counts by hand.
struct PlainUnion {
  std::multiset<std::int64_t> sequences;
  Denominators counts;
  std::int64_t most = 0;  // sequences of a part

  void add(const Problem& whole, const MicrobatchPlan& plan, int count, int dp) {
    const Problem part = take_part(whole, plan, count, dp);
    EXPECT_EQ(part.denominators, whole.denominators);
    EXPECT_EQ(part.microbatch.count, count);
    EXPECT_EQ(part.microbatch.dp, dp);
    EXPECT_EQ(part.microbatch.index, plan.index);
    std::vector<double> rewards;
    std::int64_t first = 0;
    for (std::size_t k = 0; k < plan.sequences.size(); ++k) {
      const std::int64_t i = plan.sequences[k];
      rewards.push_back(whole.rewards[i]);
      EXPECT_EQ(part.lengths[k], whole.lengths[i]);
      EXPECT_EQ(part.sample_mask[k], plan.dummy ? 0 : whole.sample_mask[i]);
      for (std::int64_t o = 0; o < whole.lengths[i]; ++o) {
        EXPECT_EQ(part.input_ids[first + o], whole.input_ids[whole.cu_seqlens[i] + o]);
        EXPECT_EQ(part.token_mask[first + o], whole.token_mask[whole.cu_seqlens[i] + o]);
        EXPECT_EQ(part.whole_row(first + o), whole.cu_seqlens[i] + o);
      }
      first += whole.lengths[i];
    }
    most = std::max<std::int64_t>(most, plan.sequences.size());
    const Denominators own = plain_counts(part, rewards);
    counts.valid_tokens += own.valid_tokens;
    counts.valid_sequences += own.valid_sequences;
    counts.positive_tokens += own.positive_tokens;
    counts.trained_sequences += own.trained_sequences;
    if (plan.dummy) return;
    sequences.insert(plan.sequences.begin(), plan.sequences.end());
    counts.all_sequences += own.all_sequences;
  }

  void expect_whole(const Problem& whole) const {
    std::multiset<std::int64_t> all;
    for (std::int64_t i = 0; i < whole.sequences(); ++i) all.insert(i);
    EXPECT_EQ(sequences, all);
    EXPECT_EQ(counts, whole.denominators);
  }
};

TEST(PlainTargets, PartsOverDpAndMicrobatchesCountTheWholeOnce) {
  std::mt19937 random(32);
  for_drawn_masks(60, [&](const Problem& problem) {
    const int dp = 1 + random() % 3;
    const std::int64_t unit = 1 + random() % 2;
    PlainUnion all;
    for (const auto& of_rank : partition(problem, dp, unit)) {
      ASSERT_EQ(of_rank.size(), static_cast<std::size_t>(problem.spec.microbatches));
      std::int64_t slots = 0;
      int index = 0;
      for (const MicrobatchPlan& plan : of_rank) {
        EXPECT_EQ(plan.index, index++);
        EXPECT_TRUE(std::is_sorted(plan.sequences.begin(), plan.sequences.end()));
        slots = std::max<std::int64_t>(slots, plan.sequences.size());
        for (const std::int64_t i : plan.sequences) {
          for (std::int64_t j = i / unit * unit; j < (i / unit + 1) * unit; ++j) {
            const auto held = std::count(plan.sequences.begin(), plan.sequences.end(), j);
            EXPECT_EQ(held, j < problem.sequences() ? 1 : 0);
          }
        }
        all.add(problem, plan, static_cast<int>(problem.spec.microbatches), dp);
      }
      for (const MicrobatchPlan& plan : of_rank) EXPECT_EQ(plan.slots, slots);
    }
    all.expect_whole(problem);
  });
}

TEST(PlainTargets, PartsOfADynamicGridCountTheWholeOnce) {
  std::mt19937 random(33);
  for_drawn_masks(60, [&](const Problem& problem) {
    const int cp = 1 + random() % 4;
    const int dp = 1 + random() % 3;
    const Grid grid = parse_grid(fmt::format("tp1cp{}dp{}:dynamic", cp, dp));
    std::int64_t most = 0;
    for (const std::int64_t length : problem.lengths) most = std::max(most, length);
    PlainUnion all;
    std::int64_t slots = 0;
    for (const MicrobatchPacks& microbatch : dynamic_partition(problem, grid, 1)) {
      ASSERT_EQ(static_cast<int>(microbatch.packs.size()) * microbatch.cp, cp * dp);
      std::int64_t longest = 0;
      for (const MicrobatchPlan& plan : microbatch.packs) {
        for (const std::int64_t i : plan.sequences) longest = std::max(longest, problem.lengths[i]);
        slots = plan.slots;
        all.add(problem, plan, static_cast<int>(problem.spec.microbatches), dp);
      }
      // B = ceil(most / (cp dp)); no rank has more tokens of a sequence, and no smaller size would
      // do.
      const double share = std::ceil(static_cast<double>(most) / (cp * dp));
      EXPECT_LE(std::ceil(static_cast<double>(longest) / microbatch.cp), share);
      for (int size = 1; size < microbatch.cp; ++size) {
        if (cp * dp % size != 0) continue;
        EXPECT_GT(std::ceil(static_cast<double>(longest) / size), share);
      }
    }
    EXPECT_EQ(slots, all.most);
    all.expect_whole(problem);
  });
}

/// The score of a sequence is in the row of its last token with a mask of 1, a first one too, and
/// about that token itself.
TEST(PlainTargets, ScoresAreAboutTheLastTokensWithAMask) {
  const std::string mask = "0110010000010111";
  const Problem problem =
      problem_of("head=score lens=5+4+2+1+4 sample_mask=11110 mask=01100+1000+00+1+0111");
  std::vector<std::uint8_t> scored(mask.size(), 0);
  std::vector<std::int32_t> own(problem.input_ids.begin(), problem.input_ids.end());
  std::int64_t first = 0;
  for (std::size_t i = 0; i < problem.lengths.size(); ++i) {
    for (std::int64_t t = first + problem.lengths[i] - 1; t >= first; --t) {
      if (mask[static_cast<std::size_t>(t)] == '0') continue;
      scored[t] = problem.sample_mask[i];
      break;
    }
    first += problem.lengths[i];
  }
  EXPECT_EQ(scored, (std::vector<std::uint8_t>{0, 0, 1, 0, 0, 1, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0}));
  EXPECT_EQ(problem.row_valid(), scored);
  EXPECT_EQ(problem.row_targets(), own);
  EXPECT_EQ(problem.denominators.valid_tokens, 3);
  const ShiftedBatch shifted = shift_targets(pack(problem, Grid{}));
  EXPECT_EQ(shifted.valid, scored);
  EXPECT_EQ(shifted.targets, own);
}

/// Groups of neighbours, of which the last may have fewer, and groups of packs.
TEST(PlainTargets, GroupsCountTheTokensOfTheirSequences) {
  for_drawn_masks(60, [&](const Problem& drawn_problem) {
    for (const int size : {1, 2, 3}) {
      Problem problem = problem_of(format_case(drawn_problem.spec));
      ObjectiveNeeds needs = kEverything;
      needs.group_size = size;
      const PlainDraw draw;
      draw_objective_inputs(problem, needs, &draw,
                            std::vector<double>(static_cast<std::size_t>(problem.tokens()), -1));
      std::vector<std::int64_t> tokens(problem.lengths.size(), 0);
      for (const PlainRow& row : plain_rows(problem)) {
        if (!row.counts) continue;
        for (std::size_t i = 0; i < tokens.size(); ++i) {
          tokens[i] += static_cast<std::int64_t>(i) / size == row.sequence / size ? 1 : 0;
        }
      }
      EXPECT_EQ(problem.group_tokens, tokens);
      std::int64_t trained = 0;
      std::int64_t groups = 0;
      for (std::size_t i = 0; i < tokens.size(); i += static_cast<std::size_t>(size)) {
        ++groups;
        trained += tokens[i] > 0 ? 1 : 0;
      }
      EXPECT_EQ(problem.denominators.all_groups, groups);
      EXPECT_EQ(problem.denominators.trained_groups, trained);
    }
  });
}

}  // namespace
}  // namespace lossgrid
