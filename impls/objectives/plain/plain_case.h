// SPDX-License-Identifier: Apache-2.0
// A case as a second judge reads it: raw logits, masks, ids and inputs of a problem, and options as
// texts. Targets, valid tokens, counts, temperatures, kept sets and numbers of rows are recomputed
// plainly from docs/objectives.md. The judge and the implementations share the code that reads
// them, and so agree where it is wrong.
//
// A loss is a function of the numbers of rows, twice: those that have a gradient (`live`) and the
// same numbers where a formula holds them constant (`held`). A gradient is a difference of the loss
// by the first argument.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "harness/problem/batch/problem.h"

namespace lossgrid::plain {

inline constexpr double kInf = std::numeric_limits<double>::infinity();
inline constexpr double kMostFloat = std::numeric_limits<float>::max();

/// Texts of options, with the defaults of docs/objectives.md where they are read.
class Options {
 public:
  explicit Options(std::map<std::string, std::string> texts) : texts_(std::move(texts)) {}

  double number(const std::string& option, double fallback) const {
    const auto found = texts_.find(option);
    return found == texts_.end() ? fallback : std::stod(found->second);
  }
  /// Returns nothing for null.
  std::optional<double> maybe(const std::string& option, std::optional<double> fallback) const {
    const auto found = texts_.find(option);
    if (found == texts_.end()) return fallback;
    if (found->second == "null") return std::nullopt;
    return std::stod(found->second);
  }
  bool flag(const std::string& option, bool fallback = false) const {
    const auto found = texts_.find(option);
    return found == texts_.end() ? fallback : found->second == "true";
  }
  /// Returns a name without its quotes; "null" for none.
  std::string name(const std::string& option, const std::string& fallback) const {
    const auto found = texts_.find(option);
    if (found == texts_.end()) return fallback;
    std::string text = found->second;
    text.erase(std::remove(text.begin(), text.end(), '"'), text.end());
    return text;
  }

 private:
  std::map<std::string, std::string> texts_;
};

/// Numbers of the row that predicts a token.
struct Row {
  double x = 0;             // log-probability
  double entropy = 0;       // - sum p ln p
  double lse = 0;           // ln sum exp z
  double mean_logprob = 0;  // (1 / V) sum ln p
  double sum_p2 = 0;
  double divergence = 0;  // from a teacher
  double value = 0;       // of a head without a vocabulary
  double least = 0;       // of the logits z
  double largest = 0;
  double mean_logit = 0;
  double top1 = 0;  // 1 if the label is the lowest id with the largest logit
};
using Rows = std::vector<Row>;  // of the valid tokens

/// A valid token and its inputs.
struct Token {
  std::int64_t sequence = 0;
  std::int64_t position = 0;  // in its sequence, from 0
  std::int64_t row = 0;       // that predicts it, of the batch without padding
  std::int32_t id = 0;
  double advantage = 0;
  double prev = 0;
  double generation = 0;
  double reference = 0;
  double teacher = 0;
  double returns = 0;
  double old_value = 0;
  double version = 0;

  /// True without a log-probability by the generating policy.
  bool lacks() const { return !std::isfinite(generation); }
};

/// Packs that the loss of `token-mean-legacy` is about.
struct Packs {
  std::vector<std::int64_t> of_sequence;
  std::int64_t count = 0;
};

struct Case {
  explicit Case(const Problem& of, Packs of_case = {})
      : problem(of),
        options(of.spec.objective.options),
        packs(std::move(of_case)),
        sequences(of.sequences()) {
    const bool about_own =
        of.spec.head == Head::score;  // rows of scores are about their own tokens
    std::int64_t first = 0;
    for (std::int64_t i = 0; i < sequences; ++i) {
      trained.push_back(0);
      for (std::int64_t t = 0; t < of.lengths[i]; ++t) {
        if (!about_own && t == 0) continue;  // nothing predicts it
        const std::int64_t at = first + t;
        if (of.token_mask[at] == 0 || of.sample_mask[i] == 0) continue;
        Token token{.sequence = i, .position = t, .row = about_own ? at : at - 1};
        token.id = of.input_ids[at];
        const auto input = [&](TokenInput which) {
          const auto& of_tokens = of.inputs[static_cast<std::size_t>(which)];
          return of_tokens.empty() ? 0.0 : static_cast<double>(of_tokens[at]);
        };
        token.advantage = input(TokenInput::advantages);
        token.prev = input(TokenInput::prev_logprobs);
        token.generation = input(TokenInput::generation_logprobs);
        token.reference = input(TokenInput::reference_policy_logprobs);
        token.teacher = input(TokenInput::teacher_logprobs);
        token.returns = input(TokenInput::returns);
        token.old_value = input(TokenInput::old_values);
        token.version = input(TokenInput::versions);
        if (options.name("nonfinite_generation_logprobs", "refuse") == "drop" && token.lacks()) {
          continue;
        }
        tokens.push_back(token);
        trained.back() += 1;
      }
      first += of.lengths[i];
    }
  }

  /// Returns NaN where there are no rewards, which nothing should read then.
  double reward(std::int64_t i) const {
    if (problem.rewards.empty()) return std::numeric_limits<double>::quiet_NaN();
    return static_cast<double>(problem.rewards[i]);
  }
  /// Returns the sum of the sample mask over the global batch, which a case may state.
  double valid_sequences() const {
    const auto counted =
        std::count(problem.sample_mask.begin(), problem.sample_mask.end(), std::uint8_t{1});
    const std::int64_t stated = problem.spec.global_valid_seqs;
    return static_cast<double>(stated > 0 ? stated : counted);
  }
  /// Returns the valid tokens of the global batch, which a case may state.
  double valid_tokens() const {
    const std::int64_t stated = problem.spec.global_valid_toks;
    return stated > 0 ? static_cast<double>(stated) : static_cast<double>(tokens.size());
  }

  const Problem& problem;
  Options options;
  Packs packs;
  std::int64_t sequences;
  std::vector<Token> tokens;    // the valid ones, in the order of the batch
  std::vector<double> trained;  // [S] valid tokens of each sequence
};

/// Returns what divides the logits of a row.
inline double divisor(const Case& of, const Token& token) {
  const CaseSpec& spec = of.problem.spec;
  return spec.temperature * (spec.sequence_temperatures
                                 ? static_cast<double>(of.problem.temperatures[token.sequence])
                                 : 1.0);
}

/// Returns the logits z of the softmax from the given logits.
inline std::vector<double> transformed(const Case& of, const Token& token,
                                       const std::vector<double>& given) {
  const CaseSpec& spec = of.problem.spec;
  std::vector<double> z;
  for (const double logit : given) {
    const double scaled = spec.logit_scale * logit;
    const double capped = spec.logit_softcap == 0
                              ? scaled
                              : spec.logit_softcap * std::tanh(scaled / spec.logit_softcap);
    z.push_back(capped / divisor(of, token));
  }
  return z;
}

/// Returns the ids that the filters keep: at most k with larger logits before them, then those
/// whose probabilities add up to p, the largest first.
inline std::vector<bool> kept_ids(const CaseSpec& spec, const std::vector<double>& z) {
  std::vector<bool> kept(z.size(), true);
  for (std::size_t v = 0; v < z.size() && spec.top_k > 0; ++v) {
    kept[v] = std::count_if(z.begin(), z.end(), [&](double u) { return u > z[v]; }) < spec.top_k;
  }
  if (spec.top_p == 1) return kept;
  double total = 0;
  for (std::size_t v = 0; v < z.size(); ++v) total += kept[v] ? std::exp(z[v]) : 0;
  const std::vector<bool> by_k = kept;
  for (std::size_t v = 0; v < z.size(); ++v) {
    double before = 0;
    for (std::size_t u = 0; u < z.size(); ++u) {
      if (by_k[u] && (z[u] > z[v] || (z[u] == z[v] && u < v))) before += std::exp(z[u]) / total;
    }
    kept[v] = by_k[v] && before < spec.top_p;
  }
  return kept;
}

/// Returns ln p of the kept ids, -inf of others.
inline std::vector<double> log_softmax(const std::vector<double>& z,
                                       const std::vector<bool>& kept) {
  double most = -kInf;
  double sum = 0;
  for (std::size_t v = 0; v < z.size(); ++v) most = kept[v] ? std::max(most, z[v]) : most;
  for (std::size_t v = 0; v < z.size(); ++v) sum += kept[v] ? std::exp(z[v] - most) : 0;
  std::vector<double> out;
  for (std::size_t v = 0; v < z.size(); ++v) {
    out.push_back(kept[v] ? z[v] - most - std::log(sum) : -kInf);
  }
  return out;
}

}  // namespace lossgrid::plain
