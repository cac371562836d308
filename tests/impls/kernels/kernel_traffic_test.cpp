// SPDX-License-Identifier: Apache-2.0
// Predicted bytes of rows against those that the kernels of GPUs read and write in emulation. Rows
// that predict nothing are not read, and all are written. So each reading pass of the prediction
// has the bytes of the rows that are trained on, to the last one; a gather of logits has all rows.
#include <algorithm>
#include <chrono>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "harness/device/kernel/host_block.h"
#include "harness/loss/registry.h"
#include "harness/problem/case/case_spec.h"
#include "harness/runner/job/problem_cache.h"
#include "harness/runner/job/ranks.h"
#include "harness/runner/rank/rank_archive.h"  // findings of ranks that are processes
#include "harness/runner/rank/rank_trial.h"
#include "harness/runner/trial/trial.h"

namespace lossgrid {
namespace {

/// A trial on the emulated GPU, and the findings of its ranks on their only pack.
class EmulatedTrial {
 public:
  EmulatedTrial(const std::string& case_text, const std::string& implementation,
                const std::string& grid)
      : setup_(make_trial(prepare(make_problem(parse_case(case_text))), implementation,
                          parse_grid(grid), Backend::cuda_emulated)),
        batch_(pack(*setup_.problem, setup_.grid)) {
    const auto run = Ranks().run<RankResult>(
        setup_.grid.ranks(), [&](Communicator& world) { return run_rank(setup_, world); },
        std::chrono::seconds(60));
    EXPECT_EQ(run.outcome.first_failed_rank, -1) << case_text << " " << implementation;
    for (const RankResult& rank : run.results) packs_.push_back(rank.packs.at(0));
  }

  std::size_t ranks() const { return packs_.size(); }
  const PackFindings& pack_of(std::size_t rank) const { return packs_[rank]; }
  const RowTraffic& counted(std::size_t rank, const char* phase) const {
    return packs_[rank].device_work.at(phase).rows;
  }
  VocabShard shard(std::size_t rank) const {
    return vocab_shard(setup_.problem->spec.vocab, setup_.grid.tp,
                       setup_.grid.tp_rank(static_cast<int>(rank)));
  }
  int tp() const { return setup_.grid.tp; }
  int cp() const { return setup_.grid.cp; }
  std::int64_t element_bytes() const {
    return static_cast<std::int64_t>(size_of(setup_.problem->spec.dtype));
  }
  /// Returns the bytes that a rank gathers of each CP rank's logits.
  std::int64_t gathered_bytes(std::size_t rank) const {
    return packs_[rank].counts.at("forward").cp[Collective::all_gather].payload_bytes;
  }

  /// Returns the part of `bytes` that belongs to trained rows of the rank, or of the whole pack,
  /// and to columns of the vocabulary.
  std::int64_t trained_part(std::int64_t bytes, std::size_t rank, bool whole_pack) const {
    ShiftedBatch rows = shift_targets(batch_);
    if (!whole_pack) {
      rows =
          rows.gather(cp_rows(batch_, setup_.grid.cp, setup_.grid.cp_rank(static_cast<int>(rank))));
    }
    const auto all = static_cast<std::int64_t>(rows.rows());
    const auto trained = std::count(rows.valid.begin(), rows.valid.end(), 1);
    return bytes * trained / all / shard(rank).width * shard(rank).valid();
  }

 private:
  TrialSetup setup_;
  PackedBatch batch_;
  std::vector<PackFindings> packs_;
};

constexpr const char* kEveryRowTrains[] = {
    "lens=5+8+3 vocab=24 mask=all",
    "lens=5+8+3 vocab=10 mask=all dtype=bf16 statistics=false",
    "lens=5+1+7 vocab=1031 mask=all dtype=bf16",
    "lens=5+1+7 vocab=515 mask=all dtype=f64",
    "lens=3+2 vocab=9001 mask=all statistics=false",
    "objective=dpo lens=5+8+3+6 vocab=21 mask=all",
    "objective=clipped_pg objective.disable_ppo_ratio=true lens=5+8+3 vocab=130 mask=all",
};

constexpr const char* kGrids[] = {"tp1cp1", "tp4cp1", "tp1cp2", "tp2cp2"};

TEST(RowTraffic, IsThatOfThePredictedPassesOverTrainedRows) {
  for (const char* text : kEveryRowTrains) {
    for (const char* grid : kGrids) {
      for (const char* name : {"per_sequence", "fused", "fused:chunk_tokens=3", "cp_local"}) {
        const EmulatedTrial trial(text, name, grid);
        for (std::size_t r = 0; r < trial.ranks(); ++r) {
          SCOPED_TRACE(fmt::format("{} {} {} rank {}", text, name, grid, r));
          const Cost& predicted = trial.pack_of(r).predicted;
          for (const auto& [phase, cost] :
               {std::pair("plan", predicted.plan), std::pair("forward", predicted.forward),
                std::pair("backward", predicted.backward)}) {
            EXPECT_EQ(trial.counted(r, phase).read_bytes,
                      trial.trained_part(cost.read_bytes, r, false))
                << phase;
            EXPECT_EQ(trial.counted(r, phase).written_bytes, cost.written_bytes) << phase;
            EXPECT_EQ(cost.cached_read_bytes, 0) << phase;
          }
        }
      }
    }
  }
}

/// The gathered logits are read of all ranks' rows, and written by the collective.
TEST(RowTraffic, IsThatOfTheWholePackForGatheredLogits) {
  for (const char* text : kEveryRowTrains) {
    for (const char* grid : kGrids) {
      const EmulatedTrial trial(text, "cp_gather_logits", grid);
      for (std::size_t r = 0; r < trial.ranks(); ++r) {
        SCOPED_TRACE(fmt::format("{} {} rank {}", text, grid, r));
        const PhaseCost& forward = trial.pack_of(r).predicted.forward;
        const PhaseCost& backward = trial.pack_of(r).predicted.backward;
        const std::int64_t gathered = trial.gathered_bytes(r);
        EXPECT_EQ(gathered > 0, trial.cp() > 1);
        EXPECT_EQ(trial.counted(r, "forward").read_bytes,
                  trial.trained_part(forward.read_bytes - gathered, r, true));
        EXPECT_EQ(trial.counted(r, "forward").written_bytes, 0);
        EXPECT_EQ(forward.written_bytes, trial.cp() * gathered);
        EXPECT_EQ(trial.counted(r, "backward").read_bytes,
                  trial.trained_part(backward.read_bytes, r, false));
        EXPECT_EQ(trial.counted(r, "backward").written_bytes, backward.written_bytes);
      }
    }
  }
}

/// Blocks of rows are read twice, the second time from a cache. Where a row stays on chip, only the
/// elements that have no room there are read again.
TEST(RowTraffic, IsOnePassAndReadsOfCachesForOneSweep) {
  for (const std::string text : kEveryRowTrains) {
    if (text.starts_with("objective=dpo")) continue;  // not taken
    for (const char* grid : kGrids) {
      for (const char* name :
           {"one_sweep", "one_sweep:in_place=true", "one_sweep:block_tokens=2"}) {
        const EmulatedTrial trial(text, name, grid);
        for (std::size_t r = 0; r < trial.ranks(); ++r) {
          SCOPED_TRACE(fmt::format("{} {} {} rank {}", text, name, grid, r));
          const PhaseCost& cost = trial.pack_of(r).predicted.forward;
          const std::int64_t once = trial.trained_part(cost.read_bytes, r, false);
          std::int64_t again = trial.trained_part(cost.cached_read_bytes, r, false);
          EXPECT_EQ(once, again);
          if (trial.tp() == 1 && text.ends_with("statistics=false")) {
            const std::int64_t row = trial.shard(r).valid() * trial.element_bytes();
            const std::int64_t kept = std::min(row / 16 * 16, HostLauncher().room_of_block());
            again = again / row * (row - kept);
          }
          EXPECT_EQ(trial.counted(r, "forward").read_bytes, once + again);
          EXPECT_EQ(trial.counted(r, "forward").written_bytes, cost.written_bytes);
        }
      }
    }
  }
}

TEST(RowTraffic, IsLessForMaskedRows) {
  for (const char* name : {"fused", "cp_local", "one_sweep"}) {
    const EmulatedTrial trial("lens=9+8+7 vocab=24 mask=ragged", name, "tp2cp1");
    for (std::size_t r = 0; r < trial.ranks(); ++r) {
      std::int64_t predicted = 0;
      std::int64_t read = 0;
      const Cost& cost = trial.pack_of(r).predicted;
      for (const auto& [phase, of_phase] :
           {std::pair("forward", cost.forward), std::pair("backward", cost.backward)}) {
        EXPECT_EQ(trial.counted(r, phase).written_bytes, of_phase.written_bytes) << name;
        predicted += of_phase.read_bytes + of_phase.cached_read_bytes;
        read += trial.counted(r, phase).read_bytes;
      }
      EXPECT_LT(read, predicted) << name;
      EXPECT_GT(read, 0) << name;
    }
  }
}

/// fused, which declares fewer bytes than it reads and writes.
class Understated final : public LossImplementation {
 public:
  explicit Understated(std::int64_t PhaseCost::*bytes) : bytes_(bytes) {}
  ImplementationTraits describe() const override { return right_->describe(); }
  Cost cost(const LossProblem& problem) const override {
    Cost cost = right_->cost(problem);
    cost.backward.*bytes_ /= 2;
    return cost;
  }
  std::unique_ptr<LossPlan> plan(const LossProblem& problem, RankContext context) const override {
    return right_->plan(problem, context);
  }

 private:
  std::unique_ptr<LossImplementation> right_ = make_implementation("fused");
  std::int64_t PhaseCost::*bytes_;
};

TEST(RowTraffic, BeyondThePredictionFailsATrialForItsCostAlone) {
  for (const auto bytes : {&PhaseCost::read_bytes, &PhaseCost::written_bytes}) {
    TrialSetup setup = make_trial(prepare(make_problem(parse_case("lens=9+7 vocab=24 mask=all"))),
                                  "fused", {2, 1}, Backend::cuda_emulated);
    setup.implementation = std::make_shared<Understated>(bytes);
    const TrialRecord record = run_trial(setup, std::chrono::seconds(60)).record;
    EXPECT_EQ(record.status, TrialStatus::failed);
    EXPECT_EQ(record.cost_mismatches, std::vector<std::string>{"traffic"});
    EXPECT_TRUE(record.reason.starts_with("traffic: rank 0 backward: kernels read"))
        << record.reason;
  }
}

}  // namespace
}  // namespace lossgrid
