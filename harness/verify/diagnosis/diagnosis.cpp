// SPDX-License-Identifier: Apache-2.0
#include "harness/verify/diagnosis/diagnosis.h"

#include <algorithm>
#include <cmath>
#include <iterator>

#include <fmt/format.h>

#include "harness/core/text.h"
#include "harness/verify/diagnosis/scale_sentences.h"

namespace lossgrid {
namespace {

using Sentences = std::vector<std::string>;

template <typename Parts>
std::vector<PartPlace> all_places(const Parts& parts) {
  std::vector<PartPlace> places;
  for (const auto& part : parts) places.push_back(part.place);
  return places;
}

/// Returns a clause about the rows with NaN that have -inf logits, ": all of them with -inf logits;
/// ..."; empty without such rows.
std::string beside_minus_inf(const std::vector<std::int64_t>& nan_rows,
                             const std::vector<std::int64_t>& minus_inf_rows) {
  if (nan_rows == minus_inf_rows) {
    return ": those with -inf logits and no others; 0 * inf, or inf - inf?";
  }
  std::vector<std::int64_t> both;
  std::set_intersection(nan_rows.begin(), nan_rows.end(), minus_inf_rows.begin(),
                        minus_inf_rows.end(), std::back_inserter(both));
  if (both.empty()) return "";
  if (both.size() == nan_rows.size()) {
    return ": all of them with -inf logits; 0 * inf, or inf - inf?";
  }
  return fmt::format(": {} with -inf logits and {} without; the NaN of a row reaches others?",
                     both.size(), nan_rows.size() - both.size());
}

/// Returns the cause of a NaN that other trials show, as a sentence; empty if they show no cause.
std::string cause_of_nan(const FailureFacts& facts) {
  if (!facts.nan_trials) return "";
  if (!facts.nan_trials->without_poison) {
    return "there is no NaN where masked rows hold plausible numbers: values of masked rows, or of "
           "rows that predict nothing, take part?";
  }
  if (facts.nan_trials->second_size) return "";
  if (facts.has_minus_inf_padding) {
    return "there is no NaN where no rank holds padding columns: those of "
           "vocab_split=\"padded:-inf\", 0 * inf or inf - inf?";
  }
  if (facts.untrained.empty()) return "";
  std::vector<std::string> places;
  for (const PartPlace& place : facts.untrained) {
    places.push_back(fmt::format("cp rank {} of dp rank {} in microbatch {}", place.cp, place.dp,
                                 place.microbatch));
  }
  return fmt::format("there is no NaN where every rank has trained tokens, and {} has none: 0 / 0?",
                     join(places, ", "));
}

void add_cause_of_nan(const FailureFacts& facts, Sentences& out) {
  if (!has_nan(facts)) return;
  if (std::string cause = cause_of_nan(facts); !cause.empty()) out.push_back(std::move(cause));
}

void add_nan_logprobs(const FailureFacts& facts, Sentences& out) {
  FailedLogprobs all;
  std::vector<PartPlace> with_nan;
  for (const LogprobPart& part : facts.logprobs) {
    all.add(part.failed);
    if (!part.failed.nan_rows.empty()) with_nan.push_back(part.place);
  }
  if (all.nan_rows.empty()) return;
  out.push_back(fmt::format("log-probabilities are NaN in {}{}{}",
                            counted(std::ssize(all.nan_rows), "row"),
                            on_some_only(with_nan, all_places(facts.logprobs)),
                            beside_minus_inf(all.nan_rows, facts.minus_inf_rows)));
}

void add_nan_loss(const FailureFacts& facts, Sentences& out) {
  if (!facts.loss || !std::isnan(facts.loss->got)) return;
  for (const LogprobPart& part : facts.logprobs) {
    if (part.failed.count > 0) return;
  }
  out.push_back("loss is NaN, and no log-probability that has a truth is wrong");
}

void add_nan_gradient(const GradientFacts& gradient, const FailureFacts& facts, Sentences& out) {
  FailedElements all;
  std::vector<PartPlace> with_nan;
  for (const GradientPart& part : gradient.parts) {
    all.add(part.failed);
    if (part.failed.nan > 0) with_nan.push_back(part.place);
  }
  if (all.nan == 0 || gradient.not_written) return;
  out.push_back(fmt::format(
      "{} has NaN in {} of {}{}{}", gradient.name, counted(all.nan, "element"),
      counted(std::ssize(all.nan_rows),
              gradient.name == "grad_weight" || gradient.name == "grad_bias" ? "vocab id" : "row"),
      on_some_only(with_nan, all_places(gradient.parts)),
      beside_minus_inf(all.nan_rows, facts.minus_inf_rows)));
}

/// Adds the mistake that explains most of the wrong log-probabilities, and further mistakes for the
/// rest. Each must explain a quarter of the rows that it would change: a number that fits to within
/// roundings is no coincidence. Returns true if a mistake was added.
bool add_mistakes(const FailedLogprobs& all, bool external, Sentences& out) {
  std::vector<std::size_t> order;
  for (std::size_t k = 0; k < all.mistakes.size(); ++k) {
    const MistakeTally& tally = all.mistakes[k];
    if (tally.fits > 0 && 4 * tally.fits >= tally.tried) order.push_back(k);
  }
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return all.mistakes[a].fits > all.mistakes[b].fits;
  });
  std::int64_t left = all.differences;
  for (const std::size_t k : order) {
    const MistakeTally& tally = all.mistakes[k];
    if (k != order.front() && tally.fits > left) continue;
    left -= tally.fits;
    std::string sentence =
        fmt::format("of {} where it would show, {} {} would be {}",
                    counted(tally.tried, "wrong log-probability"), tally.fits,
                    tally.fits == 1 ? "is what it" : "are what they", kLogprobMistakes[k].would_be);
    if (external) sentence += kLogprobMistakes[k].declaration;
    out.push_back(std::move(sentence));
  }
  return !order.empty();
}

/// True if the difference is the same in all rows.
bool has_one_difference(const FailedLogprobs& all) {
  constexpr std::int64_t kEnough = 3;
  constexpr double kSpread = 1e-3;
  const double size = std::max(std::abs(all.smallest_difference), std::abs(all.largest_difference));
  return all.differences >= kEnough && all.differences == all.count &&
         all.largest_difference - all.smallest_difference <= kSpread * size;
}

void add_logprobs(const FailureFacts& facts, bool external, Sentences& out) {
  FailedLogprobs all;
  std::vector<PartPlace> wrong;
  for (const LogprobPart& part : facts.logprobs) {
    all.add(part.failed);
    if (part.failed.count > 0) wrong.push_back(part.place);
  }
  const auto that_are = [](std::int64_t count) {
    return fmt::format("{} {}", counted(count, "log-probability"), count == 1 ? "is" : "are");
  };
  if (all.not_written > 0) out.push_back(that_are(all.not_written) + " not written");
  if (!add_mistakes(all, external, out)) {
    if (has_one_difference(all)) {
      out.push_back(fmt::format(
          "log-probabilities are off by {:.4g} in every wrong row: something that is the same for "
          "all rows is added or left out?",
          all.largest_difference));
    }
    if (all.positive > 0) {
      out.push_back(that_are(all.positive) + " above 0: the sum of exponentials lacks terms?");
    }
  }
  const std::string where = on_some_only(wrong, all_places(facts.logprobs));
  const bool beside_nan = all.differences + all.not_written > 0;
  if (beside_nan && !where.empty()) out.push_back("log-probabilities are wrong" + where);
}

/// Adds the mistakes that explain most of the wrong entropies on rows that they would change,
/// unless log-probabilities are wrong as well; and the places, if only some have wrong entropies.
void add_entropies(const FailureFacts& facts, Sentences& out) {
  FailedEntropies all;
  std::vector<PartPlace> wrong;
  for (const EntropyPart& part : facts.entropies) {
    all.add(part.failed);
    if (part.failed.count > 0) wrong.push_back(part.place);
  }
  const bool logprobs_fail =
      std::any_of(facts.logprobs.begin(), facts.logprobs.end(),
                  [](const LogprobPart& part) { return part.failed.count > 0; });
  if (all.count == 0 || logprobs_fail) return;
  const auto best = std::max_element(all.mistakes.begin(), all.mistakes.end(),
                                     [](const auto& a, const auto& b) { return a.fits < b.fits; });
  if (2 * best->fits > best->tried) {
    out.push_back(fmt::format(
        "of {} where it would show, {} {} would be {}", counted(best->tried, "wrong entropy"),
        best->fits, best->fits == 1 ? "is what it" : "are what they",
        kEntropyMistakes[static_cast<std::size_t>(std::distance(all.mistakes.begin(), best))]));
  }
  const std::string where = on_some_only(wrong, all_places(facts.entropies));
  if (!where.empty()) out.push_back("entropies are wrong" + where);
}

void add_bits(const GradientFacts& gradient, Sentences& out) {
  FailedElements all;
  for (const GradientPart& part : gradient.parts) all.add(part.failed);
  if (!all.are_bf16()) return;
  out.push_back(
      fmt::format("{} holds numbers of bfloat16 in float32, in all {} wrong elements where "
                  "it shows: rounded to bf16 on the way?",
                  gradient.name, all.bits_compared));
}

/// Adds the part of the gradient that each rank's slice contains. Returns true if the slices are
/// such parts.
bool add_slices(const FailureFacts& facts, Sentences& out) {
  if (!facts.slices) return false;
  std::vector<double> token_shares;
  for (const ReplicaFacts& replicas : facts.replicas) token_shares = replicas.token_shares;
  const auto sentence = slice_sentence(*facts.slices, token_shares);
  if (sentence) out.push_back(*sentence);
  return sentence.has_value();
}

}  // namespace

void leave_out(const std::string& name, FailureFacts& facts) {
  if (name == "loss") facts.loss.reset();
  std::erase_if(facts.gradients,
                [&](const GradientFacts& gradient) { return gradient.name == name; });
}

bool has_nan(const FailureFacts& facts) {
  if (facts.loss && std::isnan(facts.loss->got)) return true;
  for (const LogprobPart& part : facts.logprobs) {
    if (!part.failed.nan_rows.empty()) return true;
  }
  for (const GradientFacts& gradient : facts.gradients) {
    for (const GradientPart& part : gradient.parts) {
      if (part.failed.nan > 0) return true;
    }
  }
  return false;
}

std::vector<std::string> explain(const FailureFacts& facts, const FailureFacts* second,
                                 const DeclaredWords& declared) {
  Sentences out;
  add_nan_logprobs(facts, out);
  add_nan_loss(facts, out);
  for (const GradientFacts& gradient : facts.gradients) add_nan_gradient(gradient, facts, out);
  add_cause_of_nan(facts, out);
  add_logprobs(facts, declared.is_external, out);
  add_entropies(facts, out);
  FailureFacts rest = facts;
  for (const ReplicaFacts& replicas : facts.replicas) {
    if (add_replicas(replicas, out)) leave_out(replicas.name, rest);
  }
  if (facts.loss) {
    const auto sentence = microbatch_sentence(facts.losses, facts.loss->got);
    if (sentence) out.push_back(*sentence);
  }
  if (add_slices(facts, out)) {
    leave_out("grad_weight", rest);
  } else if (facts.sequences) {
    if (const auto sentence = sequence_sentence(*facts.sequences)) out.push_back(*sentence);
  }
  for (const GradientFacts& gradient : facts.gradients) add_bits(gradient, out);
  add_scales(rest, second, declared, out);
  return out;
}

}  // namespace lossgrid
