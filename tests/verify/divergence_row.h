// SPDX-License-Identifier: Apache-2.0
// Rows and their teachers for tests of the truth of divergences and of its bounds, and all
// divergences that there are.
#pragma once

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include <fmt/core.h>
#include <gtest/gtest.h>

#include "divergence_emulation.h"
#include "harness/core/philox.h"
#include "harness/verify/truth/divergence_truth.h"

namespace lossgrid {
namespace divergence_rows {

using Kind = Divergence::Kind;
using Topk = Divergence::Topk;

inline constexpr double kDivergenceRoundoff = 0x1p-24;
inline constexpr double kDivergenceInf = std::numeric_limits<double>::infinity();
inline constexpr double kDivergenceNaN = std::numeric_limits<double>::quiet_NaN();
inline constexpr double kTiny = std::numeric_limits<float>::min();
inline const double kLn2 = std::log(2.0);

/// A row in float64 with its truth. `errors`: of the student's logits, then of the teacher's.
struct TrueRow {
  std::vector<double> student;
  std::vector<double> teacher;
  std::vector<double> errors[2];
  DivergenceTruth truth;

  TrueRow(const Divergence& divergence, std::vector<double> of_student,
          std::vector<double> of_teacher, std::vector<double> student_errors = {},
          std::vector<double> teacher_errors = {}, bool allows_offset = false)
      : student(std::move(of_student)),
        teacher(std::move(of_teacher)),
        errors{std::move(student_errors), std::move(teacher_errors)} {
    for (std::vector<double>& of_logits : errors) of_logits.resize(student.size());
    truth = divergence_truth(divergence, {student, teacher, errors[0], errors[1]}, allows_offset);
  }

  DivergenceColumn column(std::size_t v, const Enclosure& gradient = 1,
                          int serial_adds = 12) const {
    return divergence_column(truth, gradient, serial_adds, student[v], teacher[v], errors[0][v],
                             errors[1][v]);
  }

  void expect(double value, const std::vector<double>& gradient) const {
    EXPECT_NEAR(truth.value, value, 1e-15);
    EXPECT_TRUE(truth.has_gradient());
    for (std::size_t v = 0; v < gradient.size(); ++v) {
      EXPECT_NEAR(column(v).want, gradient[v], 1e-15) << v;
      EXPECT_NEAR(column(v, -0.5).want, -0.5 * gradient[v], 1e-15) << v;
    }
  }
};

/// p = (1/2, 1/4, 1/4) and q = (1/4, 1/4, 1/2).
inline const std::vector<double> kStudent{kLn2, 0, 0};
inline const std::vector<double> kTeacher{5, 5, 5 + kLn2};

/// p = (1/2, 1/4, 1/4); the teacher has sent q = (1/8, 0, 1/2), 3/8 less than all.
inline const std::vector<double> kSentLogprobs{-3 * kLn2, -kDivergenceInf, -kLn2};

/// All kinds by all conventions that they have.
inline std::vector<Divergence> all_divergences() {
  std::vector<Divergence> all{{Kind::reverse, 0.5, Topk::zero_outside},
                              {Kind::mixed, 0.3, Topk::zero_outside}};
  for (const Topk topk : {Topk::whole, Topk::renormalized}) {
    all.push_back({Kind::forward, 0.5, topk});
    all.push_back({Kind::reverse, 0.5, topk});
    all.push_back({Kind::mixed, 0.3, topk});
    for (const double b : {0.1, 0.5, 0.9}) all.push_back({Kind::jsd, b, topk});
  }
  return all;
}

inline std::string text(const Divergence& divergence) {
  return fmt::format("kind {}, b {}, convention {}", static_cast<int>(divergence.kind),
                     divergence.beta, static_cast<int>(divergence.topk));
}

/// Makes all but the k largest -inf.
template <typename T>
void keep_largest(std::size_t k, std::vector<T>& logits) {
  std::vector<T> sorted = logits;
  std::sort(sorted.begin(), sorted.end(), std::greater<T>());
  for (T& x : logits) {
    if (x < sorted[k - 1]) x = -std::numeric_limits<T>::infinity();
  }
}

/// A row of float32 logits of one kind, and of its teacher.
struct RandomRow {
  std::string kind;
  DistilledRow logits;

  bool has_support() const { return logits.teacher != logits.all_of_teacher; }
  std::vector<double> student() const { return wide(logits.student); }
  std::vector<double> teacher() const { return wide(logits.teacher); }

 private:
  static std::vector<double> wide(const std::vector<float>& x) { return {x.begin(), x.end()}; }
};

inline std::vector<RandomRow> random_rows(std::uint64_t seed, std::size_t vocab) {
  const RandomStream random(seed, 0);
  const auto normal = [&](float scale, float offset, std::uint32_t column) {
    std::vector<float> x(vocab);
    for (std::size_t v = 0; v < vocab; ++v) x[v] = offset + scale * random.normal(v, column);
    return x;
  };
  std::vector<RandomRow> rows;
  const auto add = [&](const char* kind, std::vector<float> student, std::vector<float> teacher) {
    rows.push_back({kind, {std::move(student), teacher, teacher}});
  };
  add("normal", normal(1, 0, 0), normal(1, 0, 1));
  add("wide", normal(8, 0, 0), normal(8, 0, 1));
  add("far", normal(1, 1e4f, 0), normal(1, -2e3f, 1));
  add("equal", normal(1, 0, 0), normal(1, 0, 0));
  add("near", normal(1, 0, 0), normal(1, 0, 0));
  for (std::size_t v = 0; v < vocab; ++v)
    rows.back().logits.teacher[v] += 1e-4f * random.normal(v, 2);
  rows.back().logits.all_of_teacher = rows.back().logits.teacher;
  add("certain", normal(1, 0, 0), normal(1, 0, 1));
  rows.back().logits.student[1] += 30;
  add("disjoint", normal(1, 0, 0), normal(1, 0, 1));
  rows.back().logits.student[1] += 40;
  rows.back().logits.teacher[2] += 40;
  rows.back().logits.all_of_teacher = rows.back().logits.teacher;
  add("both masked", normal(2, 0, 0), normal(2, 0, 1));
  for (std::size_t v = 0; v < vocab; v += 2) {
    rows.back().logits.student[v] = rows.back().logits.teacher[v] = emulated::kMinusInfinity;
  }
  rows.back().logits.all_of_teacher = rows.back().logits.teacher;
  add("vanishing", normal(60, 0, 0), normal(60, 0, 1));
  for (const std::size_t k : {std::size_t{1}, std::size_t{3}, vocab}) {
    add("top k", normal(1, 0, 0), normal(1, 0, 1));
    keep_largest(k, rows.back().logits.teacher);
  }
  return rows;
}

/// True if a divergence has a gradient: a reverse one of all ids is infinite on a support.
inline bool suits(const Divergence& divergence, const RandomRow& row) {
  return divergence.topk != Topk::whole || divergence.kind == Kind::forward || !row.has_support();
}

/// All kinds, with a tail.
inline std::vector<Divergence> tail_divergences() {
  return {{Kind::forward, 0.5, Topk::tail},
          {Kind::reverse, 0.5, Topk::tail},
          {Kind::mixed, 0.3, Topk::tail},
          {Kind::jsd, 0.3, Topk::tail}};
}

}  // namespace divergence_rows
}  // namespace lossgrid
