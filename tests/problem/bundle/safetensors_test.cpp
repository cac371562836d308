// SPDX-License-Identifier: Apache-2.0
#include "harness/problem/bundle/safetensors.h"

#include <functional>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "editable_bundle.h"
#include "expect_error.h"

namespace lossgrid {
namespace {

using Json = nlohmann::ordered_json;
using testing::ElementsAre;

std::vector<std::byte> raw(const std::string& bytes) {
  const auto* first = reinterpret_cast<const std::byte*>(bytes.data());
  return {first, first + bytes.size()};
}

TEST(Safetensors, ReadsEveryGoldenFile) {
  for (const std::string& name : golden_names()) {
    const SafetensorsFile file = SafetensorsFile::read(golden_path(name));
    const EditableBundle plain = EditableBundle::read(golden_path(name));
    EXPECT_EQ(file.names().size() + 1, plain.header.size()) << name;
    EXPECT_EQ(file.metadata().at("format"), "lossgrid.bundle/1");
    for (const std::string& tensor : file.names()) {
      const TensorView view = file.tensor(tensor);
      const std::size_t begin = plain.begin(tensor);
      EXPECT_EQ(Json(view.dtype), plain.header[tensor]["dtype"]);
      EXPECT_EQ(Json(view.shape), plain.header[tensor]["shape"]);
      EXPECT_EQ(std::memcmp(view.data.data(), plain.data.data() + begin, view.data.size()), 0);
    }
  }
}

TEST(Safetensors, WritesWhatItReads) {
  const ScratchFile scratch;
  const std::vector<TensorToWrite> tensors{
      {"bytes", "U8", {3}, raw("abc")},
      {"none", "F32", {0, 7}, {}},
      {"scalar", "F64", {}, raw(std::string(8, '\x01'))},
      {"half", "BF16", {1, 2}, raw("wxyz")},
  };
  write_safetensors(scratch.path(), {{"key", "value \"quoted\"\n"}}, tensors);
  const SafetensorsFile file = SafetensorsFile::read(scratch.path());
  EXPECT_EQ(file.metadata(), (std::map<std::string, std::string>{{"key", "value \"quoted\"\n"}}));
  EXPECT_THAT(file.names(), ElementsAre("bytes", "half", "none", "scalar"));
  for (const TensorToWrite& tensor : tensors) {
    const TensorView view = file.tensor(tensor.name);
    EXPECT_EQ(view.dtype, tensor.dtype);
    EXPECT_EQ(view.shape, tensor.shape);
    EXPECT_EQ(std::vector<std::byte>(view.data.begin(), view.data.end()), tensor.data);
  }
  EXPECT_EQ(file.tensor("scalar").elements(), 1);
  EXPECT_EQ(file.tensor("none").elements(), 0);
  // Wide elements first, header padded: all of it is aligned for whoever maps the file.
  const std::string bytes = bytes_of(scratch.path());
  const EditableBundle plain = EditableBundle::read(scratch.path());
  EXPECT_EQ((bytes.size() - plain.data.size()) % 8, 0u);
  EXPECT_EQ(plain.begin("scalar"), 0u);
  EXPECT_EQ(plain.begin("half"), 8u);
}

TEST(Safetensors, WritesAFileWithoutAnything) {
  const ScratchFile scratch;
  write_safetensors(scratch.path(), {}, {});
  EXPECT_TRUE(SafetensorsFile::read(scratch.path()).names().empty());
}

TEST(Safetensors, RefusesToWriteWhatDoesNotFit) {
  const ScratchFile scratch;
  const auto write = [&](const std::vector<TensorToWrite>& tensors) {
    write_safetensors(scratch.path(), {}, tensors);
  };
  EXPECT_THROW(write({{"a", "F32", {2}, raw("1234")}}), Error);
  EXPECT_THROW(write({{"a", "U8", {1}, raw("1")}, {"a", "U8", {1}, raw("1")}}), Error);
  EXPECT_FALSE(std::filesystem::exists(scratch.path()));
}

TEST(Safetensors, ViewsOutliveTheFirstOwner) {
  SafetensorsFile copy;
  {
    SafetensorsFile file = SafetensorsFile::read(golden_path("nll_basic"));
    copy = file;
  }
  EXPECT_EQ(copy.tensor("cu_seqlens").at<std::int32_t>(0), 0);
  EXPECT_EQ(copy.tensor("cu_seqlens").at<std::int32_t>(4), 40);
}

TEST(Safetensors, MissingTensorAndFileAreNamed) {
  const SafetensorsFile file = SafetensorsFile::read(golden_path("nll_basic"));
  EXPECT_FALSE(file.has("hidden"));
  expect_bad_input([&] { file.tensor("hidden"); }, {"nll_basic", "\"hidden\"", "missing"});
  expect_bad_input([] { SafetensorsFile::read("/none/there"); }, {"/none/there", "No such file"});
}

struct BrokenHeader {
  std::string header;
  std::string data;
  std::vector<std::string> parts;
};

TEST(Safetensors, RefusesBrokenHeaders) {
  const ScratchFile scratch;
  const auto one = [](const std::string& dtype, const std::string& shape,
                      const std::string& offsets) {
    return R"({"a":{"dtype":")" + dtype + R"(","shape":)" + shape + R"(,"data_offsets":)" +
           offsets + "}}";
  };
  const std::string data(8, 'x');
  const std::string deep(1000, '[');
  const std::vector<BrokenHeader> all{
      {"", data, {"header is not a JSON object"}},
      {"[]", data, {"header is not a JSON object"}},
      {" {}", "", {"header is not a JSON object"}},
      {"{\"a\":", data, {"header: not JSON at byte"}},
      {"{\"a\":\"\xff\"}", data, {"header: not JSON at byte"}},
      {"{}{}", "", {"header: not JSON at byte"}},
      {"{\"a\":" + deep, data, {"header: nested deeper than 3 levels"}},
      {R"({"a":1e999})", data, {"header: not JSON"}},
      {R"({"a":1})", data, {"tensor \"a\"", "not an object"}},
      {R"({"a\nb":1})", data, {R"(tensor "a\nb")", "not an object"}},
      {R"({"__metadata__":[]})", "", {"__metadata__ is not an object"}},
      {R"({"__metadata__":{"k":1}})", "", {"__metadata__.\"k\" is not a string"}},
      {R"({"a":{},"a":{}})", data, {"the key \"a\" stands twice"}},
      {R"({"a":{"shape":[8],"data_offsets":[0,8]}})", data, {"\"a\"", "'dtype' is missing"}},
      {R"({"a":{"dtype":"U8","data_offsets":[0,8]}})", data, {"\"a\"", "'shape' is missing"}},
      {R"({"a":{"dtype":"U8","shape":[8]}})", data, {"\"a\"", "'data_offsets' is missing"}},
      {one("F99", "[8]", "[0,8]"), data, {"\"a\"", "dtype \"F99\" is unknown"}},
      {one("U8", "8", "[0,8]"), data, {"\"a\"", "'shape' is not an array"}},
      {one("U8", "[-8]", "[0,8]"), data, {"\"a\"", "'shape' holds -8 at 0", "whole number"}},
      {one("U8", "[8.0]", "[0,8]"), data, {"\"a\"", "'shape' holds 8.0 at 0"}},
      {one("U8", "[\"8\"]", "[0,8]"), data, {"\"a\"", "'shape' holds \"8\" at 0"}},
      {one("U8", "[18446744073709551615]", "[0,8]"), data, {"\"a\"", "18446744073709551615"}},
      {one("U8", "[4611686018427387904,4]", "[0,8]"), data, {"\"a\"", "exceeds 2^62"}},
      {one("F64", "[4611686018427387904]", "[0,8]"), data, {"\"a\"", "exceeds 2^62"}},
      {one("U8", "[8]", "[0]"), data, {"\"a\"", "'data_offsets' holds 1 numbers, must hold 2"}},
      {one("U8", "[8]", "[0,9]"), data, {"\"a\"", "[0, 9] do not lie in the 8 bytes"}},
      {one("U8", "[0]", "[8,0]"), data, {"\"a\"", "[8, 0] do not lie in"}},
      {one("U8", "[7]", "[0,8]"), data, {"\"a\"", "hold 8 bytes, U8 [7] needs 7"}},
      {one("F32", "[2,2]", "[0,8]"), data, {"\"a\"", "hold 8 bytes, F32 [2, 2] needs 16"}},
      {one("U8", "[7]", "[1,8]"), data, {"\"a\"", "begin at 1, must begin at 0", "gaps"}},
      {one("U8", "[7]", "[0,7]"), data, {"end at byte 7 of 8"}},
      {R"({"a":{"dtype":"U8","shape":[5],"data_offsets":[0,5]},)"
       R"("b":{"dtype":"U8","shape":[4],"data_offsets":[4,8]}})",
       data,
       {"\"b\"", "begin at 4, must begin at 5", "overlap"}},
  };
  for (const BrokenHeader& broken : all) {
    scratch.write(EditableBundle::assemble(broken.header, broken.data));
    std::vector<std::string> parts = broken.parts;
    parts.push_back(scratch.path());
    SCOPED_TRACE(broken.header.substr(0, 200));
    expect_bad_input([&] { SafetensorsFile::read(scratch.path()); }, parts);
  }
}

TEST(Safetensors, RefusesAbsurdHeaderLengths) {
  const ScratchFile scratch;
  const std::string good = bytes_of(golden_path("nll_basic"));
  for (const std::uint64_t length :
       {std::uint64_t{0}, std::uint64_t{1}, good.size() - 7, good.size(), std::uint64_t{1} << 31,
        std::uint64_t{1} << 63, ~std::uint64_t{0}, ~std::uint64_t{0} - 7}) {
    std::string bytes = good;
    std::memcpy(bytes.data(), &length, 8);
    scratch.write(bytes);
    SCOPED_TRACE(length);
    expect_bad_input([&] { SafetensorsFile::read(scratch.path()); }, {"header", scratch.path()});
  }
  for (std::size_t size = 0; size < 8; ++size) {
    scratch.write(good.substr(0, size));
    expect_bad_input([&] { SafetensorsFile::read(scratch.path()); }, {"too few"});
  }
}

}  // namespace
}  // namespace lossgrid
