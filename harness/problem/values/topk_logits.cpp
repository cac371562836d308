// SPDX-License-Identifier: Apache-2.0
#include "harness/problem/values/topk_logits.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

namespace lossgrid {
namespace {

constexpr double kMinusInfinity = -std::numeric_limits<double>::infinity();

/// Reads in float64 and rounds, which loses nothing of float32 and bf16.
class SparseLogits : public LogitsSource {
 public:
  void read(std::int64_t token, std::int64_t begin, std::span<float> out) const override {
    std::vector<double> wide(out.size());
    read(token, begin, std::span<double>(wide));
    std::transform(wide.begin(), wide.end(), out.begin(),
                   [](double x) { return static_cast<float>(x); });
  }
  using LogitsSource::read;
};

class TopkLogits final : public SparseLogits {
 public:
  TopkLogits(std::shared_ptr<const LogitsSource> source, std::int64_t vocab, std::int64_t k)
      : source_(std::move(source)), vocab_(vocab), k_(k) {}

  void read(std::int64_t token, std::int64_t begin, std::span<double> out) const override {
    std::vector<double> row(static_cast<std::size_t>(vocab_));
    source_->read(token, 0, std::span<double>(row));
    std::vector<std::size_t> ids(row.size());
    std::iota(ids.begin(), ids.end(), std::size_t{0});
    const auto above = [&](std::size_t a, std::size_t b) {
      return row[a] != row[b] ? row[a] > row[b] : a < b;
    };
    std::nth_element(ids.begin(), ids.begin() + (k_ - 1), ids.end(), above);
    const std::size_t last = ids[static_cast<std::size_t>(k_ - 1)];
    for (std::size_t v = 0; v < out.size(); ++v) {
      const std::size_t id = static_cast<std::size_t>(begin) + v;
      out[v] = above(last, id) ? kMinusInfinity : row[id];
    }
  }
  using SparseLogits::read;

 private:
  std::shared_ptr<const LogitsSource> source_;
  const std::int64_t vocab_;
  const std::int64_t k_;
};

class LogitsAtIds final : public SparseLogits {
 public:
  LogitsAtIds(std::vector<std::int32_t> ids, std::vector<float> logits, std::int64_t k)
      : ids_(std::move(ids)), logits_(std::move(logits)), k_(k) {}

  void read(std::int64_t token, std::int64_t begin, std::span<double> out) const override {
    std::fill(out.begin(), out.end(), kMinusInfinity);
    for (std::int64_t at = token * k_; at < (token + 1) * k_; ++at) {
      const std::int64_t v = ids_[static_cast<std::size_t>(at)] - begin;
      if (v < 0 || v >= static_cast<std::int64_t>(out.size())) continue;
      out[static_cast<std::size_t>(v)] = logits_[static_cast<std::size_t>(at)];
    }
  }
  using SparseLogits::read;

 private:
  const std::vector<std::int32_t> ids_;
  const std::vector<float> logits_;
  const std::int64_t k_;
};

}  // namespace

std::shared_ptr<const LogitsSource> make_topk_logits(std::shared_ptr<const LogitsSource> source,
                                                     std::int64_t vocab, std::int64_t k) {
  return std::make_shared<TopkLogits>(std::move(source), vocab, k);
}

std::shared_ptr<const LogitsSource> make_logits_at_ids(std::vector<std::int32_t> ids,
                                                       std::vector<float> logits, std::int64_t k) {
  return std::make_shared<LogitsAtIds>(std::move(ids), std::move(logits), k);
}

}  // namespace lossgrid
