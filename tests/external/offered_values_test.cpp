// SPDX-License-Identifier: Apache-2.0
// Options that offer values: verified with each value, timed with the default only.
#include <set>

#include <gmock/gmock.h>

#include "python.h"

namespace lossgrid {
namespace {

using nlohmann::ordered_json;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

const std::string kOffers = R"(
from typing import Literal


def by_chunks(logits, batch, chunk, shifted):
    parts = [right_rows(logits[k:k + chunk], batch.labels[k:k + chunk], batch)
             for k in range(0, logits.shape[0], chunk)]
    if shifted and chunk == 1:
        parts = parts[1:] + parts[:1]  # every row has what is the next one's
    return torch.cat(parts) if parts else right(logits, batch)


def right_rows(logits, labels, batch):
    return VocabParallelLogprob.apply(logits, labels, batch.vocab_start, batch.tp.group)


@lossgrid.implementation
def fair(logits, batch, *, chunk: Literal[1, 7, 64] = 64):
    """Chunks of rows."""
    return by_chunks(logits, batch, chunk, False)


@lossgrid.implementation
def spoils_one(logits, batch, *, chunk: "Literal[1, 7, 64]" = 64):
    return by_chunks(logits, batch, chunk, True)


@lossgrid.implementation
def two(logits, batch, *, way: Literal["plain", "other"] = "plain", keep: Literal[True, False] = True,
        factor=1.0):
    return right(logits, batch) * factor
)";

const std::string kOffered = "--case 'lens=5+8 vocab=24' ";

class ExternalOffers : public WithTorch {
 protected:
  ProcessResult run_offers(const std::string& names, const std::string& more = kOffered,
                           const std::string& command = "run") const {
    return run_loaded(command, {write_python("offers.py", kOffers)},
                      fmt::format("--impl {} --report {} {}", names, report(), more));
  }
  std::string report() const { return scratch_.file("offers.json"); }

  /// Returns the implementations of the trials, in their order.
  std::vector<std::string> tried() const {
    std::vector<std::string> names;
    for (const ordered_json& trial : records_of(report(), "trials")) {
      names.push_back(trial["implementation"]);
    }
    return names;
  }
};

TEST_F(ExternalOffers, AreAllRunAndAWrongOneIsNamed) {
  const ProcessResult fair = run_offers("fair");
  EXPECT_EQ(fair.exit_code, 0) << fair.out << fair.err;
  EXPECT_THAT(tried(), ElementsAre("fair", "fair:chunk=1", "fair:chunk=7"));
  const ProcessResult spoils = run_offers("spoils_one");
  EXPECT_EQ(spoils.exit_code, 10) << spoils.out << spoils.err;
  EXPECT_THAT(spoils.out, AllOf(HasSubstr("2 passed, 1 failed"),
                                HasSubstr("failed: lens=5+8 vocab=24|tp1cp1|spoils_one:chunk=1|"),
                                HasSubstr(" --impl spoils_one:chunk=1 --grid tp1cp1")));
}

TEST_F(ExternalOffers, AreVariedOneAtATimeAndNotWhereOneIsGiven) {
  EXPECT_EQ(run_offers("two").exit_code, 0);
  EXPECT_THAT(tried(), ElementsAre("two", "two:keep=False", "two:way=other"));
  EXPECT_EQ(run_offers("two:factor=2.0").exit_code, 10);
  EXPECT_THAT(tried(), ElementsAre("two:factor=2.0", "two:factor=2.0:keep=False",
                                   "two:factor=2.0:way=other"));
  EXPECT_EQ(run_offers("two:way=other,fair:chunk=7").exit_code, 0);
  EXPECT_THAT(tried(), ElementsAre("two:way=other", "fair:chunk=7"));
}

TEST_F(ExternalOffers, AreRunForSuitesAndBundles) {
  const std::string suite = scratch_.file("suite.json");
  write_all(suite, R"({"suite": 1, "name": "mine", "summary": "one", "grids": ["tp1cp1"],
    "implementations": ["fused", "fair"], "cases": [{"name": "a", "lens": "5+8", "vocab": 24}]})");
  const std::string offers = write_python("offers.py", kOffers);
  ASSERT_EQ(run_loaded("run", {offers}, "--suite " + suite + " --report " + report()).exit_code, 0);
  EXPECT_THAT(tried(), ElementsAre("fused", "fair", "fair:chunk=1", "fair:chunk=7"));

  const std::string bundle = scratch_.file("batch.safetensors");
  ASSERT_EQ(run_lossgrid(scratch_, "export " + kOffered + "--out " + bundle).exit_code, 0);
  const ProcessResult replayed = run_offers("spoils_one", bundle, "replay");
  EXPECT_EQ(replayed.exit_code, 10) << replayed.out << replayed.err;
  EXPECT_THAT(tried(), ElementsAre("spoils_one", "spoils_one:chunk=1", "spoils_one:chunk=7"));
  const std::string out = bundle + " --out " + scratch_.file("results.safetensors");
  EXPECT_EQ(run_offers("spoils_one", out, "replay").exit_code, 0);
  EXPECT_THAT(tried(), ElementsAre("spoils_one"));
}

TEST_F(ExternalOffers, AreTimedWithTheDefaultAlone) {
  const std::string few = "--min-samples 2 --target-stderr 1 --max-seconds 20 ";
  const auto timed = [&] {
    std::set<std::string> names;
    const ordered_json timings = records_of(report(), "timings");
    for (const ordered_json& row : timings[0]["rows"]) {
      names.insert(row["implementation"]);
    }
    return names;
  };
  const ProcessResult bench = run_offers("fair", kOffered + few, "bench");
  ASSERT_EQ(bench.exit_code, 0) << bench.out << bench.err;
  EXPECT_THAT(timed(), ElementsAre("fair"));
  ASSERT_EQ(run_offers("fair", kOffered + few + "--mode verify,bench").exit_code, 0);
  EXPECT_THAT(timed(), ElementsAre("fair"));
  EXPECT_THAT(tried(), ElementsAre("fair", "fair:chunk=1", "fair:chunk=7"));
}

TEST_F(ExternalOffers, AreListedAndOthersAreRefused) {
  const std::string offers = write_python("offers.py", kOffers);
  const ProcessResult listed = run_loaded("list implementations", {offers}, "");
  EXPECT_THAT(listed.out, AllOf(HasSubstr("offers.py: Chunks of rows. (chunk: 64, 1, 7)\n"),
                                HasSubstr("(keep: True, False; way: plain, other)\n")));
  const auto expect_refused = [&](const std::string& name, const std::string& line) {
    const ProcessResult refused = run_offers(name);
    EXPECT_EQ(refused.exit_code, 65) << refused.out;
    EXPECT_EQ(refused.err, "lossgrid: " + line + '\n');
  };
  expect_refused("fair:chunk=3", "option chunk = 3 is not one that 'fair' offers: 64, 1, 7");
  expect_refused("two:way=third", "option way = third is not one that 'two' offers: plain, other");
  expect_refused("fair:chunk=x", "option chunk = x is no int");
}

}  // namespace
}  // namespace lossgrid
