// SPDX-License-Identifier: Apache-2.0
#include "harness/comm/launcher.h"

#include <map>
#include <string>

#include <gtest/gtest.h>

namespace lossgrid {
namespace {

bool launched(const std::map<std::string, std::string>& environment) {
  return under_launcher([&](const char* name) {
    const auto found = environment.find(name);
    return found == environment.end() ? nullptr : found->second.c_str();
  });
}

TEST(Launcher, KnowsTheVariablesOfEachLauncher) {
  EXPECT_TRUE(launched({{"OMPI_COMM_WORLD_SIZE", "2"}, {"OMPI_COMM_WORLD_RANK", "0"}}));
  EXPECT_TRUE(launched({{"OMPI_COMM_WORLD_SIZE", "1"}}));
  EXPECT_TRUE(launched({{"PMIX_RANK", "3"}}));
  EXPECT_TRUE(launched({{"PMI_SIZE", "4"}, {"PMI_RANK", "1"}}));
  EXPECT_TRUE(launched({{"MV2_COMM_WORLD_SIZE", "4"}}));
  EXPECT_TRUE(launched({{"SLURM_PROCID", "1"}, {"SLURM_STEP_NUM_TASKS", "2"}}));
}

TEST(Launcher, AnAllocationOrAScriptIsNoStep) {
  EXPECT_FALSE(launched({}));
  EXPECT_FALSE(launched({{"PATH", "/usr/bin"}, {"WORLD_SIZE", "8"}}));
  EXPECT_FALSE(launched({{"SLURM_NTASKS", "8"}, {"SLURM_JOB_ID", "17"}}));
  EXPECT_FALSE(launched({{"SLURM_NTASKS", "8"}, {"SLURM_PROCID", "0"}}));
  EXPECT_FALSE(launched({{"SLURM_PROCID", "0"}, {"SLURM_STEP_NUM_TASKS", "1"}}));
  EXPECT_FALSE(launched({{"SLURM_STEP_NUM_TASKS", "2"}}));
}

}  // namespace
}  // namespace lossgrid
