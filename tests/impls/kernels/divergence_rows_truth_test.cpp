// SPDX-License-Identifier: Apache-2.0
// The truth of divergences of rows: its gradient against finite differences of its value.
#include "divergence_rows_truth.h"

#include <vector>

#include <gtest/gtest.h>

#include "distilled_shards.h"

namespace lossgrid {
namespace {

using namespace divergence_shards;

TEST(DivergedRowTruth, GradientIsThatOfTheDivergence) {
  for (const Transforms& transforms : all_transforms()) {
    for (const Divergence& divergence : all_divergences()) {
      for (const bool is_on_support : {false, true}) {
        const DistillCase c{{24, 1},
                            is_on_support ? on_support(divergence) : divergence,
                            is_on_support ? 7 : 0,
                            transforms};
        const DistilledShards<double, double> rows(c, nullptr);
        for (const std::size_t r : {0, 2, 4, 8, 10}) {
          const DivergedRowTruth& truth = rows.truth[r];
          for (std::size_t v = 0; v < truth.student.x.size(); ++v) {
            constexpr double kStep = 1e-4;
            const auto moved = [&](double by) {
              std::vector<double> x = truth.student.x;
              x[v] += by;
              return DivergedRowTruth{truth.by, TermRowTruth(x, truth.student.transform, 0),
                                      truth.teacher}
                  .value();
            };
            const double want = (moved(kStep) - moved(-kStep)) / (2 * kStep);
            EXPECT_NEAR(truth.gradient(v, 1, truth.sum_of_student(), 0).value, want, 2e-7)
                << r << " " << v << " " << c.text();
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace lossgrid
