// SPDX-License-Identifier: Apache-2.0
#include "harness/core/process/shared_library.h"

#include <utility>

#include <dlfcn.h>
#include <fmt/format.h>

#include "harness/core/error.h"

namespace lossgrid {

SharedLibrary::SharedLibrary(std::string path)
    : path_(std::move(path)), library_(dlopen(path_.c_str(), RTLD_NOW | RTLD_LOCAL)) {
  if (library_ == nullptr) throw Error(ErrorCode::unsupported, dlerror());
}

void* SharedLibrary::find_symbol(const char* name) const {
  return dlsym(library_, name);
}

void SharedLibrary::throw_missing(const char* name) const {
  throw Error(ErrorCode::unsupported, fmt::format("{} has no {}", path_, name));
}

}  // namespace lossgrid
