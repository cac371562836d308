// SPDX-License-Identifier: Apache-2.0
// Tests of the place that a stack of Python names: the collective, or the line of the user's code.
#include "harness/external/stack_text.h"

#include <array>
#include <initializer_list>
#include <string>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "harness/external/python_launcher.h"

namespace lossgrid {
namespace {

/// Returns what faulthandler writes, with the newest frame first: "PATH LINE FUNCTION" each.
std::string stack(std::initializer_list<std::array<std::string, 3>> frames) {
  std::string text = "Current thread 0x00007f (most recent call first):\n";
  for (const auto& [path, line, function] : frames) {
    text += fmt::format("  File \"{}\", line {} in {}\n", path, line, function);
  }
  return text;
}

std::string own(const std::string& file) {
  return python_package_folder() + "/lossgrid/" + file;
}

TEST(StackText, ACollectiveIsNamedAsTheUserCallsIt) {
  const StackPlace place = place_in_stack(
      stack({{own("shared_group/futex.py"), "51", "sleep"},
             {own("shared_group/work.py"), "43", "wait"},
             {"/v/site-packages/torch/distributed/distributed_c10d.py", "9", "all_reduce"},
             {"/home/bad.py", "16", "forward"},
             {own("worker.py"), "3", "main"}}));
  EXPECT_EQ(place.text, "in all_reduce, called at bad.py:16 in forward");
  EXPECT_EQ(place.cause, Cause::collective);
}

TEST(StackText, TheWaitForAHandleIsACollective) {
  const StackPlace place =
      place_in_stack(stack({{own("shared_group/futex.py"), "51", "sleep"},
                            {own("shared_group/rendezvous.py"), "9", "complete"},
                            {own("shared_group/work.py"), "43", "wait"},
                            {"/home/bad.py", "16", "forward"},
                            {own("worker.py"), "3", "main"}}));
  EXPECT_EQ(place.text, "in wait, called at bad.py:16 in forward");
  EXPECT_EQ(place.cause, Cause::collective);
}

TEST(StackText, OtherCalleesAreTheUsersOwn) {
  const StackPlace place = place_in_stack(stack({{"/usr/lib/python3/site-packages/x.py", "1", "f"},
                                                 {"/home/bad.py", "16", "forward"},
                                                 {own("worker.py"), "3", "main"}}));
  EXPECT_EQ(place.text, "in f, called at bad.py:16 in forward");
  EXPECT_EQ(place.cause, Cause::own);
}

}  // namespace
}  // namespace lossgrid
