// SPDX-License-Identifier: Apache-2.0
#include "harness/verify/truth/divergence_tail.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "harness/verify/truth/divergence_summands.h"

namespace lossgrid {

bool TailTruth::has_gradient() const {
  return log_p >= kLogSmallestTail;
}

bool TailTruth::straddles(int serial_adds) const {
  return std::abs(log_p - kLogSmallestTail) <= p_error.at(serial_adds);
}

double TailTruth::log_ratio() const {
  return std::max(log_p, kLogSmallestTail) - log_q;
}

TailTruth tail_of(const DivergenceTruth& truth, const DistilledLogits& logits) {
  constexpr int kManyAdds = 4096;  // q' may be less by the error of so many
  TailTruth tail;
  double p = 0;
  double sent = 0;
  ChainBound sent_error{kU4, 0};
  for (std::size_t v = 0; v < logits.student.size(); ++v) {
    if (logits.teacher[v] == -std::numeric_limits<double>::infinity()) {
      const double of_id = std::exp(truth.p.log_p(logits.student[v]));
      p += of_id;
      tail.p_error.add(of_id, truth.p.error(logits.student[v], logits.student_errors[v]));
      continue;
    }
    const double q = std::exp(logits.teacher[v]);
    sent += q;
    sent_error.fixed += q * (kU4 * (8 + std::abs(logits.teacher[v])) + logits.teacher_errors[v]);
    sent_error.per_add += q * unit_roundoff(DType::f32);
  }
  tail.log_p = std::log(p);
  if (p > 0) {
    tail.p_error = {tail.p_error.fixed / p + kU4 * (4 + std::abs(tail.log_p)),
                    tail.p_error.per_add / p};
  }
  const double q = std::max(1 - sent, Divergence::kSmallestTail);
  const double least = std::max(q - sent_error.at(kManyAdds), Divergence::kSmallestTail);
  tail.log_q = std::log(q);
  tail.q_error.add(1 / least, sent_error);
  tail.q_error.fixed += kU4 * (2 + std::abs(tail.log_q));
  tail.mass = tail.has_gradient() ? sent + q : sent;
  tail.mass_error = sent_error;
  if (tail.has_gradient()) tail.mass_error.add(1, sent_error);
  return tail;
}

}  // namespace lossgrid
