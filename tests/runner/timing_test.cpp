// SPDX-License-Identifier: Apache-2.0
// Timing from the outside: in which order implementations run, whose time counts, what is skipped
// and what a failure becomes. Never how long anything takes.
#include "harness/runner/timing.h"

#include <chrono>
#include <mutex>
#include <stdexcept>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harness/core/error.h"
#include "harness/loss/registry.h"
#include "harness/measure/statistics.h"

namespace lossgrid {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

/// What probes did on rank 0, in order: "a forward".
class Journal {
 public:
  void add(const std::string& line) {
    const std::lock_guard lock(mutex_);
    lines_.push_back(line);
  }
  std::vector<std::string> take() {
    const std::lock_guard lock(mutex_);
    return std::exchange(lines_, {});
  }

 private:
  std::mutex mutex_;
  std::vector<std::string> lines_;
};

Journal& journal() {
  static Journal the_journal;
  return the_journal;
}

/// Computes nothing. Options: `label` for the journal; `sleep_ms` in backward on the last TP rank;
/// `throw` at that forward of it (1: the warm-up).
struct ProbeOptions {
  std::string label;
  int sleep_ms = 0;
  int throw_at = 0;
};

class ProbePlan final : public LossPlan {
 public:
  ProbePlan(ProbeOptions options, RankContext context) : options_(options), context_(context) {}
  void forward(const LossInputs& /*inputs*/, LossOutputs& outputs) override {
    ++forwards_;
    if (is_last() && forwards_ == options_.throw_at) throw std::runtime_error("probe fails");
    for (float& x : outputs.tokens.logprobs) x = 0;
    if (context_.tp.rank() == 0) journal().add(options_.label + " forward");
  }
  void backward(const LossInputs& /*inputs*/, LossGradients& /*gradients*/) override {
    if (is_last()) std::this_thread::sleep_for(milliseconds(options_.sleep_ms));
    if (context_.tp.rank() == 0) journal().add(options_.label + " backward");
  }

 private:
  bool is_last() const { return context_.tp.rank() == context_.tp.size() - 1; }

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
    }
  }
  Description describe() const override {
    Description description;
    description.name = "timing_probe";
    description.inputs = InputKind::either;
    return description;
  }
  Cost cost(const LossProblem&) const override {
    Cost cost;
    cost.plan.flops = 1000;  // not timed, so not counted
    cost.forward.flops = 2;
    cost.backward.flops = 5;
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

TimingOutcome time_case(const std::string& case_text, const std::vector<std::string>& names,
                        const Grid& grid, int rounds, milliseconds deadline = seconds(60)) {
  const PreparedProblem prepared = prepare(make_problem(parse_case(case_text)));
  return time_implementations(prepared, names, grid, {rounds, names.front()}, deadline);
}

TEST(Timing, TakesTurnsAndTurnsRound) {
  journal().take();
  time_case("lens=8 vocab=24",
            {"timing_probe:label=a", "timing_probe:label=b", "timing_probe:label=c"}, {2, 1}, 3);
  std::vector<std::string> wanted;
  for (const std::string round : {"abc", "abc", "cba", "abc"}) {  // a warm-up, then three rounds
    for (const char label : round) {
      for (const char* phase : {" forward", " backward"})
        wanted.push_back(label + std::string(phase));
    }
  }
  EXPECT_EQ(journal().take(), wanted);
}

TEST(Timing, TheSlowestRankCounts) {
  const TimingRecord record =
      time_case("lens=8 vocab=24", {"timing_probe", "timing_probe:sleep_ms=20"}, {2, 1}, 3).record;
  ASSERT_EQ(record.status, TimingStatus::timed) << record.reason;
  for (const std::int64_t sample : record.entries[1].samples_ns) EXPECT_GE(sample, 20'000'000);
  EXPECT_GE(record.entries[1].median_ns, 20'000'000);
  EXPECT_GT(record.entries[1].ratio_to_baseline, 1);
}

TEST(Timing, OfAnLmHeadHoldsSamplesSummariesAndWork) {
  const std::vector<std::string> names{"linear_materialized", "linear_ce", "fused"};
  const TimingRecord record = time_case("lens=16+32 vocab=96 hidden=24", names, {2, 1}, 5).record;
  ASSERT_EQ(record.status, TimingStatus::timed) << record.reason;
  EXPECT_EQ(record.case_text, "lens=16+32 vocab=96 hidden=24");
  EXPECT_EQ(record.grid, "tp2cp1");
  EXPECT_EQ(record.baseline, "linear_materialized");
  EXPECT_EQ(record.rounds, 5);
  EXPECT_EQ(record.useful_flops, 6.0 * 48 * 24 * 96);
  EXPECT_EQ(record.why_unstable(), "fewer than 10 samples");
  ASSERT_EQ(record.entries.size(), 3u);
  std::vector<double> baseline;
  for (const std::int64_t ns : record.entries[0].samples_ns)
    baseline.push_back(static_cast<double>(ns));
  for (const std::size_t k : {0, 1}) {
    const TimingEntry& entry = record.entries[k];
    EXPECT_EQ(entry.implementation, names[k]);
    EXPECT_EQ(entry.why_skipped, "");
    ASSERT_EQ(entry.samples_ns.size(), 5u);
    std::vector<double> samples;
    for (const std::int64_t ns : entry.samples_ns) samples.push_back(static_cast<double>(ns));
    EXPECT_EQ(entry.median_ns, median(samples));
    EXPECT_LE(entry.p20_ns, entry.median_ns);
    EXPECT_GE(entry.p80_ns, entry.median_ns);
    EXPECT_EQ(entry.ratio_to_baseline, median_of_pair_ratios(samples, baseline));
    EXPECT_DOUBLE_EQ(entry.useful_flops_per_second,
                     record.useful_flops / (static_cast<double>(entry.median_ns) * 1e-9));
    EXPECT_GE(entry.own_flops, record.useful_flops);
  }
  EXPECT_EQ(record.entries[0].ratio_to_baseline, 1);
  EXPECT_EQ(record.entries[2].why_skipped, "takes logits; the case starts from hidden states");
  EXPECT_THAT(record.entries[2].samples_ns, IsEmpty());
}

TEST(Timing, RunsOnEveryShapeOfGrid) {
  const std::vector<std::string> names{"linear_ce", "reference", "linear_ce_onepass"};
  for (const char* grid : {"tp1cp1", "tp1cp2", "tp2cp2", "tp2cp2sp"}) {
    const TimingRecord record =
        time_case("lens=16+32 vocab=96 hidden=24 dtype=bf16", names, parse_grid(grid), 2).record;
    EXPECT_EQ(record.status, TimingStatus::timed) << grid << record.reason;
    EXPECT_EQ(record.grid, grid);
  }
}

TEST(Timing, OwnWorkIsThatOfAllRanksWithoutThePlan) {
  const TimingRecord record = time_case("lens=8 vocab=24", {"timing_probe"}, {2, 2}, 1).record;
  EXPECT_EQ(record.entries.at(0).own_flops, 4 * 7);
}

TEST(Timing, OfLogitsHasNoUsefulWork) {
  const TimingRecord record =
      time_case("lens=8+16 vocab=24", {"fused", "per_sequence", "linear_ce"}, {2, 2}, 2).record;
  ASSERT_EQ(record.status, TimingStatus::timed) << record.reason;
  EXPECT_EQ(record.useful_flops, 0);
  EXPECT_EQ(record.entries[0].useful_flops_per_second, 0);
  EXPECT_EQ(record.entries[1].samples_ns.size(), 2u);
  EXPECT_EQ(record.entries[2].why_skipped, "takes hidden states; the case starts from logits");
}

void expect_skipped(const TimingOutcome& timed, const std::string& reason) {
  EXPECT_EQ(timed.record.status, TimingStatus::skipped);
  EXPECT_THAT(timed.record.reason, HasSubstr(reason));
  EXPECT_THAT(timed.record.entries, IsEmpty());
  EXPECT_FALSE(timed.rank_hung);
}

TEST(Timing, IsSkippedWithTheReason) {
  expect_skipped(time_case("lens=8+16 vocab=24", {"fused"}, {1, 1, 2}, 2), "one dp rank");
  expect_skipped(time_case("lens=8+16 vocab=24 microbatches=2", {"fused"}, {1, 1}, 2),
                 "one microbatch");
  expect_skipped(time_case("lens=8+16 vocab=24", {"linear_ce", "fused"}, {1, 1}, 2),
                 "the baseline linear_ce: takes hidden states");
  const PreparedProblem prepared = prepare(make_problem(parse_case("lens=8 vocab=24")));
  expect_skipped(time_implementations(prepared, {"fused"}, {1, 1}, {2, "cp_local"}, seconds(60)),
                 "the baseline cp_local is not among the implementations");
}

TEST(Timing, ARankThatThrowsIsAnErrorWithoutSamples) {
  for (const char* at : {"1", "3"}) {
    const TimingOutcome timed = time_case(
        "lens=8 vocab=24", {"fused", std::string("timing_probe:throw_at=") + at}, {2, 1}, 4);
    EXPECT_EQ(timed.record.status, TimingStatus::error);
    EXPECT_EQ(timed.record.reason, "rank 1: probe fails");
    EXPECT_THAT(timed.record.entries, IsEmpty());
    EXPECT_FALSE(timed.rank_hung);
  }
}

TEST(Timing, TheDeadlineEndsIt) {
  const TimingOutcome timed =
      time_case("lens=8 vocab=24", {"timing_probe:sleep_ms=30"}, {2, 1}, 1000, milliseconds(100));
  EXPECT_EQ(timed.record.status, TimingStatus::timeout);
  EXPECT_THAT(timed.record.reason, HasSubstr("deadline of 100 ms"));
  EXPECT_FALSE(timed.rank_hung);
}

TEST(Timing, OfSuitesTakesThoseThatAskForIt) {
  Suite suite;
  suite.implementations = {"fused", "cp_local"};
  suite.grids = {{1, 1}, {1, 2}};
  suite.cases = {parse_case("lens=8+16 vocab=24"), parse_case("lens=4 vocab=24")};
  suite.cases[0].name = "a";
  suite.cases[1].name = "b";
  Suite timed = suite;
  timed.timing = TimingRequest{2, "cp_local"};
  ProblemCache problems;
  std::vector<std::string> seen;
  EXPECT_FALSE(time_suites({suite, timed}, seconds(60), problems, [&](const TimingRecord& record) {
    EXPECT_EQ(record.status, TimingStatus::timed) << record.reason;
    EXPECT_EQ(record.baseline, "cp_local");
    EXPECT_EQ(record.entries.size(), 2u);
    seen.push_back(record.case_name + " " + record.grid);
  }));
  EXPECT_THAT(seen, ElementsAre("a tp1cp1", "a tp1cp2", "b tp1cp1", "b tp1cp2"));
}

TEST(Timing, CrashesAndHangsEndTheProcessWithTheirCode) {
  const auto code_of = [](std::vector<TimingStatus> statuses) {
    std::vector<TimingRecord> timings(statuses.size());
    for (std::size_t k = 0; k < timings.size(); ++k) timings[k].status = statuses[k];
    return exit_code_of(timings);
  };
  using enum TimingStatus;
  EXPECT_EQ(code_of({}), ExitCode::ok);
  EXPECT_EQ(code_of({timed, skipped}), ExitCode::ok);
  EXPECT_EQ(code_of({timed, error}), ExitCode::rank_crashed);
  EXPECT_EQ(code_of({timeout, timed}), ExitCode::hang);
}

TEST(Timing, OfACaseThatIsTooBigIsSkipped) {
  Suite suite;
  suite.implementations = {"fused"};
  suite.grids = {{1, 1}};
  suite.cases = {parse_case("lens=1000000000 vocab=1000000")};
  suite.timing = TimingRequest{2, "fused"};
  ProblemCache problems;
  int records = 0;
  time_suites({suite}, seconds(60), problems, [&](const TimingRecord& record) {
    ++records;
    EXPECT_EQ(record.status, TimingStatus::skipped);
    EXPECT_THAT(record.reason, HasSubstr("not enough memory"));
    EXPECT_EQ(record.case_text, "lens=1000000000 vocab=1000000");
  });
  EXPECT_EQ(records, 1);
}

}  // namespace
}  // namespace lossgrid
