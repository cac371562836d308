// SPDX-License-Identifier: Apache-2.0
#include "harness/core/process/environment.h"

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <span>
#include <string>
#include <thread>

#include <fmt/format.h>
#include <sys/utsname.h>

#include "core/git_revision.h"
#include "harness/core/hash.h"

namespace lossgrid {
namespace {

/// Returns the value of the first line "key : value" of a file in /proc; "" without such a line.
std::string proc_value(const char* path, const std::string& key) {
  std::ifstream file(path);
  std::string line;
  while (std::getline(file, line)) {
    if (!line.starts_with(key)) continue;
    const std::size_t colon = line.find(':');
    if (colon == std::string::npos) continue;
    const std::size_t begin = line.find_first_not_of(" \t", colon + 1);
    return begin == std::string::npos ? std::string() : line.substr(begin);
  }
  return "";
}

/// Returns the name of the processor; on Arm, where Linux has no name, its numbers.
std::string cpu_model() {
  const char* path = "/proc/cpuinfo";
  std::string name = proc_value(path, "model name");
  if (!name.empty()) return name;
  const std::string implementer = proc_value(path, "CPU implementer");
  if (implementer.empty()) return "";
  return fmt::format("implementer {}, part {}", implementer, proc_value(path, "CPU part"));
}

std::int64_t memory_total_bytes() {
  const std::string kib = proc_value("/proc/meminfo", "MemTotal");
  return kib.empty() ? 0 : std::strtoll(kib.c_str(), nullptr, 10) * 1024;
}

/// Returns a fingerprint that distinguishes builds of one revision; "" if the executable cannot be
/// read.
std::string executable_fingerprint() {
  static const std::string made = [] {
    std::ifstream file("/proc/self/exe", std::ios::binary);
    const std::string bytes((std::istreambuf_iterator<char>(file)), {});
    if (bytes.empty()) return std::string();
    return fmt::format("{:016x}", fingerprint(std::as_bytes(std::span(bytes))));
  }();
  return made;
}

}  // namespace

const char* const kVersion = LOSSGRID_VERSION;

nlohmann::ordered_json capture_environment() {
  nlohmann::ordered_json environment;
  environment["tool"] = {{"version", LOSSGRID_VERSION},
                         {"git_revision", LOSSGRID_GIT_REVISION},
                         {"build_type", LOSSGRID_BUILD_TYPE},
                         {"compiler", LOSSGRID_COMPILER},
                         {"sanitize", LOSSGRID_SANITIZE}};
  const std::string revision = LOSSGRID_GIT_REVISION;
  if (revision.empty() || revision.ends_with("-dirty")) {
    environment["tool"]["executable_fingerprint"] = executable_fingerprint();
  }
  utsname system{};
  uname(&system);
  environment["host"] = {{"cpu_model", cpu_model()},
                         {"cpus", std::thread::hardware_concurrency()},
                         {"memory_total_bytes", memory_total_bytes()},
                         {"kernel", system.release},
                         {"architecture", system.machine}};
  nlohmann::ordered_json variables = nlohmann::ordered_json::object();
  for (const char* name : {"LOSSGRID_CASES_DIR", "LOSSGRID_COLLECTIVES", "LOSSGRID_NCCL_LIBRARY",
                           "NCCL_ALGO", "NCCL_PROTO", "NCCL_NVLS_ENABLE", "OMP_NUM_THREADS"}) {
    if (const char* value = std::getenv(name)) variables[name] = value;
  }
  environment["variables"] = variables;
  return environment;
}

}  // namespace lossgrid
