// SPDX-License-Identifier: Apache-2.0
#include "harness/external/plugin/plugin_memory.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "harness/core/text.h"
#include "harness/external/plugin/plugin_tensors.h"

namespace lossgrid {

void* PluginMemory::allocate(std::size_t bytes, const char* tag) noexcept {
  try {
    Buffer buffer = device_.allocate(bytes, tag != nullptr && *tag != 0 ? tag : "plugin",
                                     plugin_space(device_));
    void* const memory = buffer.data();
    blocks_.emplace(memory, std::move(buffer));
    live_bytes_ += static_cast<std::int64_t>(bytes);
    peak_bytes_ = std::max(peak_bytes_, live_bytes_);
    return memory;
  } catch (...) {
    return nullptr;
  }
}

void PluginMemory::release(void* memory) noexcept {
  if (memory == nullptr) return;
  const auto block = blocks_.find(memory);
  if (block == blocks_.end()) {
    wrong_release_ = true;
    return;
  }
  live_bytes_ -= static_cast<std::int64_t>(block->second.bytes());
  blocks_.erase(block);
}

void PluginMemory::require_right_releases() const {
  if (!wrong_release_) return;
  throw Error(ErrorCode::rank_failed, "it released memory that is not allocated");
}

std::string PluginMemory::left() const {
  std::map<std::string, std::size_t> by_tag;
  for (const auto& [memory, buffer] : blocks_) by_tag[buffer.tag()] += buffer.bytes();
  std::vector<std::string> parts;
  for (const auto& [tag, bytes] : by_tag) {
    parts.push_back(fmt::format("{} bytes of '{}'", bytes, tag));
  }
  return join(parts, ", ");
}

}  // namespace lossgrid
