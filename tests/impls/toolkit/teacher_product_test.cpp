// SPDX-License-Identifier: Apache-2.0
// Distillation from a teacher that is given as hidden states and a weight: every implementation, in
// one chunk and in several, on the processor and with the emulated kernels of GPUs; and the memory
// that its logits take.
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harness/planner/plan/plan.h"
#include "harness/runner/run.h"
#include "trial_fixture.h"

namespace lossgrid {
namespace {

struct TaughtCase {
  const char* name;
  const char* text;
};

class TeacherOfHidden : public ::testing::TestWithParam<TaughtCase> {};

std::vector<Grid> taught_grids() {
  if (kSanitized) return {{1, 1}, {2, 2}, {.tp = 2, .sp = true}};
  return {{1, 1},    {2, 1},
          {3, 1},    {1, 2},
          {2, 2},    {.tp = 2, .sp = true},
          {1, 2, 2}, {.tp = 2, .cp = 2, .sp = true}};
}

TEST_P(TeacherOfHidden, EveryImplementationPasses) {
  const PreparedProblem prepared = prepare(make_problem(parse_case(GetParam().text)));
  std::vector<std::string> names = default_implementations(prepared.problem->spec.hidden > 0);
  for (const std::string& name : std::vector<std::string>(names)) {
    if (name == "fused" || name.starts_with("linear_ce")) names.push_back(name + ":chunk_tokens=3");
    if (name == "one_sweep") names.push_back(name + ":block_tokens=3");
  }
  for (const Backend backend : {Backend::cpu, Backend::cuda_emulated}) {
    for (const std::string& name : names) {
      for (const Grid& grid : taught_grids()) {
        // Queues of many launches take memory from the heap, with a teacher or without one.
        const bool is_chunked = name.ends_with("=3");
        if (backend == Backend::cuda_emulated && (is_chunked || grid.dp > 1)) continue;
        const TrialRecord record =
            run_trial(make_trial(prepared, name, grid, backend), std::chrono::seconds(60)).record;
        EXPECT_EQ(record.status, TrialStatus::passed) << record.reason << "\n" << record.reproduce;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, TeacherOfHidden,
    ::testing::Values(
        TaughtCase{"forward", "objective=distill lens=9+14+2+7 vocab=41 teacher_hidden=12"},
        TaughtCase{"jsd",
                   "objective=distill objective.kl_type=jsd lens=9+14+2+7 vocab=10 "
                   "teacher_hidden=5 temperature=0.7 poison=inf values=peaked"},
        TaughtCase{"reverse_bf16",
                   "objective=distill objective.kl_type=reverse lens=9+14+5 vocab=41 "
                   "teacher_hidden=7 dtype=bf16 microbatches=2"},
        TaughtCase{"f64",
                   "objective=distill lens=9+14+5 vocab=41 teacher_hidden=7 dtype=f64 "
                   "sequence_temperatures=true"},
        TaughtCase{"hidden",
                   "objective=distill objective.kl_type=mixed lens=9+14+5 vocab=41 hidden=6 "
                   "teacher_hidden=11 temperature=0.8 weight_layout=hidden_vocab"},
        TaughtCase{"hidden_bf16",
                   "objective=distill objective.kl_type=jsd lens=9+14+5 vocab=41 hidden=12 "
                   "teacher_hidden=3 dtype=bf16 logit_softcap=3 sequence_temperatures=true"}),
    [](const auto& info) { return std::string(info.param.name); });

/// More rows than a chunk of the processor has.
TEST(TeacherOfHidden, PassesInSeveralChunks) {
  const PreparedProblem prepared = prepare(make_problem(
      parse_case("objective=distill lens=301+260 vocab=7 teacher_hidden=3 statistics=false")));
  for (const char* name : {"per_sequence", "fused", "cp_gather_logits", "cp_local", "one_sweep"}) {
    for (const Grid& grid : {Grid{1, 1}, Grid{2, 2}}) {
      const TrialRecord record =
          run_trial(make_trial(prepared, name, grid), std::chrono::seconds(60)).record;
      EXPECT_EQ(record.status, TrialStatus::passed) << record.reason << "\n" << record.reproduce;
    }
  }
}

std::int64_t workspace(const std::string& text, const char* implementation) {
  return plan_trial(parse_case(text), {1, 1}, implementation).phases[1].workspace_bytes;
}

/// Only a chunk of its logits is ever there, of 256 rows where the strategy has no chunks.
TEST(TeacherOfHidden, HasLogitsOfAChunk) {
  const std::string of_logits = "objective=distill lens=4096 vocab=1024";
  const std::string of_hidden = of_logits + " teacher_hidden=8";
  constexpr std::int64_t kRow = 4 * 1024;           // logits
  constexpr std::int64_t kRows = 4096 * 4;          // places of the rows
  constexpr std::int64_t kWorkspace = 1024 * 1024;  // more than products need
  const auto added = [&](const char* name, const char* student) {
    return workspace(of_hidden + student, name) - workspace(of_logits + student, name);
  };
  EXPECT_EQ(added("cp_local", ""), 256 * (kRow + 4 * 8) + kRows);
  EXPECT_EQ(added("fused", ""), 256 * (kRow + 4 * 8) + kRows);
  EXPECT_EQ(added("fused:chunk_tokens=3", ""), 3 * (kRow + 4 * 8) + kRows);
  EXPECT_EQ(added("linear_ce:chunk_tokens=7", " hidden=8"), 7 * (kRow + 4 * 8) + kRows);
  EXPECT_LT(added("linear_materialized", " hidden=8"), 256 * (kRow + 4 * 8) + kRows + kWorkspace);
}

TEST(TeacherOfHidden, CountsItsProducts) {
  const auto flops = [](const char* implementation, const char* student) {
    const PlanRow row = plan_trial(
        parse_case(std::string("objective=distill lens=64 vocab=32 teacher_hidden=8") + student),
        {2, 1}, implementation);
    return std::vector<std::int64_t>{row.phases[1].flops, row.phases[2].flops};
  };
  const std::int64_t product = std::int64_t{2} * 64 * 16 * 8;
  const std::int64_t of_student = std::int64_t{2} * 64 * 16 * 4;
  EXPECT_EQ(flops("fused", ""), (std::vector<std::int64_t>{product, product}));
  EXPECT_EQ(flops("cp_local", ""), (std::vector<std::int64_t>{product, product}));
  EXPECT_EQ(flops("one_sweep", ""), (std::vector<std::int64_t>{product, 0}));
  EXPECT_EQ(flops("linear_ce", " hidden=4"),
            (std::vector<std::int64_t>{product + of_student, product + 3 * of_student}));
  EXPECT_EQ(flops("linear_materialized", " hidden=4"),
            (std::vector<std::int64_t>{product + of_student, product + 2 * of_student}));
}

TEST(TeacherOfHidden, HasLogitsOfAllIds) {
  try {
    make_problem(parse_case("objective=distill lens=5 vocab=9 teacher_hidden=4 teacher_topk=3"));
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), ::testing::HasSubstr("hidden states make logits of all ids"));
  }
  EXPECT_THROW(
      prepare(make_problem(parse_case("objective=distill objective.loss_mode=forward_kl_topk "
                                      "lens=5 vocab=9 teacher_hidden=4"))),
      Error);
}

}  // namespace
}  // namespace lossgrid
