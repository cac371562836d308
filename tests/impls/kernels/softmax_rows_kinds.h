// SPDX-License-Identifier: Apache-2.0
// Fixture of the tests of row kernels: rows of all kinds, memory for their statistics, and the same
// statistics in double.
#pragma once

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <vector>

#include "harness/core/philox.h"
#include "impls/kernels/rows.h"

namespace lossgrid {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();

/// Backend of the kernels under test.
Device*& device_of_test() {
  static Device* device = nullptr;
  return device;
}

/// Size of the first columns of a row relative to the others.
enum class Kind {
  ordinary,
  late_max,
  masked_first,
  finite_mask_first,
  all_masked_but_last,
  offset,
  large_offset,
  huge,
  vanishing,
  denormal,
  rising,
  mixed,  // every row of another kind
};
constexpr Kind kKinds[] = {Kind::ordinary,
                           Kind::late_max,
                           Kind::masked_first,
                           Kind::finite_mask_first,
                           Kind::all_masked_but_last,
                           Kind::offset,
                           Kind::large_offset,
                           Kind::huge,
                           Kind::vanishing,
                           Kind::denormal,
                           Kind::rising,
                           Kind::mixed};

template <typename T>
struct Rows {
  Rows(Kind kind, std::int64_t vocab, std::int64_t count, std::int64_t misalignment = 0)
      : storage(static_cast<std::size_t>(vocab * count + misalignment + 64)) {
    auto* base =
        reinterpret_cast<T*>((reinterpret_cast<std::uintptr_t>(storage.data()) + 63) / 64 * 64) +
        misalignment;
    const RandomStream random(7, static_cast<std::uint32_t>(kind));
    for (std::int64_t r = 0; r < count; ++r) {
      const Kind of_row = kind == Kind::mixed ? mixed_kind(r) : kind;
      for (std::int64_t v = 0; v < vocab; ++v) {
        const auto i = static_cast<std::uint64_t>(r * vocab + v);
        base[i] = T(value(of_row, v, vocab, static_cast<float>(6 * random.uniform(i) - 3)));
      }
      targets.push_back(static_cast<std::int32_t>((r * 7919) % vocab));
      valid.push_back(1);
    }
    if (count > 2) targets[1] = -1;
    if (kind == Kind::all_masked_but_last) targets[0] = static_cast<std::int32_t>(vocab - 1);
    view = {DTypeOf<T>::value, base,         count,           vocab_shard(vocab, 1, 0),
            targets.data(),    valid.data(), device_of_test()};
  }

  /// Returns the kind of a row among others: all but large_offset, which bf16 does not hold.
  static Kind mixed_kind(std::int64_t r) {
    constexpr Kind kMixed[] = {Kind::ordinary,     Kind::late_max,          Kind::rising,
                               Kind::masked_first, Kind::vanishing,         Kind::ordinary,
                               Kind::offset,       Kind::finite_mask_first, Kind::ordinary,
                               Kind::huge,         Kind::denormal};
    return kMixed[static_cast<std::size_t>(r) % std::size(kMixed)];
  }

  static float value(Kind kind, std::int64_t v, std::int64_t vocab, float x) {
    switch (kind) {
      case Kind::late_max:
        return v < vocab / 2 ? x - 50 : x;
      case Kind::masked_first:
        return v < vocab / 2 ? -kInf : x;
      case Kind::finite_mask_first:
        return v < vocab / 2 ? -1e30f : x;
      case Kind::all_masked_but_last:
        return v < vocab - 1 ? -kInf : x;
      case Kind::offset:
        return x + 1e4f;
      case Kind::large_offset:
        return -3e6f + 2 * x;
      case Kind::huge:
        return 1e36f * x;
      case Kind::vanishing:
        return v % 2 == 1 ? x - 95 : x;
      case Kind::denormal:
        return 1e-39f * x;
      case Kind::rising:
        return x + 30.0f * static_cast<float>(v / 700);
      default:
        return x;
    }
  }

  double at(std::int64_t r, std::int64_t v) const {
    return static_cast<double>(static_cast<const T*>(view.data)[r * view.shard.width + v]);
  }

  std::vector<T> storage;
  std::vector<std::int32_t> targets;
  std::vector<std::uint8_t> valid;
  LogitsRows view;
};

struct Statistics {
  explicit Statistics(std::int64_t rows)
      : shift(size(rows)),
        sum(size(rows)),
        target(size(rows)),
        weighted(size(rows)),
        min(size(rows)) {}
  static std::size_t size(std::int64_t rows) { return static_cast<std::size_t>(rows); }
  RowStatistics some() { return {shift.data(), sum.data(), target.data()}; }
  RowStatistics all() {
    return {shift.data(), sum.data(), target.data(), weighted.data(), min.data()};
  }
  std::vector<float> shift, sum, target, weighted, min;
};

/// Statistics of a row in double.
struct ExactRow {
  double max = -kInf;
  double min = kInf;
  double sum = 0;     // of exp(x - max)
  double spread = 0;  // sum p |x - max|

  template <typename T>
  ExactRow(const Rows<T>& rows, std::int64_t r) {
    const std::int64_t vocab = rows.view.shard.width;
    for (std::int64_t v = 0; v < vocab; ++v) {
      max = std::max(max, rows.at(r, v));
      if (rows.at(r, v) > -kInf) min = std::min(min, rows.at(r, v));
    }
    for (std::int64_t v = 0; v < vocab; ++v) {
      const double e = std::exp(rows.at(r, v) - max);
      sum += e;
      if (e > 0) spread += e * (max - rows.at(r, v));
    }
    spread /= sum;
  }
};

}  // namespace
}  // namespace lossgrid
