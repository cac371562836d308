// SPDX-License-Identifier: Apache-2.0
// The list of CP layouts: ways to give the rows of a padded pack to CP ranks. Grids, the division
// of rows (harness/problem/batch/sharding.h), padding, `lossgrid list layouts`, docs/concepts.md
// and loaded functions take them from here. `reference` and `lossgrid.layout` divide rows by
// formulas of their own, from the same description.
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
  int rounds;           // chunks of a rank, from rounds x cp of them: the first cp go to the ranks
                        // in order, then the next cp, ...
  bool turns;           // every second round goes from the last rank to the first
  bool pads_end;        // pads stand at the end of the pack alone
  const char* rows;     // of rank r, for a reader
  const char* padded;   // multiples, for a reader
};

/// In the order of CpLayout. Rows of a rank by NeMo-RL `_get_tokens_on_this_cp_rank` and
/// TransformerEngine `thd_partition_src_index` (zigzag), verl's contiguous layout on Megatron
/// (contiguous), the loss of Ulysses in verl, SkyRL and AReaL on FSDP (ulysses), head-tail of
/// torch's context parallelism and Megatron-LM's of rows of one sequence (zigzag_row).
inline constexpr auto kCpLayouts = std::to_array<CpLayoutRules>({
    {CpLayout::zigzag, "zigzag", true, 2, true, false,
     "of every sequence, cut in 2 cp chunks: chunks r and 2 cp - 1 - r", "sequences to 2 cp"},
    {CpLayout::contiguous, "contiguous", false, 1, false, false,
     "of the pack, cut in cp chunks: chunk r (verl's contiguous layout on Megatron)",
     "sequences to cp"},
    {CpLayout::ulysses, "ulysses", false, 1, false, true,
     "of the pack, cut in cp chunks: chunk r (the loss under Ulysses in verl, SkyRL and AReaL on "
     "FSDP)",
     "the end of the pack to cp"},
    {CpLayout::zigzag_row, "zigzag_row", false, 2, true, true,
     "of the pack, cut in 2 cp chunks: chunks r and 2 cp - 1 - r (PyTorch's head-tail)",
     "the end of the pack to 2 cp"},
    {CpLayout::contiguous_sequence, "contiguous_sequence", true, 1, false, false,
     "of every sequence, cut in cp chunks: chunk r", "sequences to cp"},
    {CpLayout::dynamic, "dynamic", false, 1, false, false,
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
