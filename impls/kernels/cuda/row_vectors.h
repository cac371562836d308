// SPDX-License-Identifier: Apache-2.0
// Vectors of 16 bytes, in which the threads of a block share the elements of a row. A thread takes
// several vectors per turn, so that enough loads are in flight; elements after the last whole
// vector are taken one by one. The partition depends on the number of columns only, not on the
// position of the row: a token has the same bits in every pack. If a row is not aligned to 16
// bytes, its vectors are read and written element by element; vectors of bf16 are put together from
// aligned loads. A gradient of the log-probability alone, whose bits are the same for every
// partition, begins at an aligned element if both rows allow this; in other kernels this would cost
// a block on each multiprocessor. All accesses except the read of a target's logit are counted
// (row_traffic.h).
#pragma once

#include <cstdint>
#include <type_traits>

#include "harness/device/kernel/row_traffic.h"
#include "harness/device/kernel/vectors.h"
#include "impls/kernels/kept_columns.h"

namespace lossgrid {

/// Number of elements of a thread in one turn.
template <typename T>
inline constexpr int kTurnSize = kVectorsATurn* kVectorSize<T>;

template <typename T>
LOSSGRID_KERNEL std::int64_t whole_vectors(std::int64_t columns) {
  return columns / kVectorSize<T>;
}

/// Calls f(std::true_type) if the vectors of both the row to read and the row to write can be moved
/// at once, else f(std::false_type). A decision at run time for every load would make loads wait
/// for each other.
template <typename T, typename F>
LOSSGRID_KERNEL void with_alignment(const T* from, const T* to, F&& f) {
  if (is_aligned(from) && is_aligned(to)) {
    f(std::true_type());
  } else {
    f(std::false_type());
  }
}

/// Calls f(aligned, head) like with_alignment, with the number of elements after which vectors of
/// both rows can be moved at once, if it exists.
template <typename T, typename F>
LOSSGRID_KERNEL void with_common_alignment(const T* from, const T* to, F&& f) {
  const int head = elements_to_alignment(to);
  if (!is_aligned(from + head)) {
    f(std::false_type(), std::integral_constant<int, 0>());
  } else if (head == 0) {
    f(std::true_type(), std::integral_constant<int, 0>());
  } else {
    f(std::true_type(), head);
  }
}

/// Returns vector v of a row.
template <typename T>
LOSSGRID_KERNEL Vector<T> load_vector(const T* row, bool aligned, std::int64_t v) {
  count_row_read(kVectorBytes);
  return vector_of(row, aligned, v);
}

template <typename T>
LOSSGRID_KERNEL void store_vector(T* row, bool aligned, std::int64_t v, const Vector<T>& x) {
  count_row_written(kVectorBytes);
  set_vector(row, aligned, v, x);
}

/// Returns element k of a row.
template <typename T>
LOSSGRID_KERNEL T load_element(const T* row, std::int64_t k) {
  count_row_read(sizeof(T));
  return row[k];
}

template <typename T>
LOSSGRID_KERNEL void store_element(T* row, std::int64_t k, T x) {
  count_row_written(sizeof(T));
  row[k] = x;
}

/// Reads the vectors of a row. `Aligned` is a type of with_alignment(), or bool for a decision at
/// run time.
template <typename T, typename Aligned = bool>
class RowVectors {
 public:
  LOSSGRID_KERNEL explicit RowVectors(const T* row) requires std::is_same_v<Aligned, bool>
      : row_(row), aligned_(is_aligned(row)) {}
  LOSSGRID_KERNEL RowVectors(const T* row, Aligned aligned) : row_(row), aligned_(aligned) {}
  LOSSGRID_KERNEL Vector<T> operator()(std::int64_t v) const {
    if (aligned_) return load_vector(row_, true, v);
    count_row_read(kVectorBytes);
    return unaligned_vector(row_, v);
  }

 private:
  const T* row_;
  Aligned aligned_;
};

/// Reads the vectors of a row with kept columns; other columns are read as -inf.
template <typename T>
class KeptVectors {
 public:
  LOSSGRID_KERNEL KeptVectors(const T* row, const KeptColumns& kept) : row_(row), kept_(kept) {}
  LOSSGRID_KERNEL Vector<T> operator()(std::int64_t v) const {
    Vector<T> x = row_(v);
    for (int k = 0; k < kVectorSize<T>; ++k) {
      if (!kept_.keeps(v * kVectorSize<T> + k)) store(-infinity(), x.items[k]);
    }
    return x;
  }
  LOSSGRID_KERNEL T masked(T x, std::int64_t column) const {
    if (!kept_.keeps(column)) store(-infinity(), x);
    return x;
  }

 private:
  RowVectors<T> row_;
  KeptColumns kept_;
};

/// Returns the element `x` of a column as `load` would read it.
template <typename Load, typename T>
LOSSGRID_KERNEL T as_loaded(const Load& /*load*/, T x, std::int64_t /*column*/) {
  return x;
}
template <typename T>
LOSSGRID_KERNEL T as_loaded(const KeptVectors<T>& load, T x, std::int64_t column) {
  return load.masked(x, column);
}

}  // namespace lossgrid
