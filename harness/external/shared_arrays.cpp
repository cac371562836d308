// SPDX-License-Identifier: Apache-2.0
#include "harness/external/shared_arrays.h"

#include <algorithm>
#include <cmath>

#include "harness/core/hash.h"

namespace lossgrid {
namespace {

constexpr std::size_t kFloat = sizeof(float);
constexpr std::size_t kInt = sizeof(std::int64_t);

/// Sets rows to zero for which `is_poison` holds for an element in the first `own` columns.
template <typename T, typename F>
void clear_poisoned_rows(std::span<T> matrix, std::int64_t columns, std::int64_t own,
                         F&& is_poison) {
  const auto width = static_cast<std::size_t>(columns);
  const auto looked_at = static_cast<std::size_t>(own);
  for (std::size_t r = 0; r * width < matrix.size(); ++r) {
    const std::span<T> row = matrix.subspan(r * width, width);
    const std::span<T> own_part = row.first(looked_at);
    const bool poisoned = std::any_of(own_part.begin(), own_part.end(),
                                      [&](T x) { return is_poison(r, static_cast<double>(x)); });
    if (poisoned) std::fill(row.begin(), row.end(), static_cast<T>(0.0f));
  }
}

/// Calls f(row of the padded pack, token of the batch) for each token.
template <typename F>
void for_each_token(const PackedBatch& batch, F&& f) {
  for (std::int64_t i = 0; i < batch.sequences(); ++i) {
    const auto sequence = static_cast<std::size_t>(i);
    for (std::int64_t t = 0; t < batch.length(i); ++t) {
      f(static_cast<std::size_t>(batch.cu_seqlens_padded[sequence] + t),
        static_cast<std::size_t>(batch.cu_seqlens[sequence] + t));
    }
  }
}

std::string input_name(int token_input) {
  return std::string(name(static_cast<TokenInput>(token_input)));
}

}  // namespace

SharedArrays::SharedArrays(const LossProblem& problem, const ExternalDeclaration& declaration,
                           const ShiftedBatch& pack, const std::vector<std::int64_t>& positions,
                           std::int64_t out_rows, std::int64_t own_ids)
    : problem_(problem),
      declaration_(declaration),
      pack_(pack),
      positions_(positions),
      own_ids_(own_ids) {
  lay_out(out_rows);
  memory_ = SharedMemory(layout_.bytes());
  write_batch();
}

void SharedArrays::lay_out(std::int64_t out_rows) {
  const std::string element = protocol_name(problem_.dtype);
  const auto bytes = static_cast<std::size_t>(problem_.element_bytes());
  if (problem_.from_hidden()) {
    const std::vector<std::int64_t> hidden{problem_.hidden_rows(), problem_.head.hidden};
    std::vector<std::int64_t> weight{problem_.width(), problem_.head.hidden};
    if (problem_.head.layout == WeightLayout::hidden_vocab) std::swap(weight[0], weight[1]);
    layout_.add("hidden", element, bytes, hidden);
    layout_.add("weight", element, bytes, weight);
    layout_.add("grad.hidden", element, bytes, hidden);
    layout_.add("grad.weight", "float32", kFloat, weight);
    if (problem_.head.has_bias) {
      layout_.add("bias", element, bytes, {problem_.width()});
      layout_.add("grad.bias", "float32", kFloat, {problem_.width()});
    }
  } else {
    const std::vector<std::int64_t> logits{problem_.local_rows(), problem_.width()};
    layout_.add("logits", element, bytes, logits);
    layout_.add("grad.logits", element, bytes, logits);
  }

  const auto add_teacher = [&](const char* name, std::int64_t rows, std::int64_t columns) {
    layout_.add(name, protocol_name(problem_.teacher.dtype), size_of(problem_.teacher.dtype),
                {rows, columns});
  };
  if (problem_.makes_teacher()) {
    add_teacher("teacher_hidden", problem_.hidden_rows(), problem_.teacher.hidden);
    add_teacher("teacher_weight", problem_.width(), problem_.teacher.hidden);
  } else if (problem_.has_teacher()) {
    add_teacher("teacher_logits", problem_.local_rows(), problem_.width());
  }
  if (problem_.sampling.has_mask) {
    layout_.add("sampling_mask", "uint8", 1, {problem_.local_rows(), problem_.width()});
  }

  const PackedBatch& batch = problem_.batch;
  for (const char* name : {"cu_seqlens", "cu_seqlens_padded"}) {
    layout_.add(name, "int64", kInt, {batch.sequences() + 1});
  }
  layout_.add("lengths", "int64", kInt, {batch.sequences()});
  layout_.add("sample_mask", "uint8", 1, {batch.sequences()});
  if (!batch.rewards.empty()) layout_.add("rewards", "float32", kFloat, {batch.sequences()});
  if (!batch.group_tokens.empty()) {
    layout_.add("group_tokens", "int64", kInt, {batch.sequences()});
  }
  if (!batch.temperatures.empty()) {
    layout_.add("temperatures", "float32", kFloat, {batch.sequences()});
  }
  layout_.add("positions", "int64", kInt, {problem_.local_rows()});
  for (const char* name : {"sequence", "ids_padded", "targets"}) {
    layout_.add(name, "int64", kInt, {problem_.rows()});
  }
  for (const char* name : {"valid", "real", "token_mask"}) {
    layout_.add(name, "uint8", 1, {problem_.rows()});
  }
  for (int k = 0; k < kTokenInputs; ++k) {
    if (batch.inputs[static_cast<std::size_t>(k)].empty()) continue;
    layout_.add("rows." + input_name(k), "float32", kFloat, {problem_.rows()});
    layout_.add("tokens." + input_name(k), "float32", kFloat, {problem_.rows()});
  }

  std::vector<std::string> outputs;
  if (declaration_.returns_logprobs) outputs.emplace_back("logprobs");
  if (declaration_.returns_entropy) outputs.emplace_back("entropy");
  for (const std::string& name : outputs) {
    layout_.add("out." + name, "float32", kFloat, {out_rows});
    layout_.add("upstream." + name, "float32", kFloat, {out_rows});  // zeros until written
  }
}

template <typename T, typename U>
void SharedArrays::write(const std::string& name, const std::vector<U>& values) {
  std::copy(values.begin(), values.end(), array<T>(name).begin());
}

void SharedArrays::write_batch() {
  const PackedBatch& batch = problem_.batch;
  write<std::int64_t>("cu_seqlens", batch.cu_seqlens);
  write<std::int64_t>("cu_seqlens_padded", batch.cu_seqlens_padded);
  write<std::int64_t>("lengths", batch.input_lengths);
  write<std::uint8_t>("sample_mask", batch.sample_mask);
  if (!batch.rewards.empty()) write<float>("rewards", batch.rewards);
  if (!batch.group_tokens.empty()) write<std::int64_t>("group_tokens", batch.group_tokens);
  if (!batch.temperatures.empty()) write<float>("temperatures", batch.temperatures);
  write<std::int64_t>("positions", positions_);
  write<std::int64_t>("sequence", pack_.sequence);
  write<std::int64_t>("targets", pack_.targets);
  write<std::uint8_t>("valid", pack_.valid);
  write<std::uint8_t>("real", pack_.real);
  const auto ids = array<std::int64_t>("ids_padded");
  const auto mask = array<std::uint8_t>("token_mask");
  for_each_token(batch, [&](std::size_t row, std::size_t token) {
    ids[row] = batch.input_ids[token];
    mask[row] = batch.token_mask[token];
  });
  for (int k = 0; k < kTokenInputs; ++k) write_token_input(k);
}

/// Writes 0 to rows without a trained token, whose values in the batch are poison.
void SharedArrays::write_token_input(int k) {
  if (problem_.batch.inputs[static_cast<std::size_t>(k)].empty()) return;
  const std::vector<float>& values = pack_.inputs[static_cast<std::size_t>(k)];
  const auto rows = array<float>("rows." + input_name(k));
  const auto tokens = array<float>("tokens." + input_name(k));
  for (std::size_t r = 0; r < values.size(); ++r) {
    if (!pack_.valid[r]) continue;
    rows[r] = values[r];
    tokens[r + static_cast<std::size_t>(problem_.batch.ahead)] = values[r];
  }
}

void SharedArrays::write_inputs(Device& device, const LossInputs& inputs) {
  const auto copy = [&](const char* name, const void* from) {
    const std::span<std::byte> to = bytes_of(name);
    device.copy(to.data(), from, to.size());
  };
  const auto is_poison_of_a_row = [&](std::size_t r, double x) {
    const bool is_trained_on = pack_.valid[static_cast<std::size_t>(positions_[r])] != 0;
    const bool is_mask = std::isinf(x) && x < 0;
    return !is_trained_on && !std::isfinite(x) && !is_mask;
  };
  dispatch_floating(problem_.dtype, [&](auto zero) {
    using T = decltype(zero);
    if (problem_.from_hidden()) {
      copy("hidden", inputs.hidden);
      copy("weight", inputs.weight);
      if (problem_.head.has_bias) copy("bias", inputs.bias);
      clear_poisoned_rows(array<T>("hidden"), problem_.head.hidden, problem_.head.hidden,
                          [](std::size_t, double x) { return !std::isfinite(x); });
    } else {
      copy("logits", inputs.logits);
      clear_poisoned_rows(array<T>("logits"), problem_.width(), own_ids_, is_poison_of_a_row);
    }
  });
  if (problem_.makes_teacher()) {
    copy("teacher_hidden", inputs.teacher_hidden);
    copy("teacher_weight", inputs.teacher_weight);
    dispatch_floating(problem_.teacher.dtype, [&](auto zero) {
      clear_poisoned_rows(array<decltype(zero)>("teacher_hidden"), problem_.teacher.hidden,
                          problem_.teacher.hidden,
                          [](std::size_t, double x) { return !std::isfinite(x); });
    });
  } else if (problem_.has_teacher()) {
    copy("teacher_logits", inputs.teacher);
    dispatch_floating(problem_.teacher.dtype, [&](auto zero) {
      clear_poisoned_rows(array<decltype(zero)>("teacher_logits"), problem_.width(), own_ids_,
                          is_poison_of_a_row);
    });
  }
  if (problem_.sampling.has_mask) write_mask(device, inputs.kept);
  bits_ = bits();
}

/// Writes a byte for every bit; 0 in columns of padding.
void SharedArrays::write_mask(Device& device, const std::uint64_t* kept) {
  std::vector<std::uint64_t> words(static_cast<std::size_t>(problem_.mask_bytes()) / 8);
  device.copy(words.data(), kept, static_cast<std::size_t>(problem_.mask_bytes()));
  const std::int64_t width = problem_.width();
  const auto mask = array<std::uint8_t>("sampling_mask");
  for (std::int64_t r = 0; r < problem_.local_rows(); ++r) {
    for (std::int64_t v = 0; v < own_ids_; ++v) {
      const std::int64_t word = r * mask_words(width) + v / kMaskWordBits;
      mask[static_cast<std::size_t>(r * width + v)] =
          words[static_cast<std::size_t>(word)] >> (v % kMaskWordBits) & 1;
    }
  }
}

std::vector<std::string> SharedArrays::changed() const {
  std::vector<std::string> names;
  for (const auto& [name, now] : bits()) {
    if (bits_.at(name) != now) names.push_back(name);
  }
  return names;
}

bool SharedArrays::holds_ids() const {
  return dispatch_floating(problem_.dtype, [&](auto zero) {
    const auto hidden = array<decltype(zero)>("hidden");
    return std::all_of(hidden.begin(), hidden.end(), [](auto x) {
      return static_cast<double>(x) == 0 || static_cast<double>(x) == 1;
    });
  });
}

std::span<std::byte> SharedArrays::bytes_of(const std::string& name) const {
  const ArenaLayout::Place& place = layout_.places().at(name);
  return {memory_.data() + place.offset, place.size};
}

std::map<std::string, std::uint64_t> SharedArrays::bits() const {
  std::map<std::string, std::uint64_t> bits;
  for (const auto& [name, place] : layout_.places()) {
    const bool is_written =
        name.starts_with("out.") || name.starts_with("grad.") || name.starts_with("upstream.");
    const bool may_change = name == "logits" && declaration_.overwrites_logits;
    if (!is_written && !may_change) bits[name] = fingerprint(bytes_of(name));
  }
  return bits;
}

}  // namespace lossgrid
