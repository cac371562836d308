// SPDX-License-Identifier: Apache-2.0
#include "harness/external/plugin/plugin_rank.h"

#include <map>
#include <memory>
#include <utility>

#include <sys/mman.h>
#include <sys/stat.h>

#include "harness/core/error.h"
#include "harness/device/backend.h"
#include "harness/external/plugin/plugin_plan.h"
#include "harness/external/plugin/plugin_serving.h"
#include "harness/external/plugin/remote_group.h"

namespace lossgrid {
namespace {

using Json = nlohmann::json;
using Descriptors = std::vector<Descriptor>;

/// Mapped arena of the host.
class Arena {
 public:
  explicit Arena(const Descriptor& file) {
    struct stat now {};
    if (fstat(file.get(), &now) == 0) bytes_ = static_cast<std::size_t>(now.st_size);
    void* mapped = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0);
    if (mapped == MAP_FAILED) throw Error(ErrorCode::not_enough_memory, "no arena can be mapped");
    memory_ = static_cast<std::byte*>(mapped);
  }
  ~Arena() { munmap(memory_, bytes_); }
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;
  std::byte* memory() const { return memory_; }

 private:
  std::byte* memory_ = nullptr;
  std::size_t bytes_ = 0;
};

/// Plan and the objects that it refers to.
class WorkerPlan {
 public:
  WorkerPlan(const PluginLibrary& library, const Json& begin, Descriptors descriptors, int rank,
             MessageChannel& channel, Device& device)
      : arena_(descriptors.at(0)), payloads_(std::move(descriptors.at(1))) {
    const Json& problem = begin.at("problem");
    const Json& grid = problem.at("grid");
    const int tp = grid.at("tp");
    const int cp = grid.at("cp");
    const int dp = grid.at("dp");
    const auto group = [&](const char* name, int own, int size) {
      return std::make_unique<RemoteGroup>(channel, payloads_, device, name, own, size);
    };
    tp_ = group("tp", rank % tp, tp);
    cp_ = group("cp", rank / tp % cp, cp);
    dp_ = group("dp", rank / (tp * cp), dp);
    world_ = group("world", rank, tp * cp * dp);
    plan_ =
        std::make_unique<PluginPlan>(library.find(begin.at("implementation")), begin.at("options"),
                                     problem, PluginArena{arena_.memory(), begin.at("arrays")},
                                     device, PluginRanks{*tp_, *cp_, *dp_, *world_});
  }

  PluginPlan& plan() { return *plan_; }

 private:
  const Arena arena_;
  PayloadFile payloads_;
  std::unique_ptr<RemoteGroup> tp_;
  std::unique_ptr<RemoteGroup> cp_;
  std::unique_ptr<RemoteGroup> dp_;
  std::unique_ptr<RemoteGroup> world_;
  std::unique_ptr<PluginPlan> plan_;
};

/// Rank of a worker process, which lives as long as the process.
class PluginRank {
 public:
  PluginRank(const PluginLibrary& library, MessageChannel& channel, int rank)
      : library_(library), channel_(channel), rank_(rank) {}

  void run() {
    const auto nothing = [](const Json&, const Descriptors&) { return Json{{"ok", true}}; };
    serve_plugins(
        channel_,
        {{"ping", nothing},
         {"join", nothing},
         {"listen",
          [](const Json&, const Descriptors&) {
            return Json{{"ok", true}, {"port", 1}};
          }},
         {"begin",
          [this](const Json& request, Descriptors descriptors) {
            return begin(request, std::move(descriptors));
          }},
         {"forward",
          [this](const Json& request, const Descriptors&) {
            return with_guards(find_plan(request).forward(request));
          }},
         {"backward",
          [this](const Json& request, const Descriptors&) {
            return with_guards(find_plan(request).backward(request));
          }},
         {"end", [this](const Json& request, const Descriptors&) { return end(request); }}});
  }

 private:
  Json begin(const Json& request, Descriptors descriptors) {
    for (const Json& plan : request.at("forget")) plans_.erase(plan.get<std::int64_t>());
    if (device_ != nullptr) device_->take_broken_guards();  // clears broken guards of those plans
    if (descriptors.size() != 2) {
      throw Error(ErrorCode::rank_failed, "begin came without an arena and a file of payloads");
    }
    const Backend backend =
        request.at("problem").at("device") == "cuda" ? Backend::cuda : Backend::cpu;
    if (device_ == nullptr) device_ = make_device(backend, rank_);
    plans_[request.at("plan").get<std::int64_t>()] = std::make_unique<WorkerPlan>(
        library_, request, std::move(descriptors), rank_, channel_, *device_);
    return {{"ok", true}};
  }

  PluginPlan& find_plan(const Json& request) {
    const auto found = plans_.find(request.at("plan").get<std::int64_t>());
    if (found == plans_.end()) throw Error(ErrorCode::rank_failed, "there is no such plan");
    return found->second->plan();
  }

  Json with_guards(Json answer) {
    for (const std::string& name : device_->take_broken_guards()) answer["beyond"].push_back(name);
    return answer;
  }

  Json end(const Json& request) {
    const std::string left = find_plan(request).end();
    plans_.erase(request.at("plan").get<std::int64_t>());
    device_->take_broken_guards();  // clears guards that have been reported
    return {{"ok", true}, {"left", left}};
  }

  const PluginLibrary& library_;
  MessageChannel& channel_;
  const int rank_;
  std::unique_ptr<Device> device_;
  std::map<std::int64_t, std::unique_ptr<WorkerPlan>> plans_;
};

}  // namespace

void serve_plugin_rank(const PluginLibrary& library, MessageChannel& channel, int rank) {
  PluginRank(library, channel, rank).run();
}

}  // namespace lossgrid
