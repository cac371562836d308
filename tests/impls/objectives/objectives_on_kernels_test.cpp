// SPDX-License-Identifier: Apache-2.0
// The kernels of objectives, emulated on the processor, against the loops of the host and against
// the truth, for tokens in any order, of which many are poisoned.
#include <cmath>
#include <memory>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "harness/device/backend.h"
#include "harness/device/kernel/rank_threads.h"
#include "harness/loss/objective_kernels.h"
#include "harness/loss/registry.h"
#include "objective_batch.h"
#include "objectives/clipped_pg/clipped_pg_cases.h"

namespace lossgrid {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// Results of the steps by token for some rows. The coefficients are made on the host from the sums
/// of the host, so that a difference belongs to one step and not to the one before it.
struct StepOutputs {
  std::vector<double> sequence_sums;
  std::vector<double> totals;  // sums, then maxima
  HeldGradients gradients;
};

/// Returns the ranges of sequences in a table in which `first` rows come before the tokens.
std::vector<TokenRange> ranges_of(const std::vector<std::int32_t>& sequence, std::int64_t sequences,
                                  std::int32_t first) {
  std::vector<TokenRange> ranges(static_cast<std::size_t>(sequences));
  for (std::size_t t = sequence.size(); t-- > 0;) {
    TokenRange& range = ranges[static_cast<std::size_t>(sequence[t])];
    range.begin = first + static_cast<std::int32_t>(t);
    if (range.end == 0) range.end = range.begin + 1;
  }
  return ranges;
}

/// Runs the kernels of `device`; the loops of the host if it is null.
StepOutputs run_steps(const Objective& objective, const ObjectiveBatch& data, const Parts& parts,
                      Device* device) {
  const PackedBatch batch = with_needed(data.batch, objective.needs());
  const ShiftedBatch pack = shift_targets(batch);
  const ObjectiveSizes sizes = objective.sizes();
  const std::int64_t count = batch.sequences();
  const auto numbers = [&](int columns) {
    return std::vector<double>(static_cast<std::size_t>(count * (columns + 1)), 0.0);
  };
  const auto table = [&](std::vector<double>& from, int columns) {
    return SequenceTable<double>{from.data(), count, columns, columns + 1};
  };
  std::unique_ptr<ObjectiveKernels> kernels;
  if (device != nullptr) kernels = objective.kernels(device->backend(), batch);
  StepOutputs out{numbers(sizes.sequence_sums), {}, {objective.needs(), pack.rows(), 0.0f}};
  std::vector<double> host_sums = numbers(sizes.sequence_sums);
  out.totals.assign(static_cast<std::size_t>(sizes.sums), 0.0);
  out.totals.resize(static_cast<std::size_t>(sizes.sums + sizes.maxima), -kInfinity);
  for (const auto& part : parts) {
    HeldRows held(data, pack, objective, part);
    const std::vector<TokenRange> ranges = ranges_of(held.rows.sequence, count, 3);
    if (parts.size() == 1) {  // else anywhere
      held.tokens.ranges = ranges;
      held.tokens.first = 3;
    }
    objective.sequence_sums(held.tokens, batch, table(host_sums, sizes.sequence_sums));
    if (device == nullptr) continue;
    kernels->sequence_sums(*device, held.tokens, table(out.sequence_sums, sizes.sequence_sums));
    device->synchronise();
  }
  if (device == nullptr) out.sequence_sums = host_sums;
  std::vector<double> coefficients = numbers(sizes.coefficients);
  objective.coefficients(batch, table(host_sums, sizes.sequence_sums),
                         table(coefficients, sizes.coefficients));
  const std::span<double> totals = out.totals;
  const ObjectiveTotals<double> all{totals.first(sizes.sums), totals.last(sizes.maxima)};
  for (const auto& part : parts) {
    const HeldRows held(data, pack, objective, part);
    HeldGradients own(objective.needs(), part.size(), device == nullptr ? 0.0f : kPoison);
    if (device == nullptr) {
      objective.token_terms(held.tokens, batch, table(coefficients, sizes.coefficients), all,
                            own.view());
    } else {
      const std::int64_t blocks = partial_total_blocks(static_cast<std::int64_t>(part.size()));
      DeviceArray<double> partials(*device, static_cast<std::size_t>(blocks) * totals.size(),
                                   "partial_totals", MemorySpace::device);
      kernels->token_terms(*device, held.tokens, table(coefficients, sizes.coefficients), all,
                           own.view(), partials.data());
      device->synchronise();
    }
    for (std::size_t c = 0; c < own.columns.size(); ++c) {
      for (std::size_t k = 0; k < own.columns[c].size(); ++k) {
        out.gradients.columns[c][static_cast<std::size_t>(part[k])] = own.columns[c][k];
      }
    }
  }
  return out;
}

/// True if sums of `terms` terms in float64 agree but for the order of the additions.
std::string differences(const char* what, const std::vector<double>& got,
                        const std::vector<double>& want, std::int64_t terms) {
  const double relative = std::max(1e-12, static_cast<double>(terms) * 0x1p-52);
  for (std::size_t k = 0; k < want.size(); ++k) {
    const double allowed = relative * (1 + std::abs(want[k]));
    if (got[k] == want[k] || std::abs(got[k] - want[k]) <= allowed) continue;
    return fmt::format("{}[{}] = {:.17g}, on the host {:.17g}\n", what, k, got[k], want[k]);
  }
  return "";
}

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](float x, float y) {
    return std::bit_cast<std::uint32_t>(x) == std::bit_cast<std::uint32_t>(y);
  });
}

class ObjectiveKernelsTest : public testing::Test {
 protected:
  /// Returns "" if kernels and loops give the same results: the gradient to the bit.
  std::string wrong(const Objective& objective, const ObjectiveBatch& data, const Parts& parts) {
    const StepOutputs want = run_steps(objective, data, parts, nullptr);
    const StepOutputs got = run_steps(objective, data, parts, device_.get());
    std::string text =
        differences("sequence_sums", got.sequence_sums, want.sequence_sums, data.rows()) +
        differences("totals", got.totals, want.totals, data.rows());
    for (std::size_t c = 0; c < want.gradients.columns.size(); ++c) {
      if (same_bits(got.gradients.columns[c], want.gradients.columns[c])) continue;
      text += fmt::format("gradient, column {}\n", c);
    }
    return text;
  }
  /// Compares the same objective with the statistics of a step around it.
  std::string wrong_with_statistics(std::unique_ptr<Objective> objective,
                                    const ObjectiveBatch& data, const Parts& parts) {
    return wrong(*with_statistics(std::move(objective)), data, parts);
  }

  std::unique_ptr<Device> device_ = make_device(Backend::cuda_emulated, 0);
};

TEST_F(ObjectiveKernelsTest, ClippedPgWithAllOptions) {
  std::uint64_t seed = 0;
  for (const Options& options : all_options()) {
    const Drift drift = ++seed % 3 == 0 ? Drift::far : Drift::near;
    const ObjectiveBatch data = batch_of(seed, drift);
    const Parts parts = seed % 4 == 0 ? whole(data) : dealt(data, 2, seed);
    if (ClippedPgOptions::from(options).selects()) {  // the loops of the host
      ASSERT_EQ(make_clipped_pg(options)->kernels(Backend::cuda_emulated, data.batch), nullptr);
      continue;
    }
    ASSERT_EQ(wrong_with_statistics(make_clipped_pg(options), data, parts), "")
        << shown(options) << "seed " << seed;
  }
}

std::vector<std::unique_ptr<Objective>> few_objectives() {
  std::vector<std::unique_ptr<Objective>> few;
  const auto add = [&](auto&& make) {
    few.push_back(make());
    few.push_back(with_statistics(make()));
  };
  add([] { return find_objective("nll").make({}); });
  add([] { return find_objective("nll").make({{"token_level_loss", "false"}}); });
  add([] { return find_objective("dpo").make({{"sft_loss_weight", "0.3"}}); });
  add([] { return make_clipped_pg(both(kGspo, kNll)); });
  add([] { return find_objective("distill").make({}); });
  add([] { return find_objective("distill").make({{"loss_mode", "\"forward_kl_topk\""}}); });
  add([] { return find_objective("on_policy_distill").make({}); });
  add([] { return find_objective("on_policy_distill").make({{"loss_mode", "\"score\""}}); });
  return few;
}

/// All rows are on one rank, sequences interleaved.
Parts mixed(const ObjectiveBatch& data) {
  Parts parts(1);
  for (std::int64_t k = 0; k < data.rows(); ++k) parts[0].push_back(k * 101 % data.rows());
  return parts;
}

/// One token a sequence, none, more sequences than threads of a block, more tokens than blocks take
/// at once, and numbers of tokens around those of blocks.
TEST_F(ObjectiveKernelsTest, EverySize) {
  const std::vector<std::vector<std::int64_t>> shapes = {{0, 0},
                                                         {1, 1},
                                                         {511, 1},
                                                         {300, 213},
                                                         std::vector<std::int64_t>(700, 3),
                                                         {35000, 0, 31000, 500}};
  for (const auto& lengths : shapes) {
    const ObjectiveBatch data = make_objective_batch({.lengths = lengths});
    for (const Parts& parts : {whole(data), mixed(data)}) {
      for (const auto& objective : few_objectives()) {
        EXPECT_EQ(wrong(*objective, data, parts), "")
            << objective->kind() << " " << data.rows() << " rows";
      }
    }
  }
}

/// The order in which threads run blocks does not matter.
TEST_F(ObjectiveKernelsTest, TheSameBitsWhateverTheTiming) {
  const int threads = rank_threads();
  const ObjectiveBatch data = make_objective_batch({.lengths = {900, 1400, 0, 3000}});
  for (const auto& objective : few_objectives()) {
    const auto run = [&](int of_rank) {
      set_rank_threads(of_rank);
      return run_steps(*objective, data, mixed(data), device_.get());
    };
    const StepOutputs one = run(1);
    const StepOutputs more = run(threads);
    EXPECT_EQ(one.totals, more.totals);
    EXPECT_EQ(one.sequence_sums, more.sequence_sums);
  }
  set_rank_threads(threads);
}

struct OtherFormulas : ClippedPgFormulas {};

TEST_F(ObjectiveKernelsTest, OnlyRightFormulasHaveThem) {
  const PackedBatch batch = batch_of(1).batch;
  const auto has_kernels = [&](const Objective& objective, Backend backend) {
    return objective.kernels(backend, batch) != nullptr;
  };
  EXPECT_TRUE(has_kernels(*make_clipped_pg({}), Backend::cuda_emulated));
  EXPECT_FALSE(has_kernels(*make_clipped_pg({}), Backend::cpu));
  EXPECT_FALSE(has_kernels(*make_clipped_pg<OtherFormulas>({}), Backend::cuda_emulated));
  EXPECT_FALSE(has_kernels(*make_clipped_pg<ClippedPgFormulas, float>({}), Backend::cuda_emulated));
  EXPECT_FALSE(
      has_kernels(*with_statistics(make_clipped_pg<OtherFormulas>({})), Backend::cuda_emulated));
}

}  // namespace
}  // namespace lossgrid
