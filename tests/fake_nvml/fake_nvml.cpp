// SPDX-License-Identifier: Apache-2.0
// The functions of NVML that are used, for one GPU: its clock falls by 100 MHz a reading, its
// temperature is not known.
#include <cstring>

namespace {

int device;
unsigned sm_mhz = 1980;

}  // namespace

extern "C" {

int nvmlInit_v2() {
  return 0;
}

int nvmlDeviceGetHandleByUUID(const char* uuid, void** found) {
  *found = &device;
  return std::strcmp(uuid, "GPU-01234567-89ab-cdef-0123-456789abcdef") == 0 ? 0 : 6;
}

const char* nvmlErrorString(int status) {
  return status == 6 ? "Not Found" : "?";
}

int nvmlDeviceGetClockInfo(void* of, int type, unsigned* mhz) {
  if (of != &device) return 2;
  *mhz = type == 2 ? 3201 : sm_mhz;
  if (type == 1) sm_mhz -= 100;
  return 0;
}

int nvmlDeviceGetPowerUsage(void* /*of*/, unsigned* milliwatts) {
  *milliwatts = 699500;
  return 0;
}

int nvmlDeviceGetTemperature(void* /*of*/, int /*sensor*/, unsigned* /*celsius*/) {
  return 3;  // not supported
}

int nvmlDeviceGetCurrentClocksThrottleReasons(void* /*of*/, unsigned long long* reasons) {
  *reasons = 0x1 | 0x4 | 0x40 | 0x8000;
  return 0;
}

}  // extern "C"
