// SPDX-License-Identifier: Apache-2.0
// Costs of ranks against their prediction: workspace within 5 %, calls and payload of collectives
// and FLOPs exactly, traffic of rows as an upper bound; on every rank, in every phase and
// microbatch.
#include "harness/runner/verdict/cost_merge.h"

#include <array>
#include <functional>

#include <gtest/gtest.h>

namespace lossgrid {
namespace {

/// Findings of a pack with 1000 bytes of workspace and one all-reduce of 80 bytes over TP and CP in
/// every phase, as predicted.
PackFindings right_pack() {
  PackFindings pack;
  pack.input_bytes = 300;
  PhaseCost* predicted[] = {&pack.predicted.plan, &pack.predicted.forward,
                            &pack.predicted.backward};
  const char* phases[] = {"plan", "forward", "backward"};
  for (int p = 0; p < 3; ++p) {
    predicted[p]->workspace_bytes = 1000;
    pack.output_bytes[phases[p]] = 50;
    PhaseMemory memory;
    memory.phase = phases[p];
    memory.peak_bytes = 300 + 50 + 1000;
    pack.memory.push_back(memory);
    for (CollectiveCounts* counts : {&predicted[p]->tp, &predicted[p]->cp,
                                     &pack.counts[phases[p]].tp, &pack.counts[phases[p]].cp}) {
      counts->add(Collective::all_reduce, 1, 80);
    }
    predicted[p]->flops = 5 * 400;  // on 5 columns
    predicted[p]->read_bytes = 60;
    predicted[p]->cached_read_bytes = 40;
    predicted[p]->written_bytes = 80;
    pack.device_work[phases[p]] = {.flops = 5 * 400, .rows = {100, 80}};
  }
  return pack;
}

/// Two ranks with two packs each.
std::vector<RankResult> right_ranks() {
  std::vector<RankResult> ranks(2);
  for (RankResult& rank : ranks) rank.packs = {right_pack(), right_pack()};
  return ranks;
}

using Change = std::function<void(RankResult&, PackFindings&)>;

/// Returns both mismatches after a change of one pack of one rank.
std::string mismatches(std::size_t rank, std::size_t pack, const Change& change) {
  std::vector<RankResult> ranks = right_ranks();
  change(ranks[rank], ranks[rank].packs[pack]);
  TrialRecord record;
  return merge_memory(ranks, record) + merge_communication({2, 1}, ranks, record);
}

TEST(CostMerge, EveryRankPackAndPhaseIsCompared) {
  EXPECT_EQ(mismatches(0, 0, [](RankResult&, PackFindings&) {}), "");
  for (const std::size_t rank : {0u, 1u}) {
    for (const std::size_t pack : {0u, 1u}) {
      for (const std::size_t phase : {0u, 1u, 2u}) {
        for (const auto& [bytes, holds] : {std::pair(45, true), std::pair(-45, true),
                                           std::pair(55, false), std::pair(-55, false)}) {
          const std::string text = mismatches(rank, pack, [&](RankResult&, PackFindings& found) {
            found.memory[phase].peak_bytes += bytes;
          });
          EXPECT_EQ(text.empty(), holds) << rank << pack << phase << " " << bytes << " " << text;
        }
        const char* name = std::array{"plan", "forward", "backward"}[phase];
        for (const bool over_tp : {true, false}) {
          for (const auto& [calls, payload] :
               {std::pair(1, 0), std::pair(0, 8), std::pair(0, -8)}) {
            const std::string text = mismatches(rank, pack, [&](RankResult&, PackFindings& found) {
              RankCounts& counts = found.counts.at(name);
              (over_tp ? counts.tp : counts.cp).add(Collective::all_reduce, calls, payload);
            });
            EXPECT_NE(
                text.find(std::string("communication: rank ") + (rank == 0 ? "0 " : "1 ") + name),
                std::string::npos)
                << rank << pack << phase << " " << text;
          }
        }
      }
    }
  }
}

/// A vocabulary of 9 on tp2: 5 columns on rank 0, 4 on rank 1.
std::vector<RankResult> ranks_of_nine_columns() {
  std::vector<RankResult> ranks = right_ranks();
  for (PackFindings& pack : ranks[1].packs) {
    for (auto& [phase, work] : pack.device_work) work.flops = 4 * 400;
  }
  return ranks;
}

TEST(CostMerge, AWorkspaceIsWithinFivePercentOfItsPrediction) {
  for (const auto& [bytes, holds] : {std::pair(5000, true), std::pair(5001, false)}) {
    const std::string text = mismatches(0, 0, [&](RankResult&, PackFindings& found) {
      found.predicted.plan.workspace_bytes = 100000;
      found.memory[0].peak_bytes = 300 + 50 + 100000 + bytes;
    });
    EXPECT_EQ(text.empty(), holds) << text;
  }
}

TEST(CostMerge, FlopsAreThoseOfTheColumnsOfARank) {
  EXPECT_EQ(compare_flops({2, 1}, 9, ranks_of_nine_columns()), "");
  EXPECT_EQ(compare_flops({2, 1}, 10, right_ranks()), "");
  EXPECT_EQ(compare_flops({2, 1}, 9, right_ranks()),
            "flops: rank 1 plan: 2000 FLOPs of matrix products, predicted 1600");
  for (const std::size_t rank : {0u, 1u}) {
    for (const std::size_t pack : {0u, 1u}) {
      for (const std::string phase : {"plan", "forward", "backward"}) {
        for (const std::int64_t flops : {-2, 2, 2000}) {
          std::vector<RankResult> ranks = ranks_of_nine_columns();
          ranks[rank].packs[pack].device_work.at(phase).flops += flops;
          const std::string text = compare_flops({2, 1}, 9, ranks);
          EXPECT_TRUE(text.starts_with(fmt::format("flops: rank {} {}:", rank, phase))) << text;
        }
      }
    }
  }
}

TEST(CostMerge, TimesAreThoseOfTheSlowestRankOverAllItsPacks) {
  std::vector<RankResult> ranks = right_ranks();
  for (std::size_t r = 0; r < 2; ++r) {
    for (PackFindings& pack : ranks[r].packs) {
      for (const char* phase : {"plan", "forward", "backward"}) {
        pack.time_ns[phase] = r == 0 ? 7 : 5;
        pack.device_work[phase].launches = r == 0 ? 3 : 4;
        pack.device_work[phase].synchronisations = r == 0 ? 2 : 1;
      }
    }
  }
  TrialRecord record;
  merge_times(ranks, record);
  ASSERT_EQ(record.times.size(), 3u);
  for (const PhaseTimeRecord& time : record.times) {
    EXPECT_EQ(time.max_over_ranks_ns, 14) << time.phase;
    EXPECT_EQ(time.kernel_launches, 8) << time.phase;
    EXPECT_EQ(time.host_synchronisations, 4) << time.phase;
    EXPECT_EQ(time.predicted_flops, 4000) << time.phase;
  }
  for (RankResult& rank : ranks) {
    for (PackFindings& pack : rank.packs) {
      pack.time_ns["plan"] = 0;
      pack.predicted.plan.flops = 0;
    }
  }
  record = TrialRecord();
  merge_times(ranks, record);
  EXPECT_EQ(record.times[0].max_over_ranks_ns, 0);
  EXPECT_EQ(record.times[0].predicted_flops, 0);
}

TEST(CostMerge, TrafficIsAtMostThePrediction) {
  EXPECT_EQ(compare_traffic(right_ranks()), "");
  for (const std::size_t rank : {0u, 1u}) {
    for (const std::size_t pack : {0u, 1u}) {
      for (const std::string phase : {"plan", "forward", "backward"}) {
        for (const RowTraffic& more : {RowTraffic{-1, 0}, RowTraffic{0, -1}, RowTraffic{1, 0},
                                       RowTraffic{0, 1}, RowTraffic{1, -80}}) {
          std::vector<RankResult> ranks = right_ranks();
          ranks[rank].packs[pack].device_work.at(phase).rows += more;
          const std::string text = compare_traffic(ranks);
          const bool holds = more.read_bytes <= 0 && more.written_bytes <= 0;
          EXPECT_EQ(text.starts_with(fmt::format("traffic: rank {} {}:", rank, phase)), !holds)
              << text;
          EXPECT_EQ(text.empty(), holds) << text;
        }
      }
    }
  }
}

TEST(CostMerge, TrafficStatesWhatWasCountedBesideThePrediction) {
  std::vector<RankResult> ranks = right_ranks();
  ranks[1].packs[0].device_work.at("forward").rows += RowTraffic{23, 7};
  EXPECT_EQ(compare_traffic(ranks),
            "traffic: rank 1 forward: kernels read 123 and wrote 87 bytes of rows, predicted 100 "
            "and 80");
}

TEST(CostMerge, ExchangesOfTheBatchAreCompared) {
  for (const auto counts : {&RankResult::batch_dp, &RankResult::batch_pp}) {
    const std::string text = mismatches(1, 0, [&](RankResult& rank, PackFindings&) {
      (rank.*counts).add(Collective::broadcast, 1, 8);
    });
    EXPECT_NE(text.find("communication: rank 1 batch"), std::string::npos) << text;
  }
}

TEST(CostMerge, TheFirstOfTheLargestPacksIsRecorded) {
  std::vector<RankResult> ranks = right_ranks();
  ranks[0].packs[0].memory[1].allocations = 7;  // the second pack needs as much
  TrialRecord record;
  EXPECT_EQ(merge_memory(ranks, record), "");
  EXPECT_EQ(record.memory[1].phase, "forward");
  EXPECT_EQ(record.memory[1].measured_allocations, 7);
  EXPECT_FALSE(record.memory[1].device_used_bytes);
}

TEST(CostMerge, APhaseThatHoldsNothingIsRecorded) {
  std::vector<RankResult> ranks(1);
  ranks[0].packs = {right_pack()};
  PackFindings& pack = ranks[0].packs[0];
  pack.input_bytes = pack.memory[0].peak_bytes = pack.predicted.plan.workspace_bytes = 0;
  pack.output_bytes["plan"] = 0;
  TrialRecord record;
  merge_memory(ranks, record);
  EXPECT_EQ(record.memory[0].phase, "plan");
}

TEST(CostMerge, MemoryInUseIsThatOfTheDriver) {
  std::vector<RankResult> ranks = right_ranks();
  ranks[1].packs[0].memory[2].driver = DriverMemory{.used_bytes = 9000, .pool_bytes = 5000};
  TrialRecord record;
  EXPECT_EQ(merge_memory(ranks, record), "");
  EXPECT_EQ(record.memory[5].rank, 1);
  EXPECT_EQ(record.memory[5].device_used_bytes, 9000);
  EXPECT_EQ(record.memory[5].device_other_bytes, 4000);
}

TEST(CostMerge, ARankWithoutALossNeedsNoMemory) {
  for (const std::int64_t bytes : {0, 1}) {
    const std::string text = mismatches(1, 0, [&](RankResult& rank, PackFindings&) {
      rank.packs.clear();
      rank.peak_bytes = bytes;
    });
    EXPECT_EQ(text.empty(), bytes == 0) << text;
  }
  std::vector<RankResult> ranks = right_ranks();
  ranks[1].packs.clear();
  TrialRecord record;
  EXPECT_EQ(merge_memory(ranks, record), "");
  EXPECT_EQ(record.memory.back().rank, 1);
}

}  // namespace
}  // namespace lossgrid
