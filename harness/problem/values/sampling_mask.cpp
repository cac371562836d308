// SPDX-License-Identifier: Apache-2.0
#include "harness/problem/values/sampling_mask.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <utility>

namespace lossgrid {
namespace {

/// Keeps z >= the k-th largest.
void keep_top_k(std::span<const double> z, std::int64_t k, std::span<std::uint8_t> kept) {
  std::vector<double> sorted(z.begin(), z.end());
  const auto kth = sorted.begin() + (k - 1);
  std::nth_element(sorted.begin(), kth, sorted.end(), std::greater<>());
  for (std::size_t v = 0; v < z.size(); ++v) kept[v] = z[v] >= *kth ? 1 : 0;
}

/// Keeps, of the ids that are kept so far, those of the largest probabilities that add up to p.
void keep_top_p(std::span<const double> z, double p, std::span<std::uint8_t> kept) {
  std::vector<std::size_t> ids;
  for (std::size_t v = 0; v < z.size(); ++v) {
    if (kept[v] != 0) ids.push_back(v);
  }
  std::sort(ids.begin(), ids.end(),
            [&](std::size_t a, std::size_t b) { return z[a] != z[b] ? z[a] < z[b] : a > b; });
  const double max = z[ids.back()];
  double sum = 0;
  for (const std::size_t v : ids) sum += std::exp(z[v] - max);
  double so_far = 0;
  for (const std::size_t v : ids) {
    so_far += std::exp(z[v] - max) / sum;
    kept[v] = so_far > 1 - p || v == ids.back() ? 1 : 0;
  }
}

class MaskedLogits final : public LogitsSource {
 public:
  MaskedLogits(std::shared_ptr<const LogitsSource> source, std::shared_ptr<const SamplingMask> mask)
      : source_(std::move(source)), mask_(std::move(mask)) {}

  void read(std::int64_t token, std::int64_t begin, std::span<double> out) const override {
    read_kept(token, begin, out);
  }
  void read(std::int64_t token, std::int64_t begin, std::span<float> out) const override {
    read_kept(token, begin, out);
  }
  std::int64_t rows_at_once() const override { return source_->rows_at_once(); }
  void read_rows(std::span<const std::int64_t> tokens, std::span<double> out) const override {
    source_->read_rows(tokens, out);
    const std::size_t vocab = tokens.empty() ? 0 : out.size() / tokens.size();
    for (std::size_t k = 0; k < tokens.size(); ++k) {
      take_out(tokens[k], 0, out.subspan(k * vocab, vocab));
    }
  }
  bool given() const override { return source_->given(); }
  double relative_error() const override { return source_->relative_error(); }
  void read_errors(std::int64_t token, std::int64_t begin, std::span<double> out) const override {
    source_->read_errors(token, begin, out);
  }

 private:
  template <typename Float>
  void read_kept(std::int64_t token, std::int64_t begin, std::span<Float> out) const {
    source_->read(token, begin, out);
    take_out(token, begin, out);
  }

  template <typename Float>
  void take_out(std::int64_t token, std::int64_t begin, std::span<Float> out) const {
    for (std::size_t k = 0; k < out.size(); ++k) {
      if (mask_->keeps(token, begin + static_cast<std::int64_t>(k))) continue;
      out[k] = -std::numeric_limits<Float>::infinity();
    }
  }

  std::shared_ptr<const LogitsSource> source_;
  std::shared_ptr<const SamplingMask> mask_;
};

}  // namespace

SamplingMask::SamplingMask(std::int64_t rows, std::int64_t vocab)
    : rows_(rows), vocab_(vocab), words_(static_cast<std::size_t>(rows * mask_words(vocab))) {}

std::size_t SamplingMask::word_of(std::int64_t row, std::int64_t id) const {
  return static_cast<std::size_t>(row * mask_words(vocab_) + id / kMaskWordBits);
}

void SamplingMask::keep(std::int64_t row, std::int64_t id) {
  words_[word_of(row, id)] |= std::uint64_t{1} << (id % kMaskWordBits);
}

bool SamplingMask::keeps(std::int64_t row, std::int64_t id) const {
  return (words_[word_of(row, id)] >> (id % kMaskWordBits) & 1) != 0;
}

bool SamplingMask::keeps_any(std::int64_t row) const {
  const auto first = words_.begin() + static_cast<std::ptrdiff_t>(word_of(row, 0));
  return std::any_of(first, first + mask_words(vocab_),
                     [](std::uint64_t word) { return word != 0; });
}

void SamplingMask::read(std::int64_t row, std::int64_t begin, std::int64_t count,
                        std::span<std::uint64_t> out) const {
  std::fill(out.begin(), out.end(), ~std::uint64_t{0});
  for (std::int64_t k = 0; k < count; ++k) {
    if (keeps(row, begin + k)) continue;
    out[static_cast<std::size_t>(k / kMaskWordBits)] &= ~(std::uint64_t{1} << (k % kMaskWordBits));
  }
}

void filter_row(std::span<const double> z, const SamplingFilter& filter,
                std::span<std::uint8_t> kept) {
  std::fill(kept.begin(), kept.end(), std::uint8_t{1});
  if (filter.top_k > 0) keep_top_k(z, filter.top_k, kept);
  if (filter.top_p < 1) keep_top_p(z, filter.top_p, kept);
}

std::shared_ptr<const SamplingMask> make_sampling_mask(const LogitsSource& logits,
                                                       std::int64_t rows, std::int64_t vocab,
                                                       const SamplingFilter& filter) {
  auto mask = std::make_shared<SamplingMask>(rows, vocab);
  std::vector<double> z(static_cast<std::size_t>(vocab));
  std::vector<std::uint8_t> kept(z.size());
  for (std::int64_t t = 0; t < rows; ++t) {
    logits.read(t, 0, std::span<double>(z));
    filter_row(z, filter, kept);
    for (std::size_t v = 0; v < kept.size(); ++v) {
      if (kept[v] != 0) mask->keep(t, static_cast<std::int64_t>(v));
    }
  }
  return mask;
}

std::shared_ptr<const LogitsSource> make_masked_logits(std::shared_ptr<const LogitsSource> source,
                                                       std::shared_ptr<const SamplingMask> mask) {
  return std::make_shared<MaskedLogits>(std::move(source), std::move(mask));
}

}  // namespace lossgrid
