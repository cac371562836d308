// SPDX-License-Identifier: Apache-2.0
#include "harness/runner/job/admission.h"

#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <vector>

#include <gtest/gtest.h>

namespace lossgrid {
namespace {

const Ranks kThreads;

Admission admission_of_two_ranks() {
  return {kThreads, Grid{.tp = 2}, Backend::cpu};
}

Refusal refusal_after(const std::function<std::optional<SkipReason>(RanksMemory&)>& ask) {
  return admission_of_two_ranks().refusal(ask);
}

TEST(Admission, IsClosedForAReasonOrWithoutADevice) {
  EXPECT_EQ(text_of(admission_of_two_ranks().closed(SkipReason{"why"})), "why");
  EXPECT_FALSE(admission_of_two_ranks().closed(std::nullopt));
}

TEST(Admission, RefusesNothingThatFits) {
  const Refusal refusal = refusal_after([](RanksMemory& need) {
    EXPECT_EQ(need.rank_bytes, (std::vector<std::int64_t>{0, 0}));
    need.rank_bytes.assign(2, 1);
    return std::nullopt;
  });
  EXPECT_FALSE(refusal.skipped);
  EXPECT_FALSE(refusal.failure);
}

TEST(Admission, SkipsForTheReasonThatIsFoundBeforeTheLackOfMemory) {
  const auto fill = [](RanksMemory& need) {
    need.rank_bytes.assign(2, std::numeric_limits<std::int64_t>::max() / 4);
  };
  const Refusal reason = refusal_after([&](RanksMemory& need) {
    fill(need);
    return SkipReason{"odd vocab"};
  });
  EXPECT_EQ(text_of(reason.skipped), "odd vocab");
  const Refusal shortage = refusal_after([&](RanksMemory& need) {
    fill(need);
    return std::nullopt;
  });
  EXPECT_TRUE(text_of(shortage.skipped).starts_with("not enough memory: needs "));
  EXPECT_FALSE(shortage.failure);
}

TEST(Admission, FailsByTheImplementationAndThrowsAllOtherErrors) {
  const Refusal refused = refusal_after([](RanksMemory&) -> std::optional<SkipReason> {
    throw Error(ErrorCode::unsupported, "no bf16 here");
  });
  EXPECT_FALSE(refused.skipped);
  ASSERT_TRUE(refused.failure);
  EXPECT_EQ(refused.failure->code, ErrorCode::unsupported);
  EXPECT_EQ(refused.failure->text, "no bf16 here");
  EXPECT_THROW(refusal_after([](RanksMemory&) -> std::optional<SkipReason> {
                 throw Error(ErrorCode::bad_input, "a bad case");
               }),
               Error);
}

}  // namespace
}  // namespace lossgrid
