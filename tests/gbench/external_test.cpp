// SPDX-License-Identifier: Apache-2.0
// lossgrid_gbench --load: a function in Python beside a built-in implementation, and one that
// raises.
#include <gmock/gmock.h>

#include "external/python.h"

namespace lossgrid {
namespace {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;

using GbenchExternal = WithTorch;

TEST_F(GbenchExternal, TimesImplementationsAndReportsFailures) {
  const std::string file = write_python("mine.py", R"(
@lossgrid.implementation
def mine(logits, batch, *, fails=False):
    if fails:
        raise ValueError("it fails")
    return right(logits, batch)
)");
  const ProcessResult result = run_executable(
      scratch_, LOSSGRID_GBENCH_EXECUTABLE,
      fmt::format("--load '{}' --python '{}' --impl mine,mine:fails=True,fused --case 'lens=5+8 "
                  "vocab=24' --grid tp2cp1 --iterations 2 --benchmark_filter=^trial/",
                  file, kPython));
  EXPECT_EQ(result.exit_code, 14) << result.err;
  for (const char* name : {"mine", "fused"}) {
    EXPECT_THAT(result.out, ContainsRegex(fmt::format(
                                "vocab=24/{}/tp2cp1/forward_backward.* [0-9.]+ us ", name)));
  }
  EXPECT_THAT(result.out, HasSubstr("ValueError: it fails"));
}

}  // namespace
}  // namespace lossgrid
