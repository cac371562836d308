// SPDX-License-Identifier: Apache-2.0
// The link that a fit finds is the one that made the samples.
#include "harness/runner/model/link_fit.h"

#include <gtest/gtest.h>

#include "harness/runner/model/collective_time.h"

namespace lossgrid {
namespace {

constexpr std::int64_t kCores = 2;

std::vector<CollectiveSample> samples_of(const LinkLevel& link) {
  Machine machine;
  machine.cores = kCores;
  std::vector<CollectiveSample> samples;
  for (const int ranks : {2, 4, 8}) {
    const auto levels = shared_levels({{ranks, link}}, share_of(machine, ranks));
    for (const Collective operation : {Collective::all_reduce, Collective::all_gather}) {
      for (const std::int64_t bytes : {4, 4096, 8 << 20}) {
        samples.push_back({operation, ranks, bytes,
                           collective_seconds(CollectiveAlgorithm::ring, operation, levels,
                                              static_cast<double>(bytes))});
      }
    }
  }
  return samples;
}

TEST(LinkFit, IsTheInverseOfTheModel) {
  const LinkLevel link{"memory", 0, 3e-6, 20e9, 5e9};
  const LinkLevel fitted = fit_link("memory", samples_of(link), kCores);
  EXPECT_EQ(fitted.name, "memory");
  EXPECT_NEAR(fitted.latency_seconds / link.latency_seconds, 1, 0.01);  // 4 bytes take time
  EXPECT_NEAR(fitted.bytes_per_second / link.bytes_per_second, 1, 0.01);
  EXPECT_NEAR(fitted.reduce_bytes_per_second / link.reduce_bytes_per_second, 1, 0.01);
}

TEST(LinkFit, OneSlowNumberOfRanksDoesNotMoveIt) {
  const LinkLevel link{"memory", 0, 3e-6, 20e9, 5e9};
  std::vector<CollectiveSample> samples = samples_of(link);
  for (CollectiveSample& sample : samples) sample.seconds *= sample.ranks == 8 ? 10 : 1;
  EXPECT_NEAR(fit_link("memory", samples, kCores).bytes_per_second / 20e9, 1, 0.01);
}

}  // namespace
}  // namespace lossgrid
