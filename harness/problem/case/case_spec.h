// SPDX-License-Identifier: Apache-2.0
// `CaseSpec`: description of one computation (objective, packed batch, sizes, dtypes, values,
// seed). A value type with a one-line text form of key=value, the same keys as in suite JSON.
// parse(format(x)) == x; keys at their default are left out of the text.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "harness/core/dtype.h"

namespace lossgrid {

/// Kind of an objective with its options, named like the options of NeMo-RL's loss configurations.
/// Option values are kept as JSON text ("0.2", "true", "\"k3\"").
struct ObjectiveSpec {
  std::string kind = "nll";
  std::map<std::string, std::string> options;
  friend bool operator==(const ObjectiveSpec&, const ObjectiveSpec&) = default;
};

/// Value regime of the logits, or of the products that hidden states and weight make.
enum class Values {
  normal,         // scale * N(0, 1)
  flat,           // scale * 1e-3 * N(0, 1): near-uniform probabilities
  peaked,         // N(0, 1) with the target at p_y = 0.9, 0.99, 0.999, 1 - 1e-5, 1 - 1e-7 by row
  all_negative,   // -200 + scale * N(0, 1)
  offset,         // a common offset on N(0, 1): 1e4, and 256 for bf16
  overflow,       // 100 * scale * N(0, 1): exp overflows unless the maximum is subtracted
  ties,           // one of 0, 1, 2: equal maxima in many places
  masked_vocab,   // N(0, 1) with -inf in the second quarter of the vocabulary and every 7th column
  edge_mass,      // N(0, 1) with most of the mass on the first and last columns of shards
  vanishing,      // N(0, 1) with odd columns so low that exp(x - max) is subnormal in float32
  denormal,       // 1e-39 * N(0, 1), subnormal in f32 and bf16, not for f64: near-uniform
  finite_mask,    // like masked_vocab, with -1e30 instead of -inf
  late_max,       // N(0, 1) with the first 1024 columns 50 lower, or V / 2 columns if V < 2048
  lowest_mask,    // like masked_vocab, with the lowest number of the dtype instead of -inf
  far_offset,     // -1e12 + N(0, 1): the logits of a row differ only in float64
  buried_target,  // N(0, 1) with the target of every third row at -1e30
  impossible_target,  // N(0, 1) with the target of every third row at -inf
};

/// Lengths in the cu_seqlens for implementations.
enum class CuMode {
  true_lengths,    // "true": cu_seqlens holds true lengths, cu_seqlens_padded the padded ones
  padded_lengths,  // "padded": both hold padded lengths, and only the mask removes pads
};

/// Number in slots that must not be read.
enum class Poison { nan, inf, none };

/// Distance of previous, generation and reference log-probabilities from the current ones.
enum class Drift { near, far, equal, far_prev, edge };

/// Rows of hidden states: N(0, 1), or 1 at the place of the row's own id and 0 elsewhere. One-hot
/// rows need H = V and make logits = weight^T[ids] / temperature: a bigram model.
enum class HiddenValues { normal, one_hot };

/// Treatment of targets outside of the kept set of their row (sampling_mask.h), whose
/// log-probability is -inf.
enum class FilteredTargets {
  drop,  // targets are masked, and no denominator counts them
  zero,  // targets stay, with log-probability 0 and no gradient, as in NeMo-RL
};

/// Last layer of the model. A head without a vocabulary returns one number per row, as if it had
/// one id, and every TP rank holds the whole head.
enum class Head {
  lm,     // logits of a vocabulary, whose softmax predicts the next token
  value,  // row t has the value of the state before token t + 1
  score,  // row t has the score of the tokens up to t; the score of a sequence is that of its last
          // masked token
};

/// Storage order of a vocab shard of the lm_head: [V_t, H], with one row per id, or [H, V_t].
enum class WeightLayout { vocab_hidden, hidden_vocab };

inline constexpr std::string_view kNoFramework = "none";
inline constexpr std::string_view kOfPreset = "preset";

/// Convention of a training framework, as text; framework.h defines its meaning.
struct FrameworkSpec {
  std::string preset{kNoFramework};
  // Each member replaces the preset's part of the same name, unless it is kOfPreset.
  std::string loss{kOfPreset};
  std::string schedule{kOfPreset};
  std::string gather{kOfPreset};
  std::string dp_reduction{kOfPreset};
  std::string metrics{kOfPreset};
  std::string counts{kOfPreset};
  friend bool operator==(const FrameworkSpec&, const FrameworkSpec&) = default;
};

/// One case. Every member except `name` is a key of the text form.
struct CaseSpec {
  std::string name;  // label, part of neither the computation nor the text form
  ObjectiveSpec objective;

  // Lengths: explicit "5+8+1+3", or "uniform", "lognormal", "upstream" with seqs and seq_len.
  // uniform: 1 .. seq_len; lognormal: median seq_len / 4, sigma 0.8, clipped to 1 .. seq_len;
  // upstream: S/4, S/2, S/3, 3S/4 in turn. With explicit lengths, seqs and seq_len are refused.
  std::string lens = "upstream";
  std::int64_t seqs = 4;
  std::int64_t seq_len = 512;
  std::int64_t pad_multiple = 1;  // multiple of every padded length, like the grid's
  std::int64_t bin_multiple = 1;  // multiple of the pack's length; the last sequence is stretched
  CuMode cu = CuMode::true_lengths;

  // "all", "ragged" (70 % of the tokens), "response" (a suffix), "prompt16" (all but the first 16
  // tokens of a sequence), "sparse" (5 %, at least one), or explicit bits by sequence
  // "01101+1111+0+111". A first token is never a target, so its bit has no effect.
  std::string mask = "ragged";
  std::string sample_mask = "ones";    // "ones", "alternate" (1 0 1 0 ..), or bits "1011"
  std::string targets = "random";      // or "shard_edges"
  std::int64_t global_valid_toks = 0;  // denominator of the global batch; 0: counted from the masks
  std::int64_t global_valid_seqs = 0;

  Head head = Head::lm;
  std::int64_t vocab = 512;  // 1 without a vocabulary
  // H > 0: the batch starts from hidden states [T, H] and the lm_head's weight; 0: from logits.
  std::int64_t hidden = 0;
  HiddenValues hidden_values = HiddenValues::normal;
  // Map of logits x, or hidden weight^T, to logits of the softmax (logit_transform.h): softcap
  // tanh(scale x / softcap) / temperature, or scale x / temperature for softcap 0.
  double logit_scale = 1;
  double logit_softcap = 0;
  double temperature = 1;
  bool sequence_temperatures = false;  // every sequence has its own temperature in addition
  // Filters of a sampler on the transformed logits (sampling_mask.h), top_k first.
  std::int64_t top_k = 0;  // 0: no filter
  double top_p = 1;        // 1: none
  FilteredTargets filtered_targets = FilteredTargets::drop;
  std::int64_t teacher_topk = 0;  // ids per row with given logits of a teacher; 0: all ids
  // N > 0: a teacher's logits are the product of its given hidden states [T, N] and weight [V, N];
  // 0: its logits are given.
  std::int64_t teacher_hidden = 0;
  WeightLayout weight_layout = WeightLayout::vocab_hidden;
  // True if the weight is also the weight of the input embedding: its gradient buffer already holds
  // the embedding's part, to which the loss's part is added.
  bool tied_embedding = false;
  bool lm_head_bias = false;  // the LM head has a bias [V]: logits = hidden weight^T + bias
  DType dtype = DType::f32;
  Values values = Values::normal;
  double scale = 1.0;
  Drift drift = Drift::near;
  Poison poison = Poison::nan;    // number in logits and inputs that must not be read
  std::int64_t microbatches = 1;  // packs of every dp rank
  bool statistics = true;         // with entropy and statistics of a step
  bool predictions = false;       // with sum_p2, top1, mean_logit and their metrics
  FrameworkSpec framework;
  std::uint64_t seed = 42;

  /// Compares all members except `name`.
  friend bool operator==(const CaseSpec& a, const CaseSpec& b);
};

/// Returns the distance in tokens from a row to the token that its number belongs to: 1, or 0 for a
/// score.
constexpr int tokens_ahead(Head head) {
  return head == Head::score ? 0 : 1;
}

/// Returns one line, keys in declaration order, defaults left out ("vocab=96 lens=5+8+1+3"). An
/// objective option is written objective.NAME=VALUE with VALUE in JSON; in input, a bare word
/// stands for a string. The default case is "objective=nll".
std::string format_case(const CaseSpec& spec);

/// Reads the text form; arrays are not allowed here. Throws bad_input that names the key (with the
/// nearest known one) and the rule.
CaseSpec parse_case(std::string_view text);

/// Reads the text form with arrays `key=[a,b]`: the product of all arrays, the last key fastest.
std::vector<CaseSpec> parse_sweep(std::string_view text);

/// Reads a JSON object of the same keys, where an array as value is a sweep. "name" is allowed
/// here; the names of swept cases end in the swept values ("C0 dtype=bf16"). `where` names the file
/// and entry for messages.
std::vector<CaseSpec> cases_from_json(const nlohmann::ordered_json& object,
                                      const std::string& where);

/// Returns every key with its value as JSON, defaults included, in declaration order (for reports).
nlohmann::ordered_json case_to_json(const CaseSpec& spec);

}  // namespace lossgrid
