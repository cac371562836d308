// SPDX-License-Identifier: Apache-2.0
// Trials with the kernels of GPUs, emulated on the processor, and on a GPU if there is one. Right
// implementations pass, wrong ones fail.
#include <cstdlib>
#include <filesystem>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harness/core/error.h"
#include "harness/problem/bundle/bundle.h"
#include "harness/problem/case/case_sweep.h"
#include "harness/runner/mutation.h"
#include "harness/runner/trial/trial.h"
#include "impls/kernels/product_rows.h"

namespace lossgrid {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

/// Returns the folder of sources, or the one that stands for it where the tests were brought.
std::string source_folder() {
  const char* given = std::getenv("LOSSGRID_SOURCE_DIR");
  return given != nullptr ? given : LOSSGRID_SOURCE_DIR;
}

class BackendTrials : public ::testing::TestWithParam<Backend> {
 protected:
  void SetUp() override {
    const std::string reason = text_of(no_device(GetParam()));
    if (!reason.empty()) GTEST_SKIP() << "needs a GPU: " << reason;
  }

  static TrialRecord run(const PreparedProblem& prepared, const std::string& implementation,
                         const std::string& grid) {
    const TrialSetup setup = make_trial(prepared, implementation, parse_grid(grid), GetParam());
    return run_trial(setup, std::chrono::seconds(60)).record;
  }
  static PreparedProblem prepare_case(const std::string& text) {
    return prepare(make_problem(parse_case(text)));
  }
};

TEST_P(BackendTrials, GoldenBundlesPass) {
  for (const auto& file : fs::directory_iterator(source_folder() + "/tests/golden")) {
    Bundle bundle = read_bundle(file.path().string());
    const PreparedProblem prepared = prepare(std::move(bundle.problem));
    const bool from_hidden = prepared.problem->spec.hidden > 0;
    std::vector<std::string> names = default_implementations(from_hidden);
    if (!from_hidden) names.insert(names.end(), {"one_sweep", "one_sweep:in_place=true"});
    for (const std::string& name : names) {
      TrialSetup setup = make_trial(prepared, name, {2, 2}, GetParam());
      setup.keep_outputs = true;
      const TrialOutcome trial = run_trial(setup, std::chrono::seconds(60));
      if (trial.record.status == TrialStatus::skipped) continue;  // one_sweep, some objectives
      EXPECT_EQ(trial.record.status, TrialStatus::passed)
          << file.path() << " " << name << ": " << trial.record.reason;
      ASSERT_TRUE(trial.outputs.has_value());
      for (const Check& check : check_outputs(setup, *bundle.expected, *trial.outputs)) {
        EXPECT_TRUE(check.passed()) << file.path() << " " << name << " " << check.name();
      }
    }
  }
}

/// Rows that begin anywhere, shards of unequal width, several turns of a block, all statistics.
TEST_P(BackendTrials, ShapesThatDivideNothing) {
  for (const char* text :
       {"lens=5+8+3 vocab=24", "lens=5+1+7 vocab=1031", "lens=5+1+7 vocab=1031 dtype=bf16",
        "lens=3+2 vocab=40009 statistics=false", "lens=3+2 vocab=70001 dtype=bf16 statistics=false",
        "lens=3+2 vocab=515 dtype=f64"}) {
    const PreparedProblem prepared = prepare_case(text);
    for (const char* name : {"per_sequence", "fused:chunk_tokens=3", "cp_local", "one_sweep"}) {
      for (const char* grid : {"tp3cp1", "tp1cp2"}) {
        const TrialRecord record = run(prepared, name, grid);
        EXPECT_THAT(record.status, testing::AnyOf(TrialStatus::passed, TrialStatus::skipped))
            << text << " " << name << " " << grid << ": " << record.reason;
      }
    }
  }
}

/// A block of a GPU adds up 16 partial totals of 512 rows at once.
TEST_P(BackendTrials, MoreRowsThanPartialTotalsPass) {
  for (const char* text :
       {"lens=8300 mask=all vocab=2", "objective=clipped_pg lens=8200+100 vocab=2"}) {
    const PreparedProblem prepared = prepare_case(text);
    for (const char* name : {"fused", "cp_local"}) {
      const TrialRecord record = run(prepared, name, "tp1cp1");
      EXPECT_EQ(record.status, TrialStatus::passed) << text << " " << name << ": " << record.reason;
    }
  }
}

/// Statistics in the product, which never writes its logits: tiles that are not full, several of a
/// row, shards that begin within one, chunks, sequence parallelism. Rows of an odd vocabulary.
TEST_P(BackendTrials, ProductsByTilesPass) {
  for (const char* text :
       {"lens=5+8+3 vocab=24 hidden=16 dtype=bf16 statistics=false",
        "lens=150+70+3 vocab=1031 hidden=24 dtype=bf16 statistics=false mask=all",
        "lens=64+3 vocab=259 hidden=8 dtype=bf16 statistics=false temperature=0.7 values=peaked",
        "lens=9+14+5 vocab=10 hidden=8 dtype=bf16 statistics=false targets=shard_edges poison=inf",
        "lens=9+14+5 vocab=515 hidden=8 dtype=bf16 statistics=false values=overflow",
        "lens=9+14+5+2 vocab=300 hidden=72 dtype=bf16 statistics=false objective=dpo cu=padded"}) {
    const PreparedProblem prepared = prepare_case(text);
    for (const char* name : {"linear_ce:forward=tiles", "linear_ce:forward=tiles:chunk_tokens=7",
                             "linear_ce:chunk_tokens=5"}) {
      for (const char* grid : {"tp1cp1", "tp3cp1", "tp2cp2sp"}) {
        const TrialRecord record = run(prepared, name, grid);
        const bool lacks_kernels =
            record.status == TrialStatus::skipped && no_product_statistics(GetParam()).has_value();
        EXPECT_TRUE(record.status == TrialStatus::passed || lacks_kernels)
            << text << " " << name << " " << grid << ": " << record.reason;
      }
    }
  }
}

TEST_P(BackendTrials, EveryRegimePasses) {
  for (const CaseSpec& spec : parse_sweep(
           "lens=5+8+3 vocab=131 values=[normal,flat,peaked,all_negative,offset,overflow,ties,"
           "masked_vocab,edge_mass,vanishing,denormal,finite_mask,late_max,lowest_mask,far_offset,"
           "buried_target,impossible_target]")) {
    const TrialRecord record = run(prepare(make_problem(spec)), "fused", "tp2cp2");
    EXPECT_EQ(record.status, TrialStatus::passed) << format_case(spec) << ": " << record.reason;
  }
}

/// The loop over sequences costs more than one pass: kernels for each sequence, and a wait for each
/// communication of the host.
TEST_P(BackendTrials, LaunchesAndWaitsAreCounted) {
  const PreparedProblem prepared = prepare_case("lens=5+8+3 vocab=24");
  const auto work = [&](const std::string& implementation, std::size_t phase) {
    const PhaseTimeRecord time = run(prepared, implementation, "tp2cp1").times.at(phase);
    return std::pair(time.kernel_launches, time.host_synchronisations);
  };
  EXPECT_EQ(work("fused", 0), std::pair(0L, 0L));
  // Statistics, minima negated, merge, outputs, scatter, sums of sequences, terms and totals of the
  // objective and of the statistics of the step; waits for the gather over TP and for the loss.
  EXPECT_EQ(work("fused", 1), std::pair(10L, 2L));
  EXPECT_EQ(work("fused", 2), std::pair(2L, 1L));  // rows picked, gradient
  EXPECT_EQ(work("per_sequence", 1), std::pair(3 * 11L, 3 * 2 + 1L));
  EXPECT_EQ(work("per_sequence", 2), std::pair(3 * 3L, 1L));
  const PreparedProblem of_head = prepare_case("lens=5+8+3 vocab=24 hidden=8");
  const TrialRecord linear = run(of_head, "linear_ce:chunk_tokens=8", "tp1cp1");
  // Two chunks: rows gathered, product, statistics. Then outputs and the objective, as in fused.
  EXPECT_EQ(linear.times.at(1).kernel_launches, 2 * 3 + 6);
  EXPECT_EQ(linear.times.at(1).host_synchronisations, 1);
  // Rows gathered, product, gradient, product, rows cleared, product.
  EXPECT_EQ(linear.times.at(2).kernel_launches, 2 * 6);
  EXPECT_EQ(linear.times.at(2).host_synchronisations, 1);
  // Rows gathered, product by tiles, their merge.
  const PreparedProblem rounded =
      prepare_case("lens=5+8+3 vocab=24 hidden=8 dtype=bf16 statistics=false");
  const TrialRecord tiled = run(rounded, "linear_ce:chunk_tokens=8:forward=tiles", "tp1cp1");
  if (tiled.status == TrialStatus::skipped) return;
  const TrialRecord stored = run(rounded, "linear_ce:chunk_tokens=8", "tp1cp1");
  EXPECT_EQ(tiled.times.at(1).kernel_launches, stored.times.at(1).kernel_launches);
}

TEST_P(BackendTrials, RecordsNameTheirBackend) {
  const TrialRecord record = run(prepare_case("lens=5 vocab=24"), "fused", "tp1cp1");
  const std::string backend(name(GetParam()));
  EXPECT_EQ(record.backend, backend);
  EXPECT_TRUE(record.id.ends_with("|" + backend)) << record.id;
  EXPECT_THAT(record.reproduce, HasSubstr("--backend " + backend));
}

TEST_P(BackendTrials, WrongImplementationsAreRejectedAndControlsAreNot) {
  Suite suite = read_suite(source_folder() + "/cases/smoke.json");
  suite.backend = GetParam();
  ProblemCache problems;
  const std::vector<std::string> names{"mutant/gradient_times_cp", "mutant/max_not_reduced",
                                       "mutant/no_softmax_term", "control/saved_lse_gradient"};
  std::vector<MutantRecord> records;
  run_mutants({suite}, names, RunOptions(), problems,
              [&](const MutantRecord& record) { records.push_back(record); });
  ASSERT_EQ(records.size(), names.size());
  for (const MutantRecord& record : records) {
    EXPECT_EQ(record.rejected, !record.is_control) << record.name;
  }
}

std::string backend_name(const testing::TestParamInfo<Backend>& info) {
  return std::string(name(info.param));
}

INSTANTIATE_TEST_SUITE_P(Gpu, BackendTrials, testing::Values(Backend::cuda_emulated, Backend::cuda),
                         backend_name);

}  // namespace
}  // namespace lossgrid
