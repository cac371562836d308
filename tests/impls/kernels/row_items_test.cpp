// SPDX-License-Identifier: Apache-2.0
// Items (items.h) of rows, as loops of the processor and as emulated kernels of GPUs: zigzag split
// and un-split of packs, and the merge of shards' statistics over the vocabulary.
#include <cmath>
#include <limits>
#include <memory>
#include <numeric>
#include <vector>

#include <gtest/gtest.h>

#include "harness/core/philox.h"
#include "harness/device/backend.h"
#include "harness/device/kernel/items.h"
#include "impls/kernels/row_positions.h"
#include "impls/kernels/statistics_rows.h"
#include "impls/toolkit/strategy.h"

namespace lossgrid {
namespace {

constexpr float kMinusInfinity = -std::numeric_limits<float>::infinity();
constexpr float kUnwritten = -77;

class RowItems : public testing::TestWithParam<Backend> {
 protected:
  template <typename Item>
  void run(std::int64_t count, const Item& item) {
    for_each_item(*device_, count, item);
    device_->synchronise();
  }

  std::unique_ptr<Device> device_ = make_device(GetParam(), 0);
};

/// Padded position of row k of the ranks' rows, one rank after the other.
std::vector<std::int32_t> order_of(const std::vector<std::int64_t>& cu_padded, int cp) {
  PackedBatch batch;
  batch.cu_seqlens_padded = cu_padded;
  const std::vector<std::int64_t> order = Steps().gather_order(batch, Steps(), cp);
  return {order.begin(), order.end()};
}

/// Two ranks, sequences of 5, 8, 1 and 3 tokens padded to multiples of 4: rank 0 holds the first
/// and the last quarter of each.
TEST_P(RowItems, UnsplitsTheWorkedExample) {
  const std::vector<float> received = {0, 1, 6, 7, 8,  9,  14, 15, 16, 19, 20, 23,
                                       2, 3, 4, 5, 10, 11, 12, 13, 17, 18, 21, 22};
  const std::vector<std::int32_t> order = order_of({0, 8, 16, 20, 24}, 2);
  std::vector<float> pack(24, kUnwritten);
  run(24, ScatterRow{received.data(), 12, 1, order.data(), 12, {pack.data()}});
  std::vector<float> positions(24);
  std::iota(positions.begin(), positions.end(), 0.0f);
  EXPECT_EQ(pack, positions);
  std::vector<float> of_rank_1(12, kUnwritten);
  run(12, GatherRow{pack.data(), order.data() + 12, 0, of_rank_1.data()});
  EXPECT_EQ(of_rank_1, std::vector<float>(received.begin() + 12, received.end()));
}

TEST_P(RowItems, SplitAndUnsplitAreInverse) {
  for (const int cp : {1, 2, 3, 4}) {
    // More rows than threads of a block; an empty sequence; columns that stand apart.
    std::vector<std::int64_t> cu{0};
    for (const std::int64_t chunk : {70, 0, 1, 155}) cu.push_back(cu.back() + 2 * cp * chunk);
    const std::vector<std::int32_t> order = order_of(cu, cp);
    const std::int64_t rows = cu.back() / cp;
    std::vector<float> received(static_cast<std::size_t>(4 * cu.back()));
    std::iota(received.begin(), received.end(), 0.0f);
    std::vector<std::vector<float>> pack(4, std::vector<float>(order.size(), kUnwritten));
    run(cp * rows, ScatterRow{received.data(),
                              rows,
                              4,
                              order.data(),
                              rows,
                              {pack[0].data(), pack[1].data(), pack[2].data(), pack[3].data()}});
    for (int rank = 0; rank < cp; ++rank) {
      for (int column = 0; column < 4; ++column) {
        std::vector<float> back(static_cast<std::size_t>(rows), kUnwritten);
        run(rows, GatherRow{pack[static_cast<std::size_t>(column)].data(),
                            order.data() + rank * rows, 0, back.data()});
        const auto* own = received.data() + (rank * 4 + column) * rows;
        EXPECT_TRUE(std::equal(back.begin(), back.end(), own)) << cp << " " << rank;
      }
    }
  }
}

/// One sequence of several: its rows of each rank are a part of the order, its gradient begins
/// where it does.
TEST_P(RowItems, PartsOfAPack) {
  const std::vector<std::int32_t> order = order_of({0, 4, 12}, 2);
  const std::vector<float> received = {4, 5, 10, 11, 6, 7, 8, 9};  // of the second sequence
  std::vector<float> pack(12, kUnwritten);
  run(8, ScatterRow{received.data(), 4, 1, order.data() + 2, 6, {pack.data()}});
  for (std::size_t k = 0; k < 12; ++k) EXPECT_EQ(pack[k], k < 4 ? kUnwritten : float(k));
  std::vector<float> own(4, kUnwritten);
  run(4, GatherRow{pack.data() + 4, order.data() + 6 + 2, 4, own.data()});
  EXPECT_EQ(own, (std::vector<float>{6, 7, 8, 9}));
  run(4, ScaleRow{0.5f, own.data(), own.data()});
  EXPECT_EQ(own, (std::vector<float>{3, 3.5f, 4, 4.5f}));
}

/// Logits of whole rows, and shards made of them.
struct LogitsTable {
  std::int64_t rows;
  std::int64_t vocab;
  std::vector<float> logits;
  std::vector<std::int32_t> targets;

  const float* row(std::int64_t r) const { return logits.data() + r * vocab; }
};

/// Gives the target of row r the largest logit, and every third of such rows another id the same.
void tie_at_top(LogitsTable& table, std::int64_t r) {
  float* row = table.logits.data() + r * table.vocab;
  const std::int64_t target = table.targets[static_cast<std::size_t>(r)];
  row[target] = 20;
  if (r % 6 != 0) row[(target + r) % table.vocab] = 20;
}

LogitsTable make_table(std::int64_t rows, std::int64_t vocab) {
  LogitsTable table{rows, vocab, {}, {}};
  const RandomStream random(3, 55);
  for (std::int64_t r = 0; r < rows; ++r) {
    table.targets.push_back(r % 5 == 4 ? -1 : static_cast<std::int32_t>((7 * r) % vocab));
    for (std::int64_t v = 0; v < vocab; ++v) {
      const bool masked = r % 3 == 0 && v >= vocab / 2 && v != table.targets.back();
      table.logits.push_back(
          masked ? kMinusInfinity
                 : 5 * random.normal(static_cast<std::uint64_t>(r), static_cast<std::uint32_t>(v)));
    }
    if (r % 2 == 0 && table.targets.back() >= 0) tie_at_top(table, r);
  }
  return table;
}

/// Computes the statistics of a shard as rows_statistics does, in double, then rounded.
void write_shard(const LogitsTable& table, const VocabShard& shard, const StatisticsColumns& to) {
  using C = StatisticsColumns;
  for (std::int64_t r = 0; r < table.rows; ++r) {
    const bool predicts = table.targets[r] >= 0;
    float shift = kMinusInfinity;
    float min = -kMinusInfinity;
    for (std::int64_t v = shard.begin; v < shard.end; ++v) {
      shift = std::max(shift, table.row(r)[v]);
      if (table.row(r)[v] != kMinusInfinity) min = std::min(min, table.row(r)[v]);
    }
    double sum = 0;
    double weighted = 0;
    double total = 0;
    double squares = 0;
    float finite = 0;
    bool beaten = false;
    for (std::int64_t v = shard.begin; v < shard.end; ++v) {
      const double distance = table.row(r)[v] - shift;
      if (table.row(r)[v] == kMinusInfinity) continue;
      sum += std::exp(distance);
      weighted += std::exp(distance) * distance;
      total += distance;
      squares += std::exp(2 * distance);
      finite += 1;
      const std::int64_t y = table.targets[r];
      if (!shard.owns(y)) continue;
      const float of_target = table.row(r)[y];
      beaten |= v < y ? table.row(r)[v] >= of_target : table.row(r)[v] > of_target;
    }
    const bool owns = shard.owns(table.targets[r]);
    to.at(C::kShift, r) = predicts ? shift : 0;
    to.at(C::kSum, r) = predicts ? static_cast<float>(sum) : 1;
    to.at(C::kTarget, r) = owns ? table.row(r)[table.targets[r]] - shift : 0;
    if (to.kinds.mean) {
      to.at(C::kTotal, r) = predicts ? static_cast<float>(total) : 0;
      to.at(C::kFinite, r) = predicts ? finite : 0;
    }
    if (to.kinds.predictions) {
      to.at(C::kSquares, r) = predicts ? static_cast<float>(squares) : 0;
      to.at(C::kBeaten, r) = beaten ? 1 : 0;
    }
    if (!to.kinds.all) continue;
    to.at(C::kWeighted, r) = predicts ? static_cast<float>(weighted) : 0;
    to.at(C::kMin, r) = predicts ? min : 0;
  }
}

constexpr StatisticsKinds kAllKinds[] = {{false, false}, {true, false},       {false, true},
                                         {true, true},   {false, true, true}, {true, true, true}};

/// Columns of outputs by token, [rows] each.
struct OutputTable {
  explicit OutputTable(std::size_t rows) : columns(9, std::vector<float>(rows, kUnwritten)) {}
  OutputColumns view(const StatisticsKinds& kinds) {
    const auto at = [&](int k, bool is_there) { return is_there ? columns[k].data() : nullptr; };
    OutputColumns view{at(0, true)};
    view.terms[RowTerm::entropy] = at(1, kinds.all);
    view.terms[RowTerm::vocab_min] = at(2, kinds.all);
    view.terms[RowTerm::vocab_max] = at(3, kinds.all);
    view.terms[RowTerm::logsumexp] = at(4, true);
    view.terms[RowTerm::mean_logprob] = at(5, kinds.mean);
    view.terms[RowTerm::sum_p2] = at(6, kinds.predictions);
    view.terms[RowTerm::top1] = at(7, kinds.predictions);
    view.terms[RowTerm::mean_logit] = at(8, kinds.predictions);
    return view;
  }
  std::vector<std::vector<float>> columns;
};

void expect_outputs(const LogitsTable& table, const std::vector<std::vector<float>>& out,
                    const StatisticsKinds& kinds) {
  for (std::int64_t r = 0; r < table.rows; ++r) {
    const auto k = static_cast<std::size_t>(r);
    double sum = 0;
    double squares = 0;
    double weighted = 0;
    float least = -kMinusInfinity;
    float most = kMinusInfinity;
    double total = 0;
    double finite = 0;
    for (std::int64_t v = 0; v < table.vocab; ++v) {
      const double x = table.row(r)[v];
      if (x == kMinusInfinity) continue;
      sum += std::exp(x);
      squares += std::exp(2 * x);
      weighted += std::exp(x) * x;
      total += x;
      finite += 1;
      least = std::min(least, table.row(r)[v]);
      most = std::max(most, table.row(r)[v]);
    }
    const bool predicts = table.targets[k] >= 0;
    const double x = predicts ? table.row(r)[table.targets[k]] : 0;
    EXPECT_NEAR(out[0][k], predicts ? x - std::log(sum) : 0, 1e-5) << r;
    EXPECT_NEAR(out[4][k], predicts ? std::log(sum) : 0, 1e-5) << r;
    if (kinds.mean) {
      const double mean = (total - finite * std::log(sum)) / static_cast<double>(table.vocab);
      EXPECT_NEAR(out[5][k], predicts ? mean : 0, 1e-5) << r;
    }
    if (kinds.predictions) {
      const float* row = table.row(r);
      const bool is_top =
          predicts && std::max_element(row, row + table.vocab) - row == table.targets[k];
      EXPECT_NEAR(out[6][k], predicts ? squares / sum / sum : 0, 1e-5) << r;
      EXPECT_EQ(out[7][k], is_top ? 1 : 0) << r;
      EXPECT_NEAR(out[8][k], predicts ? total / finite : 0, 1e-5) << r;
    }
    if (!kinds.all) continue;
    EXPECT_NEAR(out[1][k], predicts ? std::log(sum) - weighted / sum : 0, 1e-5) << r;
    EXPECT_EQ(out[2][k], predicts ? least : 0) << r;
    EXPECT_EQ(out[3][k], predicts ? most : 0) << r;
  }
}

/// One gather that every rank merges for itself; the last shard is empty.
TEST_P(RowItems, ShardsMergeToTheVocabulary) {
  const LogitsTable table = make_table(700, 9);
  const std::vector<VocabShard> shards = {{0, 3, 3}, {3, 6, 3}, {6, 9, 3}, {9, 9, 3}};
  for (const StatisticsKinds kinds : kAllKinds) {
    const std::int64_t block = kinds.width() * table.rows;
    std::vector<float> received(static_cast<std::size_t>(4 * block));
    for (std::int64_t rank = 0; rank < 4; ++rank) {
      const StatisticsColumns own{received.data() + rank * block, table.rows, kinds};
      write_shard(table, shards[static_cast<std::size_t>(rank)], own);
      if (kinds.all) run(table.rows, NegateMin{own});
    }
    std::vector<float> merged(static_cast<std::size_t>(block), kUnwritten);
    const StatisticsColumns whole{merged.data(), table.rows, kinds};
    run(table.rows,
        MergeRow{
            {received.data(), table.rows, kinds}, shards.data(), 4, table.targets.data(), whole});
    OutputTable out(table.targets.size());
    run(table.rows,
        WriteRow{whole, table.targets.data(), out.view(kinds), static_cast<float>(table.vocab)});
    expect_outputs(table, out.columns, kinds);
  }
}

/// Reductions one after the other: a rank rescales its own sums to the shift of all, then adds.
TEST_P(RowItems, ShiftsMove) {
  using C = StatisticsColumns;
  const LogitsTable table = make_table(520, 8);
  const std::vector<VocabShard> shards = {{0, 5, 5}, {5, 8, 5}};
  constexpr StatisticsKinds kKinds{true, true, true};
  std::vector<std::vector<float>> columns(2, std::vector<float>(9 * 520));
  std::vector<float> shift(520, kMinusInfinity);
  for (std::size_t rank = 0; rank < 2; ++rank) {
    const C own{columns[rank].data(), table.rows, kKinds};
    write_shard(table, shards[rank], own);
    for (std::size_t r = 0; r < 520; ++r) shift[r] = std::max(shift[r], own.column(C::kShift)[r]);
  }
  for (std::size_t rank = 0; rank < 2; ++rank) {
    const C own{columns[rank].data(), table.rows, kKinds};
    const std::vector<float> own_shift(own.column(C::kShift), own.column(C::kShift) + 520);
    std::copy(shift.begin(), shift.end(), own.column(C::kShift));
    run(table.rows, NegateMin{own});
    run(table.rows, MoveShift{own, own_shift.data(), shards[rank], table.targets.data()});
  }
  const C first{columns[0].data(), table.rows, kKinds};
  const C second{columns[1].data(), table.rows, kKinds};
  for (std::int64_t r = 0; r < table.rows; ++r) {
    if (table.targets[static_cast<std::size_t>(r)] < 0) first.at(C::kSum, r) = 0.5f;
    if (table.targets[static_cast<std::size_t>(r)] < 0) second.at(C::kSum, r) = 0.5f;
    for (const auto column :
         {C::kTarget, C::kTotal, C::kFinite, C::kSum, C::kWeighted, C::kSquares, C::kBeaten}) {
      first.at(column, r) += second.at(column, r);
    }
    first.at(C::kMin, r) = std::min(first.at(C::kMin, r), second.at(C::kMin, r));
  }
  OutputTable out(520);
  run(table.rows,
      WriteRow{first, table.targets.data(), out.view(kKinds), static_cast<float>(table.vocab)});
  expect_outputs(table, out.columns, kKinds);
}

/// A shard that is masked with the lowest number: its distance to the shift of the vocabulary times
/// its sum is beyond float32, and 0 times that is no number.
TEST_P(RowItems, ShardsOfLowestNumbersLeaveNothing) {
  using C = StatisticsColumns;
  constexpr StatisticsKinds kKinds{true, false};
  constexpr float kLowest = std::numeric_limits<float>::lowest();
  const std::vector<std::int32_t> targets{1, 5};
  LogitsTable table{2, 8, {}, targets};
  for (const float x : {0.5f, -1.0f, 2.0f, 0.0f}) table.logits.push_back(x);
  table.logits.insert(table.logits.end(), 4, kLowest);
  for (const float x : {0.5f, 3e38f, 2.0f, 0.0f, 1.0f, -3e38f, 2.0f, 3.0f}) {
    table.logits.push_back(x);
  }
  const std::vector<VocabShard> shards = {{0, 4, 4}, {4, 8, 4}};
  std::vector<float> received(2 * 5 * 2);
  std::vector<float> merged(5 * 2);
  for (std::int64_t rank = 0; rank < 2; ++rank) {
    const C own{received.data() + rank * 10, 2, kKinds};
    write_shard(table, shards[static_cast<std::size_t>(rank)], own);
    run(2, NegateMin{own});
  }
  run(2, MergeRow{{received.data(), 2, kKinds},
                  shards.data(),
                  2,
                  targets.data(),
                  {merged.data(), 2, kKinds}});
  const C whole{merged.data(), 2, kKinds};
  EXPECT_NEAR(whole.at(C::kSum, 0), 1 + std::exp(-1.5) + std::exp(-3) + std::exp(-2), 1e-6);
  EXPECT_NEAR(whole.at(C::kWeighted, 0),
              -1.5 * std::exp(-1.5) - 3 * std::exp(-3) - 2 * std::exp(-2), 1e-6);
  EXPECT_EQ(whole.at(C::kSum, 1), 1);
  EXPECT_EQ(whole.at(C::kWeighted, 1), 0);
  EXPECT_EQ(whole.at(C::kTarget, 1), kMinusInfinity);

  const C second{received.data() + 10, 2, kKinds};
  const std::vector<float> own_shift(second.column(C::kShift), second.column(C::kShift) + 2);
  std::copy_n(whole.column(C::kShift), 2, second.column(C::kShift));
  run(2, MoveShift{second, own_shift.data(), shards[1], targets.data()});
  for (std::int64_t r = 0; r < 2; ++r) {
    EXPECT_EQ(second.at(C::kSum, r), 0);
    EXPECT_EQ(second.at(C::kWeighted, r), 0);
  }
}

std::string backend_of(const testing::TestParamInfo<Backend>& info) {
  return std::string(name(info.param));
}

INSTANTIATE_TEST_SUITE_P(Backends, RowItems, testing::Values(Backend::cpu, Backend::cuda_emulated),
                         backend_of);

}  // namespace
}  // namespace lossgrid
