// SPDX-License-Identifier: Apache-2.0
// Layouts of a padded pack, recomputed plainly from docs/concepts.md and from the formulas of
// frameworks: padding by counting up to a multiple, places of rows by one division for each row.
// The judge and the implementations share harness/problem/batch, and so agree where it is wrong.
// Nothing here calls it.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace lossgrid::plain {

using Ints = std::vector<std::int64_t>;
using RankRows = std::vector<Ints>;  // [cp][T / cp] padded positions in the order of the rank

/// Multiples of a layout, as the table of docs/concepts.md has them: of every sequence, or of the
/// end of the pack alone.
struct Multiples {
  std::int64_t of_sequence = 1;
  std::int64_t of_pack = 1;
};

/// Returns the multiples for cp ranks and, with sequence parallelism, tp parts of each; "2 cp (if
/// cp > 1), times tp".
inline Multiples multiples(const std::string& layout, int cp, int tp_parts) {
  const std::int64_t once = std::int64_t{cp} * tp_parts;
  const std::int64_t twice = (cp > 1 ? 2 * cp : 1) * std::int64_t{tp_parts};
  if (layout == "zigzag") return {twice, twice};
  if (layout == "zigzag_row") return {1, twice};
  if (layout == "ulysses") return {1, once};
  return {once, once};  // contiguous, contiguous_sequence
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

/// Returns the rows of every CP rank.
inline RankRows rows_of_ranks(const std::string& layout, int cp, const Ints& offsets) {
  RankRows rows(static_cast<std::size_t>(cp), Ints(offsets.back() / cp, -1));
  if (layout == "contiguous" || layout == "ulysses") give_once(0, offsets.back(), 0, rows);
  if (layout == "zigzag_row") give_twice(0, offsets.back(), 0, rows);
  for (std::size_t i = 0; i + 1 < offsets.size(); ++i) {
    const std::int64_t begin = offsets[i];
    const std::int64_t length = offsets[i + 1] - begin;
    if (layout == "zigzag") give_twice(begin, length, begin / cp, rows);
    if (layout == "contiguous_sequence") give_once(begin, length, begin / cp, rows);
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
