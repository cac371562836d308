// SPDX-License-Identifier: Apache-2.0
#include "harness/problem/case/suite.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <set>

#include <nlohmann/json.hpp>

#include "harness/core/error.h"
#include "harness/core/file.h"
#include "harness/core/text.h"

namespace lossgrid {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

/// The first line of a parser's message, without its own prefix.
std::string reason_of(const Json::parse_error& error) {
  std::string text = error.what();
  const std::size_t start = text.find("] ");
  if (start != std::string::npos) text.erase(0, start + 2);
  const std::size_t detail = text.find(": ");
  if (detail != std::string::npos) text.erase(0, detail + 2);
  return text;
}

/// Parses, and refuses a key that an object has twice (the parser would keep one of them silently).
Json parse_json(const std::string& text, const std::string& path) {
  std::vector<std::set<std::string>> open_objects;
  const auto watch_keys = [&](int, Json::parse_event_t event, Json& parsed) {
    if (event == Json::parse_event_t::object_start) {
      open_objects.emplace_back();
    } else if (event == Json::parse_event_t::object_end) {
      open_objects.pop_back();
    } else if (event == Json::parse_event_t::key) {
      const auto key = parsed.get<std::string>();
      if (!open_objects.back().insert(key).second) {
        throw_bad_input("{}: key '{}' is given twice in one object", path, key);
      }
    }
    return true;
  };
  try {
    return Json::parse(text, watch_keys);
  } catch (const Json::parse_error& error) {
    const auto at = std::min<std::size_t>(error.byte, text.size());
    const auto line =
        1 + std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(at), '\n');
    throw_bad_input("{}:{}: malformed JSON: {}", path, line, reason_of(error));
  }
}

const Json& member(const Json& object, const std::string& key, const std::string& path) {
  if (!object.contains(key)) throw_bad_input("{}: there is no '{}'", path, key);
  return object.at(key);
}

std::string text_member(const Json& object, const std::string& key, const std::string& path) {
  const Json& value = member(object, key, path);
  if (!value.is_string()) throw_bad_input("{}: {} is not a string", path, key);
  return value.get<std::string>();
}

const Json& list_member(const Json& object, const std::string& key, const std::string& path) {
  const Json& value = member(object, key, path);
  if (!value.is_array() || value.empty()) {
    throw_bad_input("{}: {} is not an array of at least one element", path, key);
  }
  return value;
}

std::vector<std::string> text_list(const Json& object, const std::string& key,
                                   const std::string& path) {
  std::vector<std::string> out;
  for (const Json& element : list_member(object, key, path)) {
    if (!element.is_string() || element.get<std::string>().empty()) {
      throw_bad_input("{}: {}[{}] = {} is not a name", path, key, out.size(), element.dump());
    }
    out.push_back(element.get<std::string>());
    if (std::count(out.begin(), out.end(), out.back()) > 1) {
      throw_bad_input("{}: {} has '{}' twice", path, key, out.back());
    }
  }
  return out;
}

void require_known_keys(const Json& object, const std::vector<std::string>& known,
                        const std::string& what, const std::string& path) {
  if (!object.is_object()) {
    throw_bad_input("{}: a {} is a JSON object, not {}", path, what, object.type_name());
  }
  for (const auto& [key, value] : object.items()) {
    if (std::find(known.begin(), known.end(), key) == known.end()) {
      throw_bad_input("{}: {}", path, unknown_name_message(what + " key", key, known));
    }
  }
}

void require_suite(const Json& object, const std::string& path) {
  require_known_keys(object,
                     {"suite", "name", "summary", "grids", "implementations", "cases", "timing"},
                     "suite", path);
  const Json& version = member(object, "suite", path);
  if (version != 1) throw_bad_input("{}: suite = {} is not version 1", path, version.dump());
}

std::vector<Grid> read_grids(const Json& object, const std::string& path) {
  std::vector<Grid> grids;
  for (const std::string& text : text_list(object, "grids", path)) {
    try {
      grids.push_back(parse_grid(text));
    } catch (const Error& error) {
      throw_bad_input("{}: grids[{}]: {}", path, grids.size(), error.what());
    }
  }
  return grids;
}

std::vector<CaseSpec> read_all_cases(const Json& object, const std::string& path) {
  std::vector<CaseSpec> cases;
  std::set<std::string> names;
  std::size_t index = 0;
  for (const Json& entry : list_member(object, "cases", path)) {
    std::string where = fmt::format("{}: cases[{}]", path, index++);
    if (entry.is_object() && entry.contains("name") && entry.at("name").is_string()) {
      where += fmt::format(" '{}'", entry.at("name").get<std::string>());
    }
    for (CaseSpec& spec : cases_from_json(entry, where)) {
      if (spec.name.empty()) spec.name = format_case(spec);
      if (!names.insert(spec.name).second) {
        throw_bad_input("{}: the name '{}' is already that of another case", where, spec.name);
      }
      cases.push_back(std::move(spec));
    }
  }
  return cases;
}

double number_member(const Json& object, const std::string& key, double otherwise,
                     const std::string& where) {
  if (!object.contains(key)) return otherwise;
  const Json& value = object.at(key);
  if (!value.is_number()) throw_bad_input("{}: {} is not a number", where, key);
  return value.get<double>();
}

TimingRequest read_timing(const Json& object, const std::vector<std::string>& implementations,
                          const std::string& path) {
  const std::string where = path + ": timing";
  require_known_keys(object, {"baseline", "cache", "min_samples", "max_seconds", "target_stderr"},
                     "timing", path);
  TimingRequest timing;
  timing.implementations = implementations;
  timing.baseline = text_member(object, "baseline", where);
  if (std::find(implementations.begin(), implementations.end(), timing.baseline) ==
      implementations.end()) {
    throw_bad_input("{}: {}; it is one of the suite's implementations", where,
                    unknown_name_message("baseline", timing.baseline, implementations));
  }
  if (object.contains("cache")) {
    timing.caches.clear();
    for (const std::string& text : text_list(object, "cache", where)) {
      timing.caches.push_back(parse_cache_mode(text, where + ": cache"));
    }
  }
  if (object.contains("min_samples")) {
    const Json& samples = object.at("min_samples");
    if (!samples.is_number_integer()) {
      throw_bad_input("{}: min_samples = {} is not an integer", where, samples.dump());
    }
    timing.min_samples = samples.get<std::int64_t>();
  }
  timing.max_seconds = number_member(object, "max_seconds", timing.max_seconds, where);
  timing.target_stderr = number_member(object, "target_stderr", timing.target_stderr, where);
  require_timing(timing, where);
  return timing;
}

bool is_folder(const fs::path& path) {
  std::error_code ignored;
  return fs::is_directory(path, ignored);
}

void append_names(const fs::path& folder, const std::string& prefix,
                  std::vector<std::string>& names) {
  if (!is_folder(folder)) return;
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (entry.path().filename() == "models.json") continue;  // sizes of models, no suite
    if (entry.path().extension() == ".json") names.push_back(prefix + entry.path().stem().string());
  }
}

}  // namespace

std::string_view name(CacheMode cache) {
  return cache == CacheMode::hot ? "hot" : "cold";
}

CacheMode parse_cache_mode(std::string_view text, std::string_view where) {
  for (const CacheMode cache : {CacheMode::hot, CacheMode::cold}) {
    if (name(cache) == text) return cache;
  }
  throw_bad_input("{} = '{}' is neither hot nor cold", where, text);
}

void require_timing(const TimingRequest& request, const std::string& where) {
  constexpr std::int64_t kMostSamples = 1000;
  constexpr double kMostSeconds = 1e6;
  if (request.min_samples < 2 || request.min_samples > kMostSamples) {
    throw_bad_input("{}: min_samples = {} is not in [2, {}]", where, request.min_samples,
                    kMostSamples);
  }
  if (!(request.max_seconds > 0 && request.max_seconds <= kMostSeconds)) {
    throw_bad_input("{}: max_seconds = {} is not in (0, {}]", where, request.max_seconds,
                    kMostSeconds);
  }
  if (!(request.target_stderr > 0 && request.target_stderr <= 1)) {
    throw_bad_input("{}: target_stderr = {} is not in (0, 1]", where, request.target_stderr);
  }
}

Suite read_suite(const std::string& path) {
  const Json object = parse_json(read_text_file(path), path);
  require_suite(object, path);
  Suite suite;
  suite.name = text_member(object, "name", path);
  if (object.contains("summary")) suite.summary = text_member(object, "summary", path);
  suite.grids = read_grids(object, path);
  suite.implementations = text_list(object, "implementations", path);
  suite.cases = read_all_cases(object, path);
  if (object.contains("timing")) {
    suite.timing = read_timing(object.at("timing"), suite.implementations, path);
  }
  return suite;
}

std::string cases_near(const std::string& executable) {
  const auto has_models = [](const fs::path& cases) {
    std::error_code ignored;
    return fs::is_regular_file(cases / "models.json", ignored);
  };
  const fs::path beside = fs::path(executable).parent_path();
  const fs::path installed = beside.parent_path() / "share/lossgrid/cases";
  if (has_models(installed)) return installed.string();
  for (fs::path folder = beside; !folder.empty(); folder = folder.parent_path()) {
    if (has_models(folder / "cases")) return (folder / "cases").string();
    if (folder == folder.parent_path()) break;
  }
  return "";
}

std::string cases_directory() {
  if (const char* folder = std::getenv("LOSSGRID_CASES_DIR"); folder != nullptr && *folder != 0) {
    if (!is_folder(folder)) throw_bad_input("LOSSGRID_CASES_DIR = {} is not a folder", folder);
    return folder;
  }
  std::error_code failed;
  const std::string near = cases_near(fs::read_symlink("/proc/self/exe", failed).string());
  if (!near.empty()) return near;
  throw_bad_input(
      "no folder of suites: set LOSSGRID_CASES_DIR (there is no ../share/lossgrid/cases and no "
      "cases/ with models.json beside or above the executable)");
}

std::vector<std::string> suite_names() {
  const fs::path folder = cases_directory();
  std::vector<std::string> names;
  append_names(folder, "", names);
  append_names(folder / "regress", "regress/", names);
  std::sort(names.begin(), names.end());
  return names;
}

std::vector<std::string> find_suite(const std::string& name_or_path) {
  if (name_or_path.ends_with(".json")) {
    std::error_code ignored;
    if (!fs::is_regular_file(name_or_path, ignored)) {
      throw_bad_input("there is no suite file {}", name_or_path);
    }
    return {name_or_path};
  }
  const fs::path folder = cases_directory();
  std::vector<std::string> names = suite_names();
  std::vector<std::string> found;
  for (const std::string& name : names) {
    const bool inside = name_or_path == "regress" && name.starts_with("regress/");
    if (name == name_or_path || inside) found.push_back((folder / (name + ".json")).string());
  }
  if (!found.empty()) return found;
  names.push_back("regress");
  throw Error(ErrorCode::bad_input, unknown_name_message("suite", name_or_path, names));
}

}  // namespace lossgrid
