// SPDX-License-Identifier: Apache-2.0
// Declarations of workers in any language: values out of range are refused by name.
#include "harness/external/declaration.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harness/core/error.h"

namespace lossgrid {
namespace {

nlohmann::json declared_multiples(const nlohmann::json& sequence, const nlohmann::json& pack) {
  return {{"name", "mine"},
          {"returns", {"logprobs"}},
          {"sequence_multiple", sequence},
          {"pack_multiple", pack}};
}

TEST(ExternalDeclarations, HaveTheMultiplesOfTheirPadding) {
  EXPECT_EQ(declaration_from({{"name", "mine"}, {"returns", {"logprobs"}}}).padding, Padding{});
  EXPECT_EQ(declaration_from(declared_multiples(128, 65536)).padding, (Padding{128, 65536}));
}

TEST(ExternalDeclarations, WithMultiplesOutOfRangeAreRefused) {
  const auto error_of = [](const nlohmann::json& json) -> std::string {
    try {
      declaration_from(json);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::bad_input);
      return error.what();
    }
    return "no error";
  };
  for (const int wrong : {0, -16, 65537}) {
    EXPECT_EQ(error_of(declared_multiples(wrong, 1)),
              fmt::format("'mine': sequence_multiple = {} is not in [1, 65536]", wrong));
    EXPECT_EQ(error_of(declared_multiples(1, wrong)),
              fmt::format("'mine': pack_multiple = {} is not in [1, 65536]", wrong));
  }
  EXPECT_THAT(error_of(declared_multiples("16", 1)),
              testing::HasSubstr("a declaration that is not of the protocol"));
}

}  // namespace
}  // namespace lossgrid
