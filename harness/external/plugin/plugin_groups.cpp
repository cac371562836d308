// SPDX-License-Identifier: Apache-2.0
#include "harness/external/plugin/plugin_groups.h"

#include <cstddef>

#include "harness/core/error.h"
#include "harness/device/device_work.h"

namespace lossgrid {
namespace {

DType element_dtype(int dtype) {
  switch (dtype) {
    case LOSSGRID_F64:
      return DType::f64;
    case LOSSGRID_F32:
      return DType::f32;
    case LOSSGRID_BF16:
      return DType::bf16;
    case LOSSGRID_I64:
      return DType::i64;
    case LOSSGRID_I32:
      return DType::i32;
    case LOSSGRID_U8:
      return DType::u8;
    default:
      throw Error(ErrorCode::rank_failed, fmt::format("a collective of dtype {}", dtype));
  }
}

ReduceOp reduce_op(int op) {
  if (op == LOSSGRID_SUM) return ReduceOp::sum;
  if (op == LOSSGRID_MAX) return ReduceOp::max;
  if (op == LOSSGRID_MIN) return ReduceOp::min;
  throw Error(ErrorCode::rank_failed, fmt::format("a collective with operation {}", op));
}

bool reduces(Collective collective) {
  return collective == Collective::all_reduce || collective == Collective::reduce_scatter;
}

}  // namespace

/// Functions in the tables of groups.
struct PluginCallTable {
  using Self = const lossgrid_communicator*;
  static PluginGroups::Group& group(Self self) {
    return *static_cast<PluginGroups::Group*>(self->host);
  }
  static int make(Self self, const PluginGroups::Call& call) {
    return group(self).owner->make(group(self), call);
  }
  static int all_reduce(Self self, void* data, std::size_t count, int dtype, int op) {
    return make(self, {Collective::all_reduce, data, data, count, dtype, op});
  }
  static int all_gather(Self self, const void* send, void* receive, std::size_t count, int dtype) {
    return make(self, {Collective::all_gather, send, receive, count, dtype});
  }
  static int reduce_scatter(Self self, const void* send, void* receive, std::size_t count,
                            int dtype, int op) {
    return make(self, {Collective::reduce_scatter, send, receive, count, dtype, op});
  }
  static int broadcast(Self self, void* data, std::size_t count, int dtype, int root) {
    return make(self, {Collective::broadcast, data, data, count, dtype, LOSSGRID_SUM, root});
  }
  static int barrier(Self self) {
    return make(self, {Collective::barrier, nullptr, nullptr, 0, LOSSGRID_U8});
  }
  static const char* error_text(Self self) { return group(self).owner->failure_text_.c_str(); }
};

PluginGroups::PluginGroups(const PluginRanks& ranks, Device& device) : device_(device) {
  const std::array<Communicator*, 4> all{&ranks.tp, &ranks.cp, &ranks.dp, &ranks.world};
  constexpr std::array<const char*, 4> kNames{"tp", "cp", "dp", "world"};
  for (std::size_t k = 0; k < groups_.size(); ++k) {
    Group& group = groups_[k];
    group.ranks = all[k];
    group.owner = this;
    const NativeCommunicator native = native_of(*all[k]);
    group.table = {.struct_size = sizeof(lossgrid_communicator),
                   .name = kNames[k],
                   .rank = all[k]->rank(),
                   .size = all[k]->size(),
                   .kind = native.kind,
                   .native = native.handle,
                   .host = &group,
                   .all_reduce = PluginCallTable::all_reduce,
                   .all_gather = PluginCallTable::all_gather,
                   .reduce_scatter = PluginCallTable::reduce_scatter,
                   .broadcast = PluginCallTable::broadcast,
                   .barrier = PluginCallTable::barrier,
                   .error_text = PluginCallTable::error_text};
  }
}

void PluginGroups::begin_phase(const std::string& phase, const nlohmann::json& change) {
  calls_.clear();
  const std::string kind = change.is_object() ? change.value("kind", "") : "";
  drops_all_ = kind == "drop_backward" && phase == "backward";
  const bool changes_a_call = kind == "skip" || kind == "wrong_group" || kind == "wrong_op";
  change_ = changes_a_call && change.value("phase", "") == phase ? change : nlohmann::json();
  applied_ = change_.is_null() && !drops_all_;
}

void PluginGroups::rethrow_failure() const {
  if (failure_) std::rethrow_exception(failure_);
}

int PluginGroups::make(Group& group, const Call& call) noexcept {
  if (failure_) return LOSSGRID_COMMUNICATION;
  int code = LOSSGRID_COMMUNICATION;
  try {
    code = LOSSGRID_BAD_ARGUMENT;
    const std::size_t bytes = call.count * size_of(element_dtype(call.dtype));
    reduce_op(call.op);
    if (bytes > 0 && (call.send == nullptr || call.receive == nullptr)) {
      throw Error(ErrorCode::rank_failed, "a collective on memory at null");
    }
    code = LOSSGRID_COMMUNICATION;
    const std::size_t parts = call.collective == Collective::reduce_scatter
                                  ? static_cast<std::size_t>(group.table.size)
                                  : 1;
    calls_.push_back({std::string(name(call.collective)), group.table.name,
                      reduces(call.collective) ? std::string(name(reduce_op(call.op))) : "",
                      static_cast<std::int64_t>(parts * bytes)});
    launches_pending() = true;  // the plugin may have launched work
    run(group, call);
    return LOSSGRID_OK;
  } catch (const std::exception& exception) {
    failure_ = std::current_exception();
    failure_text_ = exception.what();
  } catch (...) {
    failure_ = std::current_exception();
  }
  return code;
}

const PluginGroups::Group* PluginGroups::other_group(const Group& group) const {
  const Group& other = &group == groups_.data() ? groups_[1] : groups_[0];
  return other.table.size > 1 ? &other : nullptr;
}

void PluginGroups::leave_to_the_rank(const Group& group, const Call& call) {
  const std::size_t bytes = call.count * size_of(element_dtype(call.dtype));
  const auto rank = static_cast<std::size_t>(group.table.rank);
  auto* receive = static_cast<std::byte*>(call.receive);
  const auto* send = static_cast<const std::byte*>(call.send);
  if (call.collective == Collective::all_gather) {
    if (receive + rank * bytes != send) device_.copy(receive + rank * bytes, send, bytes);
  } else if (call.collective == Collective::reduce_scatter) {
    device_.copy(receive, send + rank * bytes, bytes);
  }
}

void PluginGroups::run(const Group& group, const Call& call) {
  const Group* by = &group;
  int op = call.op;
  const bool is_changed =
      change_.is_object() && change_.at("call").get<std::size_t>() + 1 == calls_.size();
  if (is_changed && change_.at("kind") == "wrong_op" && reduces(call.collective)) {
    op = call.op == LOSSGRID_SUM ? LOSSGRID_MAX : LOSSGRID_SUM;
    applied_ = true;
  }
  if (drops_all_ || (is_changed && change_.at("kind") != "wrong_op")) {
    by = is_changed && change_.at("kind") == "wrong_group" ? other_group(group) : nullptr;
    applied_ = true;
  }
  if (by == nullptr || (by != &group && call.collective != Collective::all_reduce)) {
    return leave_to_the_rank(group, call);
  }
  Communicator& ranks = *by->ranks;
  const DType dtype = element_dtype(call.dtype);
  switch (call.collective) {
    case Collective::all_reduce:
      return ranks.all_reduce(call.receive, call.count, dtype, reduce_op(op));
    case Collective::all_gather:
      return ranks.all_gather(call.send, call.receive, call.count, dtype);
    case Collective::reduce_scatter:
      return ranks.reduce_scatter(call.send, call.receive, call.count, dtype, reduce_op(op));
    case Collective::broadcast:
      return ranks.broadcast(call.receive, call.count, dtype, call.root);
    case Collective::barrier:
      return ranks.barrier();
  }
}

}  // namespace lossgrid
