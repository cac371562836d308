// SPDX-License-Identifier: Apache-2.0
// Moments: the online softmax (Milakov and Gimelshein, "Online normalizer calculation for softmax",
// 2018): sums over some elements of a row relative to their running maximum, and their merge.
#pragma once

#include <type_traits>

#include "impls/kernels/cuda/row_vectors.h"

namespace lossgrid {

/// Returns the sum of the elements of x, whose number is a power of 2, as a tree in x.
template <int kCount>
LOSSGRID_KERNEL float tree_sum(float (&x)[kCount]) {
  for (int width = kCount / 2; width > 0; width /= 2) {
    for (int k = 0; k < width; ++k) x[k] += x[k + width];
  }
  return x[0];
}

/// Sums of some elements; with kAll also the terms of the entropy and the smallest logit other than
/// -inf.
template <bool kAll>
struct Moments {
  float max;       // running maximum; -inf: all elements so far are -inf, and sums are 0
  float sum;       // of exp(x - max)
  float weighted;  // of exp(x - max) (x - max)
  float min;

  LOSSGRID_KERNEL static Moments none() { return {-infinity(), 0.0f, 0.0f, infinity()}; }

  /// Makes the sums relative to `to`, which is at least `max`.
  LOSSGRID_KERNEL void raise_max(float to) {
    if (sum > 0) {  // else the distance may be infinite
      const float distance = max - to;
      const float scale = exp_of(distance);
      // If the scale is 0, distance * sum may be infinite.
      if (kAll) weighted = scale > 0 ? scale * (weighted + distance * sum) : 0.0f;
      sum *= scale;
    }
    max = to;
  }

  LOSSGRID_KERNEL void add(Moments other) {
    const float to = larger(max, other.max);
    raise_max(to);
    other.raise_max(to);
    sum += other.sum;
    if (!kAll) return;
    weighted += other.weighted;
    min = smaller(min, other.min);
  }

  /// Adds the elements of a turn at once, with one change of the maximum, and sums by a tree.
  template <int kCount, typename T>
  LOSSGRID_KERNEL void add_elements(const T (&x)[kCount]) {
    float most = to_float(x[0]);
    float least = most;
    for (int k = 1; k < kCount; ++k) {
      most = larger(most, to_float(x[k]));
      if (kAll) least = smaller(least, to_float(x[k]));
    }
    if (most == -infinity()) return;
    if (most > max) raise_max(most);
    // Distances in float64 may be infinite where distances of the rounded float32 are finite.
    const bool may_be_infinite = std::is_same_v<T, double> || least - max == -infinity();
    if (kAll && may_be_infinite) {
      for (int k = 0; k < kCount; ++k) {
        const float value = to_float(x[k]);  // -inf only for -inf
        if (value != -infinity()) min = smaller(min, value);
      }
      add_terms<true>(x);
    } else {
      if (kAll) min = smaller(min, least);
      add_terms<false>(x);
    }
  }

 private:
  /// Adds the terms of elements relative to `max`. If an exponential is 0, an infinite distance
  /// does not count.
  template <bool kMayBeInfinite, int kCount, typename T>
  LOSSGRID_KERNEL void add_terms(const T (&x)[kCount]) {
    float terms[kCount];
    float weighted_terms[kCount];
    for (int k = 0; k < kCount; ++k) {
      const float distance = distance_to_shift(x[k], max);
      terms[k] = exp_of(distance);
      if (!kAll) continue;
      weighted_terms[k] = kMayBeInfinite && !(terms[k] > 0) ? 0.0f : terms[k] * distance;
    }
    sum += tree_sum<kCount>(terms);
    if constexpr (kAll) weighted += tree_sum<kCount>(weighted_terms);
  }
};

/// Calls add(array, column) for one thread's elements of a row, once per turn; column(k) returns
/// the column of array[k]. load(v) returns vector v.
template <typename T, typename Load, typename Add>
LOSSGRID_KERNEL void add_elements_of_thread(const T* row, std::int64_t columns, int thread,
                                            int threads, Load&& load, Add&& add) {
  const std::int64_t vectors = whole_vectors<T>(columns);
  std::int64_t v = thread;
  for (; v + (kVectorsATurn - 1) * threads < vectors; v += kVectorsATurn * threads) {
    Vector<T> loaded[kVectorsATurn];
    for (int k = 0; k < kVectorsATurn; ++k) loaded[k] = load(v + k * threads);
    T x[kTurnSize<T>];
    for (int k = 0; k < kTurnSize<T>; ++k) {
      x[k] = loaded[k / kVectorSize<T>].items[k % kVectorSize<T>];
    }
    add(x, [&](int k) {
      return (v + k / kVectorSize<T> * threads) * kVectorSize<T> + k % kVectorSize<T>;
    });
  }
  for (; v < vectors; v += threads) {
    add(load(v).items, [&](int k) { return v * kVectorSize<T> + k; });
  }
  for (std::int64_t k = vectors * kVectorSize<T> + thread; k < columns; k += threads) {
    const T x[1] = {as_loaded(load, load_element(row, k), k)};
    add(x, [&](int) { return k; });
  }
}

/// Returns the moments of one thread's elements of a row. load(v) returns vector v.
template <bool kAll, typename T, typename Load>
LOSSGRID_KERNEL Moments<kAll> moments_of_thread(const T* row, std::int64_t columns, int thread,
                                                int threads, Load&& load) {
  Moments<kAll> own = Moments<kAll>::none();
  add_elements_of_thread(row, columns, thread, threads, load,
                         [&](const auto& x, const auto&) { own.add_elements(x); });
  return own;
}

}  // namespace lossgrid
