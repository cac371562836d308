// SPDX-License-Identifier: Apache-2.0
#include "harness/problem/batch/case_rules.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "harness/core/error.h"
#include "harness/problem/case/case_keys.h"
#include "harness/problem/values/projection.h"
#include "harness/problem/values/sampling_mask.h"

namespace lossgrid {
namespace {

using Refusal = std::optional<std::string>;

/// Returns the first of `keys` that is not at its default; null if all are.
template <typename Keys>
const CaseKey* first_set_key(const CaseSpec& spec, const Keys& keys) {
  const CaseSpec unset;
  for (const char* name : keys) {
    const CaseKey* key = find_case_key(name);
    if (key->get(spec) != key->get(unset)) return key;
  }
  return nullptr;
}

Refusal keys_of_the_lm_head(const CaseSpec& spec) {
  if (spec.hidden > 0) return std::nullopt;
  constexpr auto keys =
      std::to_array({"hidden_values", "weight_layout", "tied_embedding", "lm_head_bias"});
  const CaseKey* key = first_set_key(spec, keys);
  if (key == nullptr) return std::nullopt;
  return fmt::format("{} = {} belongs to the LM head of a case with hidden > 0", key->name,
                     key->get(spec));
}

Refusal keys_of_a_teacher(const CaseSpec& spec) {
  if (spec.teacher_topk > spec.vocab) {
    return fmt::format("teacher_topk = {}, must lie in [0, vocab = {}]", spec.teacher_topk,
                       spec.vocab);
  }
  if (spec.teacher_topk == 0 || spec.teacher_hidden == 0) return std::nullopt;
  return fmt::format(
      "teacher_topk = {} and teacher_hidden = {}: hidden states make logits of all ids",
      spec.teacher_topk, spec.teacher_hidden);
}

Refusal keys_of_a_sampler(const CaseSpec& spec) {
  if (spec.top_k > spec.vocab) {
    return fmt::format("top_k = {}, must lie in [0, vocab = {}]", spec.top_k, spec.vocab);
  }
  const bool filters = SamplingFilter{spec.top_k, spec.top_p}.is_any();
  if (filters || spec.filtered_targets == FilteredTargets::drop) return std::nullopt;
  return "filtered_targets = zero belongs to a case with top_k or top_p";
}

Refusal keys_of_a_vocabulary(const CaseSpec& spec) {
  if (spec.head == Head::lm) return std::nullopt;
  const std::string head = find_case_key("head")->get(spec);
  if (spec.vocab != 1) {
    return fmt::format("head = {} has no vocabulary, and vocab = {}", head, spec.vocab);
  }
  constexpr auto keys = std::to_array({"logit_softcap", "sequence_temperatures", "top_k", "top_p",
                                       "teacher_topk", "teacher_hidden", "predictions"});
  const CaseKey* key = first_set_key(spec, keys);
  if (key == nullptr) return std::nullopt;
  return fmt::format("{} = {} belongs to a vocabulary, and head = {} has none", key->name,
                     key->get(spec), head);
}

Refusal keys_of_drawn_lengths(const CaseSpec& spec) {
  const CaseSpec unset;
  if (!has_explicit_lengths(spec)) return std::nullopt;
  if (spec.seqs == unset.seqs && spec.seq_len == unset.seq_len) return std::nullopt;
  return fmt::format("seqs and seq_len belong to a distribution, and lens = {} gives the lengths",
                     spec.lens);
}

Refusal products_of_hidden_states(const CaseSpec& spec) {
  return spec.hidden > 0 ? projection_refusal(spec) : std::nullopt;
}

Refusal products_of_a_teacher(const CaseSpec& spec) {
  if (spec.teacher_hidden == 0) return std::nullopt;
  CaseSpec teacher = case_of_teacher_projection(spec);
  if (teacher.dtype == DType::f64) teacher.dtype = DType::f32;
  return projection_refusal(teacher);
}

Refusal subnormal_numbers(const CaseSpec& spec) {
  if (spec.values != Values::denormal || spec.dtype != DType::f64) return std::nullopt;
  return "values = denormal needs dtype = f32 or bf16: float64 holds its values normally";
}

constexpr auto kRules = std::to_array<CaseRule>({
    {"hidden_values, weight_layout, tied_embedding, lm_head_bias: with hidden > 0 alone",
     keys_of_the_lm_head},
    {"teacher_topk: at most vocab, and not with teacher_hidden", keys_of_a_teacher},
    {"top_k: at most vocab; filtered_targets = zero: with top_k or top_p", keys_of_a_sampler},
    {"head = value, head = score: vocab = 1, and no soft-cap, filter, teacher, predictions or "
     "temperatures of sequences",
     keys_of_a_vocabulary},
    {"seqs, seq_len: not with the lengths themselves in lens", keys_of_drawn_lengths},
    {"values = denormal: not with dtype = f64", subnormal_numbers},
    {"hidden > 0: not with dtype = f64, nor values that no product of hidden states and weight "
     "has; "
     "hidden_values = one_hot: hidden = vocab and values = normal",
     products_of_hidden_states},
    {"teacher_hidden = 1: not with values that shift logits", products_of_a_teacher},
});

}  // namespace

std::span<const CaseRule> case_rules() {
  return kRules;
}

std::optional<std::string> first_refusal(const CaseSpec& spec) {
  for (const CaseRule& rule : kRules) {
    if (auto refusal = rule.refusal(spec)) return refusal;
  }
  return std::nullopt;
}

void require_case_rules(const CaseSpec& spec) {
  if (const auto refusal = first_refusal(spec)) throw_bad_input("{}", *refusal);
}

CaseSpec case_of_teacher_projection(CaseSpec spec) {
  const CaseSpec unset;
  spec.hidden = spec.teacher_hidden;
  spec.hidden_values = unset.hidden_values;
  spec.lm_head_bias = unset.lm_head_bias;
  spec.logit_scale = unset.logit_scale;
  spec.logit_softcap = unset.logit_softcap;
  spec.temperature = unset.temperature;
  spec.sequence_temperatures = unset.sequence_temperatures;
  if (!has_projection(spec.values)) spec.values = Values::normal;
  return spec;
}

}  // namespace lossgrid
