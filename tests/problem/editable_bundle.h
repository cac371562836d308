// SPDX-License-Identifier: Apache-2.0
// `EditableBundle`: safetensors file taken apart with nothing but a JSON parser, to be broken and
// put together again. Independent of the code under test.
#pragma once

#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

namespace lossgrid {

inline std::string golden_path(const std::string& name) {
  return std::string(LOSSGRID_SOURCE_DIR) + "/tests/golden/" + name + ".safetensors";
}

inline std::vector<std::string> golden_names() {
  return {"cispo",
          "distill_forward",
          "distill_reverse_linear",
          "dpo_sft_linear",
          "dpo_sum",
          "grpo_default",
          "grpo_dual_clip_k2",
          "grpo_entropy",
          "grpo_tis",
          "gspo",
          "nll_basic",
          "nll_bf16_vocab_edges",
          "nll_empty_and_single",
          "nll_linear",
          "nll_linear_bias",
          "nll_odd_vocab_offset",
          "nll_sampling_drop",
          "nll_sampling_linear",
          "nll_sampling_zero",
          "nll_smoothing_zloss",
          "nll_softcap_temperature"};
}

inline std::string bytes_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  EXPECT_TRUE(file.is_open()) << path;
  return {std::istreambuf_iterator<char>(file), {}};
}

/// A path of its own for each test, removed with it.
class ScratchFile {
 public:
  ScratchFile() {
    const auto* test = testing::UnitTest::GetInstance()->current_test_info();
    path_ = std::filesystem::temp_directory_path() /
            ("lossgrid-" + std::to_string(::getpid()) + "-" + test->test_suite_name() + "-" +
             test->name() + ".safetensors");
  }
  ~ScratchFile() {
    std::error_code ignored;
    std::filesystem::remove(path_, ignored);
  }
  ScratchFile(const ScratchFile&) = delete;
  ScratchFile& operator=(const ScratchFile&) = delete;
  std::string path() const { return path_.string(); }

  std::string write(const std::string& bytes) const {
    std::ofstream(path_, std::ios::binary) << bytes;
    return path();
  }

 private:
  std::filesystem::path path_;
};

struct EditableBundle {
  nlohmann::ordered_json header;
  std::string data;

  static EditableBundle read(const std::string& path) {
    const std::string bytes = bytes_of(path);
    std::uint64_t length = 0;
    std::memcpy(&length, bytes.data(), 8);
    return {nlohmann::ordered_json::parse(bytes.substr(8, length)), bytes.substr(8 + length)};
  }

  static std::string assemble(const std::string& header, const std::string& data) {
    const std::uint64_t length = header.size();
    std::string bytes(8, '\0');
    std::memcpy(bytes.data(), &length, 8);
    return bytes + header + data;
  }
  std::string bytes() const { return assemble(header.dump(), data); }

  nlohmann::ordered_json& metadata() { return header["__metadata__"]; }
  std::size_t begin(const std::string& tensor) const {
    return header.at(tensor)["data_offsets"][0];
  }

  template <typename T>
  void set(const std::string& tensor, std::size_t index, T value) {
    std::memcpy(data.data() + begin(tensor) + index * sizeof(T), &value, sizeof(T));
  }
  template <typename T>
  T get(const std::string& tensor, std::size_t index) const {
    T value;
    std::memcpy(&value, data.data() + begin(tensor) + index * sizeof(T), sizeof(T));
    return value;
  }

  /// Takes a tensor out, with its bytes.
  void remove(const std::string& tensor) {
    const std::size_t first = begin(tensor);
    const std::size_t last = header[tensor]["data_offsets"][1];
    data.erase(first, last - first);
    header.erase(tensor);
    for (auto& [name, entry] : header.items()) {
      if (name == "__metadata__" || entry["data_offsets"][0] < last) continue;
      for (auto& offset : entry["data_offsets"])
        offset = offset.get<std::size_t>() - (last - first);
    }
  }
  /// Adds a tensor at the end.
  void add(const std::string& tensor, const std::string& dtype, std::vector<std::int64_t> shape,
           const std::string& bytes) {
    auto& entry = header[tensor];
    entry["dtype"] = dtype;
    entry["shape"] = shape;
    entry["data_offsets"] = {data.size(), data.size() + bytes.size()};
    data += bytes;
  }
};

}  // namespace lossgrid
