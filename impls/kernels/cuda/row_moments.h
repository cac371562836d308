// SPDX-License-Identifier: Apache-2.0
// The online softmax (Milakov and Gimelshein, "Online normalizer calculation for softmax", 2018):
// sums of some elements of a row relative to the largest of them, and how two such sums become one.
#pragma once

#include "impls/kernels/cuda/row_vectors.h"

namespace lossgrid {

/// With kAll the sums that the entropy is made of and the smallest logit that is not -inf.
template <bool kAll>
struct Moments {
  float shift;     // the largest element; -inf: nothing but -inf, and sums are 0
  float sum;       // of exp(x - shift)
  float weighted;  // of exp(x - shift) (x - shift)
  float min;

  LOSSGRID_KERNEL static Moments none() { return {-infinity(), 0.0f, 0.0f, infinity()}; }

  /// Relative to `to`, which is at least `shift`.
  LOSSGRID_KERNEL void move_shift(float to) {
    if (sum > 0) {  // else the distance may be infinite
      const float distance = shift - to;
      const float scale = exp_of(distance);
      // Where nothing is left of the sum, nothing is left of its distances.
      if (kAll) weighted = scale > 0 ? scale * (weighted + distance * sum) : 0.0f;
      sum *= scale;
    }
    shift = to;
  }

  LOSSGRID_KERNEL void add(Moments other) {
    const float to = larger(shift, other.shift);
    move_shift(to);
    other.move_shift(to);
    sum += other.sum;
    if (!kAll) return;
    weighted += other.weighted;
    min = smaller(min, other.min);
  }

  /// Elements of a turn at once: one change of the shift, and sums by a tree.
  template <int kCount, typename T>
  LOSSGRID_KERNEL void add_elements(const T (&x)[kCount]) {
    float most = to_float(x[0]);
    for (int k = 1; k < kCount; ++k) most = larger(most, to_float(x[k]));
    if (kAll) {
      for (int k = 0; k < kCount; ++k) {
        const float value = to_float(x[k]);  // -inf for -inf alone
        if (value != -infinity()) min = smaller(min, value);
      }
    }
    if (most == -infinity()) return;
    if (most > shift) move_shift(most);
    float terms[kCount];
    float weighted_terms[kAll ? kCount : 1];
    for (int k = 0; k < kCount; ++k) {
      const float distance = distance_to_shift(x[k], shift);
      terms[k] = exp_of(distance);
      // An exponential of 0 takes an infinite distance with it.
      if (kAll) weighted_terms[k] = terms[k] > 0 ? terms[k] * distance : 0.0f;
    }
    sum += tree_sum<kCount>(terms);
    if (kAll) weighted += tree_sum < kAll ? kCount : 1 > (weighted_terms);
  }

 private:
  template <int kCount>
  LOSSGRID_KERNEL static float tree_sum(float (&x)[kCount]) {
    for (int width = kCount / 2; width > 0; width /= 2) {
      for (int k = 0; k < width; ++k) x[k] += x[k + width];
    }
    return x[0];
  }
};

/// Moments of what one thread has of a row. load(v) gives its vector v.
template <bool kAll, typename T, typename Load>
LOSSGRID_KERNEL Moments<kAll> moments_of_thread(const T* row, std::int64_t columns, int thread,
                                                int threads, Load&& load) {
  Moments<kAll> own = Moments<kAll>::none();
  const std::int64_t vectors = whole_vectors<T>(columns);
  std::int64_t v = thread;
  for (; v + (kVectorsATurn - 1) * threads < vectors; v += kVectorsATurn * threads) {
    Vector<T> loaded[kVectorsATurn];
    for (int k = 0; k < kVectorsATurn; ++k) loaded[k] = load(v + k * threads);
    T x[kTurnSize<T>];
    for (int k = 0; k < kTurnSize<T>; ++k) {
      x[k] = loaded[k / kVectorSize<T>].items[k % kVectorSize<T>];
    }
    own.add_elements(x);
  }
  for (; v < vectors; v += threads) own.add_elements(load(v).items);
  for (std::int64_t k = vectors * kVectorSize<T> + thread; k < columns; k += threads) {
    const T x[1] = {row[k]};
    own.add_elements(x);
  }
  return own;
}

}  // namespace lossgrid
