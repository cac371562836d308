// SPDX-License-Identifier: Apache-2.0
// Suite ci finds a loss that is divided by the tokens of one microbatch: right on a batch in one
// pack, wrong on the same batch in several.
#include <map>

#include <gmock/gmock.h>

#include "python.h"

namespace lossgrid {
namespace {

using nlohmann::ordered_json;
using ::testing::HasSubstr;

const std::string kMeans = R"(
def supports(problem):
    kind = problem.objective["kind"]
    plain = kind == "nll" and problem.objective["token_level_loss"]
    return "" if plain else "the loss is the mean over tokens"


def sum_of(logits, batch):
    x = right(logits, batch)
    return -torch.where(batch.mask, x, torch.zeros_like(x)).sum()


@lossgrid.implementation(returns="loss", supports=supports)
def mean_of_batch(logits, batch):
    return sum_of(logits, batch) / max(batch.denominators.valid_tokens, 1)


@lossgrid.implementation(returns="loss", supports=supports)
def mean_of_microbatch(logits, batch):
    return sum_of(logits, batch) / batch.mask.sum().clamp(min=1)
)";

using ExternalMicrobatches = WithTorch;

TEST_F(ExternalMicrobatches, ShowTheDenominatorOfOneMicrobatch) {
  const std::string report = scratch_.file("ci.json");
  const ProcessResult result =
      run_loaded("run", {write_python("means.py", kMeans)},
                 "--suite ci --impl mean_of_batch,mean_of_microbatch --grid tp1cp1 --quiet "
                 "--report " +
                     report);
  EXPECT_EQ(result.exit_code, 10) << result.out << result.err;
  std::map<std::string, std::map<int, std::string>> statuses;  // by microbatches
  for (const ordered_json& trial : records_of(report, "trials")) {
    const std::string name = trial["case"]["name"];
    const std::string implementation = trial["implementation"];
    if (implementation == "mean_of_batch") {
      EXPECT_TRUE(trial["status"] == "passed" || trial["status"] == "skipped")
          << trial["id"] << trial["reason"];
    }
    if (!name.starts_with("microbatches of the same batch")) continue;
    statuses[implementation][trial["batch"]["microbatches"]] = trial["status"];
    if (trial["status"] == "failed") {
      EXPECT_THAT(trial["reason"].get<std::string>(), HasSubstr("loss: ratio")) << trial["id"];
    }
  }
  using Statuses = std::map<int, std::string>;
  EXPECT_EQ(statuses["mean_of_batch"],
            (Statuses{{1, "passed"}, {2, "passed"}, {4, "passed"}, {5, "passed"}}));
  EXPECT_EQ(statuses["mean_of_microbatch"],
            (Statuses{{1, "passed"}, {2, "failed"}, {4, "failed"}, {5, "failed"}}));
}

TEST_F(ExternalMicrobatches, KnowTheirNumber) {
  const ProcessResult result =
      run_loaded("run", {write_python("numbered.py", R"(
@lossgrid.implementation
def numbered(logits, batch):
    assert 0 <= batch.microbatch < batch.microbatches == 3
    assert batch.microbatch < 2, "the last one"
    return right(logits, batch)
)")},
                 "--impl numbered --case 'lens=5+8+1+3+4+2 vocab=26 microbatches=3' --grid tp1cp1");
  EXPECT_EQ(result.exit_code, 14) << result.out << result.err;
  EXPECT_THAT(result.out, HasSubstr("the last one"));
}

}  // namespace
}  // namespace lossgrid
