// SPDX-License-Identifier: Apache-2.0
#include "harness/problem/values/logprob_logits.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "harness/core/dtype.h"

namespace lossgrid {
namespace {

/// Returns ln sum exp x; 0 where that is no number to take off.
double log_sum_of(const std::vector<double>& x) {
  const double max = *std::max_element(x.begin(), x.end());
  if (!std::isfinite(max)) return 0;
  double sum = 0;
  for (const double logit : x) sum += std::exp(logit - max);
  return max + std::log(sum);
}

class Logprobs final : public LogitsSource {
 public:
  Logprobs(std::shared_ptr<const LogitsSource> source, std::int64_t vocab, DType dtype)
      : source_(std::move(source)), vocab_(vocab), dtype_(dtype) {}

  void read(std::int64_t token, std::int64_t begin, std::span<double> out) const override {
    std::vector<double> row(static_cast<std::size_t>(vocab_));
    source_->read(token, 0, std::span<double>(row));
    const double log_sum = log_sum_of(row);
    for (std::size_t v = 0; v < out.size(); ++v) {
      const double logprob = row[static_cast<std::size_t>(begin) + v] - log_sum;
      out[v] = logprob > 0 ? 0 : round_to(dtype_, logprob);  // above 1 by an error alone
    }
  }
  void read(std::int64_t token, std::int64_t begin, std::span<float> out) const override {
    std::vector<double> wide(out.size());
    read(token, begin, std::span<double>(wide));
    std::transform(wide.begin(), wide.end(), out.begin(),
                   [](double x) { return static_cast<float>(x); });
  }

 private:
  const std::shared_ptr<const LogitsSource> source_;
  const std::int64_t vocab_;
  const DType dtype_;
};

}  // namespace

std::shared_ptr<const LogitsSource> make_logprobs(std::shared_ptr<const LogitsSource> source,
                                                  std::int64_t vocab, DType dtype) {
  return std::make_shared<Logprobs>(std::move(source), vocab, dtype);
}

}  // namespace lossgrid
