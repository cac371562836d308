// SPDX-License-Identifier: Apache-2.0
// Tests of the rules of a file of results.
#include "harness/problem/bundle/recorded_results.h"

#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "editable_bundle.h"
#include "expect_error.h"

namespace lossgrid {
namespace {

using ::testing::ElementsAre;

template <typename T>
std::string bytes_of_values(const std::vector<T>& values) {
  std::string bytes(values.size() * sizeof(T), '\0');
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

/// Two tokens, three ids.
EditableBundle small_results() {
  EditableBundle file;
  file.metadata() = {{"format", "lossgrid.results/1"}, {"metrics", R"({"loss":1.5,"ppl":null})"}};
  file.add("loss", "F64", {1}, bytes_of_values<double>({1.5}));
  file.add("logprobs", "F32", {2}, bytes_of_values<float>({0, -1.25f}));
  // 1, -2, NaN | 0, 0.5, 3 in bf16.
  file.add("grad_logits", "BF16", {2, 3},
           bytes_of_values<std::uint16_t>({0x3f80, 0xc000, 0x7fc0, 0, 0x3f00, 0x4040}));
  return file;
}

TEST(RecordedResults, AreReadInEveryFloatingDtype) {
  const ScratchFile scratch;
  const RecordedResults results = RecordedResults::read(scratch.write(small_results().bytes()));
  EXPECT_THAT(results.names(), ElementsAre("grad_logits", "logprobs", "loss"));
  EXPECT_TRUE(results.has_gradients());
  EXPECT_EQ(results.loss(), 1.5);
  EXPECT_EQ(results.metrics().at("loss"), 1.5);
  EXPECT_EQ(results.metrics().at("ppl"), std::nullopt);
  double value = 0;
  results.read("logprobs", 1, std::span(&value, 1));
  EXPECT_EQ(value, -1.25);
  std::vector<double> row(3);
  results.read("grad_logits", 3, row);
  EXPECT_THAT(row, ElementsAre(0, 0.5, 3));
  results.read("grad_logits", 0, row);
  EXPECT_TRUE(std::isnan(row[2]));  // a value here; the comparison refuses it
  EXPECT_NO_THROW(results.require_shape("grad_logits", {2, 3}, "[T, V]"));
  expect_bad_input(
      [&] {
        results.require_shape("grad_logits", {2, 4}, "[T, V]");
      },
      {scratch.path(), "\"grad_logits\"", "[2, 3]", "[T, V] = [2, 4]"});
}

TEST(RecordedResults, MayBeOfOneKindAlone) {
  const ScratchFile scratch;
  EditableBundle file = small_results();
  file.header.erase("__metadata__");
  file.remove("loss");
  file.remove("grad_logits");
  const RecordedResults results = RecordedResults::read(scratch.write(file.bytes()));
  EXPECT_THAT(results.names(), ElementsAre("logprobs"));
  EXPECT_FALSE(results.has_gradients());
  EXPECT_EQ(results.loss(), std::nullopt);
}

TEST(RecordedResults, NameTensorAndRuleThatAreBroken) {
  const ScratchFile scratch;
  const auto broken = [&](const auto& edit, std::vector<std::string> parts) {
    EditableBundle file = small_results();
    edit(file);
    parts.push_back(scratch.path());
    expect_bad_input([&] { RecordedResults::read(scratch.write(file.bytes())); }, parts);
  };
  broken([](EditableBundle& f) { f.metadata()["format"] = "lossgrid.bundle/1"; },
         {"format", "lossgrid.bundle/1", "must be 'lossgrid.results/1'"});
  broken([](EditableBundle& f) { f.metadata()["metrisc"] = "{}"; }, {"metrisc", "'metrics'"});
  broken([](EditableBundle& f) { f.metadata()["metrics"] = R"({"loss":"1"})"; },
         {"metrics", "\"loss\"", "neither a number nor null"});
  broken([](EditableBundle& f) { f.metadata()["metrics"] = R"({"loss":NaN})"; }, {"metrics"});
  broken([](EditableBundle& f) { f.header["logprobs"]["dtype"] = "I32"; },
         {"\"logprobs\"", "dtype I32", "F64 or F32 or BF16"});
  broken([](EditableBundle& f) { f.header["grad_logits"]["shape"] = {6}; },
         {"\"grad_logits\"", "shape [6]", "2 dimensions"});
  broken([](EditableBundle& f) { f.add("logprob", "F32", {0}, ""); },
         {"\"logprob\"", "did you mean 'logprobs'?"});
  broken(
      [](EditableBundle& f) {
        f.header.erase("__metadata__");
        for (const char* name : {"loss", "logprobs", "grad_logits"}) f.remove(name);
      },
      {"holds no results", "grad_logits"});
  broken(
      [](EditableBundle& f) {
        f.remove("loss");
        f.add("loss", "F64", {2}, bytes_of_values<double>({1, 2}));
      },
      {"\"loss\"", "[2]", "[1]"});
}

}  // namespace
}  // namespace lossgrid
