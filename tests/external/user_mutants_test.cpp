// SPDX-License-Identifier: Apache-2.0
// lossgrid mutants of loaded implementations: a suite rejects all mutants of a function without
// needless work, and names a collective that can be left out.
#include <gmock/gmock.h>

#include "python.h"

namespace lossgrid {
namespace {

using nlohmann::ordered_json;
using ::testing::HasSubstr;
using ::testing::Not;

const std::string kSuite = R"({"suite": 1, "name": "mine", "summary": "two cases",
  "grids": ["tp2cp1", "tp2cp2"], "implementations": ["fused"],
  "cases": [{"name": "a", "lens": "5+8+1+3", "vocab": 24, "values": "normal", "scale": 3},
            {"name": "b", "lens": "5+8", "vocab": 27, "values": "overflow"}]})";

// A gather that is left out copies 800,000 bytes more than the model has.
const std::string kWasteful = R"(
def needs(problem):
    return lossgrid.Cost(lossgrid.Phase(peak_bytes=1200000))


@lossgrid.implementation(cost=needs)
def wasteful(logits, batch):
    dist.all_reduce(torch.zeros(1), group=batch.tp.group)
    dist.all_gather_into_tensor(torch.zeros(200000), torch.zeros(100000), group=batch.tp.group)
    return right(logits, batch)
)";

class ExternalMutants : public WithTorch {
 protected:
  ProcessResult run_mutants(const std::string& file, const std::string& name) const {
    write_all(scratch_.file("suite.json"), kSuite);
    return run_loaded("mutants", {file},
                      fmt::format("--suite {} --impl {} --report {}", scratch_.file("suite.json"),
                                  name, report()));
  }
  std::string report() const { return scratch_.file("mutants.json"); }
};

TEST_F(ExternalMutants, AreAllRejected) {
  const ProcessResult result = run_mutants(kExamples + "vocab_parallel.py", "vocab_parallel");
  EXPECT_EQ(result.exit_code, 0) << result.out << result.err;
  EXPECT_THAT(result.out, HasSubstr("mutants rejected (100 %)"));
  EXPECT_THAT(result.out, Not(HasSubstr("can be left out")));
  const ordered_json mutants = records_of(report(), "mutants");
  EXPECT_GE(mutants.size(), 3u * 3u + 5u);
  for (const ordered_json& mutant : mutants) {
    EXPECT_EQ(mutant["rejected"], !mutant["is_control"]) << mutant;
  }
  EXPECT_EQ(mutants.back()["name"], "vocab_parallel/unchanged");
  EXPECT_EQ(mutants.back()["trials"], 2);  // every case once
  EXPECT_EQ(mutants.back()["left_out"], ordered_json::array());
  EXPECT_THAT(result.out, HasSubstr("\n1 of 1 controls accepted\n"));
}

TEST_F(ExternalMutants, NameACollectiveThatIsNotNeeded) {
  const ProcessResult result = run_mutants(write_python("wasteful.py", kWasteful), "wasteful");
  EXPECT_EQ(result.exit_code, 10) << result.out << result.err;
  EXPECT_THAT(result.out, HasSubstr("wasteful, collective 1 of the forward: all_reduce sum of 4 "
                                    "bytes over tp can be left out: nothing changes\n"));
  EXPECT_THAT(result.out, HasSubstr("wasteful, collective 2 of the forward: all_gather of 400000 "
                                    "bytes over tp can be left out: nothing changes\n"));
  EXPECT_THAT(result.out, Not(HasSubstr("collective 3 of the forward: all_reduce")));
  for (const ordered_json& mutant : records_of(report(), "mutants")) {
    const std::string name = mutant["name"];
    const bool is_not_needed = name.find("/forward-1-") != std::string::npos ||
                               name.find("/forward-2-") != std::string::npos;
    EXPECT_EQ(mutant["rejected"], !is_not_needed && !mutant["is_control"]) << mutant;
  }
}

// Wrong in the second case of the suite.
const std::string kWrongOnce = R"(
@lossgrid.implementation
def wrong_once(logits, batch):
    logprobs = right(logits, batch)
    return logprobs if logits.shape[1] <= 12 else 1.5 * logprobs
)";

TEST_F(ExternalMutants, ACaseThatTheFunctionFailsItselfRejectsNothing) {
  const ProcessResult result = run_mutants(write_python("once.py", kWrongOnce), "wrong_once");
  EXPECT_TRUE(
      result.out.starts_with("wrong_once fails 1 case of the suite unchanged; it is left "
                             "out:\n  lens=5+8 vocab=27"))
      << result.out << result.err;
  const ordered_json mutants = records_of(report(), "mutants");
  for (const ordered_json& mutant : mutants) {
    if (!mutant["rejected"]) continue;
    EXPECT_FALSE(mutant["is_control"]) << mutant;
    EXPECT_EQ(mutant["rejected_by"]["case"], "a") << mutant;
  }
  EXPECT_EQ(mutants.back()["left_out"].size(), 1u);
  EXPECT_FALSE(mutants.back()["rejected"]);
}

TEST_F(ExternalMutants, AFunctionThatPassesNothingHasNoMutants) {
  const std::string always =
      "\n@lossgrid.implementation\ndef wrong(logits, batch):\n"
      "    return 1.5 * right(logits, batch)\n";
  const ProcessResult result = run_mutants(write_python("wrong.py", always), "wrong");
  EXPECT_EQ(result.exit_code, 65);
  EXPECT_THAT(result.err, HasSubstr("'wrong' passes no trial itself, so its mutants cannot be "
                                    "judged: loss"));
}

TEST_F(ExternalMutants, OneMutantAloneComesWithTheControl) {
  const ProcessResult result =
      run_mutants(kExamples + "vocab_parallel.py", "vocab_parallel/gradient_x2");
  EXPECT_EQ(result.exit_code, 0) << result.out << result.err;
  EXPECT_THAT(result.out, HasSubstr("1 of 1 mutants rejected (100 %)\n1 of 1 controls accepted\n"));
}

}  // namespace
}  // namespace lossgrid
