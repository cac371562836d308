// SPDX-License-Identifier: Apache-2.0
// Plans against numbers by hand, against the record of a run, and their inverse.
#include "harness/planner/plan/plan.h"

#include <algorithm>
#include <map>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harness/core/error.h"
#include "harness/runner/job/problem_cache.h"
#include "harness/runner/run.h"
#include "harness/runner/trial/trial.h"

namespace lossgrid {
namespace {

using ::testing::HasSubstr;

PlanRow plan(const std::string& case_text, const std::string& implementation,
             const Grid& grid = {}) {
  return plan_trial(parse_case(case_text), grid, implementation);
}

std::string error_of(const std::function<void()>& f) {
  try {
    f();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::bad_input) << error.what();
    return error.what();
  }
  return "no error";
}

TEST(Plan, NumbersByHand) {
  // Sequences of 5 and 8 are padded to 8: T_pad = 16, T_c = 8, V_t = 12.
  const PlanRow row =
      plan("lens=5+8 vocab=24 mask=all statistics=false", "cp_local", {.tp = 2, .cp = 2});
  EXPECT_EQ(row.skipped, "");
  EXPECT_EQ(row.tokens, 13);
  EXPECT_EQ(row.padded_tokens, 16);
  EXPECT_EQ(row.inputs_bytes, 8 * 12 * 4);
  EXPECT_EQ(row.gradients_bytes, 8 * 12 * 4);
  EXPECT_EQ(row.outputs_bytes, 8 * 4);
  // Target 4, valid 1, real 1, sequence 4; shift, target's logit and sum, own and of both ranks;
  // d loss / d logprob; loss and count; vocab shards of both ranks.
  const std::int64_t workspace = 8 * (10 + 3 * 12 + 4) + 2 * 8 + 2 * 24;
  EXPECT_EQ(row.phases[0].name, "plan");
  EXPECT_EQ(row.phases[0].peak_bytes, 384 + workspace);
  EXPECT_EQ(row.phases[1].peak_bytes, 384 + workspace + 32);
  EXPECT_EQ(row.phases[2].name, "backward");
  EXPECT_EQ(row.phases[2].workspace_bytes, workspace);
  EXPECT_EQ(row.phases[2].held_bytes, 32 + 384);
  EXPECT_EQ(row.peak_bytes(), 384 + workspace + 32 + 384);
  EXPECT_EQ(row.peak_phase().name, "backward");
  ASSERT_EQ(row.collectives.size(), 2u);
  EXPECT_EQ(row.collectives[0].group, "tp");
  EXPECT_EQ(row.collectives[0].count, (CollectiveCount{1, 12 * 8}));
  EXPECT_EQ(row.collectives[0].wire_bytes, 12 * 8);  // (n - 1) M with n = 2
  EXPECT_EQ(row.collectives[1].group, "cp");
  EXPECT_EQ(row.collectives[1].count, (CollectiveCount{1, 16}));
  for (const PlannedPhase& phase : row.phases) EXPECT_EQ(phase.flops, 0);
}

TEST(Plan, FromHiddenStatesByHand) {
  // T_pad = 16, T_c = 8 on each CP rank, and with SP 4 on each TP rank; V_t = 12, H = 6.
  const PlanRow row = plan("lens=5+8 vocab=24 hidden=6 dtype=bf16", "linear_ce:bf16_gemm=converted",
                           {.tp = 2, .cp = 2, .dp = 1, .sp = true});
  EXPECT_EQ(row.inputs_bytes, 2 * (4 * 6 + 12 * 6));
  EXPECT_EQ(row.gradients_bytes, 2 * 4 * 6 + 4 * 12 * 6);  // the weight's in float32
  EXPECT_EQ(row.outputs_bytes, 4 * 8 * 4);
  // One product forward; the logits again, d hidden and d weight backward.
  EXPECT_EQ(row.phases[1].flops, 2 * 8 * 12 * 6);
  EXPECT_EQ(row.phases[2].flops, 3 * 2 * 8 * 12 * 6);
  EXPECT_EQ(row.chunks, 1);
}

TEST(Plan, WireBytesOfRings) {
  EXPECT_EQ(ring_wire_bytes(Collective::all_reduce, 1, 100), 0);
  EXPECT_EQ(ring_wire_bytes(Collective::all_reduce, 4, 100), 150);
  EXPECT_EQ(ring_wire_bytes(Collective::all_reduce, 3, 100), 134);  // 133.3
  EXPECT_EQ(ring_wire_bytes(Collective::all_gather, 4, 100), 300);
  EXPECT_EQ(ring_wire_bytes(Collective::reduce_scatter, 4, 100), 75);
  EXPECT_EQ(ring_wire_bytes(Collective::broadcast, 4, 100), 100);
  EXPECT_EQ(ring_wire_bytes(Collective::barrier, 4, 0), 0);
}

using Communication = std::map<std::string, std::pair<std::int64_t, std::int64_t>>;

Communication communication_of(const TrialRecord& record) {
  Communication out;
  for (const CommunicationRecord& row : record.communication) {
    if (row.group == "dp" || row.predicted_calls == 0) continue;
    out[row.phase + " " + row.group + " " + row.operation] = {*row.predicted_calls,
                                                              *row.predicted_payload_bytes};
  }
  return out;
}

Communication communication_of(const PlanRow& row) {
  Communication out;
  for (const PlannedCollective& planned : row.collectives) {
    out[planned.phase + " " + planned.group + " " + std::string(name(planned.operation))] = {
        planned.count.calls, planned.count.payload_bytes};
  }
  return out;
}

/// Expects the predictions of the plan to be those of a run, and the peak the measured one.
void expect_as_run(const std::string& case_text, const std::string& implementation,
                   const Grid& grid) {
  SCOPED_TRACE(case_text + " " + implementation + " " + format_grid(grid));
  const PlanRow row = plan(case_text, implementation, grid);
  const PreparedProblem prepared = prepare(make_problem(parse_case(case_text)));
  const TrialRecord record =
      run_trial(make_trial(prepared, implementation, grid), std::chrono::seconds(60)).record;
  if (record.status == TrialStatus::skipped) {
    EXPECT_EQ(row.skipped, record.reason);
    return;
  }
  ASSERT_EQ(row.skipped, "");
  ASSERT_EQ(record.status, TrialStatus::passed) << record.reason;
  EXPECT_EQ(row.tokens, record.tokens);
  EXPECT_EQ(row.padded_tokens, record.padded_tokens);
  ASSERT_EQ(record.memory.size(), 3u * static_cast<std::size_t>(grid.ranks()));
  for (const PhaseMemoryRecord& memory : record.memory) {
    const auto phase =
        std::find_if(row.phases.begin(), row.phases.end(),
                     [&](const PlannedPhase& planned) { return planned.name == memory.phase; });
    ASSERT_NE(phase, row.phases.end()) << memory.phase;
    EXPECT_EQ(phase->workspace_bytes + phase->held_bytes, memory.predicted_peak_bytes)
        << "rank " << memory.rank << ' ' << memory.phase;
    EXPECT_EQ(phase->peak_bytes, memory.measured_peak_with_inputs_bytes)
        << "rank " << memory.rank << ' ' << memory.phase;
  }
  EXPECT_EQ(communication_of(row), communication_of(record));
}

TEST(Plan, IsWhatARunPredictsAndMeasures) {
  const std::vector<Grid> grids{{}, {2, 1}, {1, 2}, {3, 2}};
  for (const std::string& implementation : default_implementations(false)) {
    for (const Grid& grid : grids) {
      expect_as_run("lens=5+8+1 vocab=23", implementation, grid);
      expect_as_run("objective=clipped_pg lens=5+8+1 vocab=23 statistics=false cu=padded",
                    implementation, grid);
    }
    expect_as_run("objective=dpo lens=5+8+0+3 vocab=23 dtype=bf16 pad_multiple=3", implementation,
                  {2, 2});
    expect_as_run("lens=5+8+1 vocab=23 top_k=20 filtered_targets=zero", implementation, {2, 2});
    expect_as_run("objective=distill lens=5+8+1 vocab=23 teacher_topk=20", implementation, {2, 2});
  }
  expect_as_run("lens=50+8+1 vocab=23", "fused:chunk_tokens=7", {2, 2});
  expect_as_run("lens=5+8+1 vocab=23", "one_sweep:in_place=true", {2, 2});
}

TEST(Plan, IsWhatARunFromHiddenStatesPredictsAndMeasures) {
  for (const std::string& implementation : default_implementations(true)) {
    for (const Grid& grid : {Grid{}, Grid{2, 2}, Grid{3, 1, 1, true}, Grid{2, 2, 1, true}}) {
      expect_as_run("lens=5+8+1 vocab=23 hidden=6", implementation, grid);
      expect_as_run("objective=clipped_pg lens=5+8+1 vocab=23 hidden=6 dtype=bf16", implementation,
                    grid);
      expect_as_run("lens=5+8+1 vocab=23 hidden=6 top_p=0.9", implementation, grid);
    }
  }
}

TEST(Plan, SkipsCasesThatAnImplementationDoesNotTake) {
  EXPECT_EQ(plan("lens=8 vocab=24 hidden=4", "fused").skipped,
            "takes logits; the case starts from hidden states");
  EXPECT_EQ(plan("lens=8 vocab=24", "linear_ce").skipped,
            "takes hidden states; the case starts from logits");
}

TEST(Plan, RefusesWhatARunRefuses) {
  const auto error = [](const std::string& case_text, const Grid& grid = {}) {
    return error_of([&] { plan(case_text, "reference", grid); });
  };
  EXPECT_THAT(error("lens=8 vocab=4", {.tp = 5}), HasSubstr("exceeds the vocabulary"));
  EXPECT_THAT(error("lens=8 vocab=24 top_k=25"), HasSubstr("top_k = 25"));
  EXPECT_THAT(error("lens=8 seqs=9"), HasSubstr("belong to a distribution"));
  EXPECT_THAT(error("lens=8+4 mask=01101100+011"), HasSubstr("has 3 bits"));
  EXPECT_THAT(error("lens=8+4 sample_mask=101"), HasSubstr("sample_mask"));
  EXPECT_THAT(error("lens=8+4+2 objective=dpo"), HasSubstr("no partner"));
  EXPECT_THAT(error("lens=8 temperature=0"), HasSubstr("temperature"));
  EXPECT_THAT(error("lens=8 hidden=4 dtype=f64"), HasSubstr("f64"));
  EXPECT_THAT(error("lens=2147483647 vocab=2147483647"), HasSubstr("exceeds 2^62"));
  EXPECT_THAT(error("lens=2147483647 vocab=1000 hidden=16777216"), HasSubstr("exceeds 2^62"));
  EXPECT_THAT(error_of([] { plan("lens=8", "fusd"); }), HasSubstr("did you mean 'fused'"));
}

TEST(Plan, LargeCasesAreOnlyLaidOut) {
  // 2^30 tokens: arrays by token would take gigabytes.
  const PlanRow row = plan("lens=1073741824 vocab=1000 objective=clipped_pg", "cp_local", {1, 4});
  EXPECT_EQ(row.inputs_bytes, (std::int64_t{1} << 28) * 1000 * 4);
}

// --- against published figures -------------------------------------------------------------------

TEST(Plan, LogitsOf128KTokensTake37GiB) {
  // AReaL #1223: "128K x 151,936 x bf16 = 37 GiB"; 37.09 GiB.
  const PlanRow row = plan("lens=131072 vocab=151936 dtype=bf16", "fused");
  EXPECT_EQ(row.inputs_bytes, std::int64_t{2} * 131072 * 151936);
  EXPECT_NEAR(static_cast<double>(row.inputs_bytes) / 0x1p30, 37.09, 0.005);
}

TEST(Plan, HasTheCostOfGatheringLogitsOverContextParallelism) {
  // AReaL #1223, 16K tokens on tp2 cp4. cp_gather_logits receives the pack once, b V_t T, in the
  // order of the ranks, and computes on it as it is. AReaL reassembles it in a second tensor, but
  // has its own shard already: b V_t T (2 - 1 / cp), 4.06 GiB of the 4 to 5 GB that it saved. The
  // difference of our two strategies is therefore 1 / 1.75 of that, and below 3.5 GB.
  const std::string text = "lens=16384 vocab=151936 dtype=bf16";
  const Grid grid{.tp = 2, .cp = 4};
  const std::int64_t saved = plan(text, "cp_gather_logits", grid).phases[2].workspace_bytes -
                             plan(text, "cp_local", grid).phases[2].workspace_bytes;
  const std::int64_t pack = std::int64_t{2} * 75968 * 16384;
  EXPECT_GE(saved, pack);
  EXPECT_LT(static_cast<double>(saved), 1.001 * static_cast<double>(pack));  // tables by row
  EXPECT_NEAR(static_cast<double>(saved) * 1e-9, 2.49, 0.005);
}

// --- the largest case that fits -----------------------------------------------------------------

TEST(Fit, PeaksNeverFallWithTheKey) {
  for (const char* implementation : {"reference", "per_sequence", "fused:chunk_tokens=7"}) {
    std::int64_t last = 0;
    for (int value = 0; value < 60; ++value) {
      const PlanRow row = plan("lens=lognormal vocab=24 seq_len=" + std::to_string(value),
                               implementation, {.tp = 2, .cp = 2});
      EXPECT_GE(row.peak_bytes(), last) << implementation << ' ' << value;
      last = row.peak_bytes();
    }
    last = 0;
    for (int value = 0; value < 60; ++value) {
      const PlanRow row = plan("lens=uniform vocab=24 seq_len=9 seqs=" + std::to_string(value),
                               implementation, {.tp = 2, .cp = 2});
      EXPECT_GE(row.peak_bytes(), last) << implementation << ' ' << value;
      last = row.peak_bytes();
    }
  }
}

/// Expects that the value fits and the next one of the key does not.
void expect_largest(const std::string& case_text, const std::string& key, std::int64_t step,
                    const std::string& implementation, const Grid& grid, FitKey fit_key,
                    std::int64_t limit) {
  SCOPED_TRACE(case_text + " " + implementation + " " + format_grid(grid));
  const Fit fit = fit_case(parse_case(case_text), grid, implementation, fit_key, limit);
  EXPECT_EQ(fit.key, key);
  EXPECT_EQ(fit.reason, "");
  EXPECT_FALSE(fit.at_least);
  ASSERT_GT(fit.value, 0);
  EXPECT_LE(fit.row.peak_bytes(), limit);
  const auto peak_at = [&](std::int64_t value) {
    const std::string base = key == "lens" ? case_text.substr(case_text.find(' ') + 1) : case_text;
    return plan(base + " " + key + "=" + std::to_string(value), implementation, grid).peak_bytes();
  };
  EXPECT_EQ(peak_at(fit.value), fit.row.peak_bytes());
  EXPECT_GT(peak_at(fit.value + step), limit);
}

TEST(Fit, FindsTheLargest) {
  const std::int64_t mb = 1'000'000;
  for (const std::string& implementation : default_implementations(false)) {
    for (const Grid& grid : {Grid{}, Grid{2, 4}}) {
      expect_largest("vocab=101", "seq_len", 1, implementation, grid, FitKey::seq_len, 3 * mb);
      expect_largest("lens=9 vocab=101", "lens", 1, implementation, grid, FitKey::seq_len, 3 * mb);
      expect_largest("seq_len=33 vocab=101", "seqs", 1, implementation, grid, FitKey::seqs, 3 * mb);
    }
  }
  for (const std::string& implementation : default_implementations(true)) {
    expect_largest("lens=9 vocab=101 hidden=7", "lens", 1, implementation, {2, 1, 1, true},
                   FitKey::seq_len, 3 * mb);
  }
  // Pairs stay together.
  expect_largest("objective=dpo seq_len=33 vocab=101", "seqs", 2, "cp_local", {}, FitKey::seqs,
                 3 * mb);
}

TEST(Fit, ExactlyTheLimitFits) {
  const std::int64_t peak = plan("lens=40 vocab=24", "cp_local").peak_bytes();
  const auto value = [&](std::int64_t limit) {
    return fit_case(parse_case("lens=1 vocab=24"), {}, "cp_local", FitKey::seq_len, limit).value;
  };
  EXPECT_EQ(value(peak), 40);
  EXPECT_EQ(value(peak - 1), 39);
}

TEST(Fit, HasAReasonIfNothingFits) {
  const CaseSpec spec = parse_case("lens=8 vocab=1000");
  const Fit small = fit_case(spec, {}, "fused", FitKey::seq_len, 100);
  EXPECT_EQ(small.value, 0);
  EXPECT_THAT(small.reason, HasSubstr("lens = 1 needs"));
  EXPECT_THAT(small.reason, HasSubstr("more than 100 B (100 bytes)"));
  const Fit other = fit_case(spec, {}, "linear_ce", FitKey::seq_len, 100);
  EXPECT_EQ(other.value, 0);
  EXPECT_THAT(other.reason, HasSubstr("takes hidden states"));
}

TEST(Fit, EndsWherePacksAreTooLongToLookAt) {
  const Fit fit = fit_case(parse_case("lens=8 vocab=1"), {}, "cp_local", FitKey::seq_len,
                           std::int64_t{1} << 60);
  EXPECT_EQ(fit.value, std::int64_t{1} << 30);
  EXPECT_TRUE(fit.at_least);
  const Fit seqs = fit_case(parse_case("seq_len=1048576 vocab=1"), {}, "cp_local", FitKey::seqs,
                            std::int64_t{1} << 60);
  EXPECT_EQ(seqs.value, 1024);
  EXPECT_TRUE(seqs.at_least);
}

TEST(Fit, RefusesAKeyThatTheCaseFixes) {
  const auto error = [](const std::string& case_text, FitKey key) {
    return error_of([&] { fit_case(parse_case(case_text), {}, "fused", key, 1000); });
  };
  EXPECT_THAT(error("lens=8+9", FitKey::seq_len), HasSubstr("gives several lengths"));
  EXPECT_THAT(error("lens=8", FitKey::seqs), HasSubstr("gives the sequences"));
  EXPECT_THAT(error("lens=4 mask=0110", FitKey::seq_len), HasSubstr("has bits"));
}

}  // namespace
}  // namespace lossgrid
