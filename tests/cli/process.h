// SPDX-License-Identifier: Apache-2.0
// The executable as a user runs it: a real process, its exit code and its output.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include <sys/wait.h>

namespace lossgrid {

struct ProcessResult {
  int exit_code = -1;
  std::string out;
  std::string err;
};

/// Folder of a test process, removed at the end.
class ScratchFolder {
 public:
  ScratchFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "lossgrid_test_XXXXXX").string();
    path_ = ::mkdtemp(name.data());
  }
  ~ScratchFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  std::string file(const std::string& name) const { return path_ + "/" + name; }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

inline std::string read_all(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

inline void write_all(const std::string& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
}

/// Runs `executable` with `arguments` as on a command line, in the source folder.
inline ProcessResult run_executable(const ScratchFolder& scratch, const std::string& executable,
                                    const std::string& arguments) {
  const std::string out = scratch.file("stdout");
  const std::string err = scratch.file("stderr");
  const std::string command = "cd '" LOSSGRID_SOURCE_DIR "' && '" + executable + "' " + arguments +
                              " >'" + out + "' 2>'" + err + "' </dev/null";
  const int status = std::system(command.c_str());
  ProcessResult result;
  result.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  result.out = read_all(out);
  result.err = read_all(err);
  return result;
}

inline ProcessResult run_lossgrid(const ScratchFolder& scratch, const std::string& arguments) {
  return run_executable(scratch, LOSSGRID_EXECUTABLE, arguments);
}

}  // namespace lossgrid
