// SPDX-License-Identifier: Apache-2.0
// Timing from the outside: the phases that run, the rank whose time counts, ceilings, skipped
// implementations, failures. Never a duration.
#include "harness/runner/timing/timing.h"

#include <chrono>
#include <mutex>
#include <set>
#include <stdexcept>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harness/core/error.h"
#include "harness/device/emulated_device.h"
#include "harness/device/kernel/rank_threads.h"
#include "harness/loss/registry.h"
#include "harness/measure/statistics.h"
#include "harness/runner/timing/timing_summary.h"
#include "timing_case.h"

namespace lossgrid {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::Contains;
using ::testing::Ge;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

/// Calls of probes on rank 0, "a forward", and the buffers that they were given.
struct Journal {
  std::mutex mutex;
  std::vector<std::string> lines;
  std::set<const void*> buffers;
};

Journal& journal() {
  static Journal the_journal;
  return the_journal;
}

/// Computes nothing, so that its outputs are wrong. Options: `label` for the journal; `sleep_ms` in
/// backward on the last TP rank, before its barrier; `throw_at` that forward of it (1: the
/// warm-up); `bytes` that its forward declares to read.
struct ProbeOptions {
  std::string label;
  int sleep_ms = 0;
  int throw_at = 0;
  std::int64_t bytes = 0;
};

class ProbePlan final : public LossPlan {
 public:
  ProbePlan(ProbeOptions options, RankContext context) : options_(options), context_(context) {}
  void forward(const LossInputs& inputs, LossOutputs& outputs) override {
    ++forwards_;
    if (context_.device.backend() == Backend::cuda_emulated) {  // no earlier launch is timed
      EXPECT_TRUE(static_cast<EmulatedStream*>(context_.device.stream())->idle());
    }
    if (is_last() && forwards_ == options_.throw_at) throw std::runtime_error("probe fails");
    for (float& x : outputs.tokens.logprobs) x = 0;
    write("forward", {inputs.logits, outputs.tokens.logprobs.data()});
  }
  void backward(const LossInputs& /*inputs*/, LossGradients& gradients) override {
    if (is_last()) std::this_thread::sleep_for(milliseconds(options_.sleep_ms));
    context_.tp.barrier();
    write("backward", {gradients.logits});
  }

 private:
  bool is_last() const { return context_.tp.rank() == context_.tp.size() - 1; }
  void write(const std::string& phase, const std::set<const void*>& buffers) const {
    if (context_.tp.rank() != 0) return;
    const std::lock_guard lock(journal().mutex);
    journal().lines.push_back(options_.label + " " + phase);
    journal().buffers.insert(buffers.begin(), buffers.end());
  }

  ProbeOptions options_;
  RankContext context_;
  int forwards_ = 0;
};

class Probe final : public LossImplementation {
 public:
  explicit Probe(const ImplementationOptions& options) {
    for (const auto& [key, value] : options) {
      if (key == "label") options_.label = value;
      if (key == "sleep_ms") options_.sleep_ms = std::stoi(value);
      if (key == "throw_at") options_.throw_at = std::stoi(value);
      if (key == "bytes") options_.bytes = std::stoll(value);
    }
  }
  ImplementationTraits describe() const override {
    ImplementationTraits description;
    description.name = "timing_probe";
    return description;
  }
  Cost cost(const LossProblem&) const override {
    Cost cost;
    cost.forward.read_bytes = options_.bytes;
    return cost;
  }
  std::unique_ptr<LossPlan> plan(const LossProblem&, RankContext context) const override {
    return std::make_unique<ProbePlan>(options_, context);
  }

 private:
  ProbeOptions options_;
};

const Registered registered{ImplementationEntry{
    "timing_probe", ImplementationKind::control, "", "computes nothing",
    [](const ImplementationOptions& options) { return std::make_unique<Probe>(options); }}};

TEST(Timing, EveryPhaseRunsInEveryRoundOnTheSameBuffers) {
  journal().lines.clear();
  journal().buffers.clear();
  const TimingRecord record =
      time_case("lens=8 vocab=24", {"timing_probe:label=a", "timing_probe:label=b"}, {2, 1},
                few_samples(5))
          .record;
  EXPECT_EQ(record.rounds, 5);
  EXPECT_EQ(record.stopped_by, "target");
  // An iteration in two parts and one in one: forward and backward twice each.
  const auto runs = static_cast<std::size_t>(record.warm_up_rounds + record.rounds) * 2;
  for (const char* line : {"a forward", "a backward", "b forward", "b backward"}) {
    EXPECT_EQ(std::count(journal().lines.begin(), journal().lines.end(), line), runs) << line;
  }
  for (std::size_t k = 0; k + 1 < journal().lines.size(); k += 2) {
    EXPECT_EQ(journal().lines[k].substr(0, 1), journal().lines[k + 1].substr(0, 1));
  }
  EXPECT_EQ(journal().buffers.size(), 3u);  // logits, log-probabilities, gradient
  for (const TimingRow& row : record.rows) EXPECT_EQ(row.time.samples_ns.size(), 5u);
}

TEST(Timing, TheSlowestRankCountsAndIsNamed) {
  const std::string slow = "timing_probe:sleep_ms=100";
  const TimingRecord record = time_case("lens=8 vocab=24", {"timing_probe", slow}, {2, 1}).record;
  const TimingRow& row = row_of(record, slow, "backward");
  EXPECT_THAT(row.time.samples_ns, ::testing::Each(Ge(100'000'000)));
  ASSERT_EQ(row.rank_times.size(), 2u);
  // Rank 1 sleeps, rank 0 waits for it in a collective.
  EXPECT_GE(row.rank_times[1].kernel_ns, 100'000'000);
  EXPECT_GT(row.rank_times[0].communication_ns, row.rank_times[0].kernel_ns);
  ASSERT_TRUE(row.straggler);
  EXPECT_EQ(row.straggler->rank, 1);
  EXPECT_EQ(row.straggler->kernel_ns, row.rank_times[1].kernel_ns);
  EXPECT_EQ(row.straggler->excess_ns, row.rank_times[1].kernel_ns - row.rank_times[0].kernel_ns);
  EXPECT_GT(row.communication_ratio.value_or(0), 0);
  EXPECT_LT(*row.speedup, 1);
}

TEST(Timing, RowsHoldSamplesAndTheirSummaries) {
  const TimingRecord record =
      time_case("lens=8+16 vocab=24", {"fused", "per_sequence"}, {1, 1}, few_samples(12)).record;
  ASSERT_EQ(record.rows.size(), 6u);
  EXPECT_EQ(record.baseline, "per_sequence");
  EXPECT_EQ(record.case_text, "lens=8+16 vocab=24");
  EXPECT_EQ(record.grid, "tp1cp1");
  EXPECT_EQ(record.cache, "hot");
  EXPECT_EQ(record.tokens, 24);
  EXPECT_EQ(record.order_seed, 1u);
  for (const TimingRow& row : record.rows) {
    const TimingRow& baseline = row_of(record, "per_sequence", row.phase);
    const std::vector<double> samples(row.time.samples_ns.begin(), row.time.samples_ns.end());
    const std::vector<double> base(baseline.time.samples_ns.begin(),
                                   baseline.time.samples_ns.end());
    EXPECT_EQ(row.speedup, median_of_pair_ratios(base, samples));
    EXPECT_EQ(row.time.median_ns, std::llround(median(samples)));
    EXPECT_LE(row.time.p20_ns, row.time.median_ns);
    EXPECT_GE(row.time.p80_ns, row.time.median_ns);
    EXPECT_GT(row.tokens_per_second, 0);
    EXPECT_FALSE(row.straggler);
    EXPECT_EQ(row.rank_times[0].samples_ns, row.time.samples_ns);
  }
  ASSERT_EQ(record.ceilings.size(), 3u);
  EXPECT_EQ(record.ceilings[0].name, "read");
  EXPECT_EQ(record.ceilings[0].rank_bytes, 24 * 24 * 4);
  EXPECT_EQ(record.ceilings[1].rank_bytes, 2 * 24 * 24 * 4);
  for (const CeilingRow& row : record.ceilings) EXPECT_EQ(row.time.samples_ns.size(), 12u);
}

TEST(Timing, FewDistinctSamplesAreUnstable) {
  const TimingRecord record =
      time_case("lens=8 vocab=24", {"fused"}, {1, 1}, few_samples(4)).record;
  EXPECT_EQ(record.status, TimingStatus::unstable);
  EXPECT_THAT(record.rows[0].reason, HasSubstr("distinct samples, fewer than 10"));
  EXPECT_EQ(exit_code_of(std::vector{record}), ExitCode::ok);
}

TEST(Timing, FasterThanTheMachineIsNoSuccess) {
  // A forward that declares to read a petabyte, and one that declares to read less than a cache.
  const TimingRecord absurd =
      time_case("lens=8 vocab=24", {"timing_probe:bytes=1000000000000000"}, {1, 1}).record;
  const TimingRow& row = absurd.rows[0];
  EXPECT_EQ(row.ceiling, "read");
  EXPECT_TRUE(row.ceiling_judged);
  EXPECT_GT(*row.ceiling_ratio, 1.02);
  EXPECT_GT(*row.bytes_per_second, 0);
  EXPECT_FALSE(absurd.rows[1].ceiling_ratio);  // backward declares no bytes
  const TimingRecord small =
      time_case("lens=8 vocab=24", {"timing_probe:bytes=2304"}, {1, 1}).record;
  EXPECT_FALSE(small.rows[0].ceiling_judged);
  ASSERT_TRUE(small.rows[0].ceiling_ratio);
}

TEST(Timing, JudgesNoCeilingOfAnEmulatedGpu) {
  const PreparedProblem prepared = prepare(make_problem(parse_case("lens=8 vocab=24")));
  const TimingRecord record =
      time_implementations(prepared, {"timing_probe:bytes=1000000000000000"}, {1, 1},
                           few_samples(2), CacheMode::cold, seconds(60), Ranks(), std::nullopt,
                           Backend::cuda_emulated)
          .record;
  EXPECT_FALSE(record.rows[0].ceiling_judged);
  EXPECT_GT(*record.rows[0].ceiling_ratio, 1.02);
  EXPECT_NE(record.not_representative_reason, "");
}

TEST(Timing, RanksOnOneGpuAreCounted) {
  EXPECT_FALSE(gpu_sharing({"", ""}));
  EXPECT_FALSE(gpu_sharing({"a", "b"}));
  EXPECT_EQ(text_of(gpu_sharing({"a", "b", "a", "a"})), "3 ranks share a GPU");
}

TEST(Timing, ComparesAnLmHeadWithItsProducts) {
  const std::vector<std::string> names{"linear_materialized", "linear_ce:chunk_tokens=12", "fused"};
  const TimingRecord record = time_case("lens=16+32 vocab=96 hidden=24", names, {2, 1}).record;
  EXPECT_EQ(record.baseline, "linear_materialized");
  EXPECT_EQ(record.useful_flops, 6.0 * 48 * 24 * 96);
  ASSERT_EQ(record.ceilings.size(), 3u);
  EXPECT_EQ(record.ceilings[2].name, "gemm_weight");
  EXPECT_EQ(record.ceilings[2].rank_flops, 2 * 48 * 48 * 24);  // all rows at once, half the ids
  const TimingRow& both = row_of(record, names[1], "forward_backward");
  EXPECT_EQ(both.ceiling, "gemm");
  EXPECT_EQ(both.rank_flops, 8 * 48 * 48 * 24);
  EXPECT_GT(*both.ceiling_ratio, 0);
  EXPECT_DOUBLE_EQ(*both.useful_flops_per_second,
                   record.useful_flops / (static_cast<double>(both.time.median_ns) * 1e-9));
  EXPECT_FALSE(row_of(record, names[1], "forward").useful_flops_per_second);
  ASSERT_EQ(record.skipped.size(), 1u);
  EXPECT_EQ(record.skipped[0].reason, "takes logits; the case starts from hidden states");
  ASSERT_EQ(record.all_reduce.size(), 1u);
  EXPECT_EQ(record.all_reduce[0].group, "tp");
  EXPECT_EQ(record.all_reduce[0].ranks, 2);
}

TEST(Timing, RanksThatShareACoreAreNotRepresentative) {
  const int cores = core_share(1).cores;
  const TimingRecord one = time_case("lens=8 vocab=24", {"fused"}, {1, 1}).record;
  EXPECT_EQ(one.not_representative_reason, "");
  EXPECT_EQ(one.cores, cores);
  const TimingRecord many = time_case("lens=8 vocab=4096", {"fused"}, {cores + 1, 1}).record;
  EXPECT_THAT(many.not_representative_reason, HasSubstr(std::to_string(cores + 1) + " ranks"));
  EXPECT_EQ(many.threads_per_rank, 1);
}

TEST(Timing, ColdIsARecordOfItsOwn) {
  const TimingRecord record =
      time_case("lens=8 vocab=24", {"fused"}, {1, 2}, few_samples(2), CacheMode::cold).record;
  EXPECT_EQ(record.cache, "cold");
  EXPECT_LT(record.status, TimingStatus::above_ceiling) << record.reason;
  EXPECT_GT(record.last_level_cache_bytes, 0);
}

TEST(Timing, WithoutItsBaselineHasNoSpeedups) {
  TimingRequest request = few_samples(2);
  request.baseline = "linear_ce";
  const TimingRecord record =
      time_case("lens=8+16 vocab=24", {"linear_ce", "fused"}, {1, 1}, request).record;
  EXPECT_THAT(record.no_speedup_reason, HasSubstr("takes hidden states"));
  ASSERT_EQ(record.rows.size(), 3u);
  for (const TimingRow& row : record.rows) EXPECT_FALSE(row.speedup);
}

void expect_skipped(const TimingOutcome& timed, const std::string& reason) {
  EXPECT_EQ(timed.record.status, TimingStatus::skipped);
  EXPECT_THAT(timed.record.reason, HasSubstr(reason));
  EXPECT_THAT(timed.record.rows, IsEmpty());
  EXPECT_FALSE(timed.must_end);
}

TEST(Timing, IsSkippedWithTheReason) {
  expect_skipped(time_case("lens=8+16 vocab=24", {"fused"}, {1, 1, 2}), "one dp rank");
  expect_skipped(time_case("lens=8+16 vocab=24 microbatches=2", {"fused"}, {1, 1}),
                 "one microbatch");
  expect_skipped(time_case("lens=8+16 vocab=24", {"linear_ce"}, {1, 1}), "no implementation");
}

TEST(Timing, ARankThatThrowsIsAnErrorWithoutSamples) {
  for (const char* at : {"1", "3"}) {
    const TimingOutcome timed =
        time_case("lens=8 vocab=24", {"fused", std::string("timing_probe:throw_at=") + at}, {2, 1});
    EXPECT_EQ(timed.record.status, TimingStatus::error);
    EXPECT_EQ(timed.record.reason, "rank 1: probe fails");
    EXPECT_THAT(timed.record.rows, IsEmpty());
    EXPECT_FALSE(timed.must_end);
  }
}

TEST(Timing, TheDeadlineEndsIt) {
  TimingRequest request = few_samples(1000);
  request.max_seconds = 0.05;
  // Three seconds, where six times 10 ms and the budget are allowed.
  const TimingOutcome timed = time_case("lens=8 vocab=24", {"timing_probe:sleep_ms=500"}, {2, 1},
                                        request, CacheMode::hot, milliseconds(10));
  EXPECT_EQ(timed.record.status, TimingStatus::timeout);
  EXPECT_THAT(timed.record.reason, HasSubstr("deadline"));
}

TEST(Timing, RunsForSuitesThatAskForIt) {
  Suite suite;
  suite.implementations = {"fused", "cp_local"};
  suite.grids = {{1, 1}, {1, 2}};
  suite.cases = {parse_case("lens=8+16 vocab=24"), parse_case("lens=4 vocab=24"),
                 parse_case("lens=1000000000 vocab=1000000")};
  for (std::size_t k = 0; k < 3; ++k) suite.cases[k].name = std::string(1, "abc"[k]);
  Suite timed = suite;
  timed.timing = few_samples(2);
  timed.timing->implementations = suite.implementations;
  timed.timing->baseline = "cp_local";
  timed.timing->caches = {CacheMode::hot, CacheMode::cold};
  ProblemCache problems;
  std::vector<std::string> seen;
  RunOptions options;
  options.deadline = seconds(60);
  EXPECT_FALSE(time_suites({suite, timed}, options, problems, [&](const TimingRecord& record) {
    EXPECT_EQ(record.baseline, "cp_local");
    seen.push_back(record.case_name + " " + record.grid + " " + record.cache);
    if (record.case_name == "c") {
      EXPECT_EQ(record.status, TimingStatus::skipped);
      EXPECT_THAT(record.reason, HasSubstr("not enough memory"));
    } else {
      EXPECT_EQ(record.rows.size(), 6u);
    }
  }));
  EXPECT_EQ(seen.size(), 12u);
  EXPECT_THAT(seen, Contains("b tp1cp2 cold"));
}

TEST(Timing, TheWorstStatusEndsTheProcess) {
  const auto code_of = [](std::vector<TimingStatus> statuses) {
    std::vector<TimingRecord> timings(statuses.size());
    for (std::size_t k = 0; k < timings.size(); ++k) timings[k].status = statuses[k];
    return exit_code_of(timings);
  };
  using enum TimingStatus;
  EXPECT_EQ(code_of({}), ExitCode::nothing_ran);
  EXPECT_EQ(code_of({skipped}), ExitCode::nothing_ran);
  EXPECT_EQ(code_of({timed, skipped, unstable}), ExitCode::ok);
  EXPECT_EQ(code_of({timed, above_ceiling}), ExitCode::time_regression);
  EXPECT_EQ(code_of({above_ceiling, failed}), ExitCode::correctness);
  EXPECT_EQ(code_of({failed, error}), ExitCode::rank_crashed);
  EXPECT_EQ(code_of({timeout, timed}), ExitCode::hang);
}

TEST(Meter, PassesItsOwnTestOrEndsTheRun) {
  const std::vector<MeterRecord> checks = test_meter();
  EXPECT_GE(checks.size(), 3u);
  std::vector<MeterRecord> broken(2);
  broken[0].passed = true;
  EXPECT_EQ(exit_code_of(broken), ExitCode::rank_crashed);
  broken[1].passed = true;
  EXPECT_EQ(exit_code_of(broken), ExitCode::ok);
}

}  // namespace
}  // namespace lossgrid
