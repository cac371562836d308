// SPDX-License-Identifier: Apache-2.0
#include "harness/problem/case/case_keys.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>
#include <utility>

#include "harness/core/error.h"
#include "harness/core/text.h"

namespace lossgrid {
namespace {

constexpr std::int64_t kMaxMultiple = std::int64_t{1} << 30;
constexpr std::int64_t kMaxSequenceLength = std::int64_t{1} << 40;
constexpr std::int64_t kMaxVocab = 2'147'483'647;
constexpr std::int64_t kMaxMicrobatches = 1024;
// Limit that leaves room for 100 * scale * N(0, 1) in float32 and bf16.
constexpr double kMaxScale = 1e30;

bool is_bits(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return c == '0' || c == '1'; });
}

CaseKey integer_key(const std::string& name, std::int64_t CaseSpec::*member, std::int64_t low,
                    std::int64_t high) {
  return {name, JsonType::number,
          [member](const CaseSpec& spec) { return std::to_string(spec.*member); },
          [name, member, low, high](CaseSpec& spec, std::string_view text) {
            spec.*member = parse_integer(text, name, low, high);
          }};
}

CaseKey boolean_key(const std::string& name, bool CaseSpec::*member) {
  return {name,
          JsonType::boolean,
          [member](const CaseSpec& spec) { return spec.*member ? "true" : "false"; },
          [name, member](CaseSpec& spec, std::string_view text) {
            if (text != "true" && text != "false") {
              throw_bad_input("{} = '{}' is neither true nor false", name, text);
            }
            spec.*member = text == "true";
          },
          {},
          {"true", "false"}};
}

/// Returns a key with any text; `check` throws if a value breaks the key's rule.
CaseKey text_key(const std::string& name, std::string CaseSpec::*member,
                 const std::function<void(std::string_view)>& check) {
  return {name, JsonType::text, [member](const CaseSpec& spec) { return spec.*member; },
          [member, check](CaseSpec& spec, std::string_view text) {
            check(text);
            spec.*member = std::string(text);
          }};
}

template <typename Enum>
CaseKey enum_key(const std::string& name, Enum CaseSpec::*member,
                 const std::vector<std::pair<Enum, std::string>>& values) {
  const auto get = [member, values](const CaseSpec& spec) {
    for (const auto& [value, text] : values) {
      if (value == spec.*member) return text;
    }
    throw Error(ErrorCode::internal, "a case holds an enumerator without a name");
  };
  const auto set = [name, member, values](CaseSpec& spec, std::string_view text) {
    std::vector<std::string> names;
    for (const auto& [value, known] : values) {
      if (known == text) {
        spec.*member = value;
        return;
      }
      names.push_back(known);
    }
    throw_bad_input("{} = '{}' is not one of {}", name, text, join(names, ", "));
  };
  CaseKey key{name, JsonType::text, get, set};
  for (const auto& [value, known] : values) key.draws.push_back(known);
  return key;
}

void check_lens(std::string_view text) {
  if (text == "uniform" || text == "lognormal" || text == "upstream") return;
  if (!text.empty() && text.find_first_not_of("0123456789+-") == std::string_view::npos) {
    parse_lengths(text);
    return;
  }
  throw_bad_input(
      "lens = '{}' is neither lengths such as 5+8+1+3 nor one of uniform, lognormal, upstream",
      text);
}

void check_mask(std::string_view text) {
  if (text == "all" || text == "ragged" || text == "response" || text == "sparse") return;
  if (text.starts_with(kPromptMask)) {
    parse_integer(text.substr(kPromptMask.size()), "the prompt of mask", 0, kMaxTokens);
    return;
  }
  for (const std::string& bits : split(text, '+')) {
    if (text.empty() || !is_bits(bits)) {
      throw_bad_input(
          "mask = '{}' is neither one of all, ragged, response, sparse, prompt16 "
          "nor bits by sequence such as 011+1111",
          text);
    }
  }
}

void check_sample_mask(std::string_view text) {
  if (text == "ones" || text == "alternate") return;
  if (text.empty() || !is_bits(text)) {
    throw_bad_input("sample_mask = '{}' is neither ones, alternate nor bits such as 1011", text);
  }
}

void check_targets(std::string_view text) {
  if (text == "random" || text == "shard_edges") return;
  throw_bad_input("targets = '{}' is neither random nor shard_edges", text);
}

/// Returns the key of the head. It sets the vocabulary of a head without a vocabulary to 1, unless
/// a vocabulary is given.
CaseKey head_key() {
  CaseKey key = enum_key<Head>("head", &CaseSpec::head,
                               {{Head::lm, "lm"}, {Head::value, "value"}, {Head::score, "score"}});
  key.set = [set = key.set](CaseSpec& spec, std::string_view text) {
    set(spec, text);
    if (spec.head != Head::lm && spec.vocab == CaseSpec().vocab) spec.vocab = 1;
  };
  return key;
}

CaseKey scale_key() {
  return {"scale", JsonType::number, [](const CaseSpec& spec) { return format_number(spec.scale); },
          [](CaseSpec& spec, std::string_view text) {
            const double value = parse_number(text, "scale");
            if (value < 0 || value > kMaxScale) {
              throw_bad_input("scale = {} is outside [0, 1e30]", text);
            }
            spec.scale = value == 0 ? 0 : value;  // -0 reads back as 0
          }};
}

/// Returns a key for a factor in [0.001, 1000], of the logits or their temperature.
CaseKey factor_key(const char* key, double CaseSpec::*member) {
  return {key, JsonType::number,
          [member](const CaseSpec& spec) { return format_number(spec.*member); },
          [key, member](CaseSpec& spec, std::string_view text) {
            const double value = parse_number(text, key);
            if (!(value >= 1e-3 && value <= 1e3)) {
              throw_bad_input("{} = {} is outside [0.001, 1000]", key, text);
            }
            spec.*member = value;
          }};
}

CaseKey softcap_key() {
  return {"logit_softcap", JsonType::number,
          [](const CaseSpec& spec) { return format_number(spec.logit_softcap); },
          [](CaseSpec& spec, std::string_view text) {
            const double value = parse_number(text, "logit_softcap");
            if (!(value == 0 || (value >= 1e-3 && value <= 1e6))) {
              throw_bad_input("logit_softcap = {} is neither 0 (none) nor in [0.001, 1e6]", text);
            }
            spec.logit_softcap = value == 0 ? 0 : value;  // -0 reads back as 0
          }};
}

CaseKey top_p_key() {
  return {"top_p", JsonType::number, [](const CaseSpec& spec) { return format_number(spec.top_p); },
          [](CaseSpec& spec, std::string_view text) {
            const double value = parse_number(text, "top_p");
            if (!(value > 0 && value <= 1)) throw_bad_input("top_p = {} is outside (0, 1]", text);
            spec.top_p = value;
          }};
}

CaseKey seed_key() {
  return {"seed", JsonType::number, [](const CaseSpec& spec) { return std::to_string(spec.seed); },
          [](CaseSpec& spec, std::string_view text) {
            std::uint64_t value = 0;
            const char* last = text.data() + text.size();
            const auto [end, status] = std::from_chars(text.data(), last, value);
            if (status != std::errc() || end != last) {
              throw_bad_input("seed = '{}' is not a whole number in [0, 2^64)", text);
            }
            spec.seed = value;
          }};
}

std::vector<CaseKey> make_keys() {
  const std::int64_t most = std::numeric_limits<std::int64_t>::max();
  std::vector<CaseKey> keys;
  const auto add = [&keys](CaseKey key, const char* help, std::vector<std::string> draws = {}) {
    key.help = help;
    if (key.draws.empty()) key.draws = std::move(draws);
    keys.push_back(std::move(key));
  };
  add(text_key("lens", &CaseSpec::lens, check_lens),
      "lengths 5+8+1+3, or uniform, lognormal, upstream (S/4, S/2, S/3, 3S/4) of seqs and seq_len");
  add(integer_key("seqs", &CaseSpec::seqs, 0, kMaxSequences), "sequences of a distribution");
  add(integer_key("seq_len", &CaseSpec::seq_len, 0, kMaxSequenceLength),
      "longest sequence S of a distribution");
  add(integer_key("pad_multiple", &CaseSpec::pad_multiple, 1, kMaxMultiple),
      "sequences are padded to it, beside the 2 cp (times tp with sp) that the grid needs",
      {"2", "3", "8"});
  add(integer_key("bin_multiple", &CaseSpec::bin_multiple, 1, kMaxMultiple),
      "the pack is filled up to it by stretching the last sequence", {"4", "12", "32"});
  add(enum_key<CuMode>("cu", &CaseSpec::cu,
                       {{CuMode::true_lengths, "true"}, {CuMode::padded_lengths, "padded"}}),
      "cu_seqlens with true lengths, or with padded ones and the mask alone removes pads");
  add(text_key("mask", &CaseSpec::mask, check_mask),
      "all, ragged (70 %), response (60 % at the end), prompt16 (all but the first 16), "
      "sparse (5 %), or bits by sequence 0110+111",
      {"all", "response", "sparse", "prompt2"});
  add(text_key("sample_mask", &CaseSpec::sample_mask, check_sample_mask),
      "ones, alternate, or bits 1011", {"alternate"});
  add(text_key("targets", &CaseSpec::targets, check_targets),
      "random ids, or shard_edges: first and last ids of the shards of tp = 2, 4, 8",
      {"shard_edges"});
  add(integer_key("global_valid_toks", &CaseSpec::global_valid_toks, 0, most),
      "valid tokens of the global batch; 0: those of this one", {"500"});
  add(integer_key("global_valid_seqs", &CaseSpec::global_valid_seqs, 0, most),
      "valid sequences of the global batch; 0: those of this one", {"40"});
  add(head_key(),
      "lm, or one number a row, replicated over TP: value (of the state before the next token), "
      "score (of a sequence, at its last masked token)");
  add(integer_key("vocab", &CaseSpec::vocab, 1, kMaxVocab), "vocabulary size, any; 1 without one",
      {"1", "2", "3", "5", "8", "13", "31", "64", "101"});
  add(integer_key("hidden", &CaseSpec::hidden, 0, kMaxHidden),
      "H: start from hidden states [T, H] and the weight of the LM head; 0: from logits",
      {"1", "2", "5", "8", "17"});
  add(enum_key<HiddenValues>(
          "hidden_values", &CaseSpec::hidden_values,
          {{HiddenValues::normal, "normal"}, {HiddenValues::one_hot, "one_hot"}}),
      "of hidden states: normal, or one_hot of the row's id (then H = V: a bigram model)");
  add(factor_key("logit_scale", &CaseSpec::logit_scale), "factor of the logits, before a soft-cap",
      {"0.25", "3"});
  add(softcap_key(), "c of c tanh(logits / c); 0: none", {"0.5", "4", "30"});
  add(factor_key("temperature", &CaseSpec::temperature), "divides the logits, after a soft-cap",
      {"0.6", "1.7"});
  add(boolean_key("sequence_temperatures", &CaseSpec::sequence_temperatures),
      "every sequence has a temperature of its own, drawn in [0.5, 2], beside it: true, false");
  add(integer_key("top_k", &CaseSpec::top_k, 0, kMaxVocab),
      "the softmax is over the ids whose z is at least the k-th largest of the row; 0: over all",
      {"1", "2", "6"});
  add(top_p_key(), "then over the most probable of these that add up to p; 1: over all of them",
      {"0.5", "0.9"});
  add(enum_key<FilteredTargets>("filtered_targets", &CaseSpec::filtered_targets,
                                {{FilteredTargets::drop, "drop"}, {FilteredTargets::zero, "zero"}}),
      "targets that top_k and top_p leave out: drop masks them, zero keeps them with the "
      "log-probability 0 and no gradient");
  add(integer_key("teacher_topk", &CaseSpec::teacher_topk, 0, kMaxVocab),
      "of distill: the teacher's logits of its k most probable ids alone; 0: of all",
      {"1", "2", "6"});
  add(integer_key("teacher_hidden", &CaseSpec::teacher_hidden, 0, kMaxHidden),
      "of distill: the teacher's hidden states of this size and its weight, whose product its "
      "logits are; 0: its logits",
      {"2", "7"});
  add(enum_key<WeightLayout>("weight_layout", &CaseSpec::weight_layout,
                             {{WeightLayout::vocab_hidden, "vocab_hidden"},
                              {WeightLayout::hidden_vocab, "hidden_vocab"}}),
      "of the LM head: vocab_hidden [V, H], hidden_vocab [H, V]");
  add(boolean_key("tied_embedding", &CaseSpec::tied_embedding),
      "the gradient of the weight is added to that of the input embedding: true, false");
  add(boolean_key("lm_head_bias", &CaseSpec::lm_head_bias),
      "the LM head has a bias [V], inside of the product that scale and temperature act on: "
      "true, false");
  add(enum_key<DType>("dtype", &CaseSpec::dtype,
                      {{DType::f64, "f64"}, {DType::f32, "f32"}, {DType::bf16, "bf16"}}),
      "of logits and their gradient, or of hidden states, weight and d hidden "
      "(d weight: f32): f32, bf16, f64 (logits only)");
  add(enum_key<Values>("values", &CaseSpec::values,
                       {{Values::normal, "normal"},
                        {Values::flat, "flat"},
                        {Values::peaked, "peaked"},
                        {Values::all_negative, "all_negative"},
                        {Values::offset, "offset"},
                        {Values::overflow, "overflow"},
                        {Values::ties, "ties"},
                        {Values::masked_vocab, "masked_vocab"},
                        {Values::edge_mass, "edge_mass"},
                        {Values::vanishing, "vanishing"},
                        {Values::denormal, "denormal"},
                        {Values::finite_mask, "finite_mask"},
                        {Values::late_max, "late_max"},
                        {Values::lowest_mask, "lowest_mask"},
                        {Values::far_offset, "far_offset"},
                        {Values::buried_target, "buried_target"},
                        {Values::impossible_target, "impossible_target"}}),
      "normal, flat, peaked, all_negative, offset, overflow, ties, masked_vocab, edge_mass, "
      "vanishing, denormal, finite_mask, late_max, lowest_mask, far_offset, buried_target, "
      "impossible_target");
  add(scale_key(), "standard deviation of the logits where the regime has one",
      {"0.01", "5", "100"});
  add(enum_key<Drift>("drift", &CaseSpec::drift,
                      {{Drift::near, "near"},
                       {Drift::far, "far"},
                       {Drift::equal, "equal"},
                       {Drift::far_prev, "far_prev"},
                       {Drift::edge, "edge"}}),
      "how far other policies are from the current one: near, far (beyond clamps), equal, far_prev "
      "(ratios of e^25 and more), edge (at clip bounds and clamps, and just beside them)");
  add(enum_key<Poison>("poison", &CaseSpec::poison,
                       {{Poison::nan, "nan"}, {Poison::inf, "inf"}, {Poison::none, "none"}}),
      "what stands in logits and inputs that must not be read: nan, inf, none");
  add(integer_key("microbatches", &CaseSpec::microbatches, 1, kMaxMicrobatches),
      "packs that every dp rank goes through, with sequences dealt at random", {"2", "3"});
  add(boolean_key("statistics", &CaseSpec::statistics),
      "entropy and the statistics of a step beside loss and metrics: true, false");
  add(boolean_key("predictions", &CaseSpec::predictions),
      "sum of squared probabilities, token accuracy and mean logit beside them: true, false");
  for (CaseKey& key : framework_keys()) keys.push_back(std::move(key));
  add(seed_key(), "of all random numbers");
  for (CaseKey& key : keys) {
    constexpr auto kKeepNumbers = std::to_array<std::string_view>(
        {"pad_multiple", "bin_multiple", "cu", "weight_layout", "tied_embedding", "poison"});
    key.keeps_numbers =
        std::find(kKeepNumbers.begin(), kKeepNumbers.end(), key.name) != kKeepNumbers.end();
  }
  return keys;
}

}  // namespace

std::span<const CaseKey> case_keys() {
  static const std::vector<CaseKey> keys = make_keys();
  return keys;
}

const CaseKey* find_case_key(std::string_view name) {
  const std::span<const CaseKey> keys = case_keys();
  const auto at = std::find_if(keys.begin(), keys.end(),
                               [name](const CaseKey& key) { return key.name == name; });
  return at == keys.end() ? nullptr : &*at;
}

const std::vector<std::string>& case_key_names() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> out{"objective"};
    for (const CaseKey& key : case_keys()) out.push_back(key.name);
    return out;
  }();
  return names;
}

bool has_explicit_lengths(const CaseSpec& spec) {
  return !spec.lens.empty() && spec.lens[0] >= '0' && spec.lens[0] <= '9';
}

std::vector<std::int64_t> parse_lengths(std::string_view text) {
  std::vector<std::int64_t> lengths;
  for (const std::string& part : split(text, '+')) {
    lengths.push_back(parse_integer(part, "a length in lens", 0, kMaxTokens));
  }
  if (static_cast<std::int64_t>(lengths.size()) > kMaxSequences) {
    throw_bad_input("lens holds {} sequences, more than {}", lengths.size(), kMaxSequences);
  }
  return lengths;
}

}  // namespace lossgrid
