// SPDX-License-Identifier: Apache-2.0
#include "harness/cli/flags/load_flags.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include <CLI/CLI.hpp>

#include "harness/core/error.h"
#include "harness/core/text.h"
#include "harness/external/external_implementation.h"

namespace lossgrid {
namespace {

namespace fs = std::filesystem;

/// Returns the interpreter of the environment in which the executable is installed, else python3.
std::string default_python() {
  std::error_code failed;
  const fs::path beside = fs::read_symlink("/proc/self/exe", failed).parent_path() / "python3";
  return fs::exists(beside, failed) ? beside.string() : "python3";
}

}  // namespace

void add_load_flags(CLI::App& command, LoadFlags& flags) {
  command
      .add_option(
          "--load", flags.files,
          "a file with implementations: of Python (.py, lossgrid.implementation) or a shared "
          "library (.so, lossgrid/plugin.h); may be repeated (also: LOSSGRID_LOAD, colons "
          "between files)")
      ->allow_extra_args(false);
  command.add_option("--python", flags.python,
                     "the interpreter that runs loaded files (default: that of the environment "
                     "lossgrid was installed in, else python3)");
  command
      .add_option(
          "--collectives", flags.collectives,
          "how processes of Python files meet: shared (memory of this machine), gloo, nccl, "
          "or auto: shared where it can, NCCL where every rank has a GPU (also: "
          "LOSSGRID_COLLECTIVES)")
      ->check(CLI::IsMember({"auto", "shared", "gloo", "nccl"}));
  command.add_flag("--isolate", flags.isolate,
                   "run loaded shared libraries in worker processes of their own, as Python files "
                   "are: a crash or a hang ends one trial");
}

std::vector<std::string> requested_files(const LoadFlags& flags) {
  std::vector<std::string> files;
  if (const char* listed = std::getenv("LOSSGRID_LOAD"); listed != nullptr && *listed != 0) {
    files = split(listed, ':');
  }
  files.insert(files.end(), flags.files.begin(), flags.files.end());
  return files;
}

std::string requested_python(const LoadFlags& flags) {
  return flags.python.empty() ? default_python() : flags.python;
}

void hand_on_collectives(const LoadFlags& flags) {
  if (flags.collectives.empty()) return;
  ::setenv("LOSSGRID_COLLECTIVES", flags.collectives.c_str(), 1);  // the launcher inherits it
}

void require_loadable(const std::vector<std::string>& files) {
  for (const std::string& file : files) {
    if (!file.ends_with(".py") && !is_plugin(file)) {
      throw_bad_input("--load {}: neither a Python file (.py) nor a shared library (.so)", file);
    }
    std::error_code ignored;
    if (!fs::is_regular_file(file, ignored))
      throw_bad_input("--load {}: there is no such file", file);
  }
}

void load_requested(const LoadFlags& flags, double timeout_s) {
  LoadRequest request;
  request.files = requested_files(flags);
  request.python = requested_python(flags);
  if (!flags.python.empty()) request.python_flag = " --python " + shell_word(flags.python);
  if (!flags.collectives.empty()) {
    request.python_flag += " --collectives " + flags.collectives;
    hand_on_collectives(flags);
  }
  request.answer_time = std::chrono::milliseconds(static_cast<std::int64_t>(timeout_s * 1000));
  require_loadable(request.files);
  request.isolate = flags.isolate;
  const bool has_plugin = std::any_of(request.files.begin(), request.files.end(), is_plugin);
  if (flags.isolate && !has_plugin) {
    throw Error(ErrorCode::usage,
                "--isolate needs --load FILE.so: Python files run in processes of "
                "their own already");
  }
  load_implementations(request);
}

}  // namespace lossgrid
