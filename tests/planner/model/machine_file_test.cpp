// SPDX-License-Identifier: Apache-2.0
// Machine files: a file is read as it was written, public entries have sources, and bad numbers are
// one line each.
#include "harness/planner/model/machine_file.h"

#include <functional>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harness/core/error.h"
#include "harness/core/file.h"
#include "harness/core/process/temporary_file.h"
#include "planner/model/simple_machine.h"

namespace lossgrid {
namespace {

using ::testing::HasSubstr;
using Json = nlohmann::ordered_json;

Json simple_file() {
  Machine machine = simple_machine();
  machine.sources = {"by hand"};
  machine.cache = MemoryRates{1 << 20, 10, 20, 30};
  machine.overlap = 0.5;
  machine.kept_exponentials_per_second = {{DType::f32, 512}, {DType::bf16, 256}};
  return machines_to_json({machine});
}

/// Returns the error of a file with this text; "" for none.
std::string refusal_of(const std::string& text) {
  const std::string path = ::testing::TempDir() + "machine_file_test.json";
  write_file_atomically(path, text);
  try {
    read_machines(path);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::bad_input) << error.what();
    return error.what();
  }
  return "";
}

/// Returns the error of the simple file after a change.
std::string refusal_after(const std::function<void(Json& machine)>& change) {
  Json file = simple_file();
  change(file["entries"][0]);
  return refusal_of(file.dump());
}

TEST(MachineFile, ReadsWhatItWrites) {
  const std::string path = ::testing::TempDir() + "machine_written.json";
  write_file_atomically(path, simple_file().dump());
  const Machine machine = find_machine(path);
  EXPECT_EQ(machines_to_json({machine}), simple_file());
  EXPECT_EQ(machine.transports[0].links[1].latency_seconds, 8);
}

TEST(MachineFile, PublicMachinesAreNotMeasuredAndHaveSources) {
  const std::vector<Machine> machines = read_machines(machines_path());
  ASSERT_GE(machines.size(), 3u);
  for (const Machine& machine : machines) {
    EXPECT_FALSE(machine.measured) << machine.name;
    EXPECT_THAT(machine.sources, ::testing::Contains(HasSubstr("https://"))) << machine.name;
  }
  EXPECT_EQ(find_machine("GB200-NVL72").ranks_per_node, 72);
}

TEST(MachineFile, BadNumbersAreOneLineEach) {
  const auto refused = [](const char* key, const Json& value) {
    return refusal_after([&](Json& machine) { machine["memory"][key] = value; });
  };
  EXPECT_THAT(refused("read_bytes_per_second", 0),
              HasSubstr("entries[0].memory: read_bytes_per_second = 0 is not a positive number"));
  EXPECT_THAT(refused("copy_bytes_per_second", -1.5), HasSubstr("= -1.5 is not a positive number"));
  EXPECT_THAT(refused("update_bytes_per_second", "fast"), HasSubstr("\"fast\" is not a positive"));
  EXPECT_THAT(refused("bytes", nullptr), HasSubstr("bytes = null is not a positive number"));
  EXPECT_THAT(refusal_after([](Json& machine) { machine["gemm_flops_per_second"]["f32"] = 0; }),
              HasSubstr("gemm_flops_per_second: f32 = 0"));
  EXPECT_THAT(
      refusal_after([](Json& machine) { machine["kept_exponentials_per_second"]["f32"] = -1; }),
      HasSubstr("kept_exponentials_per_second: f32 = -1"));
  EXPECT_THAT(refusal_after([](Json& machine) { machine["gemm_flops_per_second"]["f16"] = 1; }),
              HasSubstr("dtype"));
  EXPECT_THAT(refusal_after([](Json& machine) { machine["overlap"] = 1.5; }),
              HasSubstr("overlap = 1.5 is greater than 1"));
  EXPECT_THAT(refusal_after([](Json& machine) { machine["row_seconds"] = -1; }),
              HasSubstr("row_seconds = -1 is negative"));
  EXPECT_THAT(refusal_after([](Json& machine) {
                machine["transports"][0]["links"][0]["latency_seconds"] = 0;
              }),
              HasSubstr("transports[0].links[0]: latency_seconds = 0"));
  EXPECT_THAT(
      refusal_after([](Json& machine) { machine["transports"][0]["links"][1]["ranks"] = 16; }),
      HasSubstr("the last of links joins any number of ranks"));
  EXPECT_THAT(
      refusal_after([](Json& machine) { machine["transports"][0]["algorithms"] = {"rings"}; }),
      HasSubstr("did you mean 'ring'"));
  EXPECT_THAT(refusal_after([](Json& machine) { machine["cores"] = 2; }),
              HasSubstr("one of ranks_per_node and cores"));
  EXPECT_THAT(refusal_after([](Json& machine) { machine.erase("sources"); }),
              HasSubstr("there is no 'sources'"));
  EXPECT_THAT(refusal_after([](Json& machine) { machine["memry"] = 1; }),
              HasSubstr("did you mean 'memory'"));
  EXPECT_THAT(refusal_of("{\"machines\": 2, \"entries\": []}"),
              HasSubstr("not machines of version"));
  EXPECT_THAT(refusal_of("{\"machines\": 1, \"entries\": []}"), HasSubstr("entries"));
  EXPECT_THAT(refusal_of("{"), HasSubstr("malformed JSON"));
}

TEST(MachineFile, UnknownNamesHaveTheNearest) {
  try {
    find_machine("H100-SMX");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::bad_input);
    EXPECT_THAT(error.what(), HasSubstr("did you mean 'H100-SXM'"));
  }
  EXPECT_THROW(find_machine("/nowhere/machine.json"), Error);
  const Machine machine = find_machine("H100-SXM");
  EXPECT_THROW(machine.transport("mpi"), Error);
  EXPECT_EQ(&machine.transport(""), machine.transports.data());
}

}  // namespace
}  // namespace lossgrid
