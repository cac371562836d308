// SPDX-License-Identifier: Apache-2.0
#include "harness/problem/case/suite.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <set>

#include "harness/core/error.h"
#include "harness/core/file.h"
#include "harness/core/text.h"
#include "harness/problem/case/checked_json.h"

namespace lossgrid {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

bool is_folder(const fs::path& path) {
  std::error_code ignored;
  return fs::is_directory(path, ignored);
}

void require_version_1(const Json& object, const std::string& path) {
  const Json& version = required_member(object, "suite", path);
  if (version != 1) throw_bad_input("{}: suite = {} is not version 1", path, version.dump());
}

void require_suite(const Json& object, const std::string& path) {
  require_known_keys(
      object,
      {"suite", "name", "summary", "grids", "implementations", "cases", "parts", "skips", "timing"},
      "suite", path);
  require_version_1(object, path);
}

std::vector<Grid> read_grids(const Json& object, const std::string& path) {
  std::vector<Grid> grids;
  for (const std::string& text : required_names(object, "grids", path)) {
    try {
      grids.push_back(parse_grid(text));
    } catch (const Error& error) {
      throw_bad_input("{}: grids[{}]: {}", path, grids.size(), error.what());
    }
  }
  return grids;
}

/// Appends the cases of a file; `names` holds those of the cases before.
void append_cases(const Json& object, const std::string& path, std::set<std::string>& names,
                  std::vector<CaseSpec>& cases) {
  std::size_t index = 0;
  for (const Json& entry : required_list(object, "cases", path)) {
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
}

/// Appends the skips that a file states. The suite then states all of its own.
void append_skips(const Json& object, const std::string& path, Suite& suite) {
  if (!object.contains("skips")) return;
  if (!suite.skips) suite.skips.emplace();
  for (StatedSkip& skip : read_stated_skips(object.at("skips"), path + ": skips")) {
    suite.skips->push_back(std::move(skip));
  }
}

/// Returns the paths of all files cases.json in a folder and those below it, sorted.
std::vector<std::string> part_files(const fs::path& folder) {
  std::vector<std::string> paths;
  std::error_code failed;
  for (auto at = fs::recursive_directory_iterator(folder, failed);
       !failed && at != fs::recursive_directory_iterator(); at.increment(failed)) {
    if (at->path().filename() == "cases.json") paths.push_back(at->path().string());
  }
  if (failed) throw_bad_input("parts: cannot read {}: {}", folder.string(), failed.message());
  std::sort(paths.begin(), paths.end());
  return paths;
}

TimingRequest read_timing(const Json& object, const std::vector<std::string>& implementations,
                          const std::string& path) {
  const std::string where = path + ": timing";
  require_known_keys(object, {"baseline", "cache", "min_samples", "max_seconds", "target_stderr"},
                     "timing", path);
  TimingRequest timing;
  timing.implementations = implementations;
  timing.baseline = required_text(object, "baseline", where);
  if (std::find(implementations.begin(), implementations.end(), timing.baseline) ==
      implementations.end()) {
    throw_bad_input("{}: {}; it is one of the suite's implementations", where,
                    unknown_name_message("baseline", timing.baseline, implementations));
  }
  if (object.contains("cache")) {
    timing.caches.clear();
    for (const std::string& text : required_names(object, "cache", where)) {
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
  timing.max_seconds = number_or(object, "max_seconds", timing.max_seconds, where);
  timing.target_stderr = number_or(object, "target_stderr", timing.target_stderr, where);
  require_timing(timing, where);
  return timing;
}

void append_names(const fs::path& folder, const std::string& prefix,
                  std::vector<std::string>& names) {
  if (!is_folder(folder)) return;
  for (const auto& entry : fs::directory_iterator(folder)) {
    const std::string file = entry.path().filename().string();
    if (file == "models.json" || file == "machines.json") continue;  // files that are no suites
    if (entry.path().extension() == ".json") names.push_back(prefix + entry.path().stem().string());
  }
}

/// Appends the cases and skips of the files that join the suite. A file that joins no suite beside
/// this one is bad input: nothing would run its cases.
void append_parts(const Json& object, const std::string& path, std::set<std::string>& names,
                  Suite& suite) {
  const fs::path beside = fs::path(path).parent_path();
  const std::string name = required_text(object, "parts", path);
  if (name.empty() || name == "." || name == ".." || name.find('/') != std::string::npos) {
    throw_bad_input("{}: parts = '{}' is not the name of a folder beside the suite", path, name);
  }
  const fs::path folder = beside / name;
  if (!is_folder(folder)) throw_bad_input("{}: parts = {} is not a folder", path, folder.string());
  for (const std::string& file : part_files(folder)) {
    const Json part = parse_json_file(read_text_file(file), file);
    require_known_keys(part, {"suite", "joins", "cases", "skips"}, "part of a suite", file);
    require_version_1(part, file);
    const std::string joined = required_text(part, "joins", file);
    std::error_code ignored;
    if (!fs::is_regular_file(beside / (joined + ".json"), ignored)) {
      throw_bad_input("{}: joins = {} is no suite in {}", file, joined, beside.string());
    }
    if (joined != fs::path(path).stem()) continue;
    append_cases(part, file, names, suite.cases);
    append_skips(part, file, suite);
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
  const Json object = parse_json_file(read_text_file(path), path);
  require_suite(object, path);
  Suite suite;
  suite.name = required_text(object, "name", path);
  if (object.contains("summary")) suite.summary = required_text(object, "summary", path);
  suite.grids = read_grids(object, path);
  suite.implementations = required_names(object, "implementations", path);
  std::set<std::string> names;
  append_cases(object, path, names, suite.cases);
  append_skips(object, path, suite);
  if (object.contains("parts")) append_parts(object, path, names, suite);
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

void use_cases(const std::string& folder) {
  if (!is_folder(folder)) throw_bad_input("--cases = {} is not a folder", folder);
  ::setenv("LOSSGRID_CASES_DIR", fs::absolute(folder).c_str(), 1);
}

std::string cases_directory() {
  if (const char* folder = std::getenv("LOSSGRID_CASES_DIR"); folder != nullptr && *folder != 0) {
    if (!is_folder(folder)) throw_bad_input("LOSSGRID_CASES_DIR = {} is not a folder", folder);
    return folder;
  }
  std::error_code failed;
  std::string near = cases_near(fs::read_symlink("/proc/self/exe", failed).string());
  if (!near.empty()) return near;
  throw_bad_input(
      "no folder of suites: name one with --cases DIR (there is no ../share/lossgrid/cases and no "
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
