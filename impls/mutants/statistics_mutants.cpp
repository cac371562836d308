// SPDX-License-Identifier: Apache-2.0
// Mutants with wrong softmax statistics: missing reductions over TP, shards that own the wrong
// labels, padded columns that count, maxima and sums that lose terms, statistics that are read too
// late.
#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "harness/device/kernel/portable.h"
#include "impls/mutants/host_step.h"
#include "impls/mutants/mutant.h"

namespace lossgrid {
namespace {

/// Takes part in the collective and throws its result away.
void reduce_and_ignore(Communicator& tp, std::span<float> values, ReduceOp op) {
  std::vector<float> copy(values.begin(), values.end());
  tp.all_reduce(std::span<float>(copy), op);
}

void sum_not_reduced(Communicator& tp, std::span<float> values) {
  reduce_and_ignore(tp, values, ReduceOp::sum);
}

void max_not_reduced(Communicator& tp, std::span<float> values) {
  reduce_and_ignore(tp, values, ReduceOp::max);
}

void rank_0_everywhere(Communicator& tp, std::int64_t /*rows*/, std::span<const float> own,
                       std::span<float> received) {
  tp.all_gather(own, received);
  for (std::size_t begin = own.size(); begin < received.size(); begin += own.size()) {
    std::copy_n(received.begin(), own.size(),
                received.begin() + static_cast<std::ptrdiff_t>(begin));
  }
}

/// Maxima (shifts) are the first column, or the second one after negated minima.
void own_shift_everywhere(Communicator& tp, std::int64_t rows, std::span<const float> own,
                          std::span<float> received) {
  tp.all_gather(own, received);
  const auto column = static_cast<std::ptrdiff_t>(rows);
  const std::ptrdiff_t first = std::ssize(own) == 5 * column ? column : 0;
  for (std::ptrdiff_t begin = 0; begin < std::ssize(received); begin += std::ssize(own)) {
    std::copy_n(own.begin() + first, column, received.begin() + begin + first);
  }
}

/// Among eight ranks, leaves the last number that is received as it was before the gather.
void last_of_eight_stale(Communicator& tp, std::int64_t /*rows*/, std::span<const float> own,
                         std::span<float> received) {
  const float before = received.back();
  tp.all_gather(own, received);
  const bool is_poison = std::isnan(before);
  if (tp.size() == 8 && !is_poison) received.back() = before;
}

/// Calls f(row, distance) for every row; distance(v, shift) is x_v - shift as the kernels take it.
template <typename F>
void for_each_target(const LogitsRows& rows, F&& f) {
  dispatch_floating(rows.dtype, [&](auto zero) {
    const auto* data = static_cast<const decltype(zero)*>(rows.data);
    for (std::int64_t r = 0; r < rows.rows; ++r) {
      const auto* x = data + r * rows.shard.width;
      f(r, [x](std::int64_t v, float shift) { return distance_to_shift(x[v], shift); });
    }
  });
}

/// Shifts ownership at the edges of a shard; ids outside are read at the nearest own column.
std::int64_t owned_between(const LogitsRows& rows, const RowStatistics& out, std::int64_t begin,
                           std::int64_t end) {
  rows_statistics(rows, out);
  std::int64_t owned = 0;
  for_each_target(rows, [&](std::int64_t r, const auto& distance) {
    const std::int64_t y = rows.targets[r];
    out.target[r] = 0;
    if (y < begin || y >= end || rows.shard.valid() == 0) return;
    const std::int64_t column =
        std::clamp<std::int64_t>(y - rows.shard.begin, 0, rows.shard.valid() - 1);
    out.target[r] = distance(column, out.shift[r]);
    if (rows.valid[r] != 0) ++owned;
  });
  return owned;
}

std::int64_t range_includes_end(const LogitsRows& rows, const RowStatistics& out) {
  return owned_between(rows, out, rows.shard.begin, rows.shard.end + 1);
}

/// Gives the first id of a shard to the rank before (id 0 to no rank).
std::int64_t edge_on_wrong_rank(const LogitsRows& rows, const RowStatistics& out) {
  return owned_between(rows, out, rows.shard.begin + 1, rows.shard.end + 1);
}

VocabShard padded_vocab_counts(std::int64_t vocab, int tp, int tp_rank) {
  VocabShard shard = vocab_shard(vocab, tp, tp_rank);
  shard.begin = tp_rank * shard.width;
  shard.end = shard.begin + shard.width;
  return shard;
}

/// Computes statistics relative to shift(maximum): sums of float32 exponentials in double.
template <typename Shift>
std::int64_t shifted_by(const LogitsRows& rows, const RowStatistics& out, Shift&& shift) {
  const std::int64_t owned = rows_statistics(rows, out);
  for_each_target(rows, [&](std::int64_t r, const auto& distance) {
    if (rows.targets[r] < 0) return;
    const float by = shift(out.shift[r]);
    if (rows.shard.owns(rows.targets[r])) out.target[r] += out.shift[r] - by;
    out.shift[r] = by;
    double sum = 0;
    for (std::int64_t v = 0; v < rows.shard.valid(); ++v) sum += std::exp(distance(v, by));
    out.sum[r] = static_cast<float>(sum);
  });
  return owned;
}

std::int64_t max_not_subtracted(const LogitsRows& rows, const RowStatistics& out) {
  return shifted_by(rows, out, [](float) { return 0.0f; });
}

std::int64_t max_starts_at_zero(const LogitsRows& rows, const RowStatistics& out) {
  return shifted_by(rows, out, [](float max) { return std::max(max, 0.0f); });
}

std::int64_t sum_without_last_tile(const LogitsRows& rows, const RowStatistics& out) {
  constexpr std::int64_t kTile = 16;
  LogitsRows shorter = rows;
  // The stride stays: only the number of valid columns shrinks.
  shorter.shard.end = std::max(rows.shard.begin, rows.shard.end - kTile);
  rows_statistics(shorter, out);
  std::int64_t owned = 0;
  for_each_target(rows, [&](std::int64_t r, const auto& distance) {
    if (!rows.shard.owns(rows.targets[r])) return;
    out.target[r] = distance(rows.targets[r] - rows.shard.begin, out.shift[r]);
    if (rows.valid[r] != 0) ++owned;
  });
  return owned;
}

std::int64_t sum_in_sequence(const LogitsRows& rows, const RowStatistics& out) {
  const std::int64_t owned = rows_statistics(rows, out);
  for_each_target(rows, [&](std::int64_t r, const auto& distance) {
    if (rows.targets[r] < 0 || out.sum[r] == 0) return;
    out.sum[r] = 0;
    for (std::int64_t v = 0; v < rows.shard.valid(); ++v) {
      out.sum[r] += std::exp(distance(v, out.shift[r]));
    }
  });
  return owned;
}

/// Computes the entropy, ln s - sum p x, after the softmax has overwritten the logits x.
std::int64_t entropy_of_overwritten(const LogitsRows& rows, const RowStatistics& out) {
  const std::int64_t owned = rows_statistics(rows, out);
  if (out.weighted == nullptr) return owned;
  for_each_target(rows, [&](std::int64_t r, const auto& distance) {
    if (rows.targets[r] < 0 || out.sum[r] == 0) return;
    float weighted = 0;
    for (std::int64_t v = 0; v < rows.shard.valid(); ++v) {
      const float e = std::exp(distance(v, out.shift[r]));
      weighted += e * (e / out.sum[r] - out.shift[r]);
    }
    out.weighted[r] = weighted;
  });
  return owned;
}

/// Has one place for a term of two rows in turn, and reads the first when the second has replaced
/// it.
std::int64_t entropy_of_second_row(const LogitsRows& rows, const RowStatistics& out) {
  const std::int64_t owned = rows_statistics(rows, out);
  if (out.weighted == nullptr) return owned;
  for (std::int64_t r = 0; r + 1 < rows.rows; r += 2) {
    const bool replaces = rows.targets[r] >= 0 && rows.targets[r + 1] >= 0;
    if (replaces) out.weighted[r] = out.weighted[r + 1];
  }
  return owned;
}

std::vector<RowRange> tail_chunk_dropped(std::int64_t rows, std::int64_t chunk) {
  std::vector<RowRange> ranges;
  for (std::int64_t begin = 0; begin + chunk <= rows; begin += chunk)
    ranges.push_back({begin, chunk});
  return ranges;
}

const RegisteredMutant statistics_mutants[] = {
    RegisteredMutant({
        .catalogue_id = "M32",
        .name = "sum_not_reduced",
        .what = "the sum of exponentials stays local to a TP rank",
        .strategy = "per_sequence",
        .change = [](Steps& s) { s.reduce_sum = sum_not_reduced; },
        .rejected_by = "logprobs",
    }),
    RegisteredMutant({
        .catalogue_id = "M33",
        .name = "max_not_reduced",
        .what = "sums are reduced with each rank's own maximum",
        .strategy = "per_sequence",
        .change = [](Steps& s) { s.reduce_max = max_not_reduced; },
        .rejected_by = "logprobs",
    }),
    RegisteredMutant({
        .name = "statistics_of_rank_0",
        .what = "every TP rank counts as rank 0",
        .strategy = "fused",
        .change = [](Steps& s) { s.gather_statistics = rank_0_everywhere; },
        .rejected_by = "logprobs",
    }),
    RegisteredMutant({
        .name = "shifts_not_gathered",
        .what = "sums are merged as if they had the own shift",
        .strategy = "cp_local",
        .change = [](Steps& s) { s.gather_statistics = own_shift_everywhere; },
        .rejected_by = "logprobs",
    }),
    RegisteredMutant({
        .name = "last_of_eight_stale",
        .what = "at tp = 8 the last number of a gather is that of the gather before",
        .strategy = "fused",
        .change = [](Steps& s) { s.gather_statistics = last_of_eight_stale; },
        .options = {{"chunk_tokens", "7"}},
        .rejected_by = "entropy",
    }),
    RegisteredMutant({
        .catalogue_id = "M34",
        .name = "range_includes_end",
        .what = "a shard owns y <= end",
        .strategy = "per_sequence",
        .change = [](Steps& s) { s.statistics = statistics_on_host<range_includes_end>; },
        .rejected_by = "owned_labels_sum_to_valid_tokens",
    }),
    RegisteredMutant({
        .name = "edge_on_wrong_rank",
        .what = "the first id of a shard is owned by the rank before",
        .strategy = "per_sequence",
        .change = [](Steps& s) { s.statistics = statistics_on_host<edge_on_wrong_rank>; },
        .rejected_by = "logprobs",
    }),
    RegisteredMutant({
        .catalogue_id = "M35",
        .name = "padded_vocab_counts",
        .what = "padded columns are in the denominator",
        .strategy = "fused",
        .change = [](Steps& s) { s.shard_vocab = padded_vocab_counts; },
        .seen_in = "RL-Kernel #249",
        .rejected_by = "logprobs",
    }),
    RegisteredMutant({
        .catalogue_id = "M36",
        .name = "max_not_subtracted",
        .what = "exp of the logits themselves",
        .strategy = "fused",
        .change = [](Steps& s) { s.statistics = statistics_on_host<max_not_subtracted>; },
        .rejected_by = "entropy",
    }),
    RegisteredMutant({
        .catalogue_id = "M63",
        .name = "max_starts_at_zero",
        .what = "the running maximum starts at 0",
        .strategy = "fused",
        .change = [](Steps& s) { s.statistics = statistics_on_host<max_starts_at_zero>; },
        .seen_in = "verl #2656, #7439; verl 0.9.1, SkyRL 0.3.0",
        .rejected_by = "entropy",
    }),
    RegisteredMutant({
        .name = "sum_without_last_tile",
        .what = "the last vocab tile is not in the sum",
        .strategy = "cp_local",
        .change = [](Steps& s) { s.statistics = statistics_on_host<sum_without_last_tile>; },
        .rejected_by = "logprobs",
    }),
    RegisteredMutant({
        .name = "sum_in_sequence",
        .what = "float32 sum over the vocab, one after the other",
        .strategy = "fused",
        .change = [](Steps& s) { s.statistics = statistics_on_host<sum_in_sequence>; },
        .rejected_by = "logprobs",
    }),
    RegisteredMutant({
        .catalogue_id = "M52",
        .name = "entropy_of_overwritten_logits",
        .what = "the entropy is read where the softmax has overwritten the logits",
        .strategy = "fused",
        .change = [](Steps& s) { s.statistics = statistics_on_host<entropy_of_overwritten>; },
        .seen_in = "Megatron-Bridge #5947",
        .rejected_by = "entropy",
    }),
    RegisteredMutant({
        .name = "entropy_of_second_row",
        .what = "the entropy of the first of two rows is read after the second took its place",
        .strategy = "cp_local",
        .change = [](Steps& s) { s.statistics = statistics_on_host<entropy_of_second_row>; },
        .rejected_by = "entropy",
    }),
    RegisteredMutant({
        .catalogue_id = "M38",
        .name = "tail_chunk_dropped",
        .what = "rows after the last whole chunk are left out",
        .strategy = "fused",
        .change = [](Steps& s) { s.chunks = tail_chunk_dropped; },
        .options = {{"chunk_tokens", "7"}},
        .rejected_by = "logprobs",
    }),
};

}  // namespace
}  // namespace lossgrid
