// SPDX-License-Identifier: Apache-2.0
#include "reports/file/compact_report.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "reports/file/report_format.h"
#include "reports/file/report_json.h"

namespace lossgrid {
namespace {

using Json = nlohmann::ordered_json;

bool is_shared(const std::string& key) {
  const std::vector<std::string>& keys = report_format().shared_keys;
  return std::find(keys.begin(), keys.end(), key) != keys.end();
}

/// Returns `value`, which has `key`, without the members that "defaults" has.
Json without_defaults(const std::string& key, Json value) {
  if (value.is_array()) {
    for (Json& element : value) element = without_defaults(key, std::move(element));
    return value;
  }
  const Json& all_defaults = report_format().defaults;
  const auto defaults = all_defaults.find(key);
  if (!value.is_object() || defaults == all_defaults.end()) return value;
  Json out = Json::object();
  for (auto& [name, member] : value.items()) {
    const auto standard = defaults->find(name);
    if (standard != defaults->end() && *standard == member) continue;
    out[name] = without_defaults(name, std::move(member));
  }
  return out;
}

/// Records that are alike but for the rank become one with "ranks". Readers put the records of all
/// ranks in the order of ranks, and records of a rank in the order of the list; where that is
/// another order, the list stays as it is.
Json memory_by_ranks(const std::vector<PhaseMemoryRecord>& records) {
  std::vector<PhaseMemoryRecord> joined;
  std::vector<std::vector<std::int64_t>> ranks;  // of the joined records
  bool is_in_order = true;
  std::ptrdiff_t last_place = -1;
  for (std::size_t k = 0; k < records.size(); ++k) {
    PhaseMemoryRecord record = records[k];
    record.rank = 0;
    const auto place = std::find(joined.begin(), joined.end(), record) - joined.begin();
    if (place == std::ssize(joined)) {
      joined.push_back(std::move(record));
      ranks.emplace_back();
    }
    const std::int64_t rank = records[k].rank;
    ranks[static_cast<std::size_t>(place)].push_back(rank);
    if (k > 0 && rank == records[k - 1].rank) is_in_order &= place > last_place;
    if (k > 0) is_in_order &= rank >= records[k - 1].rank;
    last_place = place;
  }
  if (!is_in_order) joined = records;
  for (std::size_t k = 0; is_in_order && k < joined.size(); ++k) {
    joined[k].rank = ranks[k].front();
    if (ranks[k].size() > 1) joined[k].ranks = std::move(ranks[k]);
  }
  Json out = Json::array();
  for (const PhaseMemoryRecord& record : joined) out.push_back(memory_to_json(record));
  return out;
}

/// Calls `visit(key, value)` for every part of `trial` that may be shared.
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

/// Moves parts that are used once from `shared` into `trials`, and gives the others new places.
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
  out["defaults"] = report_format().defaults;
  out["shared"] = std::move(shared);
  return out;
}

std::string report_text(const Json& report) {
  std::string out;
  write_below(report, 0, out);
  return out + '\n';
}

}  // namespace lossgrid
