// SPDX-License-Identifier: Apache-2.0
// `expect_bad_input`: expectation of an Error whose message names the thing and the rule.
#pragma once

#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harness/core/error.h"

namespace lossgrid {

template <typename F>
void expect_bad_input(F&& f, const std::vector<std::string>& parts) {
  try {
    f();
    ADD_FAILURE() << "no error; expected one about " << testing::PrintToString(parts);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::bad_input) << error.what();
    for (const std::string& part : parts) EXPECT_THAT(error.what(), testing::HasSubstr(part));
    EXPECT_THAT(error.what(), testing::Not(testing::HasSubstr("\n")));
  }
}

}  // namespace lossgrid
