// SPDX-License-Identifier: Apache-2.0
// Hidden states and weight of a teacher as ranks are given them.
#include <array>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "harness/problem/batch/partition.h"
#include "harness/problem/batch/problem.h"
#include "harness/problem/batch/sharding.h"
#include "problem_of.h"

namespace lossgrid {
namespace {

constexpr std::array<Grid, 8> kTeacherGrids{
    {{1, 1}, {2, 1}, {1, 2}, {4, 2}, {3, 3}, {2, 1, 1, true}, {2, 2, 1, true}, {3, 3, 1, true}}};

/// A teacher's are cut as those of the student are, whatever their size.
TEST(TeacherShard, IsThatOfAStudentWithTheSameNumbers) {
  const std::string text =
      "objective=distill lens=5+8+0+1+6 sample_mask=11110 bin_multiple=20 vocab=11 hidden=5 "
      "teacher_hidden=9 ";
  for (const char* more : {"poison=nan", "poison=inf dtype=bf16", "weight_layout=hidden_vocab"}) {
    Problem problem = problem_of(text + more);
    draw_teacher(problem);
    Problem student = problem;
    student.projection = problem.teacher_projection;
    student.spec.weight_layout = WeightLayout::vocab_hidden;
    for (const Grid& grid : kTeacherGrids) {
      SCOPED_TRACE(format_grid(grid));
      const std::int64_t rows = layout_of(problem, grid).padded_tokens() / grid.cp;
      const std::size_t bytes = size_of(problem.teacher_dtype) * 9;
      std::vector<std::byte> wanted(bytes * static_cast<std::size_t>(rows / grid.row_parts()));
      std::vector<std::byte> got = wanted;
      const auto columns = static_cast<std::size_t>(vocab_shard(11, grid.tp, 0).width);
      std::vector<std::byte> wanted_weight(bytes * columns);
      std::vector<std::byte> got_weight = wanted_weight;
      for (int tp_rank = 0; tp_rank < grid.tp; ++tp_rank) {
        for (int cp_rank = 0; cp_rank < grid.cp; ++cp_rank) {
          fill_hidden_shard(student, grid, tp_rank, cp_rank, wanted.data());
          fill_teacher_hidden_shard(problem, grid, tp_rank, cp_rank, got.data());
          EXPECT_EQ(got, wanted) << tp_rank << ' ' << cp_rank;
        }
        fill_weight_shard(student, grid, tp_rank, wanted_weight.data());
        fill_teacher_weight_shard(problem, grid, tp_rank, got_weight.data());
        EXPECT_EQ(got_weight, wanted_weight) << tp_rank;
      }
    }
  }
}

TEST(TeacherShard, HoldsTheRowsOfItsPart) {
  Problem problem = problem_of(
      "objective=distill lens=5+8+3+6 vocab=11 teacher_hidden=4 microbatches=2 poison=none");
  draw_teacher(problem);
  const auto plans = partition(problem, 1, 1);
  for (const MicrobatchPlan& plan : plans[0]) {
    const Problem part = take_part(problem, plan, 2, 1);
    std::vector<float> rows(static_cast<std::size_t>(part.tokens()) * 4);
    fill_teacher_hidden_shard(part, {1, 1}, 0, 0, rows.data());
    for (std::int64_t t = 0; t < part.tokens(); ++t) {
      const float* wanted = problem.teacher_projection->hidden_row(part.whole_row(t));
      for (std::int64_t k = 0; k < 4; ++k)
        EXPECT_EQ(rows[static_cast<std::size_t>(4 * t + k)], wanted[k]);
    }
  }
}

TEST(TeacherShard, ATeacherIsDrawnApartFromTheStudent) {
  Problem problem = problem_of("objective=distill lens=5+8 vocab=11 hidden=4 teacher_hidden=4");
  draw_teacher(problem);
  EXPECT_NE(problem.teacher_projection->hidden, problem.projection->hidden);
  EXPECT_NE(problem.teacher_projection->weight, problem.projection->weight);
  EXPECT_FALSE(problem.teacher->given());
  EXPECT_GT(problem.teacher->relative_error(), 0);
}

}  // namespace
}  // namespace lossgrid
