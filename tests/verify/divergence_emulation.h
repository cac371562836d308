// SPDX-License-Identifier: Apache-2.0
// Float32 loops over one row and its teacher's, in the natural order: every sum one after the
// other. Bounds of divergences must hold for them; a fault makes them wrong in one way.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include "harness/core/dtype.h"
#include "harness/problem/batch/row_terms.h"

namespace lossgrid {

enum class DivergenceFault {
  none,
  no_centre,           // without R
  swapped,             // p and q
  cross_entropy,       // - sum w ln r in place of sum w (ln w - ln r)
  teacher_of_all_ids,  // not renormalised over the support
  student_of_all_ids,
  rounded_log_sum,  // to bf16
  other_weight,     // 1 - b in place of b
};

/// Ways in which probabilities and mixtures are made.
enum class DivergenceStyle { by_quotients, by_logarithms };

/// A row of float32 logits. `all_of_teacher`: its logits before all but the top k became -inf.
struct DistilledRow {
  std::vector<float> student;
  std::vector<float> teacher;
  std::vector<float> all_of_teacher;
};

struct EmulatedDivergence {
  float value = 0;
  std::vector<float> gradient;
};

namespace emulated {

inline constexpr float kMinusInfinity = -std::numeric_limits<float>::infinity();

struct Distribution {
  std::vector<float> p;
  std::vector<float> log_p;

  /// `kept`: ids whose logit there is -inf have no probability.
  Distribution(const std::vector<float>& x, const std::vector<float>& kept, DivergenceStyle style,
               bool rounds) {
    float max = kMinusInfinity;
    for (std::size_t v = 0; v < x.size(); ++v) {
      if (kept[v] != kMinusInfinity) max = std::max(max, x[v]);
    }
    float sum = 0;
    for (std::size_t v = 0; v < x.size(); ++v) {
      if (kept[v] != kMinusInfinity) sum += std::exp(x[v] - max);
    }
    float log_sum = std::log(sum);
    if (rounds) log_sum = static_cast<float>(static_cast<bf16>(log_sum));
    for (std::size_t v = 0; v < x.size(); ++v) {
      const bool is_kept = kept[v] != kMinusInfinity;
      log_p.push_back(is_kept ? x[v] - max - log_sum : kMinusInfinity);
      const bool by_logarithms = style == DivergenceStyle::by_logarithms || rounds;
      const float probability = by_logarithms ? std::exp(log_p[v]) : std::exp(x[v] - max) / sum;
      // Denormal numbers count as 0, as on many processors.
      const bool vanishes = probability < std::numeric_limits<float>::min();
      p.push_back(!is_kept || vanishes ? 0 : probability);
    }
  }
};

}  // namespace emulated

inline EmulatedDivergence emulate_divergence(const Divergence& divergence, const DistilledRow& row,
                                             float g, DivergenceStyle style,
                                             DivergenceFault fault = DivergenceFault::none) {
  using Kind = Divergence::Kind;
  const auto is = [fault](DivergenceFault other) { return fault == other; };
  const bool rounds = is(DivergenceFault::rounded_log_sum);
  const bool on_support = divergence.on_support() && !is(DivergenceFault::student_of_all_ids);
  const std::vector<float>& teacher =
      is(DivergenceFault::teacher_of_all_ids) ? row.all_of_teacher : row.teacher;
  emulated::Distribution q(teacher, teacher, style, rounds);
  for (std::size_t v = 0; v < teacher.size(); ++v) {
    if (row.teacher[v] != emulated::kMinusInfinity) continue;
    q.p[v] = 0;
    const bool is_floored = divergence.topk == Divergence::Topk::zero_outside;
    q.log_p[v] =
        is_floored ? static_cast<float>(Divergence::kLogOutside) : emulated::kMinusInfinity;
  }
  emulated::Distribution p(row.student, on_support ? row.teacher : row.student, style, rounds);
  if (is(DivergenceFault::swapped)) std::swap(p, q);
  auto b = static_cast<float>(divergence.beta);
  if (is(DivergenceFault::other_weight)) b = 1 - b;
  const auto log_m = [&](std::size_t v) {
    if (style == DivergenceStyle::by_quotients) return std::log(b * q.p[v] + (1 - b) * p.p[v]);
    const float of_q = std::log(b) + q.log_p[v];
    const float of_p = std::log(1 - b) + p.log_p[v];
    const float larger = std::max(of_q, of_p);
    return larger + std::log(std::exp(of_q - larger) + std::exp(of_p - larger));
  };
  const auto summand = [&](float w, float log_w, float log_r) {
    if (w == 0) return 0.0f;
    return is(DivergenceFault::cross_entropy) ? -w * log_r : w * (log_w - log_r);
  };
  const bool is_jsd = divergence.kind == Kind::jsd;
  const bool has_teacher_side = divergence.kind != Kind::reverse;
  const bool has_student_side = divergence.kind != Kind::forward;
  const float of_forward = !has_student_side ? 1 : has_teacher_side ? b : 0;
  float of_teacher = 0;
  float of_student = 0;
  for (std::size_t v = 0; v < row.student.size(); ++v) {
    if (has_teacher_side) {
      of_teacher += summand(q.p[v], q.log_p[v], is_jsd ? log_m(v) : p.log_p[v]);
    }
    if (has_student_side) {
      of_student += summand(p.p[v], p.log_p[v], is_jsd ? log_m(v) : q.log_p[v]);
    }
  }
  EmulatedDivergence out;
  out.value = has_teacher_side && has_student_side ? b * of_teacher + (1 - b) * of_student
                                                   : of_teacher + of_student;
  if (is(DivergenceFault::no_centre)) of_student = 0;
  for (std::size_t v = 0; v < row.student.size(); ++v) {
    float dz = is_jsd ? 0 : of_forward * (p.p[v] - q.p[v]);
    if (has_student_side && p.p[v] > 0) {
      dz +=
          (1 - of_forward) * p.p[v] * (p.log_p[v] - (is_jsd ? log_m(v) : q.log_p[v]) - of_student);
    }
    out.gradient.push_back(row.student[v] == emulated::kMinusInfinity ? 0 : g * dz);
  }
  return out;
}

}  // namespace lossgrid
