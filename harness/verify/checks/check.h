// SPDX-License-Identifier: Apache-2.0
// `Check`: the comparison of one tensor, which counts elements and keeps the worst. A value passes
// if |got - want| is within its bound. A NaN never passes. An infinite `got` passes if the same
// infinity is wanted, or if a finite `want` has an infinite bound. For an infinite `want` nothing
// else passes.
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

  /// Compares one element. Inlined: it is called for every element of a shard.
  void add(double got, double want, double bound, const ElementPlace& place) {
    ++compared_;
    if (got == want) return;  // infinities too
    const double error = got > want ? got - want : want - got;
    constexpr double kInfinity = std::numeric_limits<double>::infinity();
    // Within its bound, and not the worst.
    if (error < kInfinity && error <= (ratio_ < 1 ? ratio_ : 1) * bound) return;
    note(got, want, error, bound, place);
  }

  /// Compares a float32 result: beyond the largest float32, that number stands for every result,
  /// infinite or not, since rounding to nearest and towards zero differ there.
  void add_float32(double got, double want, double bound, const ElementPlace& place);

  /// Counts elements that are known to be within their bounds and not worse than the worst so far.
  void add_fine(std::int64_t elements) { compared_ += elements; }

  /// Adds the elements that another rank compared of the same tensor.
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
