// SPDX-License-Identifier: Apache-2.0
// The rest of the vocabulary as one more id, as TRL's distillation_add_tail has it: divergences and
// gradients against the formulas in plain float64, on every instruction set of this processor and
// with the emulated kernels of GPUs.
#include <algorithm>
#include <cmath>
#include <vector>

#include <gtest/gtest.h>

#include "distilled_shards.h"
#include "impls/kernels/divergence_rows.h"
#include "impls/kernels/teacher_rows.h"
#include "impls/reference/reference_divergence.h"
#include "kernel_targets.h"
#include "trial_fixture.h"

namespace lossgrid {
namespace {

using namespace divergence_shards;

class DivergenceTails : public DivergenceRows {};

Divergence tail(Divergence divergence) {
  divergence.topk = Divergence::Topk::tail;
  return divergence;
}

/// Tails of all rows, made as a plan makes them.
template <typename S, typename T>
std::vector<TailRow> make_tails(const DistilledShards<S, T>& rows) {
  std::vector<TailRow> tails(kRows);
  std::vector<std::vector<float>> shifts;
  std::vector<std::vector<float>> sums;
  for (const DistilledRows& part : rows.shards) {
    rows_support_statistics(part, shifts.emplace_back(kRows).data(),
                            sums.emplace_back(kRows).data());
    wait_for(part);
  }
  for (std::size_t r = 0; r < kRows; ++r) {
    float shift = -kInfinity;
    for (const std::vector<float>& of_shard : shifts) shift = std::max(shift, of_shard[r]);
    float sum = 0;
    for (std::size_t k = 0; k < shifts.size(); ++k) {
      if (sums[k][r] > 0) sum += sums[k][r] * std::exp(shifts[k][r] - shift);
    }
    const TermRowTruth teacher(rows.truth[r].teacher.x, {}, 0);
    auto teacher_shift = static_cast<float>(teacher.max);
    auto teacher_sum = static_cast<float>(teacher.sum);
    MakeTail{rows.setting.divergence, &rows.p.shift[r], &rows.p.sum[r], &shift, &sum,
             &teacher_shift,          &teacher_sum,     &tails[r]}(0);
    EXPECT_EQ(teacher_shift, 0);
    EXPECT_EQ(teacher_sum, 1);
  }
  return tails;
}

/// Compares with the formulas in plain float64.
template <typename S, typename T>
void check_tail(const DistillCase& c, Device* device) {
  const DistilledShards<S, T> rows(c, device);
  const std::vector<TailRow> tails = make_tails(rows);
  RowSoftmax p = rows.p.view();
  p.tail = tails.data();
  Sums merged{std::vector<float>(kRows, 0.0f), std::vector<float>(kRows, 0.0f)};
  for (const DistilledRows& part : rows.shards) {
    const Sums own = run_divergence(part, p, rows.q.view());
    for (std::size_t r = 0; r < kRows; ++r) {
      merged.of_teacher[r] += own.of_teacher[r];
      merged.of_student[r] += own.of_student[r];
    }
  }
  std::vector<float> values(kRows);
  for (std::size_t r = 0; r < kRows; ++r) {
    WriteDivergence{c.divergence, merged.of_teacher.data(), merged.of_student.data(), tails.data(),
                    values.data()}(static_cast<std::int64_t>(r));
  }
  ShardGradients<S> gradients;
  for (const DistilledRows& part : rows.shards) {
    gradients.push_back(run_gradient<S>(part, p, rows.q.view(), merged.of_student.data(),
                                        rows.gradient.data(), false));
  }
  const double u_out = sizeof(S) == 8 ? 0 : unit_roundoff(DTypeOf<S>::value);
  for (std::size_t r = 0; r < kRows; ++r) {
    if (r == kNothing) continue;
    const DivergedRowTruth& truth = rows.truth[r];
    const double value = plain_divergence(c.divergence, truth.student.x, truth.teacher.x);
    EXPECT_NEAR(values[r], value, 4e-5 * (1 + std::abs(value))) << r << " " << c.text();
    std::vector<double> want(truth.student.x.size());
    add_plain_divergence_gradient(c.divergence, truth.student.x, truth.teacher.x,
                                  static_cast<double>(rows.gradient[r]), want);
    for (std::size_t rank = 0; rank < rows.shards.size(); ++rank) {
      const VocabShard& shard = rows.shards[rank].student.shard;
      for (std::int64_t v = shard.begin; v < shard.end; ++v) {
        const std::size_t at =
            r * static_cast<std::size_t>(shard.width) + static_cast<std::size_t>(v - shard.begin);
        const double of_id = want[static_cast<std::size_t>(v)];
        EXPECT_NEAR(static_cast<double>(gradients[rank][at]), of_id,
                    4e-5 + 1.01 * u_out * std::abs(of_id))
            << "row " << r << " id " << v << " " << c.text();
      }
    }
  }
}

/// Few of the ids, half of them or all are sent; a q of the tail that is next to nothing is one of
/// bounds, which the suites have.
TEST_P(DivergenceTails, AreOneMoreId) {
  for (const Divergence& divergence : all_divergences()) {
    for (const Split split : {Split{5, 4}, Split{130, 2}, Split{1100, 1}}) {
      if (kSanitized && split.vocab == 1100) continue;
      for (const std::int64_t k :
           {std::int64_t{1}, std::int64_t{3}, split.vocab / 2, std::int64_t{0}}) {
        const DistillCase c{split, tail(divergence), k, {}};
        check_tail<float, float>(c, device());
        check_tail<bf16, float>(c, device());
        check_tail<double, double>(c, device());
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Targets, DivergenceTails, testing::ValuesIn(targets_and_emulation()),
                         target_or_emulation);

}  // namespace
}  // namespace lossgrid
