// SPDX-License-Identifier: Apache-2.0
// `PluginGroups`: the communicators of a plan as the function tables of the C interface. Records
// the calls of a phase. Keeps the exception of a failed call, which must not cross the plugin.
// Applies the changes of mutants to calls. One thread.
#pragma once

#include <array>
#include <exception>
#include <memory>
#include <string>

#include <nlohmann/json.hpp>

#include "harness/comm/native_communicator.h"
#include "harness/device/device.h"
#include "harness/external/learned_calls.h"
#include "lossgrid/plugin.h"

namespace lossgrid {

/// Groups of one rank, which must outlive the plan.
struct PluginRanks {
  Communicator& tp;
  Communicator& cp;
  Communicator& dp;
  Communicator& world;
};

class PluginGroups {
 public:
  /// `device` owns the memory of the calls' payloads.
  PluginGroups(const PluginRanks& ranks, Device& device);
  PluginGroups(const PluginGroups&) = delete;
  PluginGroups& operator=(const PluginGroups&) = delete;

  const lossgrid_communicator* tp() const { return &groups_[0].table; }
  const lossgrid_communicator* cp() const { return &groups_[1].table; }
  const lossgrid_communicator* dp() const { return &groups_[2].table; }
  const lossgrid_communicator* world() const { return &groups_[3].table; }

  /// Forgets earlier calls. `change` is the change of a mutant (python/PROTOCOL.md, Mutants), or
  /// null.
  void begin_phase(const std::string& phase, const nlohmann::json& change);
  /// Throws the failure of a call, if any call failed, even if the plugin ignored the failure.
  void rethrow_failure() const;
  /// Returns the calls since begin_phase, in order.
  const LearnedCalls::Calls& calls() const { return calls_; }
  /// True if the change was applied to a call, or applies to no call.
  bool applied() const { return applied_; }

 private:
  struct Group {
    lossgrid_communicator table{};
    Communicator* ranks = nullptr;
    PluginGroups* owner = nullptr;
  };
  struct Call {
    Collective collective;
    const void* send;
    void* receive;
    std::size_t count;
    int dtype;
    int op = LOSSGRID_SUM;
    int root = 0;
  };
  friend struct PluginCallTable;

  /// Makes a call of the plugin; returns a code.
  int make(Group& group, const Call& call) noexcept;
  void run(const Group& group, const Call& call);
  /// Returns cp, or tp if `group` is cp; null if that group has one rank only.
  const Group* other_group(const Group& group) const;
  /// Makes the call on this rank alone, without other ranks.
  void leave_to_the_rank(const Group& group, const Call& call);

  Device& device_;
  std::array<Group, 4> groups_;
  LearnedCalls::Calls calls_;
  nlohmann::json change_;  // change of this phase, or null
  bool drops_all_ = false;
  bool applied_ = true;
  std::exception_ptr failure_;
  std::string failure_text_;
};

}  // namespace lossgrid
