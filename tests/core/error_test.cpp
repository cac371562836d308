// SPDX-License-Identifier: Apache-2.0
#include "harness/core/error.h"

#include <array>
#include <set>
#include <string>

#include <gtest/gtest.h>

namespace lossgrid {
namespace {

constexpr std::array<ErrorCode, 10> kCodes{ErrorCode::usage,       ErrorCode::bad_input,
                                           ErrorCode::unsupported, ErrorCode::not_enough_memory,
                                           ErrorCode::device_lost, ErrorCode::rank_failed,
                                           ErrorCode::aborted,     ErrorCode::timeout,
                                           ErrorCode::io,          ErrorCode::internal};

TEST(Error, HasItsCodeAndMessage) {
  const Error error(ErrorCode::timeout, "too late");
  EXPECT_EQ(error.code(), ErrorCode::timeout);
  EXPECT_STREQ(error.what(), "too late");
}

TEST(Error, MessageIsNotCutAtAZeroByte) {
  const Error error(ErrorCode::bad_input, std::string("\0 = [1: no ']'\0", 15));
  EXPECT_STREQ(error.what(), "\\u0000 = [1: no ']'\\u0000");
}

TEST(Error, ThrowBadInputFormats) {
  try {
    throw_bad_input("{} = {} is odd", "vocab", 97);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::bad_input);
    EXPECT_STREQ(error.what(), "vocab = 97 is odd");
  }
}

TEST(Error, NamesAreDifferent) {
  std::set<std::string_view> names;
  for (const ErrorCode code : kCodes) names.insert(name(code));
  EXPECT_EQ(names.size(), kCodes.size());
  EXPECT_EQ(name(ErrorCode::not_enough_memory), "not_enough_memory");
}

// The numbers are an interface: scripts and CI read them.
TEST(Error, ExitCodesAreFixed) {
  EXPECT_EQ(static_cast<int>(ExitCode::ok), 0);
  EXPECT_EQ(static_cast<int>(ExitCode::correctness), 10);
  EXPECT_EQ(static_cast<int>(ExitCode::time_regression), 11);
  EXPECT_EQ(static_cast<int>(ExitCode::cost_regression), 12);
  EXPECT_EQ(static_cast<int>(ExitCode::inconclusive), 13);
  EXPECT_EQ(static_cast<int>(ExitCode::rank_crashed), 14);
  EXPECT_EQ(static_cast<int>(ExitCode::hang), 15);
  EXPECT_EQ(static_cast<int>(ExitCode::usage), 64);
  EXPECT_EQ(static_cast<int>(ExitCode::bad_input), 65);
  EXPECT_EQ(static_cast<int>(ExitCode::nothing_ran), 77);
}

TEST(Error, EveryErrorCodeHasAnExitCode) {
  EXPECT_EQ(exit_code(ErrorCode::usage), ExitCode::usage);
  EXPECT_EQ(exit_code(ErrorCode::bad_input), ExitCode::bad_input);
  EXPECT_EQ(exit_code(ErrorCode::io), ExitCode::bad_input);
  EXPECT_EQ(exit_code(ErrorCode::unsupported), ExitCode::nothing_ran);
  EXPECT_EQ(exit_code(ErrorCode::not_enough_memory), ExitCode::nothing_ran);
  EXPECT_EQ(exit_code(ErrorCode::timeout), ExitCode::hang);
  EXPECT_EQ(exit_code(ErrorCode::device_lost), ExitCode::rank_crashed);
  EXPECT_EQ(exit_code(ErrorCode::rank_failed), ExitCode::rank_crashed);
  EXPECT_EQ(exit_code(ErrorCode::aborted), ExitCode::rank_crashed);
  EXPECT_EQ(exit_code(ErrorCode::internal), ExitCode::rank_crashed);
}

// 14, 15 > 10 > 12 > 11 > 13 > 0; neither the number nor the order of the arguments decides.
TEST(Error, WorstOfEveryPairIsKnown) {
  constexpr std::array<ExitCode, 10> kFromBest{ExitCode::ok,
                                               ExitCode::nothing_ran,
                                               ExitCode::inconclusive,
                                               ExitCode::time_regression,
                                               ExitCode::cost_regression,
                                               ExitCode::correctness,
                                               ExitCode::hang,
                                               ExitCode::rank_crashed,
                                               ExitCode::usage,
                                               ExitCode::bad_input};
  for (std::size_t i = 0; i < kFromBest.size(); ++i) {
    for (std::size_t j = 0; j <= i; ++j) {
      EXPECT_EQ(worst(kFromBest[i], kFromBest[j]), kFromBest[i]) << i << ' ' << j;
      EXPECT_EQ(worst(kFromBest[j], kFromBest[i]), kFromBest[i]) << i << ' ' << j;
    }
  }
}

}  // namespace
}  // namespace lossgrid
