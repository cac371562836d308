// SPDX-License-Identifier: Apache-2.0
// The folder of the repository's suites, and a scope in which suites are taken from a folder.
#pragma once

#include <cstdlib>
#include <filesystem>

namespace lossgrid {

inline const std::filesystem::path kCases = std::filesystem::path(LOSSGRID_SOURCE_DIR) / "cases";

class CasesFolder {
 public:
  explicit CasesFolder(const std::filesystem::path& folder) {
    setenv("LOSSGRID_CASES_DIR", folder.c_str(), 1);
  }
  ~CasesFolder() { unsetenv("LOSSGRID_CASES_DIR"); }
};

}  // namespace lossgrid
