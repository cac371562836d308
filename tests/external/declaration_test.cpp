// SPDX-License-Identifier: Apache-2.0
// Declarations and costs as a launcher in any language sends them. No worker runs.
#include <gmock/gmock.h>

#include "harness/core/error.h"
#include "harness/external/declared_cost.h"
#include "harness/external/external_implementation.h"

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
              ::testing::HasSubstr("a declaration that is not of the protocol"));
}

TEST(ExternalDeclarations, HaveDetailsForTheReport) {
  const std::map<std::string, std::string> details = {{"packages", "verl 0.9.1"}};
  EXPECT_EQ(
      declaration_from({{"name", "mine"}, {"returns", {"logprobs"}}, {"details", details}}).details,
      details);
}

using nlohmann::json;
using ::testing::HasSubstr;

ExternalDeclaration with_options(const json& options, const json& offers) {
  return declaration_from(
      {{"name", "mine"}, {"returns", {"logprobs"}}, {"options", options}, {"offers", offers}});
}

std::string refusal(const ExternalDeclaration& declaration, const ImplementationOptions& options) {
  try {
    typed_options(declaration, options);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::bad_input);
    return error.what();
  }
  return "";
}

TEST(ExternalDeclarations, TakeTheValuesThatAreOffered) {
  const ExternalDeclaration mine = with_options(
      {{"chunk", "int"}, {"rate", "float"}, {"on", "bool"}, {"way", "str"}, {"free", "int"}},
      {{"chunk", {64, 1, 7}}, {"rate", {0.5, 2.0}}, {"on", {true}}, {"way", {"a", "b"}}});
  EXPECT_EQ(
      typed_options(
          mine, {{"chunk", "7"}, {"rate", "2"}, {"on", "True"}, {"way", "b"}, {"free", "1000"}}),
      json({{"chunk", 7}, {"rate", 2}, {"on", true}, {"way", "b"}, {"free", 1000}}));
  EXPECT_EQ(refusal(mine, {{"chunk", "3"}}),
            "option chunk = 3 is not one that 'mine' offers: 64, 1, 7");
  EXPECT_EQ(refusal(mine, {{"rate", "1"}}),
            "option rate = 1 is not one that 'mine' offers: 0.5, 2.0");
  EXPECT_EQ(refusal(mine, {{"on", "false"}}),
            "option on = False is not one that 'mine' offers: True");
  EXPECT_EQ(refusal(mine, {{"way", "c"}}), "option way = c is not one that 'mine' offers: a, b");
}

TEST(ExternalDeclarations, RefuseOffersOfNothing) {
  EXPECT_THROW(with_options({{"chunk", "int"}}, {{"chunk", json::array()}}), Error);
  EXPECT_THROW(with_options({{"chunk", "int"}}, {{"chunks", {1}}}), Error);
}

TEST(ExternalDeclarations, PredictWhatTheirCostHas) {
  const DeclaredCost cost = declared_cost_from(
      {{"ok", true},
       {"forward",
        {{"peak_bytes", 100},
         {"calls",
          {{{"group", "tp"}, {"op", "all_reduce"}, {"calls", 2}, {"bytes", 8}},
           {{"group", "cp"}, {"op", "all_gather"}, {"calls", 1}, {"bytes", 4}},
           {{"group", "tp"}, {"op", "all_reduce"}, {"calls", 1}, {"bytes", 16}},
           {{"group", "tp"}, {"op", "send"}, {"calls", 1}, {"bytes", 4}},
           {{"group", "world"}, {"op", "all_reduce"}, {"calls", 1}, {"bytes", 4}}}}}},
       {"backward", {{"peak_bytes", nullptr}, {"calls", nullptr}}}});
  ASSERT_TRUE(cost.forward.calls.has_value());
  EXPECT_EQ(cost.forward.calls->size(), 5);
  EXPECT_EQ(cost.forward.peak_bytes, 100);
  EXPECT_FALSE(cost.backward.calls.has_value());
  EXPECT_FALSE(cost.backward.peak_bytes.has_value());

  PhaseCost phase;
  phase.workspace_bytes = 5;
  add_prediction(cost.forward, phase);
  EXPECT_EQ(phase.workspace_bytes, 105);
  EXPECT_EQ(phase.tp[Collective::all_reduce], (CollectiveCount{3, 24}));
  EXPECT_EQ(phase.cp[Collective::all_gather], (CollectiveCount{1, 4}));
  EXPECT_EQ(phase.tp.total().calls + phase.cp.total().calls, 4);
}

TEST(ExternalDeclarations, RefuseACostThatIsNotOfTheProtocol) {
  try {
    declared_cost_from({{"ok", true}, {"forward", {{"peak_bytes", 1}, {"calls", nullptr}}}});
    FAIL() << "taken";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::rank_failed);
    EXPECT_THAT(error.what(), HasSubstr("a cost that is not of the protocol"));
  }
}

}  // namespace
}  // namespace lossgrid
