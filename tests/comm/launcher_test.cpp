// SPDX-License-Identifier: Apache-2.0
#include "harness/comm/launcher.h"

#include <map>
#include <string>

#include <gtest/gtest.h>

namespace lossgrid {
namespace {

using Environment = std::map<std::string, std::string>;

EnvironmentLookup lookup_in(const Environment& environment) {
  return [&environment](const char* name) {
    const auto found = environment.find(name);
    return found == environment.end() ? nullptr : found->second.c_str();
  };
}

bool launched(const Environment& environment) {
  return under_launcher(lookup_in(environment));
}

int rank_in(const Environment& environment) {
  return launcher_rank(lookup_in(environment));
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

TEST(Launcher, KnowsTheRankOfTheProcess) {
  EXPECT_EQ(rank_in({}), 0);
  EXPECT_EQ(rank_in({{"OMPI_COMM_WORLD_SIZE", "8"}, {"OMPI_COMM_WORLD_RANK", "3"}}), 3);
  EXPECT_EQ(rank_in({{"PMIX_RANK", "2"}}), 2);
  EXPECT_EQ(rank_in({{"PMI_SIZE", "4"}, {"PMI_RANK", "1"}}), 1);
  EXPECT_EQ(rank_in({{"SLURM_PROCID", "5"}, {"SLURM_STEP_NUM_TASKS", "6"}}), 5);
  EXPECT_EQ(rank_in({{"SLURM_PROCID", "5"}}), 0);  // no step of several processes
}

}  // namespace
}  // namespace lossgrid
