// SPDX-License-Identifier: Apache-2.0
// Functions with a model of their costs: as for built-in implementations, a difference is exit code
// 12 and a line that names the call or the peak.
#include <gmock/gmock.h>

#include "python.h"

namespace lossgrid {
namespace {

using nlohmann::ordered_json;
using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

// 3 columns are 2 and 1 columns of two TP ranks.
const std::string kThree = "--case 'lens=5+8 vocab=3' --grid tp1cp1,tp2cp1,tp2cp2 ";

const std::string kModels = R"(
def known(logits, batch):
    torch.zeros(100000 * logits.shape[1])  # 400,000 bytes a column
    return right(logits, batch)            # three of one float a row over TP


def needs(problem, calls=3, peak=None):
    reduced = ("tp", "all_reduce", calls, calls * 4 * problem.rows)
    peak = 400000 * problem.columns if peak is None else peak
    return lossgrid.Cost(forward=lossgrid.Phase([reduced], peak), backward=lossgrid.Phase([]))


@lossgrid.implementation(cost=needs)
def honest(logits, batch):
    return known(logits, batch)


@lossgrid.implementation(cost=needs)
def wasteful(logits, batch):
    dist.all_reduce(torch.zeros(1), group=batch.tp.group)
    return known(logits, batch)


@lossgrid.implementation(cost=lambda problem: needs(problem, calls=4))
def idle(logits, batch):
    return known(logits, batch)


@lossgrid.implementation(cost=lambda problem: needs(problem, peak=400000 * problem.columns + 50000))
def smaller(logits, batch):
    return known(logits, batch)


@lossgrid.implementation(cost=lambda problem: needs(problem, peak=400000 * -(-3 // problem.grid.tp)))
def of_widest_rank(logits, batch):
    return known(logits, batch)


@lossgrid.implementation(cost=lambda problem: lossgrid.Cost(backward=lossgrid.Phase([])))
def partial(logits, batch):
    dist.all_reduce(torch.zeros(1), group=batch.tp.group)
    return known(logits, batch)


@lossgrid.implementation(cost=lambda problem: 1 / 0)
def raises(logits, batch):
    return known(logits, batch)


@lossgrid.implementation(cost=lambda problem: needs(problem) if problem.tp_rank == 0 else 1 / 0)
def raises_for_one(logits, batch):
    return known(logits, batch)


@lossgrid.implementation(cost=lambda problem: 7)
def nonsense(logits, batch):
    return known(logits, batch)


@lossgrid.implementation(supports=lambda problem: 1 / 0)
def cannot_tell(logits, batch):
    return known(logits, batch)
)";

class ExternalCostModels : public WithTorch {
 protected:
  ProcessResult run_models(const std::string& names, const std::string& where = kThree,
                           const std::string& command = "run") const {
    return run_loaded(command, {write_python("models.py", kModels)},
                      fmt::format("--impl {} {}", names, where));
  }
  std::string report() const { return scratch_.file("models.json"); }
};

TEST_F(ExternalCostModels, OnesThatHoldPassAndStandInTheReport) {
  const ProcessResult result = run_models("honest", kThree + "--report " + report());
  ASSERT_EQ(result.exit_code, 0) << result.out << result.err;
  const ordered_json trials = records_of(report(), "trials");
  ASSERT_EQ(trials.size(), 3);
  const ordered_json& call = trials[2]["communication"][0];
  EXPECT_EQ(call["predicted_calls"], 3);
  EXPECT_EQ(call["predicted_payload_bytes"], 3 * 4 * 8);  // 16 padded rows, half of them here
  const ordered_json& memory = trials[1]["memory"];
  ASSERT_EQ(memory.size(), 4);
  EXPECT_EQ(memory[0]["predicted_peak_bytes"], 800000);
  EXPECT_EQ(memory[1]["predicted_peak_bytes"], nullptr);  // the model has no peak of the backward
  EXPECT_EQ(memory[2]["predicted_peak_bytes"], 400000);
  EXPECT_EQ(memory[2]["measured_peak_bytes"], 400000);
}

TEST_F(ExternalCostModels, ACallTooMuchOrTooFewEndsWith12AndIsNamed) {
  const ProcessResult wasteful = run_models("wasteful");
  EXPECT_EQ(wasteful.exit_code, 12) << wasteful.out << wasteful.err;
  EXPECT_THAT(
      wasteful.out,
      AllOf(HasSubstr("3 failed"),
            HasSubstr("communication: rank 0 forward tp all_reduce: 4 calls and 160 bytes, "
                      "predicted 3 and 156"),
            HasSubstr("4 calls and 100 bytes, predicted 3 and 96"), Not(HasSubstr("memory:"))));
  const ProcessResult idle = run_models("idle");
  EXPECT_EQ(idle.exit_code, 12) << idle.out << idle.err;
  EXPECT_THAT(idle.out, HasSubstr("3 calls and 156 bytes, predicted 4 and 208"));
}

TEST_F(ExternalCostModels, AnotherPeakEndsWith12AndIsNamed) {
  const ProcessResult smaller = run_models("smaller");
  EXPECT_EQ(smaller.exit_code, 12) << smaller.out << smaller.err;
  // 4 % of three columns is within the tolerance, 6 % of two columns is not.
  EXPECT_THAT(smaller.out,
              AllOf(HasSubstr("1 passed, 2 failed"),
                    HasSubstr("memory: rank 0 forward needed 800000 bytes, predicted 850000")));
  const ProcessResult widest = run_models("of_widest_rank");
  EXPECT_EQ(widest.exit_code, 12) << widest.out << widest.err;
  EXPECT_THAT(widest.out,
              AllOf(HasSubstr("1 passed, 2 failed"),
                    HasSubstr("memory: rank 1 forward needed 400000 bytes, predicted 800000")));
}

TEST_F(ExternalCostModels, NothingIsHeldToWhatAModelLeavesOut) {
  const ProcessResult result = run_models("partial", kThree + "--report " + report());
  EXPECT_EQ(result.exit_code, 0) << result.out << result.err;
  const ordered_json call = records_of(report(), "trials")[0]["communication"][0];
  EXPECT_EQ(call["phase"], "forward");
  EXPECT_EQ(call["predicted_calls"], nullptr);
}

TEST_F(ExternalCostModels, FunctionsOfTheProblemThatFailEndTheirTrialsAlone) {
  const ProcessResult result = run_models("raises,raises_for_one,nonsense,cannot_tell,honest");
  EXPECT_EQ(result.exit_code, 14) << result.out << result.err;
  EXPECT_THAT(
      result.out,
      AllOf(HasSubstr("4 passed, 11 error"),
            ContainsRegex("reason: cost of 'raises': ZeroDivisionError: division by zero "
                          "\\(models.py:[0-9]+ in <lambda>\\)\n"),
            ContainsRegex("reason: rank 1 in plan: cost of 'raises_for_one': ZeroDivisionError: "),
            HasSubstr("reason: cost of 'nonsense': it returned 7, wanted a lossgrid.Cost\n"),
            HasSubstr("reason: supports of 'cannot_tell': ZeroDivisionError: division by zero")));
  const ProcessResult timed =
      run_models("raises", "--case 'lens=5+8 vocab=3' --min-samples 2", "bench");
  EXPECT_EQ(timed.exit_code, 14) << timed.out << timed.err;
  EXPECT_THAT(timed.out, HasSubstr("error on tp1cp1, cache hot: cost of 'raises': Zero"));
}

TEST_F(ExternalCostModels, PlanShowsThem) {
  const std::string json = scratch_.file("plan.json");
  const ProcessResult result = run_models("honest,partial", kThree + "--json " + json, "plan");
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const ordered_json plans = ordered_json::parse(read_all(json))["plans"];
  const ordered_json& honest = plans[1]["rows"][0];
  EXPECT_EQ(honest["collectives"][0]["calls"], 3);
  EXPECT_EQ(honest["collectives"][0]["payload_bytes"], 156);
  const ordered_json& partial = plans[1]["rows"][1];
  EXPECT_EQ(partial["collectives"].size(), 0);
  const auto workspace = [](const ordered_json& row) {
    return row["phases"][1]["workspace_bytes"].get<std::int64_t>();
  };
  EXPECT_EQ(workspace(honest) - workspace(partial), 800000);
}

}  // namespace
}  // namespace lossgrid
