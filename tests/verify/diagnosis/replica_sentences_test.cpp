// SPDX-License-Identifier: Apache-2.0
// Numbers of 2 x 2 ranks over DP and CP, whose own parts add up to the truth.
#include "harness/verify/diagnosis/replica_sentences.h"

#include <cmath>
#include <functional>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harness/verify/diagnosis/diagnosis.h"

namespace lossgrid {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

constexpr int kReplicaDp = 2;
constexpr int kReplicaCp = 2;
constexpr std::size_t kReplicaRanks = 4;
constexpr int kReplicaElements = 12;

using ReplicaGradients = std::function<double(std::size_t rank, int element)>;

/// Part of the truth of one element that comes from the rows of a rank.
double part_of_rank(std::size_t rank, int element) {
  return std::sin(1.7 * static_cast<double>(rank) + 0.9 * element);
}

double part_of_ranks(std::vector<std::size_t> ranks, int element) {
  double sum = 0;
  for (const std::size_t rank : ranks) sum += part_of_rank(rank, element);
  return sum;
}

double whole_truth(int element) {
  return part_of_ranks({0, 1, 2, 3}, element);
}

ReplicaFindings replica_findings(const ReplicaGradients& gradients) {
  ReplicaFindings found(kReplicaDp, kReplicaCp);
  const std::vector<std::uint8_t> held(kReplicaRanks, 1);
  for (int k = 0; k < kReplicaElements; ++k) {
    std::vector<double> got;
    for (std::size_t r = 0; r < kReplicaRanks; ++r) got.push_back(gradients(r, k));
    found.add(got, held, 0, whole_truth(k), {0, -1, -1, k}, 0);
  }
  return found;
}

std::vector<std::string> replica_sentences(const ReplicaGradients& gradients) {
  const ReplicaFindings found = replica_findings(gradients);
  ReplicaFacts facts{
      "grad_weight", {kReplicaDp, kReplicaCp, found.products}, found.different > 0, true};
  facts.token_shares = {0.1, 0.2, 0.3, 0.4};
  std::vector<std::string> out;
  add_replicas(facts, out);
  return out;
}

std::vector<std::string> loss_sentences(const std::vector<double>& losses) {
  ReplicaFacts facts{"loss", ReplicaProducts::of_numbers(kReplicaDp, kReplicaCp, losses, 5.0), true,
                     false};
  std::vector<std::string> out;
  add_replicas(facts, out);
  return out;
}

TEST(ReplicaSentences, AreEmptyForARightGradient) {
  EXPECT_THAT(replica_sentences([](std::size_t, int k) { return whole_truth(k); }), IsEmpty());
}

TEST(ReplicaSentences, NameTheAxesOfAMissingReduction) {
  EXPECT_THAT(replica_sentences(part_of_rank),
              ElementsAre(AllOf(HasSubstr("add up to the truth"),
                                HasSubstr("not reduced over DP and CP"))));
  EXPECT_THAT(replica_sentences([](std::size_t r, int k) { return 4 * part_of_rank(r, k); }),
              ElementsAre(AllOf(HasSubstr("add up to 4.000 x the truth"),
                                HasSubstr("that of its own rows times 4"))));
  EXPECT_THAT(replica_sentences([](std::size_t r, int k) {
                return r < 2 ? part_of_ranks({0, 1}, k) : part_of_ranks({2, 3}, k);
              }),
              ElementsAre(AllOf(HasSubstr("another one on each dp rank"),
                                HasSubstr("not reduced over DP, "))));
  EXPECT_THAT(replica_sentences([](std::size_t r, int k) {
                return r % 2 == 0 ? part_of_ranks({0, 2}, k) : part_of_ranks({1, 3}, k);
              }),
              ElementsAre(AllOf(HasSubstr("another one on each cp rank"),
                                HasSubstr("not reduced over CP, "))));
}

TEST(ReplicaSentences, NameAReductionToOneRank) {
  EXPECT_THAT(
      replica_sentences([](std::size_t r, int k) { return r == 2 ? 4 * whole_truth(k) : 0; }),
      ElementsAre("grad_weight is 4.000 x the truth on dp rank 1, cp rank 0 only and 0 "
                  "elsewhere: reduced to one rank, not to all?"));
  EXPECT_THAT(replica_sentences([](std::size_t r, int k) {
                return r == 0 ? whole_truth(k) : part_of_rank(r, k);
              }),
              ElementsAre(StartsWith("grad_weight is the truth on dp rank 0, cp rank 0 only")));
}

TEST(ReplicaSentences, NameSlicesThatAreNotDeclared) {
  EXPECT_THAT(replica_sentences([](std::size_t r, int k) {
                return static_cast<std::size_t>(k) / 3 == r ? whole_truth(k) : 0;
              }),
              ElementsAre(AllOf(HasSubstr("each rank holds other elements of grad_weight"),
                                HasSubstr("gradients=\"zero\" would declare"))));
}

TEST(ReplicaSentences, NameRanksThatHoldTheirOwnPartOfASlice) {
  // Slices over DP, of which the CP ranks hold parts.
  ReplicaFindings found(kReplicaDp, kReplicaCp);
  for (int k = 0; k < kReplicaElements; ++k) {
    std::vector<double> got(kReplicaRanks, 0.0);
    std::vector<std::uint8_t> held(kReplicaRanks, 0);
    for (std::size_t c = 0; c < 2; ++c) {
      const std::size_t rank = (k < kReplicaElements / 2 ? 0 : 2) + c;
      held[rank] = 1;
      got[rank] = part_of_ranks({c, 2 + c}, k);
    }
    found.add(got, held, 0, whole_truth(k), {0, -1, -1, k}, 0);
  }
  ReplicaFacts facts{"grad_weight", {kReplicaDp, kReplicaCp, found.products}, true, true};
  facts.holders = found.holders;
  std::vector<std::string> out;
  EXPECT_TRUE(add_replicas(facts, out));
  EXPECT_THAT(out, ElementsAre(AllOf(HasSubstr("held by 2 ranks with other numbers"),
                                     HasSubstr("add up to the truth: not reduced"))));
}

TEST(ReplicaSentences, NameAReductionThatIsDoneTwice) {
  EXPECT_THAT(replica_sentences([](std::size_t, int k) { return 2 * whole_truth(k); }),
              ElementsAre("every rank holds the same grad_weight, 2.000 x the truth: reduced over "
                          "DP or CP twice, or added up where its mean is due?"));
  EXPECT_THAT(replica_sentences([](std::size_t, int k) { return 4 * whole_truth(k); }),
              ElementsAre(HasSubstr("reduced over DP and CP twice")));
}

TEST(ReplicaSentences, NameOwnDenominators) {
  const std::vector<double> shares{0.1, 0.2, 0.3, 0.4};
  EXPECT_THAT(
      replica_sentences([&](std::size_t r, int k) { return part_of_rank(r, k) / shares[r]; }),
      ElementsAre(HasSubstr("not reduced over DP and CP, with a denominator of its own")));
}

TEST(ReplicaSentences, NameRoundings) {
  EXPECT_THAT(replica_sentences([](std::size_t r, int k) {
                return whole_truth(k) * (1 + 1e-7 * static_cast<double>(r));
              }),
              ElementsAre(HasSubstr("by roundings alone")));
}

TEST(ReplicaSentences, NameNoCauseThatDoesNotFit) {
  EXPECT_THAT(replica_sentences([](std::size_t r, int k) {
                return r == 3 ? part_of_rank(1, k) : whole_truth(k);
              }),
              IsEmpty());
  EXPECT_THAT(replica_sentences([](std::size_t, int k) { return 1.5 * whole_truth(k); }),
              IsEmpty());
  EXPECT_THAT(loss_sentences({1.1, 0.7, 0.2, 0.9}), IsEmpty());
}

TEST(ReplicaSentences, NameTheRowsOfALoss) {
  EXPECT_THAT(loss_sentences({4, 8, 4, 4}),
              ElementsAre(HasSubstr("each rank reports that of its own rows times 4")));
  EXPECT_THAT(loss_sentences({2, 2, 3, 3}),
              ElementsAre(AllOf(HasSubstr("add up to the truth"),
                                HasSubstr("not reduced over DP, each rank reports"))));
  EXPECT_THAT(loss_sentences({5, 0, 0, 0}), ElementsAre(HasSubstr("on dp rank 0, cp rank 0 only")));
}

}  // namespace
}  // namespace lossgrid
