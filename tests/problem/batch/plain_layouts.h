// SPDX-License-Identifier: Apache-2.0
// Layouts of a padded pack, recomputed plainly from docs/concepts.md and from the formulas of
// frameworks: padding by counting up to a multiple, places of rows by one division for each row.
// The judge and the implementations share harness/problem/batch, and so agree where it is wrong.
// Nothing here calls it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

namespace lossgrid::plain {

using Ints = std::vector<std::int64_t>;
using RankRows = std::vector<Ints>;  // [cp][T / cp] padded positions in the order of the rank

/// Rows of the sequence that begins at `begin`, given to ranks in 2 cp chunks: the chunks q and
/// 2 cp - 1 - q are of one rank, which has the lower one first. `slot` is the place of the
/// sequence's first row on every rank.
inline void give_twice(std::int64_t begin, std::int64_t length, std::int64_t slot, RankRows& rows) {
  const auto cp = static_cast<std::int64_t>(rows.size());
  for (std::int64_t o = 0; o < length; ++o) {
    if (cp == 1) {
      rows[0][slot + o] = begin + o;
      continue;
    }
    const std::int64_t h = length / (2 * cp);
    const std::int64_t q = o / h;
    if (q < cp) {
      rows[q][slot + o % h] = begin + o;
    } else {
      rows[2 * cp - 1 - q][slot + h + o % h] = begin + o;
    }
  }
}

/// The same in cp chunks: chunk q is of rank q.
inline void give_once(std::int64_t begin, std::int64_t length, std::int64_t slot, RankRows& rows) {
  const auto cp = static_cast<std::int64_t>(rows.size());
  for (std::int64_t o = 0; o < length; ++o) {
    const std::int64_t h = length / cp;
    rows[o / h][slot + o % h] = begin + o;
  }
}

/// A layout as the table of docs/concepts.md has it.
struct Layout {
  std::string name;
  int chunks;         // of a rank, where there are several ranks
  bool is_of_pack;    // the pack is cut, not every sequence
  bool pads_the_end;  // pads stand at the end of the pack alone
  /// Gives the rows of what is cut to the ranks.
  void (*give)(std::int64_t begin, std::int64_t length, std::int64_t slot, RankRows& rows);
};

/// All but `dynamic`, whose packs have the layout zigzag.
inline const std::vector<Layout>& layouts() {
  static const std::vector<Layout> all{{"zigzag", 2, false, false, give_twice},
                                       {"contiguous", 1, true, false, give_once},
                                       {"ulysses", 1, true, true, give_once},
                                       {"zigzag_row", 2, true, true, give_twice},
                                       {"contiguous_sequence", 1, false, false, give_once}};
  return all;
}

inline const Layout& layout_of(const std::string& name) {
  return *std::find_if(layouts().begin(), layouts().end(),
                       [&](const Layout& layout) { return layout.name == name; });
}

/// Multiples of a layout: of every sequence, or of the end of the pack alone.
struct Multiples {
  std::int64_t of_sequence = 1;
  std::int64_t of_pack = 1;
};

/// Returns the multiples for cp ranks and, with sequence parallelism, tp parts of each; "2 cp (if
/// cp > 1), times tp".
inline Multiples multiples(const std::string& name, int cp, int tp_parts) {
  const Layout& layout = layout_of(name);
  const std::int64_t multiple = (cp > 1 ? layout.chunks * cp : 1) * std::int64_t{tp_parts};
  return {layout.pads_the_end ? 1 : multiple, multiple};
}

/// Returns the offsets of the padded sequences: each is padded to multiples of the grid and of the
/// case, and the last one absorbs what the pack needs.
inline Ints padded_offsets(const Ints& lengths, const Multiples& grid, std::int64_t pad_multiple,
                           std::int64_t bin_multiple) {
  Ints offsets{0};
  for (std::int64_t length : lengths) {
    while (length % grid.of_sequence != 0 || length % pad_multiple != 0) ++length;
    offsets.push_back(offsets.back() + length);
  }
  std::int64_t& end = offsets.back();
  while (end % bin_multiple != 0 || end % grid.of_pack != 0 || end % grid.of_sequence != 0 ||
         end % pad_multiple != 0) {
    ++end;
  }
  return offsets;
}

/// Returns the rows of every CP rank.
inline RankRows rows_of_ranks(const std::string& name, int cp, const Ints& offsets) {
  const Layout& layout = layout_of(name);
  RankRows rows(static_cast<std::size_t>(cp), Ints(offsets.back() / cp, -1));
  if (layout.is_of_pack) {
    layout.give(0, offsets.back(), 0, rows);
    return rows;
  }
  for (std::size_t i = 0; i + 1 < offsets.size(); ++i) {
    layout.give(offsets[i], offsets[i + 1] - offsets[i], offsets[i] / cp, rows);
  }
  return rows;
}

/// Returns the columns of every TP rank: id v is column v mod W of rank v / W, W = ceil(V / tp).
/// Columns behind the last id are padding, -1.
inline RankRows columns_of_ranks(std::int64_t vocab, int tp) {
  std::int64_t width = 0;
  while (width * tp < vocab) ++width;
  RankRows columns(static_cast<std::size_t>(tp), Ints(static_cast<std::size_t>(width), -1));
  for (std::int64_t v = 0; v < vocab; ++v) columns[v / width][v % width] = v;
  return columns;
}

}  // namespace lossgrid::plain
