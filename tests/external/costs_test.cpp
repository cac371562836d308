// SPDX-License-Identifier: Apache-2.0
// Collectives and allocations in the report, for functions with known collectives and allocations.
#include <gmock/gmock.h>

#include "python.h"

namespace lossgrid {
namespace {

using nlohmann::ordered_json;

const std::string kKnown = R"(
class Block(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, group):
        ctx.group = group
        return x.clone()

    @staticmethod
    def backward(ctx, g):
        torch.zeros(500000)  # 2,000,000 bytes
        dist.all_reduce(torch.zeros(3), group=ctx.group)  # 12 bytes
        return g, None


@lossgrid.implementation
def known(logits, batch):
    torch.zeros(250000)  # 1,000,000 bytes
    parts = torch.zeros(28)
    dist.all_gather_into_tensor(parts, torch.zeros(7), group=batch.world.group)  # sends 28 bytes
    dist.all_reduce(torch.zeros(5), group=batch.tp.group)  # 20 bytes
    return Block.apply(right(logits, batch), batch.cp.group)  # three of one float a row over TP
)";

using ExternalCosts = WithTorch;

TEST_F(ExternalCosts, CollectivesAndPeaksAreThoseOfTheFunction) {
  const std::string report = scratch_.file("known.json");
  // 5 and 8 tokens are padded to 8 and 8, of which a CP rank has 8 rows.
  const ProcessResult result =
      run_loaded("run", {write_python("known.py", kKnown)},
                 "--impl known --case 'lens=5+8 vocab=24' --grid tp2cp2 --report " + report);
  ASSERT_EQ(result.exit_code, 0) << result.out << result.err;
  const ordered_json trial = records_of(report, "trials")[0];
  std::map<std::string, std::pair<std::int64_t, std::int64_t>> calls;
  for (const ordered_json& entry : trial["communication"]) {
    const std::string phase = entry["phase"];
    if (phase != "forward" && phase != "backward") continue;
    calls[fmt::format("{} {} {}", phase, entry["group"].get<std::string>(),
                      entry["operation"].get<std::string>())] = {entry["measured_calls"],
                                                                 entry["measured_payload_bytes"]};
  }
  const decltype(calls) wanted = {{"forward tp all_reduce", {4, 3 * 8 * 4 + 20}},
                                  {"forward world all_gather", {1, 28}},
                                  {"backward cp all_reduce", {1, 12}}};
  EXPECT_EQ(calls, wanted);
  int peaks = 0;
  for (const ordered_json& entry : trial["memory"]) {
    if (entry["phase"] == "forward") {
      EXPECT_EQ(entry["measured_peak_bytes"], 1000000) << entry;
    } else if (entry["phase"] == "backward") {
      EXPECT_EQ(entry["measured_peak_bytes"], 2000000) << entry;
    } else {
      continue;
    }
    ++peaks;
  }
  EXPECT_EQ(peaks, 8);  // two for each rank
}

}  // namespace
}  // namespace lossgrid
