// SPDX-License-Identifier: Apache-2.0
#include "harness/external/host_calls.h"

#include <limits>
#include <utility>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "harness/core/error.h"
#include "harness/external/shared_memory.h"

namespace lossgrid {
namespace {

template <typename Enum>
Enum named(const std::string& text, std::initializer_list<Enum> all) {
  for (const Enum one : all) {
    if (name(one) == text) return one;
  }
  throw Error(ErrorCode::rank_failed, fmt::format("a worker asks for a collective of '{}'", text));
}

}  // namespace

PayloadFile::~PayloadFile() {
  if (memory_ != nullptr) munmap(memory_, bytes_);
}

std::byte* PayloadFile::map(std::size_t bytes) {
  if (bytes <= bytes_) return memory_;
  struct stat now {};
  // Access to a page beyond the end of the file would raise SIGBUS.
  if (fstat(file_.get(), &now) != 0 || static_cast<std::size_t>(now.st_size) < bytes) {
    throw Error(ErrorCode::rank_failed, "payloads of a collective are longer than their file");
  }
  if (memory_ != nullptr) munmap(memory_, std::exchange(bytes_, 0));
  void* mapped = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file_.get(), 0);
  memory_ = mapped == MAP_FAILED ? nullptr : static_cast<std::byte*>(mapped);
  if (memory_ == nullptr) throw Error(ErrorCode::not_enough_memory, "payloads cannot be mapped");
  bytes_ = bytes;
  return memory_;
}

std::byte* PayloadFile::extend(std::size_t bytes) {
  if (bytes > bytes_ && posix_fallocate(file_.get(), 0, static_cast<off_t>(bytes)) != 0) {
    throw Error(ErrorCode::not_enough_memory,
                fmt::format("no {} bytes for the payloads of a collective", bytes));
  }
  return map(bytes);
}

std::unique_ptr<Communicator> split_dp(Communicator& stage, int stage_part) {
  return stage.split(stage.rank() % stage_part, stage.rank(), "dp");
}

HostCalls::HostCalls(const RankContext& context, int stage_part)
    : tp_(context.tp),
      cp_(context.cp),
      world_(context.stage),
      dp_(split_dp(context.stage, stage_part)),
      payloads_(make_memory_file("lossgrid payloads")) {}

Communicator& HostCalls::group_named(const std::string& name) {
  if (name == "tp") return tp_;
  if (name == "cp") return cp_;
  if (name == "dp") return *dp_;
  if (name == "world") return world_;
  throw Error(ErrorCode::rank_failed, fmt::format("a worker asks for the group '{}'", name));
}

nlohmann::json HostCalls::make(const nlohmann::json& call) {
  const auto group_name = call.at("group").get<std::string>();
  Communicator& group = group_named(group_name);
  const Collective collective =
      named(call.at("call").get<std::string>(),
            {Collective::all_reduce, Collective::all_gather, Collective::reduce_scatter,
             Collective::broadcast, Collective::barrier});
  const DType dtype =
      named(call.at("dtype").get<std::string>(),
            {DType::f64, DType::f32, DType::bf16, DType::i64, DType::i32, DType::u8});
  const ReduceOp op =
      named(call.at("reduce").get<std::string>(), {ReduceOp::sum, ReduceOp::max, ReduceOp::min});
  const auto count = call.at("count").get<std::size_t>();
  const auto size = static_cast<std::size_t>(group.size());
  if (count > std::numeric_limits<std::size_t>::max() / (8 * (size + 1))) {
    throw Error(ErrorCode::rank_failed, fmt::format("a collective of {} elements", count));
  }
  const std::size_t bytes = count * size_of(dtype);
  // Sent elements, followed by received elements if the operation does not work in place.
  std::byte* const sent = payloads_.map((size + 1) * bytes);
  switch (collective) {
    case Collective::all_reduce:
      group.all_reduce(sent, count, dtype, op);
      break;
    case Collective::all_gather:
      group.all_gather(sent, sent + bytes, count, dtype);
      break;
    case Collective::reduce_scatter:
      group.reduce_scatter(sent, sent + size * bytes, count, dtype, op);
      break;
    case Collective::broadcast:
      group.broadcast(sent, count, dtype, call.at("root").get<int>());
      break;
    case Collective::barrier:
      group.barrier();
      break;
  }
  return {{"ok", true}};
}

}  // namespace lossgrid
