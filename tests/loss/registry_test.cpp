// SPDX-License-Identifier: Apache-2.0
#include "harness/loss/registry.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harness/core/error.h"

namespace lossgrid {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class NoImplementation final : public LossImplementation {
 public:
  explicit NoImplementation(std::string option) : option_(std::move(option)) {}
  ImplementationTraits describe() const override { return {option_, ""}; }
  std::optional<SkipReason> unsupported(const LossProblem&) const override {
    return SkipReason{"never"};
  }
  Cost cost(const LossProblem&) const override { return {}; }
  std::unique_ptr<LossPlan> plan(const LossProblem&, RankContext) const override { return nullptr; }

 private:
  std::string option_;
};

ImplementationEntry entry(const std::string& name, ImplementationKind kind) {
  ImplementationEntry e;
  e.name = name;
  e.kind = kind;
  e.make = [name](const ImplementationOptions& options) {
    require_known_options(options, {"chunk"}, name);
    const auto chunk = options.find("chunk");
    return std::make_unique<NoImplementation>(chunk == options.end() ? "" : chunk->second);
  };
  return e;
}

const Registered zebra{entry("zebra", ImplementationKind::real)};
const Registered apple{entry("apple", ImplementationKind::real)};
const Registered wrong{entry("mutant/apple_wrong", ImplementationKind::mutant)};

ImplementationEntry with_offers() {
  ImplementationEntry e = entry("offering", ImplementationKind::external);
  e.offers = {{"chunk", {"64", "1", "7"}}, {"way", {"a", "b"}}};
  return e;
}

const Registered offering{with_offers()};

std::string message_of(const std::string& text) {
  try {
    make_implementation(text);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::bad_input);
    return error.what();
  }
  return "no error";
}

TEST(Registry, ListsByNameAndKind) {
  const auto real = implementations(ImplementationKind::real);
  ASSERT_EQ(real.size(), 2u);
  EXPECT_EQ(real[0]->name, "apple");
  EXPECT_EQ(real[1]->name, "zebra");
  ASSERT_EQ(implementations(ImplementationKind::mutant).size(), 1u);
  EXPECT_TRUE(implementations(ImplementationKind::control).empty());
}

TEST(Registry, PassesOptions) {
  EXPECT_EQ(make_implementation("apple:chunk=7")->describe().name, "7");
  EXPECT_EQ(make_implementation("apple")->describe().name, "");
  EXPECT_NE(make_implementation("mutant/apple_wrong"), nullptr);
}

TEST(Registry, NamesWhatIsWrong) {
  EXPECT_THAT(message_of("aple"),
              HasSubstr("unknown implementation 'aple'; did you mean 'apple'?"));
  EXPECT_THAT(message_of("mutant/aple_wrong"), HasSubstr("did you mean 'mutant/apple_wrong'?"));
  EXPECT_THAT(message_of("qqqqqqqqqqq"), HasSubstr("known: apple, offering, zebra"));
  EXPECT_THAT(message_of("qqqqqqqqqqq"), Not(HasSubstr("mutant")));
  EXPECT_THAT(message_of("apple:chunks=7"), HasSubstr("did you mean 'chunk'?"));
  EXPECT_THAT(message_of("apple:chunk"), HasSubstr("is not option=value"));
  EXPECT_THAT(message_of("apple:chunk=1:chunk=2"), HasSubstr("given twice"));
}

TEST(Registry, RefusesTheSameNameTwice) {
  EXPECT_THROW(register_implementation(entry("apple", ImplementationKind::real)), Error);
}

TEST(Registry, VariesOneOfferedOptionAtATime) {
  EXPECT_THAT(with_offered_values({"apple", "offering", "nowhere:chunk=1"}),
              ElementsAre("apple", "offering", "offering:chunk=1", "offering:chunk=7",
                          "offering:way=b", "nowhere:chunk=1"));
  EXPECT_THAT(with_offered_values({"offering:free=2"}),
              ElementsAre("offering:free=2", "offering:free=2:chunk=1", "offering:free=2:chunk=7",
                          "offering:free=2:way=b"));
}

TEST(Registry, RunsChosenOrRepeatedValuesOnce) {
  EXPECT_THAT(with_offered_values({"offering:chunk=64"}), ElementsAre("offering:chunk=64"));
  EXPECT_THAT(with_offered_values({"offering:chunk=7", "offering"}),
              ElementsAre("offering:chunk=7", "offering", "offering:chunk=1", "offering:way=b"));
}

TEST(Registry, VariesAnOptionWithTheNameOfItsImplementation) {
  ImplementationEntry way = entry("way", ImplementationKind::mutant);
  way.offers = {{"way", {"a", "b"}}};
  register_implementation(way);
  EXPECT_THAT(with_offered_values({"way"}), ElementsAre("way", "way:way=b"));
}

TEST(Registry, NamesUnknownObjectives) {
  try {
    find_objective("nl");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::bad_input);
    EXPECT_THAT(error.what(), HasSubstr("objective 'nl'"));
  }
}

}  // namespace
}  // namespace lossgrid
