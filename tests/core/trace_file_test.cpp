// SPDX-License-Identifier: Apache-2.0
#include "harness/core/trace_file.h"

#include <filesystem>
#include <memory>

#include <gmock/gmock.h>
#include <unistd.h>

#include "harness/core/error.h"
#include "harness/core/file.h"
#include "harness/core/rank_timeline.h"
#include "trace_loader.h"

namespace lossgrid {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using Track = RankTimeline::Track;

class TraceFileTest : public testing::Test {
 protected:
  ~TraceFileTest() override { std::filesystem::remove_all(folder_); }
  std::string path(const std::string& name) const { return (folder_ / name).string(); }
  std::shared_ptr<TraceFile> open(const std::string& name) const {
    return std::make_shared<TraceFile>(path(name), 0);
  }
  LoadedTrace load(const std::string& name) const {
    return LoadedTrace(read_text_file(path(name)));
  }

  std::filesystem::path folder_ =
      std::filesystem::temp_directory_path() / ("lossgrid-trace-" + std::to_string(::getpid()));
};

void work(RankTimeline& rank) {
  rank.begin(Track::work, "forward");
  rank.begin(Track::collectives, "tp all_reduce", {{"bytes", 32}});
  rank.end(Track::collectives);
  rank.count("memory logits", "bytes", 96);
  rank.end(Track::work);
  rank.begin(Track::work, "back\"ward\n");
}

TEST_F(TraceFileTest, LoadsAtEveryEventAndAtEveryLine) {
  const auto file = open("t.json");
  EXPECT_THAT(load("t.json").complaints, IsEmpty());
  RankTimeline rank(file, 2);
  work(rank);
  const std::string text = read_text_file(path("t.json"));
  std::size_t lines = 0;
  for (std::size_t end = text.find('\n'); end != std::string::npos;
       end = text.find('\n', end + 1)) {
    EXPECT_THAT(LoadedTrace(text.substr(0, end)).complaints, IsEmpty()) << text.substr(0, end);
    ++lines;
  }
  EXPECT_EQ(lines, 4u + 6u);
  const LoadedTrace trace = load("t.json");
  EXPECT_FALSE(trace.is_closed);
  EXPECT_EQ(trace.process_names.at(2), "rank 2");
  ASSERT_EQ(trace.slices.size(), 3u);
  EXPECT_EQ(trace.slices[0].name, "forward");
  EXPECT_FALSE(trace.slices[0].is_open());
  EXPECT_EQ(trace.slices[1].arguments["bytes"], 32);
  EXPECT_NE(trace.slices[1].thread, trace.slices[0].thread);
  EXPECT_TRUE(trace.slices[2].is_open());
  EXPECT_EQ(trace.slices[2].depth, 0u);
  EXPECT_THAT(trace.counters.at({2, "memory logits bytes"}), ElementsAre(96));
}

TEST_F(TraceFileTest, ATimelineEndsItsSlicesAndAnotherOneOfTheRankGoesOn) {
  const auto file = open("t.json");
  for (int trial = 0; trial < 2; ++trial) {
    RankTimeline rank(file, 0);
    rank.begin(Track::work, "trial");
    work(rank);
  }
  file->finish();
  file->add("{\"late\":1}");  // event of a thread that hung until now
  const std::string text = read_text_file(path("t.json"));
  EXPECT_TRUE(nlohmann::json::parse(text).is_array());
  EXPECT_EQ(text.find("process_name"), text.rfind("process_name"));
  const LoadedTrace trace(text);
  EXPECT_THAT(trace.complaints, IsEmpty());
  EXPECT_TRUE(trace.is_closed);
  ASSERT_EQ(trace.slices.size(), 8u);
  for (const LoadedSlice& slice : trace.slices) EXPECT_FALSE(slice.is_open()) << slice.name;
  EXPECT_EQ(trace.slices[4].depth, 0u);
}

TEST_F(TraceFileTest, TakesTheEventsOfOthers) {
  const auto file = open("t.json");
  for (const int rank : {1, 2}) {
    const auto other = open("t.json.rank" + std::to_string(rank));
    if (rank == 1) RankTimeline(other, rank).begin(Track::work, "forward");
    other->finish();
    file->take(other->path());
    EXPECT_FALSE(std::filesystem::exists(other->path()));
  }
  file->take(path("not there"));
  RankTimeline(file, 0).begin(Track::work, "forward");
  file->finish();
  const LoadedTrace trace = load("t.json");
  EXPECT_THAT(trace.complaints, IsEmpty());
  EXPECT_EQ(trace.slices.size(), 2u);
  EXPECT_EQ(trace.process_names.size(), 2u);
}

TEST_F(TraceFileTest, NamesAFileThatCannotBeWritten) {
  const auto message = [](const std::string& path) -> std::string {
    try {
      TraceFile(path, 0);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::io);
      return error.what();
    }
    return "";
  };
  EXPECT_THAT(message("/dev/full"), HasSubstr("cannot write /dev/full: No space left"));
  EXPECT_THAT(message("/proc/nowhere/t.json"), HasSubstr("cannot write /proc/nowhere/t.json: "));
}

}  // namespace
}  // namespace lossgrid
