// SPDX-License-Identifier: Apache-2.0
// `PluginGroups`: the communicators of a plan as the function tables of the C interface. Records
// the calls of a phase, and keeps the exception of the one that failed: it does not cross the
// plugin. Applies the changes of mutants to calls. One thread.
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

/// The groups of one rank; they outlive the plan.
struct PluginRanks {
  Communicator& tp;
  Communicator& cp;
  Communicator& dp;
  Communicator& world;
};

class PluginGroups {
 public:
  /// `device`: that of the memory that calls are about.
  PluginGroups(const PluginRanks& ranks, Device& device);
  PluginGroups(const PluginGroups&) = delete;
  PluginGroups& operator=(const PluginGroups&) = delete;

  const lossgrid_communicator* tp() const { return &groups_[0].table; }
  const lossgrid_communicator* cp() const { return &groups_[1].table; }
  const lossgrid_communicator* dp() const { return &groups_[2].table; }
  const lossgrid_communicator* world() const { return &groups_[3].table; }

  /// Forgets the calls before. `change`: of a mutant (python/PROTOCOL.md, Mutants), or null.
  void begin_phase(const std::string& phase, const nlohmann::json& change);
  /// Throws the failure of a call, if there was one, whatever the plugin made of it.
  void rethrow_failure() const;
  /// Returns the calls since begin_phase, in their order.
  const LearnedCalls::Calls& calls() const { return calls_; }
  /// True if the change met a call, or there is none to meet.
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
  /// Returns tp for cp and cp for others; null if it is the rank alone.
  const Group* other_group(const Group& group) const;
  /// Does what a call leaves behind that no other rank takes part in.
  void leave_to_the_rank(const Group& group, const Call& call);

  Device& device_;
  std::array<Group, 4> groups_;
  LearnedCalls::Calls calls_;
  nlohmann::json change_;  // of this phase, or null
  bool drops_all_ = false;
  bool applied_ = true;
  std::exception_ptr failure_;
  std::string failure_text_;
};

}  // namespace lossgrid
