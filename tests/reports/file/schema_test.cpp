// SPDX-License-Identifier: Apache-2.0
// The schema of reports accepts reports as written, and refuses broken ones; an independent
// validator, Python's jsonschema, reads it the same way.
#include "reports/file/schema.h"

#include <functional>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "full_report.h"
#include "harness/core/file.h"
#include "harness/core/text.h"
#include "reports/file/report_json.h"
#include "reports/file/report_writer.h"
#include "reports/file/validate.h"
#include "sample_run.h"
#include "shell.h"

namespace lossgrid {
namespace {

using Json = nlohmann::ordered_json;
using testing::HasSubstr;
using testing::IsEmpty;

/// Verdict of Python's jsonschema on the files, by the schema of `lossgrid schema report`.
ShellOutcome validate(const TemporaryFolder& folder, const std::string& files) {
  write_file_atomically(folder.file("schema.json"), std::string(schema_text("report")));
  return run_shell("/usr/bin/python3 -W ignore -m jsonschema" + files + " " +
                   folder.file("schema.json"));
}

TEST(ReportSchema, WrittenReportsAreValid) {
  const TemporaryFolder folder;
  RunRecord empty;
  empty.command = "replay";
  empty.environment["tool"] = {{"version", "0.1.0"}};
  RunRecord split = sample_run();
  split.trials = {sample_trial(2, 4, "fused", 2)};
  for (const std::string reduction : {"count", "sum", "mean", "min", "max", "global"}) {
    split.trials[0].metrics[reduction + "_metric"] = 1;
    split.trials[0].metric_reductions[reduction + "_metric"] = reduction;
  }
  split.trials[0].branch_shares = {{"always", 1}, {"never", 0}};
  RunRecord linear = sample_run();
  linear.trials = {sample_linear_trial(1, 1e-7, 0.5), sample_linear_trial(4, 2e-7, 0.25),
                   sample_linear_trial(16, std::numeric_limits<double>::infinity(), 3)};
  RunRecord timed = sample_bench_run();
  timed.timings.resize(7, sample_timing());
  timed.timings[1].rows[2].status = TimingStatus::failed;
  timed.timings[1].rows[2].reason = timed.timings[1].reason = "loss: ratio 2";
  timed.timings[1].status = TimingStatus::failed;
  timed.timings[2].not_representative_reason = "4 ranks share 2 cores";
  timed.timings[2].cache = "cold";
  timed.timings[2].padding = "packs to multiples of 64, for mine";
  for (TimingRow& row : timed.timings[3].rows) {  // one rank of an LM head
    row.ceiling = "gemm";
    row.rank_bytes = 0;
    row.bytes_per_second.reset();
    row.rank_flops = 4096;
    row.flops_per_second = row.useful_flops_per_second = 1e9;
    row.straggler.reset();
  }
  for (TimingRow& row : timed.timings[4].rows) {  // nothing is known
    row.ceiling.clear();
    row.ceiling_ratio.reset();
    row.speedup.reset();
    row.rank_bytes = 0;
  }
  const std::vector<TimingStatus> without_rows{TimingStatus::skipped, TimingStatus::error};
  for (std::size_t k = 0; k < without_rows.size(); ++k) {
    TimingRecord& record = timed.timings[5 + k];
    record.status = without_rows[k];
    record.reason = "a reason";
    record.stopped_by.clear();
    record.rounds = 0;
    record.rows.clear();
    record.ceilings.clear();
  }
  RunRecord cut_short = sample_run();
  for (const TrialStatus status : trial_statuses()) {
    cut_short.trials.push_back(sample_cut_short(status));
  }
  RunRecord many_comparisons = sample_ab_run();
  many_comparisons.ab[0].ratio.high = std::numeric_limits<double>::infinity();
  const std::vector<RunRecord> runs{
      sample_run(), sample_mutants_run(), empty,           split, linear, timed,
      cut_short,    sample_ab_run(),      many_comparisons};
  std::string paths;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    const std::string path = folder.file("report-" + std::to_string(i) + ".json");
    ReportWriter(path, runs[i]).finish(runs[i]);
    EXPECT_THAT(validate_file(path).problems, IsEmpty()) << path;
    paths += " -i " + path;
  }
  const ShellOutcome outcome = validate(folder, paths);
  EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
}

/// A change of a valid report, and parts of the lines that name its problems.
struct Broken {
  std::string name;
  std::function<void(Json&)> change;
  std::vector<std::string> parts;
};

void expect_refused(const Json& valid, const std::vector<Broken>& all) {
  ASSERT_THAT(schema_problems("report", valid), IsEmpty());
  for (const Broken& broken : all) {
    Json report = valid;
    broken.change(report);
    const std::string problems = join(schema_problems("report", report), "\n");
    for (const std::string& part : broken.parts) {
      EXPECT_THAT(problems, HasSubstr(part)) << broken.name;
    }
  }
}

TEST(ReportSchema, BrokenReportsAreRefused) {
  const std::vector<Broken> all{
      {"missing key", [](Json& r) { r["trials"][0].erase("id"); }, {"/trials/0:", "'id'"}},
      {"missing run", [](Json& r) { r.erase("run"); }, {"/:", "'run'"}},
      {"wrong type",
       [](Json& r) { r["trials"][1]["grid"]["tp"] = "2"; },
       {"/trials/1/grid/tp:", "Value type not permitted"}},
      {"a fraction of a byte",
       [](Json& r) { r["trials"][0]["memory"][0]["measured_peak_bytes"] = 0.5; },
       {"/trials/0/memory/0/measured_peak_bytes:"}},
      {"another schema", [](Json& r) { r["schema"] = "lossgrid.report/2"; }, {"/schema:"}},
      {"unknown status",
       [](Json& r) { r["trials"][0]["status"] = "ok"; },
       {"status:", "any enum values"}},
      {"crashed without a reason",
       [](Json& r) {
         r["trials"][0]["status"] = "crashed";
         r["trials"][0]["reason"] = "";
       },
       {"/trials/0/reason:"}},
      {"a rank in no known state",
       [](Json& r) {
         r["trials"][0] = trial_to_json(sample_cut_short(TrialStatus::error));
         r["trials"][0]["rank_states"][1]["state"] = "lost";
       },
       {"/trials/0/rank_states/1/state:", "any enum values"}},
      {"no states of ranks",
       [](Json& r) { r["defaults"]["trial"].erase("rank_states"); },
       {"/defaults/trial:", "'rank_states'"}},
      {"no reason", [](Json& r) { r["trials"][1]["reason"] = ""; }, {"/trials/1/reason:"}},
      {"infinite and passed",
       [](Json& r) { r["trials"][2]["checks"][1]["passed"] = true; },
       {"/trials/2/checks/1/passed:", "'const'"}},
      {"text metric",
       [](Json& r) { r["trials"][0]["metrics"]["loss"] = "1"; },
       {"/trials/0/metrics/loss:"}},
      {"no dp rank", [](Json& r) { r["trials"][0]["grid"]["dp"] = 0; }, {"/trials/0/grid/dp:"}},
      {"no stage", [](Json& r) { r["trials"][0]["grid"]["pp"] = 0; }, {"/trials/0/grid/pp:"}},
      {"no microbatch count",
       [](Json& r) { r["defaults"]["batch"].erase("microbatches"); },
       {"/defaults/batch:", "'microbatches'"}},
      {"no microbatches",
       [](Json& r) { r["trials"][0]["batch"]["microbatches"] = 0; },
       {"/trials/0/batch/microbatches:", "greater than or equal"}},
      {"no usual sp",
       [](Json& r) { r["defaults"]["grid"].erase("sp"); },
       {"/defaults/grid:", "'sp'"}},
      {"no tp", [](Json& r) { r["trials"][0]["grid"].erase("tp"); }, {"/trials/0/grid:", "'tp'"}},
      {"sp as a number",
       [](Json& r) { r["trials"][0]["grid"]["sp"] = 2; },
       {"/trials/0/grid/sp:", "Value type not permitted"}},
      {"no chunks",
       [](Json& r) { r["defaults"]["trial"].erase("chunks"); },
       {"/defaults/trial:", "'chunks'"}},
      {"no values that are not judged",
       [](Json& r) { r["defaults"]["trial"].erase("unjudged"); },
       {"/defaults/trial:", "'unjudged'"}},
      {"no defaults", [](Json& r) { r.erase("defaults"); }, {"/:", "'defaults'"}},
      {"a negative error",
       [](Json& r) { r["trials"][0]["relative_l2"]["grad_weight"] = -1e-7; },
       {"/trials/0/relative_l2/grad_weight:", "greater than or equal"}},
      {"a scale that is not a number",
       [](Json& r) { r["trials"][0]["gradient_scale"]["grad_logits"] = nullptr; },
       {"/trials/0/gradient_scale/grad_logits:", "Value type not permitted"}},
      {"an explanation in one text",
       [](Json& r) { r["trials"][0]["explanation"] = "why"; },
       {"/trials/0/explanation:", "Value type not permitted"}},
      {"no work",
       [](Json& r) { r["defaults"]["times"].erase("predicted_flops"); },
       {"/defaults/times:", "'predicted_flops'"}},
      {"no tables", [](Json& r) { r.erase("tables"); }, {"/:", "'tables'"}},
      {"a row without chunks",
       [](Json& r) {
         r["tables"]["grad_weight_error_by_chunks"] = {{{"case", "c"},
                                                        {"chunks", 0},
                                                        {"implementation", "i"},
                                                        {"relative_l2", 0},
                                                        {"ratio", 0}}};
       },
       {"/tables/grad_weight_error_by_chunks/0/chunks:", "greater than or equal"}},
      {"no table of values that are not judged",
       [](Json& r) { r["tables"].erase("unjudged_outputs"); },
       {"/tables:", "'unjudged_outputs'"}},
      {"a share above one",
       [](Json& r) { r["trials"][0]["branches"]["unclipped"] = 1.5; },
       {"/trials/0/branches/unclipped:", "less than or equal"}},
      {"a negative share",
       [](Json& r) { r["trials"][0]["branches"]["unclipped"] = -0.5; },
       {"/trials/0/branches/unclipped:", "greater than or equal"}},
      {"a share that is not a number",
       [](Json& r) { r["trials"][0]["branches"]["unclipped"] = nullptr; },
       {"/trials/0/branches/unclipped:", "Value type not permitted"}},
      {"unknown reduction",
       [](Json& r) { r["trials"][0]["metric_reductions"]["loss"] = "median"; },
       {"/trials/0/metric_reductions/loss:", "any enum values"}},
      {"unknown group",
       [](Json& r) { r["trials"][0]["communication"][0]["group"] = "ep"; },
       {"/trials/0/communication/0/group:", "any enum values"}},
      {"unknown phase of a collective",
       [](Json& r) { r["trials"][0]["communication"][0]["phase"] = "setup"; },
       {"/trials/0/communication/0/phase:", "any enum values"}},
      {"memory of the whole batch",
       [](Json& r) { r["trials"][0]["memory"][0]["phase"] = "batch"; },
       {"/trials/0/memory/0/phase:", "any enum values"}},
      {"time of the whole batch",
       [](Json& r) { r["trials"][0]["times"][0]["phase"] = "batch"; },
       {"/trials/0/times/0/phase:", "any enum values"}},
      {"mutants without a score", [](Json& r) { r["run"]["command"] = "mutants"; }, {"'score'"}},
      {"ab without comparisons", [](Json& r) { r["run"]["command"] = "ab"; }, {"/:", "'ab'"}},
      {"local time", [](Json& r) { r["run"]["started_utc"] = "yesterday"; }, {"/run/started_utc:"}},
  };
  expect_refused(full_report(sample_run()), all);
}

TEST(ReportSchema, BrokenTimingsAreRefused) {
  const std::vector<Broken> all{
      {"no meter", [](Json& r) { r.erase("meter"); }, {"/:", "'meter'"}},
      {"a meter without a verdict",
       [](Json& r) { r["meter"][0].erase("passed"); },
       {"/meter/0:", "'passed'"}},
      {"no cache", [](Json& r) { r["timings"][0].erase("cache"); }, {"/timings/0:", "'cache'"}},
      {"unknown cache",
       [](Json& r) { r["timings"][0]["cache"] = "warm"; },
       {"/timings/0/cache:", "any enum values"}},
      {"timed without rows",
       [](Json& r) { r["timings"][0]["rows"] = Json::array(); },
       {"/timings/0/rows:"}},
      {"skipped with rows",
       [](Json& r) {
         r["timings"][0]["status"] = "skipped";
         r["timings"][0]["reason"] = "why";
       },
       {"/timings/0/rows:"}},
      {"not representative without a reason",
       [](Json& r) { r["timings"][0]["representative"] = false; },
       {"/timings/0/representative_reason:"}},
      {"one sample",
       [](Json& r) { r["timings"][0]["rows"][0]["samples_ns"] = {5}; },
       {"/timings/0/rows/0/samples_ns:", "no fewer than"}},
      {"a failed row without a reason",
       [](Json& r) { r["timings"][0]["rows"][1]["status"] = "failed"; },
       {"/timings/0/rows/1/reason:"}},
      {"an unknown ceiling",
       [](Json& r) { r["timings"][0]["rows"][1]["ceiling"] = "write"; },
       {"/timings/0/rows/1/ceiling:", "any enum values"}},
      {"communication above all",
       [](Json& r) { r["timings"][0]["rows"][1]["communication_ratio"] = 1.5; },
       {"/timings/0/rows/1/communication_ratio:", "less than or equal"}},
      {"no rank times",
       [](Json& r) { r["timings"][0]["rows"][1]["rank_times"] = Json::array(); },
       {"/timings/0/rows/1/rank_times:", "no fewer than"}},
      {"a straggler without a rank",
       [](Json& r) { r["timings"][0]["rows"][1]["straggler"].erase("rank"); },
       {"/timings/0/rows/1/straggler:"}},
      {"an all-reduce of one rank",
       [](Json& r) { r["timings"][0]["all_reduce"][0]["ranks"] = 1; },
       {"/timings/0/all_reduce/0/ranks:", "greater than or equal"}},
      {"an unknown verdict of a comparison",
       [](Json& r) {
         r["ab"] = run_to_json(sample_ab_run())["ab"];
         r["ab"][0]["verdict"] = "GOOD";
         r["ab"][0].erase("margin");
       },
       {"/ab/0/verdict:", "any enum values", "'margin'"}},
  };
  expect_refused(full_report(sample_bench_run()), all);
}

TEST(ReportSchema, AnIndependentValidatorRefusesTheSame) {
  const TemporaryFolder folder;
  const auto is_refused = [&](const std::function<void(Json&)>& change) {
    Json report = compact_report(sample_bench_run());
    change(report);
    write_file_atomically(folder.file("broken.json"), json_text(report));
    return validate(folder, " -i " + folder.file("broken.json")).exit_code != 0;
  };
  EXPECT_FALSE(is_refused([](Json&) {}));
  EXPECT_TRUE(is_refused([](Json& r) { r["defaults"]["trial"].erase("chunks"); }));
  EXPECT_TRUE(is_refused([](Json& r) { r["timings"][0]["rows"][0]["ceiling"] = "write"; }));
  EXPECT_TRUE(is_refused([](Json& r) { r["timings"][0]["reason"] = "not empty"; }));
}

}  // namespace
}  // namespace lossgrid
