// SPDX-License-Identifier: Apache-2.0
// Suite nightly: it passes, and lengths 1, 2 and 1000 make the losses of aggregations differ.
#include <cmath>
#include <map>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "full_report.h"
#include "process.h"

namespace lossgrid {
namespace {

using ::testing::HasSubstr;

TEST(Nightly, PassesAndNoTwoAggregationsHaveTheSameLoss) {
  const ScratchFolder scratch;
  const std::string report = scratch.file("report.json");
  const ProcessResult result =
      run_lossgrid(scratch, "run --suite nightly --quiet --report " + report);
  EXPECT_EQ(result.exit_code, 0) << result.out << result.err;
  EXPECT_THAT(result.out, HasSubstr(" passed"));
  struct Loss {
    double value;
    double bound;
  };
  std::map<std::string, Loss> losses;
  const nlohmann::json written = full_report(report);
  for (const nlohmann::json& trial : written["trials"]) {
    const std::string id = trial["id"];
    if (id.find("objective=clipped_pg objective.loss_agg_mode=") != 0 ||
        id.find(" lens=2+1000+1+2 mask=all vocab=24|tp1cp1|reference|") == std::string::npos) {
      continue;
    }
    for (const nlohmann::json& check : trial["checks"]) {
      if (check["name"] == "loss") losses[id] = {trial["metrics"]["loss"], check["bound_abs"]};
    }
  }
  EXPECT_GE(losses.size(), 6u);
  for (const auto& [a, loss] : losses) {
    for (const auto& [b, other] : losses) {
      if (a == b) continue;
      EXPECT_GT(std::abs(loss.value - other.value), 10 * (loss.bound + other.bound)) << a << "\n"
                                                                                     << b;
    }
  }
}

}  // namespace
}  // namespace lossgrid
