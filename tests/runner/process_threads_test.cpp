// SPDX-License-Identifier: Apache-2.0
// Problem and truth use the threads that a process has beside others on its machine.
#include <gtest/gtest.h>

#include "harness/device/kernel/rank_threads.h"
#include "harness/runner/job/problem_cache.h"
#include "harness/verify/checks/expected.h"
#include "harness/verify/truth/linear_truth.h"
#include "reading_threads.h"

namespace lossgrid {
namespace {

class ProcessThreads : public testing::Test {
 protected:
  ~ProcessThreads() override { share_machine(0, {}); }

  /// Returns the number of threads that read logits in one call of `f`.
  template <typename F>
  std::size_t readers_of(F&& f) const {
    logits_->forget();
    f();
    return logits_->count();
  }

  Problem problem() {
    Problem made = make_problem(parse_case("lens=24 vocab=200 hidden=4 mask=all"));
    logits_ = std::make_shared<const ReadingThreads>(made.logits);
    made.logits = logits_;
    return made;
  }

  void expect_readers(std::size_t most, std::size_t least) {
    PreparedProblem prepared;
    std::shared_ptr<const Truth> truth;
    Problem made = problem();
    const std::size_t of_rows = readers_of([&] { prepared = prepare(std::move(made)); });
    const std::size_t of_truth =
        readers_of([&] { truth = truth_of(prepared, *prepared.problem, 3, {}); });
    Truth sampled = *truth;
    sampled.linear = std::make_shared<const LinearTruth>(make_linear_truth(
        *prepared.problem, prepared.rows, truth->objective, 3, 1, {std::int64_t{1} << 40, 5 * 4}));
    ASSERT_TRUE(sampled.linear->sampled);
    const std::size_t of_expected =
        readers_of([&] { expected_results(*prepared.problem, sampled); });
    for (const std::size_t readers : {of_rows, of_truth, of_expected}) {
      EXPECT_LE(readers, most);
      EXPECT_GE(readers, least);
    }
  }

  std::shared_ptr<const ReadingThreads> logits_;
};

TEST_F(ProcessThreads, OneOfManyProcessesReadsOnOneThread) {
  share_machine(1, {{0, {0, 1}}, {1, {0, 1}}});
  expect_readers(1, 1);
}

TEST_F(ProcessThreads, OneProcessReadsOnAllItsCores) {
  share_machine(0, {{0, {0, 1, 2}}});
  expect_readers(3, 2);
}

}  // namespace
}  // namespace lossgrid
