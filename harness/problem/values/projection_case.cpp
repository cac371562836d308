// SPDX-License-Identifier: Apache-2.0
// Hidden states and weight of a case, such that their product over the temperature lies in the
// value regime of the case. Hidden states are N(0, 1) and rows of the weight N(0, 1) / sqrt(H),
// times the spread of the logits and the temperature. A bias is N(0, 1) times half of those. A
// shift comes from the bias, or from the last place, where every hidden state is 16; a peak from a
// multiple of the target's row that is added to the hidden state. With one-hot hidden states the
// elements of the weight are the logits.
#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <string_view>

#include <fmt/format.h>

#include "harness/core/error.h"
#include "harness/device/kernel/rank_threads.h"
#include "harness/problem/values/logit_transform.h"
#include "harness/problem/values/normal_row.h"
#include "harness/problem/values/projection.h"
#include "harness/problem/values/random_streams.h"
#include "harness/problem/values/value_regime.h"
#include "harness/problem/values/vocab_shards.h"

namespace lossgrid {
namespace {

constexpr float kShiftPlace = 16;  // exact in every dtype

/// True if logits are shifted, all of them or those of some ids.
bool is_shifted(const CaseSpec& spec) {
  return affine_of(spec).shift != 0 || spec.values == Values::edge_mass ||
         spec.values == Values::late_max;
}

/// Returns the refusal of one-hot hidden states; nullopt where the case can have them.
std::optional<std::string> one_hot_refusal(const CaseSpec& spec) {
  if (spec.hidden != spec.vocab) {
    return fmt::format(
        "hidden_values = one_hot needs hidden = vocab, not hidden = {} and vocab = {}", spec.hidden,
        spec.vocab);
  }
  if (spec.values == Values::normal) return std::nullopt;
  return "hidden_values = one_hot goes with values = normal alone";
}

/// Returns the reason for which no product has a regime, after its name; empty where one has.
std::string_view reason_of_logits(Values values) {
  switch (values) {
    case Values::masked_vocab:
      return "masked_vocab needs logits: hidden x weight is never -inf";
    case Values::finite_mask:
      return "finite_mask needs logits: a weight cannot spare a row's target";
    case Values::lowest_mask:
      return "lowest_mask needs logits: a weight cannot spare a row's target";
    case Values::vanishing:
      return "vanishing needs logits: a weight cannot spare a row's target";
    case Values::buried_target:
      return "buried_target needs logits: a weight knows no row's target";
    case Values::impossible_target:
      return "impossible_target needs logits: hidden x weight is never -inf";
    case Values::far_offset:
      return "far_offset needs logits: float32 products keep nothing beside it";
    default:
      return "";
  }
}

double dot(std::span<const float> x, std::span<const float> w) {
  double sum = 0;
  for (std::size_t k = 0; k < x.size(); ++k) {
    sum += static_cast<double>(x[k]) * static_cast<double>(w[k]);
  }
  return sum;
}

/// Sets out[k] to f(word) for the random words of one row.
template <typename F>
void fill_from_words(const RandomStream& random, std::int64_t row, std::span<float> out, F&& f) {
  for (std::size_t k = 0; k < out.size(); k += 4) {
    const PhiloxBlock words =
        random.block(static_cast<std::uint64_t>(row), static_cast<std::uint32_t>(k / 4));
    const std::size_t lanes = std::min<std::size_t>(4, out.size() - k);
    std::transform(words.begin(), words.begin() + lanes, out.begin() + k, f);
  }
}

class CaseProjection {
 public:
  explicit CaseProjection(const CaseSpec& spec)
      : spec_(spec),
        divisor_(spec.temperature / spec.logit_scale),
        shift_(affine_of(spec).shift),
        shifted_(is_shifted(spec) && !spec.lm_head_bias) {
    const bool one_hot = spec.hidden_values == HiddenValues::one_hot;
    const double places = one_hot ? 1 : static_cast<double>(spec.hidden - (shifted_ ? 1 : 0));
    factor_ = affine_of(spec).factor * divisor_ / std::sqrt(places);
    if (spec.values == Values::edge_mass) edges_ = shard_edge_ids(spec.vocab);
  }

  void weight_row(std::int64_t id, std::span<float> out) const {
    if (spec_.values == Values::ties) {
      fill_from_words(random_stream(spec_.seed, Stream::weight), id, out,
                      [](std::uint32_t word) { return static_cast<float>(word % 3) - 1.0f; });
    } else {
      fill_normals(spec_.seed, static_cast<std::uint32_t>(Stream::weight),
                   static_cast<std::uint64_t>(id), 0, out);
      for (float& value : out) value *= static_cast<float>(factor_);
      if (shifted_) {
        out.back() = static_cast<float>(shift_of(id) * divisor_ / double{kShiftPlace});
      }
    }
    round(out);
  }

  /// Makes the bias of an id: integers with ties, as weights, so that they stay ties.
  float bias(std::int64_t id) const {
    float value = 0;
    const std::span<float> out(&value, 1);
    if (spec_.values == Values::ties) {
      fill_from_words(random_stream(spec_.seed, Stream::bias), id, out,
                      [](std::uint32_t word) { return static_cast<float>(word % 3) - 1.0f; });
    } else {
      fill_normals(spec_.seed, static_cast<std::uint32_t>(Stream::bias),
                   static_cast<std::uint64_t>(id), 0, out);
      const double spread = 0.5 * affine_of(spec_).factor * divisor_;
      value = static_cast<float>(spread * static_cast<double>(value) + shift_of(id) * divisor_);
    }
    round(out);
    return value;
  }

  /// Makes the hidden state of a token with this id, whose row predicts `target`, -1 for none.
  void hidden_row(std::int64_t token, std::int64_t id, std::int64_t target,
                  const Projection& projection, std::span<float> out) const {
    if (spec_.hidden_values == HiddenValues::one_hot) {
      std::fill(out.begin(), out.end(), 0.0f);
      out[static_cast<std::size_t>(id)] = 1;
    } else if (spec_.values == Values::ties) {
      // About three places are not 0, so that the largest logit stands in many places.
      const double size = static_cast<double>(spec_.hidden);
      fill_from_words(random_stream(spec_.seed, Stream::hidden), token, out,
                      [size](std::uint32_t word) {
                        const double u = word * 0x1p-32 * size;
                        return u < 1.5 ? 1.0f : u < 3 ? -1.0f : 0.0f;
                      });
    } else {
      fill_normals(spec_.seed, static_cast<std::uint32_t>(Stream::hidden),
                   static_cast<std::uint64_t>(token), 0, out);
      if (shifted_) out.back() = kShiftPlace;
      if (spec_.values == Values::peaked && target >= 0) {
        add_peak(token, {projection.weight_row(target), out.size()}, out);
      }
    }
    round(out);
  }

 private:
  double shift_of(std::int64_t id) const {
    if (spec_.values == Values::late_max) return late_max_shift(id, spec_.vocab);
    if (spec_.values != Values::edge_mass) return shift_;
    return std::binary_search(edges_.begin(), edges_.end(), id) ? edge_bonus(spec_.vocab) : 0;
  }

  /// Adds as much of the target's row as brings its logit to its peak z. This adds z^2 / h to the
  /// variance of the other logits, h = |row|^2 / factor^2 (about H), and multiplies their mass by
  /// exp(z^2 / 2h), so that z = peak_logit + z^2 / 2h. That has no solution for h < 2 peak_logit; z
  /// is then the last value that has one, and the probability of the target is lower.
  void add_peak(std::int64_t token, std::span<const float> row, std::span<float> x) const {
    const double squares = dot(row, row);
    if (squares == 0) return;
    const double h = squares / (factor_ * factor_);
    const double peak = peak_logit(token, spec_.vocab);
    const double z = 2 * peak / (1 + std::sqrt(std::max(0.0, 1 - 2 * peak / h)));
    const double times = (z * divisor_ - dot(x, row)) / squares;
    for (std::size_t k = 0; k < x.size(); ++k) {
      x[k] = static_cast<float>(static_cast<double>(x[k]) + times * static_cast<double>(row[k]));
    }
  }

  void round(std::span<float> values) const {
    if (spec_.dtype != DType::bf16) return;
    for (float& value : values) value = static_cast<float>(bf16(value));
  }

  const CaseSpec& spec_;
  const double divisor_;  // of s x / T = z, the logits of the regime
  double shift_;
  bool shifted_;
  double factor_;                    // factor of the N(0, 1) in the weight
  std::vector<std::int32_t> edges_;  // ids that edge_mass shifts
};

}  // namespace

bool has_projection(Values values) {
  return reason_of_logits(values).empty();
}

std::optional<std::string> projection_refusal(const CaseSpec& spec) {
  if (spec.dtype == DType::f64) {
    return "dtype = f64 needs logits: hidden states and weight are f32 or bf16";
  }
  if (const std::string_view reason = reason_of_logits(spec.values); !reason.empty()) {
    return fmt::format("values = {}", reason);
  }
  if (spec.hidden_values == HiddenValues::one_hot) return one_hot_refusal(spec);
  if (!is_shifted(spec) || spec.lm_head_bias || spec.hidden >= 2) return std::nullopt;
  return fmt::format("hidden = {} leaves no place for the shift of the logits, must be at least 2",
                     spec.hidden);
}

std::shared_ptr<const Projection> make_projection(const CaseSpec& spec,
                                                  const std::vector<std::int32_t>& ids,
                                                  const std::vector<std::int32_t>& targets) {
  if (const auto refusal = projection_refusal(spec)) throw_bad_input("{}", *refusal);
  const auto size = static_cast<std::size_t>(spec.hidden);
  Projection projection;
  projection.tokens = static_cast<std::int64_t>(targets.size());
  projection.vocab = spec.vocab;
  projection.size = spec.hidden;
  projection.temperature = divisor_of_product(
      {spec.logit_scale, spec.logit_softcap, spec.temperature, spec.sequence_temperatures});
  projection.hidden_dtype = spec.dtype;
  projection.weight_dtype = spec.dtype;
  projection.has_bias = spec.lm_head_bias;
  projection.bias_dtype = spec.dtype;
  const auto factors = static_cast<std::size_t>(projection.factors());
  projection.weight.resize(static_cast<std::size_t>(spec.vocab) * factors);
  projection.hidden.resize(targets.size() * factors);
  const CaseProjection rows(spec);
  parallel_for(spec.vocab, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t id = begin; id < end; ++id) {
      float* row = projection.weight.data() + id * projection.factors();
      rows.weight_row(id, {row, size});
      if (projection.has_bias) row[size] = rows.bias(id);
    }
  });
  parallel_for(projection.tokens, [&](std::int64_t begin, std::int64_t end) {
    for (auto t = static_cast<std::size_t>(begin); t < static_cast<std::size_t>(end); ++t) {
      float* row = projection.hidden.data() + t * factors;
      rows.hidden_row(static_cast<std::int64_t>(t), ids[t], targets[t], projection, {row, size});
      if (projection.has_bias) row[size] = 1;
    }
  });
  return std::make_shared<const Projection>(std::move(projection));
}

}  // namespace lossgrid
