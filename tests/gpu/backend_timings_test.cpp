// SPDX-License-Identifier: Apache-2.0
// Timings with the kernels of GPUs, emulated on the processor, and on a GPU if there is one:
// outputs of the last timed iteration are right, also after iterations in place, and records are
// complete. No test reads a time.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harness/device/backend.h"
#include "harness/runner/timing/timing.h"

namespace lossgrid {
namespace {

using ::testing::HasSubstr;

class BackendTimings : public ::testing::TestWithParam<Backend> {
 protected:
  void SetUp() override {
    const std::string reason = text_of(no_device(GetParam()));
    if (!reason.empty()) GTEST_SKIP() << "needs a GPU: " << reason;
  }

  static TimingRecord run(const std::string& case_text, const std::vector<std::string>& names,
                          const Grid& grid, CacheMode cache) {
    TimingRequest request;
    request.min_samples = 3;
    request.target_stderr = 1e12;  // whatever else the machine does
    const PreparedProblem prepared = prepare(make_problem(parse_case(case_text)));
    return time_implementations(prepared, names, grid, request, cache, std::chrono::seconds(60),
                                Ranks(), std::nullopt, GetParam())
        .record;
  }
};

TEST_P(BackendTimings, OutputsOfTheLastIterationAreRight) {
  const std::vector<std::string> from_logits{"per_sequence", "fused", "one_sweep:in_place=true"};
  const std::vector<std::string> from_hidden{"linear_ce", "linear_materialized"};
  struct Timed {
    const char* case_text;
    const std::vector<std::string>& names;
    std::vector<std::string> ceilings;
  };
  for (const Timed& timed :
       {Timed{"lens=5+8 vocab=96 dtype=bf16", from_logits, {"read", "copy", "update"}},
        Timed{"lens=5+8 vocab=96 hidden=16 dtype=bf16",
              from_hidden,
              {"gemm_logits", "gemm_hidden", "gemm_weight", "gemm_logits_bf16", "gemm_hidden_bf16",
               "gemm_weight_bf16"}}}) {
    for (const CacheMode cache : {CacheMode::hot, CacheMode::cold}) {
      const TimingRecord record = run(timed.case_text, timed.names, {2, 1}, cache);
      EXPECT_LT(record.status, TimingStatus::above_ceiling) << record.reason;
      EXPECT_EQ(record.rows.size(),
                3 * timed.names.size() - (&timed.names == &from_logits ? 2 : 0));
      EXPECT_EQ(record.timer, GetParam() == Backend::cuda ? "cuda_events" : "steady_clock");
      EXPECT_EQ(record.backend, name(GetParam()));
      if (GetParam() == Backend::cuda_emulated) {
        EXPECT_NE(record.not_representative_reason, "");
      }
      for (const TimingRow& row : record.rows) {
        EXPECT_GE(row.kernel_launches, 1) << row.implementation << " " << row.phase;
        EXPECT_GE(row.host_synchronisations, 1) << row.implementation << " " << row.phase;
      }
      std::vector<std::string> ceilings;
      for (const CeilingRow& row : record.ceilings) ceilings.push_back(row.name);
      EXPECT_EQ(ceilings, timed.ceilings);
    }
  }
}

TEST_P(BackendTimings, WrongOutputsAreSeen) {
  const TimingRecord record =
      run("lens=5+8 vocab=96", {"mutant/gradient_times_2"}, {1, 1}, CacheMode::hot);
  EXPECT_EQ(record.status, TimingStatus::failed);
  EXPECT_THAT(record.reason, HasSubstr("outputs of the last timed iteration"));
}

std::string name_of_timed(const testing::TestParamInfo<Backend>& info) {
  return std::string(name(info.param));
}

INSTANTIATE_TEST_SUITE_P(Gpu, BackendTimings,
                         testing::Values(Backend::cuda_emulated, Backend::cuda), name_of_timed);

}  // namespace
}  // namespace lossgrid
