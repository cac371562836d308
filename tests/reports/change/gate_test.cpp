// SPDX-License-Identifier: Apache-2.0
#include "reports/change/gate.h"

#include <functional>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harness/core/file.h"
#include "sample_run.h"

namespace lossgrid {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr const char* kToday = "2026-06-15";

RunRecord gated_run(std::vector<TrialRecord> trials) {
  RunRecord run;
  run.trials = std::move(trials);
  return run;
}

PolicyRule rule_of(const std::string& metric, std::optional<double> tolerance_ratio,
                   std::optional<double> limit = {}) {
  return {.metric = metric,
          .better = find_metric(metric).better,
          .tolerance_ratio = tolerance_ratio,
          .limit = limit};
}

Policy policy_of(std::vector<PolicyRule> rules) {
  return {.rules = std::move(rules)};
}

/// Returns lines such as "failed peak_bytes rank 0 1024 1025 no more".
std::vector<std::string> findings_of(const GateResult& result) {
  std::vector<std::string> lines;
  for (const Finding& f : result.findings) {
    lines.push_back(fmt::format("{} {} {} {} {} {}", name(f.verdict), f.metric, f.place, f.base,
                                f.head, f.bound));
  }
  return lines;
}

TEST(Gate, NumbersAreJudgedByDirectionAndThreshold) {
  const TrialRecord base = sample_trial(2, 1, "fused");
  struct Row {
    std::string metric;
    double tolerance_ratio;
    std::function<void(TrialRecord&)> change;
    std::vector<std::string> lines;
    Direction direction = Direction::lower;
  };
  const auto bytes = [](std::int64_t more) {
    return [more](TrialRecord& t) { t.memory[1].measured_peak_bytes += more; };
  };
  const auto calls = [](std::int64_t more) {
    return [more](TrialRecord& t) { t.communication[0].measured_calls += more; };
  };
  const auto new_gather = [](TrialRecord& t) {
    t.communication.push_back({0, "backward", "cp", "all_gather", 1, 1, 64, 64});
  };
  const auto no_gather = [](TrialRecord& t) { t.communication.pop_back(); };
  for (const Row& row : std::vector<Row>{
           {"peak_bytes", 0, bytes(0), {}},
           {"peak_bytes", 0, bytes(1), {"failed peak_bytes rank 0 1024 1025 no more"}},
           {"peak_bytes", 0, bytes(-1), {}},
           {"peak_bytes", 0.01, bytes(10), {}},
           {"peak_bytes", 0.01, bytes(11), {"failed peak_bytes rank 0 1024 1035 at most 1 % more"}},
           {"calls", 0, bytes(1), {}},
           {"calls", 0, calls(1), {"failed calls tp: all_reduce 3 4 no more"}},
           {"calls", 0, calls(-1), {}},
           {"calls", 0, calls(-1), {"failed calls tp: all_reduce 3 2 the same"}, Direction::equal},
           {"calls",
            0.5,
            calls(-2),
            {"failed calls tp: all_reduce 3 1 at most 50 % off"},
            Direction::equal},
           {"payload_bytes",
            9,
            new_gather,
            {"failed payload_bytes cp: all_gather 0 64 at most 900 % more"}},
           {"payload_bytes", 0, no_gather, {}},
           {"calls", 0, no_gather, {"failed calls cp: all_gather 1 0 the same"}, Direction::equal},
           {"allocations",
            0,
            [](TrialRecord& t) { t.memory[0].measured_allocations += 1; },
            {"failed allocations rank 0 2 3 no more"}}}) {
    TrialRecord head = base;
    row.change(head);
    PolicyRule rule = rule_of(row.metric, row.tolerance_ratio);
    rule.better = row.direction;
    const RunRecord before = gated_run({base});
    const GateResult result = judge(&before, gated_run({head}), policy_of({rule}), kToday);
    EXPECT_EQ(findings_of(result), row.lines) << row.metric;
    EXPECT_EQ(exit_code_of(result, true),
              row.lines.empty() ? ExitCode::ok : ExitCode::cost_regression);
  }
}

TEST(Gate, TheFirstCollectiveOfATrialIsSeen) {
  TrialRecord base = sample_trial(1, 1, "fused");
  base.communication.clear();
  const RunRecord before = gated_run({base});
  base.communication = {{0, "forward", "tp", "all_reduce", 0, 1, 0, 4}};
  PolicyRule rule = rule_of("calls", 0);
  rule.subjects.phase = "forward";
  EXPECT_THAT(findings_of(judge(&before, gated_run({base}), policy_of({rule}), kToday)),
              ElementsAre("failed calls tp: all_reduce 0 1 no more"));
}

TEST(Gate, LimitsNeedNoBase) {
  TrialRecord trial = sample_trial(1, 1, "fused");
  trial.checks[0].ratio = 1.5;
  const auto judged = [&](std::optional<double> tolerance_ratio, double limit) {
    return judge(nullptr, gated_run({trial}),
                 policy_of({rule_of("error_ratio", tolerance_ratio, limit)}), kToday);
  };
  EXPECT_THAT(findings_of(judged({}, 1.5)), IsEmpty());
  EXPECT_THAT(findings_of(judged({}, 1)), ElementsAre("failed error_ratio  - 1.5 at most 1"));
  EXPECT_EQ(exit_code_of(judged({}, 1), false), ExitCode::correctness);
  EXPECT_THROW(judged(0.1, 1), Error);
  EXPECT_THROW(judge(nullptr, {}, {}, kToday), Error);

  RunRecord mutants = sample_mutants_run();
  mutants.exit_code = 0;
  EXPECT_THAT(
      judge(nullptr, mutants, policy_of({rule_of("mutation_score_ratio", {}, 1)}), kToday).findings,
      IsEmpty());
  mutants.mutants[1].rejected = false;
  const GateResult missed =
      judge(nullptr, mutants, policy_of({rule_of("mutation_score_ratio", {}, 1)}), kToday);
  EXPECT_THAT(missed.findings, SizeIs(2));
  EXPECT_EQ(missed.findings[0].subject.implementation, "mutant_1");
  EXPECT_EQ(exit_code_of(missed, false), ExitCode::correctness);
}

/// Returns a timing of two implementations, the second `speedup` times as fast as the first.
RunRecord gated_timing(double speedup, double stderr_ratio) {
  RunRecord run = sample_bench_run();
  run.timings[0].rows.erase(run.timings[0].rows.begin(), run.timings[0].rows.begin() + 2);
  for (TimingRow& row : run.timings[0].rows) {
    row.time.stderr_ratio = 0;
    row.ceiling_ratio.reset();
  }
  run.timings[0].rows[1].speedup = speedup;
  run.timings[0].rows[1].time.stderr_ratio = stderr_ratio;
  return run;
}

TEST(Gate, TimesAreJudgedByTheirInterval) {
  const auto verdict = [](double base, double head, double stderr_ratio) {
    const RunRecord before = gated_timing(base, stderr_ratio);
    return judge(&before, gated_timing(head, stderr_ratio), policy_of({rule_of("time_ratio", 0.1)}),
                 kToday);
  };
  EXPECT_THAT(findings_of(verdict(2, 2, 0.01)), IsEmpty());
  EXPECT_THAT(findings_of(verdict(2, 2 / 1.06, 0.01)), IsEmpty());  // +- 3 %
  EXPECT_THAT(findings_of(verdict(2, 2 / 1.2, 0.01)),
              ElementsAre("failed time_ratio hot, over per_sequence 0.5 0.6 at most 10 % more"));
  EXPECT_EQ(exit_code_of(verdict(2, 2 / 1.2, 0.01), false), ExitCode::time_regression);
  const GateResult unclear = verdict(2, 2 / 1.12, 0.01);
  EXPECT_EQ(count(unclear.findings, Verdict::inconclusive), 1);
  EXPECT_EQ(exit_code_of(unclear, false), ExitCode::ok);
  EXPECT_EQ(exit_code_of(unclear, true), ExitCode::inconclusive);
  EXPECT_THAT(findings_of(verdict(2, 3, 0.01)), IsEmpty());
  // The quotient of two speedups has a standard error of 1.4 %. Beyond 10 % by two of them (2.9 %)
  // is certain, by one (1.4 %) is not; short of 10 % by more than two is right.
  EXPECT_EQ(count(verdict(2, 2 / 1.14, 0.01).findings, Verdict::failed), 1);
  EXPECT_EQ(count(verdict(2, 2 / 1.125, 0.01).findings, Verdict::inconclusive), 1);
  EXPECT_THAT(findings_of(verdict(2, 2 / 1.065, 0.01)), IsEmpty());
  EXPECT_EQ(count(verdict(2, 2 / 1.075, 0.01).findings, Verdict::inconclusive), 1);

  const auto least = [](double limit) {
    return findings_of(
        judge(nullptr, gated_timing(2, 0.01), policy_of({rule_of("speedup", {}, limit)}), kToday));
  };
  EXPECT_THAT(least(1.9), IsEmpty());
  EXPECT_THAT(least(1.99),
              ElementsAre("inconclusive speedup hot, over per_sequence - 2 at least 1.99"));
  EXPECT_THAT(least(2.1), ElementsAre("failed speedup hot, over per_sequence - 2 at least 2.1"));
  // A number alone has a standard error of 1 %: 3 % away is certain, 1.5 % is not.
  EXPECT_THAT(least(1.94), IsEmpty());
  EXPECT_THAT(least(2.06), ElementsAre("failed speedup hot, over per_sequence - 2 at least 2.06"));
  EXPECT_THAT(least(2.03),
              ElementsAre("inconclusive speedup hot, over per_sequence - 2 at least 2.03"));
}

TEST(Gate, WrongResultsFailWithoutARule) {
  const TrialRecord passed = sample_trial(2, 1, "fused");
  const RunRecord before = gated_run({passed});
  for (const auto& [status, metric, code] :
       std::vector<std::tuple<TrialStatus, std::string, ExitCode>>{
           {TrialStatus::passed, "", ExitCode::ok},
           {TrialStatus::failed, "status", ExitCode::correctness},
           {TrialStatus::error, "status", ExitCode::rank_crashed},
           {TrialStatus::timeout, "status", ExitCode::hang},
           {TrialStatus::crashed, "status", ExitCode::rank_crashed},
           {TrialStatus::out_of_memory, "status", ExitCode::rank_crashed},
           {TrialStatus::skipped, "coverage", ExitCode::correctness},
           {TrialStatus::not_run, "coverage", ExitCode::correctness}}) {
    TrialRecord head = passed;
    head.status = status;
    TrialRecord kept = sample_trial(1, 1, "fused");
    const GateResult result = judge(&before, gated_run({head, kept}), {}, kToday);
    EXPECT_EQ(exit_code_of(result, false), code) << name(status);
    if (metric.empty()) continue;
    ASSERT_THAT(result.findings, SizeIs(1)) << name(status);
    EXPECT_EQ(result.findings[0].metric, metric);
    EXPECT_EQ(result.findings[0].subject.text(), "vocab=96 lens=5+8|tp2cp1|fused");
  }
  RunRecord cut_off = before;
  cut_off.status = "partial";
  cut_off.begun_id = "a trial";
  const GateResult partial = judge(nullptr, cut_off, {}, kToday);
  EXPECT_THAT(findings_of(partial),
              ElementsAre("failed status run - ended before its end: in the middle of a trial "));
  EXPECT_EQ(exit_code_of(partial, false), ExitCode::rank_crashed);
  RunRecord wrong_time = gated_timing(2, 0);
  wrong_time.timings[0].rows[1].status = TimingStatus::failed;
  wrong_time.meter[0].passed = false;
  EXPECT_THAT(judge(nullptr, wrong_time, {}, kToday).findings, SizeIs(2));
}

TEST(Gate, KnownIssuesExcuseUpToTheirDay) {
  TrialRecord trial = sample_trial(2, 1, "fused");
  const RunRecord before = gated_run({trial});
  trial.memory[1].measured_peak_bytes += 1;
  const auto judged = [&](const KnownIssue& issue) {
    Policy policy = policy_of({rule_of("peak_bytes", 0)});
    policy.known_issues = {issue};
    return judge(&before, gated_run({trial}), policy, kToday);
  };
  const GateResult excused = judged({"peak_bytes", {"C0", "tp2*", "", ""}, kToday, "issue 12"});
  EXPECT_EQ(count(excused.findings, Verdict::excused), 1);
  EXPECT_EQ(excused.findings[0].excuse, "issue 12 (until 2026-06-15)");
  EXPECT_EQ(exit_code_of(excused, true), ExitCode::ok);
  EXPECT_THAT(excused.notes, IsEmpty());

  for (const auto& [issue, note] : std::vector<std::pair<KnownIssue, std::string>>{
           {{"", {}, "2026-06-14", "issue 12"},
            "known issue 0 expired on 2026-06-14 and excuses nothing: issue 12"},
           {{"calls", {}, "2027-01-01", "issue 12"},
            "known issue 0 has nothing to excuse: issue 12"},
           {{"", {"", "tp1*", "", ""}, "2027-01-01", "issue 12"},
            "known issue 0 has nothing to excuse: issue 12"}}) {
    const GateResult result = judged(issue);
    EXPECT_THAT(result.notes, ElementsAre(note));
    EXPECT_EQ(exit_code_of(result, false), ExitCode::cost_regression);
  }
}

TEST(Gate, ARuleThatMatchesNothingIsNoted) {
  const RunRecord run = gated_run({sample_trial(2, 1, "fused")});
  PolicyRule rule = rule_of("peak_bytes", 0);
  rule.subjects.implementation = "fused:*";
  const GateResult result = judge(&run, run, policy_of({rule_of("calls", 0), rule}), kToday);
  EXPECT_THAT(result.findings, IsEmpty());
  EXPECT_EQ(result.judged, 2);
  EXPECT_THAT(result.notes, ElementsAre("rule 1 (peak_bytes) matches nothing"));
  EXPECT_EQ(exit_code_of(result, false), ExitCode::ok);
  EXPECT_EQ(exit_code_of(result, true), ExitCode::inconclusive);
}

TEST(GateText, FoldsWhatIsTheSameOnSeveralGrids) {
  const RunRecord base = gated_run({sample_trial(1, 1, "fused"), sample_trial(1, 2, "fused")});
  RunRecord head = base;
  for (TrialRecord& trial : head.trials.in_memory()) trial.memory[1].measured_peak_bytes = 2048;
  Policy policy = policy_of({rule_of("peak_bytes", 0), rule_of("speedup", {}, 2)});
  const GateResult result = judge(&base, head, policy, kToday);
  EXPECT_THAT(format_gate(result),
              HasSubstr("  failed  peak_bytes  forward rank 0  1024  2048  no more  "
                        "vocab=96 lens=5+8|tp1cp1|fused and 1 more\n"
                        "note: rule 1 (speedup) matches nothing\n"
                        "2 failed, 0 inconclusive, 0 excused; 6 numbers judged\n"));
  EXPECT_THAT(gate_markdown(result),
              HasSubstr("| failed | peak_bytes | forward rank 0 | 1024 | 2048 | no more | "
                        "vocab=96 lens=5+8\\|tp1cp1\\|fused and 1 more |\n\n"
                        "- rule 1 (speedup) matches nothing\n"));
  const nlohmann::ordered_json json = gate_to_json(result);
  EXPECT_EQ(json["counts"]["failed"], 2);
  EXPECT_EQ(json["findings"][1]["grid"], "tp1cp2");
  EXPECT_EQ(json["findings"][1]["exit_code"], 12);
}

TEST(Policy, IsReadWithEveryKey) {
  const TemporaryFolder folder;
  const std::string path = folder.file("policy.json");
  write_file_atomically(path, std::string(R"({"schema": "lossgrid.policy/1", "rules": [
    {"metric": "speedup", "limit": 1.5, "case": "lens=*", "grid": "tp[12]*",
     "implementation": "fused*", "phase": "forward"},
    {"metric": "calls", "direction": "equal", "tolerance_ratio": 0.5}],
    "known_issues": [{"until": "2026-01-31", "reason": "r", "grid": "tp1*"}]})"));
  const Policy policy = read_policy(path);
  ASSERT_THAT(policy.rules, SizeIs(2));
  EXPECT_EQ(policy.rules[0].better, Direction::higher);
  EXPECT_EQ(policy.rules[0].limit, 1.5);
  EXPECT_FALSE(policy.rules[0].tolerance_ratio);
  EXPECT_TRUE(policy.rules[0].subjects.matches({"", "lens=5", "tp2cp1", "fused:a=1", "forward"}));
  EXPECT_FALSE(policy.rules[0].subjects.matches({"", "lens=5", "tp4cp1", "fused", "forward"}));
  EXPECT_FALSE(policy.rules[0].subjects.matches({"", "lens=5", "tp2cp1", "fused", "backward"}));
  EXPECT_EQ(policy.rules[1].better, Direction::equal);
  EXPECT_EQ(policy.known_issues.at(0).until, "2026-01-31");
  for (const char* shipped : {"exact"}) {
    read_policy(fmt::format("{}/reports/policies/{}.json", LOSSGRID_SOURCE_DIR, shipped));
  }
}

TEST(Policy, ErrorsNameThePlace) {
  const TemporaryFolder folder;
  const std::string path = folder.file("policy.json");
  for (
      const auto& [rule, message] : std::vector<std::pair<std::string, std::string>>{
          {R"({"metric": "speed", "limit": 1})", "/rules/0/metric: Failed to match"},
          {R"({"metric": "calls", "limits": 1})", "'limits'"},
          {R"({"metric": "calls", "limit": "1"})", "/rules/0/limit: Value type not permitted"},
          {R"({"metric": "calls", "tolerance_ratio": -1})", "/rules/0/tolerance_ratio: Expected"},
          {R"({"metric": "calls", "limit": 1, "direction": "up"})", "/rules/0/direction: "},
          {R"({"metric": "calls"})", "/rules/0: a rule needs a tolerance_ratio or a limit"},
          {R"({"metric": "calls", "limit": 1, "grid": "tp[12"})",
           "/rules/0/grid: the pattern 'tp[12' has a '[' without ']'"},
          {R"({"metric": "calls", "limit": 1, "grid": ""})", "/rules/0/grid: "},
          {R"({"metric": "calls", "limit": 1}], "known_issues": [{"until": "soon", "reason": "r"})",
           "/known_issues/0/until: Failed to match regex"},
          {R"({"metric": "calls", "limit": 1}], "known_issues": [{"until": "2026-01-01"})",
           "/known_issues/0: Missing required property 'reason'"},
          {"{", "it is no JSON"}}) {
    write_file_atomically(path, R"({"schema": "lossgrid.policy/1", "rules": [)" + rule + "]}");
    try {
      read_policy(path);
      ADD_FAILURE() << rule;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::bad_input);
      EXPECT_THAT(error.what(), HasSubstr(path + ": "));
      EXPECT_THAT(error.what(), HasSubstr(message));
      EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos);
    }
  }
}

}  // namespace
}  // namespace lossgrid
