// SPDX-License-Identifier: Apache-2.0
#include "harness/cli/session.h"

#include <memory>

#include <CLI/CLI.hpp>

#include "harness/cli/flags/allowed_values.h"
#include "harness/comm/launcher.h"
#include "harness/device/kernel/rank_threads.h"

namespace lossgrid {
namespace {

/// Returns the session. A process that ends before end_session, by an exception, ends the whole
/// job.
std::unique_ptr<MpiSession>& session() {
  static std::unique_ptr<MpiSession> instance;
  return instance;
}

}  // namespace

void add_transport_flag(CLI::App& command, std::string& transport) {
  command
      .add_option("--transport", transport,
                  "where ranks are: thread (of this process), mpi (processes of mpirun, mpiexec or "
                  "srun), auto (mpi under one of these, else thread); nccl: as auto, each with a "
                  "GPU of its own, whose memory goes over NCCL (with --backend cuda; "
                  "LOSSGRID_NCCL_LIBRARY names another libnccl.so.2) (default auto; see lossgrid "
                  "list transports)")
      ->check(allowed_values({"auto", "thread", "mpi", "nccl"}));
}

Ranks start_ranks(const std::string& transport) {
  if (transport == "nccl") return start_ranks("auto").with_nccl();
  if (transport == "thread" || (transport == "auto" && !under_launcher())) return Ranks();
  if (!mpi_is_compiled_in()) {
    throw Error(ErrorCode::usage,
                "this build has no MPI (configure with -DLOSSGRID_MPI=ON); --transport thread runs "
                "all ranks in one process");
  }
  if (!session()) {
    int argc = 0;
    char** argv = nullptr;
    session() = std::make_unique<MpiSession>(argc, argv);
    share_machine(session()->rank(), session()->processes_here());
    set_rank_threads(process_threads());  // for inputs, which are made outside of ranks
  }
  return Ranks(*session());
}

std::optional<ReportWriter> open_report(const std::string& path, const RunRecord& run,
                                        const Ranks& ranks) {
  std::optional<ReportWriter> writer;
  std::string refused;
  if (!path.empty() && ranks.reports()) {
    try {
      writer.emplace(path, run);
    } catch (const Error& error) {
      refused = error.what();
    }
  }
  refused = ranks.agree_on_first_error(refused);
  if (!refused.empty()) throw_bad_input("{}", refused);
  return writer;
}

bool is_printing_process() {
  return session() ? session()->rank() == 0 : launcher_rank() == 0;
}

int end_session(int exit_code) {
  if (!session()) return exit_code;
  const int of_rank_0 = session()->finish(exit_code);
  session().reset();
  return of_rank_0;
}

}  // namespace lossgrid
