// SPDX-License-Identifier: Apache-2.0
// Available memory from folders that stand for /proc and /sys.
#include "harness/core/process/available_memory.h"

#include <filesystem>
#include <fstream>
#include <limits>

#include <gtest/gtest.h>

namespace lossgrid {
namespace {

namespace fs = std::filesystem;

class AvailableMemory : public testing::Test {
 protected:
  AvailableMemory() {
    std::string name = (fs::temp_directory_path() / "lossgrid_memory_XXXXXX").string();
    root_ = ::mkdtemp(name.data());
    write("proc/meminfo", "MemTotal: 9000 kB\nMemFree: 10 kB\nMemAvailable:    4000 kB\n");
  }
  ~AvailableMemory() override { fs::remove_all(root_); }

  void write(const std::string& path, const std::string& text) {
    fs::create_directories((root_ / path).parent_path());
    std::ofstream(root_ / path) << text;
  }
  void write_group(const std::string& folder, const std::string& limit, std::int64_t used,
                   const std::string& stat) {
    write("sys/fs/cgroup/" + folder + "/memory.max", limit + "\n");
    write("sys/fs/cgroup/" + folder + "/memory.current", std::to_string(used) + "\n");
    write("sys/fs/cgroup/" + folder + "/memory.stat", stat);
  }
  void write_group_1(const std::string& folder, const std::string& limit, std::int64_t used,
                     const std::string& stat) {
    write("sys/fs/cgroup/memory/" + folder + "/memory.limit_in_bytes", limit + "\n");
    write("sys/fs/cgroup/memory/" + folder + "/memory.usage_in_bytes", std::to_string(used) + "\n");
    write("sys/fs/cgroup/memory/" + folder + "/memory.stat", stat);
  }
  std::int64_t available() const { return available_memory_bytes(root_.string()); }

  fs::path root_;
  const std::int64_t of_machine_ = 4000 * 1024;
};

TEST_F(AvailableMemory, IsThatOfTheMachineWithoutAControlGroup) {
  EXPECT_EQ(available(), of_machine_);
  fs::remove(root_ / "proc/meminfo");
  EXPECT_EQ(available(), std::numeric_limits<std::int64_t>::max());
}

TEST_F(AvailableMemory, CachedFilesOfAGroupCountAsFree) {
  write("proc/self/cgroup", "0::/\n");
  write_group("", "1000000", 900000,
              "anon 200000\nfile 650000\nshmem 50000\ninactive_anon 120000\n"
              "inactive_file 300000\nactive_file 290000\nslab_reclaimable 10000\n"
              "slab_unreclaimable 7\n");
  EXPECT_EQ(available(), 1000000 - (900000 - 300000 - 290000 - 10000));
}

TEST_F(AvailableMemory, NoLimitIsNone) {
  write("proc/self/cgroup", "0::/\n");
  write_group("", "max", 900000, "");
  EXPECT_EQ(available(), of_machine_);
}

TEST_F(AvailableMemory, ALimitBelowWhatIsTakenLeavesNothing) {
  write("proc/self/cgroup", "0::/job\n");
  write_group("job", "1000", 2500, "inactive_file 500\n");
  EXPECT_EQ(available(), 0);
}

TEST_F(AvailableMemory, TheTightestOfNestedGroupsCounts) {
  write("proc/self/cgroup", "0::/slurm/job7/step\n");
  write_group("slurm/job7/step", "max", 100, "");
  write_group("slurm/job7", "700000", 200000, "inactive_file 1000\n");
  write_group("slurm", "3000000", 100000, "");
  EXPECT_EQ(available(), 501000);
  write_group("slurm/job7/step", "300100", 100, "");
  EXPECT_EQ(available(), 300000);
  write_group("slurm", "3000000", 2800000, "");
  EXPECT_EQ(available(), 200000);
}

TEST_F(AvailableMemory, TheRootIsTheContainersOwnGroupWhereTheHostsPathIsHidden) {
  write("proc/self/cgroup", "0::/system.slice/docker-abc.scope\n");
  write_group("", "500000", 100000, "");
  EXPECT_EQ(available(), 400000);
}

TEST_F(AvailableMemory, GroupsOfVersion1AreRead) {
  write("proc/self/cgroup",
        "12:cpu,cpuacct:/other\n11:memory:/docker/abc\n1:name=systemd:/docker/abc\n");
  write_group_1("docker/abc", "800000", 600000,
                "inactive_file 1\ntotal_inactive_file 150000\ntotal_active_file 50000\n");
  write_group_1("other", "10", 5, "");
  write_group_1("", "9223372036854771712", 700000, "");
  EXPECT_EQ(available(), 400000);
}

TEST_F(AvailableMemory, TheTighterGroupOfBothVersionsCounts) {
  write("proc/self/cgroup", "4:memory:/\n0::/\n");
  write_group("", "900000", 0, "");
  EXPECT_EQ(available(), 900000);
  write_group_1("", "800000", 0, "");
  EXPECT_EQ(available(), 800000);
}

TEST(AvailableMemoryOfThisMachine, IsSome) {
  EXPECT_GT(available_memory_bytes(), 0);
}

}  // namespace
}  // namespace lossgrid
