// SPDX-License-Identifier: Apache-2.0
// Mutants of CP layouts other than zigzag: the rows of another layout, targets shifted after the
// split of the pack, gathers in another order, sums of sequences that straddle ranks.
#include <algorithm>
#include <numeric>

#include "impls/mutants/mutant.h"

namespace lossgrid {
namespace {

/// Cuts the pack in a layout that cuts every sequence, and every sequence in one of the pack.
std::vector<std::int64_t> rows_of_other_unit(const PackedBatch& batch, int cp, int cp_rank) {
  const bool by_sequence = rules_of(batch.cp_layout).cuts_sequences;
  return cp_rows(batch.cu_seqlens_padded,
                 by_sequence ? CpLayout::contiguous : CpLayout::contiguous_sequence, cp, cp_rank);
}

/// Begins the rows of a rank at a share of the true tokens.
std::vector<std::int64_t> share_of_true_tokens(const PackedBatch& batch, int cp, int cp_rank) {
  const std::int64_t tokens =
      std::accumulate(batch.input_lengths.begin(), batch.input_lengths.end(), std::int64_t{0});
  const std::int64_t rows = batch.padded_tokens() / cp;
  const std::int64_t begin = std::min((tokens + cp - 1) / cp * cp_rank, rows * cp_rank);
  std::vector<std::int64_t> positions(static_cast<std::size_t>(rows));
  std::iota(positions.begin(), positions.end(), begin);
  return positions;
}

/// Shifts targets among the local rows: the last row of the rank has none, and the last one of a
/// chunk that of the row before the next chunk.
ShiftedBatch shift_after_split(const PackedBatch& batch, const Steps&, int cp, int cp_rank) {
  const std::vector<std::int64_t> positions = cp_rows(batch, cp, cp_rank);
  const ShiftedBatch pack = shift_targets(batch);
  ShiftedBatch rows = pack.gather(positions);
  for (std::size_t k = 0; k < positions.size(); ++k) {
    if (rows.targets[k] < 0) continue;
    const bool is_last = k + 1 == positions.size();
    const auto before_next = static_cast<std::size_t>(is_last ? 0 : positions[k + 1] - 1);
    rows.targets[k] = is_last ? -1 : pack.targets[before_next];
    rows.valid[k] = is_last ? std::uint8_t{0} : pack.valid[before_next];
  }
  return rows;
}

/// Rolls ids and masks over the whole pack: the last row of a sequence without pads predicts the
/// first token of the next one, if that is trained on.
ShiftedBatch roll_of_pack(const PackedBatch& batch) {
  ShiftedBatch rows = shift_targets(batch);
  for (std::int64_t i = 0; i + 1 < batch.sequences(); ++i) {
    if (batch.length(i) == 0 || batch.length(i) != batch.padded_length(i)) continue;
    if (batch.length(i + 1) == 0) continue;
    const auto last = static_cast<std::size_t>(batch.cu_seqlens_padded[i + 1] - 1);
    const auto first = static_cast<std::size_t>(batch.cu_seqlens[i + 1]);
    rows.targets[last] = batch.input_ids[first];
    rows.valid[last] = batch.token_mask[first] != 0 && batch.sample_mask[i] != 0 ? 1 : 0;
  }
  return rows;
}

std::vector<std::int64_t> order_of_one_rank(const PackedBatch& batch, const Steps&, int /*cp*/) {
  return cp_rows(batch, 1, 0);
}

/// Adds up the parts of a sequence that the first two ranks have.
void sums_of_two_ranks(Communicator& cp, SequenceTable<double> sums) {
  const std::span<double> own(sums.data, static_cast<std::size_t>(sums.sequences * sums.columns));
  if (own.empty()) return;
  if (cp.rank() > 1) std::fill(own.begin(), own.end(), 0.0);
  cp.all_reduce(own, ReduceOp::sum);
}

bool is_cut_by_pack(const LossProblem& problem) {
  return problem.grid.cp > 1 && problem.grid.cp_layout == CpLayout::contiguous;
}

bool is_cut_by_sequence(const LossProblem& problem) {
  return problem.grid.cp > 1 && problem.grid.cp_layout == CpLayout::contiguous_sequence;
}

bool is_another_layout(const LossProblem& problem) {
  return problem.grid.cp > 1 && problem.grid.cp_layout != CpLayout::zigzag;
}

bool is_out_of_order(const LossProblem& problem) {
  return problem.grid.cp > 1 && (problem.grid.cp_layout == CpLayout::zigzag_row ||
                                 problem.grid.cp_layout == CpLayout::contiguous_sequence);
}

bool pads_the_end_alone(const LossProblem& problem) {
  return problem.grid.cp > 1 && problem.grid.cp_layout == CpLayout::ulysses;
}

const RegisteredMutant cp_layout_mutants[] = {
    RegisteredMutant({
        .catalogue_id = "M206",
        .name = "pack_layout_cut_by_sequence",
        .what = "contiguous layout: every sequence is cut, not the pack",
        .strategy = "cp_local",
        .change = [](Steps& s) { s.local_rows = rows_of_other_unit; },
        .runs_on = is_cut_by_pack,
        .rejected_by = "logprobs",
    }),
    RegisteredMutant({
        .catalogue_id = "M206",
        .name = "sequence_layout_cut_by_pack",
        .what = "contiguous_sequence layout: the pack is cut, not every sequence",
        .strategy = "cp_local",
        .change = [](Steps& s) { s.local_rows = rows_of_other_unit; },
        .runs_on = is_cut_by_sequence,
        .rejected_by = "logprobs",
    }),
    RegisteredMutant({
        .catalogue_id = "M207",
        .name = "share_of_true_tokens",
        .what = "rows of a rank begin at a share of the tokens without pads",
        .strategy = "cp_local",
        .change = [](Steps& s) { s.local_rows = share_of_true_tokens; },
        .runs_on = pads_the_end_alone,
        .rejected_by = "logprobs",
    }),
    RegisteredMutant({
        .catalogue_id = "M208",
        .name = "shift_at_rank_boundary",
        .what = "targets are shifted after the split of the pack",
        .strategy = "cp_local",
        .change = [](Steps& s) { s.local_targets = shift_after_split; },
        .runs_on = is_another_layout,
        .rejected_by = "logprobs",
    }),
    RegisteredMutant({
        .catalogue_id = "M209",
        .name = "roll_of_pack",
        .what = "ids and masks are rolled over the pack: a first token is trained by the sequence "
                "before",
        .strategy = "fused",
        .change = [](Steps& s) { s.shift = roll_of_pack; },
        .seen_in = "verl, SFT on FSDP",
        .rejected_by = "owned_labels_sum_to_valid_tokens",
    }),
    RegisteredMutant({
        .catalogue_id = "M210",
        .name = "gather_order_of_one_rank",
        .what = "gathered rows are placed by the layout of one rank",
        .strategy = "fused",
        .change = [](Steps& s) { s.gather_order = order_of_one_rank; },
        .runs_on = is_out_of_order,
        .rejected_by = "logprobs",
    }),
    RegisteredMutant({
        .catalogue_id = "M211",
        .name = "sequence_sums_of_two_ranks",
        .what = "sums of a sequence are those of two ranks, whoever has parts of it",
        .strategy = "cp_local",
        .change = [](Steps& s) { s.reduce_sequence_sums = sums_of_two_ranks; },
        .runs_on = is_another_layout,
        .rejected_by = "metric.n_seqs",
    }),
};

}  // namespace
}  // namespace lossgrid
