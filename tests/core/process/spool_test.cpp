// SPDX-License-Identifier: Apache-2.0
#include "harness/core/process/spool.h"

#include <cstdlib>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace lossgrid {
namespace {

std::vector<std::string> records_of(const Spool& spool) {
  std::vector<std::string> records;
  Spool::Reader reader(spool);
  for (std::string record; reader.next(record);) records.push_back(record);
  return records;
}

TEST(Spool, KeepsRecordsOfAllSizesInTheirOrder) {
  Spool spool;
  std::vector<std::string> wanted;
  EXPECT_EQ(records_of(spool), wanted);
  for (const std::size_t size : {0, 1, 7, 65'527, 65'528, 65'529, 200'000, 3, 0}) {
    wanted.emplace_back(size, static_cast<char>('a' + wanted.size()));
    spool.append(wanted.back());
    EXPECT_EQ(spool.size(), wanted.size());
    EXPECT_EQ(records_of(spool), wanted);
  }
}

TEST(Spool, ReadersGoTheirOwnWay) {
  Spool spool;
  for (const char* record : {"one", "two"}) spool.append(record);
  Spool::Reader first(spool);
  std::string record;
  ASSERT_TRUE(first.next(record));
  Spool::Reader second(spool);
  ASSERT_TRUE(second.next(record));
  EXPECT_EQ(record, "one");
  spool.append("three");
  ASSERT_TRUE(first.next(record));
  ASSERT_TRUE(first.next(record));
  EXPECT_EQ(record, "three");
  EXPECT_FALSE(first.next(record));
}

TEST(Spool, KeepsInMemoryWhatTheFolderCannotHold) {
  const char* old = std::getenv("TMPDIR");
  const std::string kept = old == nullptr ? "" : old;
  ::setenv("TMPDIR", "/proc", 1);
  Spool spool;
  const std::vector<std::string> wanted{std::string(100'000, 'x'), "", std::string(70'000, 'y'),
                                        "z"};
  for (const std::string& record : wanted) {
    spool.append(record);
    EXPECT_EQ(records_of(spool).back(), record);
  }
  EXPECT_EQ(records_of(spool), wanted);
  old == nullptr ? ::unsetenv("TMPDIR") : ::setenv("TMPDIR", kept.c_str(), 1);
}

}  // namespace
}  // namespace lossgrid
