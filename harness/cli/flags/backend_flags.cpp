// SPDX-License-Identifier: Apache-2.0
#include "harness/cli/flags/backend_flags.h"

#include <CLI/CLI.hpp>

#include "harness/core/text.h"

namespace lossgrid {
namespace {

/// Returns the reason why `required` is missing, in the form of agree_on_first_error: "" if it is
/// there.
std::string missing(const std::string& required, Backend backend, const Ranks& ranks) {
  if (required == "cuda") return text_of(no_device(Backend::cuda));
  if (required == "mpi") return ranks.launcher() == "mpi" ? "" : "ranks are threads";
  if (required == "nccl") {
    return ranks.has_nccl() ? text_of(ranks.nccl_unavailable(backend, 1))
                            : "it takes --transport nccl";
  }
  const std::vector<std::string> known{"cuda", "mpi", "nccl"};
  throw Error(ErrorCode::bad_input, unknown_name_message("--require", required, known));
}

}  // namespace

void add_backend_flags(CLI::App& command, BackendFlags& flags) {
  command.add_option("--backend", flags.backend,
                     "where kernels run: cpu, cuda, or cuda_emulated (the kernels of cuda, block "
                     "by block on the processor) (default cpu; see lossgrid list backends)");
  command.add_option("--require", flags.require,
                     "refuse to run, instead of skipping trials, where these are not there, comma "
                     "separated: cuda, mpi, nccl");
}

Backend requested_backend(const BackendFlags& flags, const Ranks& ranks) {
  const Backend backend = parse_backend(flags.backend, "--backend: ");
  if (ranks.has_nccl() && !traits_of(backend).launches_kernels) {
    throw Error(ErrorCode::usage, "--transport nccl moves memory of GPUs: it takes --backend cuda");
  }
  for (const std::string& required : parse_list(flags.require)) {
    const std::string reason = ranks.agree_on_first_error(missing(required, backend, ranks));
    if (reason.empty()) continue;
    throw_bad_input("--require {}: {}", required, reason);
  }
  return backend;
}

}  // namespace lossgrid
