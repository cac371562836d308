// SPDX-License-Identifier: Apache-2.0
#include "harness/external/python_launcher.h"

#include <cstdlib>
#include <filesystem>

#include "harness/core/error.h"

namespace lossgrid {
namespace {

namespace fs = std::filesystem;

std::string python_path() {
  std::string path = python_package_folder();
  if (const char* own = std::getenv("PYTHONPATH"); own != nullptr && *own != 0) {
    path += ':';
    path += own;
  }
  return path;
}

}  // namespace

std::string python_package_folder() {
  const auto has_package = [](const fs::path& folder) {
    std::error_code ignored;
    return fs::is_regular_file(folder / "lossgrid/worker.py", ignored);
  };
  std::error_code failed;
  const fs::path beside = fs::read_symlink("/proc/self/exe", failed).parent_path();
  const fs::path installed = beside.parent_path() / "share/lossgrid/python";
  if (has_package(installed)) return installed.string();
  for (fs::path folder = beside; !folder.empty(); folder = folder.parent_path()) {
    if (has_package(folder / "python")) return (folder / "python").string();
    if (folder == folder.parent_path()) break;
  }
  throw_bad_input(
      "no Python package of lossgrid: there is no ../share/lossgrid/python and no python/lossgrid "
      "beside or above the executable");
}

WorkerProgram python_program(const std::string& python) {
  return {.words = {python, "-m", "lossgrid.worker"},
          .environment = {"PYTHONPATH=" + python_path()}};
}

}  // namespace lossgrid
