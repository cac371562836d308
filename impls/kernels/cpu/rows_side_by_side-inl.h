// SPDX-License-Identifier: Apache-2.0
// Rows that are computed side by side: steps of the rows alternate, so that the processor reads
// several streams of memory and has arithmetic to do while one stream waits. Every row has the same
// bits as if computed alone. A row whose shift rises in a block repeats that block alone.
#if defined(LOSSGRID_ROWS_SIDE_BY_SIDE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef LOSSGRID_ROWS_SIDE_BY_SIDE_INL_H_
#undef LOSSGRID_ROWS_SIDE_BY_SIDE_INL_H_
#else
#define LOSSGRID_ROWS_SIDE_BY_SIDE_INL_H_
#endif

#include <array>

#include "impls/kernels/cpu/row_statistics-inl.h"

HWY_BEFORE_NAMESPACE();
namespace lossgrid {
namespace HWY_NAMESPACE {

// Chosen by the number of registers; 1: one row after the other.
inline constexpr std::size_t kRowsSideBySide = HWY_TARGET <= HWY_AVX3 ? 4 : 1;
inline constexpr std::size_t kRowsOfAll = HWY_TARGET <= HWY_AVX3 ? 2 : 1;

/// Blocks of rows at the same columns.
template <std::size_t kRows, typename T>
struct BlocksSideBySide {
  const T* x[kRows];
  float by[kRows];        // fl(shift L)
  const T* ahead[kRows];  // addresses to prefetch
};

/// Sets `sums` to the bits of sum_block<true>.
template <std::size_t kRows, typename T>
HWY_INLINE void sum_blocks(const BlocksSideBySide<kRows, T>& rows, std::int64_t count,
                           float (&sums)[kRows]) {
  const Floats d;
  FloatVector lanes[kRows][kVectors];
  each_index<kRows>([&](auto r) LOSSGRID_INLINED {
    each_vector([&](auto k) LOSSGRID_INLINED { lanes[r][k] = hn::Zero(d); });
  });
  for (std::int64_t i = 0; i < count; i += kLanes) {
    each_index<kRows>([&](auto r) LOSSGRID_INLINED {
      const FloatVector shift = hn::Set(d, rows.by[r]);
      FloatVector values[kVectors];
      prefetch_lanes(rows.ahead[r] + i, 0);
      load_lanes(rows.x[r] + i, values);
      each_vector([&](auto k) LOSSGRID_INLINED {
        add_exp2(distance<true>(values[k], shift), lanes[r][k]);
      });
    });
  }
  each_index<kRows>([&](auto r) LOSSGRID_INLINED { sums[r] = tree_sum(lanes[r]); });
}

/// Sets `all` to the bits of all_of_block<true, true>.
template <std::size_t kRows, typename T>
HWY_INLINE void all_of_blocks(const BlocksSideBySide<kRows, T>& rows, std::int64_t count,
                              AllOfBlock (&all)[kRows]) {
  const Floats d;
  FloatVector sums[kRows][kVectors];
  FloatVector weighted[kRows][kVectors];
  FloatVector min[kRows];
  FloatVector max[kRows];
  each_index<kRows>([&](auto r) LOSSGRID_INLINED {
    each_vector([&](auto k) LOSSGRID_INLINED { sums[r][k] = weighted[r][k] = hn::Zero(d); });
    min[r] = hn::Set(d, std::numeric_limits<float>::infinity());
    max[r] = hn::Neg(min[r]);
  });
  for (std::int64_t i = 0; i < count; i += kLanes) {
    each_index<kRows>([&](auto r) LOSSGRID_INLINED {
      const FloatVector shift = hn::Set(d, rows.by[r]);
      FloatVector values[kVectors];
      prefetch_lanes(rows.ahead[r] + i, 0);
      load_lanes(rows.x[r] + i, values);
      each_vector([&](auto k) LOSSGRID_INLINED {
        max[r] = hn::Max(max[r], values[k]);
        min[r] = hn::Min(min[r], values[k]);
        const FloatVector t = distance<true>(values[k], shift);
        const FloatVector power = add_exp2(t, sums[r][k]);
        weighted[r][k] = hn::MulAdd(power, t, weighted[r][k]);
      });
    });
  }
  each_index<kRows>([&](auto r) LOSSGRID_INLINED {
    all[r] = {tree_sum(sums[r]), tree_sum(weighted[r]), hn::GetLane(hn::MinOfLanes(d, min[r])),
              hn::GetLane(hn::MaxOfLanes(d, max[r]))};
  });
}

/// Writes the bits of scaled_block<true, kStream> for every row.
template <bool kStream, std::size_t kRows, typename T>
HWY_INLINE void scaled_blocks(const BlocksSideBySide<kRows, T>& rows, std::int64_t count,
                              const std::array<float, kRows>& factors,
                              const std::array<T*, kRows>& out) {
  const Floats d;
  FloatVector shifts[kRows];
  ScaledExp2 scaled_exp2[kRows];
  each_index<kRows>([&](auto r) LOSSGRID_INLINED {
    shifts[r] = hn::Set(d, rows.by[r]);
    scaled_exp2[r] = ScaledExp2(factors[r]);
  });
  for (std::int64_t i = 0; i < count; i += kLanes) {
    each_index<kRows>([&](auto r) LOSSGRID_INLINED {
      FloatVector values[kVectors];
      prefetch_lanes(rows.ahead[r] + i, 0);
      load_lanes(rows.x[r] + i, values);
      for (FloatVector& value : values) value = scaled_exp2[r](distance<true>(value, shifts[r]));
      store_lanes<kStream>(values, out[r] + i);
    });
  }
}

/// Rows of equal length that are computed side by side, and the rows of the next batch.
template <std::size_t kRows, typename T>
struct RowsSideBySide {
  std::array<const T*, kRows> x;
  std::array<const T*, kRows> following;

  /// Returns the address `ahead` elements after `begin` in row r, or in the next row if that is
  /// beyond the end.
  const T* ahead(std::size_t r, std::int64_t begin, std::int64_t columns,
                 std::int64_t ahead) const {
    const std::int64_t at = begin + ahead;
    return at < columns ? x[r] + at : following[r] + (at - columns);
  }
};

/// Running sums of rows that are computed side by side.
template <std::size_t kRows, typename T>
class RunningRows {
 public:
  RunningRows(const RowsSideBySide<kRows, T>& rows, std::int64_t columns, std::int64_t ahead)
      : rows_(rows), columns_(columns), ahead_(ahead) {
    for (std::size_t r = 0; r < kRows; ++r) {
      running[r].sums.exponent = Exponent(first_shift(rows.x[r], columns));
    }
  }

  /// False if a row has no shift yet, or a shift that takes two operations.
  bool are_ordinary() const {
    return std::all_of(running.begin(), running.end(), [](const RunningAll& row) {
      return row.sums.exponent.fused && !row.sums.knows_nothing();
    });
  }

  BlocksSideBySide<kRows, T> blocks(std::int64_t begin) const {
    BlocksSideBySide<kRows, T> blocks;
    for (std::size_t r = 0; r < kRows; ++r) {
      blocks.x[r] = rows_.x[r] + begin;
      blocks.by[r] = running[r].sums.exponent.scaled;
      blocks.ahead[r] = rows_.ahead(r, begin, columns_, ahead_);
    }
    return blocks;
  }

  std::array<RunningAll, kRows> running;

 private:
  const RowsSideBySide<kRows, T>& rows_;
  std::int64_t columns_;
  std::int64_t ahead_;
};

/// Sets `sums` to the bits of sums_of_row.
template <std::size_t kRows, typename T>
HWY_INLINE void sums_of_rows(const RowsSideBySide<kRows, T>& rows, std::int64_t columns,
                             std::int64_t ahead, std::array<RowSums, kRows>& sums) {
  RunningRows<kRows, T> of_rows(rows, columns, ahead);
  for (std::int64_t begin = 0; begin < columns; begin += kBlockSize) {
    const std::int64_t count = std::min(kBlockSize, columns - begin);
    const std::int64_t whole = count / kLanes * kLanes;
    const bool ordinary = of_rows.are_ordinary();
    float of_lanes[kRows];
    if (HWY_LIKELY(ordinary)) sum_blocks(of_rows.blocks(begin), whole, of_lanes);
    for (std::size_t r = 0; r < kRows; ++r) {
      const T* x = rows.x[r] + begin;
      RunningSums& running = of_rows.running[r].sums;
      if (HWY_LIKELY(ordinary)) {
        const float tail = sum_of_tail(x + whole, count - whole, running.exponent);
        add_sum(x, count, of_lanes[r] + tail, running);
      } else {
        add_block(x, count, ahead, running);
      }
    }
  }
  for (std::size_t r = 0; r < kRows; ++r) sums[r] = finish_row(of_rows.running[r].sums, 0);
}

/// Sets `sums` to the bits of all_sums_of_row.
template <std::size_t kRows, typename T>
HWY_INLINE void all_sums_of_rows(const RowsSideBySide<kRows, T>& rows, std::int64_t columns,
                                 std::int64_t ahead, std::array<RowSums, kRows>& sums) {
  RunningRows<kRows, T> of_rows(rows, columns, ahead);
  for (std::int64_t begin = 0; begin < columns; begin += kBlockSize) {
    const std::int64_t count = std::min(kBlockSize, columns - begin);
    const bool ordinary = of_rows.are_ordinary();
    AllOfBlock of_lanes[kRows];
    if (HWY_LIKELY(ordinary)) {
      all_of_blocks(of_rows.blocks(begin), count / kLanes * kLanes, of_lanes);
    }
    for (std::size_t r = 0; r < kRows; ++r) {
      const T* x = rows.x[r] + begin;
      RunningAll& running = of_rows.running[r];
      const Exponent& exponent = running.sums.exponent;
      const AllOfBlock block = HWY_LIKELY(ordinary) ? completed(x, count, exponent, of_lanes[r])
                                                    : all_of(x, count, exponent, ahead);
      add_all(x, count, block, running);
    }
  }
  for (std::size_t r = 0; r < kRows; ++r) sums[r] = finish_all(of_rows.running[r]);
}

}  // namespace HWY_NAMESPACE
}  // namespace lossgrid
HWY_AFTER_NAMESPACE();

#endif
