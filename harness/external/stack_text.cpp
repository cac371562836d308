// SPDX-License-Identifier: Apache-2.0
#include "harness/external/stack_text.h"

#include <algorithm>
#include <regex>
#include <vector>

#include "harness/external/python_launcher.h"

namespace lossgrid {
namespace {

/// One frame: `File "/a/b.py", line 3 in f`; in a traceback a comma follows the line.
struct Frame {
  std::string path;
  std::string line;
  std::string function;

  std::string text() const {
    return fmt::format("{}:{} in {}", path.substr(path.rfind('/') + 1), line, function);
  }
  bool is_in(const char* folder) const { return path.find(folder) != std::string::npos; }
};

std::vector<Frame> read_frames(const std::string& text) {
  static const std::regex pattern(R"re(File "([^"\n]*)", line (\d+),? in ([^\n]*))re");
  std::vector<Frame> frames;
  for (std::sregex_iterator at(text.begin(), text.end(), pattern), end; at != end; ++at) {
    frames.push_back({(*at)[1], (*at)[2], (*at)[3]});
  }
  return frames;
}

bool is_own(const Frame& frame) {
  static const std::string own = python_package_folder() + "/lossgrid/";
  return frame.path.starts_with(own);
}

bool is_users(const Frame& frame) {
  return !is_own(frame) && !frame.is_in("/site-packages/") && !frame.is_in("/dist-packages/") &&
         frame.path.find('<') != 0;
}

/// Removes the frames of a program that wraps the interpreter: all frames older than the oldest
/// frame of this package. `frames` has the newest frame first.
void leave_out_wrapper(std::vector<Frame>& frames) {
  const auto oldest_own = std::find_if(frames.rbegin(), frames.rend(), is_own);
  if (oldest_own != frames.rend()) frames.erase(oldest_own.base(), frames.end());
}

/// Returns the place in `frames`, which has the newest frame first. Frames before `user` are
/// callees of the user's code.
StackPlace python_place(const std::vector<Frame>& frames, std::vector<Frame>::const_iterator user) {
  auto collective = std::find_if(frames.begin(), user, [](const Frame& frame) {
    return frame.is_in("/torch/distributed/") && !frame.path.ends_with("/c10d_logger.py");
  });
  // A handle of the package's process group is called without torch.distributed.
  const bool has_callee =
      user != frames.begin() && std::prev(user)->is_in("/lossgrid/shared_group/");
  if (collective == user && has_callee) collective = std::prev(user);
  const bool in_collective = collective != user;
  const Cause cause = in_collective ? Cause::collective : Cause::own;
  if (user == frames.begin()) return {"at " + user->text(), cause};
  const std::string& function = in_collective ? collective->function : frames.front().function;
  if (user == frames.end()) return {"in " + function, cause};
  return {fmt::format("in {}, called at {}", function, user->text()), cause};
}

/// Returns the newest frame in a library that is not a system library.
StackPlace native_place(const std::string& stacks) {
  static const std::regex pattern(
      R"re((?:^|\n)((?:[^\n(]*/)?)([^/\n(]+\.so[^/\n(]*)\(([^\n)]*)\))re");
  for (std::sregex_iterator at(stacks.begin(), stacks.end(), pattern), end; at != end; ++at) {
    const std::string folder = (*at)[1];
    if (folder.starts_with("/lib") || folder.starts_with("/usr/lib")) continue;
    return {fmt::format("in {} ({})", (*at)[2].str(), (*at)[3].str()), Cause::own};
  }
  return {"at a place that is not known", Cause::own};
}

}  // namespace

StackPlace place_in_stack(const std::string& stacks) {
  // The thread that took the signal runs the user's function; other threads are printed before it.
  const std::size_t main_thread = stacks.find("Current thread ");
  std::vector<Frame> frames =
      read_frames(stacks.substr(main_thread == std::string::npos ? 0 : main_thread));
  if (frames.empty()) return native_place(stacks);
  leave_out_wrapper(frames);
  const auto user = std::find_if(frames.begin(), frames.end(), is_users);
  if (user == frames.end() && frames.front().path.ends_with("/lossgrid/messages.py")) {
    return {"while it waited for other ranks", Cause::others};
  }
  return python_place(frames, user);
}

Cause cause_of_traceback(const std::string& traceback) {
  // The last traceback is an exception raised while another exception was handled.
  const std::size_t last = traceback.rfind("Traceback (most recent call last)");
  std::vector<Frame> frames = read_frames(traceback.substr(last == std::string::npos ? 0 : last));
  if (frames.empty()) return Cause::own;
  std::reverse(frames.begin(), frames.end());
  return python_place(frames, std::find_if(frames.begin(), frames.end(), is_users)).cause;
}

}  // namespace lossgrid
