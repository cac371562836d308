// SPDX-License-Identifier: Apache-2.0
#include "harness/hunt/setting.h"

#include <algorithm>
#include <array>
#include <bit>
#include <string_view>

#include "harness/core/error.h"
#include "harness/loss/registry.h"
#include "harness/problem/case/case_keys.h"
#include "harness/runner/job/problem_cache.h"
#include "reports/record/hunt_record.h"

namespace lossgrid {
namespace {

constexpr std::string_view kOption = "objective.";

bool is_about_sizes(const std::string& key) {
  constexpr auto kSizes =
      std::to_array<std::string_view>({"lens", "seqs", "seq_len", "vocab", "seed", "head"});
  return std::find(kSizes.begin(), kSizes.end(), key) != kSizes.end();
}

SettingKind kind_of_key(const std::string& key) {
  if (key == "values") return SettingKind::regime;
  return key == "dtype" ? SettingKind::dtype : SettingKind::key;
}

bool is_bits(const std::string& value) {
  return value.find_first_not_of("01+") == std::string::npos;
}

/// Returns the label of a key whose value is a name, else the key.
std::string label_of(const std::string& key, const std::string& value) {
  const bool is_name =
      value.find_first_not_of("0123456789.+-eE") != std::string::npos && value != "true";
  return is_name ? key + '=' + value : key;
}

void add_options(const CaseSpec& spec, std::vector<Setting>& settings) {
  if (spec.objective.kind != ObjectiveSpec().kind) {
    settings.push_back(
        {SettingKind::objective, "objective", "objective=" + spec.objective.kind, true});
  }
  for (const OptionDescription& option : describe_options(spec.objective)) {
    if (option.value == option.fallback) continue;
    const std::string key = std::string(kOption) + option.name;
    std::string value = option.value;
    std::erase(value, '"');
    settings.push_back({SettingKind::option, key, label_of(key, value), false});
  }
}

void add_keys(const CaseSpec& spec, std::vector<Setting>& settings) {
  const CaseSpec unset;
  for (const CaseKey& key : case_keys()) {
    const std::string value = key.get(spec);
    if (is_about_sizes(key.name) || value == key.get(unset)) continue;
    const std::string label =
        key.type == JsonType::text && is_bits(value) ? key.name : label_of(key.name, value);
    const bool keeps = key.keeps_numbers || key.name == "hidden" || key.name == "microbatches";
    settings.push_back({kind_of_key(key.name), key.name, label, keeps});
  }
}

void add_axes(const Grid& grid, std::vector<Setting>& settings) {
  const auto add = [&](bool is_there, const std::string& label) {
    if (is_there) settings.push_back({SettingKind::layout, label, label, true});
  };
  add(grid.tp > 1, "tp");
  add(grid.cp > 1, "cp");
  add(grid.cp_layout != Grid().cp_layout, "cp:" + std::string(name(grid.cp_layout)));
  add(grid.dp > 1, "dp");
  add(grid.pp > 1, "pp");
  add(grid.sp, "sp");
}

/// `Hash`: FNV-1a over the bits of numbers.
class Hash {
 public:
  void add(double number) { add_bits(std::bit_cast<std::uint64_t>(number)); }
  void add(const Enclosure& number) { add(number.value); }
  void add(const std::vector<Enclosure>& numbers) {
    for (const Enclosure& number : numbers) add(number);
  }
  void add(std::string_view text) {
    for (const char letter : text) add_bits(static_cast<std::uint64_t>(letter));
  }
  std::uint64_t value() const { return value_; }

 private:
  void add_bits(std::uint64_t bits) { value_ = (value_ ^ bits) * 0x100000001b3u; }

  std::uint64_t value_ = 0xcbf29ce484222325u;
};

}  // namespace

const char* name(SettingKind kind) {
  return kSettingKinds[static_cast<std::size_t>(kind)];
}

std::vector<Setting> settings_of(const CaseSpec& spec, const Grid& grid) {
  std::vector<Setting> settings;
  add_options(spec, settings);
  add_keys(spec, settings);
  add_axes(grid, settings);
  return settings;
}

CaseSpec without(const CaseSpec& spec, const Setting& setting) {
  CaseSpec fewer = spec;
  if (setting.key.starts_with(kOption)) {
    fewer.objective.options.erase(setting.key.substr(kOption.size()));
    return fewer;
  }
  const CaseKey* key = find_case_key(setting.key);
  if (key == nullptr) throw Error(ErrorCode::internal, setting.key + " is no key of a case");
  key->set(fewer, key->get(CaseSpec()));
  return fewer;
}

std::uint64_t hash_of_truth(const CaseSpec& spec) {
  const PreparedProblem prepared = prepare(make_problem(spec));
  const auto truth = truth_of(prepared, *prepared.problem, 0, {});
  Hash hash;
  hash.add(truth->objective.loss);
  hash.add(truth->objective.grad_logprob);
  for (const std::vector<Enclosure>& gradients : truth->objective.grad_terms) hash.add(gradients);
  for (const auto& [name, metric] : truth->objective.metrics) {
    hash.add(name);
    hash.add(metric.amount);
    hash.add(metric.count);
  }
  for (const RowTruth& row : truth->rows) {
    hash.add(row.logprob);
    hash.add(row.logsumexp());
  }
  return hash.value();
}

std::vector<Setting> deciding_settings(const CaseSpec& spec, const std::vector<Setting>& settings) {
  const std::uint64_t whole = hash_of_truth(spec);
  const auto decides = [&](const Setting& setting) {
    if (setting.keeps_numbers) return true;
    try {
      return hash_of_truth(without(spec, setting)) != whole;
    } catch (const Error&) {
      return true;
    }
  };
  std::vector<Setting> deciding;
  std::copy_if(settings.begin(), settings.end(), std::back_inserter(deciding), decides);
  return deciding;
}

}  // namespace lossgrid
