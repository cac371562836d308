// SPDX-License-Identifier: Apache-2.0
// `Suite`: cases x grids x implementations, read from a JSON file under cases/.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "harness/comm/process_grid.h"
#include "harness/device/device.h"
#include "harness/problem/case/case_spec.h"
#include "harness/problem/case/stated_skip.h"

namespace lossgrid {

/// Content of the caches before a sample: data of the previous sample (hot), or unrelated data
/// (cold).
enum class CacheMode { hot, cold };

/// Returns "hot" or "cold".
std::string_view name(CacheMode cache);
/// Reads "hot" or "cold". Throws bad_input with both names; `where` begins the message.
CacheMode parse_cache_mode(std::string_view text, std::string_view where);

/// Timing of all implementations of a case on a grid, sampled in turn until every median is precise
/// enough.
struct TimingRequest {
  std::vector<std::string> implementations;  // implementations of the suite
  // Implementation to which speed-ups refer; empty: per_sequence, else the first built-in
  // implementation.
  std::string baseline;
  std::vector<CacheMode> caches{CacheMode::hot};  // one record for each state of the cache
  std::int64_t min_samples = 10;                  // of each phase, in [2, 1000]
  double max_seconds = 30;                        // for each case, grid and state of the cache
  double target_stderr = 0.01;  // standard error of each median / median, in (0, 1]
  std::uint64_t order_seed = 1;
};

/// Throws bad_input if a number is out of its range. `where` begins the message.
void require_timing(const TimingRequest& request, const std::string& where);

/// Content of one suite file.
struct Suite {
  std::string name;
  std::string summary;
  std::vector<Grid> grids;
  std::vector<std::string> implementations;  // as on the command line: name[:option=value]
  std::vector<CaseSpec> cases;
  // Refusals of implementations that are right; any other refusal fails. nullopt: the suite states
  // no refusals, and every refusal is a skip.
  std::optional<std::vector<StatedSkip>> skips;
  std::optional<TimingRequest> timing;
  Backend backend = Backend::cpu;  // value of --backend, not of the file
};

/// Reads a suite file: {"suite": 1, "name", "summary", "grids": ["tp1cp2", ..], "implementations":
/// [..], "cases": [{...}]}, optional "skips" (stated_skip.h), optional "timing": {"baseline": one
/// of the implementations, and optional "cache": ["hot", "cold"], "min_samples", "max_seconds",
/// "target_stderr"}. Optional "parts": a folder beside the file; every cases.json in and below it,
/// {"suite": 1, "joins": name of a suite beside this one, "cases", optional "skips"}, adds its
/// cases and skips to the suite that it joins, in the order of paths. Throws bad_input that names
/// the file, the line (for malformed JSON) or the entry and key. A case without a name is named by
/// its text; names and grids are unique.
Suite read_suite(const std::string& path);

/// Returns the folder of the suites: LOSSGRID_CASES_DIR, else the folder that came with the
/// executable, independent of the working directory. Throws bad_input without a folder.
std::string cases_directory();

/// Makes cases_directory() return `folder`, in child processes too: the value of --cases. Throws
/// bad_input unless it is a folder.
void use_cases(const std::string& folder);

/// Returns the folder of suites that came with an executable: ../share/lossgrid/cases of an
/// installed executable, else the nearest `cases` beside or above it, as in the source tree or a
/// build folder; empty without such a folder. Only a folder with a models.json counts.
std::string cases_near(const std::string& executable);

/// Returns the names of the suites in cases_directory() (file names without .json), sorted; suites
/// in regress/ as "regress/x".
std::vector<std::string> suite_names();

/// Returns the path of a suite given by name or by path (with .json); for "regress", a folder, the
/// paths of all its files. Throws bad_input with the nearest name.
std::vector<std::string> find_suite(const std::string& name_or_path);

}  // namespace lossgrid
