// SPDX-License-Identifier: Apache-2.0
// One compared tensor: collects elements, keeps the worst. A value passes when |got - want| is
// within its bound. A got that is no number never passes; an infinite one passes where the same is
// wanted, or where a finite want has an infinite bound. An infinite want is met by itself alone.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <utility>

namespace lossgrid {

struct ElementPlace {
  std::int64_t rank = 0;
  std::int64_t sequence = -1;
  std::int64_t token = -1;  // row: offset of the predicting token in its sequence
  std::int64_t vocab_id = -1;
};

class Check {
 public:
  explicit Check(std::string name = "") : name_(std::move(name)) {}

  /// Inlined: it is called for every element of a shard.
  void add(double got, double want, double bound, const ElementPlace& place) {
    ++compared_;
    if (got == want) return;  // infinities too
    const double error = got > want ? got - want : want - got;
    constexpr double kInfinity = std::numeric_limits<double>::infinity();
    // Neither beyond nor the worst.
    if (error < kInfinity && error <= (ratio_ < 1 ? ratio_ : 1) * bound) return;
    note(got, want, error, bound, place);
  }

  /// As add(), where the result is a float32: beyond the largest one that number stands for every
  /// result, infinite or not, since rounding to nearest and towards zero differ there.
  void add_float32(double got, double want, double bound, const ElementPlace& place);

  /// Counts elements that are within their bounds, and not worse than the worst so far.
  void add_fine(std::int64_t elements) { compared_ += elements; }

  /// Adds what another rank collected for the same tensor.
  void merge(const Check& other);

  const std::string& name() const { return name_; }
  bool passed() const { return beyond_bound_ == 0; }
  double ratio() const { return ratio_; }  // error / bound of the worst element
  double error() const { return error_; }
  double bound() const { return bound_; }
  std::int64_t compared() const { return compared_; }
  std::int64_t beyond_bound() const { return beyond_bound_; }
  bool has_worst() const { return has_worst_; }
  const ElementPlace& place() const { return place_; }
  double got() const { return got_; }
  double want() const { return want_; }

  /// See harness/core/archive.h.
  template <typename A>
  friend void fields(A& archive, Check& check) {
    archive(check.name_, check.compared_, check.beyond_bound_, check.ratio_, check.error_,
            check.bound_, check.has_worst_, check.place_, check.got_, check.want_);
  }

 private:
  void note(double got, double want, double error, double bound, const ElementPlace& place);

  std::string name_;
  std::int64_t compared_ = 0;
  std::int64_t beyond_bound_ = 0;
  double ratio_ = 0;
  double error_ = 0;
  double bound_ = 0;
  bool has_worst_ = false;
  ElementPlace place_;
  double got_ = 0;
  double want_ = 0;
};

}  // namespace lossgrid
