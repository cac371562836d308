// SPDX-License-Identifier: Apache-2.0
#include "reports/record/compact_report.h"

#include <algorithm>
#include <map>
#include <optional>
#include <tuple>
#include <utility>

#include "reports/record/report_json.h"

namespace lossgrid {
namespace {

using Json = nlohmann::ordered_json;

bool is_shared(const std::string& key) {
  return std::find(shared_keys().begin(), shared_keys().end(), key) != shared_keys().end();
}

/// `value`, which has `key`, without what "defaults" has.
Json without_defaults(const std::string& key, Json value) {
  if (value.is_array()) {
    for (Json& element : value) element = without_defaults(key, std::move(element));
    return value;
  }
  const auto defaults = report_defaults().find(key);
  if (!value.is_object() || defaults == report_defaults().end()) return value;
  Json out = Json::object();
  for (auto& [name, member] : value.items()) {
    const auto standard = defaults->find(name);
    if (standard != defaults->end() && *standard == member) continue;
    out[name] = without_defaults(name, std::move(member));
  }
  return out;
}

/// Alike but for the rank.
bool are_alike(const PhaseMemoryRecord& a, const PhaseMemoryRecord& b) {
  const auto facts = [](const PhaseMemoryRecord& record) {
    return std::tie(record.phase, record.predicted_peak_bytes, record.measured_peak_bytes,
                    record.measured_peak_with_inputs_bytes, record.measured_allocations,
                    record.by_tag_bytes, record.device_used_bytes, record.device_other_bytes);
  };
  return facts(a) == facts(b);
}

/// Records that are alike become one with "ranks". Readers put what they stand for in the order of
/// ranks, and records of a rank in the order of the list; where that is another order, the list
/// stays as it is.
Json memory_by_ranks(const std::vector<PhaseMemoryRecord>& records) {
  struct Group {
    const PhaseMemoryRecord* first;
    std::vector<std::int64_t> ranks;
  };
  std::vector<Group> groups;
  bool is_in_order = true;
  std::ptrdiff_t last_place = -1;
  for (std::size_t k = 0; k < records.size(); ++k) {
    const PhaseMemoryRecord& record = records[k];
    auto group = std::find_if(groups.begin(), groups.end(),
                              [&](const Group& other) { return are_alike(*other.first, record); });
    if (group == groups.end()) group = groups.insert(groups.end(), {&record, {}});
    group->ranks.push_back(record.rank);
    const std::ptrdiff_t place = group - groups.begin();
    if (k > 0 && record.rank == records[k - 1].rank) is_in_order &= place > last_place;
    if (k > 0) is_in_order &= record.rank >= records[k - 1].rank;
    last_place = place;
  }
  Json out = Json::array();
  if (!is_in_order) {
    for (const PhaseMemoryRecord& record : records) out.push_back(memory_to_json(record));
    return out;
  }
  for (const Group& group : groups) {
    const Json facts = memory_to_json(*group.first);
    if (group.ranks.size() == 1) {
      out.push_back(facts);
      continue;
    }
    Json joined{{"ranks", group.ranks}};
    joined.update(facts);
    joined.erase("rank");
    out.push_back(std::move(joined));
  }
  return out;
}

/// Calls `visit(key, value)` for all that stands in `trial` where it may be shared.
template <typename Visit>
void for_each_shareable(Json& trial, Visit&& visit) {
  for (auto& [key, value] : trial.items()) {
    if (!is_shared(key)) continue;
    if (!value.is_array()) {
      visit(key, value);
    } else {
      for (Json& element : value) visit(key, element);
    }
  }
}

/// Moves what is used once from `shared` into `trials`, and gives the rest new places.
void keep_what_is_shared(Json& shared, Json& trials) {
  struct Entry {
    int uses = 0;
    std::optional<std::size_t> place;  // among those that stay
  };
  std::map<std::string, std::vector<Entry>> entries;
  for (auto& [key, list] : shared.items()) entries[key].resize(list.size());
  for (Json& trial : trials) {
    for_each_shareable(trial, [&](const std::string& key, Json& place) {
      ++entries[key][place.get<std::size_t>()].uses;
    });
  }
  Json kept = Json::object();
  for (Json& trial : trials) {
    for_each_shareable(trial, [&](const std::string& key, Json& place) {
      const auto index = place.get<std::size_t>();
      Entry& entry = entries[key][index];
      if (entry.uses == 1) {
        place = std::move(shared[key][index]);
        return;
      }
      if (!entry.place) {
        entry.place = kept[key].size();
        kept[key].push_back(std::move(shared[key][index]));
      }
      place = *entry.place;
    });
  }
  shared = std::move(kept);
}

void write_below(const Json& json, int indent, std::string& out) {
  const auto begin_line = [&](int blanks) {
    out += '\n';
    out.append(static_cast<std::size_t>(blanks), ' ');
  };
  if (!json.is_structured() || json.empty()) {
    out += json_text(json, -1);
    return;
  }
  out += json.is_array() ? '[' : '{';
  const char* separator = "";
  for (const auto& [key, value] : json.items()) {
    out += std::exchange(separator, ",");
    begin_line(indent + 2);
    if (json.is_array()) {
      out += json_text(value, -1);
    } else {
      out += json_text(key, -1) + ": ";
      write_below(value, indent + 2, out);
    }
  }
  begin_line(indent);
  out += json.is_array() ? ']' : '}';
}

}  // namespace

const Json& report_defaults() {
  static const Json defaults = Json::parse(R"({
    "trial": {"details": {}, "backend": "cpu", "transport": "thread", "reason": "",
              "explanation": [], "first_failed_rank": null, "rank_states": [], "chunks": 0, "metrics": {},
              "metric_reductions": {}, "branches": {}, "checks": [], "relative_l2": {},
              "gradient_scale": {}, "invariants": [], "determinism": [], "memory": [], "communication": [], "times": [],
              "fingerprints": {}, "cost_mismatches": []},
    "grid": {"dp": 1, "pp": 1, "sp": false},
    "batch": {"microbatches": 1},
    "checks": {"passed": true, "ratio": 0.0, "error_abs": 0.0, "bound_abs": 0.0,
               "beyond_bound": 0, "worst": null},
    "worst": {"sequence": null, "token": null, "vocab_id": null},
    "invariants": {"status": "passed", "detail": ""},
    "determinism": {"claimed": false, "detail": ""},
    "memory": {"measured_allocations": 0},
    "times": {"predicted_flops": 0, "kernel_launches": 0, "host_synchronisations": 0}
  })");
  return defaults;
}

const std::vector<std::string>& shared_keys() {
  static const std::vector<std::string> keys{
      "case",        "metrics", "metric_reductions", "branches",    "checks", "invariants",
      "determinism", "memory",  "communication",     "fingerprints"};
  return keys;
}

std::size_t CompactTrials::place_of(const std::string& key, Json value) {
  auto& places = places_[key];
  const auto [place, is_new] = places.try_emplace(json_text(value, -1), places.size());
  if (is_new) new_[key].push_back(std::move(value));
  return place->second;
}

Json CompactTrials::add(const TrialRecord& trial) {
  Json out = without_defaults("trial", trial_to_json(trial, memory_by_ranks(trial.memory)));
  for_each_shareable(
      out, [&](const std::string& key, Json& value) { value = place_of(key, std::move(value)); });
  return out;
}

Json CompactTrials::take_new() {
  return std::exchange(new_, Json::object());
}

Json compact_report(const RunRecord& run) {
  CompactTrials compact;
  Json trials = Json::array();
  for (const TrialRecord& trial : run.trials) trials.push_back(compact.add(trial));
  Json shared = compact.take_new();
  keep_what_is_shared(shared, trials);
  Json out = run_to_json(run, std::move(trials));
  out["defaults"] = report_defaults();
  out["shared"] = std::move(shared);
  return out;
}

std::string report_text(const Json& report) {
  std::string out;
  write_below(report, 0, out);
  return out + '\n';
}

}  // namespace lossgrid
