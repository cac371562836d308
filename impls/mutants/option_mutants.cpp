// SPDX-License-Identifier: Apache-2.0
// Mutants that misread an option: of every option of every objective one that ignores it, and of
// every enumeration one that takes the next value in its list. They follow from the lists of
// options (impls/objectives/objective_options.h).
#include <algorithm>
#include <charconv>
#include <optional>

#include <fmt/format.h>

#include "harness/core/error.h"
#include "harness/loss/registry.h"
#include "impls/mutants/mutant.h"

namespace lossgrid {
namespace {

/// Returns the name behind that of the option in the list, or the first one.
std::string next_choice(const OptionDescription& option) {
  const auto at = std::find(option.choices.begin(), option.choices.end(), option.value);
  if (at == option.choices.end()) return option.value;
  return at + 1 == option.choices.end() ? option.choices.front() : *(at + 1);
}

/// Returns the number that a JSON text is.
std::optional<double> as_number(const std::string& text) {
  double number = 0;
  const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (status != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

/// Returns the objective with `options`; null if it refuses them.
std::unique_ptr<Objective> made(const std::string& kind, const ObjectiveOptions& options) {
  try {
    return find_objective(kind).make(options);
  } catch (const Error&) {
    return nullptr;
  }
}

/// Returns the option of the case; nullopt where the objective is another one or does not have it.
std::optional<OptionDescription> described(const ObjectiveSpec& spec, const std::string& kind,
                                           const std::string& name) {
  if (spec.kind != kind) return std::nullopt;
  for (OptionDescription& option : describe_options(spec)) {
    if (option.name == name) return std::move(option);
  }
  return std::nullopt;
}

/// Returns the objective without `count` or fewer of the options behind the first `kept` ones; null
/// if it refuses all of these.
std::unique_ptr<Objective> made_without(const std::string& kind, const ObjectiveOptions& options,
                                        const std::string& kept, int count) {
  if (auto objective = made(kind, options)) return objective;
  if (count == 0) return nullptr;
  for (const auto& [name, value] : options) {
    if (name == kept) continue;
    ObjectiveOptions fewer = options;
    fewer.erase(name);
    if (auto objective = made_without(kind, fewer, kept, count - 1)) return objective;
  }
  return nullptr;
}

/// Returns the objective of a reader that does not see the option, nor up to three others that
/// exist beside it alone. A number that has to be given is read as half of it, or as one more.
std::unique_ptr<Objective> ignoring(const ObjectiveSpec& spec, const OptionDescription& option) {
  if (option.value == option.fallback) return nullptr;
  ObjectiveOptions options = spec.options;
  options.erase(option.name);
  if (auto objective = made(spec.kind, options)) return objective;
  if (const auto number = as_number(option.value)) {
    for (const double other : {*number / 2, *number + 1}) {
      options[option.name] = fmt::format("{}", other);
      if (auto objective = made(spec.kind, options)) return objective;
    }
  }
  options[option.name] = option.fallback;
  for (int count = 1; count <= 3; ++count) {
    if (auto objective = made_without(spec.kind, options, option.name, count)) return objective;
  }
  return nullptr;
}

/// Returns the objective with the next name of an enumeration.
std::unique_ptr<Objective> with_next(const ObjectiveSpec& spec, const OptionDescription& option) {
  ObjectiveOptions options = spec.options;
  options[option.name] = next_choice(option);
  return made(spec.kind, options);
}

/// True if the values are names.
bool is_enumeration(const OptionDescription& option) {
  return !option.choices.empty() && option.choices.front().starts_with('"');
}

/// Columns of the catalogue for a mutant that has more than a name.
struct CatalogueEntry {
  const char* mutant;
  const char* id;
  const char* seen_in = "";
};

/// Mistakes that are known from frameworks, or that have a number.
constexpr CatalogueEntry kCatalogue[] = {
    {"bradley_terry_margin_ignored", "M236", "OpenRLHF 0.11.2, LogExpLoss"},
    {"clipped_pg_cispo_bounds_ignored", "M160", "SkyRL 0.3.0, defaults"},
    {"clipped_pg_log_ratio_max_ignored", "M158"},
    {"clipped_pg_log_ratio_min_ignored", "M158"},
    {"clipped_pg_loss_scale_factor_ignored", "M151"},
    {"clipped_pg_rollout_is_batch_normalize_ignored", "M174"},
    {"clipped_pg_sequence_level_importance_ratios_ignored", "M31"},
    {"clipped_pg_token_level_loss_ignored", "M31"},
    {"clipped_pg_token_masks_first_ignored", "M168"},
    {"clipped_pg_use_importance_sampling_correction_ignored", "", "Liger-Kernel #1082, #1088"},
    {"clipped_pg_veto_ratio_max_ignored", "M164"},
    {"clipped_pg_veto_ratio_min_ignored", "M164"},
    {"distill_jsd_beta_ignored", "M104"},
    {"dpo_ld_alpha_ignored", "M197"},
    {"nll_loss_type_ignored", "M217"},
    {"nll_token_level_loss_ignored", "M31", "Liger-Kernel #329"},
    {"value_cliprange_value_ignored", "M227"},
};

/// Returns the entry of a mutant; one without number for all others.
CatalogueEntry catalogue_entry(const std::string& mutant) {
  for (const CatalogueEntry& entry : kCatalogue) {
    if (mutant == entry.mutant) return entry;
  }
  return {"", ""};
}

using Misreading = std::unique_ptr<Objective> (*)(const ObjectiveSpec&, const OptionDescription&);

void register_misread(const std::string& kind, const std::string& option, const char* mistake,
                      const char* what, Misreading misreading) {
  std::string name = fmt::format("{}_{}_{}", kind, option, mistake);
  const CatalogueEntry known = catalogue_entry(name);
  RegisteredMutant({
      .catalogue_id = known.id,
      .name = std::move(name),
      .what = what,
      .strategy = "fused",
      .objective = [kind, option,
                    misreading](const ObjectiveSpec& spec) -> std::unique_ptr<Objective> {
        const std::optional<OptionDescription> given = described(spec, kind, option);
        return given ? misreading(spec, *given) : nullptr;
      },
      .seen_in = known.seen_in,
      .rejected_by = "loss or grad_logits or metric.*",
  });
}

void register_option_mutants() {
  for (const ObjectiveEntry* entry : objectives()) {
    for (const OptionDescription& option : entry->document()) {
      if (option.name == "prompt_group_size") continue;  // the harness makes the batch by it
      register_misread(entry->kind, option.name, "ignored", "the option is ignored", ignoring);
      if (!is_enumeration(option) || option.choices.size() < 3) continue;
      register_misread(entry->kind, option.name, "next", "the option is read as its next value",
                       with_next);
    }
  }
}

const bool registered = (register_derived(register_option_mutants), true);

}  // namespace
}  // namespace lossgrid
