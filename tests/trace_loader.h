// SPDX-License-Identifier: Apache-2.0
// Loads Chrome trace events as their viewers do: a JSON array of which the end may be missing, with
// or without a comma behind the last event. Slices have to nest on their track.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

namespace lossgrid {

struct LoadedSlice {
  int process = 0;
  int thread = 0;
  std::string name;
  std::size_t depth = 0;
  double begin_us = 0;
  double end_us = -1;  // while it is open
  nlohmann::json arguments;
  bool is_open() const { return end_us < begin_us; }
};

class LoadedTrace {
 public:
  explicit LoadedTrace(std::string text) {
    text.erase(text.find_last_not_of(" \n") + 1);
    is_closed = text.ends_with(']');
    if (text.ends_with(',')) text.pop_back();
    if (!is_closed) text += ']';
    const auto events = nlohmann::json::parse(text, nullptr, false);
    if (events.is_discarded() || !events.is_array()) {
      complaints.push_back("is no JSON array");
      return;
    }
    for (const auto& event : events) load(event);
  }

  std::vector<std::string> complaints;
  bool is_closed = false;
  std::vector<LoadedSlice> slices;  // in the order of their begins
  std::map<int, std::string> process_names;
  std::map<std::pair<int, std::string>, std::vector<std::int64_t>> counters;  // by process and name

 private:
  void load(const nlohmann::json& event) {
    const std::string kind = event.value("ph", "");
    const int process = event.value("pid", -1);
    if (process < 0) return complain("no pid", event);
    if (kind == "M") {
      if (event.value("name", "") == "process_name") {
        process_names[process] = event["args"].value("name", "");
      }
      return;
    }
    if (!event.value("ts", nlohmann::json()).is_number()) return complain("no ts", event);
    const double time_us = event["ts"];
    double& last_us = last_us_[process];  // one thread writes all tracks of a rank
    if (time_us < last_us || time_us < 0) complain("time goes back", event);
    last_us = time_us;
    if (kind == "C") {
      for (const auto& [unit, value] : event["args"].items()) {
        if (!value.is_number_integer()) complain("no number", event);
        counters[{process, event.value("name", "") + " " + unit}].push_back(value);
      }
      return;
    }
    const int thread = event.value("tid", -1);
    if (thread < 0) return complain("no tid", event);
    std::vector<std::size_t>& open = open_[{process, thread}];
    if (kind == "B") {
      if (event.value("name", "").empty()) complain("no name", event);
      slices.push_back({process, thread, event.value("name", ""), open.size(), time_us, time_us - 1,
                        event.value("args", nlohmann::json())});
      open.push_back(slices.size() - 1);
    } else if (kind == "E") {
      if (open.empty()) return complain("ends nothing", event);
      slices[open.back()].end_us = time_us;
      open.pop_back();
    } else {
      complain("unknown ph", event);
    }
  }

  void complain(const std::string& what, const nlohmann::json& event) {
    complaints.push_back(what + ": " + event.dump());
  }

  std::map<int, double> last_us_;
  std::map<std::pair<int, int>, std::vector<std::size_t>> open_;
};

}  // namespace lossgrid
