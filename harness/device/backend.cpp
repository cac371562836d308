// SPDX-License-Identifier: Apache-2.0
#include "harness/device/backend.h"

#include "harness/core/error.h"
#include "harness/core/text.h"
#include "harness/device/cuda/cuda_devices.h"
#include "harness/device/emulated_device.h"
#include "harness/device/gemm.h"

namespace lossgrid {

std::string_view name(Backend backend) {
  switch (backend) {
    case Backend::cuda:
      return "cuda";
    case Backend::cuda_emulated:
      return "cuda_emulated";
    default:
      return "cpu";
  }
}

Backend parse_backend(std::string_view text, std::string_view where) {
  std::vector<std::string> known;
  for (const Backend backend : all_backends()) {
    if (text == name(backend)) return backend;
    known.emplace_back(name(backend));
  }
  throw Error(
      ErrorCode::bad_input,
      fmt::format("{}{}", where, unknown_name_message("backend", std::string(text), known)));
}

const std::vector<Backend>& all_backends() {
  static const std::vector<Backend> all{Backend::cpu, Backend::cuda, Backend::cuda_emulated};
  return all;
}

const std::string& why_no_device(Backend backend) {
  static const std::string here;
  static const std::string no_gpu = text_of(cuda_devices().no_gpu);
  return backend == Backend::cuda ? no_gpu : here;
}

std::vector<std::string> describe_devices(Backend backend) {
  return backend == Backend::cuda ? cuda_devices().descriptions : std::vector<std::string>{};
}

const KernelTable& kernels_of(Backend backend) {
  return backend == Backend::cuda ? cuda_device_kernels() : cpu_kernels();
}

std::unique_ptr<Device> make_device(Backend backend, int rank) {
  const std::string& why_none = why_no_device(backend);
  if (!why_none.empty()) {
    throw Error(ErrorCode::unsupported,
                fmt::format("no device for backend {}: {}", name(backend), why_none));
  }
  switch (backend) {
    case Backend::cuda:
      return make_cuda_device(rank);
    case Backend::cuda_emulated:
      return make_emulated_device();
    default:
      return make_cpu_device();
  }
}

}  // namespace lossgrid
