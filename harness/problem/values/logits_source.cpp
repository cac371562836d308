// SPDX-License-Identifier: Apache-2.0
#include "harness/problem/values/logits_source.h"

#include <algorithm>
#include <array>
#include <limits>
#include <utility>

#include "harness/core/error.h"
#include "harness/core/hash.h"
#include "harness/problem/values/normal_row.h"
#include "harness/problem/values/random_streams.h"
#include "harness/problem/values/value_regime.h"
#include "harness/problem/values/vocab_shards.h"

namespace lossgrid {
namespace {

class RandomLogits final : public LogitsSource {
 public:
  RandomLogits(const CaseSpec& spec, std::vector<std::int32_t> targets)
      : seed_(spec.seed),
        vocab_(spec.vocab),
        dtype_(spec.dtype),
        values_(spec.values),
        affine_(affine_of(spec)),
        targets_(std::move(targets)) {
    if (values_ == Values::edge_mass) edges_ = shard_edge_ids(vocab_);
    edge_bonus_ = edge_bonus(vocab_);
  }

  void read(std::int64_t token, std::int64_t begin, std::span<double> out) const override {
    if (dtype_ == DType::f64) {
      generate<double>(token, begin, out);
    } else {
      convert<float>(token, begin, out);
    }
  }

  void read(std::int64_t token, std::int64_t begin, std::span<float> out) const override {
    if (dtype_ == DType::f64) {
      convert<double>(token, begin, out);
    } else {
      generate<float>(token, begin, out);
    }
  }

 private:
  /// Calls f(first id, place in out, piece) for pieces of a buffer that cover [begin, begin +
  /// count) and end on multiples of its size.
  template <typename Real = float, typename F>
  static void for_pieces(std::int64_t begin, std::size_t count, F&& f) {
    constexpr std::size_t kSize = 512;
    std::array<Real, kSize> buffer;
    for (std::size_t at = 0; at < count;) {
      const auto id = begin + static_cast<std::int64_t>(at);
      const std::size_t piece = std::min(count - at, kSize - static_cast<std::size_t>(id) % kSize);
      f(id, at, std::span<Real>(buffer.data(), piece));
      at += piece;
    }
  }

  /// Makes values in the arithmetic of the dtype, then widens or narrows them.
  template <typename Real, typename Out>
  void convert(std::int64_t token, std::int64_t begin, std::span<Out> out) const {
    for_pieces<Real>(begin, out.size(),
                     [&](std::int64_t id, std::size_t at, std::span<Real> piece) {
                       generate<Real>(token, id, piece);
                       for (std::size_t k = 0; k < piece.size(); ++k)
                         out[at + k] = static_cast<Out>(piece[k]);
                     });
  }

  template <typename Real>
  void generate(std::int64_t token, std::int64_t begin, std::span<Real> out) const {
    if (values_ == Values::ties) {
      fill_ties(token, begin, out);
    } else {
      fill_affine(token, begin, out);
    }
    const std::int64_t end = begin + static_cast<std::int64_t>(out.size());
    switch (values_) {
      case Values::peaked: {
        const std::int64_t target = targets_[static_cast<std::size_t>(token)];
        if (target >= begin && target < end) {
          out[target - begin] = static_cast<Real>(peak_logit(token, vocab_));
        }
        break;
      }
      case Values::masked_vocab:
        mask_vocab(token, begin, -std::numeric_limits<Real>::infinity(), out);
        break;
      case Values::finite_mask:
        mask_vocab(token, begin, static_cast<Real>(kFiniteMask), out);
        break;
      case Values::lowest_mask:
        mask_vocab(token, begin, static_cast<Real>(lowest_number(dtype_)), out);
        break;
      case Values::buried_target:
        lower_target(token, begin, static_cast<Real>(kFiniteMask), out);
        break;
      case Values::impossible_target:
        lower_target(token, begin, -std::numeric_limits<Real>::infinity(), out);
        break;
      case Values::vanishing:
        lower_odd_columns(token, begin, out);
        break;
      case Values::late_max:
        for (std::size_t k = 0; k < out.size(); ++k) {
          out[k] += static_cast<Real>(late_max_shift(begin + static_cast<std::int64_t>(k), vocab_));
        }
        break;
      case Values::edge_mass:
        for (auto edge = std::lower_bound(edges_.begin(), edges_.end(), begin);
             edge != edges_.end() && *edge < end; ++edge) {
          out[*edge - begin] += static_cast<Real>(edge_bonus_);
        }
        break;
      default:
        break;
    }
    if (dtype_ == DType::bf16) {
      for (Real& value : out) value = static_cast<Real>(bf16(static_cast<float>(value)));
    }
  }

  void fill_affine(std::int64_t token, std::int64_t begin, std::span<float> out) const {
    const auto shift = static_cast<float>(affine_.shift);
    const auto factor = static_cast<float>(affine_.factor);
    fill_normals(seed_, static_cast<std::uint32_t>(Stream::logits),
                 static_cast<std::uint64_t>(token), begin, out);
    for (float& value : out) value = shift + factor * value;
  }

  void fill_affine(std::int64_t token, std::int64_t begin, std::span<double> out) const {
    const std::uint64_t row_key = mix_bits(seed_ ^ mix_bits(static_cast<std::uint64_t>(token)));
    for_pieces(begin, out.size(), [&](std::int64_t id, std::size_t at, std::span<float> normals) {
      fill_normals(seed_, static_cast<std::uint32_t>(Stream::logits),
                   static_cast<std::uint64_t>(token), id, normals);
      for (std::size_t k = 0; k < normals.size(); ++k) {
        // The bits below those of a float32, so that float64 cases are not float32 in disguise.
        const std::uint64_t tail = mix_bits(row_key + static_cast<std::uint64_t>(id) + k) >> 11;
        const double normal =
            static_cast<double>(normals[k]) + static_cast<double>(tail) * (0x1p-53 * 0x1p-24);
        out[at + k] = affine_.shift + affine_.factor * normal;
      }
    });
  }

  template <typename Real>
  void fill_ties(std::int64_t token, std::int64_t begin, std::span<Real> out) const {
    const RandomStream stream = random_stream(seed_, Stream::logits);
    for (std::size_t at = 0; at < out.size();) {
      const std::int64_t id = begin + static_cast<std::int64_t>(at);
      const PhiloxBlock words =
          stream.block(static_cast<std::uint64_t>(token), static_cast<std::uint32_t>(id / 4));
      for (auto lane = static_cast<std::size_t>(id % 4); lane < 4 && at < out.size(); ++lane) {
        out[at++] = static_cast<Real>(words[lane] % 3);
      }
    }
  }

  /// Sets `value` in [V/4, V/2) and at every 7th id from 6 on: id 0 or 1 stays as it is for every
  /// V.
  template <typename Real>
  void mask_vocab(std::int64_t token, std::int64_t begin, Real value, std::span<Real> out) const {
    const std::int64_t target = targets_[static_cast<std::size_t>(token)];
    for (std::size_t k = 0; k < out.size(); ++k) {
      const std::int64_t id = begin + static_cast<std::int64_t>(k);
      const bool masked = (id >= vocab_ / 4 && id < vocab_ / 2) || id % 7 == 6;
      if (masked && id != target) out[k] = value;
    }
  }

  template <typename Real>
  void lower_target(std::int64_t token, std::int64_t begin, Real value, std::span<Real> out) const {
    const std::int64_t at = targets_[static_cast<std::size_t>(token)] - begin;
    if (!has_low_target(token) || at < 0 || at >= static_cast<std::int64_t>(out.size())) return;
    out[static_cast<std::size_t>(at)] = value;
  }

  template <typename Real>
  void lower_odd_columns(std::int64_t token, std::int64_t begin, std::span<Real> out) const {
    const std::int64_t target = targets_[static_cast<std::size_t>(token)];
    for (std::size_t k = 0; k < out.size(); ++k) {
      const std::int64_t id = begin + static_cast<std::int64_t>(k);
      if (id % 2 == 1 && id != target) out[k] += static_cast<Real>(kVanishingShift);
    }
  }

  std::uint64_t seed_;
  std::int64_t vocab_;
  DType dtype_;
  Values values_;
  Affine affine_;
  std::vector<std::int32_t> targets_;
  std::vector<std::int32_t> edges_;
  double edge_bonus_;
};

}  // namespace

void LogitsSource::read_rows(std::span<const std::int64_t> tokens, std::span<double> out) const {
  const std::size_t vocab = tokens.empty() ? 0 : out.size() / tokens.size();
  for (std::size_t k = 0; k < tokens.size(); ++k) read(tokens[k], 0, out.subspan(k * vocab, vocab));
}

void LogitsSource::read_errors(std::int64_t /*token*/, std::int64_t /*begin*/,
                               std::span<double> out) const {
  std::fill(out.begin(), out.end(), 0.0);
}

std::shared_ptr<const LogitsSource> make_random_logits(const CaseSpec& spec,
                                                       std::vector<std::int32_t> targets) {
  return std::make_shared<RandomLogits>(spec, std::move(targets));
}

}  // namespace lossgrid
