// SPDX-License-Identifier: Apache-2.0
#include "harness/comm/mpi/mpi_control.h"

#include <utility>
#include <vector>

namespace lossgrid {
namespace {

using Json = nlohmann::json;

// Nobody is more than one run ahead of another process; MPI promises tags up to 32767.
constexpr std::uint64_t kTags = 32767;

/// Without its trace, which only rank 0 has to know.
Json to_json(const RankOutcome& outcome) {
  return {outcome.finished, outcome.ok,     static_cast<int>(outcome.code), outcome.message,
          outcome.busy,     outcome.detail, static_cast<int>(outcome.cause)};
}

RankOutcome outcome_from(const Json& json) {
  return {json[0], json[1], static_cast<ErrorCode>(json[2].get<int>()), json[3], json[4],
          {},      json[5], static_cast<Cause>(json[6].get<int>())};
}

Json to_json(const RankTrace& trace) {
  Json calls = Json::array();
  for (const TracedCall& call : trace.calls) {
    calls.push_back({call.call, call.communicator, call.number, call.done});
  }
  return {trace.rank, trace.known, static_cast<int>(trace.phase), static_cast<int>(trace.end),
          std::move(calls)};
}

RankTrace trace_from(const Json& json) {
  RankTrace trace{json[0],
                  json[1],
                  static_cast<RankPhase>(json[2].get<int>()),
                  static_cast<RankEnd>(json[3].get<int>()),
                  {}};
  for (const Json& call : json[4]) trace.calls.push_back({call[0], call[1], call[2], call[3]});
  return trace;
}

std::string encode(const ControlMessage& message) {
  Json json{{"kind", static_cast<int>(message.kind)}};
  switch (message.kind) {
    case ControlMessage::Kind::abort:
      json["reason"] = message.reason;
      break;
    case ControlMessage::Kind::status:
      json["outcome"] = to_json(message.status.outcome);
      json["trace"] = to_json(message.status.outcome.trace);
      json["gave_up"] = message.status.gave_up;
      if (const auto& failure = message.status.failure) {
        json["failure"] = Json{{"culprit", failure->culprit}, {"reason", failure->reason}};
      }
      json["steps"] = message.status.steps;
      break;
    case ControlMessage::Kind::verdict:
      json["ranks"] = Json::array();
      for (const RankOutcome& rank : message.verdict.ranks) json["ranks"].push_back(to_json(rank));
      json["first_failed_rank"] = message.verdict.first_failed_rank;
      json["lost"] = message.lost;
      break;
  }
  // What bodies throw need not be UTF-8.
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

ControlMessage decode(const std::string& text) {
  const Json json = Json::parse(text);
  ControlMessage message;
  message.kind = static_cast<ControlMessage::Kind>(json.at("kind").get<int>());
  switch (message.kind) {
    case ControlMessage::Kind::abort:
      message.reason = json.at("reason");
      break;
    case ControlMessage::Kind::status:
      message.status.outcome = outcome_from(json.at("outcome"));
      message.status.outcome.trace = trace_from(json.at("trace"));
      message.status.gave_up = json.at("gave_up");
      if (const auto failure = json.find("failure"); failure != json.end()) {
        message.status.failure = WorldFailure{failure->at("culprit"), failure->at("reason")};
      }
      json.at("steps").get_to(message.status.steps);
      break;
    case ControlMessage::Kind::verdict:
      for (const Json& rank : json.at("ranks")) {
        message.verdict.ranks.push_back(outcome_from(rank));
      }
      message.verdict.first_failed_rank = json.at("first_failed_rank");
      message.lost = json.at("lost");
      break;
  }
  return message;
}

}  // namespace

MpiControl::MpiControl(MpiRuntime& runtime, std::uint64_t run)
    : runtime_(&runtime), tag_(static_cast<int>(run % kTags)) {}

void MpiControl::send_to_all(const ControlMessage& message) {
  const std::string text = encode(message);
  for (int rank = 0; rank < runtime_->size; ++rank) {
    if (rank == runtime_->rank) continue;
    Sending& sending = sending_.emplace_back();
    sending.text = text;
    check_mpi(MPI_Isend(sending.text.data(), static_cast<int>(text.size()), MPI_CHAR, rank, tag_,
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
  check_mpi(MPI_Get_count(&status, MPI_CHAR, &length), "MPI_Get_count");
  std::string text(static_cast<std::size_t>(length), '\0');
  // Its sender has it in a buffer already and goes on by its own tests: this does not wait long.
  check_mpi(MPI_Mrecv(text.data(), length, MPI_CHAR, &matched, MPI_STATUS_IGNORE), "MPI_Mrecv");
  ControlMessage message = decode(text);
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
