// SPDX-License-Identifier: Apache-2.0
#include "harness/core/file.h"

#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "harness/core/error.h"

namespace lossgrid {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

class FileTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto* test = ::testing::UnitTest::GetInstance()->current_test_info();
    folder_ = fs::temp_directory_path() /
              ("lossgrid-file-" + std::to_string(::getpid()) + "-" + test->name());
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }

  std::string path(const std::string& name) const { return (folder_ / name).string(); }

  std::size_t files_in_folder() const {
    std::size_t count = 0;
    for (const auto& entry : fs::directory_iterator(folder_)) count += entry.exists() ? 1 : 0;
    return count;
  }

  fs::path folder_;
};

template <typename F>
Error error_of(F&& f) {
  try {
    f();
  } catch (const Error& error) {
    return error;
  }
  ADD_FAILURE() << "nothing was thrown";
  return Error(ErrorCode::internal, "");
}

TEST_F(FileTest, WritesWhatItReads) {
  const std::string text("line\n\0binary\xff", 13);
  write_file_atomically(path("a.txt"), text);
  EXPECT_EQ(read_text_file(path("a.txt")), text);
  EXPECT_EQ(files_in_folder(), 1u) << "a temporary file was left";
}

TEST_F(FileTest, ReplacesTheOldFile) {
  write_file_atomically(path("a.txt"), std::string(100000, 'x'));
  write_file_atomically(path("a.txt"), std::string("short"));
  EXPECT_EQ(read_text_file(path("a.txt")), "short");
  write_file_atomically(path("a.txt"), std::string());
  EXPECT_EQ(read_text_file(path("a.txt")), "");
}

TEST_F(FileTest, MakesMissingFolders) {
  write_file_atomically(path("one/two/a.txt"), std::string("text"));
  EXPECT_EQ(read_text_file(path("one/two/a.txt")), "text");
}

TEST_F(FileTest, RefusesAFolder) {
  const Error error = error_of([&] { write_file_atomically(folder_.string(), std::string("x")); });
  EXPECT_EQ(error.code(), ErrorCode::io);
  EXPECT_THAT(error.what(), HasSubstr("cannot write " + folder_.string() + ": it is a folder"));
  EXPECT_EQ(error_of([&] { prepare_file_path(path("new/")); }).code(), ErrorCode::io);
  EXPECT_EQ(error_of([&] { prepare_file_path(""); }).code(), ErrorCode::io);
}

TEST_F(FileTest, RefusesAFileAsFolder) {
  write_file_atomically(path("a.txt"), std::string("x"));
  const Error error =
      error_of([&] { write_file_atomically(path("a.txt/b.txt"), std::string("x")); });
  EXPECT_EQ(error.code(), ErrorCode::io);
  EXPECT_THAT(error.what(), HasSubstr(path("a.txt/b.txt")));
}

TEST_F(FileTest, FailureKeepsTheOldFileAndLeavesNoTemporary) {
  // Root may write anywhere, so a name that is too long replaces a folder without permission.
  const std::string long_name = path(std::string(256, 'n'));
  const Error error = error_of([&] { write_file_atomically(long_name, std::string("x")); });
  EXPECT_EQ(error.code(), ErrorCode::io);
  EXPECT_THAT(error.what(), HasSubstr("File name too long"));
  EXPECT_EQ(files_in_folder(), 0u);
}

TEST_F(FileTest, FollowsALinkAndSparesDevices) {
  write_file_atomically(path("real.txt"), std::string("old"));
  fs::create_symlink(path("real.txt"), path("link.txt"));
  write_file_atomically(path("link.txt"), std::string("new"));
  EXPECT_TRUE(fs::is_symlink(path("link.txt")));
  EXPECT_EQ(read_text_file(path("real.txt")), "new");

  fs::create_symlink("/dev/null", path("null"));
  write_file_atomically(path("null"), std::string("gone"));
  EXPECT_TRUE(fs::is_character_file("/dev/null"));
}

TEST_F(FileTest, AppendsWholeLines) {
  const std::string file = path("one/a.jsonl");
  append_lines_to_file(file, "1\n");
  append_lines_to_file(file, "2\n3\n");
  EXPECT_EQ(read_text_file(file), "1\n2\n3\n");
  write_file_atomically(file, std::string("1\n2\ncut off"));
  append_lines_to_file(file, "4\n");
  EXPECT_EQ(read_text_file(file), "1\n2\n4\n");
  EXPECT_EQ(error_of([&] { append_lines_to_file(folder_.string(), "x\n"); }).code(), ErrorCode::io);
}

TEST_F(FileTest, ReadNamesAMissingFileAndAFolder) {
  const Error missing = error_of([&] { read_text_file(path("none")); });
  EXPECT_EQ(missing.code(), ErrorCode::bad_input);
  EXPECT_THAT(missing.what(), HasSubstr("cannot read " + path("none") + ": No such file"));
  const Error folder = error_of([&] { read_text_file(folder_.string()); });
  EXPECT_EQ(folder.code(), ErrorCode::bad_input);
  EXPECT_THAT(folder.what(), HasSubstr("it is a folder"));
}

TEST_F(FileTest, ReadsAFileOfUnknownSize) {
  EXPECT_THAT(read_text_file("/proc/self/status"), HasSubstr("Pid:"));
}

}  // namespace
}  // namespace lossgrid
