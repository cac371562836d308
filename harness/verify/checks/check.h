// SPDX-License-Identifier: Apache-2.0
// `Check`: the comparison of one tensor, which counts elements and keeps the worst element. A value
// passes if |got - want| is within its bound. A NaN never passes. An infinite `got` passes if
// `want` is the same infinity, or is finite with an infinite bound. An infinite `want` accepts only
// the same infinity.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <utility>

namespace lossgrid {

struct ElementPlace {
  std::int64_t rank = 0;
  std::int64_t sequence = -1;
  std::int64_t token = -1;  // offset of the predicting token in its sequence
  std::int64_t vocab_id = -1;
};

class Check {
 public:
  explicit Check(std::string name = "") : name_(std::move(name)) {}

  /// Compares one element. Inlined, as it is called for every element of a shard.
  void add(double got, double want, double bound, const ElementPlace& place) {
    ++compared_;
    if (got == want) return;  // equal infinities too
    const double error = got > want ? got - want : want - got;
    constexpr double kInfinity = std::numeric_limits<double>::infinity();
    // Within the bound, and not worse than the worst element so far.
    if (error < kInfinity && error <= (ratio_ < 1 ? ratio_ : 1) * bound) return;
    note(got, want, error, bound, place);
  }

  /// Compares a float32 result. Every number beyond the largest float32, infinite or not, is
  /// replaced by the largest float32, because rounding to nearest and rounding towards zero differ
  /// there.
  void add_float32(double got, double want, double bound, const ElementPlace& place);

  /// Counts elements that are known to be within their bounds and no worse than the worst element
  /// so far.
  void add_fine(std::int64_t elements) { compared_ += elements; }

  /// Adds the elements of the same tensor that another rank compared.
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
