// SPDX-License-Identifier: Apache-2.0
#include "harness/runner/job/ranks.h"

#include <algorithm>

#include "harness/comm/nccl/nccl_transport.h"
#include "harness/core/error.h"
#include "harness/device/kernel/rank_threads.h"

namespace lossgrid {

Ranks Ranks::with_nccl() const {
  Ranks ranks = *this;
  ranks.has_nccl_ = true;
  return ranks;
}

std::optional<SkipReason> Ranks::unavailable(Backend backend, int ranks) const {
  if (const auto& reason = no_device(backend)) return SkipReason{"no_device: " + reason->text};
  if (!has_nccl()) return std::nullopt;
  const std::optional<SkipReason> reason = nccl_unavailable(backend, ranks);
  return reason ? std::optional(SkipReason{"no_nccl: " + reason->text}) : std::nullopt;
}

std::optional<SkipReason> Ranks::nccl_unavailable(Backend backend, int ranks) const {
  if (const auto& reason = lossgrid::no_nccl()) return reason;
  if (nccl_is_emulated()) {
    if (backend != Backend::cuda_emulated) {
      return SkipReason{fmt::format("{} names an emulation, which is for backend cuda_emulated",
                                    kNcclLibraryVariable)};
    }
    if (session_ == nullptr) return std::nullopt;
    return SkipReason{"its emulation is for ranks that are threads"};
  }
  if (!traits_of(backend).is_gpu) {
    return SkipReason{"it moves memory of GPUs, as backend cuda has it"};
  }
  if (const auto& reason = no_device(backend)) return reason;
  auto here = static_cast<std::size_t>(ranks);
  if (session_ != nullptr) {
    const std::vector<ProcessCores>& processes = session_->processes_here();
    here = static_cast<std::size_t>(
        std::count_if(processes.begin(), processes.end(),
                      [ranks](const ProcessCores& process) { return process.rank < ranks; }));
  }
  const std::size_t gpus = describe_devices(backend).size();
  if (here <= gpus) return std::nullopt;
  return SkipReason{
      fmt::format("it wants a GPU for every rank: {} ranks on a machine with {} GPU{}", here, gpus,
                  gpus == 1 ? "" : "s")};
}

RanksOutcome Ranks::run_bodies(int count, std::function<void(Communicator& world)> body,
                               std::chrono::milliseconds deadline) const {
  return session_ == nullptr ? run_thread_ranks(count, std::move(body), deadline)
                             : run_mpi_ranks(*session_, count, std::move(body), deadline);
}

nlohmann::ordered_json Ranks::environment() const {
  if (session_ == nullptr) return nullptr;
  return {{"library", session_->library()},
          {"processes", session_->size()},
          {"machines", session_->machines()},
          {"oversubscribed", core_share(session_->size()).oversubscribed}};
}

std::optional<SkipReason> Ranks::agree_on_first_error(
    const std::optional<SkipReason>& reason) const {
  std::string first = first_of(text_of(reason));
  if (first.empty()) return std::nullopt;
  return SkipReason{std::move(first)};
}

std::string Ranks::first_of(const std::string& text) const {
  if (session_ == nullptr) return text;
  // Processes may come at very different times: each makes its own problem and truth before.
  constexpr std::chrono::minutes kPatience{10};
  const auto texts = std::make_shared<std::vector<std::string>>();
  const RanksOutcome outcome = run_bodies(
      session_->size(), [texts, text](Communicator& world) { *texts = gather_texts(world, text); },
      kPatience);
  if (!outcome.all_ok()) {
    throw Error(
        ErrorCode::rank_failed,
        fmt::format("processes do not come to an agreement: {}",
                    outcome.ranks[static_cast<std::size_t>(outcome.first_failed_rank)].message));
  }
  const auto first =
      std::find_if(texts->begin(), texts->end(), [](const std::string& t) { return !t.empty(); });
  return first == texts->end() ? "" : *first;
}

}  // namespace lossgrid
