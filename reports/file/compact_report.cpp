// SPDX-License-Identifier: Apache-2.0
#include "reports/file/compact_report.h"

#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "harness/core/hash.h"
#include "harness/core/process/spool.h"
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

constexpr std::size_t kRemembered = std::size_t{1} << 15;  // parts; up to twice as many
constexpr std::uint32_t kNoPlace = std::numeric_limits<std::uint32_t>::max();

/// Lines of trials and the parts that several of them have, which are known only when all trials
/// are: until then lines are in a file, with gaps for the parts. Parts that one trial has stay in
/// it.
class CompactLines {
 public:
  void add(const TrialRecord& trial) {
    const Json json = compact_.add(trial);
    const Json added = compact_.take_new();
    std::string text = "{";
    for (const auto& [key, value] : json.items()) {
      text += (text.size() > 1 || gaps_ > 0 ? "," : "") + json_text(key, -1) + ":";
      if (!is_shared(key)) {
        text += json_text(value, -1);
      } else if (value.is_array()) {
        const char* separator = "[";
        for (const Json& place : value) {
          text += std::exchange(separator, ",");
          add_gap(text, key, place, added);
        }
        text += *separator == '[' ? "[]" : "]";
      } else {
        add_gap(text, key, value, added);
      }
    }
    pieces_.append(text + "}");
    pieces_.append("");
    gaps_ = 0;
    for (const auto& [key, list] : added.items()) parts_[key].passed += list.size();
  }

  /// Calls `write(text)` for every piece, and `end_line()` behind each line.
  template <typename Write, typename EndLine>
  void for_each_piece(Write&& write, EndLine&& end_line) {
    Spool::Reader reader(pieces_);
    for (std::string piece, gap; reader.next(piece);) {
      write(piece);
      reader.next(gap);
      if (gap.empty()) {
        end_line();
      } else {
        write(part_or_place(gap, reader));
      }
    }
  }

  /// Calls `write(key, texts)` for every key in the order of the first part.
  template <typename Write>
  void for_each_key(Write&& write) const {
    for (const std::string& key : keys_) write(key, parts_.at(key).kept);
  }

 private:
  struct Parts {
    std::vector<std::uint32_t> uses;   // by number of CompactTrials
    std::vector<std::uint32_t> place;  // in "shared"
    std::size_t passed = 0;            // parts of the trials before
    std::size_t read = 0;              // first gaps that were filled
    Spool kept;                        // texts
  };

  /// Ends a piece and adds the gap behind it: number, blank and key; behind a first one its part.
  void add_gap(std::string& text, const std::string& key, const Json& place, const Json& added) {
    Parts& parts = parts_[key];
    const auto index = place.get<std::size_t>();
    pieces_.append(std::exchange(text, ""));
    pieces_.append(fmt::format("{} {}", index, key));
    ++gaps_;
    if (index == parts.uses.size()) {
      pieces_.append(json_text(added[key][index - parts.passed], -1));
      parts.uses.push_back(0);
      parts.place.push_back(kNoPlace);
    }
    ++parts.uses[index];
  }

  std::string part_or_place(const std::string& gap, Spool::Reader& reader) {
    const std::size_t blank = gap.find(' ');
    const std::string key = gap.substr(blank + 1);
    const std::size_t index = std::stoul(gap.substr(0, blank));
    Parts& parts = parts_.at(key);
    if (index == parts.read) {
      ++parts.read;
      std::string part;
      reader.next(part);
      if (parts.uses[index] == 1) return part;
      if (parts.kept.size() == 0) keys_.push_back(key);
      parts.place[index] = static_cast<std::uint32_t>(parts.kept.size());
      parts.kept.append(part);
    }
    return std::to_string(parts.place[index]);
  }

  CompactTrials compact_;
  Spool pieces_;
  int gaps_ = 0;  // of the line
  std::map<std::string, Parts> parts_;
  std::vector<std::string> keys_;
};

/// Writes the elements of a list, one a line.
class ListWriter {
 public:
  ListWriter(int indent, const TextSink& sink) : indent_(indent), sink_(sink) {}

  void begin_element() {
    sink_((is_empty_ ? "[\n" : ",\n") + std::string(static_cast<std::size_t>(indent_) + 2, ' '));
    is_empty_ = false;
  }
  void end() {
    sink_(is_empty_ ? "[]" : '\n' + std::string(static_cast<std::size_t>(indent_), ' ') + ']');
  }

 private:
  int indent_;
  const TextSink& sink_;
  bool is_empty_ = true;
};

void write_trials(CompactLines& lines, const TextSink& sink) {
  ListWriter list(2, sink);
  bool begins = true;
  lines.for_each_piece(
      [&](const std::string& piece) {
        if (std::exchange(begins, false)) list.begin_element();
        sink(piece);
      },
      [&] { begins = true; });
  list.end();
}

void write_shared(const CompactLines& lines, const TextSink& sink) {
  const char* separator = "{\n    ";
  lines.for_each_key([&](const std::string& key, const Spool& texts) {
    sink(std::exchange(separator, ",\n    ") + json_text(key, -1) + ": ");
    ListWriter list(4, sink);
    Spool::Reader reader(texts);
    for (std::string text; reader.next(text);) {
      list.begin_element();
      sink(text);
    }
    list.end();
  });
  sink(*separator == '{' ? "{}" : "\n  }");
}

}  // namespace

std::size_t CompactTrials::place_of(const std::string& key, Json value) {
  const std::string text = key + json_text(value, -1);
  const auto bytes = std::as_bytes(std::span(text));
  const Digest digest{fingerprint(bytes, 1), fingerprint(bytes, 2)};
  if (const auto found = recent_.find(digest); found != recent_.end()) return found->second;
  const auto old = older_.find(digest);
  const std::size_t place = old != older_.end() ? old->second : next_[key]++;
  if (old == older_.end()) new_[key].push_back(std::move(value));
  if (recent_.size() == kRemembered) older_ = std::exchange(recent_, {});
  recent_.emplace(digest, place);
  return place;
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

void write_compact_report(const RunRecord& run, const TextSink& sink) {
  CompactLines lines;
  for (const TrialRecord& trial : run.trials) lines.add(trial);
  Json frame = run_to_json(run, Json::array());
  frame["defaults"] = report_format().defaults;
  frame["shared"] = Json::object();
  const char* separator = "{\n  ";
  for (const auto& [key, value] : frame.items()) {
    std::string text = std::exchange(separator, ",\n  ") + json_text(key, -1) + ": ";
    const bool is_long = key == "trials" || key == "shared";
    if (!is_long) write_below(value, 2, text);
    sink(text);
    if (key == "trials") write_trials(lines, sink);
    if (key == "shared") write_shared(lines, sink);
  }
  sink("\n}\n");
}

std::string compact_report_text(const RunRecord& run) {
  std::string out;
  write_compact_report(run, [&](std::string_view text) { out += text; });
  return out;
}

Json compact_report(const RunRecord& run) {
  return Json::parse(compact_report_text(run));
}

std::string report_text(const Json& report) {
  std::string out;
  write_below(report, 0, out);
  return out + '\n';
}

}  // namespace lossgrid
