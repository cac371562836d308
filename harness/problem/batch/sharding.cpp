// SPDX-License-Identifier: Apache-2.0
#include "harness/problem/batch/sharding.h"

#include <algorithm>
#include <numeric>

#include "harness/core/error.h"

namespace lossgrid {

std::int64_t cp_chunks(CpLayout layout, int cp) {
  if (layout == CpLayout::dynamic) {
    throw_bad_input(
        "a pack has no CP size of its own on a dynamic grid: name that of its microbatch, as in "
        "tp1cp4");
  }
  if (cp == 1) return 1;
  return rules_of(layout).rounds * std::int64_t{cp};
}

int cp_turn(CpLayout layout, int cp, std::int64_t round, int place) {
  return rules_of(layout).turns && round % 2 == 1 ? cp - 1 - place : place;
}

std::vector<std::int64_t> cp_rows(std::span<const std::int64_t> cu_padded, CpLayout layout, int cp,
                                  int cp_rank) {
  if (cp_rank < 0 || cp_rank >= cp) throw_bad_input("cp rank {} is not in [0, {})", cp_rank, cp);
  const std::int64_t chunks = cp_chunks(layout, cp);
  std::vector<std::int64_t> rows;
  rows.reserve(static_cast<std::size_t>(cu_padded.back() / cp));
  const auto append_part = [&](std::int64_t begin, std::int64_t length) {
    for (std::int64_t round = 0; round < chunks / cp; ++round) {
      const std::int64_t chunk = round * cp + cp_turn(layout, cp, round, cp_rank);
      const std::int64_t first = begin + chunk * (length / chunks);
      for (std::int64_t k = 0; k < length / chunks; ++k) rows.push_back(first + k);
    }
  };
  if (!rules_of(layout).cuts_sequences) {
    if (cu_padded.back() % chunks != 0) {
      throw_bad_input("the pack has {} rows, which {} cannot cut in {}", cu_padded.back(),
                      name(layout), chunks);
    }
    append_part(0, cu_padded.back());
    return rows;
  }
  for (std::size_t i = 0; i + 1 < cu_padded.size(); ++i) {
    const std::int64_t padded = cu_padded[i + 1] - cu_padded[i];
    if (padded < 0 || padded % chunks != 0) {
      throw_bad_input("sequence {} has padded length {}, which {} cannot cut in {}", i, padded,
                      name(layout), chunks);
    }
    append_part(cu_padded[i], padded);
  }
  return rows;
}

std::vector<std::int64_t> cp_rows(const PackedBatch& batch, int cp, int cp_rank) {
  return cp_rows(batch.cu_seqlens_padded, batch.cp_layout, cp, cp_rank);
}

std::vector<std::int64_t> cp_rows(std::span<const std::int64_t> cu_padded, const Grid& grid,
                                  int cp_rank) {
  return cp_rows(cu_padded, grid.cp_layout, grid.cp, cp_rank);
}

ShiftedBatch ShiftedBatch::gather(std::span<const std::int64_t> positions) const {
  ShiftedBatch rows;
  const auto select = [&](const auto& from, auto& to) {
    if (from.empty()) return;
    to.reserve(positions.size());
    for (const std::int64_t position : positions) to.push_back(from[position]);
  };
  select(targets, rows.targets);
  select(valid, rows.valid);
  select(real, rows.real);
  select(sequence, rows.sequence);
  select(ordinal, rows.ordinal);
  select(place, rows.place);
  for (int k = 0; k < kTokenInputs; ++k) select(inputs[k], rows.inputs[k]);
  return rows;
}

void ShiftedBatch::append(const ShiftedBatch& other) {
  const auto extend = [](const auto& from, auto& to) {
    to.insert(to.end(), from.begin(), from.end());
  };
  extend(other.targets, targets);
  extend(other.valid, valid);
  extend(other.real, real);
  extend(other.sequence, sequence);
  extend(other.ordinal, ordinal);
  extend(other.place, place);
  for (int k = 0; k < kTokenInputs; ++k) extend(other.inputs[k], inputs[k]);
}

ShiftedBatch shift_targets(const PackedBatch& batch) {
  const auto padded_tokens = static_cast<std::size_t>(batch.padded_tokens());
  ShiftedBatch shifted;
  shifted.targets.assign(padded_tokens, -1);
  shifted.valid.assign(padded_tokens, 0);
  shifted.real.assign(padded_tokens, 0);
  shifted.sequence.assign(padded_tokens, 0);
  shifted.ordinal.assign(padded_tokens, 0);
  shifted.place.resize(padded_tokens);
  std::iota(shifted.place.begin(), shifted.place.end(), 0);
  for (int k = 0; k < kTokenInputs; ++k) {
    if (!batch.inputs[k].empty()) shifted.inputs[k].assign(padded_tokens, 0.0f);
  }
  for (std::int64_t i = 0; i < batch.sequences(); ++i) {
    const std::int64_t tokens = batch.cu_seqlens[i];
    const std::int64_t rows = batch.cu_seqlens_padded[i];
    std::fill_n(shifted.sequence.begin() + rows, batch.padded_length(i),
                static_cast<std::int32_t>(i));
    if (!batch.microbatch.dummy) {
      std::fill_n(shifted.real.begin() + rows, batch.input_lengths[i], std::uint8_t{1});
    }
    std::int32_t ordinal = 0;
    for (std::int64_t t = 0; t + batch.ahead < batch.length(i); ++t) {
      const std::int64_t about = tokens + t + batch.ahead;
      shifted.targets[rows + t] = batch.input_ids[about];
      shifted.valid[rows + t] = batch.token_mask[about] != 0 && batch.sample_mask[i] != 0;
      shifted.ordinal[rows + t] = ordinal;
      ordinal += shifted.valid[rows + t];
      for (int k = 0; k < kTokenInputs; ++k) {
        if (!batch.inputs[k].empty()) shifted.inputs[k][rows + t] = batch.inputs[k][about];
      }
    }
  }
  return shifted;
}

}  // namespace lossgrid
