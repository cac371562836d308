// SPDX-License-Identifier: Apache-2.0
// Mutants with wrong layouts: targets shifted after the CP split, twice or not at all, wrong CP
// splits, and gathers that restore the wrong row order.
#include <algorithm>

#include "impls/mutants/mutant.h"

namespace lossgrid {
namespace {

/// Returns rows that predict their own token instead of the next one.
ShiftedBatch own_tokens(const PackedBatch& batch) {
  ShiftedBatch rows = shift_targets(batch);
  for (std::int64_t i = 0; i < batch.sequences(); ++i) {
    const std::int64_t start = batch.cu_seqlens_padded[i];
    for (std::int64_t t = 0; t < batch.padded_length(i); ++t) {
      const bool is_token = t < batch.length(i);
      const std::int64_t token = batch.cu_seqlens[i] + t;
      rows.targets[start + t] = is_token ? batch.input_ids[token] : -1;
      rows.valid[start + t] = is_token && batch.token_mask[token] && batch.sample_mask[i] ? 1 : 0;
    }
  }
  return rows;
}

/// Moves targets and masks one row up inside each range; the last row of a range gets none.
enum class Roll { targets_and_mask, mask };

void roll_range(const ShiftedBatch& own, std::int64_t begin, std::int64_t end, Roll what,
                ShiftedBatch& rows) {
  for (std::int64_t k = begin; k < end; ++k) {
    const bool last = k + 1 == end;
    if (what == Roll::targets_and_mask) rows.targets[k] = last ? -1 : own.targets[k + 1];
    rows.valid[k] = last || own.targets[k + 1] < 0 ? 0 : own.valid[k + 1];
  }
}

ShiftedBatch roll_local_rows(const PackedBatch& batch, int cp, int cp_rank, Roll what,
                             std::int64_t parts) {
  const std::vector<std::int64_t> positions = cp_rows(batch, cp, cp_rank);
  const ShiftedBatch own = own_tokens(batch).gather(positions);
  ShiftedBatch rows = shift_targets(batch).gather(positions);
  for (std::int64_t i = 0; i < batch.sequences(); ++i) {
    const std::int64_t start = batch.cu_seqlens_padded[i] / cp;
    const std::int64_t step = batch.padded_length(i) / cp / (cp > 1 ? parts : 1);
    for (std::int64_t at = start; step > 0 && at < batch.cu_seqlens_padded[i + 1] / cp;
         at += step) {
      roll_range(own, at, at + step, what, rows);
    }
  }
  return rows;
}

ShiftedBatch roll_after_split(const PackedBatch& batch, const Steps&, int cp, int cp_rank) {
  return roll_local_rows(batch, cp, cp_rank, Roll::targets_and_mask, 1);
}

ShiftedBatch roll_inside_chunks(const PackedBatch& batch, const Steps&, int cp, int cp_rank) {
  return roll_local_rows(batch, cp, cp_rank, Roll::targets_and_mask, 2);
}

ShiftedBatch roll_mask_after_split(const PackedBatch& batch, const Steps&, int cp, int cp_rank) {
  return roll_local_rows(batch, cp, cp_rank, Roll::mask, 1);
}

ShiftedBatch target_not_rolled(const PackedBatch& batch) {
  ShiftedBatch rows = shift_targets(batch);
  const ShiftedBatch own = own_tokens(batch);
  for (std::size_t t = 0; t < rows.targets.size(); ++t) {
    if (rows.targets[t] >= 0) rows.targets[t] = own.targets[t];
  }
  return rows;
}

/// Sets valid[t] to the mask of token t + offset, for rows that predict a token.
ShiftedBatch mask_at_offset(const PackedBatch& batch, std::int64_t offset) {
  ShiftedBatch rows = shift_targets(batch);
  const ShiftedBatch own = own_tokens(batch);
  for (std::int64_t i = 0; i < batch.sequences(); ++i) {
    const std::int64_t start = batch.cu_seqlens_padded[i];
    for (std::int64_t t = 0; t + 1 < batch.length(i); ++t) {
      rows.valid[start + t] = t + offset < batch.length(i) ? own.valid[start + t + offset] : 0;
    }
  }
  return rows;
}

ShiftedBatch mask_rolled_twice(const PackedBatch& batch) {
  return mask_at_offset(batch, 2);
}

ShiftedBatch mask_not_rolled(const PackedBatch& batch) {
  return mask_at_offset(batch, 0);
}

ShiftedBatch row_wraps(const PackedBatch& batch) {
  ShiftedBatch rows = shift_targets(batch);
  for (std::int64_t i = 0; i < batch.sequences(); ++i) {
    if (batch.length(i) == 0 || batch.length(i) != batch.padded_length(i)) continue;
    const std::int64_t last = batch.cu_seqlens_padded[i + 1] - 1;
    const std::int64_t first = batch.cu_seqlens[i];
    rows.targets[last] = batch.input_ids[first];
    rows.valid[last] = batch.token_mask[first] && batch.sample_mask[i] ? 1 : 0;
  }
  return rows;
}

/// Trains on sequence i up to its last padded position.
void count_pads(const PackedBatch& batch, std::int64_t i, ShiftedBatch& rows) {
  for (std::int64_t t = std::max<std::int64_t>(0, batch.length(i) - 1);
       t + 1 < batch.padded_length(i); ++t) {
    rows.targets[batch.cu_seqlens_padded[i] + t] = 0;
    rows.valid[batch.cu_seqlens_padded[i] + t] = batch.sample_mask[i];
  }
}

ShiftedBatch pads_counted(const PackedBatch& batch) {
  ShiftedBatch rows = shift_targets(batch);
  for (std::int64_t i = 0; i < batch.sequences(); ++i) count_pads(batch, i, rows);
  return rows;
}

/// Slices lengths for as many sequences as the largest microbatch has. The ones that a smaller
/// microbatch does not have extend its last sequence, up to the number of rows.
ShiftedBatch lengths_beyond_rows(const PackedBatch& batch) {
  ShiftedBatch rows = shift_targets(batch);
  const bool partial = batch.sequences() > 0 && batch.sequences() < batch.microbatch.slots;
  if (partial) count_pads(batch, batch.sequences() - 1, rows);
  return rows;
}

std::vector<std::int64_t> zigzag_of_whole_pack(const PackedBatch& batch, int cp, int cp_rank) {
  const std::vector<std::int64_t> one{0, batch.padded_tokens()};
  return cp_rows(one, CpLayout::zigzag, cp, cp_rank);
}

std::vector<std::int64_t> contiguous_rows(const PackedBatch& batch, int cp, int cp_rank) {
  std::vector<std::int64_t> rows(static_cast<std::size_t>(batch.padded_tokens() / cp));
  for (std::size_t k = 0; k < rows.size(); ++k) {
    rows[k] = cp_rank * static_cast<std::int64_t>(rows.size()) + static_cast<std::int64_t>(k);
  }
  return rows;
}

std::vector<std::int64_t> chunks_swapped(const PackedBatch& batch, int cp, int cp_rank) {
  std::vector<std::int64_t> rows = cp_rows(batch, cp, cp_rank);
  if (cp == 1) return rows;
  for (std::int64_t i = 0; i < batch.sequences(); ++i) {
    const auto begin = rows.begin() + batch.cu_seqlens_padded[i] / cp;
    const std::int64_t half = batch.padded_length(i) / cp / 2;
    std::swap_ranges(begin, begin + half, begin + half);
  }
  return rows;
}

std::vector<std::int64_t> gather_without_unsplit(const PackedBatch& batch, const Steps&, int cp) {
  std::vector<std::int64_t> order;
  for (int rank = 0; rank < cp; ++rank) {
    const std::vector<std::int64_t> rows = contiguous_rows(batch, cp, rank);
    order.insert(order.end(), rows.begin(), rows.end());
  }
  return order;
}

std::vector<std::int64_t> gather_halves_pack(const PackedBatch& batch, const Steps&, int cp) {
  std::vector<std::int64_t> order;
  for (int rank = 0; rank < cp; ++rank) {
    const std::vector<std::int64_t> rows = zigzag_of_whole_pack(batch, cp, rank);
    order.insert(order.end(), rows.begin(), rows.end());
  }
  return order;
}

/// Writes the right rows of each sequence from another local start.
ShiftedBatch place_sequences(const PackedBatch& batch, const Steps& steps, int cp, int cp_rank,
                             std::int64_t (*start_of)(const PackedBatch&, std::int64_t, int)) {
  const ShiftedBatch right = steps.shift(batch).gather(cp_rows(batch, cp, cp_rank));
  ShiftedBatch rows = right;
  std::fill(rows.targets.begin(), rows.targets.end(), -1);
  std::fill(rows.valid.begin(), rows.valid.end(), 0);
  for (std::int64_t i = 0; i < batch.sequences(); ++i) {
    const std::int64_t from = batch.cu_seqlens_padded[i] / cp;
    const std::int64_t to = start_of(batch, i, cp);
    for (std::int64_t k = 0; k < batch.padded_length(i) / cp; ++k) {
      rows.targets[to + k] = right.targets[from + k];
      rows.valid[to + k] = right.valid[from + k];
    }
  }
  return rows;
}

ShiftedBatch local_starts_unpadded(const PackedBatch& batch, const Steps& steps, int cp,
                                   int cp_rank) {
  return place_sequences(
      batch, steps, cp, cp_rank,
      [](const PackedBatch& b, std::int64_t i, int ranks) { return b.cu_seqlens[i] / ranks; });
}

/// Returns the position in slot k of the rank, of one sequence split as if it were `padded` long;
/// -1 if the slot is empty.
std::int64_t zigzag_offset(std::int64_t padded, int cp, int cp_rank, std::int64_t k) {
  const std::int64_t h = cp > 1 ? padded / (2 * cp) : padded;
  if (k < h) return cp_rank * h + k;
  if (cp > 1 && k < 2 * h) return (2 * cp - 1 - cp_rank) * h + (k - h);
  return -1;
}

ShiftedBatch bin_fill_ignored(const PackedBatch& batch, const Steps& steps, int cp, int cp_rank) {
  const ShiftedBatch pack = steps.shift(batch);
  ShiftedBatch rows = pack.gather(cp_rows(batch, cp, cp_rank));
  const std::int64_t last = batch.sequences() - 1;
  if (last < 0) return rows;
  const std::int64_t multiple = cp > 1 ? 2 * cp : 1;
  const std::int64_t unfilled = (batch.length(last) + multiple - 1) / multiple * multiple;
  const std::int64_t start = batch.cu_seqlens_padded[last];
  for (std::int64_t k = 0; k < batch.padded_length(last) / cp; ++k) {
    const std::int64_t offset = zigzag_offset(unfilled, cp, cp_rank, k);
    rows.targets[start / cp + k] = offset < 0 ? -1 : pack.targets[start + offset];
    rows.valid[start / cp + k] = offset < 0 ? 0 : pack.valid[start + offset];
  }
  return rows;
}

/// Takes a second chunk that begins after the tokens from their end, as a slice with a negative
/// length would.
ShiftedBatch tail_of_second_chunk(const PackedBatch& batch, const Steps& steps, int cp,
                                  int cp_rank) {
  const ShiftedBatch pack = steps.shift(batch);
  ShiftedBatch rows = pack.gather(cp_rows(batch, cp, cp_rank));
  for (std::int64_t i = 0; cp > 1 && i < batch.sequences(); ++i) {
    const std::int64_t h = batch.padded_length(i) / (2 * cp);
    const std::int64_t second = (2 * cp - 1 - cp_rank) * h;
    if (second < batch.length(i)) continue;
    const std::int64_t taken = std::min(h, batch.length(i));
    const std::int64_t to = batch.cu_seqlens_padded[i] / cp + h;
    const std::int64_t from = batch.cu_seqlens_padded[i] + batch.length(i) - taken;
    for (std::int64_t k = 0; k < taken; ++k) {
      rows.targets[to + k] = pack.targets[from + k];
      rows.valid[to + k] = pack.valid[from + k];
    }
  }
  return rows;
}

const RegisteredMutant layout_mutants[] = {
    RegisteredMutant({
        .catalogue_id = "M4",
        .name = "roll_after_split",
        .what = "targets rolled in the local rows of a sequence",
        .strategy = "fused",
        .change = [](Steps& s) { s.local_targets = roll_after_split; },
        .seen_in = "verl #4250",
        .rejected_by = "logprobs",
    }),
    RegisteredMutant({
        .catalogue_id = "M5",
        .name = "roll_inside_chunks",
        .what = "targets rolled inside each chunk",
        .strategy = "cp_local",
        .change = [](Steps& s) { s.local_targets = roll_inside_chunks; },
        .rejected_by = "logprobs",
    }),
    RegisteredMutant({
        .catalogue_id = "M6",
        .name = "target_not_rolled",
        .what = "rows predict their own token",
        .strategy = "fused",
        .change = [](Steps& s) { s.shift = target_not_rolled; },
        .rejected_by = "logprobs",
    }),
    RegisteredMutant({
        .catalogue_id = "M7",
        .name = "mask_rolled_twice",
        .what = "the mask is rolled in the engine and in the loss",
        .strategy = "fused",
        .change = [](Steps& s) { s.shift = mask_rolled_twice; },
        .rejected_by = "owned_labels_sum_to_valid_tokens",
    }),
    RegisteredMutant({
        .catalogue_id = "M8",
        .name = "mask_not_rolled",
        .what = "the mask is used at the predicting position",
        .strategy = "fused",
        .change = [](Steps& s) { s.shift = mask_not_rolled; },
        .rejected_by = "owned_labels_sum_to_valid_tokens",
    }),
    RegisteredMutant({
        .catalogue_id = "M9",
        .name = "mask_rolled_after_split",
        .what = "the mask bit of the next chunk is lost",
        .strategy = "cp_local",
        .change = [](Steps& s) { s.local_targets = roll_mask_after_split; },
        .rejected_by = "owned_labels_sum_to_valid_tokens",
    }),
    RegisteredMutant({
        .catalogue_id = "M10",
        .name = "row_wraps",
        .what = "the last row predicts the first token of its sequence",
        .strategy = "per_sequence",
        .change = [](Steps& s) { s.shift = row_wraps; },
        .seen_in = "AReaL 1.0.4, if a first token is trained on",
        .rejected_by = "owned_labels_sum_to_valid_tokens",
    }),
    RegisteredMutant({
        .catalogue_id = "M11",
        .name = "zigzag_of_whole_pack",
        .what = "the pack is split as one sequence",
        .strategy = "cp_local",
        .change = [](Steps& s) { s.local_rows = zigzag_of_whole_pack; },
        .rejected_by = "logprobs",
    }),
    RegisteredMutant({
        .catalogue_id = "M12",
        .name = "contiguous_split",
        .what = "rank r gets T / cp contiguous rows",
        .strategy = "cp_local",
        .change = [](Steps& s) { s.local_rows = contiguous_rows; },
        .rejected_by = "logprobs",
    }),
    RegisteredMutant({
        .catalogue_id = "M13",
        .name = "chunks_swapped",
        .what = "chunk 2 cp - 1 - r before chunk r",
        .strategy = "cp_local",
        .change = [](Steps& s) { s.local_rows = chunks_swapped; },
        .rejected_by = "logprobs",
    }),
    RegisteredMutant({
        .catalogue_id = "M14",
        .name = "gather_without_unsplit",
        .what = "gathered rows are left rank by rank",
        .strategy = "fused",
        .change = [](Steps& s) { s.gather_order = gather_without_unsplit; },
        .rejected_by = "logprobs",
    }),
    RegisteredMutant({
        .catalogue_id = "M15",
        .name = "gather_halves_pack",
        .what = "the gather halves the whole pack",
        .strategy = "fused",
        .change = [](Steps& s) { s.gather_order = gather_halves_pack; },
        .rejected_by = "logprobs",
    }),
    RegisteredMutant({
        .catalogue_id = "M16",
        .name = "local_starts_unpadded",
        .what = "local starts from unpadded lengths",
        .strategy = "cp_local",
        .change = [](Steps& s) { s.local_targets = local_starts_unpadded; },
        .seen_in = "Megatron-LM #4495, #6205",
        .rejected_by = "logprobs",
    }),
    RegisteredMutant({
        .catalogue_id = "M17",
        .name = "bin_fill_ignored",
        .what = "the last sequence is split without its bin fill",
        .strategy = "fused",
        .change = [](Steps& s) { s.local_targets = bin_fill_ignored; },
        .rejected_by = "logprobs",
    }),
    RegisteredMutant({
        .catalogue_id = "M18",
        .name = "tail_of_second_chunk",
        .what = "a second chunk behind the tokens is not empty",
        .strategy = "cp_local",
        .change = [](Steps& s) { s.local_targets = tail_of_second_chunk; },
        .seen_in = "SkyRL, 1 or 2 tokens on tp4cp2",
        .rejected_by = "owned_labels_sum_to_valid_tokens",
    }),
    RegisteredMutant({
        .catalogue_id = "M19",
        .name = "pads_counted",
        .what = "positions behind the true length are trained on",
        .strategy = "fused",
        .change = [](Steps& s) { s.shift = pads_counted; },
        .rejected_by = "owned_labels_sum_to_valid_tokens",
    }),
    RegisteredMutant({
        .catalogue_id = "M48",
        .name = "lengths_beyond_rows",
        .what = "a microbatch smaller than the largest takes lengths beyond its rows",
        .strategy = "fused",
        .change = [](Steps& s) { s.shift = lengths_beyond_rows; },
        .seen_in = "NeMo-RL #2242",
        .rejected_by = "owned_labels_sum_to_valid_tokens",
    }),
};

}  // namespace
}  // namespace lossgrid
