// SPDX-License-Identifier: Apache-2.0
#include "harness/problem/values/kept_logits.h"

#include <algorithm>
#include <mutex>
#include <utility>
#include <vector>

#include "harness/core/process/heap_watch.h"

namespace lossgrid {
namespace {

/// `Real` holds every logit exactly.
template <typename Real>
class KeptLogits final : public LogitsSource {
 public:
  KeptLogits(std::shared_ptr<const LogitsSource> source, std::int64_t rows, std::int64_t vocab)
      : source_(std::move(source)),
        vocab_(static_cast<std::size_t>(vocab)),
        made_(static_cast<std::size_t>(rows)),
        logits_(std::make_unique_for_overwrite<Real[]>(made_.size() * vocab_)) {}

  void read(std::int64_t token, std::int64_t begin, std::span<double> out) const override {
    copy_row(token, begin, out);
  }
  void read(std::int64_t token, std::int64_t begin, std::span<float> out) const override {
    copy_row(token, begin, out);
  }
  double relative_error() const override { return source_->relative_error(); }
  void read_errors(std::int64_t token, std::int64_t begin, std::span<double> out) const override {
    source_->read_errors(token, begin, out);
  }

 private:
  template <typename Out>
  void copy_row(std::int64_t token, std::int64_t begin, std::span<Out> out) const {
    const auto row = static_cast<std::size_t>(token);
    const std::span<Real> kept(logits_.get() + row * vocab_, vocab_);
    std::call_once(made_[row], [&] {
      const HeapWatchScope unwatched(nullptr);  // no memory of the rank that comes first
      source_->read(token, 0, kept);
    });
    const auto from = kept.begin() + static_cast<std::ptrdiff_t>(begin);
    std::transform(from, from + static_cast<std::ptrdiff_t>(out.size()), out.begin(),
                   [](Real x) { return static_cast<Out>(x); });
  }

  std::shared_ptr<const LogitsSource> source_;
  std::size_t vocab_;
  mutable std::vector<std::once_flag> made_;
  std::unique_ptr<Real[]> logits_;
};

}  // namespace

std::shared_ptr<const LogitsSource> keep_logits(std::shared_ptr<const LogitsSource> source,
                                                std::int64_t rows, std::int64_t vocab,
                                                DType dtype) {
  const bool is_f64 = dtype == DType::f64;
  const std::int64_t number_bytes = is_f64 ? sizeof(double) : sizeof(float);
  const bool is_small = rows <= kMostKeptBytes / number_bytes / std::max<std::int64_t>(1, vocab);
  if (!source->given() || source->rows_at_once() != 1 || !is_small) return source;
  if (is_f64) return std::make_shared<KeptLogits<double>>(std::move(source), rows, vocab);
  return std::make_shared<KeptLogits<float>>(std::move(source), rows, vocab);
}

}  // namespace lossgrid
