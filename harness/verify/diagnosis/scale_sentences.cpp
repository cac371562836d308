// SPDX-License-Identifier: Apache-2.0
#include "harness/verify/diagnosis/scale_sentences.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>

#include <fmt/format.h>

#include "harness/core/text.h"

namespace lossgrid {
namespace {

constexpr double kSame = 1e-3;
constexpr std::int64_t kEnough = 8;  // fewest elements that must agree on a factor

bool is_one(double scale) {
  return std::abs(scale - 1) <= kSame;
}

/// Returns "2.000", "1.00004", "0.000125".
std::string format_factor(double factor) {
  if (std::abs(factor - 1) < 5e-3) return fmt::format("{:.9g}", factor);
  const double size = std::abs(factor);
  return size >= 0.01 && size < 1000 ? fmt::format("{:.3f}", factor)
                                     : fmt::format("{:.4g}", factor);
}

constexpr const char* kLoss = "loss";

/// Loss and gradients that are the same multiple of their truth.
struct Multiple {
  std::vector<std::string> names;  // "loss", "grad_logits"
  double factor = 1;
  bool has_loss = false;
  bool has_gradient = false;
};

/// Returns the factor of the loss, a single number, for which an arbitrary factor is no evidence.
std::optional<double> loss_factor(const FailureFacts& facts) {
  if (!facts.loss || facts.loss->want == 0 || !std::isfinite(facts.loss->got)) return std::nullopt;
  return facts.loss->got / facts.loss->want;
}

FailedElements failed_elements(const GradientFacts& gradient) {
  FailedElements all;
  for (const GradientPart& part : gradient.parts) all.add(part.failed);
  return all;
}

/// True if elements are `scale` times their truth. If no element failed, only the sum over all
/// elements is off.
bool are_multiples(const FailedElements& failed, double scale) {
  if (failed.count == 0) return true;
  const std::optional<double> factor = failed.common_factor();
  return factor &&
         std::abs(*factor - scale) <= std::max(kSame * std::abs(scale - 1), 2 * failed.roundoff);
}

/// Returns c if the whole gradient is c times its truth.
std::optional<double> whole_factor(const GradientFacts& gradient) {
  const std::optional<double> scale = gradient.sums.scale();
  if (!gradient.failed || !gradient.bias_failed || !scale) return std::nullopt;
  return are_multiples(failed_elements(gradient), *scale) ? scale : std::nullopt;
}

/// Appends `next`; after a question `next_sentence`.
std::string joined(const std::string& text, std::string_view next, std::string_view next_sentence) {
  return text + std::string(text.ends_with('?') ? next_sentence : next);
}

/// True if each size occurs in the factor no more often than a declaration allows.
bool may_declare(const ScaleFactor& factor) {
  constexpr int kMost = 4;
  return std::max({std::abs(factor.dp), std::abs(factor.cp), std::abs(factor.n_mb)}) <= kMost;
}

/// Appends `; gradient="summed_over_cp" or scale="cp" would declare it`: words that are not
/// declared yet. A scale applies to both loss and gradient, so it cannot declare a factor of only
/// one.
std::string with_declarations(const std::string& text, const Multiple& multiple,
                              const ScaleSuspect& suspect, const DeclaredWords& declared) {
  if (!suspect.has_word || multiple.factor < 0) return text;
  std::vector<std::string> words;
  const bool is_gather = suspect.name == "cp" && multiple.has_gradient && !multiple.has_loss;
  if (is_gather && declared.may_sum_over_cp) words.push_back("gradient=\"summed_over_cp\"");
  const ScaleFactor whole = declared.scale * suspect.factor;
  const bool is_scale = multiple.has_gradient && (multiple.has_loss || !declared.returns_loss);
  if (is_scale && may_declare(whole)) {
    words.push_back(fmt::format("scale=\"{}\"", format_scale(whole)));
  }
  if (words.empty()) return text;
  return joined(text, "; ", " ") + join(words, " or ") + " would declare it";
}

/// Returns ", which cp = 2 would explain: a sum over CP ...?".
std::string explained_by(const ScaleSuspect& suspect) {
  return fmt::format(", which {} = {:.4g} would explain{}{}", suspect.name, suspect.value,
                     suspect.mistake.empty() ? "" : ": ", suspect.mistake);
}

/// Returns the factor of the failed loss or of the whole gradient `name`; nullopt without a factor.
std::optional<double> whole_factor(const FailureFacts& facts, const std::string& name) {
  if (name == kLoss) return loss_factor(facts);
  for (const GradientFacts& gradient : facts.gradients) {
    if (gradient.name == name) return whole_factor(gradient);
  }
  return std::nullopt;
}

/// Returns the simplest suspects that make the factor both here and in the second size. Several
/// suspects, as on a job with too few ranks for other sizes, are no cause.
std::vector<ScaleSuspect> common_suspects(const Multiple& multiple, const FailureFacts& facts,
                                          const FailureFacts* second) {
  if (second == nullptr) return {};
  std::vector<ScaleSuspect> suspects = scale_suspects(multiple.factor, facts.sizes);
  for (const std::string& name : multiple.names) {
    const std::optional<double> factor = whole_factor(*second, name);
    if (!factor || (*factor < 0) != (multiple.factor < 0)) return {};
    const std::vector<ScaleSuspect> there = scale_suspects(*factor, second->sizes);
    std::erase_if(suspects, [&](const ScaleSuspect& one) {
      return std::none_of(there.begin(), there.end(),
                          [&](const ScaleSuspect& other) { return other.name == one.name; });
    });
  }
  return simplest(std::move(suspects));
}

/// True if loss and gradients are the same multiple in the second size.
bool is_constant(const Multiple& multiple, const FailureFacts* second) {
  return second != nullptr &&
         std::all_of(multiple.names.begin(), multiple.names.end(), [&](const std::string& name) {
           const std::optional<double> factor = whole_factor(*second, name);
           return factor &&
                  std::abs(*factor - multiple.factor) <= kSame * std::abs(multiple.factor - 1);
         });
}

std::string scale_sentence(const Multiple& multiple, const std::vector<ScaleSuspect>& suspects,
                           const FailureFacts* second, const DeclaredWords& declared) {
  const std::string what =
      fmt::format("{} {}", join(multiple.names, " and "), multiple.names.size() > 1 ? "are" : "is");
  if (multiple.factor == 0) return what + " 0: nothing flows back?";
  std::string out = fmt::format("{} {} x the truth", what, format_factor(multiple.factor));
  if (multiple.factor < 0) out += ": the other sign";
  if (suspects.size() == 1) {
    out += explained_by(suspects[0]);
    return declared.is_external ? with_declarations(out, multiple, suspects[0], declared) : out;
  }
  if (suspects.empty() && !is_one(-multiple.factor) && is_constant(multiple, second)) {
    out += ", as it is with other sizes: a constant factor?";
  }
  return out;
}

/// True if some size makes `factor`.
bool has_known_factor(double factor, const TrialSizes& sizes) {
  return is_one(-factor) || !scale_suspects(factor, sizes).empty();
}

/// Sums over parts with the same key, and their rows that take part in the loss.
struct PartSums {
  BiasSums sums;
  FailedElements failed;
  std::int64_t trained_rows = 0;  // rows of one tp rank, as all tp ranks have the same rows
};

template <typename Key>
auto sums_by(const GradientFacts& gradient, Key&& key) {
  std::map<decltype(key(PartPlace())), PartSums> sums;
  for (const GradientPart& part : gradient.parts) {
    PartSums& group = sums[key(part.place)];
    group.sums.add(part.sums);
    group.failed.add(part.failed);
    if (part.place.tp == 0) group.trained_rows += part.trained_rows;
  }
  return sums;
}

/// Returns the scales of the parts along one axis; empty unless each scale is 0, 1 or a known
/// factor and the scales differ.
std::map<int, double> clean_scales(const GradientFacts& gradient, const PartAxis& axis,
                                   const TrialSizes& sizes) {
  std::map<int, double> scales;
  bool differ = false;
  for (const auto& [number, part] :
       sums_by(gradient, [&](const PartPlace& place) { return place.*axis.at; })) {
    const std::optional<double> scale = part.sums.scale();
    if (!scale) continue;
    if (!are_multiples(part.failed, *scale)) return {};
    if (std::abs(*scale) > kSame && !is_one(*scale) && !has_known_factor(*scale, sizes)) return {};
    scales[number] = *scale;
    differ = differ || std::abs(*scale - scales.begin()->second) > 10 * kSame;
  }
  return differ ? scales : std::map<int, double>();
}

/// Adds "grad_logits is 0 x the truth on tp rank 1, 1 x the truth on tp rank 0".
bool add_by_axis(const GradientFacts& gradient, const TrialSizes& sizes,
                 std::vector<std::string>& out) {
  for (const PartAxis& axis : kPartAxes) {
    std::map<std::string, std::vector<int>> numbers;
    for (const auto& [number, scale] : clean_scales(gradient, axis, sizes)) {
      const bool none = std::abs(scale) <= kSame;
      numbers[none ? "0" : is_one(scale) ? "1" : format_factor(scale)].push_back(number);
    }
    if (numbers.empty()) continue;
    std::vector<std::string> texts;
    for (const auto& [scale, where] : numbers) {
      texts.push_back(fmt::format("{} x the truth on {}", scale, numbered(axis.name, where)));
    }
    out.push_back(fmt::format("{} is {}", gradient.name, join(texts, ", ")));
    return true;
  }
  return false;
}

/// Adds a sentence if the parts differ in scale but agree in scale times trained rows.
template <typename Sums>
bool add_own_means(const std::string& name, const Sums& parts, const char* part_name,
                   std::vector<std::string>& out) {
  std::vector<double> scales;
  std::vector<double> products;
  for (const auto& [key, part] : parts) {
    const std::optional<double> scale = part.sums.scale();
    if (!scale || part.trained_rows == 0) continue;
    if (!are_multiples(part.failed, *scale)) return false;
    scales.push_back(*scale);
    products.push_back(*scale * static_cast<double>(part.trained_rows));
  }
  if (scales.size() < 2) return false;
  const auto [least, most] = std::minmax_element(scales.begin(), scales.end());
  const auto [low, high] = std::minmax_element(products.begin(), products.end());
  if (*least <= 0 || *most - *least <= 10 * kSame || *high - *low > kSame * *high) return false;
  out.push_back(
      fmt::format("{} is {} to {} x the truth from {} to {}, in inverse proportion to the valid "
                  "tokens of each: a mean over the own tokens of each?",
                  name, format_factor(*least), format_factor(*most), part_name, part_name));
  return true;
}

bool add_own_means(const GradientFacts& gradient, std::vector<std::string>& out) {
  const auto by_rank = sums_by(gradient, [](const PartPlace& place) {
    return std::tuple(place.dp, place.microbatch, place.cp);
  });
  const auto by_microbatch = sums_by(
      gradient, [](const PartPlace& place) { return std::tuple(place.dp, place.microbatch); });
  return add_own_means(gradient.name, by_microbatch, "microbatch", out) ||
         add_own_means(gradient.name, by_rank, "rank", out);
}

void add_gradient(const GradientFacts& gradient, const TrialSizes& sizes,
                  std::vector<Multiple>& multiples, std::vector<std::string>& out) {
  if (!gradient.failed || !gradient.sums.scale()) return;
  if (const std::optional<double> factor = whole_factor(gradient)) {
    const auto same = std::find_if(multiples.begin(), multiples.end(), [&](const Multiple& other) {
      return std::abs(other.factor - *factor) <= kSame * std::abs(*factor);
    });
    if (same == multiples.end()) {
      multiples.push_back({{gradient.name}, *factor, false, true});
    } else {
      same->names.push_back(gradient.name);
      same->has_gradient = true;
    }
    return;
  }
  const FailedElements failed = failed_elements(gradient);
  const std::optional<double> factor = failed.common_factor();
  if (add_by_axis(gradient, sizes, out) || add_own_means(gradient, out)) return;
  if (2 * failed.zero > failed.count) {
    out.push_back(fmt::format("{} of {} of {} are 0", failed.zero,
                              counted(failed.count, "wrong element"), gradient.name));
  } else if (factor && failed.count >= kEnough) {
    out.push_back(fmt::format("all {} of {} are {} x the truth",
                              counted(failed.count, "wrong element"), gradient.name,
                              format_factor(*factor)));
  }
}

}  // namespace

void add_scales(const FailureFacts& facts, const FailureFacts* second,
                const DeclaredWords& declared, std::vector<std::string>& out) {
  std::vector<Multiple> multiples;
  if (const auto factor = loss_factor(facts)) multiples.push_back({{kLoss}, *factor, true, false});
  for (const GradientFacts& gradient : facts.gradients) {
    add_gradient(gradient, facts.sizes, multiples, out);
  }
  for (const Multiple& multiple : multiples) {
    const std::vector<ScaleSuspect> suspects = common_suspects(multiple, facts, second);
    const bool is_known = is_one(-multiple.factor) || !suspects.empty();
    if (!multiple.has_gradient && !is_known && !is_constant(multiple, second)) continue;
    out.push_back(scale_sentence(multiple, suspects, second, declared));
  }
}

}  // namespace lossgrid
