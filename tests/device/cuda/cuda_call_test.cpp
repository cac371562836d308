// SPDX-License-Identifier: Apache-2.0
// Error codes of CUDA's statuses, without a GPU. In builds with CUDA only.
#include "harness/device/cuda/cuda_call.h"

#include <gmock/gmock.h>

namespace lossgrid {
namespace {

using ::testing::HasSubstr;

Error thrown_for(cudaError_t status) {
  try {
    check_cuda(status, "cudaSomething");
  } catch (const Error& error) {
    return error;
  }
  return Error(ErrorCode::io, "nothing was thrown");
}

TEST(CudaCall, StatusesThatNoCallSurvivesLoseTheDevice) {
  for (const cudaError_t status :
       {cudaErrorECCUncorrectable, cudaErrorNvlinkUncorrectable, cudaErrorIllegalAddress,
        cudaErrorLaunchTimeout, cudaErrorContextIsDestroyed, cudaErrorAssert,
        cudaErrorHardwareStackError, cudaErrorIllegalInstruction, cudaErrorMisalignedAddress,
        cudaErrorInvalidAddressSpace, cudaErrorInvalidPc, cudaErrorLaunchFailure,
        cudaErrorMpsClientTerminated, cudaErrorExternalDevice}) {
    EXPECT_EQ(error_code(status), ErrorCode::device_lost) << status;
  }
#if CUDART_VERSION >= 13000  // by name where the name is known
  EXPECT_TRUE(is_sticky(cudaErrorContained));
  EXPECT_TRUE(is_sticky(cudaErrorTensorMemoryLeak));
#endif
}

TEST(CudaCall, OtherStatusesCostTheTrialOnly) {
  EXPECT_EQ(error_code(cudaErrorMemoryAllocation), ErrorCode::not_enough_memory);
  for (const cudaError_t status :
       {cudaErrorInvalidValue, cudaErrorInvalidConfiguration, cudaErrorLaunchOutOfResources,
        cudaErrorInvalidResourceHandle, cudaErrorNotSupported, cudaErrorNoDevice}) {
    EXPECT_EQ(error_code(status), ErrorCode::internal) << status;
  }
}

TEST(CudaCall, ErrorsNameTheCallAndTheErrorOfCuda) {
  check_cuda(cudaSuccess, "cudaSomething");
  const Error wrong = thrown_for(cudaErrorInvalidConfiguration);
  EXPECT_EQ(wrong.code(), ErrorCode::internal);
  EXPECT_STREQ(wrong.what(),
               "cudaSomething: invalid configuration argument (cudaErrorInvalidConfiguration)");
  EXPECT_FALSE(cuda_is_lost());
  const Error lost = thrown_for(cudaErrorIllegalAddress);
  EXPECT_EQ(lost.code(), ErrorCode::device_lost);
  EXPECT_THAT(lost.what(), HasSubstr("cudaErrorIllegalAddress"));
  EXPECT_TRUE(cuda_is_lost());
  cuda_is_lost() = false;  // other tests run in this process
}

}  // namespace
}  // namespace lossgrid
