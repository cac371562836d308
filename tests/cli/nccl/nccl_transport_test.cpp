// SPDX-License-Identifier: Apache-2.0
// NCCL on the command line: whole runs through a stand-in for the library, and refusals.
#include <cstdlib>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "full_report.h"
#include "harness/device/backend.h"
#include "process.h"

namespace lossgrid {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

constexpr const char* kTransportCase = "run --case 'lens=5+8 vocab=24' --impl fused ";

/// Sets the library for the processes that a test starts.
class NcclLibraryScope {
 public:
  explicit NcclLibraryScope(const char* path) { setenv("LOSSGRID_NCCL_LIBRARY", path, 1); }
  ~NcclLibraryScope() { unsetenv("LOSSGRID_NCCL_LIBRARY"); }
};

TEST(NcclTransport, IsListedWithItsVersionOrWhyItIsNotThere) {
  const ScratchFolder scratch;
  const auto listed = [&](const char* library) {
    const NcclLibraryScope scope(library);
    const ProcessResult result = run_lossgrid(scratch, "list transports");
    EXPECT_EQ(result.exit_code, 0) << result.err;
    EXPECT_THAT(result.out, HasSubstr("thread  ranks are threads of one process\nmpi     "));
    return result.out.substr(result.out.find("\nnccl    ") + 9);
  };
  EXPECT_THAT(listed(LOSSGRID_FAKE_NCCL), HasSubstr("NCCL 2.28.9 between GPUs of such ranks, an "
                                                    "emulation for --backend cuda_emulated"));
  EXPECT_THAT(listed("/nowhere/libnccl.so"), HasSubstr("not here: /nowhere/libnccl.so: cannot"));
}

// Both halves of a trial: kernels whose memory the host cannot read, and messages between ranks.
TEST(NcclTransport, TrialsPassThroughTheLibrary) {
  const NcclLibraryScope scope(LOSSGRID_FAKE_NCCL);
  const ScratchFolder scratch;
  const std::string report = scratch.file("report.json");
  const std::string flags =
      "run --case 'lens=5+8 vocab=24' --case 'lens=8+8 vocab=24 hidden=16' "
      "--impl fused,per_sequence,cp_gather_logits,linear_ce --backend cuda_emulated "
      "--grid tp2cp2,tp4cp1,tp2cp1dp2pp2,tp2cp2sp --report " +
      report;
  const ProcessResult result = run_lossgrid(scratch, flags + " --transport nccl --require nccl");
  EXPECT_EQ(result.exit_code, 0) << result.out << result.err;
  int passed = 0;
  const json found = full_report(report);
  EXPECT_EQ(found["environment"]["nccl"], "2.28.9");
  for (const json& trial : found["trials"]) {
    EXPECT_EQ(trial["transport"], "nccl");
    EXPECT_THAT(std::string(trial["reproduce"]), HasSubstr(" --transport nccl"));
    if (trial["status"] != "passed") continue;
    ++passed;
    // NCCL adds in its own order, which sums of two numbers do not show.
    EXPECT_EQ(trial["determinism"][0]["claimed"], trial["grid"]["tp"] == 2);
  }
  EXPECT_EQ(passed, 3 * 4 + 4);
  // Other transports add in rank order, so their trials are not taken over.
  const ProcessResult resumed = run_lossgrid(
      scratch, std::string(kTransportCase) + "--grid tp2cp2 --backend cuda_emulated --resume " +
                   report + " --report " + scratch.file("threads.json"));
  EXPECT_EQ(resumed.exit_code, 0) << resumed.err;
  const json trials = full_report(scratch.file("threads.json"))["trials"];
  ASSERT_EQ(trials.size(), 1u);
  EXPECT_EQ(trials[0]["transport"], "thread");
}

TEST(NcclTransport, TimingsGoThroughTheLibrary) {
  const NcclLibraryScope scope(LOSSGRID_FAKE_NCCL);
  const ScratchFolder scratch;
  const auto forward = [&](const std::string& transport) {
    const std::string report = scratch.file(transport + ".json");
    const ProcessResult result = run_lossgrid(
        scratch,
        "bench --case 'lens=5+8 vocab=24' --impl fused --grid tp2cp1 --backend cuda_emulated "
        "--max-seconds 0.1 --cache hot --quiet --transport " +
            transport + " --report " + report);
    EXPECT_EQ(result.exit_code, 0) << result.out << result.err;
    const json timing = json::parse(read_all(report))["timings"][0];
    EXPECT_EQ(timing["transport"], transport);
    EXPECT_EQ(timing["rows"][0]["phase"], "forward");
    return std::int64_t{timing["rows"][0]["kernel_launches"]};
  };
  // The gather over TP is a kernel, too.
  EXPECT_EQ(forward("nccl"), forward("thread") + 1);
}

TEST(NcclTransport, UnsupportedRunsAreSkippedOrRefusedWithTheReason) {
  const NcclLibraryScope scope(LOSSGRID_FAKE_NCCL);
  const ScratchFolder scratch;
  const auto output_of = [&](const std::string& flags, int code) {
    const ProcessResult result = run_lossgrid(scratch, kTransportCase + flags);
    EXPECT_EQ(result.exit_code, code) << flags << '\n' << result.out << result.err;
    return result.out + result.err;
  };
  EXPECT_EQ(output_of("--transport nccl", 64),
            "lossgrid: --transport nccl moves memory of GPUs: it takes --backend cuda\n");
  EXPECT_EQ(output_of("--require nccl", 65),
            "lossgrid: --require nccl: it takes --transport nccl\n");
  const std::string reason = text_of(no_device(Backend::cuda));
  if (!reason.empty()) {
    EXPECT_THAT(output_of("--transport nccl --backend cuda", 77),
                HasSubstr("no_device: " + reason));
  }
  const NcclLibraryScope missing("/nowhere/libnccl.so");
  EXPECT_THAT(output_of("--transport nccl --backend cuda_emulated", 77),
              HasSubstr("no_nccl: /nowhere/libnccl.so: cannot open"));
  EXPECT_THAT(output_of("--transport nccl --backend cuda_emulated --require nccl", 65),
              HasSubstr("--require nccl: /nowhere/libnccl.so: cannot open"));
}

}  // namespace
}  // namespace lossgrid
