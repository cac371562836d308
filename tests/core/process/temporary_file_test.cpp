// SPDX-License-Identifier: Apache-2.0
#include "harness/core/process/temporary_file.h"

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include "harness/core/file.h"

namespace lossgrid {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

class TemporaryFileTest : public ::testing::Test {
 protected:
  TemporaryFileTest() {
    std::string name = (fs::temp_directory_path() / "lossgrid_temporary_XXXXXX").string();
    folder_ = ::mkdtemp(name.data());
  }
  ~TemporaryFileTest() override { fs::remove_all(folder_); }

  std::vector<std::string> names() const {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(folder_)) {
      names.push_back(entry.path().filename().string());
    }
    return names;
  }
  void make(const std::string& name) const { std::ofstream(folder_ / name) << "old"; }
  fs::path place() const { return folder_ / "r.json"; }

  fs::path folder_;
};

TEST_F(TemporaryFileTest, HasNoNameUntilItIsInItsPlace) {
  for (const std::string text : {"new", "newer"}) {
    const std::vector<std::string> before = names();
    TemporaryFile file(place());
    ASSERT_TRUE(file.valid());
    ASSERT_EQ(::write(file.descriptor(), text.data(), text.size()), std::ssize(text));
    EXPECT_EQ(names(), before);
    ASSERT_TRUE(file.move_into_place());
    EXPECT_THAT(names(), ElementsAre("r.json"));
    EXPECT_EQ(read_text_file(place()), text);
  }
}

TEST_F(TemporaryFileTest, WithANameIsRemovedUnlessItIsMoved) {
  {
    TemporaryFile file = TemporaryFile::named(place());
    ASSERT_TRUE(file.valid());
    EXPECT_EQ(names().size(), 1u);
  }
  EXPECT_THAT(names(), IsEmpty());
  make("r.json");
  TemporaryFile file = TemporaryFile::named(place());
  ASSERT_EQ(::write(file.descriptor(), "new", 3), 3);
  ASSERT_TRUE(file.move_into_place());
  EXPECT_THAT(names(), ElementsAre("r.json"));
  EXPECT_EQ(read_text_file(place()), "new");
}

// On failure errno has the reason.
TEST_F(TemporaryFileTest, IsNotValidWhereItCannotBe) {
  const TemporaryFile file(folder_ / "none" / "r.json");
  EXPECT_FALSE(file.valid());
  EXPECT_EQ(errno, ENOENT);
}

TEST_F(TemporaryFileTest, RemovesWhatAKilledProcessLeftAndNothingElse) {
  const pid_t child = ::fork();
  if (child == 0) {
    static TemporaryFile left = TemporaryFile::named(place());
    ::kill(::getpid(), SIGKILL);
  }
  ASSERT_EQ(::waitpid(child, nullptr, 0), child);
  ASSERT_EQ(names().size(), 1u) << "the child left none";
  make("r.json.tmp-notes");  // a user's file
  make("r.json.tmp-1-");
  make("r.json.tmp-12-3x");
  make("s.json.tmp-1-0");  // file of another place
  const TemporaryFile alive = TemporaryFile::named(place());
  EXPECT_EQ(names().size(), 5u) << "that of the dead process is still there";
  write_file_atomically(place().string(), std::string("new"));
  EXPECT_EQ(names().size(), 6u) << "that of a living process is gone";
  EXPECT_EQ(read_text_file(place()), "new");
}

}  // namespace
}  // namespace lossgrid
