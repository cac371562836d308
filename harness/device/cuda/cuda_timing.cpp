// SPDX-License-Identifier: Apache-2.0
#include "harness/device/cuda/cuda_timing.h"

#include <cmath>

#include "harness/device/cuda/cuda_call.h"
#include "harness/device/cuda/cuda_devices.h"
#include "harness/device/cuda/cuda_kernels.h"
#include "harness/device/device_work.h"

namespace lossgrid {
namespace {

class Event {
 public:
  Event() { check_cuda(cudaEventCreate(&event_), "cudaEventCreate"); }
  ~Event() { cudaEventDestroy(event_); }
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;

  void record(cudaStream_t stream) {
    check_cuda(cudaEventRecord(event_, stream), "cudaEventRecord");
  }
  cudaEvent_t get() const { return event_; }

 private:
  cudaEvent_t event_ = nullptr;
};

/// End of a thread's timed work.
struct TimedEnd {
  Event* event = nullptr;  // null: the thread is not timing
  bool is_recorded = false;
};

TimedEnd& timed_end() {
  thread_local TimedEnd end;
  return end;
}

/// Longer than the host needs for the launches of a phase before its first wait.
constexpr std::int64_t kGateNs = 100'000;

class CudaTimer final : public DeviceTimer {
 public:
  explicit CudaTimer(Device& device)
      : device_(device), stream_(static_cast<cudaStream_t>(device.stream())) {}
  ~CudaTimer() override { timed_end() = {}; }

  void start() override {
    if (const char* error = cuda_gate(kGateNs, stream_)) throw_cuda_failure("kernel gate", error);
    start_.record(stream_);
    timed_end() = {&end_, false};
  }
  std::int64_t stop() override {
    if (launches_pending() || !timed_end().is_recorded) end_.record(stream_);
    timed_end() = {};
    device_.synchronise();
    check_cuda(cudaEventSynchronize(end_.get()), "cudaEventSynchronize");
    float milliseconds = 0;
    check_cuda(cudaEventElapsedTime(&milliseconds, start_.get(), end_.get()),
               "cudaEventElapsedTime");
    return std::llround(static_cast<double>(milliseconds) * 1e6);
  }

 private:
  Device& device_;
  cudaStream_t stream_;
  Event start_;
  Event end_;
};

}  // namespace

void record_timed_end(void* stream) {
  TimedEnd& end = timed_end();
  if (end.event == nullptr) return;
  end.event->record(static_cast<cudaStream_t>(stream));
  end.is_recorded = true;
}

void forget_timed_end() {
  timed_end().is_recorded = false;
}

std::unique_ptr<DeviceTimer> make_cuda_timer(Device& device) {
  return std::make_unique<CudaTimer>(device);
}

std::int64_t cuda_l2_bytes() {
  if (cuda_devices().no_gpu) return 0;
  int bytes = 0;
  check_cuda(cudaDeviceGetAttribute(&bytes, cudaDevAttrL2CacheSize, 0), "cudaDeviceGetAttribute");
  return bytes;
}

std::string cuda_device_uuid() {
  int device = 0;
  check_cuda(cudaGetDevice(&device), "cudaGetDevice");
  cudaDeviceProp properties{};
  check_cuda(cudaGetDeviceProperties(&properties, device), "cudaGetDeviceProperties");
  std::string text;
  for (const char byte : properties.uuid.bytes) {
    text += fmt::format("{:02x}", static_cast<unsigned char>(byte));
  }
  return text;
}

}  // namespace lossgrid
