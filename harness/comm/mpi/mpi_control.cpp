// SPDX-License-Identifier: Apache-2.0
#include "harness/comm/mpi/mpi_control.h"

#include <utility>

#include "harness/core/archive.h"

namespace lossgrid {
namespace {

// No process is more than one run ahead of another; MPI guarantees tags up to 32767.
constexpr std::uint64_t kTags = 32767;

}  // namespace

// Fields of the messages (archive.h).

template <typename A>
void fields(A& archive, TracedCall& call) {
  archive(call.call, call.communicator, call.number, call.done);
}

template <typename A>
void fields(A& archive, RankTrace& trace) {
  archive(trace.rank, trace.known, trace.phase, trace.end, trace.calls);
}

/// Leaves out the trace, which only rank 0 needs.
template <typename A>
void fields(A& archive, RankOutcome& outcome) {
  archive(outcome.finished, outcome.ok, outcome.code, outcome.message, outcome.busy, outcome.detail,
          outcome.cause);
}

template <typename A>
void fields(A& archive, WorldFailure& failure) {
  archive(failure.culprit, failure.reason);
}

template <typename A>
void fields(A& archive, RankStatus& status) {
  archive(status.outcome, status.outcome.trace, status.gave_up, status.failure, status.steps);
}

template <typename A>
void fields(A& archive, RanksOutcome& outcome) {
  archive(outcome.ranks, outcome.first_failed_rank);
}

template <typename A>
void fields(A& archive, ControlMessage& message) {
  archive(message.kind, message.reason, message.status, message.verdict, message.lost);
}

MpiControl::MpiControl(MpiRuntime& runtime, std::uint64_t run)
    : runtime_(&runtime), tag_(static_cast<int>(run % kTags)) {}

void MpiControl::send_to_all(const ControlMessage& message) {
  const std::string bytes = to_bytes(message);
  for (int rank = 0; rank < runtime_->size; ++rank) {
    if (rank == runtime_->rank) continue;
    Sending& sending = sending_.emplace_back();
    sending.bytes = bytes;
    check_mpi(MPI_Isend(sending.bytes.data(), static_cast<int>(bytes.size()), MPI_BYTE, rank, tag_,
                        runtime_->control, &sending.request),
              "MPI_Isend");
  }
}

std::optional<ControlMessage> MpiControl::receive() {
  int there = 0;
  MPI_Message matched = MPI_MESSAGE_NULL;
  MPI_Status status;
  check_mpi(MPI_Improbe(MPI_ANY_SOURCE, tag_, runtime_->control, &there, &matched, &status),
            "MPI_Improbe");
  if (there == 0) return std::nullopt;
  int length = 0;
  check_mpi(MPI_Get_count(&status, MPI_BYTE, &length), "MPI_Get_count");
  std::string bytes(static_cast<std::size_t>(length), '\0');
  // The message is in a buffer of its sender, which polls too: this does not wait long.
  check_mpi(MPI_Mrecv(bytes.data(), length, MPI_BYTE, &matched, MPI_STATUS_IGNORE), "MPI_Mrecv");
  ControlMessage message = from_bytes<ControlMessage>(bytes);
  message.from = status.MPI_SOURCE;
  return message;
}

bool MpiControl::all_sent() {
  sending_.remove_if([](Sending& sending) {
    int done = 0;
    check_mpi(MPI_Test(&sending.request, &done, MPI_STATUS_IGNORE), "MPI_Test");
    return done != 0;
  });
  return sending_.empty();
}

void MpiControl::give_up() {
  static_cast<void>(new std::list<Sending>(std::move(sending_)));
  sending_.clear();
}

}  // namespace lossgrid
