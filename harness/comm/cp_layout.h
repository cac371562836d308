// SPDX-License-Identifier: Apache-2.0
// The list of CP layouts: ways to give the rows of a padded pack to CP ranks. Grids, the division
// of rows (harness/problem/batch/sharding.h), padding, `lossgrid list layouts` and docs/concepts.md
// take them from here; `reference` divides rows by a formula of its own.
#pragma once

#include <array>
#include <cstddef>
#include <string_view>

namespace lossgrid {

enum class CpLayout { zigzag, contiguous, ulysses, zigzag_row, contiguous_sequence, dynamic };

struct CpLayoutRules {
  CpLayout layout;
  const char* name;     // behind the ':' of a grid
  bool cuts_sequences;  // every sequence is cut, else the pack
  bool in_pairs;        // in 2 cp chunks, of which rank r has r and 2 cp - 1 - r; else in cp
  bool pads_end;        // pads stand at the end of the pack alone
  const char* rows;     // of rank r, for a reader
  const char* padded;   // multiples, for a reader
};

/// In the order of CpLayout. Rows of a rank by NeMo-RL `_get_tokens_on_this_cp_rank` and
/// TransformerEngine `thd_partition_src_index` (zigzag), verl's contiguous layout on Megatron
/// (contiguous), the loss of Ulysses in verl, SkyRL and AReaL on FSDP (ulysses), head-tail of
/// torch's context parallelism and Megatron-LM's of rows of one sequence (zigzag_row).
inline constexpr auto kCpLayouts = std::to_array<CpLayoutRules>({
    {CpLayout::zigzag, "zigzag", true, true, false,
     "of every sequence, cut in 2 cp chunks: chunks r and 2 cp - 1 - r", "sequences to 2 cp"},
    {CpLayout::contiguous, "contiguous", false, false, false,
     "of the pack, cut in cp chunks: chunk r (verl's contiguous layout on Megatron)",
     "sequences to cp"},
    {CpLayout::ulysses, "ulysses", false, false, true,
     "of the pack, cut in cp chunks: chunk r (the loss under Ulysses in verl, SkyRL and AReaL on "
     "FSDP)",
     "the end of the pack to cp"},
    {CpLayout::zigzag_row, "zigzag_row", false, true, true,
     "of the pack, cut in 2 cp chunks: chunks r and 2 cp - 1 - r (PyTorch's head-tail)",
     "the end of the pack to 2 cp"},
    {CpLayout::contiguous_sequence, "contiguous_sequence", true, false, false,
     "of every sequence, cut in cp chunks: chunk r", "sequences to cp"},
    {CpLayout::dynamic, "dynamic", false, false, false,
     "as zigzag, with a CP size for every microbatch", "sequences to 2 cp of the microbatch"},
});

constexpr const CpLayoutRules& rules_of(CpLayout layout) {
  return kCpLayouts[static_cast<std::size_t>(layout)];
}

constexpr std::string_view name(CpLayout layout) {
  return rules_of(layout).name;
}

/// True if every entry stands at its own place.
constexpr bool layouts_are_in_order() {
  for (std::size_t k = 0; k < kCpLayouts.size(); ++k) {
    if (kCpLayouts[k].layout != static_cast<CpLayout>(k)) return false;
  }
  return true;
}
static_assert(layouts_are_in_order());

}  // namespace lossgrid
