// SPDX-License-Identifier: Apache-2.0
// Case keys that state a framework's convention (framework.h): a preset, and each part of a
// convention, which replaces the preset's part. Parts are kept in their shortest form, so that
// cases of the same convention have the same text.
#include "harness/core/error.h"
#include "harness/core/text.h"
#include "harness/problem/case/case_keys.h"
#include "harness/problem/case/framework.h"

namespace lossgrid {
namespace {

std::string checked_preset(std::string_view text) {
  std::vector<std::string> names{std::string(kNoFramework)};
  for (const FrameworkPreset& preset : framework_presets()) names.push_back(preset.name);
  for (const std::string& name : names) {
    if (name == text) return name;
  }
  throw Error(ErrorCode::bad_input,
              unknown_name_message("framework", text, names) + " (lossgrid list frameworks)");
}

std::string checked_gather(std::string_view text) {
  if (text == "1" || text == "cp") return std::string(text);
  throw_bad_input(
      "framework.gather = '{}' is neither 1 (a rank keeps its own part) nor cp (a sum over ranks)",
      text);
}

std::string checked_reduction(std::string_view text) {
  if (text == name(DpReduction::sum) || text == name(DpReduction::mean)) return std::string(text);
  throw_bad_input("framework.dp_reduction = '{}' is neither sum nor mean", text);
}

std::string checked_counts(std::string_view text) {
  for (const LossCounts counts : {LossCounts::global, LossCounts::pack, LossCounts::rank}) {
    if (text == name(counts)) return std::string(text);
  }
  throw_bad_input("framework.counts = '{}' is neither global, pack nor rank", text);
}

/// Returns a key; `shortest` checks a value and returns its stored form.
CaseKey convention_key(const std::string& name, std::string FrameworkSpec::*member,
                       std::function<std::string(std::string_view)> shortest, std::string help) {
  return {name, JsonType::text, [member](const CaseSpec& spec) { return spec.framework.*member; },
          [member, shortest = std::move(shortest)](CaseSpec& spec, std::string_view text) {
            spec.framework.*member = shortest(text);
          },
          std::move(help)};
}

/// Returns the key of one part of a convention, which can also be left to the preset.
CaseKey part_key(const std::string& name, std::string FrameworkSpec::*member,
                 std::function<std::string(std::string_view)> shortest, std::string help) {
  return convention_key(
      name, member,
      [shortest = std::move(shortest)](std::string_view text) {
        return text == kOfPreset ? std::string(kOfPreset) : shortest(text);
      },
      std::move(help));
}

CaseKey factor_key(const std::string& name, std::string FrameworkSpec::*member, std::string help) {
  const auto shortest = [name](std::string_view text) {
    return format_scale(parse_scale(text, name));
  };
  return part_key(name, member, shortest, std::move(help));
}

}  // namespace

std::vector<CaseKey> framework_keys() {
  return {
      convention_key(
          "framework", &FrameworkSpec::preset, checked_preset,
          "whose convention scales the gradient: see lossgrid list frameworks; none: no factors"),
      factor_key("framework.loss", &FrameworkSpec::loss,
                 "multiplier of the loss before backward, of dp, cp, n_mb: dp*n_mb/cp, 1/(dp*cp)"),
      factor_key("framework.schedule", &FrameworkSpec::schedule,
                 "multiplier of the pipeline schedule: cp/n_mb, 1/n_mb, 1"),
      part_key(
          "framework.gather", &FrameworkSpec::gather, checked_gather,
          "backward of the gather of log-probabilities over CP: 1 own part, cp sum over ranks"),
      part_key("framework.dp_reduction", &FrameworkSpec::dp_reduction, checked_reduction,
               "of gradients over DP x CP: sum, mean"),
      factor_key("framework.metrics", &FrameworkSpec::metrics,
                 "multiplier of metrics that add up: cp where gathered ones are summed over CP"),
      part_key("framework.counts", &FrameworkSpec::counts, checked_counts,
               "valid tokens that divide the terms: of the global batch, the pack, the CP rank"),
  };
}

}  // namespace lossgrid
